"""ATIF trajectories: steps of users, systems and agents, each agent's step a response with its calls and results.

A trajectory has no branches. Those of sub-agents that lie inside it are threads of their own; a continuation, which
begins with steps copied from the one before, is a thread beside that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from blake3 import blake3

from ..errors import PayloadRejected
from .atif_mapping import AtifMapping
from .atif_steps import Step, Trajectory
from .base import Desk
from .conversations import canonical
from .documents import WHOLE, DocumentReader
from .lines import Progress, Record, read_record
from .report import ImportReport
from .slices import Fields, fields_of, is_true, items_of, name_of, text_of
from .times import microseconds

TELLING = re.compile(rb'"schema_version"\s*:\s*"ATIF-v|"steps"\s*:\s*\[\s*\{[^{}]*"step_id"\s*:')
STEPS, INSIDE = "steps", "subagent_trajectories"
ID_HEX = 16
DEPTH_MAX = 16
"""How deep sub-agents' trajectories are looked for in each other."""


class Atif:
    """The form of the Agent Trajectory Interchange Format, version 1."""

    name = "atif"

    def detect(self, head: bytes, path: Path | None) -> bool:  # noqa: ARG002 - the protocol's form
        """Whether a trajectory begins here."""
        return TELLING.search(head) is not None

    def read(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> AtifReader:
        """Read the steps."""
        return AtifReader(stream, report, progress)

    def mapping(self, desk: Desk, path: Path | None) -> AtifMapping:  # noqa: ARG002 - the protocol's form
        """Begin with one trajectory."""
        return AtifMapping(desk)

    def last_user_time(self, stream: BinaryIO) -> int:
        """Give the time of the last step of a user."""
        records = DocumentReader(stream, ImportReport(format=self.name), STEPS)
        typed = (record.fields for record in records if name_of((record.fields or {}).get("source")) == "user")
        times = (microseconds(text_of((fields or {}).get("timestamp"))) for fields in typed)
        return max((time for time in times if time is not None), default=0)


class AtifReader:
    """The steps of a trajectory and of those inside it; before each one's steps its head, behind them its rest."""

    torn = stump = b""

    def __init__(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> None:
        self._stream = stream
        self._report = report
        self._progress = progress

    def __iter__(self) -> Iterator[Step]:
        trajectory = self._survey()
        self._stream.seek(0)
        yield Step(0, b"", None, kind="head", trajectory=trajectory)
        wholes = 0
        for record in DocumentReader(self._stream, self._report, STEPS, self._progress):
            wholes += record.line == WHOLE
            if record.line != WHOLE:
                yield Step(record.line, record.data, record.fields, kind="step", trajectory=trajectory)
        self._report.records -= max(wholes - 1, 0)  # what stands before the steps and behind them is one record
        yield Step(0, b"", None, kind="rest", trajectory=trajectory)
        yield from self._inside(trajectory, 1)

    def _survey(self) -> Trajectory:
        """Read what the trajectory says beside its steps, wherever that stands."""
        entries: Fields = {}
        first, is_copy = b"", False
        for record in DocumentReader(self._stream, ImportReport(format=""), STEPS):
            if record.line == WHOLE:
                entries |= record.fields or {}
                continue
            is_copied = is_true(record.fields or {}, "is_copied_context")
            is_copy = is_copy or is_copied
            first = first or (b"" if is_copied else record.data)
        own, run = name_of(entries.get("trajectory_id")), name_of(entries.get("session_id"))
        digest = blake3(canonical(first) if first else b"").hexdigest()[:ID_HEX]
        id_ = own or (f"{run}/{digest}" if is_copy else run) or digest
        return Trajectory(id=id_, entries=entries)

    def _inside(self, above: Trajectory, depth: int) -> Iterator[Step]:
        for item in items_of(above.entries.get(INSIDE)) or []:
            fields = fields_of(item)
            if fields is None or depth > DEPTH_MAX:
                self._report.lose(0, "not_object", "no trajectory of a sub-agent")
                continue
            own = name_of(fields.get("trajectory_id")) or blake3(canonical(item)).hexdigest()[:ID_HEX]
            trajectory = Trajectory(id=f"{above.id}/{own}", entries=fields, name=own, above=above.id)
            yield Step(0, b"", None, kind="head", trajectory=trajectory)
            for number, step in enumerate(items_of(fields.get(STEPS)) or [], 1):
                record = self._record(number, bytes(step))
                if record is not None:
                    yield Step(number, record.data, record.fields, kind="step", trajectory=trajectory)
            yield Step(0, b"", None, kind="rest", trajectory=trajectory)
            self._report.records += 1
            yield from self._inside(trajectory, depth + 1)

    def _record(self, number: int, data: bytes) -> Record | None:
        self._report.records += 1
        try:
            return read_record(number, data)
        except PayloadRejected as error:
            self._report.lose(number, "bad_record", error.message)
            return None
