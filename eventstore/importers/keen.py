"""Keen session logs: JSON Lines, a line for a user's message, for a whole turn of the agent, for a compaction (K60).

Only the first line names the session. A turn's line holds what was shown (the transcript), the prose that later prompts
carry, and the TurnMemory that was made of it: `keen_turns`, `keen_memory`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from ..canonical import split_halves
from ..events import InputAdded, RecordKept, SegmentAdded, Source, Text, TurnState
from ..records import NAME_LENGTH_MAX
from .base import Compaction, Desk, Entry, Item, Response, ThreadInfo
from .keen_turns import read_turn
from .known import Identity
from .lines import LineReader, Progress, Record, first_objects
from .report import ImportReport
from .slices import Entries, Fields, fields_of, is_true, items_of, name_of, object_text, text_of, value_of
from .times import microseconds

AGENT = "keen"
STARTED, USER_MESSAGE, TURN, COMPACTED = "session_started", "user_message", "assistant_turn", "compaction_applied"
KINDS = frozenset({STARTED, USER_MESSAGE, TURN, COMPACTED})
"""What a line can be; its payload lies under the same name."""

LOG_NAME = "transcript_events.jsonl"
"""The file's name in its session's folder."""

_BEGINNING = re.compile(rb'\s*\{"seq":\d+,"kind":"(?:assistant_turn|compaction_applied)"')

USER, HOST, MODEL = Source("user"), Source("host"), Source("model")


class Keen:
    """The form of the logs below `~/.keen/sessions`."""

    name = AGENT
    headed = True

    def detect(self, head: bytes, path: Path | None) -> bool:  # noqa: ARG002 - the protocol's form
        """Whether one of the first lines is an event of such a log."""
        if any(name_of(fields.get("kind")) in KINDS and "seq" in fields for fields in first_objects(head)):
            return True
        # A first line that is longer than what was looked at.
        return b"\n" not in head and _BEGINNING.match(head) is not None

    def read(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> LineReader:
        """Read the lines."""
        return LineReader(stream, report, progress)

    def mapping(self, desk: Desk, path: Path | None) -> KeenMapping:
        """Begin with one file."""
        return KeenMapping(desk, path)

    def last_user_time(self, stream: BinaryIO) -> int:
        """Give the time at which the session began: the log has no other."""
        for record in LineReader(stream, ImportReport(format=self.name)):
            said = fields_of((record.fields or {}).get(STARTED))
            time = said and microseconds(text_of(said.get("created_at")))
            if time:
                return time
        return 0


class KeenMapping:
    """The meaning of one file's lines."""

    def __init__(self, desk: Desk, path: Path | None) -> None:
        self._desk = desk
        self._path = path
        self._info: ThreadInfo | None = None

    def end(self) -> Iterator[Entry]:
        """Nothing is left to say."""
        return iter(())

    def map(self, record: Record) -> Entry | None:
        """Say what a line means."""
        fields = record.fields or {}
        kind = name_of(fields.get("kind")) or ""
        said = fields_of(fields.get(kind)) if kind in KINDS else None
        number = _number(record)
        identity = Identity(None if number is None else f"seq:{number}", record.data)
        if kind == STARTED and said is not None:
            self._begin(said)
        thread = self._info = self._info or ThreadInfo(id=self._nameless(record), agent=AGENT)
        entry = Entry(thread=thread, record=record, identity=identity)
        found = None if said is None else self._meaning(entry, kind, said)
        if found is None:
            return self._kept(entry, kind)
        if record.doubled:
            # The entries that were overruled are nowhere else.
            verbatim = msgspec.structs.replace(_verbatim(record), stands=False)
            found = msgspec.structs.replace(found, items=(*found.items, verbatim))
        return found

    def _begin(self, said: Fields) -> None:
        session = name_of(said.get("session_id"))
        if session:
            time = microseconds(text_of(said.get("created_at")))
            self._info = ThreadInfo(id=session, agent=AGENT, cwd=name_of(said.get("cwd")), occurred_at=time)

    def _nameless(self, record: Record) -> str:
        """Name the session of a file without its first line: by its folder, by what came before, else by a line."""
        if self._path is not None and self._path.name == LOG_NAME:
            return self._path.parent.name or LOG_NAME
        left = [id_ for id_, is_there in self._desk.continued() if is_there]
        before = f"seq:{(_number(record) or 0) - 1}"
        found = next((id_ for id_ in left if self._desk.holds(id_, before)), left[0] if left else None)
        if found is not None:
            return found
        return self._path.stem if self._path else Identity(None, record.data).id

    def _kept(self, entry: Entry, kind: str) -> Entry:
        record = entry.record
        if record.fields is None:
            self._desk.report.warn(record.line, "not_object", "JSON, but no object")
        elif kind in KINDS - {STARTED}:
            self._desk.report.warn(record.line, "no_content", f"a {kind} line without what it speaks of")
        return msgspec.structs.replace(entry, items=(_verbatim(record),))

    def _meaning(self, entry: Entry, kind: str, said: Fields) -> Entry | None:
        """Say what a line means that says something; None for one that is only kept."""
        fields = entry.record.fields or {}
        if kind == USER_MESSAGE:
            text = text_of(said.get("content"))
            if text is None:
                return None
            extra = object_text(_rest(fields, kind, said, {"content"}))
            body = InputAdded(content=(Text(*split_halves(text)),), extra=extra)
            return msgspec.structs.replace(entry, items=(Item(body=body, source=USER),))
        if kind == TURN:
            return self._turn(entry, said)
        return self._compaction(entry, said) if kind == COMPACTED else None

    def _turn(self, entry: Entry, said: Fields) -> Entry:
        record = entry.record
        turn = read_turn(
            said, entry.identity.id, lambda code, detail: self._desk.report.warn(record.line, code, detail)
        )
        extra = _rest(record.fields or {}, TURN, said, turn.mapped)
        return msgspec.structs.replace(
            entry,
            items=turn.items(object_text(extra) or "") or (_verbatim(record),),
            # How many requests a turn took is not in the log; it took one at least.
            response=Response(id=entry.identity.id),
            ends=_state(said),
            error=_error(said),
        )

    def _compaction(self, entry: Entry, said: Fields) -> Entry | None:
        """Take the first message as a summary of all before it (K61); others follow it."""
        messages = [fields_of(message) or {} for message in items_of(said.get("messages")) or []]
        shown = [_message(message) for message in messages if _role(message) != "system"]
        if not shown or shown[0][0] != "user" or not shown[0][1].strip():
            return None
        fields = entry.record.fields or {}
        extra = object_text(_rest(fields, COMPACTED, said, set()))
        text, halves = split_halves(shown[0][1])
        compaction = Compaction(
            text=text,
            halves=halves,
            whole=True,
            follows=tuple(_said(*message) for message in shown[1:]),
            maker=AGENT,
            extra=extra,
        )
        body = InputAdded(content=(Text(text, halves),), steer=True, extra=extra)
        return msgspec.structs.replace(entry, items=(Item(body=body, source=HOST),), compaction=compaction)


def _number(record: Record) -> int | None:
    number = value_of((record.fields or {}).get("seq"))
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _verbatim(record: Record) -> Item:
    return Item(body=RecordKept(format=AGENT, record=record.data.decode(), line=record.line))


def _rest(fields: Fields, kind: str, said: Fields, mapped: set[str] | frozenset[str]) -> Entries:
    """Give what of a line has no place in its events."""
    inner: Entries = [entry for entry in said.items() if entry[0] not in mapped]
    rest: Entries = [entry for entry in fields.items() if entry[0] != kind]
    return [*rest, (kind, (object_text(inner) or "{}").encode())]


def _state(said: Fields) -> TurnState:
    if is_true(said, "interrupted"):
        return "interrupted"
    return "error" if text_of(said.get("error")) else "done"


def _error(said: Fields) -> str | None:
    return (name_of(said.get("error")) or "")[:NAME_LENGTH_MAX] or None


def _role(message: Fields) -> str:
    return (name_of(message.get("Role") or message.get("role")) or "").lower()


def _message(message: Fields) -> tuple[str, str]:
    """Give a stored message's role and text; the program writes its field names with capitals."""
    return _role(message), text_of(message.get("Content") or message.get("content")) or ""


def _said(role: str, text: str) -> Item:
    """Say again what a compaction left standing: it starts no turn."""
    words, halves = split_halves(text)
    if role == "assistant":
        return Item(body=SegmentAdded(text=words, halves=halves), source=MODEL)
    return Item(body=InputAdded(content=(Text(words, halves),), steer=True), source=HOST)
