"""Turns: a user input that starts one, and all the agent's work until it ends.

A turn starts at an input of a user that is not marked `steer`. It is over at its `turn.ended`, or at the next starting
input on the path (then: interrupted).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from .selection_v1 import Covered, Slot
from .view_v1 import Call, Input, Node, PendingCleared, Result, Segment, TurnEnd

OPEN = "open"
INTERRUPTED = "interrupted"
DONE = "done"


class Turn(msgspec.Struct, frozen=True):
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
    return isinstance(slot, Node) and isinstance(slot.body, Input) and slot.body.role == "user" and not slot.body.steer


def turns(slots: Sequence[Slot], notes: Iterable[Node]) -> list[Turn]:
    """Divide a path's slots into turns; what a summary covers is a turn of its own, settled."""
    ends: dict[int, TurnEnd] = {}
    cleared = 0
    here = {slot.position for slot in slots if isinstance(slot, Node)}
    for note in notes:
        if isinstance(note.body, TurnEnd):
            ends[note.body.node] = note.body
        elif isinstance(note.body, PendingCleared) and note.body.node in here:
            cleared = max(cleared, note.body.node)
    divided = _divide(slots)
    states = [_state(part, ends, is_last=index == len(divided) - 1) for index, part in enumerate(divided)]
    last_done = max((index for index, state in enumerate(states) if state == DONE), default=-1)
    return [
        Turn(
            slots=tuple(part),
            state=states[index],
            native=states[index] not in {DONE, ""} and index > last_done and part[-1].position > cleared,
        )
        for index, part in enumerate(divided)
    ]


def _divide(slots: Sequence[Slot]) -> list[list[Slot]]:
    divided: list[list[Slot]] = []
    for slot in slots:
        if not divided or starts_turn(slot) or isinstance(slot, Covered) or isinstance(divided[-1][0], Covered):
            divided.append([])
        divided[-1].append(slot)
    return divided


def _state(part: Sequence[Slot], ends: dict[int, TurnEnd], *, is_last: bool) -> str:
    if isinstance(part[0], Covered):
        return ""
    ended = [ends[slot.position] for slot in part if slot.position in ends]
    if ended:
        return ended[-1].state
    # What follows a summary that covers a turn's beginning is still that turn's work.
    if not starts_turn(part[0]) and not any(_is_work(slot) for slot in part):
        return ""
    return OPEN if is_last else INTERRUPTED


def _is_work(slot: Slot) -> bool:
    return isinstance(slot, Node) and isinstance(slot.body, Segment | Call | Result)
