"""What stands around the talk: tools and instructions before it, context and task list behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from . import wording_v1 as wording
from .pieces_v1 import CONTEXT, INSTRUCTIONS, TASK_LIST, TOOLS, Piece, Text, Tool
from .pieces_v1 import Tools as ToolsElement
from .view_v1 import Context, Instructions, Node, Part, Todos, Tools
from .view_v1 import Tool as ToolView

Cited = TypeVar("Cited", Part, ToolView)

TAIL = "tail"
SYSTEM = "system"

_FRAMING = frozenset({Tools, Instructions, Context, Todos})


class MissingPart(Exception):
    """What is in force cites an event whose words were erased: the prompt cannot be derived."""

    def __init__(self, position: int) -> None:
        super().__init__(f"event {position}, which the instructions or tools in force cite, was erased")
        self.position = position


class Frame(msgspec.Struct, frozen=True):
    """What is in force at the end of a path: the last whole value of each, and all values that it may cite."""

    tools: Node | None
    instructions: Node | None
    todos: Node | None
    contexts: dict[str, Node]
    known_tools: dict[int, tuple[ToolView, ...]]
    known_instructions: dict[int, tuple[Part, ...]]


def frame(path: Sequence[Node]) -> Frame:
    """Read what is in force at the end of a path."""
    last: dict[str, Node] = {}
    contexts: dict[str, Node] = {}
    tools: dict[int, tuple[ToolView, ...]] = {}
    instructions: dict[int, tuple[Part, ...]] = {}
    for node in path:
        body = node.body
        kind = type(body)
        if kind not in _FRAMING:
            continue
        if isinstance(body, Context):
            contexts.pop(body.name, None)
            if body.text is not None:
                contexts[body.name] = node
            continue
        last[kind.__name__] = node
        if isinstance(body, Tools):
            tools[node.position] = body.tools
        elif isinstance(body, Instructions):
            instructions[node.position] = body.parts
    return Frame(
        last.get("Tools"),
        last.get("Instructions"),
        last.get("Todos"),
        contexts,
        tools,
        instructions,
    )


def before(found: Frame) -> list[Piece]:
    """Give the tools and instructions in force."""
    pieces: list[Piece] = []
    if found.tools is not None and isinstance(found.tools.body, Tools):
        declared = tuple(_tool(tool, found.known_tools) for tool in found.tools.body.tools)
        if declared:
            pieces.append(Piece(TOOLS, SYSTEM, ToolsElement(declared), (found.tools.position,)))
    if found.instructions is not None and isinstance(found.instructions.body, Instructions):
        sources = (found.instructions.position,)
        for part in found.instructions.body.parts:
            text = _resolved(part, found.known_instructions).text or ""
            pieces.append(Piece(INSTRUCTIONS, SYSTEM, Text(text), sources, rule=part.name))
    return pieces


def behind(found: Frame, task_list: str = TAIL, context: str = TAIL) -> list[Piece]:
    """Give the runtime context and the task list in force.

    `tail` puts them last, after the newest cache mark; `system` is the older form, among the instructions.
    """
    pieces: list[Piece] = []
    for name in sorted(found.contexts):
        node = found.contexts[name]
        assert isinstance(node.body, Context)
        text = Text(wording.context(name, node.body.text or ""))
        pieces.append(Piece(CONTEXT, _role(context), text, (node.position,), volatile=context == TAIL))
    todos = found.todos
    if todos is not None and isinstance(todos.body, Todos) and todos.body.todos:
        lines = [wording.todo(todo.content, todo.status, todo.note) for todo in todos.body.todos]
        text = Text(wording.task_list(lines))
        pieces.append(Piece(TASK_LIST, _role(task_list), text, (todos.position,), volatile=task_list == TAIL))
    return pieces


def around(
    path: Sequence[Node], task_list: str = TAIL, context: str = TAIL, notices: Iterable[str] = ()
) -> tuple[list[Piece], list[Piece]]:
    """Give what stands before a talk and behind it; `notices` are instructions of the assembler itself."""
    found = frame(path)
    tail = behind(found, task_list, context)
    head = [
        *before(found),
        *(Piece(INSTRUCTIONS, SYSTEM, Text(text), rule="origin: assembler") for text in notices),
        *(piece for piece in tail if piece.role == SYSTEM),
    ]
    return head, [piece for piece in tail if piece.role != SYSTEM]


def framed(path: Sequence[Node], talk: list[Piece], task_list: str = TAIL, context: str = TAIL) -> list[Piece]:
    """Put the frame around a talk."""
    head, tail = around(path, task_list, context)
    return [*head, *talk, *tail]


def _role(place: str) -> str:
    return SYSTEM if place == SYSTEM else "user"


def _tool(tool: ToolView, known: Mapping[int, Sequence[ToolView]]) -> Tool:
    """Give a declaration, resolved where it cites an earlier `tools.set`."""
    tool = _resolved(tool, known)
    return Tool(tool.name, tool.description, tool.input_schema, tool.extra)


def _resolved(member: Cited, known: Mapping[int, Sequence[Cited]]) -> Cited:
    """Follow a member's citations to the event that says it whole."""
    while (since := member.since) is not None:
        cited = next((other for other in known.get(since, ()) if other.name == member.name), None)
        if cited is None:
            raise MissingPart(since)
        member = cited
    return member
