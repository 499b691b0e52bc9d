"""Which nodes of a path stand in a prompt for themselves, and where a summary stands for a run of them.

From the newest stored summary to the oldest, one is taken if its whole range lies on this path, it is not invalidated,
nothing that it covers was redacted after it, and it overlaps none already taken.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import msgspec

from .view_v1 import Invalidated, Node, Redacted, Result, Summary


class Covered(msgspec.Struct, frozen=True, gc=False):
    """A summary in the place of the nodes it covers."""

    position: int
    """The summary's own position."""
    text: str
    nodes: tuple[Node, ...]


Slot = Node | Covered


class Selection(msgspec.Struct, frozen=True, gc=False):
    """The path's slots in order, and the results left out because a summary covers their call."""

    slots: list[Slot]
    late: list[Node]


def select(path: Sequence[Node], notes: Iterable[Node]) -> Selection:
    """Put summaries in the place of what they cover."""
    notes = list(notes)
    taken = _applicable(path, notes)
    if not taken:
        return Selection(list(path), [])
    slots: list[Slot] = []
    late: list[Node] = []
    covered: set[int] = set()
    position_of_first = {first: (summary, last) for summary, first, last in taken}
    index = 0
    while index < len(path):
        found = position_of_first.get(index)
        node = path[index]
        if found is not None:
            summary, last = found
            nodes = tuple(path[index : last + 1])
            covered.update(inner.position for inner in nodes)
            body = summary.body
            assert isinstance(body, Summary)
            slots.append(Covered(summary.position, body.text, nodes))
            index = last + 1
            continue
        if isinstance(node.body, Result) and node.answers in covered:
            late.append(node)
        else:
            slots.append(node)
        index += 1
    return Selection(slots, late)


def _applicable(path: Sequence[Node], notes: Sequence[Node]) -> list[tuple[Node, int, int]]:
    """Give (summary, index of its first node, index of its last) of the summaries that apply."""
    gone = {note.body.summary for note in notes if isinstance(note.body, Invalidated)}
    redacted = [
        (note.position, target.position)
        for note in notes
        if isinstance(note.body, Redacted)
        for target in note.body.targets
    ]
    positions = [node.position for node in path]
    taken: list[tuple[Node, int, int]] = []
    for note in sorted(notes, key=_position, reverse=True):
        if not isinstance(note.body, Summary) or note.position in gone:
            continue
        first, last = _index(positions, note.body.first), _index(positions, note.body.last)
        if first is None or last is None or last < first:
            continue
        if any(first <= other_last and other_first <= last for _, other_first, other_last in taken):
            continue
        inside = set(positions[first : last + 1])
        if any(when > note.position and target in inside for when, target in redacted):
            continue
        taken.append((note, first, last))
    return taken


def _position(node: Node) -> int:
    return node.position


def _index(positions: Sequence[int], position: int) -> int | None:
    index = bisect_left(positions, position)
    return index if index < bisect_right(positions, position) else None
