"""Messages of Anthropic's form: the originals of one path as a request's body would hold them.

Nothing is repaired and no summary applied, so that not every such body would be accepted: what was sent, or is to be
sent, is what `replay` and `prepare` derive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from convlog.eventstore.events import Event, InputAdded, Text, Tool, ToolReturned
from convlog.eventstore.thread import Thread

from .anthropic_blocks import block_of, result_block, said_block
from .messages import Message, instructions_of, messages_of, tools_of
from .spelled import Json, raw, spell_line


def export(thread: Thread, leaf: int | None) -> Iterator[bytes]:
    """Iterate over the parts of a body."""
    path = list(thread.path(leaf))
    body: Json = {}
    models = [event.source.model for event in path if event.source.model]
    if models:
        body["model"] = models[-1]
    instructions = instructions_of(path)
    if instructions:
        body["system"] = [{"type": "text", "text": part.text or ""} for part in instructions]
    tools = tools_of(path)
    if tools:
        body["tools"] = [_tool(tool) for tool in tools]
    found = (_message(thread, message) for message in messages_of(path))
    yield spell_line({**body, "messages": [message for message in found if message["content"]]})


def _message(thread: Thread, message: Message) -> Json:
    if message.role == "assistant":
        blocks = (said_block(event) for event in message.events)
        return {"role": "assistant", "content": [block for block in blocks if block is not None]}
    if message.role == "tool":
        return {"role": "user", "content": [_result(thread, event) for event in message.events]}
    return {"role": message.role, "content": _input(thread, message.events[0])}


def _input(thread: Thread, event: Event) -> Any:
    body = event.body
    assert isinstance(body, InputAdded)
    if len(body.content) == 1 and isinstance(body.content[0], Text):
        return body.content[0].original
    return [block_of(thread, part) for part in body.content]


def _result(thread: Thread, event: Event) -> Json:
    block = result_block(thread, event)
    failed = isinstance(event.body, ToolReturned) and event.body.status != "ok"
    return {**block, "is_error": True} if failed else block


def _tool(tool: Tool) -> Json:
    declared: Json = {"name": tool.name}
    if tool.description is not None:
        declared["description"] = tool.description
    return {**declared, "input_schema": raw(tool.input_schema or '{"type":"object"}')}
