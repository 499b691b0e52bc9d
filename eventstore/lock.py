"""One lock between processes, held over open, append and checkpoint alike.

SQLite 3.7.0 to 3.51.2 can lose data when several processes append and checkpoint at once; one lock around all three
ends it, and shares the file more fairly than SQLite's own polling does.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from .errors import StoreClosed, StoreLocked

PAUSE_S_MIN = 0.0002
PAUSE_S_MAX = 0.005

if sys.platform == "win32":  # pragma: no cover - exercised on Windows only
    import msvcrt

    def _try_lock(fd: int) -> bool:
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(fd: int) -> None:
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    # flock, not lockf: a POSIX lock is dropped as soon as any descriptor of the file is closed in the process.
    def _try_lock(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)


class FileLock:
    """An exclusive lock on a file beside the store. Its holder may take it again; threads are kept apart by a mutex."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._fd: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._depth = 0

    def __enter__(self) -> None:
        """Take the lock.

        Raises:
            StoreLocked: another process held it for the whole timeout.
            StoreClosed: the lock was closed.
        """
        if self._fd is None:
            raise StoreClosed(f"the store of {self._path} was closed")
        if not self._depth and not _try_lock(self._fd):
            self._wait(self._fd)
        self._depth += 1

    def _wait(self, fd: int) -> None:
        deadline = time.monotonic() + self._timeout_s
        pause = PAUSE_S_MIN
        while not _try_lock(fd):
            if time.monotonic() > deadline:
                raise StoreLocked(
                    f"another process has held {self._path} for over {self._timeout_s:g} s",
                    hint="wait for it to end, or open with a longer timeout",
                )
            time.sleep(pause)
            pause = min(pause * 2, PAUSE_S_MAX)

    def __exit__(self, *_: object) -> None:
        """Give the lock back, once it was left as often as taken."""
        self._depth -= 1
        if self._fd is not None and not self._depth:
            _unlock(self._fd)

    def close(self) -> None:
        """Close the descriptor, and with it the lock. Idempotent."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)
