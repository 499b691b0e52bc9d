"""One round of a Claude.ai answer: what the model said and called, and what its calls gave back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Raw

from ..canonical import split_halves
from ..events import Body, Halves, SegmentAdded, Source, Text, ToolCalled, ToolReturned
from ..records import encode_blocks
from .anthropic_blocks import Attach, contents_of, rest_text, with_rest
from .base import Item
from .conversations import Node
from .slices import Entries, Fields, clean_text, fields_of, items_of, name_of, object_text, spelled, text_of

TOOL = Source("tool")

_TEXT, _THINKING = frozenset({"type", "text"}), frozenset({"type", "thinking", "signature"})
_CALL, _RESULT = frozenset({"type", "name", "input"}), frozenset({"type"})
"""Entries of a block, by kind, that have a place in an event whatever they are."""


class Round:
    """The blocks of one round, as events; calls without an id go by their place, and results by what waits for one."""

    def __init__(self, node: Node, source: Source, waiting: list[tuple[str, str]], attach: Attach) -> None:
        self._node = node
        self._source = source
        self._waiting = waiting
        self._attach = attach

    def items(self, blocks: Sequence[Raw], extra: Entries) -> Iterator[Item]:
        """Give the events; what the message has over goes with the first."""
        for number, block in enumerate(blocks):
            fields = fields_of(block) or {}
            if name_of(fields.get("type")) == "tool_result":
                yield self._result(fields, number, extra)
            else:
                yield Item(body=self._part(block, fields, number, extra), source=self._source)
            extra = []

    def _part(self, block: Raw, fields: Fields, number: int, extra: Entries) -> Body:
        kind, response = name_of(fields.get("type")), self._node.id
        if kind == "text" and (text := clean_text(fields.get("text"))) is not None:
            rest = with_rest(extra, fields, _TEXT)
            return SegmentAdded(text=text[0], halves=text[1], response=response, part=number, extra=rest)
        if kind == "thinking" and (text := clean_text(fields.get("thinking"))) is not None:
            signature = name_of(fields.get("signature"))
            return SegmentAdded(
                kind="reasoning",
                text=text[0],
                halves=text[1],
                signature=signature,
                response=response,
                part=number,
                extra=with_rest(extra, fields, _THINKING if signature else _THINKING - {"signature"}),
            )
        tool = name_of(fields.get("name"))
        if kind == "tool_use" and tool:
            return self._call(fields, tool, number, extra)
        # What the site says by the way is no part that a model could be given again.
        whole = [*extra, ("block", spelled(block).encode())]
        return SegmentAdded(kind="notice", response=response, part=number, extra=object_text(whole))

    def _call(self, fields: Fields, tool: str, number: int, extra: Entries) -> ToolCalled:
        stated = name_of(fields.get("id"))
        call = stated or f"{self._node.id}/{number}"
        self._waiting.append((call, tool))
        input_ = fields.get("input")
        return ToolCalled(
            call=call,
            name=tool,
            input="{}" if input_ is None else spelled(input_),
            response=self._node.id,
            part=number,
            extra=with_rest(extra, fields, _CALL | {"id"} if stated else _CALL),
        )

    def _result(self, fields: Fields, number: int, extra: Entries) -> Item:
        stated = name_of(fields.get("tool_use_id"))
        call = self._answered(stated, name_of(fields.get("name"))) or stated or f"{self._node.id}/{number}"
        output, form, halves, rests = self._output(fields.get("content"))
        mapped = (
            _RESULT | ({"tool_use_id"} if stated == call else set()) | ({"content"} if output is not None else set())
        )
        failed = bytes(fields.get("is_error", b"")) == b"true"
        rest = rest_text(fields, mapped | {"is_error"} if failed else mapped)
        entries = [*extra, *([] if rest is None else [("block", rest.encode())])]
        entries += [] if rests is None else [("blocks", rests.encode())]
        body = ToolReturned(
            call=call, status="error" if failed else "ok", form=form, halves=halves, extra=object_text(entries)
        )
        return Item(body=body, source=TOOL, output=output)

    def _output(self, content: Raw | None) -> tuple[bytes | None, Literal["text", "blocks"], Halves, str | None]:
        """Give an output, its form, its half surrogates, and the JSON list of what of its blocks has no place."""
        text = text_of(content)
        if text is not None:
            words, halves = split_halves(text)
            return words.encode(), "text", halves, '""'  # it was one text, not a list of blocks
        blocks = items_of(content)
        if blocks is None:
            return None, "text", (), None
        found, rests = contents_of(blocks, self._attach)
        only = found[0] if len(found) == 1 else None
        if isinstance(only, Text):
            return only.text.encode(), "text", only.halves, rests
        return encode_blocks(found), "blocks", (), rests

    def _answered(self, call: str | None, tool: str | None) -> str | None:
        """Take the call that a result answers: by its id, else the next of its tool, else the next."""
        waiting = self._waiting
        if call is not None:
            found = next((pair for pair in waiting if pair[0] == call), None)
        else:
            found = next((pair for pair in waiting if pair[1] == tool), next(iter(waiting), None))
        if found is None:
            return None
        waiting.remove(found)
        return found[0]
