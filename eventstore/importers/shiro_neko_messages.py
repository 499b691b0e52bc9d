"""Messages in the form of the SDK that shiro-neko is built on (`ModelMessage`), as it stores them in a session."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Raw

from ..canonical import split_halves
from ..errors import TooLarge
from ..events import (
    ApprovalAnswered,
    ApprovalAsked,
    Content,
    Document,
    Foreign,
    Image,
    InputAdded,
    RecordKept,
    SegmentAdded,
    Source,
    Text,
    ToolCalled,
    ToolReturned,
)
from ..records import encode_blocks
from .base import Item, Response
from .data_urls import medium
from .slices import Entries, Fields, fields_of, is_true, items_of, name_of, object_text, spelled, text_of

AGENT = "shiro-neko"

Attach = Callable[[bytes], str]
"""Keeps bytes as an attachment and gives their name."""

USER, SYSTEM, TOOL, HOST = Source("user"), Source("system"), Source("tool"), Source("host")

ITEM_NAMES, SIGNATURE_NAMES = ("itemId",), ("signature", "reasoningEncryptedContent", "thoughtSignature")
"""Where a provider's options hold a part's id, and its seal."""

_PLAIN = ("content", b'""')
"""Says that a message's content was one text, not a list of parts."""

_BASE64_MARKS = ("http://", "https://", "file:", "data:")


class Said(msgspec.Struct, frozen=True):
    """What a message means."""

    items: tuple[Item, ...]
    response: Response | None = None


def message_of(fields: Fields, id_: str, model: Source, attach: Attach) -> Said | None:
    """Say what a message means; None for one of no known role, or without content.

    Args:
        fields: the message.
        id_: its id, which is also its response's, since one message is one response.
        model: who speaks as the assistant.
        attach: keeps a picture's bytes.
    """
    role, content = name_of(fields.get("role")), fields.get("content")
    text = text_of(content)
    parts = None if text is not None else items_of(content)
    rest: Entries = [entry for entry in fields.items() if entry[0] not in {"role", "content"}]
    if text is not None:
        rest.append(_PLAIN)
    elif parts is None:
        return None
    if role in {"user", "system"}:
        return Said((_input(role, text, parts or [], rest, attach),))
    if role == "assistant":
        response = Response(id=id_, provider=model.provider, model=model.model, whole=True)
        return Said(tuple(_answer(text, parts or [], rest, id_, model, attach)), response)
    if role == "tool" and parts:
        return Said(tuple(_results(parts, rest, attach)))
    return None


# --- what was put in ---


def _input(role: str, text: str | None, parts: Sequence[Raw], rest: Entries, attach: Attach) -> Item:
    if text is not None:
        content: tuple[Content, ...] = (Text(*split_halves(text)),)
    else:
        found = [_content(part, attach) for part in parts]
        content = tuple(block for block, _ in found)
        if any(over for _, over in found):
            rest = [*rest, ("blocks", f"[{','.join(over or '{}' for _, over in found)}]".encode())]
    extra = object_text(rest)
    if role == "system":
        return Item(body=InputAdded(role="system", content=content, extra=extra), source=SYSTEM)
    return Item(body=InputAdded(content=content, extra=extra), source=USER)


def _content(part: Raw, attach: Attach) -> tuple[Content, str | None]:
    """Give a part of a user's message, and the JSON text of what has no place."""
    fields = fields_of(part) or {}
    kind = name_of(fields.get("type"))
    text = text_of(fields.get("text"))
    if kind == "text" and text is not None:
        return Text(*split_halves(text)), object_text(_rest(fields, "type", "text"))
    data = text_of(fields.get("image" if kind == "image" else "data"))
    if kind in {"image", "file"} and data is not None:
        name, media_type = name_of(fields.get("filename")), name_of(fields.get("mediaType"))
        extra = object_text(_rest(fields, "type", "image" if kind == "image" else "data", "mediaType", "filename"))
        found = _medium(data, attach, media_type, name, extra)
        if found is not None:
            return found, None
    return Foreign(json=spelled(part)), None


def _medium(
    data: str, attach: Attach, media_type: str | None, name: str | None, extra: str | None
) -> Image | Document | None:
    """Give the picture or document that is named by an address, or lies there in base 64."""
    if data.startswith(_BASE64_MARKS):
        return medium(data, attach, media_type, name, extra)
    try:
        found = base64.b64decode(data, validate=True)
        if base64.b64encode(found).decode() != data:
            return None
        kind = Image if (media_type or "image/").startswith("image/") else Document
        return kind(media_type=media_type, attachment=attach(found), name=name, extra=extra)
    except (binascii.Error, ValueError, TooLarge):
        return None


# --- what the model said ---


def _answer(
    text: str | None, parts: Sequence[Raw], rest: Entries, id_: str, model: Source, attach: Attach
) -> Iterator[Item]:
    if text is not None:
        words, halves = split_halves(text)
        yield Item(body=SegmentAdded(text=words, halves=halves, response=id_, extra=object_text(rest)), source=model)
        return
    if not parts:
        yield Item(body=SegmentAdded(kind="notice", response=id_, extra=object_text(rest)), source=model)
    for part in parts:
        yield _part(part, rest, id_, model, attach)
        rest = []


def _part(part: Raw, extra: Entries, id_: str, model: Source, attach: Attach) -> Item:
    fields = fields_of(part) or {}
    kind = name_of(fields.get("type"))
    text, call = text_of(fields.get("text")), name_of(fields.get("toolCallId"))
    item, signature = _option(fields, ITEM_NAMES), _option(fields, SIGNATURE_NAMES)
    if kind in {"text", "reasoning"} and text is not None:
        words, halves = split_halves(text)
        body = SegmentAdded(
            kind="reasoning" if kind == "reasoning" else "text",
            text=words,
            halves=halves,
            response=id_,
            item=item,
            signature=signature,
            extra=_extra(extra, fields, "type", "text"),
        )
        return Item(body=body, source=model)
    name = name_of(fields.get("toolName"))
    if kind == "tool-call" and call and name:
        asked = fields.get("input")
        called = ToolCalled(
            call=call,
            name=name,
            input="{}" if asked is None else spelled(asked),
            kind="server" if is_true(fields, "providerExecuted") else "function",
            response=id_,
            item=item,
            signature=signature,
            extra=_extra(extra, fields, "type", "toolCallId", "toolName", *(["input"] if asked is not None else [])),
        )
        return Item(body=called, source=model)
    if kind == "tool-result" and call:
        return _result(fields, call, extra, attach, response=id_)
    if kind == "tool-approval-request":
        return Item(body=ApprovalAsked(call=call, extra=_extra(extra, fields, "type", "toolCallId")), source=HOST)
    whole: Entries = [*extra, ("part", part)]
    return Item(body=SegmentAdded(kind="notice", response=id_, extra=object_text(whole)), source=model)


def _option(fields: Fields, names: Sequence[str]) -> str | None:
    """Find what a provider says of a part, whichever provider it is."""
    for options in (fields_of(value) for value in (fields_of(fields.get("providerOptions")) or {}).values()):
        for name in names:
            found = name_of((options or {}).get(name))
            if found:
                return found
    return None


# --- what came back ---


def _results(parts: Sequence[Raw], rest: Entries, attach: Attach) -> Iterator[Item]:
    for part in parts:
        fields = fields_of(part) or {}
        kind, call = name_of(fields.get("type")), name_of(fields.get("toolCallId"))
        if kind == "tool-result" and call:
            yield _result(fields, call, rest, attach)
        elif kind == "tool-approval-response":
            yield _decision(fields, rest)
        else:
            record = object_text([*rest, ("part", part)]) or ""
            yield Item(body=RecordKept(format=AGENT, record=record))
        rest = []


def _decision(fields: Fields, rest: Entries) -> Item:
    body = ApprovalAnswered(
        decision="once" if is_true(fields, "approved") else "deny",
        reason=name_of(fields.get("reason")),
        extra=_extra(rest, fields, "type", "approved", "reason"),
    )
    return Item(body=body, source=USER)


def _result(fields: Fields, call: str, extra: Entries, attach: Attach, *, response: str | None = None) -> Item:
    stated = fields.get("output")
    output = fields_of(stated) or {}
    kind, value = name_of(output.get("type")) or "", output.get("value")
    status = "denied" if kind == "execution-denied" else "error" if kind.startswith("error-") else "ok"
    text = text_of(output.get("reason") if status == "denied" else value) if kind in _TEXT_KINDS else None
    blocks = items_of(value) if kind == "content" else None
    halves: tuple[tuple[int, int], ...] = ()
    data: bytes | None = None
    over: Entries = []
    if text is not None:
        words, halves = split_halves(text)
        data, over = words.encode(), _rest(output, "type", "value", "reason")
    elif kind in {"json", "error-json"} and value is not None:
        data, over = bytes(value), _rest(output, "type", "value")
    elif blocks is not None:
        data = encode_blocks(tuple(_whole_content(block, attach) for block in blocks))
        over = _rest(output, "type", "value")
    elif stated is not None:
        data = bytes(stated)
    is_json = text is None and blocks is None and data is not None
    rest = [*_rest(fields, "type", "toolCallId", "output"), *([("output", _json(over))] if over else [])]
    body = ToolReturned(
        call=call,
        status=status,
        form="blocks" if blocks is not None else "json" if is_json else "text",
        halves=halves,
        response=response,
        extra=object_text([*extra, *([("block", _json(rest))] if rest else [])]),
    )
    return Item(body=body, source=TOOL, output=data)


_TEXT_KINDS = frozenset({"text", "error-text", "execution-denied"})


def _whole_content(block: Raw, attach: Attach) -> Content:
    content, over = _content(block, attach)
    return Foreign(json=spelled(block)) if over else content


def _json(entries: Entries) -> bytes:
    return (object_text(entries) or "{}").encode()


def _rest(fields: Fields, *mapped: str) -> Entries:
    return [entry for entry in fields.items() if entry[0] not in mapped]


def _extra(extra: Entries, fields: Fields, *mapped: str) -> str | None:
    rest = _rest(fields, *mapped)
    return object_text([*extra, *([("block", _json(rest))] if rest else [])])
