"""The neutral read model of stored nodes and notes, read straight from their stored bytes.

The structs here are this stage's own and say only what derivation needs: they do not change when the store's do. A body
comes at the current schema version of its type (upcasters add and never reinterpret); what is unknown reads as `Other`.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Stored(msgspec.Struct, frozen=True):
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


class Source(msgspec.Struct, frozen=True):
    """Who stated it."""

    kind: str = ""
    name: str | None = None
    provider: str | None = None
    model: str | None = None


class TextBlock(msgspec.Struct, frozen=True, tag="text"):
    """A run of text."""

    text: str


class ImageBlock(msgspec.Struct, frozen=True, tag="image"):
    """A picture, by attachment or place."""

    media_type: str | None = None
    attachment: str | None = None
    url: str | None = None
    name: str | None = None


class DocumentBlock(msgspec.Struct, frozen=True, tag="document"):
    """A document, by attachment or place."""

    media_type: str | None = None
    attachment: str | None = None
    url: str | None = None
    name: str | None = None
    title: str | None = None


class ForeignBlock(msgspec.Struct, frozen=True, tag="foreign"):
    """A block without a neutral form, as JSON text."""

    json: str
    provider: str | None = None


Block = TextBlock | ImageBlock | DocumentBlock | ForeignBlock


class Root(msgspec.Struct, frozen=True):
    """`thread.created`."""

    cwd: str | None = None
    agent: str | None = None


class Part(msgspec.Struct, frozen=True):
    """A part of the instructions."""

    name: str
    text: str | None = None
    origin: str = "host"
    since: int | None = None


class Instructions(msgspec.Struct, frozen=True):
    """`instructions.set`."""

    parts: tuple[Part, ...]


class Tool(msgspec.Struct, frozen=True):
    """A tool's declaration."""

    name: str
    description: str | None = None
    input_schema: str | None = None
    extra: str | None = None
    since: int | None = None


class Tools(msgspec.Struct, frozen=True):
    """`tools.set`."""

    tools: tuple[Tool, ...]


class Context(msgspec.Struct, frozen=True):
    """`context.set`."""

    name: str
    text: str | None


class Input(msgspec.Struct, frozen=True):
    """`input.added`."""

    content: tuple[Block, ...]
    role: str = "user"
    steer: bool = False
    item: str | None = None
    needs: str | None = None


class RetrievedItem(msgspec.Struct, frozen=True):
    """One retrieved item."""

    text: str
    origin: str


class Retrieved(msgspec.Struct, frozen=True):
    """`context.retrieved`."""

    items: tuple[RetrievedItem, ...]


class Segment(msgspec.Struct, frozen=True):
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


class Call(msgspec.Struct, frozen=True):
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


class Facts(msgspec.Struct, frozen=True):
    """What a tool stated of its work."""

    path: str | None = None
    file_changed: str | None = None
    command: str | None = None
    failed_command: str | None = None
    exit_code: int | float | None = None
    server: str | None = None
    tool: str | None = None


class Result(msgspec.Struct, frozen=True):
    """`tool.returned`."""

    call: str
    status: str = "ok"
    facts: Facts | None = None
    form: str = "text"
    response: str | None = None
    part: int | None = None


class Asked(msgspec.Struct, frozen=True):
    """`approval.asked`."""

    call: str | None = None
    text: str = ""


class Answered(msgspec.Struct, frozen=True):
    """`approval.answered`."""

    decision: str
    by: str = "user"
    rule: str | None = None
    reason: str | None = None


class TodoItem(msgspec.Struct, frozen=True):
    """One entry of the task list."""

    content: str
    status: str = "pending"
    note: str | None = None


class Todos(msgspec.Struct, frozen=True):
    """`todo.written`."""

    todos: tuple[TodoItem, ...]


class TurnEnd(msgspec.Struct, frozen=True):
    """`turn.ended`."""

    node: int
    state: str = "done"


class PendingCleared(msgspec.Struct, frozen=True):
    """`pending.cleared`."""

    node: int


class Summary(msgspec.Struct, frozen=True):
    """`summary.added`."""

    first: int
    last: int
    text: str


class Invalidated(msgspec.Struct, frozen=True):
    """`summary.invalidated`."""

    summary: int


class Promoted(msgspec.Struct, frozen=True):
    """`result.promoted`."""

    call: int
    text: str
    reason: str


class RedactedTarget(msgspec.Struct, frozen=True):
    """An erased event."""

    position: int


class Redacted(msgspec.Struct, frozen=True):
    """`redacted`."""

    targets: tuple[RedactedTarget, ...]


class Other(msgspec.Struct, frozen=True):
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
    | Other
)


class Node(msgspec.Struct, frozen=True):
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
    }.items()
}
_BLOCKS = msgspec.json.Decoder(tuple[Block, ...])
_REFS = msgspec.json.Decoder(tuple[tuple[str, int], ...])
_SOURCE = msgspec.json.Decoder(Source)
OTHER = Other()


def read(stored: Stored, sources: dict[bytes, Source]) -> Node:
    """Read one event; `sources` remembers what was read already (many events, few sources)."""
    source = sources.get(stored.source)
    if source is None:
        source = sources[stored.source] = _SOURCE.decode(stored.source)
    decoder = _DECODERS.get(stored.type)
    if decoder is None or stored.body is None:
        return Node(stored.position, OTHER, source, missing=decoder is not None)
    answers = None
    if stored.refs is not None:
        answers = next((position for word, position in _REFS.decode(stored.refs) if word == "answers"), None)
    return Node(stored.position, decoder.decode(stored.body), source, answers, stored.output, stored.missing)


def read_all(events: tuple[Stored, ...]) -> list[Node]:
    """Read many events."""
    sources: dict[bytes, Source] = {}
    return [read(stored, sources) for stored in events]


def blocks(output: bytes) -> tuple[Block, ...]:
    """Read a result's output of the form "blocks"."""
    return _BLOCKS.decode(output)
