"""Content and parts of responses in Anthropic's form."""

from __future__ import annotations

import base64
from typing import Any

from msgspec import Raw

from convlog.eventstore.events import (
    Content,
    Document,
    Event,
    Foreign,
    Image,
    SegmentAdded,
    Text,
    ToolCalled,
    ToolReturned,
)
from convlog.eventstore.importers.anthropic_blocks import PROVIDER
from convlog.eventstore.importers.slices import fields_of
from convlog.eventstore.thread import Thread

from .messages import attachment, output_blocks, output_text
from .spelled import Json, object_of, raw

NO_CONTENT: Any = object()
"""A result without content, which is another thing than one with empty content."""


def block_of(thread: Thread, part: Content) -> Json | Raw:
    """Write a block of an input or a result."""
    if isinstance(part, Text):
        return {"type": "text", "text": part.original}
    if isinstance(part, Foreign):
        return raw(part.json) if part.provider == PROVIDER else {"type": "text", "text": part.json}
    return _medium(thread, part)


def _medium(thread: Thread, part: Image | Document) -> Json:
    kind = "image" if isinstance(part, Image) else "document"
    data = attachment(thread, part)
    extra = {} if part.extra is None else fields_of(part.extra.encode()) or {}
    if data is not None:
        coded = base64.b64encode(data).decode()
        source: Json = {"type": "base64", "media_type": part.media_type or "application/octet-stream", "data": coded}
        return {"type": kind, "source": source, **extra}
    if part.url is not None:
        return {"type": kind, "source": {"type": "url", "url": part.url}, **extra}
    return {"type": "text", "text": f"[{kind} {part.name or part.attachment or ''} is not here]"}


def said_block(event: Event, *, verbatim: bool = False) -> Json | Raw | None:
    """Write a part of a response; None for one that this form has no block for.

    Args:
        event: the part.
        verbatim: whether it came from this form, so that an input goes back as it was spelled.
    """
    body = event.body
    if isinstance(body, SegmentAdded):
        if body.opaque is not None:
            return raw(body.opaque) if event.source.provider == PROVIDER else None
        if body.kind == "reasoning":
            block: Json = {"type": "thinking", "thinking": body.original}
            signed = verbatim or event.source.provider == PROVIDER
            return block | ({"signature": body.signature} if signed and body.signature is not None else {})
        return {"type": "text", "text": body.original} if body.kind == "text" else None
    if isinstance(body, ToolCalled):
        if body.opaque is not None and event.source.provider == PROVIDER:
            return raw(body.opaque)
        given = raw(body.input) if verbatim else object_of(body.input)
        return {"type": "tool_use", "id": body.call, "name": body.name, "input": given}
    if isinstance(body, ToolReturned) and body.form == "json" and event.output is not None:
        return Raw(event.output)
    return None


def result_block(thread: Thread, event: Event) -> Json:
    """Write a result."""
    body = event.body
    assert isinstance(body, ToolReturned)
    block: Json = {"type": "tool_result", "tool_use_id": body.call}
    content = result_content(thread, event)
    if content is not NO_CONTENT:
        block["content"] = content
    return block


def result_content(thread: Thread, event: Event) -> Any:
    """Give a result's content: a text, a list of blocks, or whatever it was."""
    body = event.body
    if not isinstance(body, ToolReturned) or event.output is None:
        return NO_CONTENT
    if body.form == "json":
        return Raw(event.output)
    text = output_text(event)
    return text if text is not None else [block_of(thread, part) for part in output_blocks(event)]
