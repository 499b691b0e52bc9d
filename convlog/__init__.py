"""convlog: an event-sourced, append-only conversation store for AI agents.

The names here are the public ones; each is loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .eventstore.errors import ConvlogError as ConvlogError
    from .eventstore.events import Event as Event
    from .eventstore.events import Source as Source
    from .eventstore.importers import import_file as import_file
    from .eventstore.native import export_thread as export_thread
    from .eventstore.records import Draft as Draft
    from .eventstore.records import Member as Member
    from .eventstore.verify import verify_store as verify_store
    from .projections.conversation import Store as Store
    from .projections.conversation import Thread as Thread
    from .projections.conversation import open as open  # noqa: A004 - convlog.open, the front door
    from .projections.prepare import Prompt as Prompt
    from .projections.registry import projection as projection
    from .projections.stages.material_v1 import Material as Material
    from .projections.stages.pieces_v1 import Piece as Piece
    from .projections.stages.target_v1 import Options as Options

_HOMES = {
    "ConvlogError": "eventstore.errors",
    "Draft": "eventstore.records",
    "Event": "eventstore.events",
    "Material": "projections.stages.material_v1",
    "Member": "eventstore.records",
    "Options": "projections.stages.target_v1",
    "Piece": "projections.stages.pieces_v1",
    "Prompt": "projections.prepare",
    "Source": "eventstore.events",
    "Store": "projections.conversation",
    "Thread": "projections.conversation",
    "export_thread": "eventstore.native",
    "import_file": "eventstore.importers",
    "open": "projections.conversation",
    "projection": "projections.registry",
    "verify_store": "eventstore.verify",
}

__all__ = [*sorted(_HOMES), "__version__"]  # noqa: PLE0604 - the names above, of which a type checker sees the imports


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
