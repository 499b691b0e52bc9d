"""Any projection's result for one path of a thread, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import registry
from .errors import BadProjection, NotDerivable
from .material import material
from .stages.frame_v1 import MissingPart
from .stages.talk_v1 import MissingOutput

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
        NotDerivable: an output that it needs was never kept, or is erased.
    """
    found = registry.get(address)
    if found.kind == "encoder":
        raise BadProjection(f"{address} is an encoder", hint="convlog replay --encoder shows what it makes")
    chosen = registry.parameters_of(found, parameters)
    try:
        return found.function(material(thread, leaf, at), chosen)
    except MissingOutput as error:
        raise NotDerivable(str(error), reason="not recorded") from None
    except MissingPart as error:
        raise NotDerivable(str(error), reason="redacted") from None
