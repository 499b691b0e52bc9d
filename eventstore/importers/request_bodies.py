"""Bodies of requests to OpenAI and Anthropic: the messages that somebody sent are a thread, named by the body's bytes.

Such a body is one prompt of one conversation: instructions and tools first, then its messages. What the model is to do
with them (its name, limits, options) is kept as it stands. A file may hold one body, or one on each line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
from blake3 import blake3
from msgspec import Raw

from ..canonical import split_halves
from ..errors import ImportFailed, PayloadRejected
from ..events import InputAdded, InstructionsSet, Part, RecordKept, Source, Text, ToolsSet
from .anthropic_blocks import PROVIDER as ANTHROPIC
from .anthropic_messages import answer_items, user_items
from .base import Desk, Entry, Item, Response, ThreadInfo, is_name
from .chat_messages import read_message
from .known import Identity
from .lines import BOM, LINE_BYTES_MAX, LineReader, Progress, Record
from .openai_items import Said, in_response, is_part, kind_of, read_item
from .report import ImportReport
from .request_heads import ORIGIN, instructions_of, tools_of
from .slices import Entries, Fields, fields_of, name_of, object_text, text_of
from .whole_documents import Document, document_of, read_document

_LIST = re.compile(rb'[\[{,]\s*"(?:messages|input)"\s*:\s*\[\s*\{|^\s*\[\s*\{\s*"(?:role|type)"\s*:')
_ROLE = re.compile(rb'"role"\s*:\s*"(?:system|developer|user|assistant|tool|function)"')
_ANTHROPIC = re.compile(
    rb'"type"\s*:\s*"(?:tool_use|tool_result|thinking|redacted_thinking)"|"(?:input_schema|anthropic_version|system)"\s*:'
)
_INPUT = re.compile(rb'[{,]\s*"input"\s*:\s*"')

LISTS = ("messages", "input")
HEAD_BYTES = 4096

USER, TOOL, HOST, SYSTEM = Source("user"), Source("tool"), Source("host"), Source("system")
SOURCES = {"user": USER, "system": SYSTEM, "developer": HOST}


class Piece(Record, frozen=True):
    """A record of a body: its head, one message, or what it says beside them."""

    thread: str = ""
    kind: str = ""
    """head, text, message, item, or rest."""
    entries: Fields = msgspec.field(default_factory=dict)
    """What the body says beside its messages."""
    number: int = 0
    """The message's place, from 1."""
    goes_on: bool = False
    """The next item is a part of the same response."""


class RequestBody:
    """The form of one provider's request bodies."""

    def __init__(self, provider: str) -> None:
        self.name = provider

    def detect(self, head: bytes, path: Path | None) -> bool:  # noqa: ARG002 - the protocol's form
        """Whether a list of messages begins here, in this provider's words."""
        is_body = (_LIST.search(head) is not None and _ROLE.search(head) is not None) or (
            _INPUT.search(head) is not None and b'"model"' in head
        )
        return is_body and (_ANTHROPIC.search(head) is not None) == (self.name == ANTHROPIC)

    def read(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> RequestReader:
        """Read the body."""
        return RequestReader(stream, report, progress)

    def mapping(self, desk: Desk, path: Path | None) -> RequestMapping:  # noqa: ARG002 - the protocol's form
        """Begin with one body."""
        return RequestMapping(desk, self.name)

    def last_user_time(self, stream: BinaryIO) -> int:  # noqa: ARG002 - the protocol's form
        """A body says no times."""
        return 0


class RequestReader:
    """The records of a body: its head, its messages, and the rest of it."""

    torn = stump = b""

    def __init__(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> None:
        self._stream = stream
        self._report = report
        self._progress = progress

    def __iter__(self) -> Iterator[Piece]:
        if self._is_lines():
            for record in LineReader(self._stream, self._report, self._progress):
                if record.fields is None:
                    self._report.lose(record.line, "not_object", "no request's body")
                    continue
                document = document_of(record.fields, self._report, record.line, *LISTS)
                yield from _pieces(document, record.line, blake3(record.data).hexdigest())
            return
        document = read_document(self._stream, self._report, self._progress, *LISTS)
        if not document.items and "input" not in document.entries and not self._report.lost:
            raise ImportFailed("no list of messages in this document")
        yield from _pieces(document, None, self._report.digest)

    def _is_lines(self) -> bool:
        """Whether the content is a body on each line, and not one document."""
        first = self._stream.readline(LINE_BYTES_MAX).removeprefix(BOM).strip()
        following = self._stream.read(HEAD_BYTES).strip()
        self._stream.seek(0)
        try:
            return following != b"" and fields_of(first) is not None
        except PayloadRejected:
            return False


def _pieces(document: Document, line: int | None, thread: str) -> Iterator[Piece]:
    """Give a body's records; `line` is the one that it stands on, where it is not a document of its own."""
    entries, items = document.entries, document.items
    base = Piece(line or 0, b"", None, thread=thread, kind="head", entries=entries)
    yield base
    words = entries.get("input")
    if not items and text_of(words) is not None and words is not None:
        yield msgspec.structs.replace(base, line=line or 1, number=1, data=bytes(words), kind="text")
    is_input = document.array == "input" and bool(items)
    for record, following in zip(items, [*items[1:], None], strict=False):
        yield msgspec.structs.replace(
            base,
            line=line or record.line,
            number=record.line,
            data=record.data,
            fields=record.fields,
            kind="item" if is_input else "message",
            goes_on=is_input and following is not None and is_part(following.fields or {}),
        )
    yield msgspec.structs.replace(base, kind="rest")


class RequestMapping:
    """The meaning of one body's records."""

    def __init__(self, desk: Desk, provider: str) -> None:
        self._desk = desk
        self._provider = provider
        self._standing: tuple[Part, ...] = ()
        self._is_begun = False
        """Whether anything but standing instructions was said."""
        self._response = ""
        """The response that items are parts of."""
        self._needs: str | None = None
        """The reasoning that came before in it."""

    def end(self) -> Iterator[Entry]:
        """Nothing is left to say."""
        return iter(())

    def map(self, record: Record) -> Entry | None:
        """Say what a record means."""
        if not isinstance(record, Piece):
            return None
        match record.kind:
            case "head":
                return self._head(record)
            case "rest":
                return self._rest(record)
            case "text":
                body = InputAdded(content=(Text(*split_halves(text_of(record.data) or "")),))
                return self._entry(record, (Item(body=body, source=USER),))
            case "item":
                return self._item(record, record.fields or {})
        if self._provider == ANTHROPIC:
            return self._message(record, record.fields or {})
        return self._chat_message(record, record.fields or {})

    def _entry(self, piece: Piece, items: tuple[Item, ...], response: Response | None = None) -> Entry:
        return Entry(
            thread=ThreadInfo(id=piece.thread),
            record=piece,
            identity=Identity(f"{piece.kind}:{piece.number}", piece.data),
            items=items,
            response=response,
            counts=bool(items) and piece.kind != "head",
            last=piece.kind == "rest",
        )

    def _head(self, piece: Piece) -> Entry | None:
        """Set what stands before all messages."""
        self._is_begun, self._response, self._needs = False, "", None
        self._standing, _ = instructions_of(piece.entries)
        tools = tools_of(piece.entries)
        items = [Item(body=InstructionsSet(parts=self._standing))] if self._standing else []
        items += [Item(body=ToolsSet(tools=tools))] if tools else []
        return self._entry(piece, tuple(items)) if items else None

    def _rest(self, piece: Piece) -> Entry:
        """Keep what a body says beside its messages, instructions and tools."""
        parts, over = instructions_of(piece.entries)
        mapped = {part.name for part in parts[:1]} | ({"tools"} if tools_of(piece.entries) else set())
        if text_of(piece.entries.get("input")) is not None:
            mapped.add("input")
        text = object_text([*((name, value) for name, value in piece.entries.items() if name not in mapped), *over])
        if text is None:
            return self._entry(piece, ())
        kept = Item(body=RecordKept(format=self._provider, record=text), stands=False)
        return self._entry(msgspec.structs.replace(piece, data=text.encode()), (kept,))

    def _kept(self, piece: Piece) -> Entry:
        what = "not_object" if piece.fields is None else "no_content"
        self._desk.report.warn(piece.line, what, "no message that is known here")
        record = RecordKept(format=self._provider, record=piece.data.decode(), line=piece.line)
        return self._entry(piece, (Item(body=record),))

    def _model(self, piece: Piece) -> Source:
        model = name_of(piece.entries.get("model"))
        return Source("model", provider=self._provider, model=model if is_name(model) else None)

    def _answer(self, piece: Piece, id_: str, *, whole: bool) -> Response:
        model = name_of(piece.entries.get("model"))
        return Response(id=id_, provider=self._provider, model=model, whole=whole)

    # --- messages ---

    def _message(self, piece: Piece, fields: Fields) -> Entry:
        """Say what a message of Anthropic's form means."""
        role, id_ = name_of(fields.get("role")), f"message:{piece.number}"
        self._is_begun = self._is_begun or role != "system"
        if role == "assistant":
            items = answer_items(fields, id_, self._model(piece))
            return self._entry(piece, items, self._answer(piece, id_, whole=True)) if items else self._kept(piece)
        if role == "system":
            return self._chat_message(piece, fields)
        found = user_items(fields, self._desk.attach) if role == "user" else None
        return self._kept(piece) if found is None else self._entry(piece, found)

    def _chat_message(self, piece: Piece, fields: Fields) -> Entry:
        """Say what a message of OpenAI's chat form means; those that stand before all others are instructions."""
        id_ = f"message:{piece.number}"
        said = read_message(fields, id_, self._desk.attach)
        if said is None:
            return self._kept(piece)
        standing = None if self._is_begun else _standing(said, fields)
        if standing is not None:
            names = [part.name for part in self._standing]
            name = standing.name if standing.name not in names else f"{standing.name}-{len(names) + 1}"
            self._standing = (*self._standing, msgspec.structs.replace(standing, name=name))
            return self._entry(piece, (Item(body=InstructionsSet(parts=self._standing, extra=object_text(said.rest))),))
        self._is_begun = True
        response = self._answer(piece, id_, whole=True) if said.kind == "response" else None
        return self._entry(piece, said_items(said, self._model(piece)), response)

    def _item(self, piece: Piece, fields: Fields) -> Entry:
        """Say what an item of OpenAI's Responses form means; items that follow each other are one response."""
        if not is_part(fields):
            self._response, self._needs = "", None
        elif not self._response:
            self._response = f"response:{piece.number}"
        said = read_item(Raw(piece.data), fields, self._desk.attach)
        if said is None:
            return self._kept(piece)
        model = self._model(piece)
        if said.kind != "response":
            return self._entry(piece, said_items(said, model))
        parts = in_response(said, self._response, self._needs, object_text(said.rest))
        if kind_of(fields) == "reasoning":
            self._needs = name_of(fields.get("id"))
        items = tuple(Item(body=body, source=model, output=output) for body, output in parts)
        return self._entry(piece, items, self._answer(piece, self._response, whole=not piece.goes_on))


def _standing(said: Said, fields: Fields) -> Part | None:
    """Give an instruction that is plain text as a part of the standing instructions."""
    body = said.parts[0][0]
    if said.role not in {"system", "developer"} or not isinstance(body, InputAdded):
        return None
    texts = [part.text for part in body.content if isinstance(part, Text) and not part.halves]
    is_text = len(texts) == 1 == len(body.content) and text_of(fields.get("content")) is not None
    return Part(said.role, texts[0], ORIGIN) if is_text else None


def said_items(said: Said, model: Source) -> tuple[Item, ...]:
    """Give what a message or an item means; what it has over goes with its first event."""
    source = model if said.kind == "response" else TOOL if said.kind == "result" else SOURCES.get(said.role, USER)
    items = []
    rest = said.rest
    for body, output in said.parts:
        if rest:
            own: Entries = [] if body.extra is None else [("part", body.extra.encode())]
            body = msgspec.structs.replace(body, extra=object_text([*rest, *own]))  # noqa: PLW2901 - the same event
            rest = []
        items.append(Item(body=body, source=source, output=output))
    return tuple(items)
