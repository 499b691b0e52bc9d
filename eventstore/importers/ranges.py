"""The ranges that imported summaries cover."""

from __future__ import annotations

from collections.abc import Sequence

from blake3 import blake3

from ..events import Event, InputAdded, SummaryAdded, ToolCalled, ToolReturned
from ..thread import Thread
from .base import Compaction
from .weave import Weave


def range_above(weave: Weave, last: int, keeps: int | None) -> list[int]:
    """Give the nodes from behind the summary before (or the root) down to `last`, or to the one above `keeps`."""
    tree = weave.tree
    if keeps is not None and tree.is_above(keeps, last):
        last = tree.parent(keeps) or 0
    path = tree.path(last)[1:] if last else []
    return path[path.index(weave.covered) + 1 :] if weave.covered in path else path


def named_range(weave: Weave, first: int, last: int) -> list[int]:
    """Give the nodes of a range whose ends the source names."""
    path = weave.tree.path(last)
    return path[path.index(first) :] if first in path else [first, last]


def summary_over(
    thread: Thread | None, nodes: Sequence[int], compaction: Compaction, *, exact: bool
) -> SummaryAdded | None:
    """Give the summary over a range of stored nodes; None when it is not closed, unless it is taken as it is.

    Without a thread (on a dry run) nothing can be looked at, and the range counts as closed.
    """
    wanted = set(nodes)
    events = (
        [] if thread is None else [event for event in thread.path(nodes[-1], outputs=False) if event.position in wanted]
    )
    if not exact and not is_closed(events):
        return None
    return SummaryAdded(
        first=nodes[0],
        last=nodes[-1],
        text=compaction.text,
        halves=compaction.halves,
        maker=compaction.maker,
        covered=blake3(b"".join(event.hash for event in events)).hexdigest() if events else "",
        nodes=len(nodes),
        extra=compaction.extra,
    )


def is_closed(events: Sequence[Event]) -> bool:
    """Whether a run of a path parts no call from its result, and leaves none open whose turn still runs at its end."""
    inside: set[int] = set()
    unanswered: set[int] = set()
    for event in events:
        if isinstance(event.body, ToolCalled):
            inside.add(event.position)
            unanswered.add(event.position)
        elif isinstance(event.body, ToolReturned):
            call = event.ref("answers")
            if call is not None and call not in inside:
                return False
            unanswered.discard(call or 0)
        elif isinstance(event.body, InputAdded) and event.body.role == "user" and not event.body.steer:
            # The turn before is over: what it left unanswered stays so.
            unanswered.clear()
    return not unanswered
