"""Messages of Anthropic's Messages form, as requests hold them: blocks of users and of responses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec import Raw

from ..events import InputAdded, SegmentAdded, Source, Text, ToolReturned
from .anthropic_blocks import Attach, contents_of, output_of, part_of, result_fields
from .base import Item
from .slices import Entries, Fields, clean_text, items_of, name_of, object_text

_RESULT = frozenset({"type", "tool_use_id", "content", "is_error"})
_EMPTY = b'""'
USER, TOOL = Source("user"), Source("tool")


def user_items(fields: Fields, attach: Attach) -> tuple[Item, ...] | None:
    """Give what a user's message holds: results, and inputs of what stands between them. None without a content."""
    rest: Entries = [entry for entry in fields.items() if entry[0] not in {"role", "content"}]
    text = clean_text(fields.get("content"))
    if text is not None:
        rest.append(("content", _EMPTY))
        return (Item(body=InputAdded(content=(Text(*text),), extra=object_text(rest)), source=USER),)
    blocks = items_of(fields.get("content"))
    return None if blocks is None else tuple(_user_items(blocks, rest, attach))


def _user_items(blocks: Sequence[Raw], rest: Entries, attach: Attach) -> Iterator[Item]:
    """What the message has over goes with its first item."""
    read = [(block, result_fields(block)) for block in blocks]
    is_answering = any(fields is not None for _, fields in read)
    for is_result, group in groupby(read, key=lambda pair: pair[1] is not None):
        if not is_result:
            content, rests = contents_of([block for block, _ in group], attach)
            extra = rest if rests is None else [*rest, ("content", rests.encode())]
            yield Item(body=InputAdded(content=content, steer=is_answering, extra=object_text(extra)), source=USER)
            rest = []
            continue
        for _, fields in group:
            yield _result(fields or {}, rest, attach)
            rest = []
    if not blocks:
        yield Item(body=InputAdded(content=(), extra=object_text(rest)), source=USER)


def _result(fields: Fields, rest: Entries, attach: Attach) -> Item:
    output = output_of(fields.get("content"), attach)
    over: Entries = [entry for entry in fields.items() if entry[0] not in _RESULT]
    is_error = bytes(fields.get("is_error", b"")) == b"true"
    if "is_error" in fields and not is_error:
        over.append(("is_error", fields["is_error"]))
    text = object_text(over)
    body = ToolReturned(
        call=name_of(fields["tool_use_id"]) or "",
        status="error" if is_error else "ok",
        form=output.form,
        halves=output.halves,
        extra=object_text(rest if text is None else [*rest, ("block", text.encode())]),
    )
    return Item(body=body, source=TOOL, output=output.data)


def answer_items(fields: Fields, response: str, source: Source) -> tuple[Item, ...] | None:
    """Give the parts of a response; None without a content."""
    rest: Entries = [entry for entry in fields.items() if entry[0] not in {"role", "content"}]
    text = clean_text(fields.get("content"))
    if text is not None:
        rest.append(("content", _EMPTY))
        body = SegmentAdded(text=text[0], halves=text[1], response=response, extra=object_text(rest))
        return (Item(body=body, source=source),)
    blocks = items_of(fields.get("content"))
    if blocks is None:
        return None
    items = []
    for block in blocks:
        part, output = part_of(block, response, rest)
        items.append(Item(body=part, source=source, output=output))
        rest = []
    return tuple(items) or (Item(body=SegmentAdded(response=response, extra=object_text(rest)), source=source),)
