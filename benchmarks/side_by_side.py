"""Other stores beside convlog on one conversation: `python -m benchmarks.side_by_side --peer llm=PATH/TO/python ...`.

Each runs as a process of its own, by the interpreter given for it (an environment in which that package is installed),
and is measured message by message in turn with two raw tables, so that ratios can be compared across processes. One
that was given no interpreter, or cannot be imported, is skipped and says why.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .harness import ROOT
from .peers import PEERS
from .workload import messages, steps

OURS = ("convlog", "convlog-process", "jsonl", "jsonl-fsync")
"""Need no other environment than this one."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all that can be, and print a table."""
    options = _parser().parse_args(arguments)
    pythons = dict.fromkeys(OURS, sys.executable) | dict(peer.split("=", 1) for peer in options.peer)
    unknown = set(pythons) - set(PEERS)
    if unknown:
        print(f"no adapter for {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}", file=sys.stderr)
        return 2
    rows: list[dict[str, Any]] = []
    with TemporaryDirectory(dir=options.folder, prefix="convlog-bench-") as name:
        folder = Path(name)
        file = folder / "messages.jsonl"
        found = messages(steps(2 * options.messages))[: options.messages]
        file.write_text("".join(json.dumps(message) + "\n" for message in found), encoding="utf-8")
        for peer in PEERS:
            reason, row = _measure(peer, pythons.get(peer), file, folder, options.runs)
            if row is None:
                print(f"{peer}: skipped: {reason}", file=sys.stderr, flush=True)
            else:
                rows.append(row)
    print("\n".join(_table(rows)))
    if options.json:
        options.json.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return 0


def _measure(peer: str, python: str | None, file: Path, folder: Path, runs: int) -> tuple[str, dict[str, Any] | None]:
    """Give the reason why a peer was not measured, or its figures."""
    if python is None:
        return f"no interpreter was given for it (--peer {peer}=PYTHON)", None
    command = [python, str(ROOT / "benchmarks" / "peers.py"), peer, str(file), str(folder), str(runs)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)} if peer in OURS else dict(os.environ)
    try:
        ended = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        return str(error), None
    if ended.returncode != 0:
        return (ended.stderr.strip().splitlines() or ["it ended without a word"])[-1], None
    return "", json.loads(ended.stdout.splitlines()[-1])


def _table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield (
        "| store | its durability | messages | append | of raw FULL | of raw NORMAL | load | of SELECT and json"
        " | fork | stored per byte |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        fork = "none" if row["fork_ms"] is None else f"{row['fork_ms']:.2f} ms"
        yield (
            f"| {row['name']} | {row['durability']} | {row['messages']:,} | {row['append_us']:,.0f} us"
            f" | {row['of_full']:.2f} x | {row['of_normal']:.2f} x | {row['load_ms']:.1f} ms | {row['of_load']:.2f} x"
            f" | {fork} | {row['bytes_per_byte']:.2f} |"
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.side_by_side", description=__doc__)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON", help=f"one of {', '.join(PEERS)}")
    parser.add_argument("--messages", type=int, default=1000, help="messages of the conversation")
    parser.add_argument("--runs", type=int, default=5, help="alternating runs for a figure")
    parser.add_argument("--folder", type=Path, help="a folder on the disk to measure")
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write the figures here, as JSON Lines")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
