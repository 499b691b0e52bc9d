"""Claude Code sessions: JSON Lines, a line for each content block, tied together by `parentUuid`.

A response lies on several lines with one `message.id`; the writer puts it into one line of nodes. Sub-agents are
threads of their own. What the file does not hold (system prompt, tools) stays unknown; nothing is said of it here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from .base import Desk, Entry, Place, Title
from .claude_code_messages import Line, assistant_line, queued_line, user_line
from .claude_code_threads import Threads
from .known import Identity
from .lines import LineReader, Progress, Record, first_objects
from .report import ImportReport
from .slices import Fields, fields_of, has_doubled_key, is_true, items_of, name_of, text_of
from .times import microseconds

KINDS = frozenset(
    {
        *(
            "user",
            "assistant",
            "system",
            "attachment",
            "progress",
            "summary",
            "ai-title",
            "custom-title",
            "last-prompt",
        ),
        *("mode", "permission-mode", "file-history-snapshot", "file-history-delta", "queue-operation", "agent-name"),
        *("agent-setting", "pr-link", "worktree-state"),
    }
)
TELLING = frozenset({"parentUuid", "isSidechain", "sessionId", "leafUuid", "uuid", "messageId"})
"""Fields that tell a line of one of these kinds from another program's."""

EARLY_MAX = 1000
"""Lines held back until one says which session this is."""

TITLES = {"custom-title": ("customTitle", frozenset[str]()), "ai-title": ("aiTitle", frozenset({"custom-title"}))}
"""Field of the title, and the kinds of title that stay, by kind of line."""


class ClaudeCode:
    """The form of the session files below `~/.claude/projects`."""

    name = "claude-code"

    def detect(self, head: bytes, path: Path | None) -> bool:  # noqa: ARG002 - the protocol's form
        """Whether one of the first lines is a record of such a session."""
        for fields in first_objects(head):
            if name_of(fields.get("type")) in KINDS and not TELLING.isdisjoint(fields):
                return True
        # A first line that is longer than what was looked at.
        return b"\n" not in head and b'"parentUuid"' in head and b'"sessionId"' in head

    def read(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> LineReader:
        """Read the lines."""
        return LineReader(stream, report, progress)

    def mapping(self, desk: Desk, path: Path | None) -> ClaudeCodeMapping:
        """Begin with one file."""
        return ClaudeCodeMapping(desk, path)

    def last_user_time(self, stream: BinaryIO) -> int:
        """Give the time of the last line that a person typed."""
        typed = (record.fields for record in LineReader(stream, ImportReport(format=self.name)))
        times = (microseconds(text_of(fields.get("timestamp"))) for fields in typed if fields and _is_typed(fields))
        return max((time for time in times if time is not None), default=0)


class ClaudeCodeMapping:
    """The meaning of one file's lines."""

    def __init__(self, desk: Desk, path: Path | None) -> None:
        self._desk = desk
        self._path = path
        self._threads = Threads(desk)
        self._session: str | None = None
        self._early: list[Record] = []
        self._keeps: dict[str, str] = {}
        """First record that a compaction left verbatim, by its boundary's id."""
        self._branch_titles: list[tuple[str, str, Record]] = []
        """(leaf, title, record): which thread it is for shows at the end."""

    def map(self, record: Record) -> Entry | None:
        """Say what a line means."""
        session = name_of((record.fields or {}).get("sessionId")) or self._session
        if session is None:
            if len(self._early) < EARLY_MAX:
                self._early.append(record)
                return None
            session = self._nameless(record)
        return self._map(record, session)

    def end(self) -> Iterator[Entry]:
        """Say what came before any line that names a session, and what the branches are called."""
        for record in self._early:
            yield self._map(record, self._session or self._nameless(record))
        for leaf, text, record in self._branch_titles:
            thread = self._threads.main(self._session or "", {}, Place.BEFORE, None)
            # The leaf of a summary may lie in another session's file: then the title is not this thread's.
            if self._desk.holds(thread.id, leaf):
                title = Title(text=text, by="summary", yields_to=frozenset(TITLES))
                yield Entry(thread=thread, record=record, identity=Identity(None, b"title:" + record.data), title=title)

    def _nameless(self, record: Record) -> str:
        """Name a session that no line names: by its file, else by a line."""
        return self._path.stem if self._path else Identity(None, record.data).id

    def _map(self, record: Record, session: str) -> Entry:
        self._session = session
        fields = record.fields or {}
        kind = name_of(fields.get("type")) or ""
        identity = Identity(name_of(fields.get("uuid")) or None, record.data)
        parent = _parent(kind, fields)
        occurred_at = microseconds(text_of(fields.get("timestamp")))
        is_side = is_true(fields, "isSidechain")
        if is_side:
            thread = self._threads.side(session, fields, parent, identity, occurred_at)
        else:
            thread = self._threads.main(session, fields, parent, occurred_at)
        line = Line(
            record=record,
            identity=identity,
            thread=thread,
            parent=parent,
            occurred_at=occurred_at,
            fields=fields,
            kind=kind,
            is_side=is_side,
        )
        entry = self._meaning(line)
        if entry is None:
            return self._kept(line)
        if record.doubled and record.fields is not None:
            # The entries that were overruled are nowhere else.
            verbatim = msgspec.structs.replace(line.verbatim(), stands=False)
            entry = msgspec.structs.replace(entry, items=(*entry.items, verbatim))
        return entry

    def _meaning(self, line: Line) -> Entry | None:
        """Say what a line means that says something; None for one that is only kept."""
        warn = self._desk.report.warn
        if line.record.fields is None:
            warn(line.record.line, "not_object", "JSON, but no object")
        elif line.kind in {"user", "assistant"}:
            said = line.fields.get("message")
            message = fields_of(said)
            if message and said is not None and has_doubled_key(bytes(said), message):
                warn(line.record.line, "doubled_key", "a message names a key twice; the last one counts")
            found = message and (
                user_line(line, message, self._desk.attach, self._keeps)
                if line.kind == "user"
                else assistant_line(line, message)
            )
            if found:
                return found
            warn(line.record.line, "no_content", f"a {line.kind} line without a message's content")
        elif line.kind == "attachment":
            return queued_line(line)
        elif line.kind in TITLES:
            return self._title(line)
        elif line.kind == "system":
            self._note_boundary(line)
        elif line.kind == "summary":
            leaf, text = name_of(line.fields.get("leafUuid")), name_of(line.fields.get("summary"))
            if leaf and text:
                self._branch_titles.append((leaf, text, line.record))
        return None

    def _kept(self, line: Line, *, title: Title | None = None) -> Entry:
        return line.entry([line.verbatim()], title=title)

    def _note_boundary(self, line: Line) -> None:
        """Remember which records a compaction leaves verbatim."""
        metadata = fields_of(line.fields.get("compactMetadata")) or {}
        segment = fields_of(metadata.get("preservedSegment")) or {}
        messages = fields_of(metadata.get("preservedMessages")) or {}
        ids = items_of(messages.get("uuids")) or []
        first = name_of(segment.get("headUuid")) or (name_of(ids[0]) if ids else None)
        if first:
            self._keeps[line.identity.id] = first

    def _title(self, line: Line) -> Entry | None:
        field, stronger = TITLES[line.kind]
        text = text_of(line.fields.get(field))
        return self._kept(line, title=Title(text=text, by=line.kind, yields_to=stronger)) if text else None


def _parent(kind: str, fields: Fields) -> str | Place:
    """Give the record that a line follows: null names the root, and no name the line before."""
    if kind == "system" and name_of(fields.get("subtype")) == "compact_boundary":
        return name_of(fields.get("logicalParentUuid")) or Place.BEFORE
    named = fields.get("parentUuid")
    if named is not None and bytes(named) == b"null":
        return Place.ROOT
    return name_of(named) or Place.BEFORE


def _is_typed(fields: Fields) -> bool:
    if name_of(fields.get("type")) != "user" or is_true(fields, "isMeta") or is_true(fields, "isSidechain"):
        return False
    message = fields_of(fields.get("message")) or {}
    return b'"tool_use_id"' not in bytes(message.get("content", b""))
