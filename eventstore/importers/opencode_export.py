"""A session as `opencode export` writes it: one document with the session, its messages and their parts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from .lines import Progress
from .opencode_sources import Held, Session, held_of, session_of
from .report import ImportReport
from .slices import fields_of, items_of
from .whole_documents import read_document

EXPORT = re.compile(rb'\s*\{\s*"info"\s*:\s*\{[^{}]*"ses_')


class ExportSource:
    """The session of an exported document."""

    def __init__(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> None:
        noted = ImportReport(format=report.format)
        document = read_document(stream, noted, progress, "messages")
        report.size, report.digest, report.lost = noted.size, noted.digest, noted.lost
        report.repaired = noted.repaired
        for finding in noted.warnings:
            report.warn(finding.line, finding.code, finding.detail)
        self._info = document.entries.get("info")
        self._report = report
        self._messages: dict[str, Held] = {}
        self._parts: dict[str, list[Held]] = {}
        for record in document.items:
            info = (record.fields or {}).get("info")
            if record.fields is None or info is None:
                report.lose(record.line, "not_object", "no message")
                continue
            message = held_of("", bytes(info))
            parts = [held_of("", bytes(part)) for part in items_of(record.fields.get("parts")) or []]
            self._messages[message.id] = message
            self._parts[message.id] = sorted(parts, key=lambda part: part.id)

    def sessions(self) -> Iterator[Session]:
        """Give the session."""
        fields = fields_of(self._info)
        session = session_of(fields, bytes(self._info)) if fields and self._info is not None else None
        if session is None:
            self._report.lose(0, "bad_file", "no session")
        else:
            yield session

    def messages(self, session: str) -> Iterator[Held]:  # noqa: ARG002 - the protocol's form
        """Give the session's messages by their ids, which ascend."""
        return iter([self._messages[id_] for id_ in sorted(self._messages)])

    def parts(self, message: str) -> list[Held]:
        """Give a message's parts by their ids, which ascend."""
        return self._parts.get(message, [])

    def others(self, session: Session) -> Iterator[tuple[str, str]]:  # noqa: ARG002 - the protocol's form
        """Nothing else belongs to it."""
        return iter(())
