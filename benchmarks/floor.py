"""The floor: one table with a thread, a position and a body, on the same SQLite and settings, and nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from convlog.eventstore.store import Store, open_store
from convlog.eventstore.thread import Thread

from .workload import Step, draft

INSERT = "INSERT INTO bodies (thread, position, body) VALUES (1, ?, ?)"
PRAGMAS = ("journal_mode=WAL", "cache_size=-16000", "secure_delete=ON", "wal_autocheckpoint=0")


class RawTable:
    """Bodies by thread and position. `synchronous` is FULL or NORMAL."""

    def __init__(self, path: Path, synchronous: str) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        for pragma in (*PRAGMAS, f"synchronous={synchronous}"):
            self.connection.execute(f"PRAGMA {pragma}")
        self.connection.execute(
            "CREATE TABLE IF NOT EXISTS bodies (id INTEGER PRIMARY KEY, thread INTEGER NOT NULL,"
            " position INTEGER NOT NULL, body BLOB NOT NULL, UNIQUE (thread, position))"
        )
        self._position = 0

    def insert(self, body: bytes) -> None:
        """Insert one body, in a transaction of its own."""
        self._position += 1
        self.connection.execute(INSERT, (self._position, body))

    def insert_all(self, bodies: Iterable[bytes]) -> None:
        """Insert bodies in one transaction."""
        self.connection.execute("BEGIN IMMEDIATE")
        for body in bodies:
            self.insert(body)
        self.connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self.connection.close()


def stored_bodies(found: Sequence[Step], folder: Path) -> list[bytes]:
    """Give the bytes of body and output that a store keeps for each step."""
    with open_store(folder / "bodies.db", durability="process") as store:
        thread = store.create_thread()
        first = thread.position + 1
        thread.append_many([draft(step) for step in found])
        records = list(store.backend.read(thread.id, first, thread.position))
    (folder / "bodies.db").unlink()
    return [(record.body or b"") + (record.output or b"") for record in records]


def new_thread(path: Path, durability: str) -> tuple[Store, Thread]:
    """Open a new store and make a thread in it."""
    store = open_store(path, durability="full" if durability == "FULL" else "process")
    return store, store.create_thread(title="measured")
