"""SQLite files of other programs: opened to be read, never written, and read in one snapshot."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Self

import msgspec
from blake3 import blake3

from ..errors import ImportFailed
from .lines import Progress
from .report import ImportReport

MAGIC = b"SQLite format 3\x00"
CHUNK_BYTES = 1024 * 1024
BUSY_SECONDS = 10.0

Row = dict[str, Any]
"""A row by the names of its columns: text, numbers, bytes or None."""

_TABLE = re.compile(rb"CREATE TABLE (?:IF NOT EXISTS )?[\"'`\[]?(\w+)", re.IGNORECASE)
_VERSIONS = slice(18, 20)
"""Where the header says that the file has a write-ahead log."""
_ROLLBACK = b"\x01\x01"

_encode = msgspec.json.Encoder().encode


def tables_in(head: bytes, path: Path | None) -> frozenset[str]:
    """Name the tables of a file that begins so; none when it is no database, or cannot be read as one."""
    if not head.startswith(MAGIC):
        return frozenset()
    if path is not None:
        try:
            with Database(_open(path), ImportReport(format="")) as database:
                return database.tables
        except sqlite3.Error:
            pass  # it is damaged: what its beginning shows must do
    return frozenset(name.decode() for name in _TABLE.findall(head))


def is_log(path: Path) -> bool:
    """Whether a file is a database's write-ahead log, or the index of one."""
    return path.name.endswith(("-wal", "-shm")) and path.with_name(path.name[:-4]).exists()


def open_database(stream: BinaryIO, report: ImportReport, progress: Progress | None) -> Database:
    """Open the database that a stream holds, and note its size and digest.

    Raises:
        ImportFailed: it cannot be opened.
    """
    hasher = blake3()
    path = _path_of(stream)
    kept = bytearray()
    while chunk := stream.read(CHUNK_BYTES):
        hasher.update(chunk)
        report.size += len(chunk)
        if path is None:
            kept += chunk
        if progress is not None:
            progress(report.size)
    report.digest = hasher.hexdigest()
    try:
        return Database(_open(path) if path is not None else _load(kept), report)
    except sqlite3.Error as error:
        raise ImportFailed(f"{path or 'the content'} cannot be read as a database: {error}") from None


def _path_of(stream: BinaryIO) -> Path | None:
    name = getattr(stream, "name", None)
    return Path(name) if isinstance(name, str) else None


def _open(path: Path) -> sqlite3.Connection:
    """Open a file so that neither it nor its folder is changed.

    A file with a write-ahead log would get a new log beside it; where none lies there, nobody writes, and it is read as
    a file that cannot change.
    """
    has_log = path.with_name(path.name + "-wal").exists()
    mode = "mode=ro" if has_log else "mode=ro&immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=BUSY_SECONDS, isolation_level=None)


def _load(data: bytearray) -> sqlite3.Connection:
    """Open content that lies in no file; what its log held is not there."""
    data[_VERSIONS] = _ROLLBACK
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.deserialize(bytes(data))
    return connection


class Database:
    """A foreign database; a context manager that closes it."""

    def __init__(self, connection: sqlite3.Connection, report: ImportReport) -> None:
        self._connection = connection
        self._report = report
        connection.text_factory = self._text
        try:
            connection.execute("PRAGMA query_only=ON")
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("BEGIN")
            rows = list(connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))
        except sqlite3.Error:
            connection.close()
            raise
        self.tables = frozenset(name for (name,) in rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def columns(self, table: str) -> frozenset[str]:
        """Name a table's columns; none where there is no such table."""
        return frozenset(str(row[1]) for row in self._connection.execute(f"PRAGMA table_info({_quoted(table)})"))

    def count(self, table: str) -> int:
        """Count a table's rows, 0 where there is no such table."""
        if table not in self.tables:
            return 0
        return int(self._connection.execute(f"SELECT count(*) FROM {_quoted(table)}").fetchone()[0])

    def rows(self, sql: str, *values: object) -> Iterator[Row]:
        """Give the rows of a query, one by one. What is damaged ends them, and is reported."""
        try:
            cursor = self._connection.execute(sql, values)
            names = [column[0] for column in cursor.description]
            for row in cursor:
                yield dict(zip(names, row, strict=True))
        except sqlite3.DatabaseError as error:
            self._report.lose(0, "damaged_database", str(error))

    def row(self, sql: str, *values: object) -> Row | None:
        """Give the first row of a query; None when there is none."""
        return next(self.rows(sql, *values), None)

    def select(self, table: str, where: str = "", *values: object, order: str = "") -> Iterator[Row]:
        """Give the rows of a table, none where there is no such table."""
        if table not in self.tables:
            return iter(())
        sql = f"SELECT * FROM {_quoted(table)}"
        sql += f" WHERE {where}" if where else ""
        return self.rows(sql + (f" ORDER BY {order}" if order else ""), *values)

    def _text(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            self._report.warn(0, "invalid_utf8", "bytes that are no UTF-8 became U+FFFD")
            self._report.repaired += 1
            return data.decode(errors="replace")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def row_text(row: Row) -> str:
    """Give a row as a JSON object; bytes stand as their blake3, since they are kept apart."""
    said = {
        name: {"blake3": blake3(value).hexdigest()} if isinstance(value, bytes) else value
        for name, value in row.items()
    }
    return _encode(said).decode()
