"""Turns: a user input that starts one, and all the agent's work until it ends.

A turn starts at an input of a user that is not marked `steer`. It is over at its `turn.ended`, or at the next starting
input on the path (then: interrupted).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

from .selection_v1 import Covered, Slot
from .view_v1 import Call, Input, Node, PendingCleared, Result, Segment, TurnEnd

OPEN = "open"
INTERRUPTED = "interrupted"
DONE = "done"


class Turn(msgspec.Struct, frozen=True, gc=False):
    """Some slots of a path that belong together."""

    slots: tuple[Slot, ...]
    state: str
    """done, incomplete, error, interrupted, or open while it runs; empty for what belongs to no turn."""
    native: bool
    """Whether the turn's own parts are to be replayed: it is not done, and nothing has settled it since."""

    @property
    def start(self) -> int:
        """The position of its first slot."""
        return self.slots[0].position


def starts_turn(slot: Slot) -> bool:
    """Whether a turn begins here."""
    if isinstance(slot, Covered):
        return False
    body = slot.body
    return isinstance(body, Input) and body.role == "user" and not body.steer


def turns(slots: Sequence[Slot], notes: Iterable[Node]) -> list[Turn]:
    """Divide a path's slots into turns; what a summary covers is a turn of its own, settled."""
    ends: dict[int, str] = {}
    cleared: list[int] = []
    for note in notes:
        if isinstance(note.body, TurnEnd):
            ends[note.body.node] = note.body.state
        elif isinstance(note.body, PendingCleared):
            cleared.append(note.body.node)
    bounds = _bounds(slots)
    states = [_state(slots[first:stop], ends, is_last=stop == len(slots)) for first, stop in pairwise(bounds)]
    last_done = max((index for index, state in enumerate(states) if state == DONE), default=-1)
    settled = _last_cleared(slots, cleared)
    return [
        Turn(
            slots=tuple(slots[first:stop]),
            state=state,
            native=state not in {DONE, ""} and index > last_done and slots[stop - 1].position > settled,
        )
        for index, ((first, stop), state) in enumerate(zip(pairwise(bounds), states, strict=True))
    ]


def _bounds(slots: Sequence[Slot]) -> list[int]:
    """Give the indexes at which a turn, or a summary, begins, and the end."""
    bounds = []
    after_summary = True
    for index, slot in enumerate(slots):
        if isinstance(slot, Covered):
            bounds.append(index)
            after_summary = True
        elif after_summary or starts_turn(slot):
            bounds.append(index)
            after_summary = False
    return [*bounds, len(slots)]


def _last_cleared(slots: Sequence[Slot], cleared: Sequence[int]) -> int:
    if not cleared:
        return 0
    here = {slot.position for slot in slots if isinstance(slot, Node)}
    return max((node for node in cleared if node in here), default=0)


def _state(part: Sequence[Slot], ends: Mapping[int, str], *, is_last: bool) -> str:
    if isinstance(part[0], Covered):
        return ""
    for slot in reversed(part):
        if slot.position in ends:
            return ends[slot.position]
    # What follows a summary that covers a turn's beginning is still that turn's work.
    if not starts_turn(part[0]) and not any(_is_work(slot) for slot in part):
        return ""
    return OPEN if is_last else INTERRUPTED


def _is_work(slot: Slot) -> bool:
    return isinstance(slot, Node) and isinstance(slot.body, Segment | Call | Result)
