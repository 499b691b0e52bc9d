"""Session databases of the OpenAI Agents SDK, row by row: each session's messages, then what else is kept of it.

The plain form has two tables, whose names the program may choose. The advanced form says in a third one in which
branches a message stands, and where; a branch lists all of its messages, those that it shares included.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..errors import PayloadRejected
from .databases import Database, Row, row_text
from .lines import Record, read_record
from .report import ImportReport
from .slices import is_too_deep

MESSAGES, SESSIONS = "agent_messages", "agent_sessions"
STRUCTURE, USAGE = "message_structure", "turn_usage"
BESIDE = ("branch_reservations", "session_clear_generations")
"""Tables of the advanced form whose rows are only kept."""

MAIN = "main"
"""The branch that a program is on when it opens a session."""

_MESSAGE_COLUMNS = frozenset({"id", "session_id", "message_data"})


class SessionRow(Record, frozen=True, kw_only=True):
    """A row, with what the tables say of its place."""

    table: str
    session: str
    created: str | None
    """When the session was made, as it is written: it tells sessions of one name apart."""
    folder: str = ""
    """The messages' table, where it has another name than usual."""
    id: int = 0
    before: int | None = None
    """Of a message: the one that it follows."""
    at: str | None = None
    branches: dict[str, int] = msgspec.field(default_factory=dict)
    """Of a session: each branch with its last message."""


class SessionReader:
    """The rows of all sessions in a database."""

    torn = stump = b""

    def __init__(self, database: Database, report: ImportReport) -> None:
        self._database = database
        self._report = report

    def __iter__(self) -> Iterator[Record]:
        with self._database as database:
            for messages in sorted(database.tables):
                if database.columns(messages) >= _MESSAGE_COLUMNS:
                    yield from _Table(database, self._report, messages).rows()


class _Table:
    """One table of messages, and those that belong to it."""

    def __init__(self, database: Database, report: ImportReport, messages: str) -> None:
        self._database = database
        self._report = report
        self._messages = messages
        keys = database.rows(f"PRAGMA foreign_key_list({_quoted(messages)})")
        self._sessions = next((str(key["table"]) for key in keys), SESSIONS)
        self._has_branches = STRUCTURE in database.tables

    def rows(self) -> Iterator[SessionRow]:
        """Give the rows of one session after the other."""
        named = set()
        for row in self._database.select(self._sessions, order="rowid"):
            named.add(row.get("session_id"))
            yield from self._session(str(row.get("session_id")), row)
        lone = f"SELECT DISTINCT session_id FROM {_quoted(self._messages)} ORDER BY session_id"
        for row in self._database.rows(lone):
            if row["session_id"] not in named:
                yield from self._session(str(row["session_id"]), None)

    def _session(self, session: str, row: Row | None) -> Iterator[SessionRow]:
        created = None if row is None or row.get("created_at") is None else str(row["created_at"])
        usage = self._usage(session)
        for message in self._messages_of(session, created):
            yield message
            for count in usage.pop(message.id, ()):
                yield self._row(USAGE, session, created, count)
        for left in [count for counts in usage.values() for count in counts]:
            yield self._row(USAGE, session, created, left)
        for table in (STRUCTURE, *BESIDE):
            for kept in self._database.select(table, "session_id = ?", session, order="rowid"):
                yield self._row(table, session, created, kept)
        yield self._row(self._sessions, session, created, row or {"session_id": session}, self._ends(session))

    def _messages_of(self, session: str, created: str | None) -> Iterator[SessionRow]:
        last: int | None = None
        for row in self._database.rows(*self._query(session)):
            id_ = int(row["id"])
            before = row["before"] if row["placed"] else last
            yield self._message(session, created, row, id_, before)
            last = id_

    def _query(self, session: str) -> tuple[str, ...]:
        messages = _quoted(self._messages)
        if not self._has_branches:
            return f"SELECT *, NULL AS before, 0 AS placed FROM {messages} WHERE session_id = ? ORDER BY id", session
        chain = (
            f"SELECT s.message_id, LAG(s.message_id) OVER (PARTITION BY s.branch_id ORDER BY s.sequence_number, s.id)"
            f" AS before FROM {STRUCTURE} s JOIN {messages} m ON m.id = s.message_id WHERE s.session_id = ?"
        )
        sql = (
            f"SELECT m.*, c.before AS before, c.message_id IS NOT NULL AS placed FROM {messages} m"
            f" LEFT JOIN (SELECT message_id, MAX(before) AS before FROM ({chain}) GROUP BY message_id) c"
            " ON c.message_id = m.id WHERE m.session_id = ? ORDER BY m.id"
        )
        return sql, session, session

    def _ends(self, session: str) -> dict[str, int]:
        """Give each branch's last message."""
        if not self._has_branches:
            return {}
        sql = (
            "SELECT branch_id, message_id FROM (SELECT s.branch_id, s.message_id, ROW_NUMBER() OVER (PARTITION BY"
            f" s.branch_id ORDER BY s.sequence_number DESC, s.id DESC) AS place FROM {STRUCTURE} s"
            f" JOIN {_quoted(self._messages)} m ON m.id = s.message_id WHERE s.session_id = ?)"
            " WHERE place = 1 ORDER BY message_id"
        )
        return {str(row["branch_id"]): int(row["message_id"]) for row in self._database.rows(sql, session)}

    def _usage(self, session: str) -> dict[int, list[Row]]:
        """Give the rows of usage by the last message of their turn, 0 for those whose turn is not there."""
        if USAGE not in self._database.tables:
            return {}
        place = "NULL"
        if self._has_branches:
            place = (
                f"(SELECT MAX(s.message_id) FROM {STRUCTURE} s WHERE s.session_id = u.session_id"
                " AND s.branch_id = u.branch_id AND s.user_turn_number = u.user_turn_number)"
            )
        found: dict[int, list[Row]] = {}
        for row in self._database.rows(f"SELECT u.*, {place} AS place FROM {USAGE} u WHERE u.session_id = ?", session):
            found.setdefault(row.pop("place") or 0, []).append(row)
        return found

    # --- rows as records ---

    def _message(self, session: str, created: str | None, row: Row, id_: int, before: int | None) -> SessionRow:
        report = self._report
        report.records += 1
        said = row["message_data"]
        data = said if isinstance(said, bytes) else str(said).encode(errors="replace")
        record = Record(id_, data.decode(errors="replace").encode(), None)
        try:
            if not is_too_deep(data):
                record = read_record(id_, record.data)
        except PayloadRejected as error:
            report.warn(id_, "bad_record", error.message)
        if record.doubled:
            report.warn(id_, "doubled_key", "an object names a key twice; the last one counts")
        at = row.get("created_at")
        return SessionRow(
            record.line,
            record.data,
            record.fields,
            record.doubled,
            table=MESSAGES,
            session=session,
            created=created,
            folder="" if self._messages == MESSAGES else self._messages,
            id=id_,
            before=before,
            at=None if at is None else str(at),
        )

    def _row(
        self, table: str, session: str, created: str | None, row: Row, branches: dict[str, int] | None = None
    ) -> SessionRow:
        self._report.records += 1
        id_ = row.get("id")
        record = read_record(id_ if isinstance(id_, int) else 0, row_text(row).encode())
        return SessionRow(
            record.line,
            record.data,
            record.fields,
            table=SESSIONS if table == self._sessions else table,
            session=session,
            created=created,
            folder="" if self._messages == MESSAGES else self._messages,
            id=record.line,
            branches=branches or {},
        )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
