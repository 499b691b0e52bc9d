"""Where the time of one append goes: what the backend takes, what placing and sealing take, and what is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from convlog.eventstore import records
from convlog.eventstore.store import Store
from convlog.eventstore.thread import Thread

from .floor import RawTable, new_thread
from .harness import Figure, Sizes, timed
from .workload import append, draft, steps

STAGES = {
    "raw INSERT of the body": "the floor",
    "backend: lock, look at the -wal, INSERT of the row": "17 columns, two indexes",
    "place: decide, encode and check, commit, hash": "nothing is written",
    "of which encode and check": "",
    "whole append": "through the handle",
}


def run(sizes: Sizes, folder: Path) -> Iterator[Figure]:
    """Time the stages of each append in turn, with NORMAL, where they are not hidden behind a sync."""
    seconds: dict[str, list[float]] = {stage: [] for stage in STAGES}
    with TemporaryDirectory(dir=folder) as name:
        place = Path(name)
        store, thread = new_thread(place / "store.db", "NORMAL")
        other, _ = new_thread(place / "other.db", "NORMAL")
        raw = RawTable(place / "raw.db", "NORMAL")
        other.backend.create(store.row(thread.id), list(store.backend.read(thread.id, 1, 1)))
        for _ in range(sizes.runs):
            _steps(sizes, thread, other, raw, seconds)
        for each in (store, other, raw):
            each.close()
    for stage, note in STAGES.items():
        yield Figure(name=stage, value=median(seconds[stage]) * 1e6, unit="us", note=note)


def _steps(sizes: Sizes, thread: Thread, other: Store, raw: RawTable, seconds: dict[str, list[float]]) -> None:
    """Append steps; only those that change nothing in the list of threads are measured."""
    backend, log = thread.store.backend, thread.store.log(thread.id)
    floor, rows, placing, encoding, whole = seconds.values()
    for step in steps(sizes.appends):
        if step.kind not in {"input", "end"}:
            made = draft(step)
            placing.append(timed(log.place, [made]))
            encoding.append(timed(records.encode_content, made.body, made.output))
            whole.append(timed(append, thread, step))
        else:
            append(thread, step)
            made = None
        record = next(backend.read(thread.id, thread.position, thread.position))
        taken = timed(other.backend.append, thread.id, [record], None)
        written = timed(raw.insert, (record.body or b"") + (record.output or b""))
        if made is not None:
            rows.append(taken)
            floor.append(written)
