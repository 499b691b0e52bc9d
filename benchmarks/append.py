"""Appending: one event, one with a key, and a hundred in one transaction, beside a raw INSERT of the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from .floor import RawTable, new_thread, stored_bodies
from .harness import Figure, Sizes, compared, in_turn, timed
from .workload import append, draft, steps

BATCH = 100
LIMITS = {
    # durability: one event, with a key, per event of a batch
    "FULL": (1.2, 1.25, 0.15),
    "NORMAL": (2.0, 2.3, 0.65),
}

Pair = tuple[list[float], list[float]]


def run(sizes: Sizes, folder: Path) -> Iterator[Figure]:
    """Measure all of it, for both durabilities."""
    for durability, (plain, keyed, batch) in LIMITS.items():
        singles = [_singles(sizes, folder, durability, keyed=False) for _ in range(sizes.runs)]
        yield compared(f"append {durability}", singles, limit=plain)
        singles = [_singles(sizes, folder, durability, keyed=True) for _ in range(sizes.runs)]
        yield compared(f"append {durability} with key", singles, limit=keyed)
        batches = [_batches(sizes, folder, durability) for _ in range(sizes.runs)]
        yield compared(f"append {durability}, {BATCH} at once, per event", batches, limit=batch, scale=BATCH)


def _singles(sizes: Sizes, folder: Path, durability: str, *, keyed: bool) -> Pair:
    found = steps(sizes.appends)
    with TemporaryDirectory(dir=folder) as name:
        place = Path(name)
        bodies = stored_bodies(found, place)
        store, thread = new_thread(place / "store.db", durability)
        raw = RawTable(place / "raw.db", durability)

        def ours(index: int) -> None:
            append(thread, found[index], **({"key": f"step:{index}"} if keyed else {}))

        seconds = in_turn(len(found), ours, lambda index: raw.insert(bodies[index]))
        store.close()
        raw.close()
    return seconds[0], seconds[1]


def _batches(sizes: Sizes, folder: Path, durability: str) -> Pair:
    found = steps(max(BATCH, sizes.appends))
    ours: list[float] = []
    floor: list[float] = []
    with TemporaryDirectory(dir=folder) as name:
        place = Path(name)
        bodies = stored_bodies(found, place)
        store, thread = new_thread(place / "store.db", durability)
        raw = RawTable(place / "raw.db", durability)
        for start in range(0, len(found) - BATCH + 1, BATCH):
            batch = [draft(step) for step in found[start : start + BATCH]]
            ours.append(timed(thread.append_many, batch))
            floor.extend(timed(raw.insert, body) for body in bodies[start : start + BATCH])
        store.close()
        raw.close()
    return ours, floor
