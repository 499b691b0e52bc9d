"""Content blocks of the Anthropic Messages form, as agents store them in their sessions."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection, Sequence
from typing import Annotated

import msgspec
from msgspec import Raw

from ..errors import TooLarge
from ..events import Body, Content, Document, Foreign, Image, SegmentAdded, Text, ToolCalled, ToolReturned, Usage
from .slices import Fields, clean_text, fields_of, items_of, name_of, object_text, spelled, text_of

PROVIDER = "anthropic"

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Usage(msgspec.Struct):
    input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    output_tokens: Count | None = None


_decode_usage = msgspec.json.Decoder(_Usage).decode

Attach = Callable[[bytes], str]


def rest_of(fields: Fields, mapped: Collection[str]) -> Fields:
    """Give the entries that have no place in an event."""
    return {name: value for name, value in fields.items() if name not in mapped}


def rest_text(fields: Fields, mapped: Collection[str]) -> str | None:
    """Give the JSON text of the entries that have no place in an event."""
    return object_text(rest_of(fields, mapped).items())


def content_of(block: Raw, attach: Attach) -> tuple[Content, Fields]:
    """Give a block of an input, or of a result, and what of it has no place."""
    fields = fields_of(block)
    kind = fields and name_of(fields.get("type"))
    if fields and kind == "text":
        text = clean_text(fields.get("text"))
        if text is not None:
            return Text(*text), rest_of(fields, ("type", "text"))
    elif fields and kind in {"image", "document"}:
        found = _medium(fields, attach, Image if kind == "image" else Document)
        if found is not None:
            return found, {}
    return Foreign(json=spelled(block), provider=PROVIDER), {}


def _medium(fields: Fields, attach: Attach, kind: type[Image | Document]) -> Content | None:
    """Give a picture or document that lies in the block, or at an address; None for any other form."""
    source = fields_of(fields.get("source"))
    if source is None:
        return None
    form, media_type = name_of(source.get("type")), name_of(source.get("media_type"))
    extra = rest_text(fields, ("type", "source"))
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
    rests = [object_text(rest.items()) for _, rest in found]
    text = f"[{','.join(rest or '{}' for rest in rests)}]" if any(rests) else None
    return tuple(content for content, _ in found), text


def output_of(content: Raw | None, attach: Attach) -> tuple[str | tuple[Content, ...] | None, Raw | None]:
    """Give a result's output as text or blocks, and what it was where it is neither."""
    if content is None:
        return None, None
    text = text_of(content)
    if text is not None:
        return text, None
    blocks = items_of(content)
    if blocks is None:
        return None, content
    found = [content_of(block, attach) for block in blocks]
    return tuple(
        Foreign(json=spelled(block), provider=PROVIDER) if rest else item
        for block, (item, rest) in zip(blocks, found, strict=True)
    ), None


def part_of(block: Raw, response: str | None) -> tuple[Body, bytes | None, str | None]:
    """Give the event of one block of a response, its output, and what of the block has no place."""
    fields = fields_of(block) or {}
    kind = name_of(fields.get("type")) or ""
    if kind == "text" and (text := clean_text(fields.get("text"))) is not None:
        return SegmentAdded(text=text[0], halves=text[1], response=response), None, rest_text(fields, ("type", "text"))
    if kind == "thinking" and (text := clean_text(fields.get("thinking"))) is not None:
        body = SegmentAdded(
            kind="reasoning",
            text=text[0],
            halves=text[1],
            signature=name_of(fields.get("signature")),
            response=response,
        )
        return body, None, rest_text(fields, ("type", "thinking", "signature"))
    if kind == "redacted_thinking":
        return SegmentAdded(kind="reasoning", opaque=spelled(block), response=response), None, None
    if kind in {"tool_use", "server_tool_use"} and (call := _call(block, fields, response)) is not None:
        return call, None, rest_text(fields, ("type", "id", "name", "input"))
    answered = name_of(fields.get("tool_use_id"))
    if kind.endswith("_tool_result") and answered:
        return ToolReturned(call=answered, form="json", response=response), spelled(block).encode(), None
    return SegmentAdded(kind="opaque", opaque=spelled(block), response=response), None, None


def _call(block: Raw, fields: Fields, response: str | None) -> ToolCalled | None:
    call, name = name_of(fields.get("id")), name_of(fields.get("name"))
    if not call or not name:
        return None
    input_ = fields.get("input")
    text = "{}" if input_ is None else spelled(input_)
    if name_of(fields.get("type")) == "tool_use":
        return ToolCalled(call=call, name=name, input=text, response=response)
    return ToolCalled(call=call, name=name, input=text, response=response, kind="server", opaque=spelled(block))


def usage_of(data: Raw | None) -> Usage | None:
    """Read what a response says that it cost; None when it says nothing that could be counted."""
    if data is None:
        return None
    try:
        stated = _decode_usage(data)
    except msgspec.DecodeError:
        return None
    return Usage(
        input=stated.input_tokens or 0,
        cache_read=stated.cache_read_input_tokens or 0,
        cache_write=stated.cache_creation_input_tokens or 0,
        output=stated.output_tokens or 0,
    )
