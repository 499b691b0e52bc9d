"""How far back an event reaches: the earliest node that what it says may change the prompt of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from convlog.eventstore.backend import Record
from convlog.eventstore.records import decode_refs

from .stages.view_v1 import Context, Stored, Todos, read_all

NOWHERE = 2**62
"""Behind all positions."""

STANDING = frozenset({"instructions.set", "tools.set", "context.set", "todo.written"})
BY_MODEL = frozenset({"segment.added", "tool.called", "tool.returned"})
"""Nodes that may be of a response."""

REPLACEABLE = frozenset({"context.set", "todo.written"})

_MEMBER = {"turn.ended": "node", "pending.cleared": "node", "summary.added": "first", "result.promoted": "call"}
"""Where a note names the earliest node that it speaks of."""


class _Speaks(msgspec.Struct):
    node: int = 0
    first: int = 0
    last: int = 0
    call: int = 0


_speaks = msgspec.json.Decoder(_Speaks).decode


def reaches(note: Record | Stored) -> int:
    """Give the earliest node that a note says something of; 0 for what may say something of all."""
    member = _MEMBER.get(note.type)
    return 0 if member is None else getattr(_speaks(note.body or b"{}"), member)


def stays(note: Record | Stored, boundary: int) -> bool:
    """Whether a window that begins at a boundary needs a note."""
    return note.type not in _MEMBER or reaches(note) >= boundary


def crosses(note: Stored, boundary: int) -> bool:
    """Whether a summary covers nodes on both sides of a boundary."""
    if note.type != "summary.added":
        return False
    body = _speaks(note.body or b"{}")
    return body.first < boundary <= body.last


def answered(node: Record | Stored) -> int:
    """Give the call that a result answers; for what answers none, a position behind all."""
    return next((position for word, position in decode_refs(node.refs) if word == "answers"), NOWHERE)


def answers_before(nodes: Iterable[Stored], boundary: int) -> bool:
    """Whether a node from a boundary on answers a call before it: it parts what the model said otherwise than there."""
    return any(answered(each) < boundary for each in nodes if each.position >= boundary)


class _Responds(msgspec.Struct):
    response: str | None = None


_responds = msgspec.json.Decoder(_Responds).decode


def responses(nodes: Iterable[Stored]) -> set[str]:
    """Give the ids of the responses that some nodes are of."""
    found = (_responds(each.body).response for each in nodes if each.type in BY_MODEL and each.body is not None)
    return {each for each in found if each is not None}


def still_standing(found: Sequence[Stored]) -> list[Stored]:
    """Leave out the context and the task lists that later ones replace; tools and instructions may be cited."""
    last: dict[object, int] = {}
    for node in read_all(found):
        match node.body:
            case Context(name=name):
                last[name] = node.position
            case Todos():
                last[Todos] = node.position
    kept = set(last.values())
    return [each for each in found if each.type not in REPLACEABLE or each.position in kept or each.body is None]
