"""Gemini CLI sessions: messages in order, written again whenever something came to one of them.

Calls and their results lie inside the message that made them. A line may rewind to before a message, or set all
messages anew, as a compression does. The system prompt and the tools are not in the file.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from ..canonical import split_halves
from ..events import RecordKept
from .base import Compaction, Desk, Entry, Item, Place, Response, ThreadInfo, Title
from .gemini_cli_history import History, Step
from .gemini_cli_messages import NOTICES, PARENT_AGENT, USER, input_items, model_items, notice_items
from .gemini_cli_reading import (
    Listed,
    SessionReader,
    begins_session,
    is_message,
    listed_in,
    summary_in,
    with_names,
)
from .gemini_cli_seen import Seen, digest_of, is_answer, plain_text, seen_in, usage_of
from .gemini_cli_threads import AGENT, session_in, thread_of
from .gemini_parts import PROVIDER
from .headless import continued_thread, info_of
from .known import Identity, key_part
from .lines import Progress, Record
from .report import ImportReport
from .slices import Fields, fields_of, name_of, text_of
from .times import microseconds

SEEN_MAX = 256
"""Messages kept in mind, last met last, since they are written again soon or never."""


class GeminiCli:
    """The form of the sessions below `~/.gemini/tmp/<project>/chats`."""

    name = AGENT
    headed = True

    def detect(self, head: bytes, path: Path | None) -> bool:  # noqa: ARG002 - the protocol's form
        """Whether such a session begins so."""
        return begins_session(head)

    def read(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> SessionReader:
        """Read the records."""
        return SessionReader(stream, report, progress)

    def mapping(self, desk: Desk, path: Path | None) -> GeminiCliMapping:
        """Begin with one session."""
        return GeminiCliMapping(desk, path)

    def last_user_time(self, stream: BinaryIO) -> int:
        """Give the time of the last message that a person typed; none of a sub-agent's is."""
        found = 0
        for record in self.read(stream, ImportReport(format=self.name), None):
            fields = record.fields or {}
            if name_of(fields.get("kind")) == "subagent":
                return 0
            if name_of(fields.get("type")) == "user":
                found = max(found, microseconds(text_of(fields.get("timestamp"))) or 0)
        return found


class GeminiCliMapping:
    """The meaning of one session's records."""

    def __init__(self, desk: Desk, path: Path | None) -> None:
        self._desk = desk
        self._path = path
        self._thread: ThreadInfo | None = None
        self._history = History()
        self._seen: OrderedDict[str, Seen] = OrderedDict()
        self._step = Step("same")
        """What the list did whose messages come now."""
        self._record: Record | None = None

    def map(self, record: Record) -> Entry | None:
        """Say what a record means."""
        fields = record.fields
        thread = self._thread or self._begin(record)
        if fields is None:
            self._desk.report.warn(record.line, "not_object", "JSON, but no object")
            return self._kept(thread, record)
        self._record = record
        entry = self._meaning(thread, record, fields)
        if entry is not None and record.doubled:
            # The entries that were overruled are nowhere else.
            entry = msgspec.structs.replace(entry, items=(*entry.items, verbatim(record)))
        return entry

    def end(self) -> Iterator[Entry]:
        """Say that the last turn ended, when its answer is complete."""
        last = self._history.order[-1] if self._history.order else None
        seen = self._seen.get(last or "")
        if seen is not None and seen.is_answer and self._record is not None and self._thread is not None:
            identity = Identity(f"{last}:end", seen.digest.encode())
            yield Entry(thread=self._thread, record=self._record, identity=identity, ends="done", counts=False)

    def _begin(self, record: Record) -> ThreadInfo:
        """Find the thread that the records are of."""
        fields = record.fields or {}
        id_ = name_of(fields.get("sessionId"))
        if id_ and not is_message(fields):
            self._thread = thread_of(self._desk, fields, id_, self._path)
            return self._thread
        own = Identity(name_of(fields.get("id")) if is_message(fields) else None, record.data).id
        at = microseconds(text_of(fields.get("timestamp")))
        known = session_in(self._desk, self._path) or continued_thread(self._desk, own, at)
        id_ = known or (self._path.stem if self._path else own)
        self._desk.report.warn(record.line, "no_header", f"the records are taken as ones of thread {id_}")
        self._thread = ThreadInfo(id=id_, agent=AGENT, occurred_at=at)
        stored = self._desk.thread(id_)
        if stored is not None:
            self._thread = info_of(stored, id_, AGENT)
            self._history.resume(stored)
        return self._thread

    def _meaning(self, thread: ThreadInfo, record: Record, fields: Fields) -> Entry | None:
        if isinstance(record, Listed):
            return self._listed(thread, record, fields)
        if name_of(fields.get("$rewindTo")) is not None:
            return self._rewound(thread, record, name_of(fields["$rewindTo"]) or "")
        if is_message(fields):
            return self._message(thread, record, fields)
        said = fields_of(fields.get("$set")) if "$set" in fields else fields
        return self._said(thread, record, said or {})

    def _kept(self, thread: ThreadInfo, record: Record, identity: Identity | None = None) -> Entry:
        identity = identity or Identity(None, record.data)
        return Entry(thread=thread, record=record, identity=identity, items=(verbatim(record),))

    # --- messages ---

    def _message(self, thread: ThreadInfo, record: Record, fields: Fields, *, counts: bool = True) -> Entry:
        """Say what a message means, or what is new in one that was there before."""
        history = self._history
        identity = Identity(name_of(fields["id"]), record.data)
        seen = self._recall(thread, identity.id) if identity.id in history.digests else None
        parent: str | Place = Place.BEFORE
        if seen is not None and counts and _is_changed(seen, fields):
            if identity.id not in history.order[-1:]:
                self._desk.report.warn(
                    record.line, "changed_message", f"{identity.id} has other words, but others follow"
                )
                history.write_again(identity.id, identity.digest)
                return self._kept(thread, record, identity)
            parent, seen = history.before(identity.id), None
        is_new = seen is None
        seen = seen or Seen(response=identity.id if parent is Place.BEFORE else f"{identity.id}/{identity.digest}")
        items, response = self._items(thread, record, fields, seen, is_new=is_new)
        self._note(identity, fields, seen, is_new=is_new, is_placed=bool(items))
        return Entry(
            thread=thread,
            record=record,
            identity=identity,
            parent=parent,
            items=tuple(items) if items and is_new else (*items, verbatim(record)),
            occurred_at=microseconds(text_of(fields.get("timestamp"))),
            response=response,
            ends="error" if is_new and name_of(fields.get("type")) == "error" else None,
            counts=counts,
        )

    def _items(
        self, thread: ThreadInfo, record: Record, fields: Fields, seen: Seen, *, is_new: bool
    ) -> tuple[list[Item], Response | None]:
        """Give the events of a message, and the response that it is."""
        kind, attach = name_of(fields.get("type")), self._desk.attach
        if kind == "gemini":
            items = model_items(fields, attach, seen, seen.response)
            model = name_of(fields.get("model"))
            response = Response(id=seen.response, provider=PROVIDER, model=model, usage=usage_of(fields))
            return items, response if items or not is_new else None
        if not is_new:
            return [], None
        found: list[Item] | None = None
        if kind == "user":
            found = input_items(fields, attach, PARENT_AGENT if thread.origin == "subagent" else USER)
        elif kind in NOTICES:
            found = notice_items(fields)
        if found is None:
            self._desk.report.warn(record.line, "unknown_message", f"of type {kind or '?'}; it is kept as it is")
        return found or [], None

    def _note(self, identity: Identity, fields: Fields, seen: Seen, *, is_new: bool, is_placed: bool) -> None:
        """Keep in mind what came of a message."""
        seen.digest, seen.text = identity.digest, digest_of(plain_text(fields).encode(errors="replace"))
        seen.is_answer = is_answer(fields)
        self._seen[identity.id] = seen
        self._seen.move_to_end(identity.id)
        if len(self._seen) > SEEN_MAX:
            self._seen.popitem(last=False)
        if not is_new:
            self._history.write_again(identity.id, identity.digest)
            return
        self._history.add(identity.id, identity.digest)
        if not is_placed:
            self._history.leave_out(identity.id)

    def _recall(self, thread: ThreadInfo, id_: str) -> Seen:
        """Give what came of a message, from the thread when it is out of mind."""
        seen = self._seen.get(id_)
        if seen is None:
            stored = self._desk.thread(thread.id)
            seen = Seen(response=id_) if stored is None else seen_in(stored, id_)
        return seen

    # --- what is said of the session ---

    def _rewound(self, thread: ThreadInfo, record: Record, id_: str) -> Entry:
        """Go back to before a message; from an unknown one on, the program takes everything away."""
        last = self._history.rewind(key_part(id_))
        if last is None:
            self._desk.report.warn(record.line, "rewind_unknown", f"{id_} is not on the path; all of it is left")
        entry = self._kept(thread, record)
        return msgspec.structs.replace(entry, selects=last or Place.ROOT)

    def _said(self, thread: ThreadInfo, record: Record, said: Fields) -> Entry:
        """Take the header, or new values of what it says: a name, or the list of messages."""
        text = text_of(said.get("summary"))
        title = Title(text=text, by="summary") if text else None
        entry = msgspec.structs.replace(self._kept(thread, record), title=title)
        listed = [Identity(name_of((fields_of(data) or {})["id"]), data) for data in listed_in(record.fields or {})]
        self._step = self._history.set_to([identity.id for identity in listed])
        if self._step.kind == "other":
            self._desk.report.warn(
                record.line, "history_replaced", "its messages are not those of the path; it is kept"
            )
        if not listed or self._step.kind == "other":
            return entry
        shown = with_names(record, self._step.heads)
        body = RecordKept(format=AGENT, record=shown, line=record.line)
        entry = msgspec.structs.replace(entry, items=(Item(body=body),), selects=self._step.back_to)
        if self._step.kind != "compact":
            return entry
        text = summary_in(record)
        if not text:
            self._desk.report.warn(record.line, "sealed_summary", "no words stand for what came before")
            return entry
        words, halves = split_halves(text)
        keeps = self._step.keeps
        compaction = Compaction(text=words, halves=halves, keeps=keeps, maker=AGENT, extra=shown)
        return msgspec.structs.replace(entry, compaction=compaction)

    def _listed(self, thread: ThreadInfo, record: Record, fields: Fields) -> Entry | None:
        """Say what is new in a message that a list holds; None when nothing is."""
        identity = Identity(name_of(fields["id"]), record.data)
        history = self._history
        if history.digests.get(identity.id) == identity.digest:
            return None
        if self._step.kind == "other" or identity.id in self._step.heads:
            history.write_again(identity.id, identity.digest)
            return None
        return self._message(thread, record, fields, counts=False)


def verbatim(record: Record) -> Item:
    """Keep a record as it is."""
    body = RecordKept(format=AGENT, record=record.data.decode(), line=record.line or None)
    return Item(body=body)


def _is_changed(seen: Seen, fields: Fields) -> bool:
    """Whether a message that had words has others now."""
    had_words = seen.text not in {"", digest_of(b"")}
    return had_words and seen.text != digest_of(plain_text(fields).encode(errors="replace"))
