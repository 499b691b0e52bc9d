"""Growth: what an append costs in a long thread, against the same append in a short one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from .floor import new_thread
from .harness import Figure, Sizes, compared, in_turn
from .workload import append, fill, steps


def run(sizes: Sizes, folder: Path) -> Iterator[Figure]:
    """Measure single appends at both lengths in turn."""
    found = steps(sizes.appends)
    with TemporaryDirectory(dir=folder) as name:
        place = Path(name)
        short_store, short = new_thread(place / "short.db", "NORMAL")
        long_store, long = new_thread(place / "long.db", "NORMAL")
        fill(short, sizes.turns_short)
        fill(long, sizes.turns_long)
        long.tree_with_calls  # noqa: B018 - the tree is made at the first question; this asks it
        pairs = []
        for _ in range(sizes.runs):
            seconds = in_turn(
                len(found),
                lambda index: append(long, found[index]),
                lambda index: append(short, found[index]),
            )
            pairs.append((seconds[0], seconds[1]))
        events = long.position
        short_store.close()
        long_store.close()
    title = f"append at {sizes.turns_long:,} turns : at {sizes.turns_short:,}"
    yield compared(title, pairs, limit=1.2, note=f"{events:,} events, NORMAL")
