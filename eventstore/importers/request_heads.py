"""What a request's body says beside its messages: instructions and tools."""

from __future__ import annotations

from msgspec import Raw

from ..events import Part, Tool
from .slices import Entries, Fields, clean_text, fields_of, items_of, name_of, object_text, spelled

ORIGIN = "request"
WRAPPED = frozenset({"function", "custom"})
"""Kinds of tool that the chat form declares in an object of that name."""

STANDING = ("system", "instructions")
"""Where Anthropic's and OpenAI's bodies put standing instructions."""


def instructions_of(entries: Fields) -> tuple[tuple[Part, ...], Entries]:
    """Give a body's standing instructions, and what of them is no plain text.

    A list of texts becomes a part each; what a text has over (a cache mark) is given as the list of it.
    """
    for name in STANDING:
        said = entries.get(name)
        text = clean_text(said)
        if text is not None and not text[1]:
            return ((Part(name, text[0], ORIGIN),) if text[0] else ()), []
        blocks = items_of(said)
        if not blocks:
            continue
        read = [fields_of(block) or {} for block in blocks]
        texts = [clean_text(fields.get("text")) for fields in read]
        if all(found is not None and not found[1] for found in texts):
            parts = (
                Part(name if number == 1 else f"{name}-{number}", found[0], ORIGIN)
                for number, found in enumerate(texts, 1)
                if found is not None
            )
            rests = ",".join(object_text(_over(fields, {"text"})) or "{}" for fields in read)
            return tuple(parts), [(name, f"[{rests}]".encode())]
    return (), []


def tools_of(entries: Fields) -> tuple[Tool, ...] | None:
    """Give a body's tools; None where it has none, or one without a name."""
    items = items_of(entries.get("tools"))
    if not items:
        return None
    tools = [_tool(item) for item in items]
    found = tuple(tool for tool in tools if tool is not None)
    return found if len(found) == len(tools) else None


def _tool(item: Raw) -> Tool | None:
    """Give a tool: the provider's own ones have no more than a type, and go by it."""
    fields = fields_of(item) or {}
    kind = name_of(fields.get("type"))
    inner = fields_of(fields.get(kind)) if kind in WRAPPED else None
    said = fields if inner is None else inner
    name = name_of(said.get("name")) or kind
    if not name:
        return None
    schema = next((field for field in ("input_schema", "parameters") if field in said), None)
    description = name_of(said.get("description"))
    mapped = {"name"} if name_of(said.get("name")) else set()
    mapped |= ({schema} if schema else set()) | ({"description"} if description is not None else set())
    over = _over(said, mapped)
    if inner is not None:
        rest = object_text(over)
        over = [*_over(fields, {str(kind)}), (str(kind), (rest or "{}").encode())]
    return Tool(
        name=name,
        description=description,
        input_schema=spelled(said[schema]) if schema else None,
        origin=ORIGIN,
        extra=object_text(over),
    )


def _over(fields: Fields, mapped: set[str]) -> Entries:
    return [entry for entry in fields.items() if entry[0] not in mapped]
