"""Whether something was erased meanwhile: a random value in the store that every erasure drops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convlog.eventstore.errors import ConvlogError

if TYPE_CHECKING:
    from convlog.eventstore.store import Store

GENERATION = "generation"
"""Its name among the derived values: who still finds the value there saw no erasure since."""

GENERATION_BYTES = 16


def generation(store: Store, thread: str) -> bytes | None:
    """Give the store's random value since its last erasure; None where it has none and cannot be written."""
    found = store.backend.cached(GENERATION)
    if found is not None:
        return found
    made = store.entropy(GENERATION_BYTES)
    try:
        return made if store.backend.cache(GENERATION, made, thread) else None
    except ConvlogError:
        return None
