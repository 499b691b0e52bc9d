"""What the messages and calls in `llm`'s log mean."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from ..canonical import split_halves
from ..events import (
    Content,
    Document,
    Foreign,
    Image,
    InputAdded,
    InstructionsSet,
    RecordKept,
    SegmentAdded,
    Source,
    Text,
    Tool,
    ToolCalled,
    ToolReturned,
    ToolsSet,
)
from ..events import Part as InstructionsPart
from ..records import encode_blocks
from .base import Desk, Entry, Item, Place, Response, ThreadInfo, Title, is_name
from .databases import Row, row_text
from .known import Identity
from .lines import Record
from .llm_messages import Attachment, Message, Part, Wire
from .llm_steps import Call, Step

AGENT = "llm"
USER, HOST, TOOL, SYSTEM = Source("user"), Source("host"), Source("tool"), Source("system")

SEALS = ("signature", "encrypted_content", "thoughtSignature", "thought_signature", "data")
"""Where a provider's metadata holds what seals reasoning."""

_MAPPED = {
    "text": frozenset({"type", "text"}),
    "reasoning": frozenset({"type", "text"}),
    "tool_call": frozenset({"type", "name", "arguments", "tool_call_id", "server_executed"}),
    "tool_result": frozenset({"type", "output", "tool_call_id", "server_executed", "attachments"}),
    "attachment": frozenset({"type", "attachment"}),
}


class LlmMapping:
    """The meaning of one log."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._thread = ""
        self._standing = ""
        """The instructions of the thread at hand."""

    def end(self) -> Iterator[Entry]:
        """Nothing is left to say."""
        return iter(())

    def map(self, record: Record) -> Entry | None:
        """Say what a record means."""
        if not isinstance(record, Step):
            return None
        if record.thread != self._thread:
            self._thread, self._standing = record.thread, ""
        match record.kind:
            case "message":
                return self._message(record, record.message) if record.message else None
            case "select":
                return self._entry(record, "tip", record.id.encode(), (), selects=record.id)
            case "end":
                return self._close(record)
        return self._kept(record)

    def _entry(
        self,
        step: Step,
        id_: str,
        stable: bytes,
        items: tuple[Item, ...],
        *,
        parent: str | Place = Place.BEFORE,
        response: Response | None = None,
        selects: str | None = None,
    ) -> Entry:
        return Entry(
            thread=ThreadInfo(id=step.thread, agent=AGENT, continues=step.continues),
            record=step,
            identity=Identity(id_, stable),
            parent=parent,
            items=items,
            occurred_at=step.call.at if step.call else None,
            response=response,
            selects=selects,
            counts=step.counts,
        )

    def _kept(self, step: Step) -> Entry:
        """Keep a call's row; it also says what the call cost."""
        item = Item(body=RecordKept(format=AGENT, record=step.data.decode(), line=step.line))
        call = step.call
        response = None
        if call is not None:
            response = Response(id=call.id, model=call.model, usage=call.usage, whole=True)
        return self._entry(step, step.id, step.data, (item,), response=response)

    def _close(self, step: Step) -> Entry:
        rows = json.loads(step.data)
        kept = tuple(Item(body=RecordKept(format=AGENT, record=json.dumps(row)), stands=False) for row in rows)
        entry = self._entry(step, step.id, step.data, kept)
        title = Title(text=step.title, by="name") if step.title else None
        return msgspec.structs.replace(entry, title=title, last=step.is_last)

    # --- messages ---

    def _message(self, step: Step, message: Message) -> Entry:
        parent: str | Place = message.parent or Place.ROOT
        if self._desk.report.dry_run and message.parent and not self._desk.holds(step.thread, message.parent):
            parent = Place.ROOT  # no fork is made then
        response_id = step.call.id if step.call else message.hash
        source = _source(message, step.call)
        items = [*_tools_set(step.tools), *self._said(message, response_id, source)]
        response = None
        if message.role == "assistant":
            model = step.call.model if step.call else None
            response = Response(id=response_id, provider=source.provider, model=model, call=step.call is not None)
        stable = message.hash if message.is_sound else json.dumps([part.wire for part in message.parts])
        return self._entry(step, message.hash, stable.encode(), tuple(items), parent=parent, response=response)

    def _said(self, message: Message, response: str, source: Source) -> list[Item]:
        """Give what a message holds; what it says of itself goes with its first event."""
        if message.role == "system":
            items = [self._system(message)]
        elif message.role == "assistant":
            items = [self._answer(part, response, source, place) for place, part in enumerate(message.parts)]
            items = items or [Item(body=SegmentAdded(response=response), source=source)]
        else:
            items = [
                *(self._result(part, None, f"{message.hash}/{place}") for place, part in _results(message)),
                *self._input(message),
            ]
        if message.metadata:
            first = items[0].body
            assert not callable(first)
            said = json.loads(first.extra or "{}") | {"message": {"provider_metadata": message.metadata}}
            items[0] = msgspec.structs.replace(items[0], body=msgspec.structs.replace(first, extra=json.dumps(said)))
        return items

    def _system(self, message: Message) -> Item:
        """Give instructions where they stand at the root, else words of the system in the talk."""
        texts = [str(part.wire["text"]) for part in message.parts if isinstance(part.wire.get("text"), str)]
        text, halves = split_halves("".join(texts))
        extra = _rests(message.parts)
        is_standing = (
            len(texts) == len(message.parts) and not halves and (message.parent is None or text == self._standing)
        )
        if is_standing:
            self._standing = text
            return Item(body=InstructionsSet(parts=(InstructionsPart("system", text, AGENT),), extra=extra))
        content = tuple(self._content(part) for part in message.parts)
        return Item(body=InputAdded(role="system", content=content, extra=extra), source=SYSTEM)

    def _input(self, message: Message) -> Iterator[Item]:
        parts = tuple(part for part in message.parts if part.wire["type"] != "tool_result")
        if parts or not message.parts:
            is_answering = len(parts) < len(message.parts)
            content = tuple(self._content(part) for part in parts)
            body = InputAdded(content=content, steer=is_answering, extra=_rests(parts))
            yield Item(body=body, source=USER if message.role == "user" else HOST)

    def _content(self, part: Part) -> Content:
        if part.wire["type"] == "text" and isinstance(part.wire.get("text"), str):
            return Text(*split_halves(part.wire["text"]))
        if part.attachments:
            return self._attached(part.attachments[0])
        return Foreign(json=json.dumps(part.wire), provider=AGENT)

    def _attached(self, attachment: Attachment) -> Image | Document:
        kind = Image if (attachment.type or "").startswith("image/") else Document
        extra = {"id": attachment.id} | ({"path": attachment.path} if attachment.path else {})
        kept = self._desk.attach(attachment.content) if attachment.content else None
        return kind(
            media_type=attachment.type,
            attachment=kept,
            url=attachment.url or (None if kept else attachment.path),
            extra=json.dumps(extra),
        )

    def _answer(self, part: Part, response: str, source: Source, place: int) -> Item:
        wire, kind = part.wire, part.wire["type"]
        extra = _extra(part)
        if kind in {"text", "reasoning"} and isinstance(wire.get("text"), str):
            text, halves = split_halves(wire["text"])
            seal, item = _seal(wire) if kind == "reasoning" else (None, None)
            body = SegmentAdded(
                kind="reasoning" if kind == "reasoning" else "text",
                text=text,
                halves=halves,
                signature=seal,
                item=item,
                response=response,
                extra=extra,
            )
            return Item(body=body, source=source)
        if kind == "tool_call" and wire.get("name"):
            call = ToolCalled(
                call=str(wire.get("tool_call_id") or f"{response}/{place}"),
                name=str(wire["name"]),
                input=part.arguments or "{}",
                kind="server" if wire.get("server_executed") else "function",
                response=response,
                extra=extra,
            )
            return Item(body=call, source=source)
        if kind == "tool_result":
            return self._result(part, response, f"{response}/{place}")
        for attachment in part.attachments:
            self._attached(attachment)
        return Item(body=SegmentAdded(kind="opaque", opaque=json.dumps(wire), response=response), source=source)

    def _result(self, part: Part, response: str | None, nameless: str) -> Item:
        wire = part.wire
        text, halves = split_halves(str(wire.get("output") or ""))
        blocks = (Text(text, halves), *(self._attached(attachment) for attachment in part.attachments))
        body = ToolReturned(
            call=str(wire.get("tool_call_id") or nameless),
            status="error" if wire.get("exception") else "ok",
            form="blocks" if part.attachments else "text",
            halves=() if part.attachments else halves,
            response=response if wire.get("server_executed") else None,
            extra=_extra(part),
        )
        return Item(body=body, source=TOOL, output=encode_blocks(blocks) if part.attachments else text.encode())


def _results(message: Message) -> Iterator[tuple[int, Part]]:
    return ((place, part) for place, part in enumerate(message.parts) if part.wire["type"] == "tool_result")


def _source(message: Message, call: Call | None) -> Source:
    """Name the model, and the provider where a part's metadata does."""
    told = (part.wire.get("provider_metadata") for part in message.parts)
    provider = next((next(iter(found), None) for found in told if isinstance(found, dict)), None)
    model = call.model if call else None
    return Source("model", provider=provider if is_name(provider) else None, model=model if is_name(model) else None)


def _seal(wire: Wire) -> tuple[str | None, str | None]:
    """Give the provider's seal on reasoning, and its id."""
    metadata = wire.get("provider_metadata")
    said = next(iter(metadata.values()), None) if isinstance(metadata, dict) else None
    if not isinstance(said, dict):
        return None, None
    seal = next((said[name] for name in SEALS if isinstance(said.get(name), str)), None)
    return seal, said["id"] if isinstance(said.get("id"), str) else None


def _over(part: Part) -> Wire:
    """Give what of a part has no place: its metadata, and which fragments its text borrows."""
    mapped = _MAPPED.get(part.wire["type"], frozenset())
    over: Wire = {name: value for name, value in part.wire.items() if name not in mapped}
    if part.borrowed:
        over["borrowed"] = [[hash_, length] for hash_, length in part.borrowed]
    return over


def _extra(part: Part) -> str | None:
    over = _over(part)
    return json.dumps(over) if over else None


def _rests(parts: tuple[Part, ...]) -> str | None:
    over = [_over(part) for part in parts]
    return json.dumps({"parts": over}) if any(over) else None


def _tools_set(rows: tuple[Row, ...] | None) -> Iterator[Item]:
    if rows is not None:
        tools = (
            Tool(
                name=str(row["name"]),
                description=row["description"],
                input_schema=row["input_schema"],
                origin=row.get("plugin") or AGENT,
                extra=row_text({"hash": row["hash"]}),
            )
            for row in rows
        )
        yield Item(body=ToolsSet(tools=tuple(tools)), source=HOST)
