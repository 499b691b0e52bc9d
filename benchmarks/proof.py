"""Proof: verifying a store's chains and contents, against scanning (and hashing) the same columns."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from blake3 import blake3

from convlog.eventstore.store import Store, open_store
from convlog.eventstore.verify import Level, is_fault, verify_store, verify_thread

from .harness import Figure, Sizes, file_bytes, repeated, timed
from .workload import fill

THREADS = 4
HEADER = (
    "SELECT e.thread, position, parent, head, type, version, recorded_at, occurred_at, CAST(s.json AS BLOB), key,"
    " CAST(refs AS BLOB), hash, commitment{} FROM events e CROSS JOIN sources s ON s.id = e.source"
    " ORDER BY e.thread, position"
)
CHAIN_SQL = HEADER.format("")
FULL_SQL = HEADER.format(", salt, CAST(body AS BLOB), CAST(output AS BLOB)")


def run(sizes: Sizes, folder: Path) -> Iterator[Figure]:
    """Measure verify at two levels, then by two processes."""
    with TemporaryDirectory(dir=folder) as name:
        path = Path(name) / "store.db"
        with open_store(path, durability="process") as store:
            for seed in range(THREADS):
                fill(store.create_thread(title=f"thread {seed}"), max(1, sizes.turns_read // THREADS), seed)
        with open_store(path) as store:
            yield _level(sizes, store, "chain", _scan, 0.5, "scan of the headers")
            yield _level(sizes, store, "full", _scan_and_hash, 0.3, "scan and blake3 of the contents")
            yield _by_two(store, path)


def _level(sizes: Sizes, store: Store, level: Level, floor: Callable[[Path], None], limit: float, what: str) -> Figure:
    path = Path(store.place)
    ours, least = repeated(sizes.runs, lambda: _verify(store, level), lambda: floor(path))
    note = f"{median(ours) * 1e3:,.1f} ms : {median(least) * 1e3:,.1f} ms; {file_bytes(path) / 1e6:,.0f} MB"
    speed = median(least) / median(ours)
    return Figure(name=f"verify {level}, speed of a {what}", value=speed, limit=limit, at_least=True, note=note)


def _verify(store: Store, level: Level) -> None:
    faults = [problem for problem in verify_store(store, level) if is_fault(problem)]
    assert not faults, faults[0]


def _scan(path: Path) -> None:
    connection = sqlite3.connect(path)
    for _ in connection.execute(CHAIN_SQL):
        pass
    connection.close()


def _scan_and_hash(path: Path) -> None:
    connection = sqlite3.connect(path)
    for *_, salt, body, output in connection.execute(FULL_SQL):
        blake3(salt + body + (output or b"")).digest()
    connection.close()


def _by_two(store: Store, path: Path) -> Figure:
    """Verify the threads one by one, and dealt out to two processes: both without the checks of the whole store."""
    ids = [row.thread for row in store.threads()]
    alone = timed(_verify_threads, path, ids)
    with get_context("spawn").Pool(2) as pool:
        pool.starmap(_verify_threads, [(path, []), (path, [])])
        shared = timed(pool.starmap, _verify_threads, [(path, ids[::2]), (path, ids[1::2])])
    note = f"{alone * 1e3:,.0f} ms : {shared * 1e3:,.0f} ms; threads dealt out by hand"
    return Figure(name="verify full by two processes, speed of one", value=alone / shared, note=note)


def _verify_threads(path: Path, ids: list[str]) -> None:
    with open_store(path, mode="r") as store:
        for thread in ids:
            assert not [problem for problem in verify_thread(store, thread) if is_fault(problem)]
