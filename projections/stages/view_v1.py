"""The neutral read model of stored nodes and notes, read straight from their stored bytes.

The structs here are this stage's own and say only what derivation needs: they do not change when the store's do. A body
comes at the current schema version of its type (upcasters add and never reinterpret); what is unknown reads as `Other`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec


class Stored(msgspec.Struct, frozen=True, gc=False):
    """One event as handed to a projection."""

    position: int
    type: str
    source: bytes
    """Canonical JSON of the source."""
    refs: bytes | None
    """JSON list of [word, position]."""
    body: bytes | None
    """JSON; None when it was erased and nothing stands in its place."""
    output: bytes | None = None
    missing: bool = False
    """An output that was never kept, or erased: a prompt that needs it cannot be derived."""


class Source(msgspec.Struct, frozen=True, gc=False):
    """Who stated it."""

    kind: str = ""
    name: str | None = None
    provider: str | None = None
    model: str | None = None


class TextBlock(msgspec.Struct, frozen=True, gc=False, tag="text"):
    """A run of text."""

    text: str


class ImageBlock(msgspec.Struct, frozen=True, gc=False, tag="image"):
    """A picture, by attachment or place."""

    media_type: str | None = None
    attachment: str | None = None
    url: str | None = None
    name: str | None = None


class DocumentBlock(msgspec.Struct, frozen=True, gc=False, tag="document"):
    """A document, by attachment or place."""

    media_type: str | None = None
    attachment: str | None = None
    url: str | None = None
    name: str | None = None
    title: str | None = None


class ForeignBlock(msgspec.Struct, frozen=True, gc=False, tag="foreign"):
    """A block without a neutral form, as JSON text."""

    json: str
    provider: str | None = None


Block = TextBlock | ImageBlock | DocumentBlock | ForeignBlock


class Root(msgspec.Struct, frozen=True, gc=False):
    """`thread.created`."""

    cwd: str | None = None
    agent: str | None = None


class Part(msgspec.Struct, frozen=True, gc=False):
    """A part of the instructions."""

    name: str
    text: str | None = None
    origin: str = "host"
    since: int | None = None


class Instructions(msgspec.Struct, frozen=True, gc=False):
    """`instructions.set`."""

    parts: tuple[Part, ...]


class Tool(msgspec.Struct, frozen=True, gc=False):
    """A tool's declaration."""

    name: str
    description: str | None = None
    input_schema: str | None = None
    extra: str | None = None
    since: int | None = None


class Tools(msgspec.Struct, frozen=True, gc=False):
    """`tools.set`."""

    tools: tuple[Tool, ...]


class Context(msgspec.Struct, frozen=True, gc=False):
    """`context.set`."""

    name: str
    text: str | None


class Input(msgspec.Struct, frozen=True, gc=False):
    """`input.added`."""

    content: tuple[Block, ...]
    role: str = "user"
    steer: bool = False
    item: str | None = None
    needs: str | None = None


class RetrievedItem(msgspec.Struct, frozen=True, gc=False):
    """One retrieved item."""

    text: str
    origin: str


class Retrieved(msgspec.Struct, frozen=True, gc=False):
    """`context.retrieved`."""

    items: tuple[RetrievedItem, ...]


class Segment(msgspec.Struct, frozen=True, gc=False):
    """`segment.added`."""

    kind: str = "text"
    text: str = ""
    response: str | None = None
    part: int | None = None
    item: str | None = None
    needs: str | None = None
    signature: str | None = None
    opaque: str | None = None
    stop: str | None = None


class Call(msgspec.Struct, frozen=True, gc=False):
    """`tool.called`."""

    call: str
    name: str
    input: str = "{}"
    server: str | None = None
    kind: str = "function"
    response: str | None = None
    part: int | None = None
    item: str | None = None
    needs: str | None = None
    signature: str | None = None
    opaque: str | None = None


class Facts(msgspec.Struct, frozen=True, gc=False):
    """What a tool stated of its work."""

    path: str | None = None
    file_changed: str | None = None
    command: str | None = None
    failed_command: str | None = None
    exit_code: int | float | None = None
    server: str | None = None
    tool: str | None = None


class Result(msgspec.Struct, frozen=True, gc=False):
    """`tool.returned`."""

    call: str
    status: str = "ok"
    facts: Facts | None = None
    form: str = "text"
    response: str | None = None
    part: int | None = None


class Asked(msgspec.Struct, frozen=True, gc=False):
    """`approval.asked`."""

    call: str | None = None
    text: str = ""


class Answered(msgspec.Struct, frozen=True, gc=False):
    """`approval.answered`."""

    decision: str
    by: str = "user"
    rule: str | None = None
    reason: str | None = None


class TodoItem(msgspec.Struct, frozen=True, gc=False):
    """One entry of the task list."""

    content: str
    status: str = "pending"
    note: str | None = None


class Todos(msgspec.Struct, frozen=True, gc=False):
    """`todo.written`."""

    todos: tuple[TodoItem, ...]


class TurnEnd(msgspec.Struct, frozen=True, gc=False):
    """`turn.ended`."""

    node: int
    state: str = "done"


class PendingCleared(msgspec.Struct, frozen=True, gc=False):
    """`pending.cleared`."""

    node: int


class Summary(msgspec.Struct, frozen=True, gc=False):
    """`summary.added`."""

    first: int
    last: int
    text: str


class Invalidated(msgspec.Struct, frozen=True, gc=False):
    """`summary.invalidated`."""

    summary: int


class Promoted(msgspec.Struct, frozen=True, gc=False):
    """`result.promoted`."""

    call: int
    text: str
    reason: str


class RedactedTarget(msgspec.Struct, frozen=True, gc=False):
    """An erased event."""

    position: int


class Redacted(msgspec.Struct, frozen=True, gc=False):
    """`redacted`."""

    targets: tuple[RedactedTarget, ...]


class Noted(msgspec.Struct, frozen=True, gc=False):
    """`memory.noted`: what the project's memory was told."""

    kind: str = "fact"
    text: str = ""


class Other(msgspec.Struct, frozen=True, gc=False):
    """An event that derivation has no use for."""


Body = (
    Root
    | Instructions
    | Tools
    | Context
    | Input
    | Retrieved
    | Segment
    | Call
    | Result
    | Asked
    | Answered
    | Todos
    | TurnEnd
    | PendingCleared
    | Summary
    | Invalidated
    | Promoted
    | Redacted
    | Noted
    | Other
)


class Node(msgspec.Struct, frozen=True, gc=False):
    """One event, read."""

    position: int
    body: Body
    source: Source
    answers: int | None = None
    """The position of the call that a result answers."""
    output: bytes | None = None
    missing: bool = False


_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    name: msgspec.json.Decoder(body)
    for name, body in {
        "thread.created": Root,
        "instructions.set": Instructions,
        "tools.set": Tools,
        "context.set": Context,
        "input.added": Input,
        "context.retrieved": Retrieved,
        "segment.added": Segment,
        "tool.called": Call,
        "tool.returned": Result,
        "approval.asked": Asked,
        "approval.answered": Answered,
        "todo.written": Todos,
        "turn.ended": TurnEnd,
        "pending.cleared": PendingCleared,
        "summary.added": Summary,
        "summary.invalidated": Invalidated,
        "result.promoted": Promoted,
        "redacted": Redacted,
        "memory.noted": Noted,
    }.items()
}
_BLOCKS = msgspec.json.Decoder(tuple[Block, ...])
_REFS = msgspec.json.Decoder(tuple[tuple[str, int], ...])
_SOURCE = msgspec.json.Decoder(Source)
OTHER = Other()


def read_all(events: Iterable[Stored]) -> list[Node]:
    """Read events."""
    sources: dict[bytes, Source] = {}
    decode = {name: decoder.decode for name, decoder in _DECODERS.items()}
    nodes = []
    for stored in events:
        source = sources.get(stored.source)
        if source is None:
            source = sources[stored.source] = _SOURCE.decode(stored.source)
        decoder = decode.get(stored.type)
        if decoder is None or stored.body is None:
            nodes.append(Node(stored.position, OTHER, source, missing=decoder is not None))
        elif stored.refs is None:
            nodes.append(Node(stored.position, decoder(stored.body), source, None, stored.output, stored.missing))
        else:
            answers = _answers(stored.refs)
            nodes.append(Node(stored.position, decoder(stored.body), source, answers, stored.output, stored.missing))
    return nodes


def _answers(refs: bytes) -> int | None:
    for word, position in _REFS.decode(refs):
        if word == "answers":
            return position
    return None


def blocks(output: bytes) -> tuple[Block, ...]:
    """Read a result's output of the form "blocks"."""
    return _BLOCKS.decode(output)
