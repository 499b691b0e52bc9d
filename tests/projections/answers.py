"""What a recorded response becomes in the next prompt: its parts as pieces."""

from __future__ import annotations

from convlog.projections.readers.parts import (
    CallPart,
    ForeignPart,
    Part,
    ReasoningPart,
    ResponseParts,
    ResultPart,
    TextPart,
)
from convlog.projections.stages.pieces_v1 import VERBATIM, Call, Element, Foreign, Piece, Reasoning, Result, Text


def pieces_of(response: ResponseParts, model: str) -> list[Piece]:
    """Give the pieces of a response that `model` made; a call's node is its place, from 1."""
    nodes = {part.call: number for number, part in enumerate(response.parts, start=1) if isinstance(part, CallPart)}
    provider = response.provider
    made = [_element(part, provider, model, nodes) for part in response.parts]
    return [Piece(VERBATIM, "assistant", element, (1,), "response") for element in made]


def _element(part: Part, provider: str | None, model: str, nodes: dict[str, int]) -> Element:
    match part:
        case TextPart():
            return Text(part.text, part.signature, part.opaque, provider, model, part.item, part.needs)
        case ReasoningPart():
            return Reasoning(part.text, part.signature, part.opaque, provider, model, part.item, part.needs)
        case CallPart():
            return Call(
                part.call,
                nodes[part.call],
                part.name,
                part.input,
                part.server,
                part.kind,
                part.signature,
                part.opaque,
                provider,
                model,
            )
        case ResultPart():
            return Result(part.call, nodes[part.call], part.status, (Foreign(part.json, provider, model),), server=True)
        case ForeignPart():
            return Foreign(part.json, provider, model, part.item, part.needs)
