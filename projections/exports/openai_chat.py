"""Messages of OpenAI's chat form: the originals of one path as a request's body would hold them.

Nothing is repaired and no summary applied, so that not every such body would be accepted: what was sent, or is to be
sent, is what `replay` and `prepare` derive.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
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
    Tool,
    ToolCalled,
    ToolReturned,
)
from convlog.eventstore.importers.openai_items import PROVIDER
from convlog.eventstore.importers.slices import fields_of
from convlog.eventstore.thread import Thread

from .messages import Message, attachment, instructions_of, messages_of, output_blocks, output_text, tools_of
from .spelled import Json, raw, spell_line


def export(thread: Thread, leaf: int | None) -> Iterator[bytes]:
    """Iterate over the parts of a body."""
    path = list(thread.path(leaf))
    body: Json = {}
    models = [event.source.model for event in path if event.source.model]
    if models:
        body["model"] = models[-1]
    tools = tools_of(path)
    if tools:
        body["tools"] = [tool_of(tool) for tool in tools]
    instructions = [{"role": "system", "content": part.text or ""} for part in instructions_of(path)]
    said = (each for message in messages_of(path) for each in _messages(thread, message))
    yield spell_line({**body, "messages": [*instructions, *said]})


def _messages(thread: Thread, message: Message) -> Iterator[Json]:
    if message.role == "assistant":
        yield from _answer(message)
    elif message.role == "tool":
        yield from (_result(thread, event) for event in message.events)
    else:
        body = message.events[0].body
        assert isinstance(body, InputAdded)
        yield {"role": message.role, "content": content_of(thread, body.content)}


def content_of(thread: Thread, parts: tuple[Content, ...]) -> Any:
    """Write content: one text as a text, anything else as a list of parts."""
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].original
    return [_part(thread, part) for part in parts]


def _part(thread: Thread, part: Content) -> Json | Raw:
    if isinstance(part, Text):
        return {"type": "text", "text": part.original}
    if isinstance(part, Foreign):
        return raw(part.json) if part.provider == PROVIDER else {"type": "text", "text": part.json}
    data = attachment(thread, part)
    url = part.url if data is None else f"data:{part.media_type};base64,{base64.b64encode(data).decode()}"
    if isinstance(part, Image) and url is not None:
        detail = {} if part.extra is None else fields_of(part.extra.encode()) or {}
        return {"type": "image_url", "image_url": {"url": url, **detail}}
    if data is not None:
        return {"type": "file", "file": {"filename": part.name or "document", "file_data": url}}
    return {"type": "text", "text": f"[{part.name or part.url or part.attachment or 'a document'} is not here]"}


def _answer(message: Message) -> Iterator[Json]:
    """Write a response; what its provider's server gave back within it has no place in this form."""
    said: Json = {"role": "assistant"}
    thoughts = [event.body.original for event in message.events if _is(event, "reasoning")]
    texts = [event.body.original for event in message.events if _is(event, "text")]
    calls = [_call(event.body) for event in message.events if isinstance(event.body, ToolCalled)]
    if any(thoughts):
        said["reasoning_content"] = "\n\n".join(thoughts)
    if len(texts) > 1:
        said["content"] = [{"type": "text", "text": text} for text in texts]
    elif texts or not calls:
        said["content"] = "".join(texts)
    if calls:
        said["tool_calls"] = calls
    if thoughts or texts or calls:
        yield said


def _is(event: Event, kind: str) -> bool:
    return isinstance(event.body, SegmentAdded) and event.body.kind == kind


def _call(body: ToolCalled) -> Json:
    if body.kind == "custom":
        return {"id": body.call, "type": "custom", "custom": {"name": body.name, "input": body.input}}
    return {"id": body.call, "type": "function", "function": {"name": body.name, "arguments": body.input}}


def _result(thread: Thread, event: Event) -> Json:
    body = event.body
    assert isinstance(body, ToolReturned)
    text = output_text(event)
    if text is None:
        parts = output_blocks(event)
        is_blocks = body.form == "blocks"
        content = content_of(thread, parts) if is_blocks else "".join(p.original for p in parts if isinstance(p, Text))
    else:
        content = text
    return {"role": "tool", "tool_call_id": body.call, "content": content}


def tool_of(tool: Tool) -> Json:
    """Write a tool's declaration."""
    declared: Json = {"name": tool.name}
    if tool.description is not None:
        declared["description"] = tool.description
    if tool.input_schema is not None:
        declared["parameters"] = raw(tool.input_schema)
    return {"type": "function", "function": declared}
