"""The log database of `llm`: conversations of both of its stores, which may lie in one file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from .base import Desk
from .databases import open_database, tables_in
from .lines import Progress
from .llm_conversations import CLASSIC, STORE, Conversations
from .llm_mapping import LlmMapping
from .llm_steps import Step, time_of
from .report import ImportReport


class LlmLogs:
    """The form of `logs.db`."""

    name = "llm"

    def detect(self, head: bytes, path: Path | None) -> bool:
        """Whether this is such a database, of either generation."""
        tables = tables_in(head, path)
        return "_llm_migrations" in tables and (tables >= CLASSIC or tables >= STORE)

    def read(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> LlmReader:
        """Read the conversations."""
        return LlmReader(stream, report, progress)

    def mapping(self, desk: Desk, path: Path | None) -> LlmMapping:  # noqa: ARG002 - the protocol's form
        """Begin with one database."""
        return LlmMapping(desk)

    def last_user_time(self, stream: BinaryIO) -> int:
        """Give the time of the last call: each begins with what a user asked."""
        with open_database(stream, ImportReport(format=self.name), None) as database:
            tables = [table for table in ("responses", "turns") if table in database.tables]
            rows = [database.row(f"SELECT max(datetime_utc) AS time FROM {table}") for table in tables]
        return max((time_of(row["time"]) or 0 for row in rows if row), default=0)


class LlmReader:
    """The messages and calls of every conversation, in order."""

    torn = stump = b""

    def __init__(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> None:
        self._stream = stream
        self._report = report
        self._progress = progress

    def __iter__(self) -> Iterator[Step]:
        with open_database(self._stream, self._report, self._progress) as database:
            yield from Conversations(database, self._report).steps()
