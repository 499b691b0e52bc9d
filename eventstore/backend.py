"""What stores records durably: the protocol that every backend fills in, and nothing of its policy.

A backend keeps rows and answers with `PositionTaken` or `KeyTaken` where a unique rule says no; everything else
(placement, hashes, limits, retries) is the store's. Rows of one thread are its own log only: what a fork shares
with its origin is read from the origin.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

Clock = Callable[[], int]
"""Microseconds UTC."""

Entropy = Callable[[int], bytes]
"""That many random bytes."""


class PositionTaken(Exception):
    """Another writer has the (thread, position) already."""


class KeyTaken(Exception):
    """Another event of the thread has the key already."""


class ThreadTaken(Exception):
    """A thread of this id exists."""


class Record(msgspec.Struct, frozen=True):
    """One stored event, as its bytes lie. Fields are the columns of the events table, in order."""

    position: int
    parent: int | None
    head: int
    type: str
    version: int
    recorded_at: int
    occurred_at: int | None
    source: bytes
    key: str | None
    refs: bytes | None
    hash: bytes
    commitment: bytes
    salt: bytes | None
    secret: bytes | None = None
    body: bytes | None = None
    output: bytes | None = None


HeaderColumns = tuple[int, int | None, int, bytes | None, str, int, int, int | None, bytes, str | None, bytes, bytes]
"""What an event's hash is taken of, and the hash: position, parent, head, refs, type, version, recorded_at,
occurred_at, source, key, commitment, hash."""


class ThreadRow(msgspec.Struct, frozen=True, kw_only=True):
    """What listing and look-up need of a thread; derived from its events, kept beside them."""

    thread: str
    origin: str | None = None
    """The thread whose log up to `origin_position` this one shares."""
    origin_position: int = 0
    kind: str = "conversation"
    helper: bool = False
    """A sub-agent's thread: its inputs are not a user speaking."""
    title: str | None = None
    cwd: str | None = None
    agent: str | None = None
    source_id: str | None = None
    parent_thread: str | None = None
    parent_call: int | None = None
    created_at: int = 0
    spoke: int = 0
    """Store-wide cursor of the last input of a user, 0 for none."""
    touched: int = 0
    """Store-wide cursor of the last change that the list shows."""
    turns: int = 0
    preview: str | None = None


class Listing(msgspec.Struct, frozen=True):
    """What an append changes in the thread's row."""

    spoke: bool = False
    turns_ended: int = 0
    """How many turns the records end."""
    title: str | None = None
    preview: str | None = None
    attachments: tuple[str, ...] = ()
    """Names of attachments that the records use."""


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """Events of one log whose body, output and salt go, and what else held their words."""

    positions: tuple[int, ...]
    by: int | None = None
    """Position of the `redacted` event that says so; the first record's when not given."""
    secrets: tuple[tuple[str, int], ...] = ()
    """(thread, position) of manifests whose secret goes."""
    attachments: tuple[str, ...] = ()
    """Those that the thread uses no more; what no other thread uses goes."""
    rows: tuple[ThreadRow, ...] = ()
    """Threads' rows that held the words too: their title, cwd, source id and preview are these from now on."""


class Problem(msgspec.Struct, frozen=True):
    """One finding of a check."""

    kind: str
    message: str
    thread: str | None = None
    position: int | None = None


class Backend(Protocol):
    """Durable rows. Every method is safe to call from several threads."""

    @property
    def place(self) -> str:
        """Where the store is, for messages."""

    def create(self, row: ThreadRow, records: Sequence[Record]) -> None:
        """Store a thread's row with its first records. Raises `ThreadTaken`, `NoSuchThread` for its origin."""

    def append(self, thread: str, records: Sequence[Record], listing: Listing | None) -> None:
        """Store records, all or none, durable on return. Raises `PositionTaken`, `KeyTaken`."""

    def tip(self, thread: str) -> Record | None:
        """Give the last record of the log, without body and output."""

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
        """Iterate over a closed run of positions in order, in short snapshots; columns not asked for are not loaded."""

    def headers(self, thread: str, first: int, last: int) -> Iterator[Sequence[HeaderColumns]]:
        """Iterate over what `read` gives, as pages of plain tuples: for checking many of them."""

    def position_of_key(self, thread: str, key: str) -> int | None:
        """Give the position of the event with this key."""

    def thread(self, thread: str) -> ThreadRow | None:
        """Give a thread's row."""

    def threads(self, *, before: int | None = None, limit: int = 50) -> list[ThreadRow]:
        """Give a page of rows, last touched first, `touched` below `before`."""

    def find(self, text: str) -> list[ThreadRow]:
        """Give the threads whose id starts with, or whose title or source id is, `text` (20 at most)."""

    def forks(self, thread: str) -> list[ThreadRow]:
        """Give the threads that share this one's log."""

    def latest(self) -> ThreadRow | None:
        """Give the thread whose user spoke last."""

    def changes(self, cursor: int, limit: int) -> tuple[list[tuple[str, int]], int]:
        """Give (thread, position) of events after a store-wide cursor, and the cursor to go on with."""

    def redact(self, thread: str, records: Sequence[Record], erasure: Erasure) -> None:
        """Store the records and erase, in one transaction. Raises `PositionTaken`."""

    def finish_erasing(self) -> None:
        """Wait until what was erased is in no file of the store. Raises `StoreLocked` when readers prevent it."""

    def redacted_by(self, thread: str, position: int) -> int | None:
        """Give the position of the `redacted` event that erased this one."""

    def delete(self, threads: Sequence[str], store_thread: str, records: Sequence[Record]) -> None:
        """Erase whole threads, forks before what they share, and store the notes that say so, in one transaction.

        Raises `PositionTaken`, and `HasForks` when a thread that stays shares one that goes.
        """

    def is_deleted(self, thread: str) -> bool:
        """Whether a thread of this id was deleted here."""

    def put_attachment(self, name: str, chunks: Iterator[bytes], size: int) -> None:
        """Store bytes under their hash, whole or not at all; known ones are left as they are."""

    def attachment_size(self, name: str) -> int | None:
        """Give the size in bytes, or None when there is no such attachment."""

    def attachment(self, name: str) -> Iterator[bytes]:
        """Iterate over an attachment's chunks."""

    def attachments(self, thread: str | None = None) -> Iterator[str]:
        """Iterate over the names of all attachments, or of those that a thread uses."""

    def drop_attachments(self, names: Collection[str]) -> None:
        """Erase attachments that outlived their use."""

    def held(self) -> AbstractContextManager[object]:
        """Give a context in which no other handle and no other process writes."""

    def cached(self, name: str) -> bytes | None:
        """Give a derived value kept earlier under this name."""

    def cache(self, name: str, value: bytes, thread: str, *, given: tuple[str, bytes] | None = None) -> bool:
        """Keep a derived value, which may be dropped at any time; say whether it is kept.

        Args:
            name: what to find it by.
            value: the value.
            thread: the thread that it goes with.
            given: the name of another value and that value: kept only while it is there, unchanged.
        """

    def cache_size(self) -> int:
        """Give the bytes of all derived values."""

    def drop_cache(self) -> None:
        """Drop all derived values."""

    def check(self) -> Iterator[Problem]:
        """Let the engine check itself."""

    def maintain(self) -> None:
        """Do work put off from the append path, where it is due."""

    def close(self) -> None:
        """Give everything back. Idempotent."""
