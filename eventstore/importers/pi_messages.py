"""What the messages of a pi session mean, by their role."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Annotated

import msgspec
from msgspec import Raw

from ..canonical import split_halves
from ..events import (
    Body,
    Content,
    InputAdded,
    SegmentAdded,
    Source,
    Text,
    ToolCalled,
    TurnState,
    Usage,
)
from ..records import NAME_LENGTH_MAX
from .anthropic_blocks import Attach, rest_text
from .base import Item, Response, is_name
from .pi_blocks import Rest, contents_of, opaque_reasoning, without
from .pi_results import result_item
from .slices import Entries, Fields, clean_text, fields_of, is_true, items_of, name_of, object_text, spelled, text_of

USER = Source("user")

ENDS: dict[str, TurnState] = {"length": "incomplete", "error": "error", "aborted": "interrupted"}
"""How a turn ends whose last response stopped so; `stop` ends it well, and `toolUse` does not end it."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a message means."""

    items: tuple[Item, ...]
    response: Response | None = None
    ends: TurnState | None = None
    error: str | None = None


def told(message: Fields, id_: str, rest: Rest, attach: Attach) -> Told | None:
    """Say what a message means; None for one that the model is not told, or whose role is unknown.

    Args:
        message: its fields.
        id_: names the response, when it is one.
        rest: gives what has no place.
        attach: keeps a picture's bytes.
    """
    match name_of(message.get("role")):
        case "user":
            found = content_input(message, USER, rest, attach, ("role",))
        case "custom" | "hookMessage":
            found = content_input(message, host(message.get("customType")), rest, attach, ())
        case "bashExecution":
            found = None if is_true(message, "excludeFromContext") else _shell(message, rest)
        case "branchSummary" | "compactionSummary":
            found = summary_item(message.get("summary"), rest(without(message, ("summary",))))
        case "toolResult":
            found = result_item(message, rest, attach)
        case "assistant":
            return _answer(message, id_, rest)
        case _:
            return None
    return None if found is None else Told(items=(found,))


def host(name: Raw | None) -> Source:
    """Give the source of what the program, or an extension of this name, put in."""
    found = name_of(name)
    return Source("host", name=found if is_name(found) else None)


def summary_item(summary: Raw | None, extra: str | None) -> Item | None:
    """Give a summary that stands among the messages as what it is to the model: an input that nobody typed."""
    text = clean_text(summary)
    if text is None:
        return None
    return Item(body=InputAdded(content=(Text(*text),), steer=True, extra=extra), source=Source("host"))


def content_input(fields: Fields, source: Source, rest: Rest, attach: Attach, mapped: Collection[str]) -> Item | None:
    """Give an input by its content; None where it has none."""
    content = fields.get("content")
    text = text_of(content)
    over = without(fields, (*mapped, "content"))
    blocks: tuple[Content, ...]
    if text is not None:
        blocks = (Text(*split_halves(text)),)
        over.append(("content", b'""'))  # it was one text, not a list of blocks
    elif (found := items_of(content)) is not None:
        blocks, rests = contents_of(found, attach)
        over += [] if rests is None else [("blocks", rests.encode())]
    else:
        return None
    body = InputAdded(content=blocks, steer=source is not USER, extra=rest(over))
    return Item(body=body, source=source)


def _shell(message: Fields, rest: Rest) -> Item | None:
    """Give a command that the user ran beside the talk as what the model is told of it."""
    command, output = text_of(message.get("command")), text_of(message.get("output"))
    if command is None:
        return None
    code = spelled(message["exitCode"]) if "exitCode" in message else "null"
    how = "cancelled" if is_true(message, "cancelled") else "" if code in {"null", "0"} else f"exit code {code}"
    text = f"$ {command}\n{output or ''}".rstrip("\n") + (f"\n[{how}]" if how else "")
    content = (Text(*split_halves(text)),)
    body = InputAdded(content=content, steer=True, extra=rest(without(message, ())))
    return Item(body=body, source=Source("host", name="bash"))


# --- responses ---


def _answer(message: Fields, id_: str, rest: Rest) -> Told | None:
    content = message.get("content")
    text = text_of(content)
    blocks = items_of(content) if text is None else None
    if text is None and blocks is None:
        return None
    provider, model = name_of(message.get("provider")), name_of(message.get("model"))
    named = {"provider": is_name(provider), "model": is_name(model)}
    source = Source("model", provider=provider if named["provider"] else None, model=model if named["model"] else None)
    over = without(message, ("role", "content", *(name for name, is_good in named.items() if is_good)))
    if not blocks:
        over.append(("content", b"[]" if blocks is not None else b'""'))
        words, halves = split_halves(text or "")
        bodies: list[Body] = [SegmentAdded(text=words, halves=halves, response=id_, part=0, extra=rest(over))]
    else:
        bodies = list(_parts(blocks, id_, rest(over)))
    stop, error = name_of(message.get("stopReason")), name_of(message.get("errorMessage"))
    ends = ENDS.get(stop or "")
    response = Response(
        id=id_,
        provider=provider,
        model=model,
        usage=usage_of(message.get("usage")),
        stop=stop,
        error=error,
        whole=True,
        goes_on=ends is not None or stop == "toolUse",
    )
    return Told(
        items=tuple(Item(body=body, source=source) for body in bodies),
        response=response,
        ends=ends,
        error=error[:NAME_LENGTH_MAX] if ends and error else None,
    )


def _parts(blocks: Sequence[Raw], response: str, extra: str | None) -> Iterator[Body]:
    """Give the blocks of a response; what the line has over goes with the first."""
    for number, block in enumerate(blocks):
        fields = fields_of(block) or {}
        yield msgspec.structs.replace(_part(block, fields, extra), response=response, part=number)
        extra = None


_TEXT, _THINKING = frozenset({"type", "text"}), frozenset({"type", "thinking", "thinkingSignature"})
_CALL = frozenset({"type", "id", "name", "arguments", "thoughtSignature"})


def _part(block: Raw, fields: Fields, extra: str | None) -> SegmentAdded | ToolCalled:
    kind = name_of(fields.get("type"))
    if kind == "text" and (text := clean_text(fields.get("text"))) is not None:
        return SegmentAdded(text=text[0], halves=text[1], extra=_with(extra, rest_text(fields, _TEXT)))
    if kind == "thinking" and (text := clean_text(fields.get("thinking"))) is not None:
        signature = name_of(fields.get("thinkingSignature"))
        item = opaque_reasoning(signature)
        mapped = _THINKING if signature is not None else _THINKING - {"thinkingSignature"}
        return SegmentAdded(
            kind="reasoning",
            text=text[0],
            halves=text[1],
            signature=signature if item is None else None,
            opaque=item,
            extra=_with(extra, rest_text(fields, mapped)),
        )
    call, name, asked = (name_of(fields.get(field)) for field in ("id", "name", "type"))
    if asked == "toolCall" and call and name:
        return _call(fields, call, name, extra)
    return SegmentAdded(kind="opaque", opaque=spelled(block), extra=extra)


def _call(fields: Fields, call: str, name: str, extra: str | None) -> ToolCalled:
    stated, seal = fields.get("arguments"), name_of(fields.get("thoughtSignature"))
    is_object = fields_of(stated) is not None
    mapped = _CALL - ({"arguments"} if not is_object else set()) - ({"thoughtSignature"} if seal is None else set())
    return ToolCalled(
        call=call,
        name=name,
        input=spelled(stated) if stated is not None and is_object else "{}",
        signature=seal,
        extra=_with(extra, rest_text(fields, mapped)),
    )


def _with(extra: str | None, block: str | None) -> str | None:
    """Put what a block has over beside what its line has over."""
    if block is None:
        return extra
    entries: Entries = [] if extra is None else list((fields_of(extra.encode()) or {}).items())
    return object_text([*entries, ("block", block.encode())])


Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Usage(msgspec.Struct):
    input: Count = 0
    output: Count = 0
    cacheRead: Count = 0  # noqa: N815 - the source's word
    cacheWrite: Count = 0  # noqa: N815 - the source's word
    reasoning: Count | None = None


_decode_usage = msgspec.json.Decoder(_Usage).decode


def usage_of(data: Raw | None) -> Usage | None:
    """Read what a response cost: pi's input counts neither what was read from a cache nor what was written to one."""
    if data is None:
        return None
    try:
        stated = _decode_usage(data)
    except msgspec.DecodeError:
        return None
    return Usage(
        input=stated.input,
        cache_read=stated.cacheRead,
        cache_write=stated.cacheWrite,
        output=stated.output,
        reasoning=stated.reasoning or 0,
    )
