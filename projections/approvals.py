"""Whether a leaf waits for somebody's decision: then nothing is to be sent yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convlog.eventstore.events import ApprovalAnswered, ApprovalAsked, InputAdded, ToolReturned

if TYPE_CHECKING:
    from .conversation import Thread

_TYPES = (ApprovalAsked.TYPE, ApprovalAnswered.TYPE, ToolReturned.TYPE, InputAdded.TYPE)


def open_approval(thread: Thread, leaf: int) -> int | None:
    """Give the position of the first approval asked on the path to `leaf` that is still open; None for none.

    An answer closes the approval that it refers to (`answers`), or else the last one asked. The result of a call closes
    what was asked about that call, and an input of the user closes all: the talk went on without.
    """
    asked = thread.store.log(thread.id).positions_of((ApprovalAsked.TYPE,), last=leaf)
    if not asked:
        return None
    tree = thread.tree
    waiting: dict[int, str | None] = {}
    for event in thread.events(first=asked[0], last=leaf, types=_TYPES, outputs=False):
        if not tree.is_above(event.position, leaf):
            continue
        call = getattr(event.body, "call", None)
        if event.type == ApprovalAsked.TYPE:
            waiting[event.position] = call
        elif event.type == ApprovalAnswered.TYPE:
            waiting.pop(event.ref("answers") or next(reversed(waiting), 0), None)
        elif event.type == ToolReturned.TYPE:
            waiting = {position: about for position, about in waiting.items() if about not in {None, call}}
        else:
            waiting.clear()
    return next(iter(waiting), None)
