"""Why a prompt is as it is: every piece and its rule, where each byte came from, and why a node is not in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from convlog.eventstore.events import ContextSet, Event, InstructionsSet, TodoWritten, ToolsSet

from .derive import Derived
from .stages import pieces_v1 as kinds
from .stages.pieces_v1 import Piece
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


def missing(thread: Thread, prompt: Derived, leaf: int, at: int, node: int) -> str:
    """Say why a node is not in a prompt, or as which piece it is.

    Raises:
        NoSuchNode: the thread has no such position.
    """
    event = thread.event(node, output=False)
    if node > at:
        return f"it was recorded after the prompt was made at position {at}"
    if not event.is_node:
        return f"a {event.type} is a note: it is on no path and no model sees it"
    tree = thread.tree
    if not tree.is_above(node, leaf):
        if tree.is_above(leaf, node):
            return f"it comes after {leaf}, the node that the prompt was made at"
        fork = tree.common(node, leaf)
        return f"it is on another branch ({tree.branch(node)}), which left this path at {fork}"
    said = [_said(explained) for explained in explain(prompt) if node in explained.piece.sources]
    if said:
        return "; ".join(said)
    covering = _summary_over(thread, prompt.pieces, node)
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


def _said(explained: Explained) -> str:
    piece = explained.piece
    if piece.provenance == kinds.DROPPED:
        return f"left out: {piece.rule}"
    where = f" at {', '.join(explained.pointers)}" if explained.pointers else ""
    return f"it is in the prompt: piece {explained.number}, {piece.provenance}{where}"


def _summary_over(thread: Thread, pieces: Sequence[Piece], node: int) -> int | None:
    for piece in pieces:
        if piece.provenance == kinds.SUMMARY and piece.sources:
            body = thread.event(piece.sources[0]).body
            if body.first <= node <= body.last:
                return piece.sources[0]
    return None
