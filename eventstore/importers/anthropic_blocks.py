"""Content blocks of the Anthropic Messages form, as agents store them in their sessions."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Raw

from ..errors import TooLarge
from ..events import (
    Body,
    Content,
    Document,
    Foreign,
    Halves,
    Image,
    SegmentAdded,
    SegmentKind,
    Text,
    ToolCalled,
    ToolReturned,
    Usage,
)
from ..records import encode_blocks
from .slices import Entries, Fields, clean_text, fields_of, items_of, name_of, object_text, spelled, text_of

PROVIDER = "anthropic"

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Usage(msgspec.Struct):
    input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    output_tokens: Count | None = None


_decode_usage = msgspec.json.Decoder(_Usage).decode

Attach = Callable[[bytes], str]
"""Keeps bytes as an attachment and gives their name."""

_TEXT, _THINKING = frozenset({"type", "text"}), frozenset({"type", "thinking", "signature"})
_CALL, _MEDIUM = frozenset({"type", "id", "name", "input"}), frozenset({"type", "source"})
"""Entries of a block, by kind, that have a place in an event."""


def rest_text(fields: Fields, mapped: frozenset[str]) -> str | None:
    """Give the JSON text of the entries that have no place in an event; None when there are none."""
    if fields.keys() <= mapped:
        return None
    return object_text([entry for entry in fields.items() if entry[0] not in mapped])


def content_of(block: Raw, attach: Attach) -> tuple[Content, str | None]:
    """Give a block of an input, or of a result, and the JSON text of what has no place."""
    fields = fields_of(block)
    kind = fields and name_of(fields.get("type"))
    if fields and kind == "text":
        text = clean_text(fields.get("text"))
        if text is not None:
            return Text(*text), rest_text(fields, _TEXT)
    elif fields and kind in {"image", "document"}:
        found = _medium(fields, attach, Image if kind == "image" else Document)
        if found is not None:
            return found, None
    return Foreign(json=spelled(block), provider=PROVIDER), None


def _medium(fields: Fields, attach: Attach, kind: type[Image | Document]) -> Content | None:
    """Give a picture or document that lies in the block, or at an address; None for any other form."""
    source = fields_of(fields.get("source"))
    if source is None:
        return None
    form, media_type = name_of(source.get("type")), name_of(source.get("media_type"))
    extra = rest_text(fields, _MEDIUM)
    if form == "url" and source.keys() == {"type", "url"}:
        return kind(url=name_of(source["url"]), extra=extra)
    text = text_of(source.get("data"))
    if form != "base64" or text is None or source.keys() != {"type", "media_type", "data"}:
        return None
    try:
        data = base64.b64decode(text, validate=True)
        if base64.b64encode(data).decode() != text:
            return None
        return kind(media_type=media_type, attachment=attach(data), extra=extra)
    except (binascii.Error, ValueError, TooLarge):
        return None


def contents_of(blocks: Sequence[Raw], attach: Attach) -> tuple[tuple[Content, ...], str | None]:
    """Give blocks, and the JSON list of what of each has no place (None when that is nothing)."""
    found = [content_of(block, attach) for block in blocks]
    text = f"[{','.join(rest or '{}' for _, rest in found)}]" if any(rest for _, rest in found) else None
    return tuple(content for content, _ in found), text


def result_fields(block: Raw) -> Fields | None:
    """Give the entries of a block that is a result of a call; None for any other."""
    fields = fields_of(block)
    if fields is None or name_of(fields.get("type")) != "tool_result":
        return None
    return fields if name_of(fields.get("tool_use_id")) else None


class Output(msgspec.Struct, frozen=True):
    """A result's output, as an event holds it."""

    data: bytes | None = None
    form: Literal["text", "blocks", "json"] = "text"
    text: str | None = None
    """The output, where it is text."""
    halves: Halves = ()


def output_of(content: Raw | None, attach: Attach) -> Output:
    """Read a result's output: text, blocks, or JSON where it is neither."""
    if content is None:
        return Output()
    text = clean_text(content)
    if text is not None:
        return Output(text[0].encode(), "text", *text)
    blocks = items_of(content)
    if blocks is None:
        return Output(spelled(content).encode(), "json")
    found = [content_of(block, attach) for block in blocks]
    whole = tuple(
        Foreign(json=spelled(block), provider=PROVIDER) if rest else item
        for block, (item, rest) in zip(blocks, found, strict=True)
    )
    return Output(encode_blocks(whole), "blocks")


def part_of(block: Raw, response: str, extra: Entries) -> tuple[Body, bytes | None]:
    """Give the event of one block of a response, and its output; with `extra` goes what of the block has no place."""
    fields = fields_of(block) or {}
    kind = name_of(fields.get("type")) or ""
    if kind == "text" and (text := clean_text(fields.get("text"))) is not None:
        rest = with_rest(extra, fields, _TEXT)
        return SegmentAdded(text=text[0], halves=text[1], response=response, extra=rest), None
    if kind == "thinking" and (text := clean_text(fields.get("thinking"))) is not None:
        signature = name_of(fields.get("signature"))
        return SegmentAdded(
            kind="reasoning",
            text=text[0],
            halves=text[1],
            signature=signature,
            response=response,
            extra=with_rest(extra, fields, _THINKING),
        ), None
    if kind in {"tool_use", "server_tool_use"} and (call := _call(block, fields, kind, response, extra)) is not None:
        return call, None
    whole, said = object_text(extra), spelled(block)
    answered = name_of(fields.get("tool_use_id"))
    if kind.endswith("_tool_result") and answered:
        return ToolReturned(call=answered, form="json", response=response, extra=whole), said.encode()
    hidden: SegmentKind = "reasoning" if kind == "redacted_thinking" else "opaque"
    return SegmentAdded(kind=hidden, opaque=said, response=response, extra=whole), None


def _call(block: Raw, fields: Fields, kind: str, response: str, extra: Entries) -> ToolCalled | None:
    call, name, input_ = name_of(fields.get("id")), name_of(fields.get("name")), fields.get("input")
    if not call or not name:
        return None
    is_server = kind == "server_tool_use"
    return ToolCalled(
        call=call,
        name=name,
        input="{}" if input_ is None else spelled(input_),
        kind="server" if is_server else "function",
        response=response,
        opaque=spelled(block) if is_server else None,
        extra=with_rest(extra, fields, _CALL),
    )


def with_rest(extra: Entries, fields: Fields, mapped: frozenset[str]) -> str | None:
    """Give the JSON text of `extra` and, as its `block`, of what has no place; None when there is neither."""
    rest = rest_text(fields, mapped)
    return object_text(extra if rest is None else [*extra, ("block", rest.encode())])


def usage_of(data: Raw | None) -> Usage | None:
    """Read what a response says that it cost; None when it says nothing that could be counted."""
    if data is None:
        return None
    try:
        stated = _decode_usage(data)
    except msgspec.DecodeError:
        return None
    if stated == _Usage():
        return None
    return Usage(
        input=stated.input_tokens or 0,
        cache_read=stated.cache_read_input_tokens or 0,
        cache_write=stated.cache_creation_input_tokens or 0,
        output=stated.output_tokens or 0,
    )
