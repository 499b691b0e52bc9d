"""Instructions and tools that a caller hands to `prepare`: recorded only when they differ, unchanged parts cited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from convlog.eventstore.canonical import check_json_text, encode
from convlog.eventstore.errors import PayloadRejected
from convlog.eventstore.events import InstructionsSet, Part, Tool, ToolsSet
from convlog.eventstore.thread import Thread

Instructions = str | Mapping[str, str] | Sequence[Part]
"""One text, named texts in order, or parts with their origins."""

Tools = Sequence[Tool | Mapping[str, Any]]
"""Declarations: `Tool`, or mappings in one of the providers' own spellings."""

Named = TypeVar("Named", Part, Tool)

_SCHEMAS = ("input_schema", "parameters", "parametersJsonSchema", "inputSchema")
"""Where the providers' spellings hold a tool's schema."""


def differing(
    thread: Thread, leaf: int, instructions: Instructions | None, tools: Tools | None
) -> list[InstructionsSet | ToolsSet]:
    """Give what has to be set so that these are in force at a node; nothing when they are.

    Raises:
        PayloadRejected: not the types above, a name twice, a tool without a name, a schema that is no JSON.
    """
    found: list[InstructionsSet | ToolsSet] = []
    if instructions is None and tools is None:
        return found
    if instructions is not None:
        asked = _unique(_parts(instructions), "part")
        holders, before = _in_force(_values(thread, leaf, InstructionsSet.TYPE, "parts"))
        if before is None or list(before) != asked:
            found.append(InstructionsSet(parts=tuple(_cite_part(part, holders) for part in asked)))
    if tools is not None:
        declared = _unique([_tool(tool) for tool in _each_tool(tools)], "tool")
        holders_, before_ = _in_force(_values(thread, leaf, ToolsSet.TYPE, "tools"))
        if before_ is None or list(before_) != declared:
            found.append(ToolsSet(tools=tuple(_cite_tool(tool, holders_) for tool in declared)))
    return found


# --- what is in force ---


def _values(thread: Thread, leaf: int, type_: str, field: str) -> Iterator[tuple[int, tuple[Any, ...] | None]]:
    """Iterate over (position, members) of each whole value on a path; None for one that was erased."""
    tree = thread.tree
    for event in thread.events(last=leaf, types=(type_,)):
        if tree.is_above(event.position, leaf):
            yield event.position, getattr(event.body, field, None)


def _in_force(
    values: Iterable[tuple[int, tuple[Named, ...] | None]],
) -> tuple[dict[str, tuple[int, Named]], tuple[Named, ...] | None]:
    """Give, by name, the position that holds each member and the member; and the last whole value, citations resolved.

    The whole value is None when there is none, or when a member of it was erased.
    """
    held: dict[int, dict[str, Named]] = {}
    holders: dict[str, tuple[int, Named]] = {}
    whole: tuple[Named, ...] | None = None
    for position, members in values:
        named: dict[str, tuple[int, Named]] = {}
        for member in members or ():
            holder, said = _resolve(position, member, held)
            if said is not None:
                named.setdefault(member.name, (holder, said))
        held[position] = {member.name: member for member in reversed(members or ())}
        complete = members is not None and all(member.name in named for member in members)
        whole = tuple(named[member.name][1] for member in members or ()) if complete else None
        holders = named
    return holders, whole


def _resolve(position: int, member: Named, held: Mapping[int, Mapping[str, Named]]) -> tuple[int, Named | None]:
    """Follow a member's citations to the position that holds it; None where that was erased."""
    said: Named | None = member
    while said is not None and said.since is not None:
        position, said = said.since, held.get(said.since, {}).get(member.name)
    return position, said


def _cite_part(part: Part, holders: Mapping[str, tuple[int, Part]]) -> Part:
    position, known = holders.get(part.name, (0, None))
    return Part(part.name, None, part.origin, position) if known == part else part


def _cite_tool(tool: Tool, holders: Mapping[str, tuple[int, Tool]]) -> Tool:
    position, known = holders.get(tool.name, (0, None))
    return Tool(tool.name, origin=tool.origin, since=position) if known == tool else tool


# --- what is asked for ---


def _unique(members: Sequence[Named], what: str) -> list[Named]:
    seen: set[str] = set()
    for member in members:
        if not isinstance(member.name, str) or not member.name:
            raise PayloadRejected(f"a {what} whose name is {member.name!r:.60}", hint="names are texts")
        if member.since is not None:
            raise PayloadRejected(f"{what} {member.name!r:.60} cites position {member.since}", hint="give it whole")
        if member.name in seen:
            raise PayloadRejected(f"two {what}s are named {member.name!r:.60}", hint="names tell them apart")
        seen.add(member.name)
    return list(members)


def _parts(instructions: Instructions) -> list[Part]:
    if isinstance(instructions, str):
        return [Part("instructions", instructions)]
    if isinstance(instructions, Mapping):
        return [Part(name, text) for name, text in instructions.items()]
    if not isinstance(instructions, Sequence) or not all(isinstance(part, Part) for part in instructions):
        raise PayloadRejected(
            f"instructions of type {type(instructions).__name__}", hint="a text, named texts, or a list of Part"
        )
    return [part for part in instructions if isinstance(part, Part)]


def _each_tool(tools: Tools) -> Iterator[Tool | Mapping[str, Any]]:
    """Iterate over declarations, those apart that one of Gemini's entries holds together."""
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):
        raise PayloadRejected(f"tools of type {type(tools).__name__}", hint="give a list of declarations")
    for tool in tools:
        if isinstance(tool, Mapping) and isinstance(tool.get("functionDeclarations"), list):
            yield from tool["functionDeclarations"]
        else:
            yield tool


def _tool(tool: Tool | Mapping[str, Any]) -> Tool:
    """Read a declaration of Anthropic, OpenAI (both), Gemini or Bedrock; what has no field here stays in `extra`."""
    if isinstance(tool, Tool):
        return tool
    declared = tool.get("toolSpec", tool.get("function", tool)) if isinstance(tool, Mapping) else None
    if not isinstance(declared, Mapping):
        raise PayloadRejected(f"a tool of type {type(tool).__name__}", hint="give name, description and input_schema")
    members = dict(declared)
    if "name" not in members:
        raise PayloadRejected("a tool without a name", hint="give name, description and input_schema")
    name, description = members.pop("name"), members.pop("description", None)
    schema = next((members.pop(key) for key in _SCHEMAS if key in members), None)
    if isinstance(schema, Mapping) and "json" in schema and "toolSpec" in tool:
        schema = schema["json"]
    if members.get("type") == "function" or (members.get("type") == "custom" and schema is not None):
        del members["type"]
    text = check_json_text(schema) if isinstance(schema, str) else None if schema is None else encode(schema).decode()
    return Tool(name, description, text, extra=encode(members).decode() if members else None)


def as_json(value: Any) -> str:
    """Give a struct's JSON text, as a manifest keeps it."""
    return msgspec.json.encode(value).decode()
