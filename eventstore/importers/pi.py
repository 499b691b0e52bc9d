"""pi sessions, forms 1 to 4: JSON Lines, a header and then entries that form a tree (form 1: a chain in file order).

The active entry is the last line of the file, in form 4 the leaf of its main lane. Forms 1 to 3 tell by `type` what a
line is; form 4 wraps entries, records, lanes and facts, told apart by `kind`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from .base import Desk, Entry, Place, ThreadInfo, Title
from .known import Identity
from .lines import LineReader, Progress, Record, first_objects
from .pi_entries import entry_of, label_item, named_branch
from .pi_lines import AGENT, ENTRIES, HEADER, MESSAGE, MUTATIONS, Line, kind_of, line_of, time_of
from .report import ImportReport
from .slices import Fields, fields_of, name_of, text_of

EARLY_MAX = 1000
"""Lines held back until one says which session this is."""

MAIN = "main"
"""The lane whose leaf is the active one."""

_TELLING = frozenset({"parentId", "timestamp", "cwd", "seq"})
"""Fields that tell a line of one of pi's types from another program's."""


class Pi:
    """The form of the session files below `~/.pi/agent/sessions`."""

    name = AGENT
    headed = True

    def detect(self, head: bytes, path: Path | None) -> bool:  # noqa: ARG002 - the protocol's form
        """Whether one of the first lines is one of such a session."""
        if any(_is_own(fields) for fields in first_objects(head)):
            return True
        # A first line that is longer than what was looked at.
        return b"\n" not in head and head.startswith(b'{"type":"message"') and b'"message":{"role":' in head

    def read(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> LineReader:
        """Read the lines."""
        return LineReader(stream, report, progress)

    def mapping(self, desk: Desk, path: Path | None) -> PiMapping:
        """Begin with one file."""
        return PiMapping(desk, path)

    def last_user_time(self, stream: BinaryIO) -> int:
        """Give the time of the last line that a person typed."""
        records = LineReader(stream, ImportReport(format=self.name))
        lines = (line_of(record, ThreadInfo(id="")) for record in records if record.fields)
        typed = (line for line in lines if name_of((fields_of(line.fields.get(MESSAGE)) or {}).get("role")) == "user")
        return max((line.occurred_at for line in typed if line.occurred_at is not None), default=0)


def _is_own(fields: Fields) -> bool:
    kind = kind_of(fields)
    if kind in MUTATIONS:
        return kind == "header" or fields_of(fields.get(kind)) is not None or "seq" in fields
    if kind == HEADER:
        return "id" in fields and not _TELLING.isdisjoint(fields)
    if kind == MESSAGE:
        return fields_of(fields.get(MESSAGE)) is not None and not _TELLING.isdisjoint(fields)
    return kind in ENTRIES and not _TELLING.isdisjoint(fields)


class PiMapping:
    """The meaning of one file's lines."""

    def __init__(self, desk: Desk, path: Path | None) -> None:
        self._desk = desk
        self._path = path
        self._thread: ThreadInfo | None = None
        self._early: list[Record] = []
        self._last: str | None = None
        """The entry that came last."""
        self._is_elsewhere = False
        """It stands elsewhere than the last node."""
        self._is_new = False
        """It is the first time that it is met."""
        self._lanes: dict[str, str | Place] = {}
        """Each lane's leaf, by form 4."""

    def map(self, record: Record) -> Entry | None:
        """Say what a line means."""
        fields = record.fields or {}
        kind = kind_of(fields)
        if kind in {HEADER, "header"}:
            self._begin(record, fields)
        if self._thread is None:
            if not _is_own(fields) and len(self._early) < EARLY_MAX:
                self._early.append(record)
                return None
            self._thread = self._headless(record)
        return self._map(record, self._thread)

    def end(self) -> Iterator[Entry]:
        """Say what came before any line of a session, and which entry is the active one."""
        for record in self._early:
            self._thread = self._thread or self._headless(record)
            yield self._map(record, self._thread)
        active: str | Place | None = self._lanes.get(MAIN)
        if active is None and self._lanes:
            active = next(reversed(self._lanes.values()))
        if active is None or active == self._last:
            active = self._last if self._is_elsewhere else None
        if self._thread is not None and active is not None and self._is_new:
            yield self._select(self._thread, active)

    def _select(self, thread: ThreadInfo, active: str | Place) -> Entry:
        named = active if isinstance(active, str) else "root"
        return Entry(
            thread=thread,
            record=Record(0, b"", None),
            identity=Identity(f"leaf/{named}", (self._last or "").encode()),
            exact=True,
            selects=active,
            counts=False,
        )

    # --- which session ---

    def _begin(self, record: Record, header: Fields) -> None:
        self._thread = ThreadInfo(
            id=name_of(header.get("id")) or self._nameless(record),
            agent=AGENT,
            cwd=name_of(header.get("cwd")),
            occurred_at=time_of(header.get("timestamp") or header.get("createdAt")),
        )
        self._lanes = {}
        self._last, self._is_elsewhere = None, False

    def _nameless(self, record: Record) -> str:
        """Name a session that no line names: by its file, else by its first line."""
        return self._path.stem if self._path else Identity(None, record.data).id

    def _headless(self, record: Record) -> ThreadInfo:
        """Find the session that a file without header goes on with: the one with its first entry, or that one's parent.

        Where it names none, it is the one that the last import left just there.
        """
        line = line_of(record, ThreadInfo(id=""))
        known = [(self._nameless(record), False), *self._desk.continued()]
        found = next((id_ for id_, _ in known if self._desk.holds(id_, line.identity.id)), None)
        found = found or next((id_ for id_, fits in known if self._goes_on(line, id_, fits=fits)), None)
        detail = "this begins a session by itself" if found is None else f"this goes on with session {found}"
        self._desk.report.warn(record.line, "no_header", detail)
        return ThreadInfo(id=found or self._nameless(record), agent=AGENT, occurred_at=line.occurred_at)

    def _goes_on(self, line: Line, id_: str, *, fits: bool) -> bool:
        if isinstance(line.parent, str):
            return self._desk.holds(id_, line.parent)
        thread = self._desk.thread(id_) if fits and line.parent is Place.ROOT else None
        return fits and (line.parent is Place.BEFORE or (thread is not None and thread.tree.leaves() == [1]))

    # --- lines ---

    def _map(self, record: Record, thread: ThreadInfo) -> Entry:
        line = line_of(record, thread)
        if record.fields is None:
            self._desk.report.warn(record.line, "not_object", "JSON, but no object")
        is_entry = line.kind not in MUTATIONS and line.kind != HEADER and record.fields is not None
        is_new = not self._desk.holds(thread.id, line.identity.id)
        entry = entry_of(line, self._desk) if is_entry else self._mutation(line)
        if is_entry:
            self._move(line, entry, is_new=is_new)
        if record.doubled:
            # The entries that were overruled are nowhere else.
            entry = msgspec.structs.replace(entry, items=(*entry.items, line.verbatim()))
        return entry

    def _move(self, line: Line, entry: Entry, *, is_new: bool) -> None:
        """Follow the active entry."""
        is_node = entry.compaction is None and any(not callable(item.body) and item.body.NODE for item in entry.items)
        if is_node:
            self._is_elsewhere = False
        elif line.parent is not Place.BEFORE and line.parent != self._last:
            self._is_elsewhere = True
        self._last, self._is_new = line.identity.id, is_new
        lane = None if line.outer is None else name_of(line.outer.get("lane"))
        if lane is not None:
            self._lanes[lane] = self._last

    def _mutation(self, line: Line) -> Entry:
        """Say what a line of form 4 means that is no entry."""
        fields = line.fields
        if line.kind == "lane":
            return self._lane(line)
        fact = name_of(fields.get("fact")) if line.kind == "fact" else None
        name = text_of(fields.get("name")) or text_of(fields.get("value"))
        if fact == "name" and name:
            return line.entry([line.verbatim()], title=Title(text=name, by="fact"))
        if fact == "label":
            item = label_item(line, self._desk, fields, line.rest(()))
            if item is not None:
                return line.entry([item])
        return line.entry([line.verbatim()])

    def _lane(self, line: Line) -> Entry:
        """Say where a lane's leaf is; a lane that is not the main one is a branch of its own."""
        lane, leaf = name_of(line.fields.get("lane")), name_of(line.fields.get("leafId"))
        is_here = leaf is not None and self._desk.holds(line.thread.id, leaf)
        if lane is None or (leaf is not None and not is_here):
            self._desk.report.warn(line.record.line, "missing_leaf", f"a lane ends at {leaf}, which is not here")
            return line.entry([line.verbatim()])
        self._lanes.pop(lane, None)
        self._lanes[lane] = Place.ROOT if leaf is None else leaf
        self._is_new = not self._desk.holds(line.thread.id, line.identity.id)
        item = None if lane == MAIN or leaf is None else named_branch(lane, leaf, line.rest(()))
        return line.entry([line.verbatim() if item is None else item])
