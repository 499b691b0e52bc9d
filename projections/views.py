"""Any projection's result for one path of a thread, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import registry
from .errors import BadProjection
from .material import material

if TYPE_CHECKING:
    from .conversation import Thread


def view(
    thread: Thread,
    address: str,
    *,
    leaf: int | None = None,
    at: int | None = None,
    parameters: dict[str, Any] | None = None,
) -> Any:
    """Run a projection over the path to `leaf`, as of `at`.

    Raises:
        NoSuchProjection: no such version.
        BadProjection: an encoder (it works on pieces), or a parameter that the projection does not know.
    """
    found = registry.get(address)
    if found.kind == "encoder":
        raise BadProjection(f"{address} is an encoder", hint="convlog replay --encoder shows what it makes")
    return found.function(material(thread, leaf, at), registry.parameters_of(found, parameters))
