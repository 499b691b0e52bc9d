"""Rules B1 to B9: requests to Bedrock's Converse, in JSON form (what boto3 takes as bytes is base64 text).

Sources of the rules are the service model inside botocore, and refusals that users have reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..profiles import Profile
from .common import (
    Call,
    Finding,
    Json,
    Outline,
    Result,
    Text,
    Tool,
    Turn,
    blank,
    cross_format,
    is_base64,
    join,
    mapping,
    misnamed,
    objects,
    quote,
    text,
)

RULES = {
    "B1": "toolConfig declares a tool when the history has tool blocks",
    "B2": "no more toolResults than toolUses in the turn before, and ids unique in a message",
    "B3": "tool use ids have 1 to 64 characters of their alphabet; tool names match the profile's pattern",
    "B4": "every block has exactly one key",
    "B5": "cachePoint is a block of its own and stands in no toolResult",
    "B6": "texts are not blank, and a toolResult with status error has content",
    "B7": "a user turn with toolResults holds nothing else, where the profile says so",
    "B8": "the user begins and roles alternate",
    "B9": "bytes are base64 text; not seen: whether boto3 got them decoded",
}

UNCHECKABLE: dict[str, str] = {}

CALL_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")


class Block(NamedTuple):
    """One content block; `type` is its key, or the first that is not cachePoint if it has more."""

    pointer: str
    type: str
    body: Json

    @property
    def value(self) -> Json:
        """What stands under the block's key, if it is an object."""
        return mapping(self.body.get(self.type))


class Message(NamedTuple):
    """One entry of `messages`."""

    pointer: str
    role: str
    blocks: list[Block]

    def having(self, kind: str) -> list[Block]:
        """Give the blocks of one type."""
        return [block for block in self.blocks if block.type == kind]


@dataclass(frozen=True, slots=True)
class View:
    """The request, taken apart once for all rules."""

    request: Json
    system: list[Block]
    messages: list[Message]
    tools: list[Tool]
    tool_blocks: list[Block]
    inner: list[Block]
    """The blocks inside tool results."""

    def blocks(self) -> list[Block]:
        """Give the blocks of system and messages, without those inside tool results."""
        return [*self.system, *(block for message in self.messages for block in message.blocks)]


def lint(request: Json, profile: Profile) -> Iterator[Finding]:
    """Find every breach of the X and B rules."""
    view = _view(request)
    yield from cross_format(_outline(view), profile)
    for check in _CHECKS:
        yield from check(view, profile)


# --- taking the request apart ---


def _blocks(value: Any, pointer: str) -> list[Block]:
    return [Block(at, _type(body), body) for at, body in objects(value, pointer)]


def _type(body: Json) -> str:
    kinds = [str(key) for key in body]
    return next((kind for kind in kinds if kind != "cachePoint"), kinds[0] if kinds else "")


def _view(request: Json) -> View:
    messages = [
        Message(pointer, text(body.get("role")), _blocks(body.get("content"), join(pointer, "content")))
        for pointer, body in objects(request.get("messages"), "/messages")
    ]
    tool_blocks = _blocks(mapping(request.get("toolConfig")).get("tools"), "/toolConfig/tools")
    tools = [
        Tool(block.pointer, block.value["name"], block.value)
        for block in tool_blocks
        if block.type in {"toolSpec", "systemTool"} and isinstance(block.value.get("name"), str)
    ]
    inner = [
        block
        for message in messages
        for result in message.having("toolResult")
        for block in _blocks(result.value.get("content"), join(join(result.pointer, "toolResult"), "content"))
    ]
    return View(request, _blocks(request.get("system"), "/system"), messages, tools, tool_blocks, inner)


def _use_id(block: Block) -> str:
    return text(block.value.get("toolUseId"))


def _texts(view: View) -> list[Text]:
    return [
        Text(block.pointer, text(block.body["text"])) for block in [*view.blocks(), *view.inner] if block.type == "text"
    ]


def _outline(view: View) -> Outline:
    uses = [block for message in view.messages for block in message.having("toolUse")]
    results = [block for message in view.messages for block in message.having("toolResult")]
    return Outline(
        request=view.request,
        turns=[Turn(message.pointer, message.role, empty=not message.blocks) for message in view.messages],
        texts=_texts(view),
        calls=[Call(use.pointer, _use_id(use), text(use.value.get("name")), _use_id(use)) for use in uses],
        results=[Result(result.pointer, _use_id(result)) for result in results],
        tools=view.tools,
    )


# --- calls and results ---


def _declared(view: View, _profile: Profile) -> Iterator[Finding]:
    if view.tools:
        return
    for block in view.blocks():
        if block.type in {"toolUse", "toolResult"}:
            yield Finding("B1", block.pointer, f"{block.type} in a request whose toolConfig declares no tool")
            return


def _counts(view: View, _profile: Profile) -> Iterator[Finding]:
    asked = 0
    for message in view.messages:
        uses, results = message.having("toolUse"), message.having("toolResult")
        if len(results) > asked:
            yield Finding("B2", message.pointer, f"{len(results)} toolResults after {asked} toolUses")
        asked = len(uses)
        for blocks in (uses, results):
            seen: set[str] = set()
            for block in blocks:
                if _use_id(block) in seen:
                    yield Finding("B2", block.pointer, f"id {quote(_use_id(block))} stands twice in the message")
                seen.add(_use_id(block))


def _names(view: View, profile: Profile) -> Iterator[Finding]:
    for block in view.blocks():
        if block.type in {"toolUse", "toolResult"} and CALL_ID.fullmatch(_use_id(block)) is None:
            yield Finding("B3", block.pointer, f"id {quote(_use_id(block))} does not match {CALL_ID.pattern}")
    yield from misnamed("B3", view.tools, profile)
    called = (
        Tool(block.pointer, text(block.value.get("name")), {}) for block in view.blocks() if block.type == "toolUse"
    )
    yield from misnamed("B3", called, profile)


def _alone(view: View, profile: Profile) -> Iterator[Finding]:
    for message in view.messages:
        results = len(message.having("toolResult"))
        if profile.results_alone and results and results + len(message.having("cachePoint")) < len(message.blocks):
            yield Finding("B7", message.pointer, f"{profile.id} refuses toolResults beside other content")


# --- blocks ---


def _unions(view: View, _profile: Profile) -> Iterator[Finding]:
    for block in [*view.blocks(), *view.inner, *view.tool_blocks]:
        if len(block.body) != 1:
            yield Finding("B4", block.pointer, f"a block with {len(block.body)} keys, not one")
            if "cachePoint" in block.body:
                yield Finding("B5", block.pointer, "a cachePoint inside another block")
    for block in view.inner:
        if "cachePoint" in block.body:
            yield Finding("B5", block.pointer, "a cachePoint inside a toolResult")


def _content_present(view: View, _profile: Profile) -> Iterator[Finding]:
    for pointer, value in _texts(view):
        if blank(value):
            yield Finding("B6", pointer, "a text block without text")
    for message in view.messages:
        for result in message.having("toolResult"):
            if result.value.get("status") == "error" and not result.value.get("content"):
                yield Finding("B6", result.pointer, "a toolResult with status error and no content")


def _roles(view: View, _profile: Profile) -> Iterator[Finding]:
    if not view.messages or view.messages[0].role != "user":
        yield Finding("B8", view.messages[0].pointer if view.messages else "", "the first message is not the user's")
    for before, message in zip(view.messages, view.messages[1:], strict=False):
        if before.role == message.role:
            yield Finding("B8", message.pointer, f"two messages of role {quote(message.role)} follow each other")


def _bytes(view: View, _profile: Profile) -> Iterator[Finding]:
    for block in [*view.blocks(), *view.inner]:
        if block.type == "reasoningContent":
            holder, name = block.value, "redactedContent"
        else:
            holder, name = mapping(block.value.get("source")), "bytes"
        if name in holder and not is_base64(holder[name]):
            yield Finding("B9", f"{block.pointer}/{block.type}", f"{name} is no base64 text")


_CHECKS: tuple[Callable[[View, Profile], Iterator[Finding]], ...] = (
    _declared,
    _counts,
    _names,
    _alone,
    _unions,
    _content_present,
    _roles,
    _bytes,
)
