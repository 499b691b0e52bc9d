"""Runs the benchmarks and prints a table of figures, each with its target and whether it was met."""

from __future__ import annotations

import argparse
import platform
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from . import append, breakdown, deriving, encoding, fork, growth, importing, proof, read, scale, size, startup
from .harness import SMOKE, Figure, Group, Sizes, table

GROUPS: dict[str, Group] = {
    "append": append.run,
    "breakdown": breakdown.run,
    "fork": fork.run,
    "growth": growth.run,
    "read": read.run,
    "deriving": deriving.run,
    "encoding": encoding.run,
    "proof": proof.run,
    "size": size.run,
    "scale": scale.run,
    "importing": importing.run,
    "startup": startup.run,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; 1 when a limit was missed."""
    options = _parser().parse_args(arguments)
    sizes = SMOKE if options.smoke else Sizes(runs=options.runs, store_events=options.events)
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.machine()}\n")
    figures: list[tuple[str, Figure]] = []
    with TemporaryDirectory(dir=options.folder, prefix="convlog-bench-") as folder:
        for name in options.groups or GROUPS:
            for figure in GROUPS[name](sizes, Path(folder)):
                figures.append((name, figure))
                print(f"{name}: {figure.name}: {figure.value:,.2f} {figure.unit}", file=sys.stderr, flush=True)
    print("\n".join(table(figures, judged=sizes.judged)))
    if options.json:
        rows = [
            {"group": name, "verdict": figure.verdict, **msgspec.structs.asdict(figure)} for name, figure in figures
        ]
        options.json.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    return int(sizes.judged and any(figure.verdict == "missed" for _, figure in figures))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("groups", nargs="*", choices=[[], *GROUPS], help="the groups to run (default: all)")
    parser.add_argument("--smoke", action="store_true", help="run everything tiny, and judge nothing")
    parser.add_argument("--runs", type=int, default=5, help="alternating runs for a figure")
    parser.add_argument("--events", type=int, default=1_000_000, help="events of the large store")
    parser.add_argument(
        "--folder", type=Path, help="a folder on the disk to measure (default: the system's for temporary files)"
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write the figures here, as JSON Lines")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
