"""pi sessions: JSON Lines, a header and then entries that form a tree; the last line is the active one.

Lines of an imported session are put together again in the form that they came in; a thread that came otherwise is
written in form 3, an entry for each message.
"""

from __future__ import annotations

import base64
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

from blake3 import blake3
from msgspec import Raw

from convlog.eventstore.events import (
    BranchNamed,
    CallFinished,
    Content,
    Event,
    Foreign,
    HeadMoved,
    Image,
    InputAdded,
    SegmentAdded,
    SummaryAdded,
    Text,
    ToolCalled,
    ToolReturned,
    Usage,
)
from convlog.eventstore.importers.pi_lines import AGENT
from convlog.eventstore.importers.slices import Fields, fields_of, items_of, name_of
from convlog.eventstore.thread import Thread

from .kept import Kept, is_from, on_path, records_of, source_id
from .messages import Message, attachment, finished, messages_of, output_blocks, output_text, summaries
from .spelled import Json, extra_of, object_of, raw, spell_line
from .times import iso

EMPTY, NONE = Raw(b'""'), Raw(b"[]")
"""What an import notes of a content that was one text, or no block."""

NEWEST = "stop"
STOPS = {"end_turn": "stop", "stop": "stop", "tool_use": "toolUse", "max_tokens": "length", "length": "length"}
"""Reasons to stop, in pi's words."""


def export(thread: Thread, leaf: int | None) -> Iterator[bytes]:
    """Iterate over the lines of a session."""
    lines = _Again(thread).lines(leaf) if is_from(thread, AGENT) else _New(thread).lines(leaf)
    return (line + b"\n" if isinstance(line, bytes) else spell_line(line) for line in lines)


class _Again:
    """An imported session on its way back."""

    def __init__(self, thread: Thread) -> None:
        self._thread = thread
        self._entries: dict[int, str] = {}
        """The entry that stands for a node."""
        self._is_fourth = False
        self._count = 0

    def lines(self, leaf: int | None) -> Iterator[bytes | Json]:
        new = _New(self._thread)
        for record in records_of(on_path(self._thread, leaf), own=True):
            for event in record.nodes:
                self._entries[event.position] = record.id or ""
            self._count += 1
            verbatim = record.verbatim
            if verbatim is not None:
                self._is_fourth = self._is_fourth or name_of((fields_of(verbatim) or {}).get("kind")) == "header"
                yield verbatim
            elif record.id is not None:
                line = self._line(record)
                if line is not None:
                    yield line
            elif record.first.is_node and record.first.position > 1:
                above = self._thread.tree.parent(record.first.position)
                for message in _single(messages_of([record.first])):
                    self._entries[record.first.position] = new.id_of(record.first.position)
                    yield new.entry(message, self._entries.get(above or 0))
        moved = list(self._thread.events(types=(HeadMoved.TYPE,)))
        if leaf is None and moved and moved[-1].source.kind != "import" and moved[-1].head == self._thread.head:
            yield self._moved(moved[-1], new)

    def _moved(self, event: Event, new: _New) -> Json:
        """Write that another entry is the active one now."""
        entry = self._entries.get(event.head)
        if self._is_fourth:
            return {"kind": "lane", "seq": self._count + 1, "lane": "main", "leafId": entry}
        links = {"id": new.id_of(event.position), "parentId": entry, "timestamp": iso(_moment(event))}
        return {"type": "label", **links, "targetId": entry}

    def _line(self, record: Kept) -> Json | None:
        wanted = (SummaryAdded, BranchNamed)
        events = [event for event in record.events if event.is_node or isinstance(event.body, wanted)]
        if not events:
            return None
        first = events[0]
        outer = extra_of(first.body)
        inner = fields_of(outer.get("entry")) if name_of(outer.get("kind")) == "entry" else None
        fields = outer if inner is None else inner
        entry = self._entry(record, events, fields, outer)
        for marker in ("block", "blocks"):
            entry.pop(marker, None)
        if inner is None:
            return entry
        kept = {name: value for name, value in outer.items() if name not in {"entry", "block", "blocks", "content"}}
        return {**kept, "entry": entry}

    def _entry(self, record: Kept, events: Sequence[Event], fields: Fields, outer: Fields) -> Json:
        first = events[0]
        body = first.body
        entry: Json = {name: value for name, value in fields.items() if name not in {"message", "entry"}}
        if record.has_own_id and "id" not in entry:
            entry["id"] = record.id
        if first.occurred_at is not None and "timestamp" not in entry:
            entry["timestamp"] = iso(first.occurred_at)
        kind = name_of(fields.get("type"))
        if isinstance(body, SummaryAdded) or (
            kind in {"branch_summary", "compaction"} and isinstance(body, InputAdded)
        ):
            text = Text(body.text, body.halves) if isinstance(body, SummaryAdded) else body.content[0]
            return {**entry, "summary": text.original if isinstance(text, Text) else ""}
        if kind == "custom_message" and isinstance(body, InputAdded):
            return {**entry, "content": self._content(body.content, outer if "content" in outer else fields, outer)}
        if isinstance(body, BranchNamed):
            return entry
        over = fields_of(fields.get("message")) or {}
        return {"type": "message", **entry, "message": self._message(events, over)}

    def _message(self, events: Sequence[Event], over: Fields) -> Json:
        body = events[0].body
        rest = {name: value for name, value in over.items() if name not in {"content", "blocks"}}
        if isinstance(body, InputAdded):
            role = name_of(over.get("role"))
            if role == "bashExecution":
                return dict(over)
            if role in {"branchSummary", "compactionSummary"}:
                return {**rest, "summary": "".join(p.original for p in body.content if isinstance(p, Text))}
            return {"role": "user", **rest, "content": self._content(body.content, over, over)}
        if isinstance(body, ToolReturned):
            said: Json = {"role": "toolResult", "toolCallId": body.call, "content": self._output(events[0], over)}
            return {**said, **({} if body.status == "ok" else {"isError": True}), **rest}
        source = events[0].source
        named = {"provider": source.provider, "model": source.model}
        message: Json = {"role": "assistant", **{name: value for name, value in named.items() if value is not None}}
        marker = over.get("content")
        if marker == EMPTY and isinstance(body, SegmentAdded):
            content: Any = body.original
        else:
            content = [] if marker == NONE else [_block(event) for event in events]
        return {**message, **rest, "content": content}

    def _content(self, content: Sequence[Content], marked: Fields, over: Fields) -> Any:
        if marked.get("content") == EMPTY and content and isinstance(content[0], Text):
            return content[0].original
        rests = [fields_of(rest) or {} for rest in items_of(over.get("blocks")) or []]
        rests += [{}] * (len(content) - len(rests))
        return [_merged(content_block(self._thread, part), rest) for part, rest in zip(content, rests, strict=True)]

    def _output(self, event: Event, over: Fields) -> Any:
        return self._content(output_blocks(event), over, over)


def _merged(block: Json | Raw, rest: Fields) -> Json | Raw:
    return {**block, **rest} if isinstance(block, dict) else block


def _block(event: Event) -> Json | Raw:
    """Put a block of a response together again."""
    body = event.body
    rest = fields_of(extra_of(body).get("block")) or {}
    if isinstance(body, ToolCalled):
        call: Json = {"type": "toolCall", "id": body.call, "name": body.name, "arguments": raw(body.input)}
        return {**call, **({} if body.signature is None else {"thoughtSignature": body.signature}), **rest}
    assert isinstance(body, SegmentAdded)
    if body.kind == "opaque" and body.opaque is not None:
        return raw(body.opaque)
    if body.kind == "reasoning":
        seal = body.opaque if body.opaque is not None else body.signature
        thought: Json = {"type": "thinking", "thinking": body.original}
        return {**thought, **({} if seal is None else {"thinkingSignature": seal}), **rest}
    return {"type": "text", "text": body.original, **rest}


def content_block(thread: Thread, part: Content) -> Json | Raw:
    """Write a block of an input or a result."""
    if isinstance(part, Text):
        return {"type": "text", "text": part.original}
    if isinstance(part, Foreign):
        return raw(part.json) if part.provider == AGENT else {"type": "text", "text": part.json}
    data = attachment(thread, part)
    if isinstance(part, Image) and data is not None:
        extra = {} if part.extra is None else fields_of(part.extra.encode()) or {}
        named = {} if part.media_type is None else {"mimeType": part.media_type}
        return {"type": "image", "data": base64.b64encode(data).decode(), **named, **extra}
    return {"type": "text", "text": f"[{part.name or part.url or part.attachment or 'a document'} is not here]"}


def _single(messages: Iterable[Message]) -> Iterator[Message]:
    """Part results: each is an entry of its own."""
    for message in messages:
        if message.role == "tool":
            yield from (Message("tool", (event,)) for event in message.events)
        else:
            yield message


class _New:
    """A thread on its way into a session of its own."""

    def __init__(self, thread: Thread) -> None:
        self._thread = thread
        self._finished = finished(thread)
        self._summaries = summaries(thread)
        self._entries: dict[tuple[int, ...], str] = {}
        """The entry of a message, by its nodes."""
        self._calls = {
            event.position: event.body.name
            for event in thread.events(types=(ToolCalled.TYPE,), outputs=False)
            if isinstance(event.body, ToolCalled)
        }
        self._last: str | None = None

    def id_of(self, position: int, what: str = "") -> str:
        """Name an entry: the same at every export."""
        return blake3(f"{self._thread.id}/{position}{what}".encode()).hexdigest()[:8]

    def lines(self, leaf: int | None) -> Iterator[Json]:
        root = self._thread.event(1)
        row = self._thread.store.row(self._thread.id)
        header: Json = {"type": "session", "version": 3, "id": source_id(self._thread), "cwd": row.cwd or ""}
        yield {**header, "timestamp": iso(_moment(root))}
        if row.title:
            yield {**self._links(root, None, "/title"), "type": "session_info", "name": row.title}
            self._last = None
        active = self._thread.head if leaf is None else leaf
        leaves = (
            [active] if leaf is not None else [*(each for each in self._thread.tree.leaves() if each != active), active]
        )
        for each in leaves:
            yield from self._path(each)
        resumed = self._entry_on(active)
        if resumed is not None and resumed != self._last:
            moved = self._links(self._thread.event(active), resumed, "/leaf")
            yield {**moved, "type": "label", "targetId": resumed}

    def _path(self, leaf: int) -> Iterator[Json]:
        path = list(self._thread.path(leaf))
        here = {event.position for event in path}
        waiting = [(at, summary) for at, summary in self._summaries if {summary.first, summary.last} <= here]
        above: str | None = None
        kept: dict[int, str] = {}
        for message in _single(messages_of(path)):
            while waiting and waiting[0][0] < message.events[0].position:
                at, summary = waiting.pop(0)
                above = yield from self._compaction(at, summary, above, kept)
            key = tuple(event.position for event in message.events)
            if key not in self._entries:
                self._entries[key] = self.id_of(key[0])
                yield self.entry(message, above)
            above = self._entries[key]
            kept[key[0]] = above
        for at, summary in waiting:
            above = yield from self._compaction(at, summary, above, kept)

    def _compaction(
        self, at: int, summary: SummaryAdded, above: str | None, kept: dict[int, str]
    ) -> Generator[Json, None, str]:
        """Write a summary as an entry, and give the entry's id: what follows hangs below it."""
        id_ = self.id_of(at)
        if (at,) not in self._entries:
            self._entries[at,] = id_
            first = next((entry for position, entry in sorted(kept.items()) if position > summary.last), None)
            stays: Json = {"retainedTail": []} if first is None else {"firstKeptEntryId": first}
            links = self._links(self._thread.event(at), above)
            text = Text(summary.text, summary.halves).original
            yield {**links, "type": "compaction", "summary": text, **stays, "tokensBefore": 0}
        return id_

    def _entry_on(self, leaf: int) -> str | None:
        messages = list(_single(messages_of(self._thread.path(leaf))))
        return self._entries.get(tuple(event.position for event in messages[-1].events)) if messages else None

    def _links(self, event: Event, above: str | None, what: str = "") -> Json:
        self._last = self.id_of(event.position, what)
        return {"id": self._last, "parentId": above, "timestamp": iso(_moment(event))}

    def entry(self, message: Message, above: str | None) -> Json:
        """Write a message as an entry."""
        first = message.events[0]
        links = self._links(first, above)
        if message.role == "assistant":
            return {**links, "type": "message", "message": self._answer(message)}
        if message.role == "tool":
            return {**links, "type": "message", "message": self._result(first)}
        body = first.body
        assert isinstance(body, InputAdded)
        content = [content_block(self._thread, part) for part in body.content]
        if message.role == "user" and first.source.kind == "user":
            said = {"role": "user", "content": content, "timestamp": _moment(first) // 1000}
            return {**links, "type": "message", "message": said}
        name = body.role if body.role == "system" else first.source.name or first.source.kind
        return {**links, "type": "custom_message", "customType": name, "content": content, "display": True}

    def _answer(self, message: Message) -> Json:
        first = message.events[0]
        stated = self._finished.get(message.response or "", CallFinished())
        calls = any(isinstance(event.body, ToolCalled) for event in message.events)
        said: Json = {
            "role": "assistant",
            "content": [block for event in message.events if (block := self._said(event)) is not None],
            "api": "unknown",
            "provider": stated.provider or first.source.provider or "unknown",
            "model": stated.model or first.source.model or "unknown",
            "usage": _usage(stated.usage or Usage()),
            "stopReason": STOPS.get(stated.stop or "", "toolUse" if calls else NEWEST),
            "timestamp": _moment(first) // 1000,
        }
        return {**said, "errorMessage": stated.error, "stopReason": "error"} if stated.error else said

    def _said(self, event: Event) -> Json | None:
        body = event.body
        if isinstance(body, ToolCalled):
            return {"type": "toolCall", "id": body.call, "name": body.name, "arguments": object_of(body.input)}
        if isinstance(body, SegmentAdded) and body.kind in {"text", "reasoning"}:
            block = _block(event)
            return block if isinstance(block, dict) else None
        return None

    def _result(self, event: Event) -> Json:
        body = event.body
        assert isinstance(body, ToolReturned)
        text = output_text(event)
        blocks: list[Any] = [{"type": "text", "text": text or ""}]
        if text is None and event.output is not None:
            blocks = [content_block(self._thread, part) for part in output_blocks(event)]
        return {
            "role": "toolResult",
            "toolCallId": body.call,
            "toolName": self._calls.get(event.ref("answers") or 0, "unknown"),
            "content": blocks,
            "isError": body.status != "ok",
            "timestamp": _moment(event) // 1000,
        }


def _moment(event: Event) -> int:
    return event.recorded_at if event.occurred_at is None else event.occurred_at


def _usage(usage: Usage) -> Json:
    total = usage.input + usage.cache_read + usage.cache_write + usage.output
    cost = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0)
    return {
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
        "totalTokens": total,
        "cost": cost,
    }
