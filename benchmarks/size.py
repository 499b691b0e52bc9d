"""Size: a store's file beside the native export of its threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from convlog.eventstore.native import export_thread
from convlog.eventstore.store import open_store

from .harness import Figure, Sizes, file_bytes
from .workload import fill


def run(sizes: Sizes, folder: Path) -> Iterator[Figure]:
    """Compare both after everything was checkpointed."""
    with TemporaryDirectory(dir=folder) as name:
        path, export = Path(name) / "store.db", Path(name) / "export.jsonl"
        with open_store(path, durability="process") as store:
            fill(store.create_thread(), sizes.turns_read)
        stored = file_bytes(path)
        with open_store(path, mode="r") as store, export.open("wb") as file:
            for row in store.threads():
                file.writelines(export_thread(store, row.thread))
        exported = export.stat().st_size
    note = f"{stored / 1e6:,.2f} MB : {exported / 1e6:,.2f} MB; {sizes.turns_read:,} turns"
    yield Figure(name="file : its native export", value=stored / exported, limit=1.1, note=note)
