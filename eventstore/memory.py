"""The memory backend: plain dicts and lists, for tests and for programs that mean to keep nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager

import msgspec

from . import errors
from .backend import Erasure, HeaderColumns, KeyTaken, Listing, PositionTaken, Problem, Record, ThreadRow, ThreadTaken

FOUND_MAX = 20
"""Threads that `find` answers with at most."""


class MemoryBackend:
    """A store in this process's memory."""

    def __init__(self) -> None:
        self._mutex = threading.RLock()
        self._closed = False
        self._cursor = 0
        self._rows: dict[str, ThreadRow] = {}
        self._records: dict[str, dict[int, Record]] = {}
        """By thread and position, in the order of positions."""
        self._keys: dict[str, dict[str, int]] = {}
        self._feed: dict[int, tuple[str, int]] = {}
        """(thread, position) by store-wide cursor."""
        self._redactions: dict[tuple[str, int], int] = {}
        self._deleted: set[str] = set()
        self._attachments: dict[str, tuple[int, list[bytes]]] = {}
        """(size, chunks) by name."""
        self._uses: set[tuple[str, str]] = set()
        """(attachment, thread)."""
        self._cache: dict[str, tuple[str, bytes]] = {}

    @property
    def place(self) -> str:
        """`:memory:`."""
        return ":memory:"

    def _own(self, thread: str) -> dict[int, Record]:
        """Give the records of a thread's own log."""
        self._require_open()
        try:
            return self._records[thread]
        except KeyError:
            raise errors.NoSuchThread(f"no thread {thread} in {self.place}") from None

    def _require_open(self) -> None:
        if self._closed:
            raise errors.StoreClosed(f"{self.place} was closed")

    # --- appending ---

    def create(self, row: ThreadRow, records: Sequence[Record]) -> None:
        """Store a thread's row with its first records."""
        with self._mutex:
            self._require_open()
            if row.origin is not None:
                self._own(row.origin)
            if row.thread in self._rows:
                raise ThreadTaken(row.thread)
            self._rows[row.thread] = row
            self._records[row.thread] = {}
            self._keys[row.thread] = {}
            self._deleted.discard(row.thread)
            self._insert(row.thread, records, Listing())

    def append(self, thread: str, records: Sequence[Record], listing: Listing | None) -> None:
        """Store records, all or none."""
        with self._mutex:
            self._require_free(thread, records)
            self._insert(thread, records, listing)

    def _require_free(self, thread: str, records: Sequence[Record]) -> None:
        own, keys = self._own(thread), self._keys[thread]
        for record in records:
            if record.position in own:
                raise PositionTaken(f"{thread} {record.position}")
            if record.key in keys:
                raise KeyTaken(f"{thread} {record.key}")

    def _insert(self, thread: str, records: Sequence[Record], listing: Listing | None) -> None:
        for record in records:
            self._cursor += 1
            self._feed[self._cursor] = (thread, record.position)
            self._records[thread][record.position] = record
            if record.key is not None:
                self._keys[thread][record.key] = record.position
        if listing is not None:
            self._uses.update((name, thread) for name in listing.attachments if name in self._attachments)
            row = self._rows[thread]
            self._rows[thread] = msgspec.structs.replace(
                row,
                touched=self._cursor,
                spoke=self._cursor if listing.spoke else row.spoke,
                turns=row.turns + listing.turns_ended,
                title=row.title if listing.title is None else listing.title,
                preview=row.preview if listing.preview is None else listing.preview,
            )

    # --- threads ---

    def thread(self, thread: str) -> ThreadRow | None:
        """Give a thread's row."""
        with self._mutex:
            self._require_open()
            return self._rows.get(thread)

    def threads(self, *, before: int | None = None, limit: int = 50) -> list[ThreadRow]:
        """Give a page of rows, last touched first."""
        found = self._select(lambda row: row.kind != "store" and (before is None or row.touched < before))
        return sorted(found, key=lambda row: row.touched, reverse=True)[:limit]

    def find(self, text: str) -> list[ThreadRow]:
        """Give the threads whose id starts with, or whose title or source id is, `text`."""
        exact = self._select(lambda row: text in (row.title, row.source_id))
        return (exact or self._select(lambda row: bool(text) and row.thread.startswith(text)))[:FOUND_MAX]

    def forks(self, thread: str) -> list[ThreadRow]:
        """Give the threads that share this one's log."""
        return self._select(lambda row: row.origin == thread)

    def latest(self) -> ThreadRow | None:
        """Give the thread whose user spoke last."""
        return max(self._select(lambda row: row.spoke > 0 and not row.helper), key=lambda row: row.spoke, default=None)

    def _select(self, fits: Callable[[ThreadRow], bool]) -> list[ThreadRow]:
        with self._mutex:
            self._require_open()
            return [row for row in self._rows.values() if fits(row)]

    # --- reading ---

    def tip(self, thread: str) -> Record | None:
        """Give the last record of the log, without body and output."""
        with self._mutex:
            own = self._own(thread)
            return _trimmed(own[next(reversed(own))], bodies=False, outputs=False) if own else None

    def read(
        self,
        thread: str,
        first: int,
        last: int,
        *,
        types: Collection[str] | None = None,
        bodies: bool = True,
        outputs: bool = True,
    ) -> Iterator[Record]:
        """Iterate over a closed run of positions in order, as they were when the iteration began."""
        with self._mutex:
            own = self._own(thread)
            last = min(last, next(reversed(own), 0))
            found = [own[position] for position in range(first, last + 1) if position in own]
        for record in found:
            if types is None or record.type in types:
                yield _trimmed(record, bodies=bodies, outputs=outputs)

    def headers(self, thread: str, first: int, last: int) -> Iterator[Sequence[HeaderColumns]]:
        """Iterate over what `read` gives, as pages of plain tuples."""
        for record in self.read(thread, first, last, bodies=False):
            yield [
                (
                    record.position,
                    record.parent,
                    record.head,
                    record.refs,
                    record.type,
                    record.version,
                    record.recorded_at,
                    record.occurred_at,
                    record.source,
                    record.key,
                    record.commitment,
                    record.hash,
                )
            ]

    def position_of_key(self, thread: str, key: str) -> int | None:
        """Give the position of the event with this key."""
        with self._mutex:
            self._own(thread)
            return self._keys[thread].get(key)

    def finish_erasing(self) -> None:
        """Nothing waits: what was erased is in no file."""

    def redacted_by(self, thread: str, position: int) -> int | None:
        """Give the position of the `redacted` event that erased this one."""
        with self._mutex:
            self._own(thread)
            return self._redactions.get((thread, position))

    def changes(self, cursor: int, limit: int) -> tuple[list[tuple[str, int]], int]:
        """Give (thread, position) of events after a store-wide cursor."""
        with self._mutex:
            self._require_open()
            found = [number for number in range(max(cursor, 0) + 1, self._cursor + 1) if number in self._feed][:limit]
            return [self._feed[number] for number in found], found[-1] if found else cursor

    # --- erasing ---

    def redact(self, thread: str, records: Sequence[Record], erasure: Erasure) -> None:
        """Store the records and erase, at once."""
        with self._mutex:
            self._require_free(thread, records)
            self._insert(thread, records, None)
            own = self._own(thread)
            by = records[0].position if erasure.by is None else erasure.by
            for position in erasure.positions:
                self._redactions[thread, position] = by
                own[position] = msgspec.structs.replace(own[position], body=None, output=None, salt=None)
            for other, position in erasure.secrets:
                of_other = self._own(other)
                of_other[position] = msgspec.structs.replace(of_other[position], secret=None)
            self._uses -= {(name, thread) for name in erasure.attachments}
            used = {name for name, _ in self._uses}
            self._drop([name for name in erasure.attachments if name not in used])
            for row in erasure.rows:
                self._rows[row.thread] = msgspec.structs.replace(
                    self._rows[row.thread], title=row.title, cwd=row.cwd, source_id=row.source_id, preview=row.preview
                )
            self._cache.clear()

    def delete(self, threads: Sequence[str], store_thread: str, records: Sequence[Record]) -> None:
        """Erase whole threads and store the notes that say so, at once."""
        with self._mutex:
            self._require_free(store_thread, records)
            for thread in threads:
                self._own(thread)
                self._require_unshared(thread, threads)
            self._insert(store_thread, records, None)
            for thread in threads:
                self._drop_uses(thread)
                self._deleted.add(thread)
                del self._rows[thread], self._records[thread], self._keys[thread]
            gone = set(threads)
            self._feed = {number: place for number, place in self._feed.items() if place[0] not in gone}
            self._redactions = {place: by for place, by in self._redactions.items() if place[0] not in gone}
            self._cache.clear()

    def _require_unshared(self, thread: str, gone: Sequence[str]) -> None:
        for fork in self.forks(thread):
            if fork.thread not in gone:
                raise errors.HasForks(f"thread {fork.thread[:12]} shares the log of {thread[:12]}", hint="look again")

    def is_deleted(self, thread: str) -> bool:
        """Whether a thread of this id was deleted here."""
        with self._mutex:
            self._require_open()
            return thread in self._deleted

    # --- attachments ---

    def put_attachment(self, name: str, chunks: Iterator[bytes], size: int) -> None:
        """Store bytes under their hash, whole or not at all."""
        data = list(chunks)
        with self._mutex:
            self._require_open()
            self._attachments.setdefault(name, (size, data))

    def attachment_size(self, name: str) -> int | None:
        """Give the size in bytes."""
        with self._mutex:
            self._require_open()
            kept = self._attachments.get(name)
        return None if kept is None else kept[0]

    def attachment(self, name: str) -> Iterator[bytes]:
        """Iterate over an attachment's chunks."""
        with self._mutex:
            self._require_open()
            _, chunks = self._attachments.get(name, (0, []))
        yield from chunks

    def attachments(self, thread: str | None = None) -> Iterator[str]:
        """Iterate over the names of all attachments, or of those that a thread uses."""
        with self._mutex:
            self._require_open()
            if thread is not None:
                self._own(thread)
            names = [name for name in self._attachments if thread is None or (name, thread) in self._uses]
        yield from sorted(names)

    def drop_attachments(self, names: Collection[str]) -> None:
        """Erase attachments."""
        with self._mutex:
            self._require_open()
            self._drop(names)

    def _drop(self, names: Collection[str]) -> None:
        for name in names:
            self._attachments.pop(name, None)
        self._uses = {use for use in self._uses if use[0] not in names}

    def _drop_uses(self, thread: str) -> None:
        """Erase the attachments that no other thread uses, and what is known of this thread's uses."""
        kept = {use for use in self._uses if use[1] != thread}
        shared = {name for name, _ in kept}
        self._drop([name for name, user in self._uses if user == thread and name not in shared])
        self._uses = kept

    # --- caches and care ---

    def held(self) -> AbstractContextManager[object]:
        """Give a context in which no other handle writes."""
        return self._mutex

    def cached(self, name: str) -> bytes | None:
        """Give a derived value kept earlier under this name."""
        with self._mutex:
            self._require_open()
            kept = self._cache.get(name)
        return None if kept is None else kept[1]

    def cache(self, name: str, value: bytes, thread: str, *, given: tuple[str, bytes] | None = None) -> bool:
        """Keep a derived value, while the value given is there."""
        with self._mutex:
            self._own(thread)
            if given is not None and self.cached(given[0]) != given[1]:
                return False
            self._cache[name] = (thread, value)
            return True

    def cache_size(self) -> int:
        """Give the bytes of all derived values."""
        with self._mutex:
            self._require_open()
            return sum(len(value) for _, value in self._cache.values())

    def drop_cache(self) -> None:
        """Drop all derived values."""
        with self._mutex:
            self._require_open()
            self._cache.clear()

    def check(self) -> Iterator[Problem]:
        """Find nothing: there is no engine below that could be damaged."""
        return iter(())

    def maintain(self) -> None:
        """Do nothing: no work is put off."""

    def close(self) -> None:
        """Refuse all further use. Idempotent."""
        with self._mutex:
            self._closed = True


def _trimmed(record: Record, *, bodies: bool, outputs: bool) -> Record:
    """Give a record without the columns that were not asked for."""
    if not bodies:
        return msgspec.structs.replace(record, body=None, output=None)
    return record if outputs or record.output is None else msgspec.structs.replace(record, output=None)
