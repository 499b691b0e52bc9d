"""One import: from a source's records, through its importer's words, into the threads of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import msgspec
from blake3 import blake3

from .. import errors
from ..canonical import creation_id
from ..events import ImportReported, RecordKept
from ..store import Store
from ..thread import Thread
from .base import IMPORTED, Entry, Importer, Mapping, ThreadInfo
from .known import key_part
from .lines import rejoined
from .report import Finding, ImportReport, Tally
from .weave import torn_line, with_torn_line
from .writer import ThreadWriter

THREADS_LOOKED_AT = 64
"""Threads, last touched first, in which the beginning of a cut record is looked for."""

TORN_BYTES_MAX = 1024 * 1024
ATTEMPTS_MAX = 8

Progress = Callable[[int, int], None]
"""Told the bytes read so far and the bytes in all."""


class Done(msgspec.Struct):
    """What is left of a thread of which the source says nothing more."""

    appended: int = 0
    stored: int = 0
    warnings: tuple[Finding, ...] = ()


class Run:
    """The state of one import; also what its mapping may ask (`base.Desk`)."""

    def __init__(self, store: Store, importer: Importer, report: ImportReport, *, again: bool) -> None:
        self.report = report
        self._store = store
        self._importer = importer
        self._again = again
        self._tally = Tally(report)
        self._writers: dict[str, ThreadWriter] = {}
        self._done: dict[str, Done] = {}
        """Threads that are let go of, by the source's id."""
        self._is_cut = False
        """Whether the source begins with the end of a record."""
        self._continued: str | None = None
        """The thread that the record's beginning came with."""

    def go(self, stream: BinaryIO, path: Path | None, progress: Callable[[int], None] | None) -> None:
        """Read, map and write everything."""
        reader = self._importer.read(stream, self.report, progress)
        mapping = self._importer.mapping(self, path)
        is_first = True
        for record in reader:
            if is_first and reader.stump and getattr(self._importer, "headed", False):
                # What a line means depends on the ones before it, of which the cut one is the nearest.
                self._join(reader.stump, mapping, None)
                is_first = False
            entry = mapping.map(record)
            if entry is None:
                continue
            if is_first and reader.stump:
                self._join(reader.stump, mapping, entry.thread)
            is_first = False
            self._write(entry)
        if is_first and reader.stump:
            self._join(reader.stump, mapping, None)
        for entry in mapping.end():
            self._write(entry)
        self._close(reader.torn)

    def _join(self, stump: bytes, mapping: Mapping, thread: ThreadInfo | None) -> None:
        """Take the record that a cut parted, whose beginning came with an earlier import, before what follows it."""
        self._is_cut = True
        joined = None
        for source_id, torn in self._torn(thread):
            joined = rejoined(torn, stump)
            if joined is not None:
                self._continued = source_id
                break
        entry = None if joined is None else mapping.map(joined)
        if entry is not None:
            report = self.report
            report.lost -= 1
            report.repaired += 1
            report.warn(1, "rejoined_record", "its beginning came with an earlier import")
            self._write(entry)

    def _torn(self, thread: ThreadInfo | None) -> Iterator[tuple[str | None, bytes]]:
        """Give threads that earlier imports left, with their cut ends: this one, then those that were touched last."""
        if thread is not None:
            yield thread.id, self._writer(thread).weave.torn
        for row in islice(self._store.threads(), THREADS_LOOKED_AT):
            other = self._store.thread(row.thread)
            last = other.event(other.position)
            if isinstance(last.body, ImportReported) and last.body.format == self._importer.name:
                yield row.source_id, torn_line(last.body)

    def _write(self, entry: Entry) -> None:
        writer = self._writer(entry.thread)
        self._take(entry, writer)
        if entry.last:
            self._finish(entry, writer)

    def _take(self, entry: Entry, writer: ThreadWriter) -> None:
        met = writer.weave.known.meet(entry.identity)
        if met:
            self.report.repeated += entry.counts
            return
        lost = self.report.lost
        if met is None:
            writer.take(entry)
        else:
            writer.remember(entry)
        if self.report.lost == lost:
            self._count(entry)

    def _count(self, entry: Entry) -> None:
        report = self.report
        if entry.title is not None and not entry.items:
            return  # the second thing that a record says
        if not entry.counts:
            pass
        elif entry.items and entry.title is None and all(isinstance(item.body, RecordKept) for item in entry.items):
            report.kept += 1
        else:
            report.mapped += 1
        if entry.response is not None:
            message = entry.response.message or entry.response.id
            self._tally.response(message, entry.response.usage if entry.response.call else None)
        for item in entry.items:
            self._tally.body(item.body, item.source)

    def _writer(self, info: ThreadInfo) -> ThreadWriter:
        writer = self._writers.get(info.id) or self._open(info)
        if not writer.named:
            writer.named = True
            if info.id in self._done:
                return writer
            self.report.thread_ids.append(writer.thread_id)
        return writer

    def _open(self, info: ThreadInfo) -> ThreadWriter:
        if info.continues is not None:
            self._fork(info, *info.continues)
        report = self.report
        writer = ThreadWriter(self._store, self._importer.name, info, report, again=self._again, dry_run=report.dry_run)
        self._writers[info.id] = writer
        return writer

    def _fork(self, info: ThreadInfo, origin: str, record: str) -> None:
        """Make a thread that goes on from another's node."""
        thread = self.thread(origin)
        if thread is None or self._store.backend.thread(self.thread_id(info.id)) is not None:
            return
        writer = self._writers.get(origin)
        node = writer.weave.known.place(key_part(record)) if writer else None
        if node:
            self._store.fork(thread, node=node, title=info.title, source_id=info.id, key=(self._importer.name, info.id))

    def _finish(self, entry: Entry, writer: ThreadWriter) -> None:
        """Let go of a thread that nothing more comes of: of many conversations only the counts are kept in mind."""
        writer.close(None)
        done = self._done.setdefault(writer.info.id, Done())
        done.appended += writer.appended
        done.stored += writer.stored_count
        done.warnings = tuple(found for found in self.report.warnings if found.line == entry.record.line)
        del self._writers[writer.info.id]

    def _close(self, torn: bytes) -> None:
        report = self.report
        writers = list(self._writers.values())
        for writer in writers:
            writer.close(None)
        body = self._reported(report.warnings)
        if torn and len(torn) <= TORN_BYTES_MAX:
            body = with_torn_line(body, torn)
        for writer in writers:
            writer.close(body)
            report.appended += writer.appended
        for id_, done in self._done.items():
            if done.appended:
                report.appended += done.appended + 1
                thread = self.thread(id_)
                if thread is not None:
                    thread.append(self._reported(done.warnings), source=IMPORTED)

    def _reported(self, warnings: Sequence[Finding]) -> ImportReported:
        report = self.report
        return ImportReported(
            format=report.format,
            digest=report.digest,
            counts=report.counts(),
            warnings=tuple((warning.line, warning.code, warning.detail) for warning in warnings),
        )

    @property
    def appended(self) -> int:
        """Events stored so far."""
        done = sum(done.stored for done in self._done.values())
        return done + sum(writer.stored_count for writer in self._writers.values())

    # --- what a mapping may ask ---

    def attach(self, data: bytes) -> str:
        """Store bytes as an attachment and give their name."""
        return blake3(data).hexdigest() if self.report.dry_run else self._store.attach(data)

    def holds(self, thread: str, id_: str) -> bool:
        """Whether a thread of the source has a record of this id."""
        writer = self._writers.get(thread)
        if writer is None and self._store.backend.thread(self.thread_id(thread)) is not None:
            writer = self._open(ThreadInfo(id=thread))
        return writer is not None and writer.weave.known.place(key_part(id_)) is not None

    def threads(self, prefix: str) -> Iterator[str]:
        """Give the ids of the source's threads that this run, or the store, knows and that start so."""
        yield from [id_ for id_ in self._writers if id_.startswith(prefix)]
        for row in self._store.threads():
            source_id = row.source_id
            if source_id is None or not source_id.startswith(prefix) or source_id in self._writers:
                continue
            if row.thread == self.thread_id(source_id):
                yield source_id

    def continued(self) -> Iterator[tuple[str, bool]]:
        """Give the threads that a source without a beginning of its own may go on with."""
        if self._continued is not None:
            yield self._continued, True
            return
        for source_id, torn in self._torn(None):
            if source_id is not None:
                yield source_id, not torn and not self._is_cut

    def thread(self, id_: str) -> Thread | None:
        """Give a thread of the source as far as it is stored, what was read so far included."""
        writer = self._writers.get(id_)
        if writer is not None:
            return writer.stored
        thread_id = self.thread_id(id_)
        return None if self._store.backend.thread(thread_id) is None else self._store.thread(thread_id)

    def thread_id(self, id_: str) -> str:
        """Give the id that a thread of the source has in the store."""
        return creation_id(self._importer.name, id_)


def carry_out(
    store: Store,
    importer: Importer,
    opened: Callable[[], BinaryIO],
    path: Path | None,
    size: int,
    *,
    dry_run: bool,
    again: bool,
    progress: Progress | None = None,
) -> ImportReport:
    """Carry out an import; begin again when another writer was faster, since what is stored is not stored twice."""
    told = None if progress is None else (lambda read: progress(read, size))
    appended = 0
    for attempt in range(1, ATTEMPTS_MAX + 1):
        report = ImportReport(format=importer.name, path=None if path is None else str(path), dry_run=dry_run)
        run = Run(store, importer, report, again=again)
        try:
            with opened() as stream:
                run.go(stream, path, told)
        except errors.Conflict:
            appended += run.appended
            if attempt == ATTEMPTS_MAX:
                raise
            continue
        report.appended += appended
        break
    return report
