"""OpenCode sessions: rows of messages and parts, which change while the agent works.

A session is a line in the order of its ids. Parts become nodes one by one, a tool's part twice (call and result), so
that an import of a running session goes on where the one before stopped; every message's own row is kept beside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from blake3 import blake3

from ..canonical import BODY_BYTES_MAX
from ..errors import ImportFailed
from .base import Desk
from .databases import MAGIC, open_database, tables_in
from .lines import Progress
from .opencode_export import EXPORT, ExportSource
from .opencode_mapping import OpenCodeMapping
from .opencode_sources import DatabaseSource, FolderSource, Held, Session, Source, storage_of
from .opencode_steps import Step, is_complete, is_summary, kind_of, pruned_at, status_of
from .report import ImportReport
from .slices import name_of

TABLES = frozenset({"session", "message", "part"})
HEAD_BYTES = 4096
SESSION_FILE = re.compile(rb'\{\s*"[^"]+"\s*:.*"ses_', re.DOTALL)


class OpenCode:
    """The form of OpenCode's database, of a session's file in its older folder, and of an exported session."""

    name = "opencode"

    def detect(self, head: bytes, path: Path | None) -> bool:
        """Whether this is such a database, an exported session, or a session's file that lies in such a folder."""
        if head.startswith(MAGIC):
            return tables_in(head, path) >= TABLES
        if EXPORT.match(head) is not None:
            return True
        return path is not None and storage_of(path) is not None and SESSION_FILE.match(head) is not None

    def read(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> OpenCodeReader:
        """Read the rows."""
        return OpenCodeReader(stream, report, progress)

    def mapping(self, desk: Desk, path: Path | None) -> OpenCodeMapping:  # noqa: ARG002 - the protocol's form
        """Begin with one database or session."""
        return OpenCodeMapping(desk)

    def last_user_time(self, stream: BinaryIO) -> int:
        """Give the time of the last message of a user; what a sub-agent is told is no user's."""
        steps = OpenCodeReader(stream, ImportReport(format=self.name), None)
        typed = (step for step in steps if step.kind == "input" and step.session.parent is None)
        return max((step.created or 0 for step in typed), default=0)


class OpenCodeReader:
    """The steps of every session, in order."""

    torn = stump = b""

    def __init__(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> None:
        self._stream = stream
        self._report = report
        self._progress = progress

    def __iter__(self) -> Iterator[Step]:
        stream, report = self._stream, self._report
        head = stream.read(HEAD_BYTES)
        stream.seek(0)
        if head.startswith(MAGIC):
            with open_database(stream, report, self._progress) as database:
                yield from self._steps(DatabaseSource(database, report))
            return
        if EXPORT.match(head) is not None:
            yield from self._steps(ExportSource(stream, report, self._progress))
            return
        data = stream.read(BODY_BYTES_MAX + 1)
        report.size, report.digest = len(data), blake3(data).hexdigest()
        if len(data) > BODY_BYTES_MAX:
            raise ImportFailed(f"a session's file of over {BODY_BYTES_MAX:,} bytes")
        name = getattr(stream, "name", None)
        yield from self._steps(FolderSource(data, Path(name) if isinstance(name, str) else None, report))

    def _steps(self, source: Source) -> Iterator[Step]:
        for session in source.sessions():
            yield from SessionReader(source, session, self._report).steps()


class SessionReader:
    """The steps of one session; each names the one that it follows."""

    def __init__(self, source: Source, session: Session, report: ImportReport) -> None:
        self._source = source
        self._session = session
        self._report = report
        self._after: str | None = None
        """The record that the next one follows."""
        self._firsts: dict[str, str] = {}
        """The first record of each message."""
        self._compaction: tuple[str | None, str | None] | None = None
        """(record before, first message that is kept) of a compaction whose summary comes next."""
        self._undone: str | None = None
        """The record before what the session's revert pointer undoes."""
        self._is_undone = False

    def steps(self) -> Iterator[Step]:
        """Give them."""
        session = self._session
        messages = iter(self._source.messages(session.id))
        message = next(messages, None)
        while message is not None:
            following = next(messages, None)
            yield from self._message(message, is_last=following is None)
            message = following
        for id_, data in self._source.others(session):
            yield self._step("kept", id_, data.encode(), chain=False)
        yield from self._revert()
        if session.title:
            yield self._step("title", f"title:{session.title}", session.title.encode(), chain=False, counts=False)
        yield self._step("session", f"session:{session.id}", session.data.encode(), chain=False)

    def _step(
        self,
        kind: str,
        id_: str,
        data: bytes,
        *,
        message: Held | None = None,
        parts: tuple[Held, ...] = (),
        response: str = "",
        after: str | None = None,
        keeps: str | None = None,
        is_last: bool = False,
        chain: bool = True,
        counts: bool = True,
    ) -> Step:
        report = self._report
        report.records += counts
        step = Step(
            report.records,
            data,
            None,
            kind=kind,
            id=id_,
            session=self._session,
            after=after or self._after,
            message=message,
            parts=parts,
            response=response,
            keeps=keeps,
            counts=counts,
            is_last=is_last,
        )
        if chain:
            self._after = id_
        return step

    def _message(self, message: Held, *, is_last: bool) -> Iterator[Step]:
        self._note_revert(message.id)
        parts = tuple(self._source.parts(message.id))
        role = name_of((message.fields or {}).get("role"))
        if role == "user":
            yield from self._user(message, parts)
        elif message.fields is not None and is_summary(message):
            yield from self._summary(message, parts)
        else:
            yield from self._parts(message, parts, is_open=is_last and not is_complete(message))

    def _user(self, message: Held, parts: tuple[Held, ...]) -> Iterator[Step]:
        compaction = next((part for part in parts if kind_of(part) == "compaction"), None)
        if compaction is not None:
            tail = name_of((compaction.fields or {}).get("tail_start_id"))
            self._compaction = (self._after, self._firsts.get(tail) if tail else None)
        data = b"[" + b",".join(part.data for part in parts) + b"]"
        self._firsts[message.id] = message.id
        yield self._step("input", message.id, data, message=message, parts=parts)
        yield self._step("message", f"{message.id}/row", message.data, message=message)

    def _summary(self, message: Held, parts: tuple[Held, ...]) -> Iterator[Step]:
        after, keeps = self._compaction or (self._after, None)
        self._compaction = None
        texts = tuple(part for part in parts if kind_of(part) == "text")
        for part in parts:
            if part not in texts:
                yield self._step("kept", part.id, part.data, message=message, parts=(part,))
        data = b"[" + b",".join(part.data for part in texts) + b"]"
        yield self._step("summary", message.id, data, message=message, parts=texts, after=after, keeps=keeps)
        yield self._step("message", f"{message.id}/row", message.data, message=message)

    def _parts(self, message: Held, parts: tuple[Held, ...], *, is_open: bool) -> Iterator[Step]:
        number, is_finished = 0, False
        response = message.id
        for part in parts:
            self._note_revert(part.id)
            self._firsts.setdefault(message.id, part.id)
            kind = kind_of(part)
            if kind == "step-start" and is_finished:
                number, is_finished = number + 1, False
                response = f"{message.id}/{number}"
            is_finished = is_finished or kind == "step-finish"
            yield self._step(
                "part", part.id, part.data, message=message, parts=(part,), response=response, is_last=is_open
            )
            if kind == "tool" and status_of(part) in {"completed", "error"}:
                yield self._step(
                    "result",
                    f"{part.id}/result",
                    part.data,
                    message=message,
                    parts=(part,),
                    response=response,
                    counts=False,
                )
                if pruned_at(part):
                    yield self._step("kept", f"{part.id}/pruned", b'{"compacted":%d}' % pruned_at(part), counts=False)
        is_stated = is_finished or not any(kind_of(part) in {"text", "reasoning", "tool"} for part in parts)
        response = "" if is_stated else response
        yield self._step("message", f"{message.id}/row", message.data, message=message, response=response)

    def _note_revert(self, id_: str) -> None:
        """Remember what comes before the message or part from which on the session is undone."""
        message, part = self._session.revert or (None, None)
        if id_ == (part or message) and not self._is_undone:
            self._is_undone, self._undone = True, self._after

    def _revert(self) -> Iterator[Step]:
        """Tell which record the program would go on from."""
        revert = self._session.revert
        if revert is not None and not self._is_undone:
            found = f"{self._session.id} is undone from {revert[1] or revert[0]} on, which is not here"
            self._report.warn(0, "missing_message", found)
            return
        target = self._after if revert is None else self._undone
        data = (target or "").encode()
        yield self._step("revert", f"revert:{self._session.id}", data, after=target, chain=False, counts=False)
