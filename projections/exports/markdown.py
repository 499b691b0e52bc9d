"""A page to read: the active path, then every branch that leaves it; originals in full, summaries marked."""

from __future__ import annotations

import re
from collections.abc import Iterator

from convlog.eventstore.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Content,
    ContextRetrieved,
    ContextSet,
    Document,
    Event,
    Image,
    InputAdded,
    InstructionsSet,
    SegmentAdded,
    SummaryAdded,
    Text,
    TodoWritten,
    ToolCalled,
    ToolReturned,
    ToolsSet,
    TurnEnded,
)
from convlog.eventstore.thread import Thread

from .kept import source_id
from .messages import output_blocks, summaries
from .times import iso
from .visible import visible, visible_line

_TICKS = re.compile("`{3,}")
_HEADING = re.compile(r"^(#{1,6}\s)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_CODE_OR_TAG = re.compile(r"(`+)[^`]*\1|<(?=[A-Za-z/!?])")

MARKS = {"pending": "[ ]", "in_progress": "[~]", "done": "[x]", "blocked": "[!]"}

SPEAKERS = {"user": "User", "host": "Program", "system": "System", "model": "Agent"}
"""Who put an input in, by the kind of its source."""


def export(thread: Thread, leaf: int | None) -> Iterator[bytes]:
    """Iterate over the parts of a page."""
    for part in _Page(thread).parts(leaf):
        yield f"{part}\n\n".encode()


class _Page:
    """A thread on its way onto a page."""

    def __init__(self, thread: Thread) -> None:
        self._thread = thread
        self._tree = thread.tree
        self._summaries = summaries(thread)
        self._ends = {
            event.body.node: event.body
            for event in thread.events(types=(TurnEnded.TYPE,))
            if isinstance(event.body, TurnEnded)
        }

    def parts(self, leaf: int | None) -> Iterator[str]:
        active = self._thread.head if leaf is None else leaf
        yield from self._head()
        yield from self._nodes(self._tree.path(active))
        if leaf is not None:
            return
        path = set(self._tree.path(active))
        told = set(path)
        for number, stem, last in self._tree.branches():
            nodes = [node for node in self._tree.path(last) if node > stem and node not in told]
            if nodes:
                told.update(nodes)
                above = self._tree.parent(nodes[0]) or 1
                name = self._names().get(last)
                label = f"{number} ({visible_line(name)})" if name else str(number)
                yield f"# Branch {label}: below {above}"
                yield from self._nodes(nodes)

    def _names(self) -> dict[int, str]:
        return {node: name for name, node in self._thread.branch_names().items()}

    def _head(self) -> Iterator[str]:
        row = self._thread.store.row(self._thread.id)
        yield f"# {visible_line(row.title or source_id(self._thread))}"
        facts = [f"- thread `{self._thread.id}`"]
        facts += [
            f"- {name} `{visible_line(value)}`" for name, value in (("agent", row.agent), ("folder", row.cwd)) if value
        ]
        leaves = len(self._tree.leaves())
        yield "\n".join([*facts, f"- {leaves} branch{'' if leaves == 1 else 'es'}, active node {self._thread.head}"])

    def _nodes(self, positions: list[int]) -> Iterator[str]:
        here = set(positions)
        for event in self._events(positions):
            node = event.position
            yield from (self._summary(at, summary) for at, summary in self._summaries if summary.first == node)
            if node > 1:
                yield from self._node(event)
            ended = [at for at, summary in self._summaries if summary.last == node]
            if ended:
                yield f"*(end of what summary {', '.join(map(str, ended))} stands for)*"
            forks = [child for child in self._tree.children(node) if child not in here]
            if forks:
                yield f"*(here begin: {', '.join(map(str, forks))})*"

    def _events(self, positions: list[int]) -> Iterator[Event]:
        wanted = set(positions)
        if not positions:
            return
        for event in self._thread.events(positions[0], positions[-1]):
            if event.position in wanted:
                yield event

    def _summary(self, at: int, summary: SummaryAdded) -> str:
        text = visible(Text(summary.text, summary.halves).original)
        quoted = "\n".join(f"> {line}" for line in text.split("\n"))
        maker = visible_line(summary.maker)
        return f"> **Summary {at}** of {summary.first}..{summary.last}, by {maker}; the originals follow.\n>\n{quoted}"

    def _node(self, event: Event) -> Iterator[str]:
        heading = f"## {_heading(event)} · {event.position}"
        if event.occurred_at is not None:
            heading += f" · {iso(event.occurred_at, timespec='seconds')}"
        yield heading
        yield from (part for part in _said(event) if part)
        ended = self._ends.get(event.position)
        if ended is not None and ended.state != "done":
            yield f"*(the turn ended: {ended.state}{f', {visible_line(ended.error)}' if ended.error else ''})*"


def _heading(event: Event) -> str:
    body = event.body
    match body:
        case InputAdded():
            who = "System" if body.role == "system" else SPEAKERS.get(event.source.kind, event.source.kind)
            return f"{who}, steering" if body.steer and event.source.kind == "user" else who
        case SegmentAdded():
            model = f" ({visible_line(event.source.model)})" if event.source.model else ""
            return {"text": "Assistant", "reasoning": "Reasoning"}.get(body.kind, body.kind.capitalize()) + model
        case ToolCalled():
            return f"Call of `{visible_line(body.name)}`"
        case ToolReturned():
            return f"Result, {visible_line(body.status)}"
    return event.type.replace(".", " ").capitalize()


def _said(event: Event) -> Iterator[str]:
    body = event.body
    match body:
        case None:
            yield "*(erased)*"
        case InputAdded():
            yield from map(_content, body.content)
        case SegmentAdded():
            yield _segment(body)
        case ToolCalled():
            yield fenced(body.input, "" if body.kind == "custom" else "json")
        case ToolReturned():
            yield from _result(event, body)
        case ApprovalAsked():
            yield prose(body.text)
        case ApprovalAnswered():
            yield prose(f"{body.decision}, by {body.by}{f': {body.reason}' if body.reason else ''}")
        case _:
            yield from _standing(body)


def _standing(body: object) -> Iterator[str]:
    """Give what is set before the talk, or beside it."""
    match body:
        case InstructionsSet():
            yield from (f"**{visible_line(part.name)}**\n\n{fenced(part.text)}" for part in body.parts if part.text)
        case ToolsSet():
            yield ", ".join(f"`{visible_line(tool.name)}`" for tool in body.tools)
        case ContextSet():
            yield f"**{visible_line(body.name)}**\n\n{fenced(body.text or '')}"
        case ContextRetrieved():
            yield from (f"from `{visible_line(item.origin)}`\n\n{fenced(item.text)}" for item in body.items)
        case TodoWritten():
            rows = ((MARKS.get(todo.status, todo.status), todo.content, todo.note) for todo in body.todos)
            yield "\n".join(
                f"- {mark} {visible_line(text)}{f' ({visible_line(note)})' if note else ''}"
                for mark, text, note in rows
            )


def _segment(body: SegmentAdded) -> str:
    if body.opaque is not None and not body.text:
        return fenced(body.opaque, "json")
    if body.kind == "reasoning":
        return "\n".join(f"> {line}" for line in visible(body.original).split("\n"))
    return fenced(body.original, "diff") if body.kind == "diff" else prose(body.original)


def _result(event: Event, body: ToolReturned) -> Iterator[str]:
    if event.output is None:
        yield f"*(output of {body.bytes:,} bytes, not kept)*" if body.bytes is not None else "*(no output)*"
    for part in output_blocks(event):
        yield fenced(part.original, "json" if body.form == "json" else "") if isinstance(part, Text) else _content(part)


def _content(part: Content) -> str:
    if isinstance(part, Text):
        return prose(part.original)
    if isinstance(part, Image | Document):
        kind = "image" if isinstance(part, Image) else "document"
        place = part.url or (f"attachment {part.attachment}" if part.attachment else "")
        named = " ".join(filter(None, (kind, part.media_type, part.name, place)))
        return f"*({visible_line(named)})*"
    return fenced(part.json, "json")


def prose(text: str) -> str:
    """Write words as they are, but so that no heading, tag or open block in them changes the page around them."""
    lines = []
    fence = ""
    for line in visible(text).split("\n"):
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and line.strip() == mark[1] and mark[1].startswith(fence) else fence
        elif mark:
            fence = mark[1]
        else:
            line = _outside_code(_HEADING.sub(r"\\\1", line))  # noqa: PLW2901 - the same line
        lines.append(line)
    return "\n".join([*lines, fence] if fence else lines)


def _outside_code(line: str) -> str:
    """Write tags so that they are read, not taken for tags; code in the line stays."""
    return _CODE_OR_TAG.sub(lambda match: match[0] if match[1] else "\\<", line)


def fenced(text: str, language: str = "") -> str:
    """Write a text as a block that nothing in it can end."""
    longest = max((len(run) for run in _TICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{visible(text)}\n{fence}"
