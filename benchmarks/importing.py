"""Importing: a recorded Claude Code session against decoding its lines and inserting the rows that come of it.

And against claude-code-log, a popular reader of the same files, where `CONVLOG_CLAUDE_CODE_LOG` names the interpreter
of an environment in which it is installed.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from convlog.eventstore.importers import import_file
from convlog.eventstore.store import open_store

from .floor import RawTable
from .harness import Figure, Sizes, in_turn, timed
from .workload import Step, turns

READER = "CONVLOG_CLAUDE_CODE_LOG"
"""The variable that names the other reader's interpreter."""

READER_CODE = """
import sys, time
from pathlib import Path
from claude_code_log.converter import convert_jsonl_to_html, load_transcript
source, page = map(Path, sys.argv[1:])
started = time.perf_counter()
load_transcript(source, silent=True)
loaded = time.perf_counter()
convert_jsonl_to_html(source, page, silent=True)
print(loaded - started, time.perf_counter() - loaded)
"""
"""Its seconds to parse a file into objects, and to parse it and write its page; starting and importing do not count."""

STARTED = datetime(2026, 1, 2, 10, tzinfo=UTC)


def run(sizes: Sizes, folder: Path) -> Iterator[Figure]:
    """Measure whole imports and whole floors in turn, each into a new file."""
    with TemporaryDirectory(dir=folder) as name:
        place = Path(name)
        source = place / "session.jsonl"
        source.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in session(sizes.turns_read)))
        bodies = _bodies(source, place / "first.db")

        def ours(number: int) -> None:
            _import(source, place / f"store-{number}.db")

        def floor(number: int) -> None:
            _decode_and_insert(source, place / f"raw-{number}.db", bodies)

        imports, floors = in_turn(max(2, sizes.runs), ours, floor)
        megabytes = source.stat().st_size / 1e6
        beside = list(_beside_reader(sizes, source, place))
    note = f"{median(imports):.2f} s : {median(floors):.2f} s; {megabytes:,.1f} MB, {len(bodies):,} events"
    title = "import, speed of decoding and raw inserts"
    yield Figure(name=title, value=median(floors) / median(imports), limit=0.3, at_least=True, note=note)
    yield from beside


def _beside_reader(sizes: Sizes, source: Path, place: Path) -> Iterator[Figure]:
    """Measure imports and the other reader in turn; it is skipped, with the reason, where it cannot run."""
    imports: list[float] = []
    parses: list[float] = []
    pages: list[float] = []
    for number in range(max(2, sizes.runs)):
        seconds = _read_elsewhere(source, place / f"reader-{number}")
        if isinstance(seconds, str):
            print(f"claude-code-log: skipped: {seconds}", file=sys.stderr)
            return
        imports.append(timed(_import, source, place / f"beside-{number}.db"))
        parses.append(seconds[0])
        pages.append(seconds[1])
    for title, theirs, limit in (("making its page", pages, 5.0), ("parsing alone", parses, None)):
        note = f"{median(imports):.2f} s : {median(theirs):.2f} s"
        name = f"import, speed of claude-code-log {title}"
        yield Figure(name=name, value=median(theirs) / median(imports), limit=limit, at_least=True, note=note)


def _read_elsewhere(source: Path, folder: Path) -> tuple[float, float] | str:
    """Give the other reader's seconds to parse a file, and to make its page; or why there are none."""
    python = os.environ.get(READER)
    if python is None:
        return f"{READER} names no interpreter that has it"
    folder.mkdir()
    own = shutil.copy(source, folder)  # with a folder and a home of its own it finds nothing that it kept before
    command = [python, "-c", READER_CODE, own, str(folder / "page.html")]
    environment = os.environ | {"HOME": str(folder)}
    try:
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    if ended.returncode != 0:
        return (ended.stderr.strip().splitlines() or ["it ended without a word"])[-1]
    parse, page = ended.stdout.split()[-2:]
    return float(parse), float(page)


def _import(source: Path, path: Path) -> None:
    with open_store(path) as store:
        import_file(store, source)


def _bodies(source: Path, path: Path) -> list[bytes]:
    """Import once, and give the bytes that were stored for each event."""
    _import(source, path)
    with open_store(path, mode="r") as store:
        thread = store.latest()
        records = store.backend.read(thread.id, 1, thread.position)
        return [(record.body or b"") + (record.output or b"") for record in records]


def _decode_and_insert(source: Path, path: Path, bodies: list[bytes]) -> None:
    with source.open("rb") as file:
        for line in file:
            msgspec.json.decode(line)
    raw = RawTable(path, "FULL")
    raw.insert_all(bodies)
    raw.close()


def session(count: int) -> Iterator[dict[str, Any]]:
    """Iterate over the lines of a session of that many turns, one block a line, as the client writes them."""
    writer = Writer()
    for each in turns(count):
        for step in each:
            line = writer.line(step)
            if line is not None:
                yield line


class Writer:
    """Chains lines by uuid and counts the clock on."""

    def __init__(self) -> None:
        self._dice = random.Random("session")
        self._session = self._uuid()
        self._parent: str | None = None
        self._now = STARTED
        self._responses = 0

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self._dice.getrandbits(128), version=4))

    def line(self, step: Step) -> dict[str, Any] | None:
        """Give the line for a step; the end of a turn has none."""
        role, content = _content(step)
        if content is None:
            return None
        message: dict[str, Any] = {"role": role, "content": content}
        if role == "assistant":
            message |= {
                "type": "message",
                "id": f"msg_{self._responses:08}",
                "model": "claude-sonnet-4-6",
                "stop_reason": "tool_use" if step.kind == "call" else "end_turn",
                "usage": {"input_tokens": 1200, "output_tokens": 340, "cache_read_input_tokens": 50_000},
            }
        else:
            self._responses += 1
        self._now += timedelta(milliseconds=self._dice.randrange(5, 9000))
        parent, self._parent = self._parent, self._uuid()
        return {
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": "/srv/shop",
            "sessionId": self._session,
            "version": "2.1.0",
            "type": role,
            "uuid": self._parent,
            "timestamp": self._now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "message": message,
        }


def _content(step: Step) -> tuple[str, Any]:
    match step.kind:
        case "input":
            return "user", step.text
        case "reasoning":
            return "assistant", [{"type": "thinking", "thinking": step.text, "signature": "c2ln"}]
        case "prose":
            return "assistant", [{"type": "text", "text": step.text}]
        case "call":
            block = {"type": "tool_use", "id": step.call, "name": step.name, "input": msgspec.Raw(step.text.encode())}
            return "assistant", [block]
        case "result":
            block = {"type": "tool_result", "tool_use_id": step.call, "content": step.text}
            return "user", [block | ({"is_error": True} if step.status != "ok" else {})]
        case _:
            return "user", None
