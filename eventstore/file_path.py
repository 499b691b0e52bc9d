"""Which paths are a place for a store: plain files, by absolute path, and no way round through somebody else's link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from . import errors

SIDE_FILES = ("-wal", "-shm", "-lock", "-journal")
"""What lies beside a store, by the end of its name."""

MAGIC = b"SQLite format 3\0"


def check_path(path: Path) -> Path:
    """Make a path absolute and refuse what is no place for a store.

    Raises:
        NotAStore: a `file:` name, a folder, a device, a file of another kind or of another store, or another user's
            link.
    """
    if str(path).startswith("file:"):
        raise errors.NotAStore(f"{path} is a URI, not a path", hint="give a plain path")
    path = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow the link that is judged below
    if (store := _owner(path)) is not None:
        raise errors.NotAStore(f"{path} lies beside a store and belongs to it", hint=f"the store is {store}")
    try:
        found = path.lstat()
    except FileNotFoundError:
        return path
    except (OSError, ValueError) as error:
        raise errors.StoreMissing(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if stat.S_ISLNK(found.st_mode):
        if found.st_uid not in {os.getuid(), 0}:
            raise errors.NotAStore(f"{path} is another user's link")
        path = path.resolve()
        if not path.exists():
            return path
        found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise errors.NotAStore(f"{path} is a folder", hint="name the file inside it")
    if not stat.S_ISREG(found.st_mode):
        raise errors.NotAStore(f"{path} is no regular file")
    if not _may_be_sqlite(path):
        raise errors.NotAStore(f"{path} is no SQLite file", hint="name another path with --db")
    return path


def _owner(path: Path) -> Path | None:
    """Give the file that a file lies beside, by its name."""
    for suffix in SIDE_FILES:
        name = path.name.removesuffix(suffix)
        if name and name != path.name and os.path.lexists(path.with_name(name)):
            return path.with_name(name)
    return None


def _may_be_sqlite(path: Path) -> bool:
    """Look before anything is made beside the file; who may not read it is told so when it is opened."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(MAGIC)) in {MAGIC, b""}
    except OSError:
        return True
