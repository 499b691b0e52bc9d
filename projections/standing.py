"""Instructions and tools that a caller hands to `prepare`: recorded only when they differ, unchanged parts cited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from convlog.eventstore.canonical import check_json_text, encode
from convlog.eventstore.errors import PayloadRejected
from convlog.eventstore.events import InstructionsSet, Part, Tool, ToolsSet
from convlog.eventstore.thread import Thread

Instructions = str | Mapping[str, str] | Sequence[Part]
"""One text, named texts in order, or parts with their origins."""

Tools = Sequence[Tool | Mapping[str, Any]]
"""Declarations: `Tool`, or mappings with name, description and input_schema (also the providers' own spellings)."""


def set_standing(thread: Thread, instructions: Instructions | None, tools: Tools | None) -> None:
    """Append what differs from what is in force at the head."""
    if instructions is None and tools is None:
        return
    path = thread.tree.path(thread.head)
    if instructions is not None:
        _set_instructions(thread, path, _parts(instructions))
    if tools is not None:
        _set_tools(thread, path, tuple(_tool(tool) for tool in tools))


def _set_instructions(thread: Thread, path: Sequence[int], parts: tuple[Part, ...]) -> None:
    position, before = _in_force(thread, path, InstructionsSet)
    known = {part.name: part for part in (before.parts if isinstance(before, InstructionsSet) else ())}
    cited = tuple(_cite(part, known.get(part.name), position) for part in parts)
    same_names = list(known) == [part.name for part in parts]
    if position is None or not same_names or any(part.since is None for part in cited):
        thread.append(InstructionsSet(parts=cited))


def _cite(part: Part, known: Part | None, position: int | None) -> Part:
    if known is None or position is None or (known.text, known.origin) != (part.text, part.origin):
        return part
    return Part(part.name, None, part.origin, position)


def _set_tools(thread: Thread, path: Sequence[int], tools: tuple[Tool, ...]) -> None:
    position, before = _in_force(thread, path, ToolsSet)
    known = {tool.name: tool for tool in (before.tools if isinstance(before, ToolsSet) else ())}
    cited = tuple(
        Tool(tool.name, origin=tool.origin, since=position) if known.get(tool.name) == tool and position else tool
        for tool in tools
    )
    if any(tool.since is None for tool in cited) or len(cited) != len(known) or position is None:
        thread.append(ToolsSet(tools=cited))


def _in_force(
    thread: Thread, path: Sequence[int], kind: type[InstructionsSet | ToolsSet]
) -> tuple[int | None, InstructionsSet | ToolsSet | None]:
    """Give the last whole value on the path, citations resolved, and its position."""
    on_path = set(path)
    found = [event for event in thread.events(types=(kind.TYPE,)) if event.position in on_path]
    if not found:
        return None, None
    earlier = {event.position: event.body for event in found}
    body = found[-1].body
    if isinstance(body, InstructionsSet):
        parts = tuple(_resolve_part(part, earlier) for part in body.parts)
        return found[-1].position, InstructionsSet(parts=parts)
    if isinstance(body, ToolsSet):
        return found[-1].position, ToolsSet(tools=tuple(_resolve_tool(tool, earlier) for tool in body.tools))
    return None, None


def _resolve_part(part: Part, earlier: Mapping[int, Any]) -> Part:
    while part.since is not None:
        part = next(other for other in earlier[part.since].parts if other.name == part.name)
    return part


def _resolve_tool(tool: Tool, earlier: Mapping[int, Any]) -> Tool:
    while tool.since is not None:
        tool = next(other for other in earlier[tool.since].tools if other.name == tool.name)
    return tool


def _parts(instructions: Instructions) -> tuple[Part, ...]:
    if isinstance(instructions, str):
        return (Part("instructions", instructions),)
    if isinstance(instructions, Mapping):
        return tuple(Part(name, text) for name, text in instructions.items())
    return tuple(instructions)


def _tool(tool: Tool | Mapping[str, Any]) -> Tool:
    if isinstance(tool, Tool):
        return tool
    declared = dict(tool.get("function", tool))
    try:
        name = declared.pop("name")
    except KeyError:
        raise PayloadRejected("a tool without a name", hint="give name, description and input_schema") from None
    schema = next(
        (declared.pop(key) for key in ("input_schema", "parameters", "parametersJsonSchema") if key in declared), None
    )
    description = declared.pop("description", None)
    declared.pop("type", None)
    text = check_json_text(schema) if isinstance(schema, str) else None if schema is None else encode(schema).decode()
    extra = encode(declared).decode() if declared else None
    return Tool(name, description, text, extra=extra)


def as_json(value: Any) -> str:
    """Give a struct's JSON text, as a manifest keeps it."""
    return msgspec.json.encode(value).decode()
