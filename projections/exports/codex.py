"""Codex rollouts: JSON Lines whose order is all that ties them together, so one path at a time.

Lines of an imported rollout are put together again, in the outer form that they came in; a thread that came otherwise
is written in the present one.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Raw

from convlog.eventstore.events import (
    Event,
    InputAdded,
    InstructionsSet,
    RecordKept,
    SummaryAdded,
    Text,
    ThreadCreated,
    Usage,
)
from convlog.eventstore.importers.codex_lines import AGENT, BARE, COMPACTED, DOCUMENT, ITEM, META
from convlog.eventstore.importers.documents import WHOLE
from convlog.eventstore.importers.openai_items import PROVIDER
from convlog.eventstore.importers.slices import Fields, fields_of, items_of, name_of
from convlog.eventstore.thread import Thread

from .kept import Kept, is_from, on_path, records_of, source_id
from .messages import finished, instructions_of, messages_of, summaries
from .openai_items import item_again, new_item
from .spelled import Json, extra_of, spell, spell_line
from .times import iso

ORIGINATOR = "convlog"


def export(thread: Thread, leaf: int | None) -> Iterator[bytes]:
    """Iterate over the lines of a rollout."""
    if not is_from(thread, AGENT):
        return map(spell_line, _New(thread).lines(thread.head if leaf is None else leaf))
    created = thread.event(1).body
    form = created.labels.get("form", "") if isinstance(created, ThreadCreated) else ""
    again = _Again(thread, form)
    # A rollout that was not gone on with is told as it was, with what it went back on.
    is_whole = leaf is None and not any(event.is_node and event.key is None for event in thread.events(2, bodies=False))
    asked = None if is_whole else thread.head if leaf is None else leaf
    return again.document(asked) if form == DOCUMENT else (record + b"\n" for record in again.records(asked))


class _Again:
    """An imported rollout on its way back."""

    def __init__(self, thread: Thread, form: str) -> None:
        self._thread = thread
        self._form = form
        self._payloads: dict[str, bytes] = {}
        """Inputs by the id of their record: a later history may name them."""

    def records(self, leaf: int | None) -> Iterator[bytes]:
        """Iterate over the records, those that go back on something only where all are wanted."""
        for record in records_of(on_path(self._thread, leaf), own=True):
            verbatim = record.verbatim
            if verbatim is not None:
                if leaf is None or b'"thread_rolled_back"' not in verbatim:
                    yield verbatim
            elif record.id is not None:
                line = self._line(record)
                if line is not None:
                    yield spell(line)
            elif record.first.is_node and record.first.position > 1:
                item = new_item(self._thread, record.first)
                if item is not None:
                    yield spell(self._enveloped(ITEM, item, record.first, {}))

    def document(self, leaf: int | None) -> Iterator[bytes]:
        """Iterate over the parts of the oldest form: one document."""
        about: Json = {}
        for event in self._thread.events(types=(RecordKept.TYPE,)):
            if isinstance(event.body, RecordKept) and event.body.line == WHOLE:
                about |= fields_of(event.body.record.encode()) or {}
        items = [Raw(record) for record in self.records(leaf) if not _is_about(record)]
        yield spell({**about, "items": items})

    def _line(self, record: Kept) -> Json | Raw | None:
        events = [event for event in record.events if event.is_node or isinstance(event.body, SummaryAdded)]
        if not events:
            return None
        first = events[0]
        extra = extra_of(first.body)
        rest = fields_of(extra.pop("payload", None)) or {}
        if isinstance(first.body, InstructionsSet):
            base = fields_of(rest.get("base_instructions")) or {}
            payload: Json = {**rest, "base_instructions": {**base, "text": first.body.parts[0].text}}
            return self._enveloped(META, payload, first, extra)
        if isinstance(first.body, SummaryAdded):
            return self._enveloped(COMPACTED, self._compacted(first.body, rest), first, extra)
        item = item_again(self._thread, events, rest)
        if isinstance(first.body, InputAdded) and record.id is not None:
            self._payloads[record.id] = spell(item)
        return self._enveloped(ITEM, item, first, extra)

    def _enveloped(self, kind: str, payload: Json | Raw, event: Event, extra: Fields) -> Json | Raw:
        if self._form in {BARE, DOCUMENT}:
            return payload
        line: Json = dict(extra)
        if event.occurred_at is not None and "timestamp" not in line:
            line["timestamp"] = iso(event.occurred_at)
        return {**line, "type": kind, "payload": payload}

    def _compacted(self, body: SummaryAdded, rest: Fields) -> Json:
        payload: Json = dict(rest)
        if rest.get("message") == Raw(b"true"):
            payload["message"] = Text(body.text, body.halves).original
        history = items_of(rest.get("replacement_history"))
        if history is not None:
            payload["replacement_history"] = [self._named(item) for item in history]
        return payload

    def _named(self, item: Raw) -> Raw:
        fields = fields_of(item) or {}
        id_ = name_of(fields.get("record")) if fields.keys() == {"record"} else None
        found = None if id_ is None else self._payloads.get(id_)
        return item if found is None else Raw(found)


def _is_about(record: bytes) -> bool:
    """Whether a record is what a document says beside its items."""
    fields = fields_of(record)
    return fields is not None and "type" not in fields


class _New:
    """A path on its way into a rollout of its own."""

    def __init__(self, thread: Thread) -> None:
        self._thread = thread
        self._finished = finished(thread)
        self._model: str | None = None
        self._at = 0
        self._total = Usage()

    def lines(self, leaf: int) -> Iterator[Json]:
        path = list(self._thread.path(leaf))
        yield self._header(path)
        ends = [(summary.last, at, summary) for at, summary in summaries(self._thread)]
        here = {event.position for event in path}
        waiting = sorted((at, summary) for last, at, summary in ends if {last, summary.first} <= here)
        for message in messages_of(path):
            while waiting and waiting[0][0] < message.events[0].position:
                yield self._line(COMPACTED, self._compacted(waiting.pop(0)[1]))
            for event in message.events:
                yield from self._said(event)
            stated = self._finished.get(message.response or "")
            if stated is not None and stated.usage is not None:
                yield self._line("event_msg", self._tokens(stated.usage))
        for _, summary in waiting:
            yield self._line(COMPACTED, self._compacted(summary))

    def _header(self, path: list[Event]) -> Json:
        row = self._thread.store.row(self._thread.id)
        self._at = _moment(path[0])
        payload: Json = {
            "id": source_id(self._thread),
            "timestamp": iso(self._at),
            "cwd": row.cwd or "",
            "originator": ORIGINATOR,
            "cli_version": "0.0.0",
            "model_provider": next((event.source.provider for event in path if event.source.provider), PROVIDER),
        }
        text = "\n\n".join(part.text or "" for part in instructions_of(path))
        return self._line(META, {**payload, "base_instructions": {"text": text}} if text else payload)

    def _line(self, kind: str, payload: Json | Raw) -> Json:
        return {"timestamp": iso(self._at), "type": kind, "payload": payload}

    def _said(self, event: Event) -> Iterator[Json]:
        self._at = _moment(event)
        model = event.source.model
        if model is not None and model != self._model:
            self._model = model
            yield self._line("turn_context", {"cwd": self._thread.store.row(self._thread.id).cwd or "", "model": model})
        item = new_item(self._thread, event)
        if item is not None:
            yield self._line(ITEM, item)
        if isinstance(event.body, InputAdded) and event.source.kind == "user":
            text = "".join(part.original for part in event.body.content if isinstance(part, Text))
            yield self._line("event_msg", {"type": "user_message", "message": text})

    def _compacted(self, summary: SummaryAdded) -> Json:
        return {"message": Text(summary.text, summary.halves).original}

    def _tokens(self, usage: Usage) -> Json:
        self._total = _plus(self._total, usage)
        info = {"total_token_usage": _counts(self._total), "last_token_usage": _counts(usage)}
        return {"type": "token_count", "info": info}


def _moment(event: Event) -> int:
    return event.recorded_at if event.occurred_at is None else event.occurred_at


def _plus(one: Usage, other: Usage) -> Usage:
    return Usage(**{name: getattr(one, name) + getattr(other, name) for name in Usage.__struct_fields__})


def _counts(usage: Usage) -> Json:
    """Write tokens: here what was cached is a part of the input."""
    whole = usage.input + usage.cache_read + usage.cache_write
    return {
        "input_tokens": whole,
        "cached_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "reasoning_output_tokens": usage.reasoning,
        "total_tokens": whole + usage.output,
    }
