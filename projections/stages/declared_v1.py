"""Tools as declared: sorted by name, one of a name, well-named, and none missing that the talk calls (X7)."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

import msgspec
from blake3 import blake3

from .pieces_v1 import DROPPED, Call, Piece, Tool, Tools
from .repairs_v1 import Repairs
from .wire_v1 import is_blank, read_object, well_formed

EMPTY_SCHEMA = '{"type":"object","properties":{}}'
GONE = "Called earlier in this conversation; not available any more."

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
_KEPT = frozenset(_LETTERS + "0123456789-")
_HEAD_CHARS = 39
_HASH_CHARS = 24


class Declared(msgspec.Struct, frozen=True):
    """One declaration under its wire name."""

    name: str
    tool: Tool
    index: int | None = None
    """The piece that it came from; None for one added here."""


def mended_name(name: str) -> str:
    """Make a name of 1-64 letters, digits, `_` and `-`, the first a letter or `_`.

    The hash of the whole name keeps two names apart; what goes before it is for the model to read.
    """
    head = "".join(char for char in name if char in _KEPT)[:_HEAD_CHARS].lstrip("-0123456789")
    return f"{head or 'tool'}_{blake3(name.encode(errors='surrogatepass')).hexdigest()[:_HASH_CHARS]}"


def declared(
    pieces: Sequence[Piece], called: Iterable[Call], wire_name: Callable[[str], str], repairs: Repairs
) -> list[Declared]:
    """Give the declarations in the order of their names.

    Args:
        pieces: All pieces; the last declaration of tools counts.
        called: The calls that go out.
        wire_name: Fits a name for the format.
        repairs: Where to note what had to change.
    """
    found: dict[str, Declared] = {}
    for index, tool in _last_tools(pieces, repairs):
        name = wire_name(tool.name)
        if name in found:
            repairs.add("system", tool.name, "a second tool of the same name")
            continue
        if name != tool.name:
            repairs.add("system", tool.name, f"the name does not fit: {name} in its place")
        found[name] = Declared(name, tool, index)
    for call in called:
        name = wire_name(call.name)
        if name not in found:
            found[name] = Declared(name, Tool(call.name, GONE))
            repairs.add("system", call.name, "X7: called, so declared")
    return [found[name] for name in sorted(found)]


def _last_tools(pieces: Sequence[Piece], repairs: Repairs) -> list[tuple[int, Tool]]:
    sets = [
        (index, piece, piece.element)
        for index, piece in enumerate(pieces)
        if isinstance(piece.element, Tools) and piece.provenance != DROPPED
    ]
    for _, piece, _ in sets[:-1]:
        repairs.drop(piece, "X7: declared anew later")
    return [(index, tool) for index, _, element in sets[-1:] for tool in element.tools]


def own_fields(tool: Tool, known: Container[str], repairs: Repairs) -> dict[str, msgspec.Raw]:
    """Give the fields of a declaration that only some formats have, as far as this one knows them."""
    if tool.extra is None or read_object(tool.extra) is None:
        return {}
    given = msgspec.json.decode(tool.extra, type=dict[str, msgspec.Raw])
    if unknown := sorted(name for name in given if name not in known):
        repairs.add("system", tool.name, f"fields of another format: {', '.join(unknown)}")
    return {name: value for name, value in given.items() if name in known}


def function(declaration: Declared) -> dict[str, Any]:
    """Give name and description of a declaration."""
    value: dict[str, Any] = {"name": declaration.name}
    description = declaration.tool.description
    if description and not is_blank(description):
        value["description"] = well_formed(description)
    return value


def schema(declaration: Declared) -> msgspec.Raw:
    """Give the schema of a declaration's input, as spelled."""
    return msgspec.Raw((declaration.tool.input_schema or EMPTY_SCHEMA).encode())
