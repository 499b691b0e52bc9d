"""Why a prompt is as it is: every piece and its rule, where each byte came from, and why a node is not in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from convlog.eventstore.events import (
    ContextSet,
    Event,
    InstructionsSet,
    ResultPromoted,
    SummaryAdded,
    SummaryInvalidated,
    TodoWritten,
    ToolCalled,
    ToolReturned,
    ToolsSet,
)

from .derive import Derived
from .stages import pieces_v1 as kinds
from .stages.pieces_v1 import Call, Piece, Result, Text
from .stages.request_v1 import Field, pointers

if TYPE_CHECKING:
    from .conversation import Thread

RULES = {
    kinds.VERBATIM: "the event itself, as recorded",
    kinds.TURN_MEMORY: "what is kept of an ended turn: its prose, and its calls without arguments or outputs",
    kinds.SUMMARY: "a summary in the place of the nodes that it covers",
    kinds.REWRITE: "nodes of an ended turn said again",
    kinds.MEMORY: "an entry of the project's memory",
    kinds.TASK_LIST: "the task list as it stood",
    kinds.CONTEXT: "runtime context as it was last set",
    kinds.RETRIEVED: "an item that was fetched",
    kinds.INSTRUCTIONS: "standing instructions, the last whole value on the path",
    kinds.TOOLS: "tool declarations, the last whole value on the path",
    kinds.REPAIR: "put in so that the provider accepts the request; the record is untouched",
    kinds.DROPPED: "left out",
}


_WHOLE_VALUES = frozenset({InstructionsSet.TYPE, ToolsSet.TYPE, ContextSet.TYPE, TodoWritten.TYPE})
"""Types of which only the last on the path counts, for context the last of a name."""


class Whereabouts(msgspec.Struct, frozen=True):
    """What became of a node in a prompt."""

    reason: str
    pieces: tuple[int, ...] = ()
    """Numbers of the pieces that say something of it."""
    in_short: bool = False
    """Whether they say less than was recorded."""


class Explained(msgspec.Struct, frozen=True):
    """One piece: its number from 1, where it stands in the request, and why."""

    number: int
    piece: Piece
    rule: str
    pointers: tuple[str, ...]
    """JSON pointers of the blocks that it is in; none for what is left out."""


def explain(prompt: Derived) -> list[Explained]:
    """Explain every piece of a prompt, the encoder's repairs last."""
    places = byte_map(prompt)
    explained = [
        Explained(index + 1, piece, _rule(piece), places.get(index, ())) for index, piece in enumerate(prompt.pieces)
    ]
    start = len(explained) + 1
    return explained + [
        Explained(start + index, piece, _rule(piece), ()) for index, piece in enumerate(prompt.request.repairs)
    ]


def _rule(piece: Piece) -> str:
    rule = RULES.get(piece.provenance, piece.provenance)
    return f"{rule}: {piece.rule}" if piece.rule else rule


def byte_map(prompt: Derived) -> dict[int, tuple[str, ...]]:
    """Give, for the index of each piece, the JSON pointers of what it became in the request."""
    found: dict[int, list[str]] = {}
    for field in prompt.request.fields:
        for number, index in enumerate(field.pieces):
            pointer = f"/{field.name}/{number}" if _is_one_each(field) else f"/{field.name}"
            found.setdefault(index, []).append(pointer)
    blocks = (block for item in prompt.request.items for block in item.blocks)
    for pointer, block in zip(pointers(prompt.request), blocks, strict=True):
        for index in block.pieces:
            found.setdefault(index, []).append(pointer)
    return {index: tuple(places) for index, places in found.items()}


def _is_one_each(field: Field) -> bool:
    """Whether a member is a list with one entry for each of its pieces; elsewhere they are joined."""
    data = field.data or b""
    return len(field.pieces) > 1 and data.startswith(b"[") and len(msgspec.json.decode(data)) == len(field.pieces)


def pieces_at(prompt: Derived, pointer: str) -> list[int]:
    """Give the indexes of the pieces behind a JSON pointer of the request: of its block, or of all below it."""
    found = []
    for index, places in sorted(byte_map(prompt).items()):
        if any(_overlap(pointer, place) for place in places):
            found.append(index)
    return found


def _overlap(a: str, b: str) -> bool:
    return a == b or a.startswith(f"{b}/") or b.startswith(f"{a}/")


def missing(thread: Thread, prompt: Derived, leaf: int, at: int, node: int) -> Whereabouts:
    """Say why a node is not in a prompt, or as which piece it is.

    Raises:
        NoSuchNode: the thread has no such position.
    """
    event = thread.event(node)
    said = [each for each in explain(prompt) if node in each.piece.sources]
    # A note is on no path, but a summary and a promotion are said.
    away = None if said and not event.is_node else _off_the_path(thread, event, leaf, at)
    if away is not None or not said:
        return Whereabouts(away or _unsaid(thread, prompt, event, leaf))
    left_out = [_left_out(thread, event, each.piece) for each in said]
    return Whereabouts(
        reason="; ".join(_said(each, lost) for each, lost in zip(said, left_out, strict=True)),
        pieces=tuple(each.number for each in said if each.piece.provenance != kinds.DROPPED),
        in_short=any(left_out),
    )


def _off_the_path(thread: Thread, event: Event, leaf: int, at: int) -> str | None:
    """Say why a node could not be in a prompt; None for one on its path."""
    node = event.position
    if node > at:
        return f"it was recorded after the prompt was made at position {at}"
    if isinstance(event.body, SummaryAdded):
        return _unapplied(thread, event, event.body, leaf, at)
    if isinstance(event.body, ResultPromoted):
        return "the version by which this prompt was made carries no promoted result, or its call is not in the prompt"
    if not event.is_node:
        return f"a {event.type} is a note: it is on no path and no model sees it"
    tree = thread.tree
    if not tree.is_above(node, leaf):
        if tree.is_above(leaf, node):
            return f"it comes after {leaf}, the node that the prompt was made at"
        fork = tree.common(node, leaf)
        return f"it is on another branch ({tree.branch(node)}), which left this path at {fork}"
    return None


def _unapplied(thread: Thread, event: Event, body: SummaryAdded, leaf: int, at: int) -> str:
    """Say why a summary stands for nothing in a prompt."""
    if not thread.tree.is_above(body.last, leaf):
        return f"its range {body.first}..{body.last} is not wholly on the path to {leaf}"
    for note in thread.events(last=at, types=(SummaryInvalidated.TYPE,)):
        if getattr(note.body, "summary", None) == event.position:
            return f"{note.position} invalidated it"
    for newer in thread.events(first=event.position + 1, last=at, types=(SummaryAdded.TYPE,)):
        if isinstance(newer.body, SummaryAdded) and newer.body.first <= body.last and body.first <= newer.body.last:
            return f"summary {newer.position} is newer and covers some of the same nodes"
    return f"something in its range {body.first}..{body.last} was erased after it was made"


def _unsaid(thread: Thread, prompt: Derived, event: Event, leaf: int) -> str:
    """Say why no piece says anything of a node on the path."""
    covering = _summary_over(thread, prompt.pieces, event.position)
    if covering is not None:
        return f"summary {covering} stands for it"
    later = _replaced_by(thread, event, leaf)
    if later is not None:
        return f"the {event.type} at {later} took its place"
    return f"{event.type} says nothing to a model, or its turn is kept as turn memory without it"


def _replaced_by(thread: Thread, event: Event, leaf: int) -> int | None:
    """Give the last value on the path that is in force in the place of this one; None when there is none."""
    if event.type not in _WHOLE_VALUES:
        return None
    name = getattr(event.body, "name", None)
    found = None
    for other in thread.events(first=event.position + 1, last=leaf, types=(event.type,)):
        if thread.tree.is_above(other.position, leaf) and getattr(other.body, "name", None) == name:
            found = other.position
    return found


def _said(explained: Explained, left_out: str) -> str:
    piece = explained.piece
    if piece.provenance == kinds.DROPPED:
        return f"left out: {piece.rule}"
    where = f" at {', '.join(explained.pointers)}" if explained.pointers else ""
    place = f"piece {explained.number}, {piece.provenance}{where}"
    return f"it is in the prompt only in short: {place}; {left_out}" if left_out else f"it is in the prompt: {place}"


def _left_out(thread: Thread, event: Event, piece: Piece) -> str:
    """Say what a memory of a turn leaves out of a call or of its result; empty when that is nothing."""
    if piece.provenance != kinds.TURN_MEMORY:
        return ""
    body, element = event.body, piece.element
    if isinstance(body, ToolCalled) and not (isinstance(element, Call) and element.input == body.input):
        return "its arguments are left out"
    if isinstance(body, ToolReturned) and not _carries(element, event.output):
        kinds_of = (thread.event(position, output=False).type for position in piece.sources)
        promoted = ", but for what was promoted" if ResultPromoted.TYPE in kinds_of else ""
        return f"its output is left out{promoted}"
    return ""


def _carries(element: Result | object, output: bytes | None) -> bool:
    """Whether a result has the whole output."""
    parts = element.content if isinstance(element, Result) else ()
    return "".join(part.text for part in parts if isinstance(part, Text)).encode() == (output or b"")


def _summary_over(thread: Thread, pieces: Sequence[Piece], node: int) -> int | None:
    for piece in pieces:
        if piece.provenance == kinds.SUMMARY and piece.sources:
            body = thread.event(piece.sources[0]).body
            if body.first <= node <= body.last:
                return piece.sources[0]
    return None
