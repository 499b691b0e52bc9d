"""How far a Gemini CLI message has come, so that only what is new is taken when it is written again."""

from __future__ import annotations

from typing import Annotated

import msgspec
from blake3 import blake3
from msgspec import Raw

from ..events import InputAdded, SegmentAdded, Text, ToolCalled, ToolReturned, Usage
from ..thread import Thread
from .gemini_parts import parts_of
from .known import parse_key
from .slices import Fields, fields_of, is_true, items_of, name_of, text_of

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Tokens(msgspec.Struct):
    input: Count = 0
    output: Count = 0
    cached: Count = 0
    thoughts: Count | None = 0
    tool: Count | None = 0


_decode_tokens = msgspec.json.Decoder(_Tokens).decode


class Seen(msgspec.Struct):
    """What of a message has come, so that only what is new is taken when it is written again."""

    response: str = ""
    """Id of the response that it is, when it is the model's."""
    digest: str = ""
    """Of its record as it was written last."""
    text: str = ""
    """Digest of its text."""
    is_silent: bool = True
    """Nothing of its content came yet."""
    thoughts: int = 0
    calls: dict[str, bool] = {}
    """Whether each has its result, by id."""
    is_answer: bool = False
    """It is the model's, in words, without calls, and its tokens are counted."""


def digest_of(data: bytes | Raw | None) -> str:
    """Give a short digest."""
    return blake3(data or b"").hexdigest()[:12]


def plain_text(message: Fields) -> str:
    """Give the text of a message, without thoughts."""
    parts = parts_of(message.get("content"))
    found = [text_of(part) or _shown(part) for part in parts.items] if parts is not None else []
    return "".join(text or "" for text in found)


def _shown(part: Raw) -> str | None:
    fields = fields_of(part) or {}
    return None if is_true(fields, "thought") else text_of(fields.get("text"))


def is_answer(message: Fields) -> bool:
    """Whether a message of the model is complete, and calls nothing."""
    return (
        name_of(message.get("type")) == "gemini"
        and bool(plain_text(message))
        and not items_of(message.get("toolCalls"))
        and usage_of(message) is not None
    )


def usage_of(message: Fields) -> Usage | None:
    """Read a message's tokens: the input's include what was cached, the output's do not include the thoughts."""
    data = message.get("tokens")
    if data is None or fields_of(data) is None:
        return None
    try:
        tokens = _decode_tokens(data)
    except msgspec.DecodeError:
        return None
    thoughts = tokens.thoughts or 0
    return Usage(
        input=max(0, tokens.input - tokens.cached) + (tokens.tool or 0),
        cache_read=tokens.cached,
        output=tokens.output + thoughts,
        reasoning=thoughts,
    )


def seen_in(thread: Thread, id_: str) -> Seen:
    """Tell again what came of a message, from the thread that it came to."""
    seen = Seen(response=id_)
    texts: list[str] = []
    for event in thread.events(outputs=False):
        named = None if event.key is None else parse_key(event.key)
        if named is None or named[0] != id_:
            continue
        seen.digest = named[1]
        body = event.body
        if isinstance(body, InputAdded):
            texts = [part.original for part in body.content if isinstance(part, Text)]
        elif isinstance(body, ToolCalled):
            seen.calls = {**seen.calls, body.call: False}
        elif isinstance(body, ToolReturned):
            seen.calls = {**seen.calls, body.call: True}
        elif isinstance(body, SegmentAdded):
            seen.response = body.response or id_
            if body.kind == "text":
                texts.append(body.original)
            is_listed = body.extra is not None and '"thought":' in body.extra
            seen.thoughts += is_listed
            seen.is_silent = seen.is_silent and is_listed
    seen.text = digest_of("".join(texts).encode(errors="replace"))
    return seen
