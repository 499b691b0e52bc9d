"""The tools of a request, fit for one format: names, descriptions, schemas, and tools that the provider itself runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache

import msgspec

from .declared_v1 import EMPTY_SCHEMA, GONE, Declared, declared, mended_name
from .pieces_v1 import Call, Piece, Tool
from .repairs_v1 import Repairs
from .target_v1 import Target
from .wire_v1 import read_object, well_formed


class Offer(msgspec.Struct, frozen=True):
    """One tool of the request; `type` is the provider's word for it, "" for a plain function."""

    declaration: Declared
    type: str = ""


def offered(
    pieces: Sequence[Piece], called: Sequence[Call], target: Target, is_native: Callable[[str], bool], repairs: Repairs
) -> list[Offer]:
    """Give the tools in the order of their names.

    Args:
        pieces: All pieces.
        called: The calls that go out and that the caller answered.
        target: Says which names, descriptions and numbers are taken.
        is_native: Says whether the format has tools of a type.
        repairs: Where to note what had to change.
    """
    name = namer(target)
    names = {name(call.name) for call in called}
    offers = []
    for declaration in declared(pieces, called, name, repairs):
        kind = tool_type(declaration.tool)
        if kind and is_native(kind):
            offers.append(Offer(declaration, kind))
        elif kind and declaration.name not in names:
            repairs.add("system", declaration.tool.name, f"a tool of another format: {kind}")
        elif kind:
            offers.append(Offer(msgspec.structs.replace(declaration, tool=Tool(declaration.tool.name, GONE))))
            repairs.add("system", declaration.tool.name, f"X7: called, so declared, though of another format: {kind}")
        else:
            offers.append(Offer(_fitted(declaration, target, repairs)))
    return _not_too_many(offers, names, target.tools_max, repairs)


def namer(target: Target) -> Callable[[str], str]:
    """Give the function that fits a tool's name for a target: as it is, or mended."""
    pattern = re.compile(target.tool_name)

    @cache
    def name(stated: str) -> str:
        return stated if pattern.fullmatch(stated) else mended_name(stated)

    return name


def tool_type(tool: Tool) -> str:
    """Give the provider's word for what kind of tool it is; "" for a function."""
    if tool.extra is None:
        return ""
    kind = (read_object(tool.extra) or {}).get("type")
    plain = kind == "function" or (kind == "custom" and tool.input_schema is not None)
    return kind if isinstance(kind, str) and not plain else ""


def _fitted(declaration: Declared, target: Target, repairs: Repairs) -> Declared:
    tool = declaration.tool
    cap = target.tool_description_chars_max
    description = tool.description and well_formed(tool.description)
    if description and cap is not None and len(description) > cap:
        description = description[:cap]
        repairs.add("system", tool.name, f"O10: only {cap} characters of the description")
    return msgspec.structs.replace(
        declaration,
        tool=msgspec.structs.replace(tool, description=description, input_schema=_schema(tool, repairs)),
    )


def _schema(tool: Tool, repairs: Repairs) -> str:
    """Give the schema as spelled, if it describes an object."""
    if tool.input_schema is None:
        return EMPTY_SCHEMA
    value = read_object(tool.input_schema)
    if value is not None and value.get("type") == "object":
        return tool.input_schema
    repairs.add("system", tool.name, "the schema does not describe an object")
    if value is None:
        return EMPTY_SCHEMA
    return msgspec.json.encode({**value, "type": "object"}).decode()


def _not_too_many(offers: list[Offer], called: Iterable[str], limit: int | None, repairs: Repairs) -> list[Offer]:
    """O3: the tools that were called stay, then the first by name."""
    if limit is None or len(offers) <= limit:
        return offers
    wanted = set(called)
    ranked = sorted(offers, key=lambda offer: offer.declaration.name not in wanted)
    for offer in ranked[limit:]:
        repairs.add("system", offer.declaration.tool.name, f"O3: more than {limit} tools")
    return sorted(ranked[:limit], key=lambda offer: offer.declaration.name)
