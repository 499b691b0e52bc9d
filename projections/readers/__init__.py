"""Readers: a provider's response, as its client gives it or as it came over the wire, to neutral parts.

A response may be an object of the provider's package, a mapping, or JSON text; whole, or streamed as the iterable of
its events or chunks; complete, or cut anywhere. Reading changes nothing and stores nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, cast

import msgspec

from convlog.eventstore.errors import ConvlogError

from .parts import CallPart, ForeignPart, Part, ReasoningPart, ResponseParts, ResultPart, TextPart, Usage
from .plain import member, plain

__all__ = [
    "FORMATS",
    "CallPart",
    "ForeignPart",
    "Part",
    "ReasoningPart",
    "ResponseParts",
    "ResultPart",
    "TextPart",
    "UnreadableResponse",
    "Usage",
    "read",
]

FORMATS: dict[str, str] = {
    "anthropic": "anthropic",
    "openai-chat": "openai_chat",
    "openai-responses": "openai_responses",
    "gemini": "gemini",
    "bedrock": "bedrock",
}
"""Format to module; each has `read`, for a whole response or the list of a stream's events."""

_EVENTS = {
    "anthropic": ("message_start", "content_block_start", "content_block_delta", "message_delta", "message_stop"),
    "bedrock": ("messageStart", "contentBlockStart", "contentBlockDelta", "messageStop"),
}


class UnreadableResponse(ConvlogError):
    """No known format, or no response at all."""

    code = "unreadable_response"
    exit_code = 2


def read(response: Any, format: str | None = None) -> ResponseParts:  # noqa: A002 - the word for it everywhere here
    """Read a response.

    Args:
        response: An object, mapping or JSON text; or an iterable of events or chunks.
        format: The wire format; None to tell it from the response's shape.

    Raises:
        UnreadableResponse: nothing that any reader knows.
    """
    value = _value(response)
    name = format or _detect(value if isinstance(value, list) else [value])
    if name is None or name not in FORMATS:
        what = "a response of no known format" if name is None else f"no reader for format {name!r}"
        raise UnreadableResponse(what, hint=f"name one of {', '.join(FORMATS)}")
    return cast("ResponseParts", import_module(f".{FORMATS[name]}", __package__).read(value))


def _value(response: Any) -> Any:
    """Give a response as a mapping, or the events of a stream as a list of such."""
    if isinstance(response, bytes | str):
        try:
            response = msgspec.json.decode(response)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise UnreadableResponse(f"the response is no JSON: {error}") from None
    value = plain(response)
    if not isinstance(value, Mapping | list) and isinstance(value, Iterable) and not isinstance(value, str):
        value = [plain(event) for event in value]
    if not isinstance(value, Mapping | list):
        raise UnreadableResponse(f"a {type(response).__name__} is no response", hint="give an object, mapping or JSON")
    return value


def _detect(events: list[Any]) -> str | None:
    return next((found for event in events if isinstance(event, Mapping) and (found := _format_of(event))), None)


def _format_of(value: Mapping[str, Any]) -> str | None:
    """Tell the format from one event or a whole response: each says something that no other does."""
    kind = value.get("type")
    if kind in _EVENTS["anthropic"] or (kind == "message" and isinstance(value.get("content"), list)):
        return "anthropic"
    if isinstance(value.get("choices"), list):
        return "openai-chat"
    if value.get("object") == "response" or (isinstance(kind, str) and kind.startswith("response.")):
        return "openai-responses"
    if any(name in value for name in ("candidates", "promptFeedback", "usageMetadata")):
        return "gemini"
    if member(value, "output", "message") is not None or any(name in value for name in _EVENTS["bedrock"]):
        return "bedrock"
    return None
