"""Places that stores are kept in while a test runs, one class for each backend, and what verify finds in them."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from convlog.eventstore.checks import NOTES
from convlog.eventstore.errors import StoreClosed
from convlog.eventstore.memory import MemoryBackend
from convlog.eventstore.store import Store, open_store
from convlog.eventstore.verify import verify_store


class Place(Protocol):
    """Where one store lies, so that several handles on it can be had, as several processes have them."""

    def open(self, **settings: Any) -> Store:
        """Give another handle on the store."""

    def reopen(self, store: Store, **settings: Any) -> Store:
        """Close a handle and give a new one."""

    def crash(self, store: Store, **settings: Any) -> Store:
        """Give a new handle on what a process leaves behind that dies now."""

    def close(self) -> None:
        """Close all handles."""

    def problems(self) -> list[str]:
        """Give what verify finds in the store."""


class MemoryPlace:
    """A store in memory: its handles share one backend, which dies with the last of them."""

    def __init__(self, path: Path) -> None:
        self._backend = MemoryBackend()

    def open(self, **settings: Any) -> Store:
        """Give another handle on the store."""
        return Store(self._backend, **settings)

    def reopen(self, store: Store, **settings: Any) -> Store:
        """Give a handle that knows nothing yet."""
        return self.open(**settings)

    crash = reopen

    def close(self) -> None:
        """Let the backend be: it is the store."""

    def problems(self) -> list[str]:
        """Give what verify finds in the store; closed, it is no more."""
        with suppress(StoreClosed):
            return problems_of(self.open())
        return []


class SqlitePlace:
    """A store in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handles: list[Store] = []
        self._crashes = itertools.count(1)

    def open(self, **settings: Any) -> Store:
        """Give another handle on the store; no test that runs here can see a lost sync, so none is waited for."""
        store = open_store(self.path, **{"durability": "process", **settings})
        self._handles.append(store)
        return store

    def reopen(self, store: Store, **settings: Any) -> Store:
        """Close a handle and give a new one."""
        self._handles.remove(store)
        store.close()
        return self.open(**settings)

    def crash(self, store: Store, **settings: Any) -> Store:
        """Go on with a copy of the file and its -wal as they lie: closing a handle in order would tidy them up."""
        left = self.path.with_name(f"{self.path.stem}-{next(self._crashes)}.db")
        for suffix in ("", "-wal"):
            shutil.copy(f"{self.path}{suffix}", f"{left}{suffix}")
        self.close()
        self.path = left
        return self.open(**settings)

    def close(self) -> None:
        """Close all handles."""
        for store in self._handles:
            store.close()
        self._handles.clear()

    def problems(self) -> list[str]:
        """Close all handles, and give what verify finds in the file."""
        self.close()
        if not self.path.exists():
            return []
        with open_store(self.path, create=False) as store:
            return problems_of(store)


PLACES: dict[str, Callable[[Path], Place]] = {"memory": MemoryPlace, "sqlite": SqlitePlace}
"""By the name of the backend."""


def problems_of(store: Store) -> list[str]:
    """Give what verify finds in a store, notes of erasure apart."""
    return [
        f"{store.place} {problem.thread} {problem.position} {problem.kind}: {problem.message}"
        for problem in verify_store(store, level="full")
        if problem.kind not in NOTES
    ]
