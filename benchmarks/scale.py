"""A store of a million events in a hundred thousand threads against an empty one: append, open, list."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from convlog.eventstore.store import Store, open_store

from .harness import Figure, Sizes, compared, file_bytes, in_turn, repeated
from .workload import append, draft, steps

EVENTS_PER_THREAD = 10
TEXT_CHARACTERS = 300
PAGE_MS_MAX = 5.0


def run(sizes: Sizes, folder: Path) -> Iterator[Figure]:
    """Build the large store, then measure both in turn."""
    with TemporaryDirectory(dir=folder) as name:
        large, empty = Path(name) / "large.db", Path(name) / "empty.db"
        _build(large, sizes.store_events)
        open_store(empty).close()
        events = f"{sizes.store_events:,} events"
        yield compared(f"open with {events} : open empty", [_openings(sizes, large, empty)], limit=1.6)
        with open_store(large, durability="process") as store, open_store(empty, durability="process") as other:
            pairs = [_appends(sizes, store, other) for _ in range(sizes.runs)]
            yield compared(f"append with {events} : to an empty store", pairs, limit=1.2, note="NORMAL, one thread")
            pages = repeated(4 * sizes.runs, lambda: store.backend.threads(limit=50))[0]
        page = sorted(pages)[len(pages) // 2] * 1e3
        threads = sizes.store_events // EVENTS_PER_THREAD
        size = f"file of {file_bytes(large) / 1e6:,.0f} MB"
        title = f"first page of a list of {threads:,} threads"
        yield Figure(name=title, value=page, unit="ms", limit=PAGE_MS_MAX, note=size)


def _build(path: Path, events: int) -> None:
    """Store threads of ten short events, written in two rounds, so that their rows lie among each other's."""
    found = [step for step in steps(400) if step.kind in {"input", "prose"}]
    short = [draft(type(step)(step.kind, step.text[:TEXT_CHARACTERS])) for step in found]
    with open_store(path, durability="process") as store:
        ids = []
        for number in range(events // EVENTS_PER_THREAD):
            thread = store.create_thread(title=f"conversation {number}")
            thread.append_many([short[(number + index) % len(short)] for index in range(4)])
            ids.append(thread.id)
        for number, thread_id in enumerate(ids):
            store.thread(thread_id).append_many([short[(number + index) % len(short)] for index in range(5)])


def _openings(sizes: Sizes, large: Path, empty: Path) -> tuple[list[float], list[float]]:
    def opening(path: Path) -> None:
        with open_store(path) as store:
            store.backend.threads(limit=1)

    large_seconds, empty_seconds = repeated(10 * sizes.runs, lambda: opening(large), lambda: opening(empty))
    return large_seconds, empty_seconds


def _appends(sizes: Sizes, large: Store, empty: Store) -> tuple[list[float], list[float]]:
    found = steps(sizes.appends)
    hot, other = large.create_thread(), empty.create_thread()
    large_seconds, empty_seconds = in_turn(
        len(found), lambda index: append(hot, found[index]), lambda index: append(other, found[index])
    )
    return large_seconds, empty_seconds
