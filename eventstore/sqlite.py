"""The SQLite backend: the standard library's module, WAL, one lock between processes. All SQL of the store is here.

Rules that the measurements of the faults gave, and that hold for every statement in this file: `isolation_level=None`;
any transaction is BEGIN IMMEDIATE; one file lock over open, append and checkpoint; checkpoints are our own; before an
append the -wal on disk must still be the one that is open.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal

from . import errors, schema
from .backend import Erasure, HeaderColumns, Listing, Problem, Record, ThreadRow, ThreadTaken
from .file_path import check_path
from .lock import FileLock
from .sqlite_errors import VALUE_BYTES_MAX, Translated, base_code

Durability = Literal["full", "turn", "process"]
"""full: an acknowledged append survives power loss; turn: a whole turn does, from its end on; process: only a crash of
the process is survived."""

PAGE_ROWS = 256
CHUNK_BYTES = 1024 * 1024
WAL_BYTES_SOFT = 4 * 1024 * 1024
"""Over this the -wal is checkpointed at a turn's end."""
WAL_BYTES_HARD = 32 * 1024 * 1024
"""Over this it is checkpointed after any append."""
FORGETTING_PAUSE_S = 0.05
"""Between two looks at whether readers let the -wal be emptied."""

_HEADER_COLUMNS = (
    "e.position, e.parent, e.head, e.type, e.version, e.recorded_at, e.occurred_at, CAST(s.json AS BLOB), e.key,"
    " CAST(e.refs AS BLOB), e.hash, e.commitment, e.salt, e.secret"
)
_COLUMNS = {
    (False, False): f"{_HEADER_COLUMNS}, NULL, NULL",
    (True, False): f"{_HEADER_COLUMNS}, CAST(e.body AS BLOB), NULL",
    (True, True): f"{_HEADER_COLUMNS}, CAST(e.body AS BLOB), CAST(e.output AS BLOB)",
}
# Through the thread's row: another process may have deleted the thread whose number is remembered here.
_HASHED_COLUMNS = (
    "e.position, e.parent, e.head, CAST(e.refs AS BLOB), e.type, e.version, e.recorded_at, e.occurred_at,"
    " CAST(s.json AS BLOB), e.key, e.commitment, e.hash"
)
_CACHE = (
    "INSERT OR REPLACE INTO cache SELECT ?1, ?2, ?3"
    " WHERE ?4 IS NULL OR EXISTS (SELECT 1 FROM cache WHERE name = ?4 AND value = ?5)"
)
_INSERT = (
    "INSERT INTO events (thread, position, parent, head, type, version, recorded_at, occurred_at, source, key, refs,"
    " hash, commitment, salt, secret, body, output)"
    " SELECT id, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM threads WHERE id = ?"
)
_THREAD_COLUMNS = ", ".join(ThreadRow.__struct_fields__)


class SqliteBackend:
    """A store in one file (beside it, while open, `-wal`, `-shm` and `-lock`)."""

    def __init__(
        self,
        path: Path,
        *,
        create: bool = True,
        read_only: bool = False,
        durability: Durability = "full",
        timeout_s: float = 60.0,
    ) -> None:
        self._path = check_path(path)
        self._read_only = read_only
        self._durability = durability
        self._timeout_s = timeout_s
        self._mutex: AbstractContextManager[object] = threading.RLock()
        self._pid = os.getpid()
        self._failed: str | None = None
        self._owes = False
        """Erased bytes are in the -wal still."""
        self._ids: dict[str, int] = {}
        self._sources: dict[bytes, int] = {}
        self._wal = f"{self._path}-wal"
        self._wal_fd: int | None = None
        """Held to see when somebody takes the -wal away."""
        self._wal_bytes = 0
        """As of the last write's beginning."""
        self._connection: sqlite3.Connection | None = None
        self._writer: sqlite3.Cursor
        self._reading = Translated(self._path)
        self._writing = Translated(self._path, self.fail)
        self._file_lock = None if read_only else self._open_lock(create=create)
        self._lock: AbstractContextManager[object] = self._file_lock or nullcontext()
        try:
            self._open(create=create)
        except BaseException:
            self.close()
            raise
        _opened.add(self)

    @property
    def place(self) -> str:
        """The file's path."""
        return str(self._path)

    # --- opening and closing ---

    def _open_lock(self, *, create: bool) -> FileLock:
        if not create and not self._path.exists():
            raise errors.StoreMissing(f"no store at {self._path}")
        try:
            return FileLock(Path(f"{self._path}-lock"), self._timeout_s)
        except FileNotFoundError:
            raise errors.StoreMissing(f"no folder {self._path.parent}", hint="make it first") from None
        except PermissionError:
            raise errors.StoreReadOnly(
                f"no right to write in {self._path.parent}", hint="open with mode='r' to read"
            ) from None
        except OSError as error:
            if error.errno == 30:  # EROFS
                raise errors.StoreReadOnly(f"{self._path.parent} is read-only", hint="open with mode='r'") from None
            raise errors.StoreDamaged(f"{self._path}: {error.strerror}") from None

    def _open(self, *, create: bool) -> None:
        with self._mutex, self._lock, self._reading:
            is_new = self._make_file(create=create)
            self._connect()
            found = self._pragma("user_version")
            if is_new or (found == 0 and self._is_empty()):
                self._make_schema()
            else:
                self._check_schema(found)
                if found < schema.USER_VERSION and not self._read_only:
                    self._migrate()
            self._note_wal()

    def _make_file(self, *, create: bool) -> bool:
        if self._path.exists():
            return self._path.stat().st_size == 0 and not self._read_only
        if not create or self._read_only:
            raise errors.StoreMissing(f"no store at {self._path}")
        # Created by us first, so that file, -wal and -shm are 0600 whatever the umask.
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return True

    def _connect(self) -> None:
        mode = "ro" if self._read_only else "rw"
        # Without a -wal and without the right to make one, nobody here writes: only then may the file be read alone.
        alone = self._read_only and not os.access(self._path.parent, os.W_OK) and not Path(self._wal).exists()
        uri = f"{self._path.as_uri()}?mode={mode}{'&immutable=1' if alone else ''}"
        connection = sqlite3.connect(
            uri, uri=True, timeout=self._timeout_s, isolation_level=None, check_same_thread=False
        )
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
        self._connection, self._writer = connection, connection.cursor()
        for pragma in ("trusted_schema=OFF", "recursive_triggers=ON", "secure_delete=ON", "cache_size=-4000"):
            connection.execute(f"PRAGMA {pragma}")
        self._read_header(connection)
        if not self._read_only:
            self._enter_wal(connection)
            connection.execute("PRAGMA wal_autocheckpoint=0")
            connection.execute(f"PRAGMA journal_size_limit={WAL_BYTES_SOFT}")
            self._set_synchronous(full=self._durability == "full")

    def _read_header(self, connection: sqlite3.Connection) -> None:
        try:
            found = connection.execute("PRAGMA application_id").fetchone()[0]
            empty = found == 0 and connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode in {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}:
                raise errors.NotAStore(f"{self._path} is no SQLite file", hint="name another path with --db") from None
            raise
        if found != schema.APPLICATION_ID and not (empty and not self._read_only):
            what = "is empty" if empty else "is a SQLite file, but no convlog store"
            raise errors.NotAStore(f"{self._path} {what}", hint="name another path with --db")

    def _enter_wal(self, connection: sqlite3.Connection) -> None:
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
        if mode != "wal":
            # The switch ignores the busy timeout; the lock held here keeps every other convlog away from it.
            mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":
            raise errors.StoreDamaged(
                f"{self._path}: the file system cannot do write-ahead logging (journal mode {mode})",
                hint="put the store on a local disk",
            )

    def _set_synchronous(self, *, full: bool) -> None:
        self._db.execute(f"PRAGMA synchronous={'FULL' if full else 'NORMAL'}")

    def _is_empty(self) -> bool:
        return bool(self._db.execute("SELECT count(*) = 0 FROM sqlite_schema").fetchone()[0])

    def _make_schema(self) -> None:
        with self._transaction():
            if self._pragma("user_version") == 0:
                for statement in schema.statements():
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA application_id={schema.APPLICATION_ID}")
                self._db.execute(f"PRAGMA user_version={schema.USER_VERSION}")

    def _migrate(self) -> None:
        from . import migrations

        with self._transaction():
            found = self._pragma("user_version")
            if found < schema.USER_VERSION:
                migrations.migrate(self._db, found)

    def _check_schema(self, version: int) -> None:
        if version > schema.USER_VERSION:
            raise errors.StoreNewer(
                f"{self._path} has schema {version}, this program knows {schema.USER_VERSION}",
                hint="upgrade convlog",
            )
        expected, later = schema.expected(version), schema.expected()
        for kind, name, table, sql in self._db.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"):
            if (kind, name) in expected:
                if sql != expected[(kind, name)]:
                    raise errors.StoreForeign(f"{self._path}: {kind} {name} was altered")
                del expected[(kind, name)]
            elif kind == "trigger" or (kind, name) in later:
                raise errors.StoreForeign(
                    f"{self._path}: a foreign {kind} {name} on {table}", hint="drop it if you trust the file"
                )
        if expected:
            raise errors.StoreForeign(f"{self._path}: missing {', '.join(name for _, name in expected)}")

    def close(self) -> None:
        """Checkpoint, and give file and lock back. Idempotent."""
        if self._pid != os.getpid():
            return  # the connection is the parent's, and so are its locks
        with self._mutex:
            connection, self._connection = self._connection, None
            if connection is not None:
                with self._lock:
                    if self._wal_fd is not None and self._failed is None:
                        self._checkpoint(connection)
                    self._forget_wal()
                    connection.close()
            if self._file_lock is not None:
                self._file_lock.close()
                self._file_lock = None

    def refuse_after_fork(self) -> None:
        """Refuse all use from here on: the connection and the file lock are the parent process's."""
        self._mutex = Refusal(
            errors.ForkedStore(
                f"{self._path} was opened by process {self._pid}, this is {os.getpid()}",
                hint="open the store again after the fork",
            )
        )

    # --- the hot path ---

    @property
    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            raise errors.StoreClosed(f"{self._path} was closed")
        return self._connection

    def _before_write(self) -> bool:
        """Refuse what cannot be written, and look after the -wal; say whether the file had to be opened again."""
        if self._read_only:
            raise errors.StoreReadOnly(f"{self._path} was opened to read")
        if self._failed:
            raise errors.StoreDamaged(f"{self._path}: {self._failed}", hint="open it again and run `convlog verify`")
        if self._wal_fd is not None:
            # By descriptor: half the price of a look-up by path, and SQLite keeps no locks on this file.
            found = os.fstat(self._wal_fd)
            if found.st_nlink:
                self._wal_bytes = found.st_size
                return False
        # Somebody's other SQLite dropped or replaced the -wal under us: what we would write there is lost.
        self._forget_wal()
        self._db.close()
        self._forget_numbers()
        self._connect()
        self._note_wal()
        return True

    def _note_wal(self) -> None:
        self._forget_wal()
        if self._read_only:
            return
        self._db.execute("SELECT 1 FROM sqlite_schema").fetchone()
        if not Path(self._wal).exists():
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("COMMIT")
        self._wal_fd = os.open(self._wal, os.O_RDONLY | os.O_CLOEXEC)

    def _forget_wal(self) -> None:
        if self._wal_fd is not None:
            os.close(self._wal_fd)
            self._wal_fd = None

    def append(self, thread: str, records: Sequence[Record], listing: Listing | None) -> None:
        """Store records, all or none, durable on return."""
        with self._mutex, self._lock, self._writing:
            if self._before_write():
                self._require_previous(thread, records[0].position)
            if len(records) == 1 and listing is None and records[0].source in self._sources:
                self._insert_record(self._number(thread), records[0])
            else:
                self._insert_batch(thread, records, listing)
            if self._wal_bytes > WAL_BYTES_HARD or self._owes:
                self._checkpoint(self._db)

    def _require_previous(self, thread: str, position: int) -> None:
        """Refuse to append behind events that went with a lost -wal: they were acknowledged, and are gone."""
        found = self._db.execute(
            "SELECT max(e.position), t.origin_position FROM threads t LEFT JOIN events e ON e.thread = t.id"
            " WHERE t.thread = ?",
            (thread,),
        ).fetchone()
        tip = found[0] or found[1] or 0
        if tip < position - 1:
            raise errors.StoreDamaged(
                f"{self._path}: the -wal was lost with acknowledged events; {thread[:12]} ends at {tip},"
                f" it ended at {position - 1}",
                hint="open it again and run `convlog verify`",
            )

    def _insert_batch(self, thread: str, records: Sequence[Record], listing: Listing | None) -> None:
        ends_turn = listing is not None and listing.turns_ended > 0
        syncs = ends_turn and self._durability == "turn"
        if syncs:
            self._set_synchronous(full=True)
        try:
            with self._transaction():
                self._insert(self._number(thread), records, listing)
        finally:
            if syncs:
                self._set_synchronous(full=False)
        if ends_turn and self._wal_bytes > WAL_BYTES_SOFT:
            self._checkpoint(self._db)

    def _insert_record(self, number: int, record: Record) -> None:
        self._require_stored(self._writer.execute(_INSERT, self._values(number, record)).rowcount, 1)

    def _require_stored(self, stored: int, given: int) -> None:
        if stored != given:
            self._forget_numbers()
            raise errors.NoSuchThread(f"the thread was deleted from {self._path}")

    def _insert(self, number: int, records: Sequence[Record], listing: Listing | None) -> None:
        rows = [self._values(number, record) for record in records]
        self._require_stored(self._db.executemany(_INSERT, rows).rowcount, len(rows))
        if listing is None:
            return
        # The rowid of the last event is the store-wide cursor.
        self._db.execute(
            "UPDATE threads SET touched = last_insert_rowid(), spoke = iif(?, last_insert_rowid(), spoke),"
            " turns = turns + ?, title = coalesce(?, title), preview = coalesce(?, preview) WHERE id = ?",
            (listing.spoke, listing.turns_ended, listing.title, listing.preview, number),
        )
        for name in listing.attachments:
            self._db.execute("INSERT OR IGNORE INTO uses SELECT id, ? FROM attachments WHERE name = ?", (number, name))

    def _values(self, number: int, record: Record) -> tuple[Any, ...]:
        return (
            record.position,
            record.parent,
            record.head,
            record.type,
            record.version,
            record.recorded_at,
            record.occurred_at,
            self._source(record.source),
            record.key,
            None if record.refs is None else record.refs.decode(),
            record.hash,
            record.commitment,
            record.salt,
            record.secret,
            None if record.body is None else record.body.decode(),
            None if record.output is None else record.output.decode(),
            number,
        )

    def _source(self, source: bytes) -> int:
        number = self._sources.get(source)
        if number is None:
            text = source.decode()
            self._db.execute("INSERT OR IGNORE INTO sources (json) VALUES (?)", (text,))
            number = int(self._db.execute("SELECT id FROM sources WHERE json = ?", (text,)).fetchone()[0])
            self._sources[source] = number
        return number

    def _number(self, thread: str) -> int:
        number = self._ids.get(thread)
        if number is None:
            row = self._db.execute("SELECT id FROM threads WHERE thread = ?", (thread,)).fetchone()
            if row is None:
                raise errors.NoSuchThread(f"no thread {thread} in {self._path}")
            number = self._ids[thread] = row[0]
            if len(self._ids) > 10_000:
                self._ids = {thread: number}
        return number

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            # Numbers interned in a transaction that did not land are no numbers.
            self._forget_numbers()
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _forget_numbers(self) -> None:
        self._sources.clear()
        self._ids.clear()

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        """Move what the -wal holds into the file.

        Where that fails nothing is lost, for all of it stays in the -wal; so whoever appended or closes is not told
        that this failed. After an input or output error the next write is.
        """
        try:
            if self._owes:
                self._owes = not _emptied(connection)
            else:
                _checkpoint(connection)
        except sqlite3.DatabaseError as error:
            if base_code(error) == sqlite3.SQLITE_IOERR:
                self.fail(f"a checkpoint failed ({error})")

    # --- threads ---

    def create(self, row: ThreadRow, records: Sequence[Record]) -> None:
        """Store a thread's row with its first records."""
        with self._mutex, self._lock, self._writing:
            self._before_write()
            with self._transaction():
                if row.origin is not None:
                    self._require_origin(row.origin)
                try:
                    number = self._insert_thread(row)
                except sqlite3.IntegrityError as error:
                    if "threads.thread" not in str(error):
                        raise
                    raise ThreadTaken(row.thread) from None
                self._insert(number, records, Listing())
                self._db.execute("DELETE FROM deleted WHERE thread = ?", (row.thread,))
            self._ids[row.thread] = number

    def _require_origin(self, thread: str) -> None:
        """Look in the file: another process may have deleted the thread whose number is remembered here."""
        if self._db.execute("SELECT 1 FROM threads WHERE thread = ?", (thread,)).fetchone() is None:
            raise errors.NoSuchThread(f"no thread {thread} in {self._path}")

    def _insert_thread(self, row: ThreadRow) -> int:
        values = [getattr(row, name) for name in ThreadRow.__struct_fields__]
        marks = ", ".join("?" * len(values))
        found = self._db.execute(f"INSERT INTO threads ({_THREAD_COLUMNS}) VALUES ({marks})", values)
        return int(found.lastrowid or 0)

    def thread(self, thread: str) -> ThreadRow | None:
        """Give a thread's row."""
        found = self._thread_rows("WHERE thread = ?", (thread,))
        return found[0] if found else None

    def threads(self, *, before: int | None = None, limit: int = 50) -> list[ThreadRow]:
        """Give a page of rows, last touched first."""
        if before is None:
            before = 2**62
        clause = "WHERE touched < ? AND kind != 'store' ORDER BY touched DESC LIMIT ?"
        return self._thread_rows(clause, (before, limit))

    def find(self, text: str) -> list[ThreadRow]:
        """Give the threads whose id starts with, or whose title or source id is, `text`."""
        exact = self._thread_rows("WHERE title = ? OR source_id = ? LIMIT 20", (text, text))
        if exact or not _is_hex(text):
            return exact
        return self._thread_rows("WHERE thread >= ? AND thread < ? LIMIT 20", (text, text + "g"))

    def forks(self, thread: str) -> list[ThreadRow]:
        """Give the threads that share this one's log."""
        return self._thread_rows("WHERE origin = ? ORDER BY id", (thread,))

    def latest(self) -> ThreadRow | None:
        """Give the thread whose user spoke last."""
        found = self._thread_rows("WHERE spoke > 0 AND NOT helper ORDER BY spoke DESC LIMIT 1", ())
        return found[0] if found else None

    def _thread_rows(self, clause: str, values: tuple[Any, ...]) -> list[ThreadRow]:
        with self._mutex, self._reading:
            rows = self._db.execute(f"SELECT {_THREAD_COLUMNS} FROM threads {clause}", values).fetchall()
        return [_thread_row(row) for row in rows]

    # --- reading ---

    def tip(self, thread: str) -> Record | None:
        """Give the last record of the log, without body and output."""
        with self._mutex, self._reading:
            row = self._db.execute(
                f"SELECT {_COLUMNS[False, False]} FROM events e JOIN sources s ON s.id = e.source"
                " WHERE e.thread = ? ORDER BY e.position DESC LIMIT 1",
                (self._number(thread),),
            ).fetchone()
        return None if row is None else Record(*row)

    def read(
        self,
        thread: str,
        first: int,
        last: int,
        *,
        types: Collection[str] | None = None,
        bodies: bool = True,
        outputs: bool = True,
    ) -> Iterator[Record]:
        """Iterate over a closed run of positions in order, a page in one snapshot."""
        with self._mutex:
            number = self._number(thread)
        wanted = "" if types is None else f" AND e.type IN ({', '.join('?' * len(types))})"
        # CROSS JOIN keeps the events outer: with another order the planner would sort.
        sql = (
            f"SELECT {_COLUMNS[bodies, bodies and outputs]} FROM events e CROSS JOIN sources s ON s.id = e.source"
            f" WHERE e.thread = ? AND e.position >= ? AND e.position <= ?{wanted} ORDER BY e.position LIMIT {PAGE_ROWS}"
        )
        while first <= last:
            with self._mutex, self._reading:
                rows = self._db.execute(sql, (number, first, last, *(types or ()))).fetchall()
            for row in rows:
                yield Record(*row)
            if len(rows) < PAGE_ROWS:
                return
            first = rows[-1][0] + 1

    def headers(self, thread: str, first: int, last: int) -> Iterator[Sequence[HeaderColumns]]:
        """Iterate over what `read` gives, as pages of plain tuples."""
        with self._mutex:
            number = self._number(thread)
        sql = (
            f"SELECT {_HASHED_COLUMNS} FROM events e CROSS JOIN sources s ON s.id = e.source"
            f" WHERE e.thread = ? AND e.position >= ? AND e.position <= ? ORDER BY e.position LIMIT {PAGE_ROWS}"
        )
        while first <= last:
            with self._mutex, self._reading:
                rows = self._db.execute(sql, (number, first, last)).fetchall()
            if rows:
                yield rows
            if len(rows) < PAGE_ROWS:
                return
            first = rows[-1][0] + 1

    def position_of_key(self, thread: str, key: str) -> int | None:
        """Give the position of the event with this key."""
        with self._mutex, self._reading:
            row = self._db.execute(
                "SELECT position FROM events WHERE thread = ? AND key = ?", (self._number(thread), key)
            ).fetchone()
        return None if row is None else row[0]

    def redacted_by(self, thread: str, position: int) -> int | None:
        """Give the position of the `redacted` event that erased this one."""
        with self._mutex, self._reading:
            row = self._db.execute(
                "SELECT redacted_by FROM redactions WHERE thread = ? AND position = ?",
                (self._number(thread), position),
            ).fetchone()
        return None if row is None else row[0]

    def changes(self, cursor: int, limit: int) -> tuple[list[tuple[str, int]], int]:
        """Give (thread, position) of events after a store-wide cursor."""
        with self._mutex, self._reading:
            rows = self._db.execute(
                "SELECT e.id, t.thread, e.position FROM events e JOIN threads t ON t.id = e.thread"
                " WHERE e.id > ? ORDER BY e.id LIMIT ?",
                (cursor, limit),
            ).fetchall()
        return [(thread, position) for _, thread, position in rows], rows[-1][0] if rows else cursor

    # --- erasing ---

    def redact(self, thread: str, records: Sequence[Record], erasure: Erasure) -> None:
        """Store the records and erase, in one transaction; `finish_erasing` waits until the -wal forgets, too."""
        with self._mutex, self._lock, self._writing:
            if self._before_write() and records:
                self._require_previous(thread, records[0].position)
            with self._transaction():
                number = self._number(thread)
                self._insert(number, records, None)
                by = records[0].position if erasure.by is None else erasure.by
                for position in erasure.positions:
                    self._db.execute("INSERT OR REPLACE INTO redactions VALUES (?, ?, ?)", (number, position, by))
                    self._db.execute(
                        "UPDATE events SET body = NULL, output = NULL, salt = NULL WHERE thread = ? AND position = ?",
                        (number, position),
                    )
                for other, position in erasure.secrets:
                    self._db.execute(
                        "UPDATE events SET secret = NULL WHERE thread = ? AND position = ?",
                        (self._number(other), position),
                    )
                for name in erasure.attachments:
                    self._drop_use(number, name)
                for row in erasure.rows:
                    self._db.execute(
                        "UPDATE threads SET title = ?, cwd = ?, source_id = ?, preview = ? WHERE thread = ?",
                        (row.title, row.cwd, row.source_id, row.preview, row.thread),
                    )
                self._db.execute("DELETE FROM cache")
            self._begin_forgetting()

    def delete(self, threads: Sequence[str], store_thread: str, records: Sequence[Record]) -> None:
        """Erase whole threads and store the notes that say so, in one transaction."""
        with self._mutex, self._lock, self._writing:
            self._before_write()
            self._forget_numbers()
            with self._transaction():
                # The notes first: the store-wide cursor never goes back.
                self._insert(self._number(store_thread), records, None)
                for thread in threads:
                    number = self._number(thread)
                    self._require_unshared(thread)
                    self._drop_uses(number)
                    self._db.execute("INSERT OR IGNORE INTO deleted VALUES (?)", (thread,))
                    self._db.execute("DELETE FROM threads WHERE id = ?", (number,))
                    for table in ("events", "redactions"):
                        self._db.execute(f"DELETE FROM {table} WHERE thread = ?", (number,))
                self._db.execute("DELETE FROM cache")
            self._ids.clear()
            self._begin_forgetting()

    def _require_unshared(self, thread: str) -> None:
        fork = self._db.execute("SELECT thread FROM threads WHERE origin = ?", (thread,)).fetchone()
        if fork is not None:
            raise errors.HasForks(f"thread {fork[0][:12]} shares the log of {thread[:12]}", hint="look again")

    def is_deleted(self, thread: str) -> bool:
        """Whether a thread of this id was deleted here."""
        with self._mutex, self._reading:
            return self._db.execute("SELECT 1 FROM deleted WHERE thread = ?", (thread,)).fetchone() is not None

    def _begin_forgetting(self) -> None:
        """Move everything into the file and empty the -wal, which holds what was erased, if no reader is in the way."""
        self._owes = True
        self._checkpoint(self._db)

    def finish_erasing(self) -> None:
        """Wait until no file holds what was erased. Others read and write meanwhile.

        Raises:
            StoreLocked: a reader kept the -wal for the whole timeout; the next write tries again.
            StoreFull: the same, for want of room.
        """
        deadline = time.monotonic() + self._timeout_s
        done = f"it is erased from the record, but the -wal of {self._path} holds old bytes"
        while self._owes:
            try:
                with self._mutex, self._lock, self._writing:
                    self._before_write()
                    self._owes = not _emptied(self._db)
            except errors.StoreFull:
                raise errors.StoreFull(
                    f"{done}: there is no room to write", hint="make room; the next write takes them out"
                ) from None
            if self._owes and time.monotonic() > deadline:
                raise errors.StoreLocked(
                    f"{done}: a reader keeps them", hint="end the programs that read; the next write takes them out"
                )
            if self._owes:
                time.sleep(FORGETTING_PAUSE_S)

    # --- attachments ---

    def put_attachment(self, name: str, chunks: Iterator[bytes], size: int) -> None:
        """Store bytes under their hash, whole or not at all."""
        if self.attachment_size(name) is not None:
            return
        with self._mutex, self._lock, self._writing:
            self._before_write()
            if self.attachment_size(name) is not None:
                return  # another process was faster
            with self._transaction():
                number = self._db.execute("INSERT INTO attachments (name, size) VALUES (?, ?)", (name, size)).lastrowid
                self._db.executemany(
                    "INSERT INTO chunks VALUES (?, ?, ?)", ((number, i, chunk) for i, chunk in enumerate(chunks))
                )

    def attachment_size(self, name: str) -> int | None:
        """Give the size in bytes."""
        with self._mutex, self._reading:
            row = self._db.execute("SELECT size FROM attachments WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    def attachment(self, name: str) -> Iterator[bytes]:
        """Iterate over an attachment's chunks."""
        number = 0
        while True:
            with self._mutex, self._reading:
                row = self._db.execute(
                    "SELECT c.bytes FROM attachments a JOIN chunks c ON c.attachment = a.id"
                    " WHERE a.name = ? AND c.number = ?",
                    (name, number),
                ).fetchone()
            if row is None:
                return
            yield row[0]
            number += 1

    def attachments(self, thread: str | None = None) -> Iterator[str]:
        """Iterate over the names of all attachments, or of those that a thread uses."""
        sql, values = "SELECT name FROM attachments a WHERE name > ?", []
        if thread is not None:
            sql += " AND EXISTS (SELECT 1 FROM uses u WHERE u.attachment = a.id AND u.thread = ?)"
            values = [self._number(thread)]
        name = ""
        while True:
            with self._mutex, self._reading:
                row = self._db.execute(f"{sql} ORDER BY name LIMIT 1", (name, *values)).fetchone()
            if row is None:
                return
            name = row[0]
            yield name

    def drop_attachments(self, names: Collection[str]) -> None:
        """Erase attachments."""
        with self._mutex, self._lock, self._writing:
            self._before_write()
            with self._transaction():
                for name in names:
                    self._drop_attachment(name)
            self._begin_forgetting()

    def _drop_uses(self, thread: int) -> None:
        """Erase the attachments that no other thread uses, and what is known of this thread's uses."""
        alone = self._db.execute(
            "SELECT a.name FROM uses u JOIN attachments a ON a.id = u.attachment WHERE u.thread = ?"
            " AND NOT EXISTS (SELECT 1 FROM uses o WHERE o.attachment = u.attachment AND o.thread != u.thread)",
            (thread,),
        ).fetchall()
        for (name,) in alone:
            self._drop_attachment(name)
        self._db.execute("DELETE FROM uses WHERE thread = ?", (thread,))

    def _drop_use(self, thread: int, name: str) -> None:
        """Take note that a thread uses an attachment no more, and erase it when no other does."""
        self._db.execute(
            "DELETE FROM uses WHERE thread = ? AND attachment = (SELECT id FROM attachments WHERE name = ?)",
            (thread, name),
        )
        used = self._db.execute(
            "SELECT 1 FROM uses u JOIN attachments a ON a.id = u.attachment WHERE a.name = ?", (name,)
        ).fetchone()
        if used is None:
            self._drop_attachment(name)

    def _drop_attachment(self, name: str) -> None:
        row = self._db.execute("SELECT id FROM attachments WHERE name = ?", (name,)).fetchone()
        if row is not None:
            self._db.execute("DELETE FROM uses WHERE attachment = ?", row)
            self._db.execute("DELETE FROM chunks WHERE attachment = ?", row)
            self._db.execute("DELETE FROM attachments WHERE id = ?", row)

    # --- caches and care ---

    @contextmanager
    def held(self) -> Iterator[None]:
        """Give a context in which no other handle and no other process writes."""
        with self._mutex, self._lock:
            yield

    def cached(self, name: str) -> bytes | None:
        """Give a derived value kept earlier under this name; none where the file is damaged just there."""
        try:
            with self._mutex, self._reading:
                row = self._db.execute("SELECT CAST(value AS BLOB) FROM cache WHERE name = ?", (name,)).fetchone()
        except errors.StoreDamaged:
            return None
        return None if row is None else row[0]

    def cache(self, name: str, value: bytes, thread: str, *, given: tuple[str, bytes] | None = None) -> bool:
        """Keep a derived value, while the value given is there and writing is allowed; nobody waits for the disk."""
        if self._read_only:
            return False
        with self._mutex, self._lock, self._writing:
            self._before_write()
            number = self._number(thread)
            self._set_synchronous(full=False)
            try:
                kept = self._db.execute(_CACHE, (name, number, value, *(given or (None, None)))).rowcount > 0
            finally:
                self._set_synchronous(full=self._durability == "full")
            if self._wal_bytes > WAL_BYTES_HARD or self._owes:
                self._checkpoint(self._db)
        return kept

    def cache_size(self) -> int:
        """Give the bytes of all derived values."""
        with self._mutex, self._reading:
            return int(self._db.execute("SELECT coalesce(sum(length(value)), 0) FROM cache").fetchone()[0])

    def drop_cache(self) -> None:
        """Drop all derived values."""
        with self._mutex, self._lock, self._writing:
            self._before_write()
            self._db.execute("DELETE FROM cache")

    def check(self) -> Iterator[Problem]:
        """Let the engine check itself."""
        with self._mutex:
            try:
                rows = self._db.execute("PRAGMA integrity_check").fetchall()
            except sqlite3.DatabaseError as error:
                rows = [(str(error),)]
        for (message,) in rows:
            if message != "ok":
                yield Problem("engine", message)
        yield from self._orphans()

    def _orphans(self) -> Iterator[Problem]:
        """Find events whose thread, or source, is in no list: no thread's own check would come upon them."""
        with self._mutex, self._reading:
            rows = self._db.execute(
                "SELECT thread, count(*) FROM events WHERE thread NOT IN (SELECT id FROM threads) GROUP BY thread"
            ).fetchall()
            sourceless = self._db.execute(
                "SELECT t.thread, e.position FROM events e JOIN threads t ON t.id = e.thread"
                " WHERE e.source NOT IN (SELECT id FROM sources)"
            ).fetchall()
        for number, count in rows:
            yield Problem("engine", f"{count} events of a thread (number {number}) that the list of threads lacks")
        for thread, position in sourceless:
            yield Problem("engine", "its source is not in the list of sources", thread, position)

    def maintain(self) -> None:
        """Checkpoint the -wal when it has grown."""
        with self._mutex, self._lock, self._writing:
            self._before_write()
            if self._wal_bytes > WAL_BYTES_SOFT:
                _checkpoint(self._db)

    def wal_size(self) -> int:
        """Give the bytes in the -wal now."""
        return Path(self._wal).stat().st_size if Path(self._wal).exists() else 0

    def fail(self, reason: str) -> None:
        """Refuse writes from here on: after a failed sync nobody knows what reached the disk."""
        self._failed = reason

    def _pragma(self, name: str) -> int:
        return int(self._db.execute(f"PRAGMA {name}").fetchone()[0])


def _checkpoint(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()


def _emptied(connection: sqlite3.Connection) -> bool:
    """Move what the -wal holds into the file and empty it, without waiting for readers; say whether it is empty."""
    timeout_ms = connection.execute("PRAGMA busy_timeout").fetchone()[0]
    connection.execute("PRAGMA busy_timeout=0")
    try:
        return not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    except sqlite3.OperationalError as error:
        if base_code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            return False
        raise
    finally:
        connection.execute(f"PRAGMA busy_timeout={timeout_ms}")


def _thread_row(row: tuple[Any, ...]) -> ThreadRow:
    values = dict(zip(ThreadRow.__struct_fields__, row, strict=True))
    values["helper"] = bool(values["helper"])
    return ThreadRow(**values)


def _is_hex(text: str) -> bool:
    return bool(text) and all(char in "0123456789abcdef" for char in text)


class Refusal:
    """Stands where a lock stood that may no longer be taken."""

    def __init__(self, error: errors.ConvlogError) -> None:
        self._error = error

    def __enter__(self) -> None:
        raise self._error

    def __exit__(self, *_: object) -> None:
        pass


_opened: weakref.WeakSet[SqliteBackend] = weakref.WeakSet()


def _refuse_after_fork() -> None:
    for backend in _opened:
        backend.refuse_after_fork()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_refuse_after_fork)
