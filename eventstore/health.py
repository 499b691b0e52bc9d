"""How a store is: its file, the SQLite library, who has it open, what its writers leave out."""

from __future__ import annotations

import os
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from .events import BODIES
from .log import END
from .records import decode_source
from .schema import APPLICATION_ID
from .store import Store

LOSSY_FIRST, LOSSY_LAST = (3, 7, 0), (3, 51, 2)
"""SQLite versions that can lose data when several processes append and checkpoint without one lock around both."""

WAL_BYTES_LARGE = 64 * 1024 * 1024

_STARTTIME = 19
"""Index of a process's start, in clock ticks, behind its name in /proc/PID/stat."""


class FileHealth(msgspec.Struct, frozen=True, kw_only=True):
    """What the files say without being opened as a database."""

    size: int
    wal_size: int
    schema: int | None
    """The schema version in the file's header; None where the header is not ours or not written yet."""
    lock_present: bool


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Another process that has the store open."""

    pid: int
    age_s: float
    locks: bool
    """It holds the lock now."""
    other_lock: bool
    """Its lock file is not the one beside the store: it does not keep other writers out, nor they it."""


class Writers(msgspec.Struct, frozen=True, kw_only=True):
    """What the events say about who wrote them."""

    threads: int
    events: int
    keyless: dict[str, tuple[int, int]]
    """Source (kind and name) to (events without a key, events)."""
    unknown: dict[str, int]
    """Event types, with version, that this program does not know, and how many."""


def is_lossy(version: tuple[int, ...]) -> bool:
    """Whether a SQLite version is in the affected range."""
    return LOSSY_FIRST <= version <= LOSSY_LAST


def library() -> tuple[str, bool]:
    """Give the version of the SQLite library in use, and whether it is in the affected range."""
    return sqlite3.sqlite_version, is_lossy(sqlite3.sqlite_version_info)


def file_health(path: Path) -> FileHealth:
    """Look at a store's files.

    Raises:
        OSError: the file cannot be read.
    """
    wal, lock = Path(f"{path}-wal"), Path(f"{path}-lock")
    with path.open("rb") as stream:
        header = stream.read(100)
    ours = len(header) == 100 and int.from_bytes(header[68:72], "big") == APPLICATION_ID
    return FileHealth(
        size=path.stat().st_size,
        wal_size=wal.stat().st_size if wal.exists() else 0,
        schema=int.from_bytes(header[60:64], "big") if ours else None,
        lock_present=lock.exists(),
    )


def writers(store: Store) -> Writers:
    """Read all headers of a store: linear in its events."""
    threads, total = 0, 0
    events: Counter[bytes] = Counter()
    keyless: Counter[bytes] = Counter()
    unknown: Counter[str] = Counter()
    for row in store.threads():
        threads += 1
        for record in store.backend.read(row.thread, row.origin_position + 1, END, bodies=False):
            total += 1
            events[record.source] += 1
            keyless[record.source] += record.key is None
            body = BODIES.get(record.type)
            if body is None or record.version > body.VERSION:
                unknown[f"{record.type}@{record.version}"] += 1
    by_source: dict[str, tuple[int, int]] = {}
    for data, count in events.items():
        source = decode_source(data)
        name = f"{source.kind} {source.name}" if source.name else source.kind
        without, of = by_source.get(name, (0, 0))
        by_source[name] = (without + keyless[data], of + count)
    return Writers(threads=threads, events=total, keyless=by_source, unknown=dict(unknown))


# --- other processes, where /proc tells ---


def holders(path: Path, proc: Path = Path("/proc")) -> list[Holder] | None:
    """Give the other processes that have a store open, oldest first; None where the system does not tell.

    Only processes of users whose open files may be read are seen.
    """
    if not (proc / "locks").exists():
        return None
    lock = f"{path}-lock"
    inode = Path(lock).stat().st_ino if Path(lock).exists() else 0
    locking = _locking(proc, inode)
    found = []
    for pid in _pids(proc):
        files = {name for name in _open_files(proc, pid) if name.startswith(str(path))}
        if files:
            found.append(
                Holder(pid=pid, age_s=_age(proc, pid), locks=pid in locking, other_lock=f"{lock} (deleted)" in files)
            )
    return sorted(found, key=lambda holder: -holder.age_s)


def _pids(proc: Path) -> Iterator[int]:
    for folder in proc.iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            yield int(folder.name)


def _open_files(proc: Path, pid: int) -> Iterator[str]:
    try:
        descriptors = list((proc / str(pid) / "fd").iterdir())
    except OSError:
        return
    for descriptor in descriptors:
        try:
            yield str(descriptor.readlink())
        except OSError:
            continue


def _locking(proc: Path, inode: int) -> set[int]:
    """Give the processes that hold a lock on the file with this inode."""
    lines = (proc / "locks").read_text().splitlines()
    found = (re.match(r"\d+: FLOCK +\S+ +\S+ +(\d+) \S+:(\d+) ", line) for line in lines)
    return {int(match[1]) for match in found if match and int(match[2]) == inode}


def _age(proc: Path, pid: int) -> float:
    try:
        uptime = float((proc / "uptime").read_text().split()[0])
        ticks = int((proc / str(pid) / "stat").read_text().rpartition(")")[2].split()[_STARTTIME])
    except (OSError, ValueError, IndexError):
        return 0.0
    return uptime - ticks / os.sysconf("SC_CLK_TCK")
