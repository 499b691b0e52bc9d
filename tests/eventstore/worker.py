"""Processes that tests start: writers, contenders, and programs that know nothing of convlog.

Each prints one JSON line for what was acknowledged, flushed at once, so that who reads it knows what must be stored
whatever happens next.
"""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from convlog.eventstore import sqlite
from convlog.eventstore.errors import Conflict
from convlog.eventstore.events import Image, SegmentAdded, Text
from convlog.eventstore.importers import import_file
from convlog.eventstore.lock import FileLock
from convlog.eventstore.records import Draft
from convlog.eventstore.redaction import redact
from convlog.eventstore.store import open_store

ROOT = Path(__file__).resolve().parents[2]
SHARED = ("tests", "shared")
"""The creation key of the thread that all writers of a test share."""
BATCH = 4


def start(role: Callable[..., None], *args: object) -> subprocess.Popen[str]:
    """Run a function of this module in a process of its own, once a line is written to it (see `go`)."""
    command = [sys.executable, "-m", "tests.eventstore.worker", role.__name__, *map(str, args)]
    return subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def go(process: subprocess.Popen[str]) -> None:
    """Let a process begin."""
    assert process.stdin
    process.stdin.write("go\n")
    process.stdin.flush()


def ended(process: subprocess.Popen[str]) -> list[Any]:
    """Wait for a process, which must not fail, and give what it printed."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return [json.loads(line) for line in out.splitlines()]


def run_together(*processes: subprocess.Popen[str]) -> list[list[Any]]:
    """Let processes begin at once; give what each printed."""
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        go(process)
    return [ended(process) for process in processes]


def say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


# --- roles ---


def appends(path: str, name: str, count: str) -> None:
    """Append to the shared thread, and to one of one's own."""
    with open_store(path) as store:
        shared, own = store.create_thread(key=SHARED), store.create_thread(title=name)
        for number in range(int(count)):
            say([shared.text(f"{name} {number}").position, own.user(str(number)).position])


def hurries(path: str, name: str, count: str) -> None:
    """Append as fast as it goes, without waiting for the disk; say what was acknowledged, and the last hash."""
    with open_store(path, durability="process") as store:
        thread = store.create_thread(title=name)
        for number in range(int(count)):
            last = thread.text(f"{number} {'x' * 300}")
        say([thread.id, int(count), last.hash.hex()])


def tends(path: str) -> None:
    """Checkpoint without pause until killed."""
    sqlite.WAL_BYTES_SOFT = -1
    store = open_store(path, create=False)
    while True:
        store.backend.maintain()


def floods(path: str, seed: str) -> None:
    """Append single events and batches, small and large, with and without turn ends, until killed."""
    chance = random.Random(int(seed))
    store = open_store(path)
    thread = store.create_thread(key=SHARED)
    for number in range(1_000_000):
        size = chance.choice((10, 500, 5_000, 40_000))
        drafts = [
            Draft(body=SegmentAdded(text=f"{seed}.{number} {i} of {BATCH} {'x' * size}"), key=f"{seed}.{number}.{i}")
            for i in range(chance.choice((1, BATCH)))
        ]
        last = thread.append_many(drafts)[-1]
        say([last.position, last.hash.hex()])
        if chance.random() < 0.1:
            say([thread.end_turn().position, thread.tip.hex()])


def erases(path: str, seed: str) -> None:
    """Make threads that hold a secret, and take it out or delete the thread, until killed."""
    chance = random.Random(int(seed))
    store = open_store(path)
    for number in range(1_000_000):
        secret = f"secret-{seed}-{number}-"
        thread = store.create_thread(title=f"{seed}.{number}")
        thread.user([Text(f"{secret} {'x' * chance.choice((10, 5_000, 40_000))}")])
        thread.user([Image(attachment=store.attach(secret.encode() * chance.choice((1, 100_000))))])
        fork = thread.fork()
        fork.text(f"{secret} again")
        say(["stored", fork.id, secret])
        if number % 2:
            store.delete_thread(thread.id, cascade=True)
        else:
            redact(store, fork.id, match=secret, replacement="-", reason="test")
        say(["erased", fork.id, secret])


def attaches(path: str, seed: str) -> None:
    """Attach bytes, small and large, until killed."""
    chance = random.Random(int(seed))
    store = open_store(path)
    for _ in range(1_000_000):
        say(store.attach(chance.randbytes(chance.choice((10, 100_000, 3_000_000)))))


def imports(path: str, source: str) -> None:
    """Import a file, and say how many events were stored."""
    with open_store(path) as store:
        say(import_file(store, source).appended)


def contends(path: str, thread: str, head: str) -> None:
    """Append once, if the head is the expected one."""
    with open_store(path, create=False) as store:
        try:
            answer = store.thread(thread).text("mine", expected_head=int(head))
        except Conflict as conflict:
            say(["conflict", conflict.actual])
        else:
            say(["stored", answer.position])


def visits(path: str, count: str) -> None:
    """Open and close the file as a program does that knows nothing of the store's lock."""
    for _ in range(int(count)):
        connection = sqlite3.connect(path, timeout=60)
        say(connection.execute("SELECT count(*) FROM events").fetchone()[0])
        connection.close()


def holds(path: str) -> None:
    """Hold the store's lock until told to let go."""
    with FileLock(Path(f"{path}-lock"), 60.0):
        say("held")
        sys.stdin.readline()


if __name__ == "__main__":
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    globals()[sys.argv[1]](*sys.argv[2:])
