"""Sessions of the OpenAI Agents SDK in SQLite: items of the Responses form, a row each.

A row follows the one before it in its session, or in its branch. Rows that were taken back are gone from the file;
what an earlier import brought of them stays, as a branch. Encrypted sessions are kept as they are, and reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Raw

from ..events import Body, BranchNamed, RecordKept, Source, Usage
from .agents_sdk_rows import MAIN, MESSAGES, SESSIONS, USAGE, SessionReader, SessionRow
from .base import Desk, Entry, Item, Place, Resolve, Response, ThreadInfo, is_name
from .databases import MAGIC, open_database, tables_in
from .known import Identity, key_part, parse_key
from .lines import Progress, Record
from .openai_content import PROVIDER
from .openai_items import in_response, is_part, kind_of, read_item
from .report import ImportReport
from .slices import Entries, Fields, fields_of, name_of, object_text, text_of, value_of
from .times import microseconds

AGENT = "openai-agents"
ENCRYPTED = "__enc__"
OWN_IDS = ("rs_", "msg_", "fc_", "ws_", "ctc_", "cmp_")
"""How ids begin that the provider itself gave."""

USER, HOST, TOOL = Source("user"), Source("host"), Source("tool")

_DATE_LENGTH = len("2026-01-02 10:00:00")


class AgentsSdk:
    """The form of the databases that `SQLiteSession` and its kin write."""

    name = AGENT

    def detect(self, head: bytes, path: Path | None) -> bool:
        """Whether a database begins so that has a table of such messages."""
        if not head.startswith(MAGIC):
            return False
        return MESSAGES in tables_in(head, path) or (b"message_data" in head and b"session_id" in head)

    def read(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> SessionReader:
        """Read the rows."""
        return SessionReader(open_database(stream, report, progress), report)

    def mapping(self, desk: Desk, path: Path | None) -> AgentsSdkMapping:  # noqa: ARG002 - the protocol's form
        """Begin with one database."""
        return AgentsSdkMapping(desk)

    def last_user_time(self, stream: BinaryIO) -> int:
        """Give the time of the last row that is a user's."""
        found = 0
        for record in self.read(stream, ImportReport(format=self.name), None):
            if isinstance(record, SessionRow) and name_of((record.fields or {}).get("role")) == "user":
                found = max(found, _time(record.at) or 0)
        return found


class AgentsSdkMapping:
    """The meaning of one database's rows."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._threads: dict[tuple[str, str | None, str], ThreadInfo] = {}
        self._response: str | None = None
        """The response that the last row was a part of."""
        self._reasoning: str | None = None
        self._last: SessionRow | None = None
        """The last message."""
        self._named: list[Entry] = []
        self._warned = 0
        """Warnings before the session at hand."""

    def map(self, record: Record) -> Entry | None:
        """Say what a row means."""
        assert isinstance(record, SessionRow)
        thread = self._thread(record)
        if record.table == MESSAGES:
            return self._message(thread, record)
        if record.table == SESSIONS:
            return self._session(thread, record)
        entry = self._kept(thread, record)
        if record.table == USAGE and self._response is not None and self._last is not None:
            # It stands right behind the last message of its turn.
            response = Response(id=self._response, usage=_usage(record.fields or {}))
            entry = msgspec.structs.replace(entry, response=response)
        return entry

    def end(self) -> Iterator[Entry]:
        """Name the branches."""
        yield from self._named

    def _thread(self, row: SessionRow) -> ThreadInfo:
        key = row.session, row.created, row.folder
        info = self._threads.get(key)
        if info is None:
            id_ = "/".join(part for part in (row.session, row.created, row.folder) if part)
            at = _time(row.created)
            info = ThreadInfo(id=id_, source_id=row.session, agent=AGENT, occurred_at=at)
            self._threads[key] = info
            self._response = self._reasoning = self._last = None
            self._warned = self._warnings()
        return info

    def _warnings(self) -> int:
        return sum(self._desk.report.warning_counts.values())

    def _kept(self, thread: ThreadInfo, row: SessionRow) -> Entry:
        """Keep a row of one of the other tables."""
        identity = Identity(f"{row.table}/{row.id}" if row.id else f"{row.table}/", row.data)
        return Entry(thread=thread, record=row, identity=identity, items=(_verbatim(row),))

    # --- messages ---

    def _message(self, thread: ThreadInfo, row: SessionRow) -> Entry:
        follows = self._last is not None and self._last.id == row.before
        if not follows:
            self._response = self._reasoning = None
        self._last = row
        fields = row.fields
        items = None if fields is None else self._items(row, fields)
        response = None
        if items is None:
            self._response = self._reasoning = None
            items = [_verbatim(row)]
        elif fields is not None and is_part(fields):
            source = items[0].source
            response = Response(id=self._response or "", provider=source.provider, model=source.model)
        if row.doubled:
            items = [*items, _verbatim(row)]
        return Entry(
            thread=thread,
            record=row,
            identity=Identity(str(row.id), row.data),
            parent=Place.ROOT if row.before is None else str(row.before),
            items=tuple(items),
            occurred_at=_time(row.at),
            response=response,
        )

    def _items(self, row: SessionRow, fields: Fields) -> list[Item] | None:
        """Give the events of an item; None for one that is only kept."""
        if ENCRYPTED in fields:
            self._desk.report.warn(row.line, "encrypted", "it can be read with the session's key alone")
            return None
        said = read_item(Raw(row.data), fields, self._desk.attach)
        if said is None:
            self._desk.report.warn(
                row.line, "unknown_item", f"an item of type {kind_of(fields) or '?'} is kept as it is"
            )
            return None
        over = object_text(said.rest)
        entries: Entries = [] if over is None else [("item", over.encode())]
        if row.at is not None and (_time(row.at) is None or len(row.at) != _DATE_LENGTH):
            entries.append(("created_at", msgspec.json.encode(row.at)))
        extra = object_text(entries)
        if said.kind == "response":
            return self._parts(fields, in_response(said, self._begin(row), self._reasoning, extra))
        if said.kind == "input":
            self._response = self._reasoning = None
        else:
            self._response = None
        ((body, output),) = said.parts
        body = msgspec.structs.replace(body, extra=extra)
        source = TOOL if said.kind == "result" else USER if said.role == "user" else HOST
        return [Item(body=body, source=source, output=output)]

    def _begin(self, row: SessionRow) -> str:
        """Give the id of the response at hand, or of the one that begins here."""
        if self._response is None:
            self._response, self._reasoning = f"row:{row.id}", None
        return self._response

    def _parts(self, fields: Fields, parts: list[tuple[Body, bytes | None]]) -> list[Item]:
        id_ = name_of(fields.get("id")) or ""
        if kind_of(fields) == "reasoning":
            self._reasoning = id_ or self._reasoning
        stated = name_of((fields_of(fields.get("provider_data")) or {}).get("model"))
        source = Source(
            "model",
            provider=PROVIDER if id_.startswith(OWN_IDS) else None,
            model=stated if is_name(stated) else None,
        )
        return [Item(body=body, source=source, output=output) for body, output in parts]

    # --- sessions ---

    def _session(self, thread: ThreadInfo, row: SessionRow) -> Entry:
        """Take a session's own row, behind all others of it: the program would go on at the end of its main branch."""
        last = self._last
        target = row.branches.get(MAIN, last.id if last is not None else 0)
        for name, end in row.branches.items():
            if name != MAIN:
                self._named.append(self._branch(thread, row, name, end))
        identity = Identity(f"{SESSIONS}/", row.data + f" {target} {sorted(row.branches.items())}".encode())
        moves = target and (len(row.branches) > 1 or not self._is_head(thread, target))
        return Entry(
            thread=thread,
            record=row,
            identity=identity,
            items=(_verbatim(row),),
            ends="done" if last is not None and last.id == target and _is_answer(last) else None,
            selects=str(target) if moves else None,
            last=not row.branches and self._warnings() == self._warned,
        )

    def _is_head(self, thread: ThreadInfo, id_: int) -> bool:
        stored = self._desk.thread(thread.id)
        if stored is None:
            return True
        key = stored.event(stored.head, output=False).key
        named = None if key is None else parse_key(key)
        return named is not None and named[0] == key_part(str(id_))

    def _branch(self, thread: ThreadInfo, row: SessionRow, name: str, end: int) -> Entry:
        said = name if is_name(name) else Identity(None, name.encode(errors="replace")).id

        def named(resolve: Resolve) -> Body:
            return BranchNamed(name=said, node=resolve(str(end)))

        identity = Identity(f"branch/{key_part(name)[:60]}", f"{name} {end}".encode(errors="replace"))
        return Entry(thread=thread, record=row, identity=identity, items=(Item(body=named),), counts=False)


def _verbatim(row: SessionRow) -> Item:
    record = row.data.decode()
    return Item(body=RecordKept(format=AGENT, record=record, line=row.line or None))


def _is_answer(row: SessionRow) -> bool:
    fields = row.fields or {}
    return kind_of(fields) == "message" and name_of(fields.get("role")) == "assistant"


def _time(text: str | None) -> int | None:
    """Read a time of the database, which is UTC where it does not say otherwise."""
    return microseconds(text) or microseconds(f"{text}+00:00")


def _usage(row: Fields) -> Usage | None:
    """Read a turn's tokens; those of the input include what was read from a cache."""
    given = _number(row.get("input_tokens"))
    cached = min(_detail(row.get("input_tokens_details"), "cached_tokens"), given)
    usage = Usage(
        input=given - cached,
        cache_read=cached,
        output=_number(row.get("output_tokens")),
        reasoning=_detail(row.get("output_tokens_details"), "reasoning_tokens"),
    )
    return None if usage == Usage() else usage


def _detail(data: Raw | None, name: str) -> int:
    text = text_of(data)
    fields = fields_of(text.encode(errors="replace")) if text else fields_of(data)
    return _number((fields or {}).get(name))


def _number(data: Raw | None) -> int:
    value = value_of(data)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0
