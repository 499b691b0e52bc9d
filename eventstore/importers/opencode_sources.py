"""Where OpenCode keeps its sessions: one database, or, in older versions, a folder with a file for each object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Raw

from ..errors import PayloadRejected
from .databases import Database, Row, row_text
from .report import ImportReport
from .slices import Fields, fields_of, is_too_deep, name_of, value_of

IDS = frozenset({"id", "sessionID", "messageID"})
"""Fields of an object in a file that are columns, or stand elsewhere, in the database."""

KNOWN_TABLES = frozenset({"session", "message", "part", "project"})


class Held(msgspec.Struct, frozen=True):
    """A message or a part: its JSON object, and what the row says beside it."""

    id: str
    data: bytes
    fields: Fields | None
    """Entries of the object without its ids; None when it is no object."""
    created: int | None = None
    """Microseconds UTC."""
    row: str | None = None
    """JSON text of the row's other columns."""

    @property
    def stable(self) -> bytes:
        """JSON text that is the same wherever, and however spelled, the object is kept."""
        if self.fields is None:
            return self.data
        said = {name: value_of(value) for name, value in self.fields.items()}
        return json.dumps(said, sort_keys=True, separators=(",", ":")).encode()


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One session."""

    id: str
    data: str = "{}"
    """JSON text of all that it says of itself."""
    parent: str | None = None
    title: str | None = None
    cwd: str | None = None
    created: int | None = None
    revert: tuple[str, str | None] | None = None
    """(message, part): from there on the session is undone."""


class Source(Protocol):
    """What a place of sessions gives, in order."""

    def sessions(self) -> Iterator[Session]:
        """Give the sessions, parents first."""

    def messages(self, session: str) -> Iterator[Held]:
        """Give a session's messages."""

    def parts(self, message: str) -> list[Held]:
        """Give a message's parts."""

    def others(self, session: Session) -> Iterator[tuple[str, str]]:
        """Give (id, JSON text) of what else belongs to a session."""


# --- the database ---


class DatabaseSource:
    """The sessions of `opencode.db`."""

    def __init__(self, database: Database, report: ImportReport) -> None:
        self._database = database
        self._report = report
        self._tables = [
            table for table in sorted(database.tables - KNOWN_TABLES) if "session_id" in database.columns(table)
        ]

    def sessions(self) -> Iterator[Session]:
        """Give the sessions in the order in which they were made; those that only messages name come last."""
        for row in self._database.select("session", order="time_created, id"):
            yield _session_of_row(row)
        missing = "SELECT DISTINCT session_id AS id FROM message WHERE session_id NOT IN (SELECT id FROM session)"
        for row in self._database.rows(missing):
            self._report.warn(0, "missing_session", f"{row['id']} has messages, but no row of its own")
            yield Session(id=str(row["id"]))

    def messages(self, session: str) -> Iterator[Held]:
        """Give a session's messages by their ids, which ascend."""
        for row in self._database.select("message", "session_id = ?", session, order="id"):
            yield self._held(row)

    def parts(self, message: str) -> list[Held]:
        """Give a message's parts by their ids, which ascend."""
        return [self._held(row) for row in self._database.select("part", "message_id = ?", message, order="id")]

    def others(self, session: Session) -> Iterator[tuple[str, str]]:
        """Give the project, the rows of other tables that name the session, and parts whose message is not here."""
        for row in self._database.select("project", "id = (SELECT project_id FROM session WHERE id = ?)", session.id):
            yield f"project:{row['id']}", row_text(row)
        for table in self._tables:
            for number, other in enumerate(self._database.select(table, "session_id = ?", session.id)):
                yield f"{table}:{other.get('id', number)}", row_text(other)
        orphans = "session_id = ? AND message_id NOT IN (SELECT id FROM message)"
        for part in self._database.select("part", orphans, session.id, order="id"):
            self._report.warn(
                0, "missing_message", f"part {part['id']} belongs to {part['message_id']}, which is not here"
            )
            yield f"part:{part['id']}", row_text(part)

    def _held(self, row: Row) -> Held:
        rest = row_text({name: value for name, value in row.items() if name not in {"id", "data"}})
        return held_of(str(row["id"]), str(row["data"]).encode(), row.get("time_created"), rest)


def _session_of_row(row: Row) -> Session:
    revert = fields_of(str(row.get("revert") or "").encode()) if row.get("revert") else None
    return Session(
        id=str(row["id"]),
        data=row_text(row),
        parent=row.get("parent_id"),
        title=row.get("title"),
        cwd=row.get("directory"),
        created=_microseconds(row.get("time_created")),
        revert=_revert(revert),
    )


# --- the folder ---


class FolderSource:
    """One session of the folder `storage`, by its own file."""

    def __init__(self, data: bytes, path: Path | None, report: ImportReport) -> None:
        self._data = data
        self._storage = None if path is None else storage_of(path)
        self._report = report

    def sessions(self) -> Iterator[Session]:
        """Give the session."""
        held = held_of("", self._data.strip())
        fields = fields_of(held.data) if held.fields is not None else None
        session = None if fields is None else session_of(fields, held.data)
        if session is None:
            self._report.lose(1, "bad_file", "no session")
            return
        yield session

    def messages(self, session: str) -> Iterator[Held]:
        """Give the session's messages by their ids, which ascend."""
        return self._objects("message", session)

    def parts(self, message: str) -> list[Held]:
        """Give a message's parts by their ids, which ascend."""
        return list(self._objects("part", message))

    def others(self, session: Session) -> Iterator[tuple[str, str]]:  # noqa: ARG002 - the protocol's form
        """Nothing else belongs to it that is not in its files."""
        return iter(())

    def _objects(self, kind: str, owner: str) -> Iterator[Held]:
        folder = None if self._storage is None else self._storage / kind / owner
        if folder is None or not folder.is_dir():
            if kind == "message":
                self._report.warn(1, "missing_messages", f"no messages of {owner} are beside the session's file")
            return
        for path in sorted(folder.glob("*.json")):
            if path.is_symlink():
                continue
            held = held_of(path.stem, path.read_bytes().strip())
            if held.fields is None:
                self._report.warn(0, "not_object", f"{kind}/{owner}/{path.name} holds no object")
            yield held


def storage_of(path: Path) -> Path | None:
    """Give the folder that a session's file belongs to: `storage/session/PROJECT/SESSION.json`."""
    above = path.absolute().parents
    return above[2] if len(above) > 2 and above[1].name == "session" else None


def is_member(path: Path) -> bool:
    """Whether a file is a message or a part that its session's import reads: `storage/message/SESSION/MESSAGE.json`."""
    above = path.parents
    return (
        len(above) > 2
        and above[1].name in {"message", "part"}
        and above[0].name.startswith(("ses_", "msg_"))
        and path.name.startswith(("msg_", "prt_"))
        and (above[2] / "session").is_dir()
    )


# --- what both have ---


def session_of(fields: Fields, data: bytes) -> Session | None:
    """Read a session's object, as files hold it; None for one without an id."""
    id_ = name_of(fields.get("id"))
    time = fields_of(fields.get("time")) or {}
    if not id_:
        return None
    return Session(
        id=id_,
        data=data.decode(),
        parent=name_of(fields.get("parentID")),
        title=name_of(fields.get("title")),
        cwd=name_of(fields.get("directory")),
        created=_microseconds(value_of(time.get("created"))),
        revert=_revert(fields_of(fields.get("revert"))),
    )


def held_of(id_: str, data: bytes, created: Any = None, row: str | None = None) -> Held:
    """Read a message or a part; one that names no id of its own goes by its object's."""
    text = data.decode(errors="replace").encode()
    try:
        fields = None if is_too_deep(text) else fields_of(text)
    except PayloadRejected:
        fields = None
    if fields is not None and created is None:
        created = value_of((fields_of(fields.get("time")) or {}).get("created"))
    said = None if fields is None else {name: value for name, value in fields.items() if name not in IDS}
    return Held(id_ or name_of((fields or {}).get("id")) or "", text, said, _microseconds(created), row)


def _microseconds(milliseconds: Any) -> int | None:
    is_time = isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool) and 0 <= milliseconds < 2**48
    return round(milliseconds * 1000) if is_time else None


def _revert(fields: Fields | None) -> tuple[str, str | None] | None:
    message = name_of((fields or {}).get("messageID"))
    return (message, name_of((fields or {}).get("partID"))) if message else None


def number_of(data: Raw | None) -> int:
    """Give a count, 0 for what is none."""
    value = value_of(data)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53 else 0
