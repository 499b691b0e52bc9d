"""Claude Code sessions: JSON Lines, tied together by `parentUuid`.

Lines of an imported session are put together again from their events and what those kept, each with its own ids. What
came otherwise gets lines of its own, with ids that are the same at every export.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from msgspec import Raw

from convlog.eventstore.events import (
    Event,
    InputAdded,
    SegmentAdded,
    SummaryAdded,
    Text,
    ThreadTitled,
    ToolCalled,
    ToolReturned,
    Usage,
)
from convlog.eventstore.importers.claude_code_messages import SYNTHETIC
from convlog.eventstore.importers.claude_code_results import INTERRUPTED
from convlog.eventstore.importers.claude_code_threads import AGENT
from convlog.eventstore.importers.slices import Fields, fields_of, items_of, name_of
from convlog.eventstore.thread import Thread

from .anthropic_blocks import block_of, result_block, said_block
from .kept import Kept, is_from, on_path, records_of, source_id
from .messages import finished, is_said, output_text
from .spelled import Json, extra_of, spell_line
from .times import iso

NAMES = uuid.UUID("6f3bb4c2-5d0e-4d57-9d55-7d8f0a1b2c3d")
"""The namespace of ids that are made here."""

ABSENT = Raw(b"null")
"""What an event keeps of an entry that its line did not have."""


def export(thread: Thread, leaf: int | None) -> Iterator[bytes]:
    """Iterate over the lines of a session."""
    return _Session(thread).lines(leaf)


class _Session:
    """A thread on its way into lines."""

    def __init__(self, thread: Thread) -> None:
        self._thread = thread
        self._own = is_from(thread, AGENT)
        self._id = source_id(thread)
        self._finished = finished(thread)
        self._lines: dict[int, str | None] = {}
        """The line that stands for a node, by position; None where nothing does."""
        self._responses: dict[int, str] = {}
        """The response that a part without one belongs to."""
        self._last: str | None = None

    def lines(self, leaf: int | None) -> Iterator[bytes]:
        for record in records_of(on_path(self._thread, leaf), own=self._own):
            verbatim = record.verbatim
            if verbatim is not None:
                yield verbatim + b"\n"
                self._stand(record, record.id if record.has_own_id else None)
            elif record.id is not None:
                line = self._again(record)
                if line is not None:
                    yield spell_line(line)
                    self._stand(
                        record, name_of(line.get("uuid")) if isinstance(line.get("uuid"), Raw) else line.get("uuid")
                    )
            else:
                yield from map(spell_line, self._new(record.first))
        active = self._thread.head if leaf is None else leaf
        resumed = self._line_of(active)
        if resumed is not None and resumed != self._last:
            yield spell_line({"type": "last-prompt", "leafUuid": resumed, "sessionId": self._id})

    def _stand(self, record: Kept, line: str | None) -> None:
        for event in record.nodes:
            self._lines[event.position] = line
        if record.nodes and line is not None:
            self._last = line

    def _line_of(self, node: int | None) -> str | None:
        """Find the line of a node, or of the nearest one above that has one."""
        while node is not None and node > 1:
            line = self._lines.get(node)
            if line is not None:
                return line
            node = self._thread.tree.parent(node)
        return None

    # --- lines of an imported session ---

    def _again(self, record: Kept) -> Json | None:
        events = [event for event in record.events if event.is_node or isinstance(event.body, SummaryAdded)]
        if not events:
            return None
        first = events[0]
        extra = extra_of(first.body)
        inner = fields_of(extra.pop("message", None)) or {}
        if isinstance(first.body, SegmentAdded) and first.body.kind == "notice":
            head = self._head(record, first, extra)
            return {**head, "type": "assistant", "message": _present({"role": "assistant", **inner})}
        was_text = bytes(inner.get("content", b"")) == b'""'
        if was_text:
            del inner["content"]
        if isinstance(first.body, InputAdded) and name_of(extra.get("type")) == "attachment":
            attachment = fields_of(extra["attachment"]) or {}
            return {**self._head(record, first, extra), "attachment": {**attachment, "prompt": _text(first)}}
        if isinstance(first.body, SegmentAdded | ToolCalled) or (
            isinstance(first.body, ToolReturned) and first.body.response is not None
        ):
            return self._answer(record, events, extra, inner, was_text=was_text)
        blocks = self._blocks(events)
        content = blocks[0]["text"] if was_text and blocks and isinstance(blocks[0], dict) else blocks
        head = self._head(record, first, _without(extra, "blocks", "block"))
        return {**head, "type": "user", "message": _present({"role": "user", "content": content, **inner})}

    def _head(self, record: Kept, first: Event, extra: Fields) -> Json:
        """Write what all lines have; the session and the time only where the line had them."""
        head: Json = dict(extra)
        if record.has_own_id:
            head.setdefault("uuid", record.id)
        if "isSidechain" not in extra or bytes(extra["isSidechain"]) != b"true":
            head.setdefault("sessionId", self._id)
            if head["sessionId"] == ABSENT:
                del head["sessionId"]
        if first.occurred_at is not None:
            head.setdefault("timestamp", iso(first.occurred_at))
        return head

    def _blocks(self, events: list[Event]) -> list[Json | Raw]:
        found: list[Json | Raw] = []
        for event in events:
            body, extra = event.body, extra_of(event.body)
            if isinstance(body, ToolReturned):
                found.append(self._result(event, fields_of(extra.get("block")) or {}))
            elif isinstance(body, SummaryAdded):
                found.append({"type": "text", "text": Text(body.text, body.halves).original})
            elif isinstance(body, InputAdded):
                rests = [fields_of(rest) or {} for rest in items_of(extra.get("blocks")) or []]
                for number, part in enumerate(body.content):
                    block = block_of(self._thread, part)
                    rest = rests[number] if number < len(rests) else {}
                    found.append({**block, **rest} if isinstance(block, dict) else block)
        return found

    def _result(self, event: Event, rest: Fields) -> Json:
        block = result_block(self._thread, event)
        if "is_error" not in rest and _is_error(event):
            block["is_error"] = True
        return {**block, **rest}

    def _answer(self, record: Kept, events: list[Event], extra: Fields, inner: Fields, *, was_text: bool) -> Json:
        first = events[0]
        body = first.body
        message: Json = {"type": "message", "role": "assistant"}
        if body.response != record.id:
            message["id"] = body.response
        if first.source.model is not None:
            message["model"] = first.source.model
        blocks: list[Json | Raw] = []
        for event in events:
            block = said_block(event, verbatim=True) or {}
            rest = fields_of(extra_of(event.body).get("block")) or {}
            blocks.append({**block, **rest} if isinstance(block, dict) else block)
        content = body.original if was_text and isinstance(body, SegmentAdded) else blocks
        head = self._head(record, first, _without(extra, "block"))
        return {**head, "type": "assistant", "message": _present({**message, "content": content, **inner})}

    # --- lines of anything else ---

    def _new(self, event: Event) -> Iterator[Json]:
        body = event.body
        if isinstance(body, ThreadTitled) and not self._own:
            yield {"type": "custom-title", "customTitle": body.title, "sessionId": self._id}
        elif isinstance(body, SummaryAdded):
            yield from self._compaction(event, body)
        elif event.is_node and event.position > 1:
            said = self._said(event)
            if said is not None:
                line = {**self._links(event), **said}
                self._lines[event.position] = self._last = line["uuid"]
                yield line

    def _links(self, event: Event) -> Json:
        parent = self._thread.tree.parent(event.position) if event.is_node else None
        links: Json = {
            "parentUuid": self._line_of(parent),
            "isSidechain": False,
            "userType": "external",
            "sessionId": self._id,
            "uuid": self._uuid(str(event.position)),
            "timestamp": iso(event.occurred_at if event.occurred_at is not None else event.recorded_at),
        }
        cwd = self._thread.store.row(self._thread.id).cwd
        return links if cwd is None else {**links, "cwd": cwd}

    def _uuid(self, name: str) -> str:
        return str(uuid.uuid5(NAMES, f"{self._thread.id}/{name}"))

    def _said(self, event: Event) -> Json | None:
        body = event.body
        if isinstance(body, InputAdded):
            blocks = [block_of(self._thread, part) for part in body.content]
            is_plain = len(blocks) == 1 and isinstance(body.content[0], Text)
            content = body.content[0].original if is_plain and isinstance(body.content[0], Text) else blocks
            line: Json = {"type": "user", "message": {"role": "user", "content": content}}
            return line if event.source.kind == "user" and not body.steer else {**line, "isMeta": True}
        if isinstance(body, ToolReturned) and body.response is None:
            block = result_block(self._thread, event)
            if body.status != "ok":
                block["is_error"] = True
            return {"type": "user", "message": {"role": "user", "content": [block]}}
        if is_said(body):
            block_ = said_block(event)
            return None if block_ is None else {"type": "assistant", "message": self._message(event, block_)}
        if isinstance(body, SegmentAdded):
            text = body.original
            return {
                "type": "assistant",
                "message": {"role": "assistant", "model": SYNTHETIC, "content": [{"type": "text", "text": text}]},
            }
        return None

    def _message(self, event: Event, block: Json | Raw) -> Json:
        response = self._response(event)
        stated = self._finished.get(response)
        message: Json = {
            "id": response,
            "type": "message",
            "role": "assistant",
            "model": event.source.model or (stated.model if stated else None) or "unknown",
            "content": [block],
            "stop_reason": stated.stop if stated else None,
            "stop_sequence": None,
        }
        return {**message, "usage": _usage(stated.usage)} if stated and stated.usage else message

    def _response(self, event: Event) -> str:
        """Name the response of a part: where none is known, parts that follow each other are one."""
        response = getattr(event.body, "response", None)
        if response is None:
            above = self._thread.tree.parent(event.position) or 0
            response = self._responses.get(above) or f"msg_{self._thread.id[:12]}_{event.position}"
            self._responses[event.position] = response
        return str(response)

    def _compaction(self, event: Event, body: SummaryAdded) -> Iterator[Json]:
        links = self._links(event)
        boundary = self._uuid(f"{event.position}/boundary")
        yield {
            **links,
            "uuid": boundary,
            "parentUuid": None,
            "logicalParentUuid": self._line_of(body.last),
            "type": "system",
            "subtype": "compact_boundary",
            "content": "Conversation compacted",
            "compactMetadata": {"trigger": "manual"},
        }
        yield {
            **links,
            "parentUuid": boundary,
            "type": "user",
            "isCompactSummary": True,
            "isVisibleInTranscriptOnly": True,
            "message": {"role": "user", "content": Text(body.text, body.halves).original},
        }
        # What follows the covered run hangs below the summary from here on, as the program does it.
        self._lines[body.last] = links["uuid"]


def _present(message: Json) -> Json:
    """Leave out what a message never had."""
    return {name: value for name, value in message.items() if value != ABSENT or name not in {"role", "type"}}


def _without(extra: Fields, *names: str) -> Fields:
    return {name: value for name, value in extra.items() if name not in names}


def _text(event: Event) -> str:
    return "".join(part.original for part in event.body.content if isinstance(part, Text))


def _is_error(event: Event) -> bool:
    body = event.body
    if not isinstance(body, ToolReturned) or body.status == "ok":
        return False
    # A command that was cut is stated beside the block, which then says nothing of an error.
    return body.status != "cancelled" or (output_text(event) or "").startswith(INTERRUPTED)


def _usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    }
