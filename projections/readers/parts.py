"""What a provider's response holds, in neutral parts: one shape for all formats, whole or streamed, complete or cut.

Nothing is interpreted beyond its kind: texts and tool inputs stay as the model spelled them, and a part keeps the
provider's own JSON beside it where that says more than the neutral form.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec


class TextPart(msgspec.Struct, frozen=True, omit_defaults=True, tag="text"):
    """Text for the user."""

    text: str
    signature: str | None = None
    opaque: str | None = None
    """The provider's whole part as JSON text, where it holds more than the text: citations, ids, a phase."""
    item: str | None = None
    """The provider's id of this part."""
    needs: str | None = None
    """The provider's id of the part that this one depends on."""


class ReasoningPart(msgspec.Struct, frozen=True, omit_defaults=True, tag="reasoning"):
    """Reasoning: its text, or a summary, and what seals it."""

    text: str
    signature: str | None = None
    opaque: str | None = None
    item: str | None = None
    needs: str | None = None


class CallPart(msgspec.Struct, frozen=True, omit_defaults=True, tag="call"):
    """A tool call."""

    call: str
    """The id that its result names."""
    name: str
    input: str
    """Text as the model spelled it: JSON of an object, unless the tool is custom or the stream was cut."""
    kind: Literal["function", "custom", "server"] = "function"
    """`server`: the provider itself runs it."""
    server: str | None = None
    """The server behind the tool, where one is named."""
    signature: str | None = None
    opaque: str | None = None
    item: str | None = None
    needs: str | None = None


class ResultPart(msgspec.Struct, frozen=True, omit_defaults=True, tag="result"):
    """What the provider's own server gave back for a call of the same response."""

    call: str
    json: str
    """The provider's part as JSON text."""
    status: Literal["ok", "error"] = "ok"


class ForeignPart(msgspec.Struct, frozen=True, omit_defaults=True, tag="foreign"):
    """A part without a neutral form, as JSON text."""

    json: str
    item: str | None = None
    needs: str | None = None


Part: TypeAlias = TextPart | ReasoningPart | CallPart | ResultPart | ForeignPart


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens in four classes that do not overlap, and the reasoning share of the output."""

    input: int = 0
    """Neither read from a cache nor written to one."""
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    """Part of `output`."""


class ResponseParts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One response."""

    response: str | None = None
    """The provider's id of it."""
    provider: str | None = None
    """Who made it; None where the format does not say, since many speak it."""
    model: str | None = None
    """As the provider answered: often the name that was asked for with a date behind it."""
    parts: tuple[Part, ...] = ()
    usage: Usage | None = None
    stop: str | None = None
    """Why it ended, in the provider's word."""
    complete: bool = False
    """The provider ended it, for whatever reason; False for a stream that was cut, or a failure."""
    error: str | None = None


def json_text(value: object) -> str:
    """Give the compact JSON of a part, members in the order in which they came."""
    return msgspec.json.encode(value).decode()
