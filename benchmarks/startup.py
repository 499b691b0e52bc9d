"""Starting: the command's help, the library with a store opened, and the replay of a thread, each as a process."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import msgspec

from convlog.eventstore.importers import import_file
from convlog.eventstore.store import open_store

from .harness import Figure, Sizes, process_seconds
from .importing import session

COMMAND = "import sys; sys.argv[0] = 'convlog'; from convlog.cli import main; main()"
"""What the installed command does."""
HELP = "import sys; sys.argv[:] = ['convlog', '--help']; from convlog.cli import main; main()"
OPEN = "import sys, convlog; convlog.open(sys.argv[1]).close()"
REPLAY_NODES = 200
REPLAY_MS_MAX = 300.0


def run(sizes: Sizes, folder: Path) -> Iterator[Figure]:
    """Measure processes in turn, each beside the imports that it cannot do without."""
    yield _against("convlog --help : import click", sizes, HELP, "import click", limit=1.15)
    with TemporaryDirectory(dir=folder) as name:
        path = Path(name) / "store.db"
        _fill(path)
        floor = "import msgspec, blake3, sqlite3"
        yield _against("import convlog and open : its packages", sizes, OPEN, floor, str(path), limit=1.2)
        yield _replay(sizes, path)


def _against(name: str, sizes: Sizes, code: str, floor: str, *arguments: str, limit: float) -> Figure:
    ours: list[float] = []
    least: list[float] = []
    process_seconds(code, *arguments)
    process_seconds(floor)
    for _ in range(sizes.processes):
        ours.append(process_seconds(code, *arguments))
        least.append(process_seconds(floor))
    note = f"{median(ours) * 1e3:.1f} ms : {median(least) * 1e3:.1f} ms"
    return Figure(name=name, value=median(ours) / median(least), limit=limit, note=note)


def _fill(path: Path) -> None:
    """Import a session of about that many nodes: at each response, a replay derives the prompt again."""
    lines = islice(session(REPLAY_NODES), REPLAY_NODES)
    with open_store(path) as store:
        import_file(store, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def _replay(sizes: Sizes, path: Path) -> Figure:
    arguments = ("--db", str(path), "replay", "latest")
    seconds = [process_seconds(COMMAND, *arguments) for _ in range(sizes.processes + 1)][1:]
    return Figure(
        name=f"convlog replay latest, {REPLAY_NODES} nodes",
        value=median(seconds) * 1e3,
        unit="ms",
        limit=REPLAY_MS_MAX,
        note=f"runs {min(seconds) * 1e3:.0f}-{max(seconds) * 1e3:.0f} ms",
    )
