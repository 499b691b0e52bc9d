"""The drawing of a tree: whatever the tree, lines lead from each node to its parent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from convlog.projections.graph import Item, Row, draw

ROOT = None
parent_lists = st.lists(st.integers(0, 10**6), max_size=40).map(
    lambda picks: {1: ROOT} | {number: 1 + pick % (number - 1) for number, pick in enumerate(picks, start=2)}
)
"""Trees: each node's parent is some earlier one."""


def _drawn(parents: dict[int, int | None]) -> list[Row]:
    return list(draw(Item(node, parents[node], "●") for node in sorted(parents, reverse=True)))


@given(parent_lists)
def test_every_node_is_drawn_once_and_above_its_parent(parents: dict[int, int | None]) -> None:
    rows = [row.id for row in _drawn(parents) if row.id is not None]
    assert sorted(rows) == sorted(parents)
    places = {node: index for index, node in enumerate(rows)}
    assert all(places[node] < places[parent] for node, parent in parents.items() if parent is not None)


@given(parent_lists)
def test_the_line_below_a_node_leads_to_its_parent(parents: dict[int, int | None]) -> None:
    rows = _drawn(parents)
    for index, row in enumerate(rows):
        if row.id is not None and parents[row.id] is not None:
            assert _follow(rows, index) == parents[row.id]


def _follow(rows: list[Row], index: int) -> int | None:
    """Walk down from a node along the line, as an eye does."""
    column = rows[index].cells.index("●")
    while True:
        index += 1
        cells = rows[index].cells
        char = cells[column]
        if char == "●":
            return rows[index].id
        if char == "╯":
            while cells[column] != "├":
                column -= 1
                assert cells[column] in "─┼├"
        else:
            assert char in "│├┼"


@given(parent_lists)
def test_a_drawing_is_no_wider_than_the_branches_that_are_open(parents: dict[int, int | None]) -> None:
    rows = _drawn(parents)
    leaves = len(set(parents) - set(parents.values()))
    assert max(len(row.cells) for row in rows) <= 2 * leaves + 1


def test_a_branch_joins_its_fork() -> None:
    parents = {1: None, 2: 1, 3: 2, 4: 2, 5: 3}
    assert [row.cells for row in _drawn(parents)] == ["●", "│ ●", "● │", "├─╯", "●", "●"]


def test_a_line_that_is_passed_is_crossed() -> None:
    parents = {1: None, 2: 1, 3: 1, 4: 2, 5: 3, 6: 2}
    assert "├─┼─╯" in [row.cells for row in _drawn(parents)]


def test_a_list_that_was_cut_leaves_its_lines_open() -> None:
    assert list(draw([Item(9, 8, "●"), Item(7, 3, "○")])) == [Row(9, "●"), Row(7, "│ ○")]


def test_many_siblings_stay_two_columns_wide() -> None:
    parents = {1: None} | dict.fromkeys(range(2, 1000), 1)
    assert max(len(row.cells) for row in _drawn(parents)) == 3
