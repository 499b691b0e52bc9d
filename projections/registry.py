"""Which projections exist: a name and a version to a pure function. The only dispatch.

Our own versions are listed here, by module, and imported when asked for. Users register theirs with the decorator or by
an entry point of the group `convlog.projections`; a name found in a store never causes an import of anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Literal, TypeVar

import msgspec

from .errors import BadProjection, NoSuchProjection

Kind = Literal["assembler", "encoder", "summariser", "memory", "other"]


class Projection(msgspec.Struct, frozen=True):
    """One version of one projection."""

    name: str
    version: int
    kind: str
    function: Callable[..., Any]
    module: str
    parameters: type[msgspec.Struct] | None = None
    """The struct that its parameters decode to."""
    turnwise: bool = False
    """For an assembler: the pieces of a settled turn hang on that turn alone. For an encoder: so does what it makes of
    them. Then what was encoded of them can be kept."""
    distribution: str | None = None
    """`name==version` of the package that ships it; None for our own."""

    @property
    def address(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"


OWN: dict[str, str] = {
    "transcript@1": "assemblers.transcript_v1",
    "turn-memory@1": "assemblers.turn_memory_v1",
    "turn-memory@2": "assemblers.turn_memory_v2",
    "turn-memory@3": "assemblers.turn_memory_v3",
    "turn-memory@4": "assemblers.turn_memory_v4",
    "turn-memory@5": "assemblers.turn_memory_v5",
    "turn-memory@6": "assemblers.turn_memory_v6",
    "pruned@1": "assemblers.pruned_v1",
    "outline@1": "summaries.outline_v1",
    "anthropic@1": "encoders.anthropic_v1",
    "openai-chat@1": "encoders.openai_chat_v1",
    "openai-responses@1": "encoders.openai_responses_v1",
    "gemini@1": "encoders.gemini_v1",
    "bedrock@1": "encoders.bedrock_v1",
}
"""Address to module below `convlog.projections`."""

ENTRY_POINTS = "convlog.projections"

_registered: dict[str, Projection] = {}

F = TypeVar("F", bound=Callable[..., Any])


def projection(
    name: str,
    version: int,
    kind: str = "assembler",
    *,
    parameters: type[msgspec.Struct] | None = None,
    turnwise: bool = False,
) -> Callable[[F], F]:
    """Register a function as a version of a projection.

    Raises:
        BadProjection: an ill-formed name or version, or another function under the same address.
    """

    def register(function: F) -> F:
        if version < 1 or not name or not all(char.isascii() and (char.isalnum() or char == "-") for char in name):
            raise BadProjection(f"{name!r}@{version!r} is no address", hint="a-z, 0-9 and - ; versions count from 1")
        made = Projection(name, version, kind, function, function.__module__, parameters, turnwise)
        known = _registered.get(made.address)
        if known is not None and known.module != made.module:
            raise BadProjection(f"{made.address} is registered already, by {known.module}")
        _registered[made.address] = made
        return function

    return register


def get(address: str, kind: str | None = None) -> Projection:
    """Give the projection of an address `name@version`.

    Raises:
        NoSuchProjection: no such version is installed.
    """
    if address not in _registered and address in OWN:
        import_module(f"{__package__}.{OWN[address]}")
    if address not in _registered and address not in OWN:
        _load_entry_points()
    found = _registered.get(address)
    if found is None or (kind is not None and found.kind != kind):
        what = kind or "projection"
        raise NoSuchProjection(f"no {what} {address!r} is installed", hint="`convlog assemblers` lists what is")
    return found


def all_projections(kind: str | None = None) -> Iterator[Projection]:
    """Iterate over everything installed, by name and version."""
    for address in OWN:
        get(address)
    _load_entry_points()
    found = sorted(_registered.values(), key=lambda each: (each.kind, each.name, each.version))
    return (each for each in found if kind in {None, each.kind})


def parameters_of(found: Projection, given: bytes | str | dict[str, Any] | None) -> Any:
    """Decode parameters for a projection, with its defaults.

    Raises:
        BadProjection: a parameter that it does not know or of another type.
    """
    if found.parameters is None:
        return None
    try:
        if isinstance(given, bytes | str):
            return msgspec.json.decode(given, type=found.parameters)
        return msgspec.convert(given or {}, found.parameters)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise BadProjection(f"parameters of {found.address}: {error}") from None


_entry_points_loaded = False


def _load_entry_points() -> None:
    global _entry_points_loaded  # noqa: PLW0603 - loading happens once a process
    if _entry_points_loaded:
        return
    _entry_points_loaded = True
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINTS):
        before = set(_registered)
        point.load()
        shipped_by = f"{point.dist.name}=={point.dist.version}" if point.dist else None
        for address in set(_registered) - before:
            _registered[address] = msgspec.structs.replace(_registered[address], distribution=shipped_by)
