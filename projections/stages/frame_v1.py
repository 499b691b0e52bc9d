"""What stands around the talk: tools and instructions before it, context and task list behind it."""

from __future__ import annotations

from collections.abc import Sequence

from . import wording_v1 as wording
from .pieces_v1 import CONTEXT, INSTRUCTIONS, TASK_LIST, TOOLS, Piece, Text, Tool
from .pieces_v1 import Tools as ToolsElement
from .view_v1 import Context, Instructions, Node, Part, Todos, Tools
from .view_v1 import Tool as ToolView

TAIL = "tail"
SYSTEM = "system"


def before(path: Sequence[Node]) -> list[Piece]:
    """Give the tools and instructions in force at the end of a path: the last whole value of each."""
    pieces: list[Piece] = []
    tools = _last(path, Tools)
    if tools is not None and isinstance(tools.body, Tools):
        known = {node.position: node.body for node in path if isinstance(node.body, Tools)}
        declared = tuple(_tool(tool, known) for tool in tools.body.tools)
        if declared:
            pieces.append(Piece(TOOLS, "system", ToolsElement(declared), (tools.position,)))
    instructions = _last(path, Instructions)
    if instructions is not None and isinstance(instructions.body, Instructions):
        earlier = {node.position: node.body for node in path if isinstance(node.body, Instructions)}
        for part in instructions.body.parts:
            text = _part(part, earlier)
            pieces.append(Piece(INSTRUCTIONS, "system", Text(text), (instructions.position,), rule=part.name))
    return pieces


def behind(path: Sequence[Node], task_list: str = TAIL, context: str = TAIL) -> list[Piece]:
    """Give the runtime context and the task list in force at the end of a path.

    `tail` puts them last, after the newest cache mark; `system` is the older form, among the instructions.
    """
    pieces: list[Piece] = []
    named: dict[str, Node] = {}
    for node in path:
        if isinstance(node.body, Context):
            named.pop(node.body.name, None)
            if node.body.text is not None:
                named[node.body.name] = node
    for name in sorted(named):
        node = named[name]
        assert isinstance(node.body, Context)
        text = Text(wording.context(name, node.body.text or ""))
        pieces.append(Piece(CONTEXT, _role(context), text, (node.position,), volatile=context == TAIL))
    todos = _last(path, Todos)
    if todos is not None and isinstance(todos.body, Todos) and todos.body.todos:
        lines = [wording.todo(todo.content, todo.status, todo.note) for todo in todos.body.todos]
        text = Text(wording.task_list(lines))
        pieces.append(Piece(TASK_LIST, _role(task_list), text, (todos.position,), volatile=task_list == TAIL))
    return pieces


def framed(path: Sequence[Node], talk: list[Piece], task_list: str = TAIL, context: str = TAIL) -> list[Piece]:
    """Put the frame around a talk."""
    tail = behind(path, task_list, context)
    return [
        *before(path),
        *(piece for piece in tail if piece.role == SYSTEM),
        *talk,
        *(piece for piece in tail if piece.role != SYSTEM),
    ]


def _role(place: str) -> str:
    return SYSTEM if place == SYSTEM else "user"


def _last(path: Sequence[Node], kind: type[Tools | Instructions | Todos]) -> Node | None:
    return next((node for node in reversed(path) if isinstance(node.body, kind)), None)


def _tool(tool: ToolView, known: dict[int, Tools]) -> Tool:
    """Resolve a declaration that cites an earlier `tools.set`."""
    while tool.since is not None:
        tool = next(other for other in known[tool.since].tools if other.name == tool.name)
    return Tool(tool.name, tool.description, tool.input_schema, tool.extra)


def _part(part: Part, earlier: dict[int, Instructions]) -> str:
    """Resolve a part that cites an earlier `instructions.set`."""
    while part.since is not None:
        part = next(other for other in earlier[part.since].parts if other.name == part.name)
    return part.text or ""
