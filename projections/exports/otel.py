"""Spans of OpenTelemetry's conventions for generative AI, as OTLP writes them in JSON: one trace a thread.

Below the thread's span stands one `chat` span for each response of the path and one `execute_tool` span for each call.
The messages that a model was given are written once: a span has those since the span that `convlog.input.after` names,
since whole histories would grow with their square.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from blake3 import blake3

from convlog.eventstore.events import (
    CallFinished,
    Event,
    Foreign,
    InputAdded,
    SegmentAdded,
    Text,
    ToolCalled,
    ToolReturned,
)
from convlog.eventstore.thread import Thread

from .kept import source_id
from .messages import Message, finished, instructions_of, messages_of, output_blocks, summaries, tools_of
from .openai_chat import tool_of
from .spelled import Json, is_json, object_of, raw, spell, spell_line

SCOPE = "convlog"
UNKNOWN = "unknown"
CLIENT, INTERNAL = 3, 1
"""Kinds of span."""

_ALWAYS = frozenset({"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"})
"""What is told even when it is nothing."""

ERROR = 2
"""The status of a span that failed."""


def export(thread: Thread, leaf: int | None) -> Iterator[bytes]:
    """Iterate over the parts of a document."""
    path = list(thread.path(leaf))
    scope = {"scope": {"name": SCOPE}, "spans": list(_Trace(thread, path).spans())}
    resource = {"attributes": _attributes({"service.name": SCOPE})}
    yield spell_line({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]})


class _Trace:
    """One path on its way into spans."""

    def __init__(self, thread: Thread, path: Sequence[Event]) -> None:
        self._thread = thread
        self._path = path
        self._finished = finished(thread)
        self._calls = {event.position: event for event in path if isinstance(event.body, ToolCalled)}
        here = {event.position for event in path}
        self._summaries = [at for at, summary in summaries(thread) if {summary.first, summary.last} <= here]
        self._root = self._span_id(1)

    def spans(self) -> Iterator[Json]:
        row = self._thread.store.row(self._thread.id)
        agent = row.agent or UNKNOWN
        facts: Json = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent, **self._common()}
        if row.title:
            facts["convlog.title"] = row.title
        yield self._span(f"invoke_agent {agent}", self._root, self._path, facts, parent="")
        pending: list[Json] = []
        after = ""
        for message in messages_of(self._path):
            if message.role == "assistant":
                yield self._chat(message, pending, after)
                pending, after = [], self._span_id(message.events[0].position)
            else:
                if message.role == "tool":
                    yield from (self._tool(event) for event in message.events)
                pending.append(_input(message))

    def _common(self) -> Json:
        return {"gen_ai.conversation.id": source_id(self._thread), "convlog.thread": self._thread.id}

    def _span_id(self, position: int) -> str:
        return blake3(f"{self._thread.id}/{position}".encode()).hexdigest()[:16]

    def _span(
        self, name: str, id_: str, events: Sequence[Event], facts: Json, *, parent: str, kind: int = INTERNAL
    ) -> Json:
        moments = [event.occurred_at if event.occurred_at is not None else event.recorded_at for event in events]
        return {
            "traceId": self._thread.id,
            "spanId": id_,
            "parentSpanId": parent,
            "name": name,
            "kind": kind,
            "startTimeUnixNano": str(max(0, moments[0]) * 1000),
            "endTimeUnixNano": str(max(0, *moments) * 1000),
            "attributes": _attributes(facts),
        }

    def _chat(self, message: Message, pending: list[Json], after: str) -> Json:
        first = message.events[0]
        stated = self._finished.get(message.response or "", CallFinished())
        model = stated.model or first.source.model
        facts: Json = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": stated.provider or first.source.provider or UNKNOWN,
            **self._common(),
            "convlog.node.ids": [event.position for event in message.events],
        }
        if model is not None:
            facts |= {"gen_ai.request.model": model, "gen_ai.response.model": model}
        if message.response is not None:
            facts["gen_ai.response.id"] = message.response
        if stated.stop is not None:
            facts["gen_ai.response.finish_reasons"] = [stated.stop]
        facts |= _usage(stated)
        if not after:
            facts |= self._standing()
        else:
            facts["convlog.input.after"] = after
        if any(at < first.position for at in self._summaries):
            facts["gen_ai.conversation.compacted"] = True
        facts["gen_ai.input.messages"] = spell(pending).decode()
        facts["gen_ai.output.messages"] = spell([_output(message, stated.stop)]).decode()
        span = self._span(
            f"chat {model or UNKNOWN}",
            self._span_id(first.position),
            message.events,
            facts,
            parent=self._root,
            kind=CLIENT,
        )
        return {**span, "status": {"code": ERROR, "message": stated.error}} if stated.error else span

    def _standing(self) -> Json:
        facts: Json = {}
        parts = [{"type": "text", "content": part.text or ""} for part in instructions_of(self._path)]
        if parts:
            facts["gen_ai.system_instructions"] = spell(parts).decode()
        tools = [tool_of(tool) for tool in tools_of(self._path)]
        if tools:
            facts["gen_ai.tool.definitions"] = spell(tools).decode()
        return facts

    def _tool(self, event: Event) -> Json:
        body = event.body
        assert isinstance(body, ToolReturned)
        asked = self._calls.get(event.ref("answers") or 0)
        called = asked.body if asked is not None else None
        name = called.name if isinstance(called, ToolCalled) else UNKNOWN
        facts: Json = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": body.call,
            **self._common(),
            "convlog.node.ids": [event.position],
        }
        if isinstance(called, ToolCalled):
            facts["gen_ai.tool.call.arguments"] = called.input
        if event.output is not None:
            facts["gen_ai.tool.call.result"] = event.output.decode()
        events = [event] if asked is None else [asked, event]
        span = self._span(f"execute_tool {name}", self._span_id(event.position), events, facts, parent=self._root)
        return span if body.status == "ok" else {**span, "status": {"code": ERROR, "message": body.status}}


# --- messages ---


def _input(message: Message) -> Json:
    parts: list[Json] = []
    for event in message.events:
        body = event.body
        if isinstance(body, InputAdded):
            parts += [_content(part) for part in body.content]
        elif isinstance(body, ToolReturned):
            parts.append(_response(event, body))
    return {"role": message.role, "parts": parts}


def _output(message: Message, stop: str | None) -> Json:
    parts = [part for event in message.events if (part := _said(event)) is not None]
    return {"role": "assistant", "parts": parts, "finish_reason": stop or UNKNOWN}


def _said(event: Event) -> Json | None:
    body = event.body
    if isinstance(body, SegmentAdded) and body.kind in {"text", "reasoning"}:
        return {"type": body.kind, "content": body.original}
    if isinstance(body, ToolCalled):
        kind = "server_tool_call" if body.kind == "server" else "tool_call"
        return {"type": kind, "id": body.call, "name": body.name, "arguments": object_of(body.input)}
    return _response(event, body) if isinstance(body, ToolReturned) else None


def _response(event: Event, body: ToolReturned) -> Json:
    if body.form == "json" and event.output is not None and is_json(event.output.decode()):
        return {"type": "tool_call_response", "id": body.call, "response": raw(event.output.decode())}
    parts = output_blocks(event)
    is_text = all(isinstance(part, Text) for part in parts)
    said: Any = (
        "\n".join(part.original for part in parts if isinstance(part, Text))
        if is_text
        else [_content(part) for part in parts]
    )
    return {"type": "tool_call_response", "id": body.call, "response": said}


def _content(part: Any) -> Json:
    if isinstance(part, Text):
        return {"type": "text", "content": part.original}
    if isinstance(part, Foreign):
        return {"type": "generic", "content": raw(part.json)}
    modality = "image" if (part.media_type or "").startswith("image/") else "document"
    place = part.url or f"attachment:{part.attachment}"
    return {"type": "uri", "modality": modality, "mime_type": part.media_type, "uri": place}


# --- attributes ---


def _usage(stated: CallFinished) -> Json:
    usage = stated.usage
    if usage is None:
        return {}
    facts = {
        "gen_ai.usage.input_tokens": usage.input + usage.cache_read + usage.cache_write,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
    }
    return {name: value for name, value in facts.items() if value or name in _ALWAYS}


def _attributes(facts: Json) -> list[Json]:
    return [{"key": name, "value": _value(value)} for name, value in facts.items()]


def _value(value: Any) -> Json:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": value}
