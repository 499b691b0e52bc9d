"""mini-swe-agent trajectories: messages as they went to the model, each with what the agent noted beside it (`extra`).

A command is a tool call, or in older runs a fenced block of the answer, whose output comes as the next user message.
The file is written anew after each step and names no run; so the thread goes by the instance and the first messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
from blake3 import blake3

from .base import Desk
from .conversations import canonical
from .lines import Progress, Record
from .mini_swe_mapping import MiniSweMapping, Piece
from .report import ImportReport
from .slices import fields_of, name_of
from .times import seconds
from .whole_documents import read_document

TELLING = re.compile(rb'"mini_version"\s*:|"trajectory_format"\s*:\s*"mini-swe-agent')
FENCED = b"```mswea_bash_command"
SUFFIX = ".traj.json"
_LIST = re.compile(rb'\s*\[\s*\{\s*"(?:role|type|content)"\s*:')

NAMING_MESSAGES = 3
"""Messages that name a run: the instructions, the task, and the first answer."""
ID_HEX = 32


class MiniSwe:
    """The form of `*.traj.json`."""

    name = "mini-swe-agent"

    def detect(self, head: bytes, path: Path | None) -> bool:
        """Whether a trajectory begins here; of a list of messages alone its name, or its commands, tell."""
        if TELLING.search(head) is not None and b'"messages"' in head:
            return True
        is_named = path is not None and path.name.endswith(SUFFIX)
        return _LIST.match(head) is not None and (is_named or FENCED in head)

    def read(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> MiniSweReader:
        """Read the trajectory."""
        return MiniSweReader(stream, report, progress)

    def mapping(self, desk: Desk, path: Path | None) -> MiniSweMapping:  # noqa: ARG002 - the protocol's form
        """Begin with one trajectory."""
        return MiniSweMapping(desk)

    def last_user_time(self, stream: BinaryIO) -> int:
        """Give the time of the first answer: the task itself has none."""
        records = MiniSweReader(stream, ImportReport(format=self.name), None)
        extras = (fields_of((record.fields or {}).get("extra")) or {} for record in records)
        return next((time for extra in extras if (time := seconds(extra.get("timestamp"))) is not None), 0)


class MiniSweReader:
    """The records of a trajectory: its messages, then what it says of the run."""

    torn = stump = b""

    def __init__(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> None:
        self._stream = stream
        self._report = report
        self._progress = progress

    def __iter__(self) -> Iterator[Piece]:
        document = read_document(self._stream, self._report, self._progress, "messages")
        entries = document.entries
        info = fields_of(entries.get("info")) or {}
        instance = name_of(entries.get("instance_id")) or name_of(info.get("instance_id"))
        thread = _thread(instance, document.items)
        whole = Piece(0, b"", None, thread=thread, info=info, entries=entries)
        for record in document.items:
            yield msgspec.structs.replace(whole, line=record.line, data=record.data, fields=record.fields)
        yield whole


def _thread(instance: str | None, items: list[Record]) -> str:
    said = b"\n".join(canonical(record.data) for record in items[:NAMING_MESSAGES])
    digest = blake3(said).hexdigest()[:ID_HEX]
    return f"{instance}/{digest}" if instance else digest
