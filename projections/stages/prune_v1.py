"""Pruning a list of messages for one request, and the repairs after it (S27 to S31). The record is never touched.

A message here is neutral: a role and parts, of which only the type, the call and the provider's item id matter. What a
part holds is carried along unread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

REASONING = "reasoning"
CALL = "tool_call"
RESULTS = ("tool_result", "tool_error")
ASSISTANT = "assistant"

KEEP_MESSAGES = 3
"""Tool parts in so many last messages stay, with all parts of the same calls (S28)."""

THRESHOLD = 120_000
"""Tokens over which messages are pruned (S27)."""

CHARACTERS_PER_TOKEN = 4

_CONTINUATION = bytes(range(0x80, 0xC0))
_FOUR_BYTES = bytes(range(0xF0, 0xF8))
"""What begins a character that UTF-16 needs two units for."""


class Part(msgspec.Struct, frozen=True, gc=False):
    """One part of a message."""

    type: str
    call: str | None = None
    """Id of the call that it is, or answers."""
    item: str | None = None
    """The provider's id of the part."""
    content: object = None


class Message(msgspec.Struct, frozen=True):
    """One message; an assistant's is one response."""

    role: str
    parts: tuple[Part, ...]


def tokens(data: bytes) -> int:
    """Estimate the tokens of the messages' JSON, UTF-8: a quarter of its length in UTF-16 units, half up (S27)."""
    units = len(data)
    if not data.isascii():
        characters = len(data.translate(None, _CONTINUATION))
        units = characters + len(data) - len(data.translate(None, _FOUR_BYTES))
    return (units + CHARACTERS_PER_TOKEN // 2) // CHARACTERS_PER_TOKEN


def for_wire(messages: Sequence[Message], keep: int = KEEP_MESSAGES) -> list[Message]:
    """Prune, then repair: detach, then drop results (S29)."""
    return drop(detach(messages, prune(messages, keep)))


def prune(messages: Sequence[Message], keep: int = KEEP_MESSAGES) -> list[Message]:
    """Take out all reasoning, and tool parts but those of calls in the last few messages (S28)."""
    last = messages[-keep:] if keep > 0 else ()
    recent = {part.call for message in last for part in message.parts if _is_tool(part)}
    return _filtered(messages, lambda part: part.type != REASONING and (not _is_tool(part) or part.call in recent))


def detach(before: Sequence[Message], after: Sequence[Message]) -> list[Message]:
    """Strip the item ids of responses that had reasoning of which nothing is left; never the parts (S30)."""
    left = {part.item for message in after for part in message.parts if part.type == REASONING}
    orphaned: set[str | None] = set()
    for message in before:
        reasoning = {part.item for part in message.parts if part.type == REASONING}
        if message.role == ASSISTANT and reasoning and not reasoning & left:
            orphaned.update(part.item for part in message.parts)
    orphaned.discard(None)
    return [_detached(message, orphaned) if message.role == ASSISTANT else message for message in after]


def drop(messages: Sequence[Message]) -> list[Message]:
    """Take out results whose call is not in the list; a call without a result stays (S31)."""
    calls = {part.call for message in messages for part in message.parts if part.type == CALL}
    return _filtered(messages, lambda part: part.type not in RESULTS or part.call in calls)


def _is_tool(part: Part) -> bool:
    return part.type == CALL or part.type in RESULTS


def _filtered(messages: Sequence[Message], stays: Callable[[Part], bool]) -> list[Message]:
    kept = [Message(message.role, tuple(part for part in message.parts if stays(part))) for message in messages]
    return [now for now, then in zip(kept, messages, strict=True) if now.parts or not then.parts]


def _detached(message: Message, orphaned: set[str | None]) -> Message:
    if not any(part.item in orphaned for part in message.parts):
        return message
    parts = (msgspec.structs.replace(part, item=None) if part.item in orphaned else part for part in message.parts)
    return Message(message.role, tuple(parts))
