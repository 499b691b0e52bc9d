"""shiro-neko's files: a session record (S23), a project's memory (S10 to S18), a folder's prompt history (S43).

Each is one JSON document that is written anew as a whole. A message has no id: it is known by its content and by all
messages above it, so that a session that grew adds its end, and one that was replaced begins a line of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
from blake3 import blake3

from ..canonical import split_halves
from ..events import InputAdded, RecordKept, Source, Text, Todo, TodoWritten
from .base import Compaction, Desk, Entry, Item, Place, ThreadInfo, Title, is_name
from .documents import WHOLE, DocumentReader
from .known import Identity
from .lines import BOM, Progress, Record
from .report import ImportReport
from .shiro_neko_messages import AGENT, Said, message_of
from .slices import Fields, fields_of, items_of, name_of, text_of
from .times import microseconds

MESSAGES = "messages"
SUMMARY_BEGINS = "Summary of the session so far:"
"""How the user message begins that a compaction leaves in place of the transcript (S24)."""

TODO_STATES = frozenset({"pending", "in_progress", "done", "blocked"})
MEMORY_KINDS = frozenset({"fact", "decision", "gotcha", "command"})

_SESSION_NAMES = (b'"createdAt"', b'"cwd"', b'"inputTokens"', b'"messages"')
_MEMORY_NAMES = (b'"kind"', b'"text"', b'"createdAt"', b'"hits"')
_LIST_OF_OBJECTS, _LIST_OF_TEXTS = re.compile(rb"\s*\[\s*\{"), re.compile(rb"\s*\[\s*\"")
_HASHED_NAME = re.compile(r"[0-9a-f]{16}")


class ShiroNeko:
    """The form of the files below `~/.shiro-neko`."""

    name = AGENT

    def detect(self, head: bytes, path: Path | None) -> bool:
        """Whether a session, a memory or, going by the file's name too, a prompt history begins so."""
        if head.lstrip().startswith(b"{"):
            first, _, rest = head.partition(b'"messages"')
            return bool(rest) and all(name in first for name in _SESSION_NAMES[:-1])
        if _LIST_OF_OBJECTS.match(head):
            entry = head.partition(b"}")[0]
            return all(name in entry for name in _MEMORY_NAMES)
        return _LIST_OF_TEXTS.match(head) is not None and path is not None and _is_history(path)

    def read(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> DocumentReader:
        """Read the document's parts."""
        return _Reader(stream, report, MESSAGES, progress)

    def mapping(self, desk: Desk, path: Path | None) -> ShiroNekoMapping:
        """Begin with one document."""
        return ShiroNekoMapping(desk, path)

    def last_user_time(self, stream: BinaryIO) -> int:
        """Give the time at which the session was last saved: its messages have none."""
        for record in self.read(stream, ImportReport(format=self.name), None):
            if record.line == WHOLE:
                return microseconds(text_of((record.fields or {}).get("updatedAt"))) or 0
        return 0


class _Reader(DocumentReader):
    """A document that may also be a list of its own."""

    def _document(self) -> Iterator[Record]:
        for byte in BOM:
            self._scanner.take(bytes([byte]))
        return self._items() if self._scanner.peek() == b"[" else super()._document()


class ShiroNekoMapping:
    """The meaning of one document's parts."""

    def __init__(self, desk: Desk, path: Path | None) -> None:
        self._desk = desk
        self._path = path
        self._is_session = False
        self._info: ThreadInfo | None = None
        self._about: Fields = {}
        """What the session says of itself."""
        self._chain = b""
        """The hash of all messages so far."""
        self._last: str | None = None
        """The id of the last message."""
        self._prompts: Counter[str] = Counter()

    def map(self, record: Record) -> Entry | None:
        """Say what a part means."""
        if record.line == WHOLE:
            return self._whole(record)
        is_message = self._is_session or "role" in (record.fields or {})
        return self._message(record) if is_message else self._listed(record)

    def end(self) -> Iterator[Entry]:
        """Say what the task list is, below the last message."""
        notebook = fields_of(self._about.get("notebook")) or {}
        listed, info = items_of(notebook.get("todos")), self._info
        if info is None or listed is None or (not listed and not self._has_todos(info)):
            return
        todos = [_todo(fields_of(item) or {}) for item in listed]
        unknown = sum(todo is None for todo in todos)
        if unknown:
            self._desk.report.warn(WHOLE, "unknown_todo", f"{unknown} tasks in no known state; the record has them")
        body = TodoWritten(todos=tuple(todo for todo in todos if todo is not None))
        data = msgspec.json.encode(body)
        # It takes the last message's place, so that the next one goes below it.
        yield Entry(
            thread=info,
            record=Record(WHOLE, data, None),
            identity=Identity(self._last or "notebook", data),
            parent=self._last or Place.BEFORE,
            items=(Item(body=body, source=Source("host")),),
            counts=False,
        )

    def _has_todos(self, info: ThreadInfo) -> bool:
        thread = self._desk.thread(info.id)
        found = [] if thread is None else list(thread.events(types=(TodoWritten.TYPE,)))
        return bool(found) and isinstance(found[-1].body, TodoWritten) and bool(found[-1].body.todos)

    # --- a session ---

    def _whole(self, record: Record) -> Entry:
        """Take what the session says of itself; it is kept as it stands, since it changes with every save."""
        fields = record.fields or {}
        self._is_session = True
        self._about = {**self._about, **fields}
        thread = self._session(record)
        text = text_of(fields.get("title"))
        return Entry(
            thread=thread,
            record=record,
            identity=Identity("session", record.data),
            items=(_verbatim(record),),
            title=Title(text=text, by="session") if text else None,
        )

    def _session(self, record: Record) -> ThreadInfo:
        if self._info is None:
            about = self._about
            named = name_of(about.get("id")) or (self._path.stem if self._path else None)
            self._info = ThreadInfo(
                id=named or Identity(None, record.data).id,
                agent=AGENT,
                cwd=name_of(about.get("cwd")),
                occurred_at=microseconds(text_of(about.get("createdAt"))),
            )
        return self._info

    def _message(self, record: Record) -> Entry:
        data = _compact(record.data)
        self._chain = blake3(self._chain + data).digest()
        id_, before = f"m:{self._chain.hex()[:32]}", self._last
        self._last = id_
        entry = Entry(
            thread=self._session(record),
            record=record,
            identity=Identity(id_, data),
            parent=before or Place.ROOT,
        )
        said = message_of(record.fields or {}, id_, self._source(), self._desk.attach)
        if said is None:
            self._desk.report.warn(record.line, "no_content", "no message of a known role with content")
            return msgspec.structs.replace(entry, items=(_verbatim(record),))
        compaction = None if before else _compaction(said)
        if compaction is not None:
            entry = msgspec.structs.replace(entry, parent=Place.BEFORE, compaction=compaction)
        return msgspec.structs.replace(entry, items=said.items, response=said.response)

    def _source(self) -> Source:
        provider, model = (name_of(self._about.get(name)) for name in ("provider", "model"))
        return Source(
            "model", provider=provider if is_name(provider) else None, model=model if is_name(model) else None
        )

    # --- lists ---

    def _listed(self, record: Record) -> Entry:
        """Keep an entry of the memory, or a prompt of the history: no event says what either does."""
        text = text_of(record.data)
        is_prompt = text is not None
        if self._info is None:
            kind = "history" if is_prompt else "memory"
            stem = self._path.stem if self._path else Identity(None, record.data).id
            self._info = ThreadInfo(id=f"{kind}/{stem}", agent=AGENT, kind="memory", labels={"holds": kind})
        fields = record.fields or {}
        if text is not None:
            # A prompt is known by its words and by how often they were said before.
            self._prompts[text] += 1
            identity = Identity(f"p:{Identity(None, record.data).digest}:{self._prompts[text]}", record.data)
        else:
            identity = Identity(name_of(fields.get("id")) or None, record.data)
            if not _is_entry(fields):
                self._desk.report.warn(record.line, "bad_entry", "no entry that the program would load")
        time = microseconds(text_of(fields.get("createdAt")))
        return Entry(thread=self._info, record=record, identity=identity, items=(_verbatim(record),), occurred_at=time)


def _is_history(path: Path) -> bool:
    return path.parent.name == "history" and _HASHED_NAME.fullmatch(path.stem) is not None


def _is_entry(fields: Fields) -> bool:
    """Whether the program would take an entry (S17)."""
    texts = all(text_of(fields.get(name)) is not None for name in ("id", "text", "createdAt"))
    hits = bytes(fields.get("hits", b""))[:1]
    return texts and hits.isdigit() and name_of(fields.get("kind")) in MEMORY_KINDS


def _verbatim(record: Record) -> Item:
    return Item(body=RecordKept(format=AGENT, record=record.data.decode(), line=record.line))


def _compact(data: bytes) -> bytes:
    """Take the white space out of JSON text, so that it is the same however it was written."""
    try:
        return msgspec.json.format(data, indent=-1)
    except msgspec.DecodeError:
        return data  # half surrogates are no JSON to it


def _compaction(said: Said) -> Compaction | None:
    """Give the compaction that a session's first message may be what is left of."""
    body = said.items[0].body if said.items else None
    if not isinstance(body, InputAdded) or body.role != "user":
        return None
    text = "".join(part.original for part in body.content if isinstance(part, Text))
    if not text.startswith(SUMMARY_BEGINS):
        return None
    words, halves = split_halves(text)
    return Compaction(text=words, halves=halves, whole=True, maker=AGENT, extra=body.extra)


def _todo(fields: Fields) -> Todo | None:
    content, status = name_of(fields.get("content")), name_of(fields.get("status"))
    if content is None or status not in TODO_STATES:
        return None
    return Todo(content=content, status=status, note=name_of(fields.get("note")))
