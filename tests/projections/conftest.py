"""Stores whose threads derive prompts."""

from __future__ import annotations

from typing import cast

import pytest

from convlog.projections.conversation import Store, Thread
from tests.conftest import Stores


@pytest.fixture
def store(open_store: Stores) -> Store:
    """Give one SQLite store."""
    return cast("Store", open_store(store_class=Store))


@pytest.fixture
def thread(store: Store) -> Thread:
    """Give an empty thread."""
    return store.create_thread(title="a talk")
