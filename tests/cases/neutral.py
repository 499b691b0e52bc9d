"""A prompt's pieces reduced to the neutral form that cases speak of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from convlog.eventstore.canonical import parse_json
from convlog.eventstore.errors import PayloadRejected
from convlog.projections.stages.pieces_v1 import (
    DROPPED,
    SUMMARY,
    UNANSWERED,
    VERBATIM,
    Call,
    Piece,
    Reasoning,
    Result,
    Text,
)

REPAIR = "repair"


def neutral(thread: Any, pieces: Sequence[Piece]) -> list[list[Any]]:
    """Give the neutral prompt; what stands around the talk is left out."""
    items = []
    for piece in pieces:
        if piece.provenance == SUMMARY:
            items.append(["summary", thread.event(piece.sources[0]).body.text])
        elif piece.provenance in {VERBATIM, REPAIR, "turn-memory"} and piece.provenance != DROPPED:
            item = _item(piece)
            if item is not None:
                items.append(item)
    return items


def _item(piece: Piece) -> list[Any] | None:
    match piece.element:
        case Text(text):
            return [piece.role, text]
        case Reasoning():
            return ["reasoning", piece.element.text, piece.element.signature]
        case Call():
            return ["call", piece.element.id, piece.element.name, _args(piece.element.input)]
        case Result():
            return ["result", piece.element.id, piece.element.status, _output(piece.element)]
    return None


def _args(text: str) -> Any:
    try:
        return parse_json(text)
    except PayloadRejected:
        return text


def _output(result: Result) -> str | None:
    if result.status == UNANSWERED:
        return None
    return "".join(part.text for part in result.content if isinstance(part, Text))


def pairing_problem(items: list[list[Any]]) -> str | None:
    """Say which call or answer of a neutral prompt stands alone or apart."""
    open_calls: list[str] = []
    previous = ""
    for item in items:
        if item[0] == "call":
            if previous == "result" and open_calls:
                return f"{open_calls} have no answer in their batch"
            open_calls.append(item[1])
        elif item[0] == "result":
            if item[1] not in open_calls:
                return f"the answer to {item[1]} has no call before it"
            open_calls.remove(item[1])
        elif open_calls:
            return f"{open_calls} have no answer in their batch"
        previous = item[0]
    return f"{open_calls} have no answer" if open_calls else None
