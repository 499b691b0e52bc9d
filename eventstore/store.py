"""The store: threads by id, name or source id, attachments, and what is of no one thread."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Self

import msgspec
from blake3 import blake3

from . import errors, records
from .backend import Backend, Clock, Entropy, PositionTaken, ThreadRow, ThreadTaken
from .canonical import creation_id, is_well_formed
from .events import Body, ParentCall, Source, ThreadCreated, ThreadDeleted, ThreadForked
from .log import Log, Settings, Span
from .records import Draft
from .thread import Thread

LOGS_MAX = 1024
"""Threads whose live state is kept at once."""

STORE_THREAD = "0" * 32
"""The store's own thread: notes about whole threads."""

CHUNK_BYTES = 1024 * 1024
ATTACHMENT_BYTES_MAX = 1024 * 1024 * 1024


def wall_clock() -> int:
    """Microseconds UTC now."""
    return time.time_ns() // 1000


class Store:
    """Threads in a backend. Safe to use from several threads of one process; another process opens its own."""

    thread_class: type[Thread] = Thread
    """What `thread` and `create_thread` answer with; the layer above gives handles that derive prompts too."""

    def __init__(
        self,
        backend: Backend,
        *,
        clock: Clock = wall_clock,
        entropy: Entropy = os.urandom,
        record_outputs: Literal["all", "facts"] = "all",
    ) -> None:
        self.backend = backend
        self.mutex = threading.RLock()
        self._settings = Settings(clock, entropy, record_outputs == "all")
        self._logs: OrderedDict[str, Log] = OrderedDict()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give everything back. Idempotent."""
        with self.mutex:
            self._logs.clear()
            self.backend.close()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Give a context in which nobody else writes: no other thread, handle or process. Keep it short."""
        # In this order everywhere: who holds the backend waits for no thread that waits for the backend.
        with self.mutex, self.backend.held():
            yield

    @property
    def place(self) -> str:
        """Where the store is."""
        return self.backend.place

    def entropy(self, count: int) -> bytes:
        """Draw random bytes from the source that the store was opened with."""
        return self._settings.entropy(count)

    # --- threads ---

    def create_thread(
        self,
        *,
        title: str | None = None,
        cwd: str | None = None,
        labels: dict[str, str] | None = None,
        agent: str | None = None,
        source_id: str | None = None,
        origin: Literal["user", "subagent", "import"] = "user",
        kind: Literal["conversation", "memory", "store"] = "conversation",
        parent: ParentCall | None = None,
        key: tuple[str, str] | None = None,
        source: Source = records.HOST,
        occurred_at: int | None = None,
        extra: str | None = None,
    ) -> Thread:
        """Make a thread; with a creation key (scope, key) the same key answers with the same thread, once made.

        Raises:
            PayloadRejected: an ill-formed title, label or agent.
        """
        if title is not None:
            records.check_name(title, "title")
        body = ThreadCreated(
            title=title,
            cwd=cwd,
            labels=labels or {},
            origin=origin,
            kind=kind,
            agent=agent,
            source_id=source_id,
            parent=parent,
            extra=extra,
        )
        row = ThreadRow(
            thread=creation_id(*key) if key else self._settings.entropy(16).hex(),
            kind=kind,
            helper=origin == "subagent",
            title=title,
            cwd=cwd,
            agent=agent,
            source_id=source_id,
            parent_thread=parent.thread if parent else None,
            parent_call=parent.call if parent else None,
        )
        return self._create(row, body, 0, None, 1, source, occurred_at)

    def _create(
        self,
        row: ThreadRow,
        body: Body,
        position: int,
        previous: bytes | None,
        head: int,
        source: Source,
        occurred_at: int | None,
    ) -> Thread:
        """Store a thread's first own event, after `position` (0 when it shares nothing)."""
        now = self._settings.clock()
        record = records.seal(
            row.thread,
            position + 1,
            previous,
            None,
            head,
            records.encode_content(body, None),
            Draft(body=body, source=source, occurred_at=occurred_at),
            (),
            now,
            records.new_salt(self._settings.entropy),
        )
        try:
            self.backend.create(msgspec.structs.replace(row, created_at=now), [record])
        except ThreadTaken:
            # The creation key was used before: the thread that it made is the answer.
            self.log(row.thread).refresh()
        return self.thread_class(self, row.thread)

    def fork(
        self,
        thread: Thread,
        *,
        node: int | None = None,
        at: int | None = None,
        title: str | None = None,
        source_id: str | None = None,
        key: tuple[str, str] | None = None,
    ) -> Thread:
        """Make a thread that shares another's log up to `at`, active at `node`. See `Thread.fork`."""
        if title is not None:
            records.check_name(title, "title")
        log = self.log(thread.id)
        log.refresh()
        at = log.position if at is None else at
        record = next(log.read(at, at, bodies=False), None)
        if record is None:
            raise errors.NoSuchNode(f"position {at} is not in the thread", hint=f"the tip is {log.position}")
        node = record.head if node is None else node
        if node != record.head:
            log.tree.require(node)
        if node > at:
            raise errors.NoSuchNode(f"node {node} lies behind position {at}")
        body = ThreadForked(
            thread=thread.id, position=at, hash=record.hash.hex(), node=node, title=title, source_id=source_id
        )
        listed = self.row(thread.id)
        row = ThreadRow(
            thread=creation_id(*key) if key else self._settings.entropy(16).hex(),
            origin=thread.id,
            origin_position=at,
            kind=listed.kind,
            helper=listed.helper,
            title=title or listed.title,
            cwd=listed.cwd,
            agent=listed.agent,
            source_id=source_id,
        )
        return self._create(row, body, at, record.hash, node, records.HOST, None)

    def thread(self, text: str) -> Thread:
        """Give the thread of this id, unique id prefix, title or source id; `latest` and `-` name the latest.

        Raises:
            NoSuchThread: none fits.
            AmbiguousAddress: more than one does.
        """
        if text in {"latest", "-"}:
            return self.latest()
        if not is_well_formed(text):
            raise errors.NoSuchThread(f"no thread {text!r:.120} in {self.place}", hint="a name is UTF-8")
        if len(text) == 32 and self.backend.thread(text) is not None:
            return self.thread_class(self, text)
        found = self.backend.find(text) if text else []
        if not found:
            raise errors.NoSuchThread(f"no thread {text!r} in {self.place}", hint="`convlog threads` lists them")
        if len(found) > 1:
            candidates = tuple(f"{row.thread[:12]} {row.title or row.source_id or ''}".strip() for row in found)
            raise errors.AmbiguousAddress(
                f"{text!r} fits {len(found)} threads: {', '.join(candidates)}", candidates=candidates
            )
        return self.thread_class(self, found[0].thread)

    def latest(self) -> Thread:
        """Give the thread whose user spoke last.

        Raises:
            NoSuchThread: no user spoke yet.
        """
        row = self.backend.latest()
        if row is None:
            raise errors.NoSuchThread(
                f"no thread in {self.place} has a user's input", hint="import one: convlog import FILE"
            )
        return self.thread_class(self, row.thread)

    def threads(self) -> Iterator[ThreadRow]:
        """Iterate over all threads, last touched first."""
        before = None
        while page := self.backend.threads(before=before):
            yield from page
            before = page[-1].touched

    def row(self, thread: str) -> ThreadRow:
        """Give what listing knows of a thread.

        Raises:
            NoSuchThread: there is none of this id.
        """
        row = self.backend.thread(thread)
        if row is None:
            raise errors.NoSuchThread(f"no thread {thread} in {self.place}")
        return row

    def log(self, thread: str) -> Log:
        """Give the live state of a thread."""
        with self.mutex:
            log = self._logs.get(thread)
            if log is None:
                row = self.row(thread)
                log = self._logs[thread] = Log(self.backend, row, self._shared(row), self._settings, self.mutex)
                if len(self._logs) > LOGS_MAX:
                    self._logs.popitem(last=False)
            else:
                self._logs.move_to_end(thread)
            return log

    def let_go(self, thread: str) -> None:
        """Forget the live state of a thread; handles on it find it again. For who goes through many threads."""
        with self.mutex:
            self._logs.pop(thread, None)

    def _shared(self, row: ThreadRow) -> tuple[Span, ...]:
        """Give the runs of other threads' rows that a fork shares, in order."""
        spans: list[Span] = []
        last = row.origin_position
        while row.origin is not None:
            origin = self.row(row.origin)
            # A fork may lie inside the part that its origin shares with another: then nothing of the origin's own.
            last = min(last, row.origin_position)
            if last > origin.origin_position:
                spans.append(Span(origin.thread, origin.origin_position + 1, last))
                last = origin.origin_position
            row = origin
        return tuple(reversed(spans))

    # --- erasing whole threads ---

    def deletion_set(self, thread: str, *, cascade: bool = False) -> list[ThreadRow]:
        """Give the threads that go when this one goes: itself and, with `cascade`, all that share its log.

        Raises:
            HasForks: others share it, and `cascade` was not asked for.
            AppendError: it is the store's own thread.
        """
        if thread == STORE_THREAD:
            raise errors.AppendError("the store's own thread says what was deleted, and stays")
        rows = [self.row(thread)]
        for row in rows:
            rows.extend(self.backend.forks(row.thread))
        if len(rows) > 1 and not cascade:
            names = ", ".join(row.thread[:12] for row in rows[1:])
            raise errors.HasForks(f"threads {names} share the log of {thread[:12]}", hint="delete them too: --cascade")
        return rows

    def delete_thread(self, thread: str, *, cascade: bool = False, reason: str | None = None) -> list[str]:
        """Erase a thread: events, its own attachments, caches. A note in the store's own thread stays.

        Returns:
            The ids of the erased threads.

        Raises:
            HasForks: others share its log, and `cascade` was not asked for.
            StoreLocked: it is done, but a reader keeps the -wal alive, and the erased bytes in it.
        """
        with self.mutex:
            while True:
                rows = self.deletion_set(thread, cascade=cascade)
                own = self._own_thread()
                batch = own.place([self._obituary(row.thread, reason) for row in rows])
                try:
                    # Forks first: nothing is left pointing at a log that is gone.
                    self.backend.delete([row.thread for row in reversed(rows)], own.row.thread, batch.records)
                    break
                except PositionTaken:
                    own.learn(batch)
                except errors.HasForks:
                    continue  # forked meanwhile: look again
            own.refresh()
            for row in rows:
                self._logs.pop(row.thread, None)
        self.backend.finish_erasing()
        return [row.thread for row in rows]

    def _obituary(self, thread: str, reason: str | None) -> Draft:
        log = self.log(thread)
        log.refresh()
        return Draft(body=ThreadDeleted(thread=thread, reason=reason, events=log.position, tip=log.hash.hex()))

    def _own_thread(self) -> Log:
        if self.backend.thread(STORE_THREAD) is None:
            row = ThreadRow(thread=STORE_THREAD, kind="store")
            self._create(row, ThreadCreated(kind="store"), 0, None, 1, Source("system"), None)
        log = self.log(STORE_THREAD)
        log.refresh()
        return log

    # --- attachments ---

    def attach(self, data: bytes | Iterable[bytes]) -> str:
        """Store bytes under their hash (hex blake3), chunked, whole or not at all; known bytes are kept once.

        Raises:
            TooLarge: over `ATTACHMENT_BYTES_MAX`.
        """
        import tempfile

        if isinstance(data, bytes):
            name = blake3(data).hexdigest()
            chunks = (data[start : start + CHUNK_BYTES] for start in range(0, max(len(data), 1), CHUNK_BYTES))
            self._check_attachment_size(len(data))
            self.backend.put_attachment(name, chunks, len(data))
            return name
        hasher, size = blake3(), 0
        with tempfile.SpooledTemporaryFile(max_size=16 * CHUNK_BYTES) as spool:
            for part in data:
                hasher.update(part)
                size += len(part)
                self._check_attachment_size(size)
                spool.write(part)
            spool.seek(0)
            name = hasher.hexdigest()
            self.backend.put_attachment(name, iter(lambda: spool.read(CHUNK_BYTES), b""), size)
        return name

    def _check_attachment_size(self, size: int) -> None:
        if size > ATTACHMENT_BYTES_MAX:
            raise errors.TooLarge(f"an attachment of over {ATTACHMENT_BYTES_MAX:,} bytes")

    def attachment(self, name: str) -> bytes:
        """Give an attachment's bytes.

        Raises:
            NoSuchAttachment: there is none of this hash.
            BrokenRecord: the stored bytes do not have this hash.
        """
        data = b"".join(self.attachment_chunks(name))
        if blake3(data).hexdigest() != name:
            raise errors.BrokenRecord(f"attachment {name[:16]} does not hold the bytes of its name")
        return data

    def attachment_chunks(self, name: str) -> Iterator[bytes]:
        """Iterate over an attachment's chunks, unchecked."""
        if self.backend.attachment_size(name) is None:
            raise errors.NoSuchAttachment(f"no attachment {name[:80]!r} in {self.place}")
        return self.backend.attachment(name)


def open_store(
    path: str | os.PathLike[str],
    *,
    mode: Literal["rw", "r"] = "rw",
    create: bool = True,
    durability: Literal["full", "turn", "process"] = "full",
    timeout_s: float = 60.0,
    store_class: type[Store] = Store,
    **settings: Any,
) -> Store:
    """Open the store in a SQLite file, making it where there is none (`:memory:` keeps everything in memory).

    Raises:
        OpeningError: the path is no place for a store, the file is no store, newer, altered or missing.
        StoreLocked: another process held it for over `timeout_s` seconds.
    """
    if os.fspath(path) == ":memory:":
        from .memory import MemoryBackend

        return store_class(MemoryBackend(), **settings)
    from .sqlite import SqliteBackend

    backend = SqliteBackend(
        Path(path), create=create, read_only=mode == "r", durability=durability, timeout_s=timeout_s
    )
    return store_class(backend, **settings)
