"""The ranges that imported summaries cover."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import BadRange, NotClosed
from ..events import Event, InputAdded, SegmentAdded, SummaryAdded, ToolCalled, ToolReturned
from ..ranges import closed_range, covered_hash
from ..thread import Thread
from .base import Compaction, Item
from .known import key_part, parse_key
from .weave import Weave


def range_above(weave: Weave, last: int, keeps: int | None, *, whole: bool = False) -> tuple[int, int] | None:
    """Give the run from behind the summary before (or the root) down to `last`, or to the node above `keeps`.

    With `whole` it begins at the root whatever is summed up already. None when no node lies there.
    """
    tree = weave.tree
    if keeps is not None and tree.is_above(keeps, last):
        last = tree.parent(keeps) or 0
    path = tree.path(last)[1:] if last else []
    if not whole and weave.covered in path:
        path = path[path.index(weave.covered) + 1 :]
    return (path[0], path[-1]) if path else None


def first_kept(weave: Weave, thread: Thread | None, last: int, compaction: Compaction) -> int | None:
    """Give the first node of the path to `last` that a summary leaves out; None where it leaves out nothing.

    Without a thread, as on a dry run, a record is taken for its last node, and nothing that is said again is found.
    """
    if compaction.tail:
        return None if thread is None else _tail(weave, thread, last, compaction.tail)
    name = None if compaction.keeps is None else key_part(compaction.keeps)
    place = None if name is None else weave.known.place(name)
    if not place or thread is None:
        return place or None
    first, node = None, place
    while node and _came_of(thread.event(node, output=False), name):
        first, node = node, weave.tree.parent(node) or 0
    if first is None and weave.tree.is_above(place, last):
        # A record that says nothing itself stands at the node above it.
        first = next((node for node in weave.tree.path(last) if node > place), None)
    return first


def _came_of(event: Event, name: str | None) -> bool:
    named = None if event.key is None else parse_key(event.key)
    return named is not None and named[0] == name


def _tail(weave: Weave, thread: Thread, last: int, tail: Sequence[Item]) -> int | None:
    """Find what is said again at the end of the path, from its last word back as far as it is the same."""
    found, node = None, last
    for item in reversed(tail):
        event = thread.event(node) if node > 1 else None
        if event is None or callable(item.body) or _words(event.body, event.output) != _words(item.body, item.output):
            break
        found, node = node, weave.tree.parent(node) or 0
    return found


def _words(body: object, output: bytes | None) -> tuple[object, ...]:
    """Give what a node says, without what a source may write otherwise the second time."""
    match body:
        case InputAdded():
            return "input", body.content
        case SegmentAdded():
            return body.kind, body.text, body.opaque
        case ToolCalled():
            return "call", body.call, body.name, body.input
        case ToolReturned():
            return "result", body.call, output
    return (body,)


def summary_over(thread: Thread | None, first: int, last: int, compaction: Compaction) -> SummaryAdded | None:
    """Give the summary over a run of a stored path; None when the range is not closed.

    Without a thread, as on a dry run, nothing can be looked at, and the range counts as closed.
    """
    covered, count = "", 0
    if thread is not None:
        try:
            nodes = closed_range(thread, first, last, on=last)
        except (BadRange, NotClosed):
            return None
        covered, count = covered_hash(thread, nodes), len(nodes)
    return SummaryAdded(
        first=first,
        last=last,
        text=compaction.text,
        halves=compaction.halves,
        maker=compaction.maker,
        covered=covered,
        nodes=count,
        extra=compaction.extra,
    )
