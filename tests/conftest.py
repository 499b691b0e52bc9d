"""Stores for tests. Whatever a test leaves behind is verified when it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from convlog.eventstore.store import Store
from tests.stores import PLACES, Place

# Whoever runs the tests gets the same examples; who looks for new ones sets HYPOTHESIS_PROFILE=search.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("search", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


class Stores:
    """Opens stores below a folder, and remembers them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._places: dict[str, Place] = {}

    def __call__(self, name: str = "store.db", **settings: Any) -> Store:
        """Open the SQLite store of this name, making it where there is none; again: another handle on it."""
        return self.place(name).open(**settings)

    def path(self, name: str = "store.db") -> Path:
        """Give the path of a store that other processes make or use; it is verified too."""
        self.place(name)
        return self._folder / name

    def place(self, name: str = "store.db", kind: str = "sqlite") -> Place:
        """Give the place of a store."""
        if name not in self._places:
            self._places[name] = PLACES[kind](self._folder / name)
        return self._places[name]

    def close(self) -> None:
        """Close all handles."""
        for place in self._places.values():
            place.close()

    def problems(self) -> list[str]:
        """Close all handles, and give what verify finds in what is left."""
        return [problem for place in self._places.values() for problem in place.problems()]


@pytest.fixture
def allow_damage() -> None:
    """Ask for this where a test damages its stores on purpose: what it leaves behind is then not verified."""


@pytest.fixture
def open_store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stores]:
    """Give a factory of stores, which are verified when the test ends."""
    stores = Stores(tmp_path)
    yield stores
    if "allow_damage" in request.fixturenames:
        stores.close()
    else:
        assert stores.problems() == []


@pytest.fixture
def store(open_store: Stores) -> Store:
    """Give one SQLite store."""
    return open_store()


@pytest.fixture(params=PLACES)
def any_place(open_store: Stores, request: pytest.FixtureRequest) -> Place:
    """Give a place for one store, of each backend in turn."""
    return open_store.place(kind=request.param)


@pytest.fixture
def any_store(any_place: Place) -> Store:
    """Give one store, of each backend in turn."""
    return any_place.open()
