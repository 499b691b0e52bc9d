"""Forking: below an earlier node of a short and a long thread, and into a new thread."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from convlog.eventstore.thread import Thread

from .floor import RawTable, new_thread
from .harness import Figure, Sizes, compared, in_turn
from .workload import draft, steps

TEXT = "Two files changed, and the test passes now; the second one only needed another import."


def run(sizes: Sizes, folder: Path) -> Iterator[Figure]:
    """Measure forks beside a raw INSERT of a body of the same size, all with FULL."""
    runs = [_run(sizes, folder) for _ in range(sizes.runs)]
    short, long, floor, new, floor_of_new = ([run[index] for run in runs] for index in range(5))
    yield compared("fork within a thread of 10 nodes, FULL", list(zip(short, floor, strict=True)), limit=1.3)
    title = f"fork within a thread of {sizes.nodes_long:,} nodes, FULL"
    yield compared(title, list(zip(long, floor, strict=True)), limit=1.3)
    title = f"fork at {sizes.nodes_long:,} nodes : fork at 10"
    yield compared(title, list(zip(long, short, strict=True)), limit=1.2)
    title = f"fork of {sizes.nodes_long:,} nodes into a new thread, FULL"
    yield compared(title, list(zip(new, floor_of_new, strict=True)), limit=2.0)


def _run(sizes: Sizes, folder: Path) -> list[list[float]]:
    with TemporaryDirectory(dir=folder) as name:
        place = Path(name)
        store, short = new_thread(place / "store.db", "FULL")
        _grow(short, 9)
        long = store.create_thread(title="long")
        _grow(long, sizes.nodes_long - 1)
        raw = RawTable(place / "raw.db", "FULL")
        body = b'{"kind":"text","text":"%s"}' % TEXT.encode()
        count = sizes.appends // 4
        within = in_turn(count, _forking(short, 10), _forking(long, sizes.nodes_long), lambda _: raw.insert(body))
        new = in_turn(count, lambda _: long.fork(), lambda _: raw.insert(body))
        raw.close()
        store.close()
    return [*within, *new]


def _grow(thread: Thread, nodes: int) -> None:
    found = [step for step in steps(2 * nodes + 20) if step.kind in {"input", "prose"}]
    found = (found * (nodes // max(1, len(found)) + 1))[:nodes]
    for start in range(0, nodes, 1000):
        thread.append_many([draft(step) for step in found[start : start + 1000]])


def _forking(thread: Thread, nodes: int) -> Callable[[int], None]:
    dice = random.Random(nodes)

    def fork(_: int) -> None:
        thread.text(TEXT, parent=dice.randrange(1, nodes))

    return fork
