"""The Agent Trajectory Interchange Format, version 1.8: one path as steps, sub-agents' threads within.

The form has no branches, ranges or node ids: which thread, path and nodes a step stands for lies in `extra`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from convlog.eventstore.events import (
    CallFinished,
    Content,
    Event,
    Image,
    InputAdded,
    SegmentAdded,
    Text,
    ToolCalled,
    ToolReturned,
    Usage,
)
from convlog.eventstore.store import Store
from convlog.eventstore.thread import Thread

from .kept import source_id
from .messages import Message, finished, instructions_of, messages_of, output_blocks, output_text, summaries, tools_of
from .openai_chat import tool_of
from .spelled import Json, object_of, spell_line
from .times import iso

SCHEMA_VERSION = "ATIF-v1.8"
UNKNOWN = "unknown"
IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""What the form takes as pictures."""


def export(thread: Thread, leaf: int | None) -> Iterator[bytes]:
    """Iterate over the parts of a document."""
    yield spell_line(_Trajectory(thread, frozenset()).document(leaf))


class _Trajectory:
    """One thread on its way into a document."""

    def __init__(self, thread: Thread, above: frozenset[str]) -> None:
        self._thread = thread
        self._above = above | {thread.id}
        self._finished = finished(thread)
        self._helpers = _helpers(thread.store, thread.id, self._above)
        self._steps: list[Json] = []

    def document(self, leaf: int | None) -> Json:
        path = list(self._thread.path(leaf))
        self._instructions(path)
        for message in messages_of(path):
            self._step(message)
        models = [event.source.model for event in path if event.source.model]
        row = self._thread.store.row(self._thread.id)
        agent: Json = {"name": row.agent or UNKNOWN, "version": UNKNOWN}
        if models:
            agent["model_name"] = models[-1]
        if tools := tools_of(path):
            agent["tool_definitions"] = [tool_of(tool) for tool in tools]
        found: Json = {
            "schema_version": SCHEMA_VERSION,
            "session_id": source_id(self._thread),
            "trajectory_id": self._thread.id,
            "agent": agent,
            "steps": self._steps,
            "final_metrics": self._totals(path),
            "extra": {"convlog": self._about(path)},
        }
        if self._helpers:
            found["subagent_trajectories"] = [
                _Trajectory(helper, self._above).document(None) for helper in self._helpers.values()
            ]
        return found

    def _about(self, path: Sequence[Event]) -> Json:
        here = {event.position for event in path}
        found = [
            {"summary": at, "first": summary.first, "last": summary.last, "text": summary.text}
            for at, summary in summaries(self._thread)
            if {summary.first, summary.last} <= here
        ]
        about: Json = {"thread": self._thread.id, "leaf": path[-1].position, "leaves": self._thread.tree.leaves()}
        return {**about, "summaries": found} if found else about

    def _add(self, source: str, message: Any, events: Sequence[Event], **fields: Any) -> Json:
        step: Json = {"step_id": len(self._steps) + 1}
        moment = next((event.occurred_at for event in events if event.occurred_at is not None), None)
        if moment is not None:
            step["timestamp"] = iso(moment)
        step |= {"source": source, "message": message, **fields}
        step["extra"] = {"convlog": {"nodes": [event.position for event in events]}}
        self._steps.append(step)
        return step

    def _instructions(self, path: Sequence[Event]) -> None:
        texts = [part.text or "" for part in instructions_of(path)]
        if texts:
            self._add("system", "\n\n".join(texts), [])

    def _step(self, message: Message) -> None:
        if message.role == "assistant":
            self._answer(message)
        elif message.role == "tool":
            self._observe(message)
        else:
            body = message.events[0].body
            assert isinstance(body, InputAdded)
            source = "user" if message.role == "user" and message.events[0].source.kind != "host" else "system"
            self._add(source, _content(body.content), message.events)

    def _answer(self, message: Message) -> None:
        texts = [event.body.original for event in message.events if _is(event, "text")]
        thoughts = [event.body.original for event in message.events if _is(event, "reasoning")]
        fields: Json = {}
        if model := next((event.source.model for event in message.events if event.source.model), None):
            fields["model_name"] = model
        if any(thoughts):
            fields["reasoning_content"] = "\n\n".join(thoughts)
        calls = [event.body for event in message.events if isinstance(event.body, ToolCalled)]
        if calls:
            fields["tool_calls"] = [_call(body) for body in calls]
        stated = self._finished.get(message.response or "")
        if stated is not None and stated.usage is not None:
            fields["metrics"] = _metrics(stated)
        step = self._add("agent", "".join(texts), message.events, **fields, llm_call_count=1)
        own = [event for event in message.events if isinstance(event.body, ToolReturned)]
        if own:
            step["observation"] = {"results": [self._result(event) for event in own]}

    def _observe(self, message: Message) -> None:
        """Put results into the step of their calls; results of other calls are a step of their own."""
        last = self._steps[-1] if self._steps else {}
        asked = {call["tool_call_id"] for call in last.get("tool_calls", ())}
        results = [self._result(event) for event in message.events]
        if all(result["source_call_id"] in asked for result in results):
            last.setdefault("observation", {"results": []})["results"].extend(results)
            last["extra"]["convlog"]["nodes"].extend(event.position for event in message.events)
        else:
            self._add("system", "", message.events, observation={"results": results})

    def _result(self, event: Event) -> Json:
        body = event.body
        assert isinstance(body, ToolReturned)
        text = output_text(event)
        result: Json = {"source_call_id": body.call}
        if event.output is not None:
            result["content"] = text if text is not None else _content(output_blocks(event))
        helper = self._helpers.get(event.ref("answers") or 0)
        if helper is not None:
            result["subagent_trajectory_ref"] = [{"trajectory_id": helper.id, "session_id": source_id(helper)}]
        if body.status != "ok":
            result["extra"] = {"status": body.status}
        return result

    def _totals(self, path: Sequence[Event]) -> Json:
        here = {id_ for event in path if (id_ := getattr(event.body, "response", None))}
        usages = [stated.usage for id_, stated in self._finished.items() if id_ in here and stated.usage is not None]
        return {
            "total_prompt_tokens": sum(map(_prompt_tokens, usages)),
            "total_completion_tokens": sum(usage.output for usage in usages),
            "total_cached_tokens": sum(usage.cache_read for usage in usages),
            "total_steps": len(self._steps),
        }


def _helpers(store: Store, thread: str, above: frozenset[str]) -> dict[int, Thread]:
    """Give the threads of sub-agents by the call that they work for; those of no known call by numbers below 0."""
    rows = [row for row in store.threads() if row.parent_thread == thread and row.thread not in above]
    rows.sort(key=lambda row: row.thread)
    found: dict[int, Thread] = {}
    for number, row in enumerate(rows, 1):
        call = row.parent_call
        found[call if call is not None and call not in found else -number] = store.thread(row.thread)
    return found


def _call(body: ToolCalled) -> Json:
    return {"tool_call_id": body.call, "function_name": body.name, "arguments": object_of(body.input)}


def _metrics(stated: CallFinished) -> Json:
    usage = stated.usage or Usage()
    metrics: Json = {
        "prompt_tokens": _prompt_tokens(usage),
        "completion_tokens": usage.output,
        "cached_tokens": usage.cache_read,
    }
    extra = {name: value for name in ("cache_write", "reasoning") if (value := getattr(usage, name))}
    return {**metrics, "extra": extra} if extra else metrics


def _prompt_tokens(usage: Usage) -> int:
    """All tokens of the input: here they are three classes, in this form one of which cached ones are a part."""
    return usage.input + usage.cache_read + usage.cache_write


def _content(parts: Sequence[Content]) -> Any:
    if all(isinstance(part, Text) for part in parts):
        return "\n".join(part.original for part in parts if isinstance(part, Text))
    return [_part(part) for part in parts]


def _part(part: Content) -> Json:
    if isinstance(part, Text):
        return {"type": "text", "text": part.original}
    if isinstance(part, Image) and part.media_type in IMAGE_TYPES:
        place = part.url or f"attachments/{part.attachment}"
        return {"type": "image", "source": {"media_type": part.media_type, "path": place}}
    return {"type": "text", "text": getattr(part, "json", None) or f"[{getattr(part, 'name', None) or 'a document'}]"}


def _is(event: Event, kind: str) -> bool:
    return isinstance(event.body, SegmentAdded) and event.body.kind == kind
