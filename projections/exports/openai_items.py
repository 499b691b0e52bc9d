"""Items of OpenAI's Responses form: put together again from their events, or written anew from any thread's."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from convlog.eventstore.events import (
    Content,
    Event,
    Foreign,
    Image,
    InputAdded,
    SegmentAdded,
    Text,
    ToolCalled,
    ToolReturned,
)
from convlog.eventstore.importers.openai_items import PROVIDER
from convlog.eventstore.importers.slices import Fields, fields_of, items_of, name_of
from convlog.eventstore.thread import Thread

from .messages import attachment, output_blocks, output_text
from .spelled import Json, raw

ABSENT, EMPTY = Raw(b"null"), Raw(b'""')
"""What an import notes of an entry that was not there, and of a content that was one text."""

_REFUSAL = Raw(b'"refusal"')


def item_again(thread: Thread, events: Sequence[Event], rest: Fields) -> Json | Raw:
    """Put an item together again from its events and what the import found no place for."""
    event = events[0]
    body = event.body
    opaque = getattr(body, "opaque", None)
    if opaque is not None:
        return raw(opaque)
    if isinstance(body, InputAdded):
        role = "user" if body.role == "user" else "system"
        said: Json = {"type": "message", "role": role, "id": body.item, "content": _content(thread, body.content, rest)}
        return _merged(said, rest, "content")
    if isinstance(body, SegmentAdded):
        return _reasoning(body, rest) if body.kind == "reasoning" else _message(events, rest)
    if isinstance(body, ToolCalled):
        is_custom = body.kind == "custom"
        kind, field = ("custom_tool_call", "input") if is_custom else ("function_call", "arguments")
        called: Json = {"type": kind, "id": body.item, "name": body.name, field: body.input, "call_id": body.call}
        return _merged(called, rest, absent=("call_id", field))
    return _result(thread, event, rest)


def _merged(said: Json, rest: Fields, marker: str = "", absent: Sequence[str] = ()) -> Json:
    """Lay what is over on what is said.

    Args:
        said: what the events say.
        rest: what they do not.
        marker: an entry of the rest that only tells how something stood.
        absent: entries that, like a type, are noted as null where they were not there.
    """
    whole = {**said, **{name: value for name, value in rest.items() if name != marker}}
    noted = {"type", *absent}
    return {
        name: value for name, value in whole.items() if value is not None and (value != ABSENT or name not in noted)
    }


def _content(thread: Thread, content: Sequence[Content], rest: Fields) -> Any:
    if rest.get("content") == EMPTY and content and isinstance(content[0], Text):
        return content[0].original
    overs = _overs(rest.get("content"), len(content))
    return [part_of(thread, part, over) for part, over in zip(content, overs, strict=True)]


def _overs(data: Raw | None, count: int) -> list[Fields]:
    found = [fields_of(item) or {} for item in items_of(data) or []]
    return found[:count] + [{}] * (count - len(found))


def part_of(thread: Thread, part: Content, over: Fields, plain: str = "input_text") -> Json | Raw:
    """Write a part of a content."""
    if isinstance(part, Text):
        return _text(part.original, over, plain)
    if isinstance(part, Foreign):
        return raw(part.json) if part.provider == PROVIDER else {"type": plain, "text": part.json}
    data = attachment(thread, part)
    url = part.url if data is None else f"data:{part.media_type};base64,{base64.b64encode(data).decode()}"
    if isinstance(part, Image) and url is not None:
        extra = {} if part.extra is None else fields_of(part.extra.encode()) or {}
        return {"type": "input_image", "image_url": url, **extra}
    return {"type": plain, "text": f"[{part.name or part.url or part.attachment or 'a document'} is not here]"}


def _text(text: str, over: Fields, plain: str) -> Json:
    field = "refusal" if over.get("type") == _REFUSAL else "text"
    whole: Json = {"type": plain, field: text, **over}
    return {name: value for name, value in whole.items() if name != "type" or value != ABSENT}


def _message(events: Sequence[Event], rest: Fields) -> Json:
    texts = [event.body.original for event in events if isinstance(event.body, SegmentAdded)]
    marker = rest.get("content")
    if marker == EMPTY:
        content: Any = texts[0]
    elif marker is not None and not items_of(marker):
        content = []
    else:
        overs = _overs(marker, len(texts))
        content = [_text(text, over, "output_text") for text, over in zip(texts, overs, strict=True)]
    first = events[0].body
    assert isinstance(first, SegmentAdded)
    return _merged({"type": "message", "role": "assistant", "id": first.item, "content": content}, rest, "content")


def _reasoning(body: SegmentAdded, rest: Fields) -> Json:
    text = body.original
    summary = [{"type": "summary_text", "text": text}] if text else []
    said = {"type": "reasoning", "id": body.item, "summary": summary, "encrypted_content": body.signature}
    sealed = {"encrypted_content": rest["encrypted_content"]} if "encrypted_content" in rest else {}
    return {**_merged(said, rest, absent=("summary",)), **sealed}


def _result(thread: Thread, event: Event, rest: Fields) -> Json | Raw:
    body = event.body
    assert isinstance(body, ToolReturned)
    said: Json = {"type": "function_call_output", "call_id": body.call}
    if body.form == "json" and event.output is not None:
        whole = fields_of(event.output)
        if whole is not None and "output" not in whole and name_of(whole.get("call_id")) == body.call:
            return Raw(event.output)
        return {**said, "output": Raw(event.output), **rest}
    over = rest.get("output")
    fields = fields_of(over) if over is not None else None
    text = output_text(event)
    if fields is not None:
        output: Any = {**fields, "content": text}
    elif text is not None or event.output is None:
        output = text or ""
    else:
        parts = output_blocks(event)
        output = [part_of(thread, part, one) for part, one in zip(parts, _overs(over, len(parts)), strict=True)]
    return {**said, "output": output, **{name: value for name, value in rest.items() if name != "output"}}


# --- written anew ---


def new_item(thread: Thread, event: Event) -> Json | Raw | None:
    """Write a node as an item; None for one that this form has none for."""
    body = event.body
    if isinstance(body, InputAdded):
        role = "user" if body.role == "user" else "developer"
        content = [part_of(thread, part, {}) for part in body.content]
        return {"type": "message", "role": role, "content": content}
    is_own = event.source.provider == PROVIDER
    if isinstance(body, SegmentAdded):
        if body.opaque is not None:
            return raw(body.opaque) if is_own else None
        if body.kind == "text":
            return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": body.original}]}
        if body.kind != "reasoning":
            return None
        summary = [{"type": "summary_text", "text": body.original}] if body.text else []
        sealed = {"encrypted_content": body.signature} if is_own and body.signature else {}
        return {"type": "reasoning", "summary": summary, **sealed}
    if isinstance(body, ToolCalled):
        if body.opaque is not None and is_own:
            return raw(body.opaque)
        is_custom = body.kind == "custom"
        kind, field = ("custom_tool_call", "input") if is_custom else ("function_call", "arguments")
        return {"type": kind, "name": body.name, field: body.input, "call_id": body.call}
    return _result(thread, event, {}) if isinstance(body, ToolReturned) else None
