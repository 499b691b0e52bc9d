"""Draws a tree of events beside a list of them, newest first: pure, items in, rows of cells out.

A column is a line that waits for a node. A node takes the leftmost column that waits for it; when its parent is waited
for already, the two lines become one at once, so that a drawing is as wide as the branches that are open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

GLYPHS = {"active": "●", "other": "○", "summary": "◆", "edit": "✎"}


class Item(NamedTuple):
    """A thing to draw, and the item (drawn later) that it hangs from."""

    id: int
    parent: int | None
    glyph: str


class Row(NamedTuple):
    """One line of the drawing; `id` is the item whose line it is, None for a line that only joins."""

    id: int | None
    cells: str


def draw(items: Iterable[Item]) -> Iterator[Row]:
    """Draw items, every child before its parent.

    A parent that never comes leaves its line open at the end, as for a list that was cut.
    """
    columns: list[int | None] = []
    for item in items:
        column = _take_column(columns, item.id)
        yield Row(item.id, _node_cells(columns, column, item.glyph))
        if item.parent is None or item.parent not in columns:
            columns[column] = item.parent
        else:
            # Both lines wait for the same node from here on: the left one goes on, the right one ends in it.
            low, high = sorted((column, columns.index(item.parent)))
            columns[low], columns[high] = item.parent, None
            yield Row(None, _joining_cells(columns, low, high))
        while columns and columns[-1] is None:
            columns.pop()


def _take_column(columns: list[int | None], node: int) -> int:
    """Give the column that waits for a node, or the first free one."""
    if node in columns:
        return columns.index(node)
    if None in columns:
        column = columns.index(None)
    else:
        column = len(columns)
        columns.append(None)
    columns[column] = node
    return column


def _node_cells(columns: Sequence[int | None], column: int, glyph: str) -> str:
    cells = [" " if waiting is None else "│" for waiting in columns]
    cells[column] = glyph
    return " ".join(cells).rstrip()


def _joining_cells(columns: Sequence[int | None], low: int, high: int) -> str:
    """Draw the line of column `high` into column `low`, over the lines between."""
    cells = [" " if waiting is None else "│" for waiting in columns]
    for index in range(low + 1, high):
        cells[index] = "─" if columns[index] is None else "┼"
    cells[low], cells[high] = "├", "╯"
    text = cells[0]
    for index in range(1, len(cells)):
        text += ("─" if low < index <= high else " ") + cells[index]
    return text.rstrip()
