"""Reading: a whole thread typed, without outputs, through nested forks, and how much memory a long one takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from convlog.eventstore.events import BODIES
from convlog.eventstore.store import Store, open_store
from convlog.eventstore.thread import Thread

from .floor import new_thread
from .harness import Figure, Sizes, compared, peak_mb, repeated
from .workload import draft, fill, steps, turns

FORKS = 10
RSS_MB_MAX = 60.0

READ_CODE = """
import sys
from convlog.eventstore.store import open_store
with open_store(sys.argv[1], mode="r") as store:
    for event in store.thread(sys.argv[2]).events():
        pass
"""


def run(sizes: Sizes, folder: Path) -> Iterator[Figure]:
    """Measure reads beside a SELECT of the same rows and a typed decode of their bodies."""
    with TemporaryDirectory(dir=folder) as name:
        yield from _whole(sizes, Path(name) / "whole.db")
        yield from _branches(sizes, Path(name) / "branches.db")
        yield from _threads(sizes, Path(name) / "threads.db")
        yield _memory(sizes, Path(name) / "long.db")


def _whole(sizes: Sizes, path: Path) -> Iterator[Figure]:
    store, thread = new_thread(path, "NORMAL")
    fill(thread, sizes.turns_read)
    floor = Floor(store, thread)
    whole, without, least = repeated(
        2 * sizes.runs,
        lambda: _drain(thread.events()),
        lambda: _drain(thread.events(outputs=False)),
        floor.read,
    )
    store.close()
    note = f"{sizes.turns_read:,} turns, {thread_events(floor)} events"
    yield compared("whole thread, typed : SELECT and decode", [(whole, least)], limit=1.5, note=note)
    yield compared("the same without outputs", [(without, least)], limit=0.6, note=note)


class Floor:
    """A SELECT of the columns that an event holds and a typed decode of each body, on a connection of its own."""

    def __init__(self, store: Store, thread: Thread) -> None:
        import sqlite3

        self.connection = sqlite3.connect(store.place)
        self._thread = thread.id
        self._decoders = {name: msgspec.json.Decoder(body).decode for name, body in BODIES.items()}
        self.rows = 0

    def read(self) -> None:
        """Read everything once."""
        sql = (
            "SELECT position, parent, head, type, version, recorded_at, occurred_at, source, key, refs, hash,"
            " CAST(body AS BLOB), CAST(output AS BLOB) FROM events"
            " WHERE thread = (SELECT id FROM threads WHERE thread = ?) ORDER BY position"
        )
        self.rows = 0
        for row in self.connection.execute(sql, (self._thread,)):
            self._decoders[row[3]](row[11])
            self.rows += 1


def thread_events(floor: Floor) -> str:
    """Give the count of rows that the floor read, and close it."""
    floor.connection.close()
    return f"{floor.rows:,}"


def _drain(events: Iterator[object]) -> None:
    for _ in events:
        pass


def _branches(sizes: Sizes, path: Path) -> Iterator[Figure]:
    """Compare a path through nested branches of one thread with an unforked one of the same nodes."""
    store, plain = new_thread(path, "NORMAL")
    forked = store.create_thread()
    for index, each in enumerate(turns(max(sizes.turns_read // 4, FORKS + 1))):
        batch = [draft(step) for step in each]
        plain.append_many(batch)
        forked.append_many(batch)
        if 0 < index <= FORKS:
            node = forked.head
            forked.append_many([draft(step) for step in steps(20, seed=index) if step.kind in {"input", "prose"}])
            forked.select(node)
    ours, least = repeated(2 * sizes.runs, lambda: _drain(forked.path()), lambda: _drain(plain.path()))
    store.close()
    yield compared(f"path through {FORKS} nested branches : unforked", [(ours, least)], limit=1.2)


def _threads(sizes: Sizes, path: Path) -> Iterator[Figure]:
    """Compare a thread that is a fork of a fork, ten deep, with an unforked one of the same nodes."""
    store, plain = new_thread(path, "NORMAL")
    forked = store.create_thread()
    count = max(sizes.turns_read // 4, FORKS + 1)
    for index, each in enumerate(turns(count)):
        batch = [draft(step) for step in each]
        plain.append_many(batch)
        forked.append_many(batch)
        if 0 < index <= FORKS:
            forked = forked.fork()
    ours, least = repeated(2 * sizes.runs, lambda: _drain(forked.path()), lambda: _drain(plain.path()))
    store.close()
    yield compared(f"path through {FORKS} nested thread forks : unforked", [(ours, least)], limit=1.2)


def _memory(sizes: Sizes, path: Path) -> Figure:
    with open_store(path, durability="process") as store:
        thread = store.create_thread()
        fill(thread, sizes.turns_long)
        thread_id = thread.id
    bare, reading = peak_mb(""), peak_mb(READ_CODE, str(path), thread_id)
    return Figure(
        name=f"memory over the interpreter's to read {sizes.turns_long:,} turns",
        value=reading - bare,
        unit="MB",
        limit=RSS_MB_MAX,
        note=f"{reading:,.0f} MB : {bare:,.0f} MB; imports included",
    )
