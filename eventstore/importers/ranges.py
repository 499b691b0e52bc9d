"""The ranges that imported summaries cover."""

from __future__ import annotations

from ..errors import BadRange, NotClosed
from ..events import SummaryAdded
from ..ranges import closed_range, covered_hash
from ..thread import Thread
from .base import Compaction
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
