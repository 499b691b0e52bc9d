"""Pieces: what a prompt is made of, in order, each with its provenance. Encoders read nothing else.

An assembler gives a flat list. Tools and instructions come first, then the talk, then what is volatile. Calls of one
response are followed by their results; `group` says which elements one model message holds.
"""

from __future__ import annotations

import msgspec

VERBATIM = "verbatim"
TURN_MEMORY = "turn-memory"
SUMMARY = "summary"
REWRITE = "rewrite"
MEMORY = "memory"
TASK_LIST = "task list"
CONTEXT = "context"
RETRIEVED = "retrieved"
INSTRUCTIONS = "instructions"
TOOLS = "tools"
REPAIR = "repair"
DROPPED = "dropped"

UNANSWERED = "unanswered"
"""The status of the result that stands in for one that was never recorded."""


class Text(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="text"):
    """Text of a user, of the system or of the agent (the piece's role says which)."""

    text: str
    signature: str | None = None
    opaque: str | None = None
    """The provider's whole part as JSON text, where it was recorded: it may carry ids, citations or a phase."""
    provider: str | None = None
    model: str | None = None
    item: str | None = None
    needs: str | None = None


class Image(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="image"):
    """A picture, by attachment hash or place."""

    media_type: str | None = None
    attachment: str | None = None
    url: str | None = None


class Document(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="document"):
    """A document, by attachment hash or place."""

    media_type: str | None = None
    attachment: str | None = None
    url: str | None = None
    name: str | None = None
    title: str | None = None


class Foreign(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="foreign"):
    """A part that only its own provider (and model, where given) understands, as JSON text; sent back verbatim."""

    json: str
    provider: str | None = None
    model: str | None = None
    item: str | None = None
    needs: str | None = None


class Reasoning(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="reasoning"):
    """Reasoning, for the provider and model that made it only."""

    text: str
    signature: str | None = None
    opaque: str | None = None
    """The provider's whole part as JSON text, where it was recorded."""
    provider: str | None = None
    model: str | None = None
    item: str | None = None
    needs: str | None = None


class Call(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="call"):
    """A tool call. `node` pairs it with its result; `id` is the stored call id, not yet fit for any wire."""

    id: str
    node: int
    name: str
    input: str
    """JSON text as the model spelled it; may be no JSON when a stream was cut."""
    server: str | None = None
    kind: str = "function"
    signature: str | None = None
    opaque: str | None = None
    provider: str | None = None
    model: str | None = None
    item: str | None = None
    needs: str | None = None


class Result(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="result"):
    """What came back for the call at `node`."""

    id: str
    node: int
    status: str
    content: tuple[Text | Image | Document | Foreign, ...] = ()
    server: bool = False
    """The provider's own server answered, inside the model's message."""
    name: str = ""
    """The call's tool name."""


class Tool(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool's declaration; `input_schema` is JSON Schema text, `extra` JSON object text of provider fields."""

    name: str
    description: str | None = None
    input_schema: str | None = None
    extra: str | None = None


class Tools(msgspec.Struct, frozen=True, gc=False, tag="tools"):
    """All tools that the model may call, as set."""

    tools: tuple[Tool, ...]


Element = Text | Image | Document | Foreign | Reasoning | Call | Result | Tools


class Piece(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One element of a prompt, where it came from and why it stands there."""

    provenance: str
    role: str
    """system, user, assistant or tool."""
    element: Element
    sources: tuple[int, ...] = ()
    """Positions of the events it was made of."""
    group: str = ""
    """Elements of one model message share it; empty where that is unknown."""
    rule: str = ""
    """Why it is as it is, where it is not simply verbatim."""
    volatile: bool = False
    """Stands after the newest cache mark: it may change with every call."""
