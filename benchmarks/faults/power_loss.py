"""Power cuts, played from a trace of a writer's system calls.

A writer runs under strace, which notes each write, cut and sync of the store's files with its data, and what was
acknowledged when. Then the machine loses its power at random points of that trace: what was synced stays; of what was
not, any part may have reached the disk, in any order. The files that are left are opened and verified.

    python -m benchmarks.faults.power_loss --points 300 --durability full

Exit code 1 when a batch is torn, a file is damaged, or an acknowledged event is gone that the durability promised to
keep (`turn` promises whole turns, `process` none). Names of files count as durable at once: losing a folder's entry is
not played.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from convlog.eventstore import sqlite
from convlog.eventstore.errors import ConvlogError
from convlog.eventstore.events import SegmentAdded
from convlog.eventstore.records import Draft
from convlog.eventstore.store import open_store
from convlog.eventstore.verify import is_fault, verify_store

BATCH = 3
ROUNDS = 60
KEY = ("power loss", "thread")
CALLS = "trace=pwrite64,write,ftruncate,fsync,fdatasync,unlink"
PIECE_BYTES = 512
"""The least that a disk writes whole."""

_CALL = re.compile(r"\d+ +(\w+)\((?:(\d+)(?:<([^>]*)>)?)?(?:, )?(.*)\) += (-?\d+)")
_UNLINK = re.compile(r'\d+ +unlink\("((?:\\x..)+)"\) += 0')
_PWRITE = re.compile(r'"((?:\\x..)*)", \d+, (\d+)')
_WRITE = re.compile(r'"((?:\\x..)*)"')


class Step(msgspec.Struct, frozen=True):
    """One thing that happened: `write`, `cut`, `sync` or `unlink` of a file, or `told`: an acknowledgement."""

    kind: str
    path: str = ""
    at: int = 0
    data: bytes = b""


# --- the writer ---


def write(path: str, durability: Any) -> None:
    """Append batches, single events and turn ends; say what was acknowledged, unbuffered."""
    sqlite.WAL_BYTES_SOFT, sqlite.WAL_BYTES_HARD = 50_000, 100_000  # checkpoints, too, are to be cut through
    chance = random.Random(7)
    store = open_store(path, durability=durability)
    thread = store.create_thread(key=KEY)
    for number in range(ROUNDS):
        texts = [f"{number}.{i} " + "x" * chance.randrange(10, 9000) for i in range(chance.choice((1, BATCH)))]
        drafts = [Draft(body=SegmentAdded(text=text), key=text.split()[0]) for text in texts]
        last = thread.append_many(drafts)[-1]
        if number % 5 == 4:
            last = thread.end_turn()
        elif durability == "turn":
            continue  # only whole turns are promised
        os.write(1, f"told {last.position} {last.hash.hex()}\n".encode())


def trace(folder: Path, durability: str) -> list[Step]:
    """Run the writer under strace; give what happened, in order."""
    path, log = folder / "store.db", folder / "trace"
    command = ["strace", "-f", "-y", "-xx", "-s", "1000000", "-o", str(log), "-e", CALLS]
    command += [sys.executable, "-m", "benchmarks.faults.power_loss", "--write", str(path), "--durability", durability]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with log.open(encoding="ascii") as lines:
        return [
            step for step in map(_step, lines) if step is not None and (step.kind == "told" or _is_ours(step, path))
        ]


def _is_ours(step: Step, path: Path) -> bool:
    return step.path in {str(path), f"{path}-wal"}


def _step(line: str) -> Step | None:
    if gone := _UNLINK.match(line):
        return Step("unlink", _bytes(gone[1]).decode())
    found = _CALL.match(line)
    if found is None or int(found[5]) < 0:
        return None
    call, descriptor, name, rest, result = found.groups()
    path = _bytes(name).decode() if name and name.startswith("\\x") else name or ""
    match call:
        case "write" if descriptor == "1" and (said := _WRITE.match(rest)):
            data = _bytes(said[1])
            return Step("told", data=data) if data.startswith(b"told ") else None
        case "pwrite64" if written := _PWRITE.match(rest):
            return Step("write", path, int(written[2]), _bytes(written[1])[: int(result)])
        case "ftruncate":
            return Step("cut", path, int(rest))
        case "fsync" | "fdatasync":
            return Step("sync", path)
    return None


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


# --- the cut ---


def cut_power(steps: Sequence[Step], chance: random.Random) -> tuple[dict[str, bytearray], bytes]:
    """Give the files as a disk may hold them after these steps, and what was acknowledged last."""
    files: dict[str, bytearray] = {}
    waiting: dict[str, list[Step]] = {}
    told = b""
    for step in steps:
        if step.kind == "told":
            told = step.data
        elif step.kind == "unlink":
            files.pop(step.path, None)
            waiting.pop(step.path, None)
        elif step.kind == "sync":
            for done in waiting.pop(step.path, []):
                _apply(files.setdefault(step.path, bytearray()), done)
        else:
            waiting.setdefault(step.path, []).append(step)
    for path, left in waiting.items():
        for step in _reached(left, chance):
            _apply(files.setdefault(path, bytearray()), step)
    return files, told


def _reached(steps: Sequence[Step], chance: random.Random) -> Iterator[Step]:
    """Give what of some unsynced steps came to the disk before the end."""
    way = chance.choice(("nothing", "everything", "the first", "some", "pieces"))
    end = chance.randrange(len(steps) + 1)
    for index, step in enumerate(steps):
        if way == "everything" or (way == "the first" and index < end) or (way == "some" and chance.random() < 0.5):
            yield step
        elif way == "pieces" and step.kind == "write":
            for start in range(0, len(step.data), PIECE_BYTES):
                if chance.random() < 0.5:
                    yield Step("write", step.path, step.at + start, step.data[start : start + PIECE_BYTES])


def _apply(file: bytearray, step: Step) -> None:
    size = step.at if step.kind == "cut" else max(len(file), step.at + len(step.data))
    del file[size:]
    file.extend(bytes(size - len(file)))
    if step.kind == "write":
        file[step.at : step.at + len(step.data)] = step.data


# --- what is left ---


def judge(files: dict[str, bytearray], told: bytes) -> str:
    """Open what is left; give `whole`, `lost`, `torn` or `damaged`."""
    with TemporaryDirectory(prefix="convlog-power-") as folder:
        for path, data in files.items():
            Path(folder, Path(path).name).write_bytes(data)
        try:
            with open_store(Path(folder, "store.db")) as store:
                if any(map(is_fault, verify_store(store))):
                    return "damaged"
                thread = store.create_thread(key=KEY)
                _, position, hash_ = told.split()
                stored = thread.position >= int(position) and thread.event(int(position)).hash.hex() == hash_.decode()
                counts = Counter((event.key or "").partition(".")[0] for event in thread.events())
                if {counts[number] for number in counts if number} - {1, BATCH}:
                    return "torn"
                return "whole" if stored else "lost"
        except ConvlogError:
            return "damaged"


def main() -> int:
    """Play power cuts; 1 when what was promised was not kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults.power_loss")
    parser.add_argument("--points", type=int, default=300, help="power cuts to play")
    parser.add_argument("--durability", choices=["full", "turn", "process"], default="full")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--write", metavar="PATH", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write(options.write, options.durability)
        return 0
    with TemporaryDirectory(prefix="convlog-power-") as folder:
        steps = trace(Path(folder), options.durability)
    chance = random.Random(options.seed)
    first = next(index for index, step in enumerate(steps) if step.kind == "told") + 1
    points = [chance.randrange(first, len(steps) + 1) for _ in range(options.points)]
    found = Counter(judge(*cut_power(steps[:point], chance)) for point in points)
    syncs = sum(step.kind == "sync" for step in steps)
    print(f"{options.points} power cuts, {options.durability}, {len(steps)} steps, {syncs} syncs: {dict(found)}")
    allowed = {"whole", "lost"} if options.durability == "process" else {"whole"}
    return int(bool(set(found) - allowed))


if __name__ == "__main__":
    sys.exit(main())
