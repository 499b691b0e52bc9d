"""What every encoder is held to: the provider accepts, the bytes repeat, and earlier blocks stay."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings

from convlog.projections.lint import lint
from convlog.projections.profiles import Profile, load_profile, profile_bytes
from convlog.projections.readers import ResponseParts
from convlog.projections.registry import get
from convlog.projections.stages.pieces_v1 import Piece
from convlog.projections.stages.request_v1 import Request, blocks, body, marks, pointers
from convlog.projections.stages.target_v1 import Options, Target, target

from .examples import resolve
from .oracle import accepts

ADDRESSES = {
    "anthropic": "anthropic@1",
    "openai-chat": "openai-chat@1",
    "openai-responses": "openai-responses@1",
    "gemini": "gemini@1",
    "bedrock": "bedrock@1",
}


def few(examples: int) -> settings:
    """Give the settings of a test that CI runs: the same examples every time, so that it fails for a reason."""
    return settings(max_examples=examples, derandomize=True, deadline=None)


def many(examples: int) -> settings:
    """Give the settings of a test marked `long`: other examples every time."""
    return settings(
        max_examples=examples, derandomize=False, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )


def profile_for(profile_id: str, wire_format: str) -> Profile:
    return load_profile(profile_id).in_format(wire_format)


def target_for(profile_id: str) -> Target:
    return target(profile_bytes(profile_id))


def encoded(
    pieces: Sequence[Piece],
    profile_id: str,
    wire_format: str,
    attachments: Mapping[str, bytes],
    options: Options | None = None,
) -> Request:
    build = get(ADDRESSES[wire_format], "encoder").function
    request = build(pieces, target_for(profile_id), options or Options(), attachments)
    assert isinstance(request, Request)
    return request


def value_of(request: Request) -> dict[str, Any]:
    """Read the request's bytes, as a provider would."""
    value = json.loads(body(request))
    assert isinstance(value, dict)
    return value


def rules(request: Request) -> list[str]:
    """Give the first words of every repair."""
    return [repair.rule.split(":")[0] for repair in request.repairs]


def refusals(request: Request, profile: Profile) -> list[str]:
    """Give what the linter and the provider's types find wrong."""
    value = value_of(request)
    found = [f"{finding.rule} {finding.pointer}: {finding.message}" for finding in lint(value, profile)]
    shape = accepts(_without_dialect(value, profile), profile.format)
    return found if shape is None else [*found, shape]


def _without_dialect(value: dict[str, Any], profile: Profile) -> dict[str, Any]:
    """Take out what the types of the format's owner do not know: the fields of a dialect, and of a beta."""
    if profile.format == "openai-chat":
        taken = ("reasoning_content",) if profile.reasoning_content != "refused" else ()
        messages = [{k: v for k, v in message.items() if k not in taken} for message in value["messages"]]
        return {**value, "messages": messages}
    if profile.format == "anthropic":
        messages = [
            {**message, "content": [block for block in message["content"] if block["type"] != "compaction"]}
            for message in value["messages"]
        ]
        return {**value, "messages": messages}
    return value


def cuts(pieces: Sequence[Piece]) -> list[int]:
    """Give the places where an earlier request could have ended: behind what the user said, or behind results."""
    found = []
    for number, (piece, after) in enumerate(zip(pieces, [*pieces[1:], None], strict=False), 1):
        within = after is not None and after.sources == piece.sources
        if not within and piece.role in {"user", "tool"} and (after is None or after.role != "tool"):
            found.append(number)
    return found


def blocks_with_pieces(request: Request) -> list[bytes]:
    """Give the blocks that were made of pieces; the others only mend the ends."""
    wires = [wire for item in request.items for wire in item.blocks]
    return [data for data, wire in zip(blocks(request), wires, strict=True) if wire.pieces]


def assert_prefix(earlier: Request, later: Request, before: Sequence[Piece]) -> None:
    """An earlier request's blocks begin the later one, unless a repair of what both hold says otherwise."""
    known = {source for piece in before for source in piece.sources}
    old = [repair for repair in later.repairs if known & set(repair.sources)]
    if sorted(map(repr, old)) != sorted(repr(repair) for repair in earlier.repairs if repair.sources):
        return
    first, second = blocks_with_pieces(earlier), blocks_with_pieces(later)
    assert second[: len(first)] == first


def assert_pointers(request: Request) -> None:
    """Every block stands where its pointer says."""
    value = value_of(request)
    wires = [wire for item in request.items for wire in item.blocks]
    for pointer, wire in zip(pointers(request), wires, strict=True):
        found = resolve(value, pointer)
        said = json.loads(wire.data)
        assert {key: found[key] for key in said} == said


def spelled_alike(response: ResponseParts) -> ResponseParts:
    """Give a response whose opaque parts have their members in the order of their names."""
    parts = []
    for part in response.parts:
        opaque = getattr(part, "opaque", None)
        if opaque is not None:
            part = msgspec.structs.replace(part, opaque=json.dumps(json.loads(opaque), sort_keys=True))
        parts.append(part)
    return msgspec.structs.replace(response, parts=tuple(parts))


def marked_pointers(request: Request) -> list[str]:
    """Give the pointers of the marked blocks."""
    wires = [wire for item in request.items for wire in item.blocks]
    return [pointer for pointer, wire in zip(pointers(request), wires, strict=True) if wire.mark or wire.after]


__all__ = [
    "assert_pointers",
    "assert_prefix",
    "cuts",
    "encoded",
    "few",
    "many",
    "marked_pointers",
    "marks",
    "profile_for",
    "refusals",
    "rules",
    "spelled_alike",
    "target_for",
    "value_of",
]
