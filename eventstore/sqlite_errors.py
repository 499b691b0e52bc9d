"""What goes wrong in SQLite, in the words of the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from . import errors
from .backend import KeyTaken, PositionTaken

VALUE_BYTES_MAX = 64 * 1024 * 1024
"""The largest value that the connection takes or gives."""


class Translated:
    """Turns the engine's errors into ours. A class, since a generator here costs a tenth of an append."""

    def __init__(self, path: Path, fail: Callable[[str], None] | None = None) -> None:
        self._path = path
        self._fail = fail

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.DatabaseError):
            raise self._translate(error) from error
        if isinstance(error, OverflowError):
            raise errors.StoreDamaged(f"{self._path}: a number over 64 bits", hint="run `convlog verify`") from error
        if isinstance(error, UnicodeDecodeError):
            # A damaged file can be one whose damage the engine cannot even put into words.
            raise errors.StoreDamaged(f"{self._path}: {error}", hint="run `convlog verify`") from error

    def _translate(self, error: sqlite3.DatabaseError) -> Exception:
        message = str(error)
        if isinstance(error, sqlite3.IntegrityError):
            if "events.position" in message:
                return PositionTaken(message)
            if "events.key" in message:
                return KeyTaken(message)
        return _translate(error, self._path, self._fail)


def _translate(error: sqlite3.DatabaseError, path: Path, fail: Callable[[str], None] | None) -> errors.ConvlogError:
    base = base_code(error)
    if base == sqlite3.SQLITE_FULL:
        return errors.StoreFull(f"no room left to write {path}", hint="make room and append again")
    if base in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return errors.StoreLocked(f"another program holds {path}", hint="close it, or wait and try again")
    if base == sqlite3.SQLITE_READONLY:
        return errors.StoreReadOnly(f"{path} cannot be written")
    if base == sqlite3.SQLITE_CANTOPEN:
        return errors.StoreMissing(f"{path} cannot be opened", hint="check the path and its rights")
    if base == sqlite3.SQLITE_TOOBIG:
        return errors.TooLarge(f"a value over {VALUE_BYTES_MAX:,} bytes")
    if base == sqlite3.SQLITE_IOERR and fail is not None:
        fail(f"an input or output error ({error})")
        return errors.AppendUnknown(
            f"{path}: {error}; whether the append was stored is not known",
            hint="open the store again and append with the same key",
        )
    if base == sqlite3.SQLITE_NOTADB:
        return errors.NotAStore(f"{path} is no SQLite file")
    return errors.StoreDamaged(f"{path}: {error}", hint="run `convlog verify`")


def base_code(error: sqlite3.DatabaseError) -> int:
    """Give the primary result code of an engine's error, 0 for an error of the module itself."""
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF
