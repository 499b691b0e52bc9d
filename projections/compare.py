"""Two prompts side by side: blocks kept, changed, added and gone, and the event that made the first difference."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Literal

import msgspec

from .derive import Derived
from .stages import pieces_v1 as kinds
from .stages.request_v1 import pointers

Change = Literal["same", "changed", "added", "gone"]


class BlockChange(msgspec.Struct, frozen=True):
    """A run of blocks of two prompts."""

    change: Change
    old: tuple[str, ...]
    """The blocks of the first prompt, as JSON text."""
    new: tuple[str, ...]
    old_pointer: str = ""
    new_pointer: str = ""
    sources: tuple[int, ...] = ()
    """Positions of the events that the differing blocks were made of."""


class FieldChange(msgspec.Struct, frozen=True):
    """A member of the request's top level, other than the talk, that differs."""

    name: str
    old: str | None
    """JSON text; None where there is none."""
    new: str | None
    sources: tuple[int, ...] = ()
    """Positions of the events that it was made of."""


class Comparison(msgspec.Struct, frozen=True):
    """Two prompts compared."""

    changes: list[BlockChange]
    prefix_blocks: int
    """Blocks from the start that are equal."""
    prefix_bytes: int
    old_blocks: int
    new_blocks: int
    tools_stand_in: bool
    """Whether nobody declared tools for one of them: an encoder named those that are called (X7), and what was really
    offered is not known."""
    fields: list[FieldChange]
    """Members around the talk (system, tools, options) that differ: then no cached prefix is left."""

    @property
    def surroundings_differ(self) -> bool:
        """Whether system, tools or options differ."""
        return bool(self.fields)

    @property
    def differs(self) -> bool:
        """Whether anything but cache marks differs."""
        return self.surroundings_differ or self.first_difference is not None

    @property
    def first_difference(self) -> BlockChange | None:
        """The first run of blocks that is not the same."""
        return next((change for change in self.changes if change.change != "same"), None)

    @property
    def first_event(self) -> int | None:
        """The event that made the first difference, what surrounds the talk first; None where no one event did."""
        sources = [field.sources for field in self.fields]
        if self.first_difference is not None:
            sources.append(self.first_difference.sources)
        return next((found[0] for found in sources if found), None)

    @property
    def counts(self) -> dict[str, int]:
        """How many blocks are the same, changed, added and gone."""
        counts = {"same": 0, "changed": 0, "added": 0, "gone": 0}
        for change in self.changes:
            old, new = len(change.old), len(change.new)
            if change.change != "changed":
                counts[change.change] += max(old, new)
                continue
            counts["changed"] += min(old, new)
            counts["added"] += max(0, new - old)
            counts["gone"] += max(0, old - new)
        return counts


def compare(old: Derived, new: Derived) -> Comparison:
    """Compare two derived prompts block by block, marks left aside."""
    left, right = _Side(old), _Side(new)
    same, _ = common_prefix(old, new)
    return Comparison(
        changes=[
            _change(left, right, tag, (a, b), (c, d)) for tag, a, b, c, d in _opcodes(old.blocks, new.blocks, same)
        ],
        prefix_blocks=same,
        prefix_bytes=sum(len(block) for block in new.blocks[:same]),
        old_blocks=len(old.blocks),
        new_blocks=len(new.blocks),
        tools_stand_in=_tools_stand_in(old) or _tools_stand_in(new),
        fields=list(_field_changes(old, new)),
    )


def _tools_stand_in(prompt: Derived) -> bool:
    declared = any(piece.provenance == kinds.TOOLS for piece in prompt.pieces)
    return not declared and any(repair.rule.startswith("X7: called") for repair in prompt.request.repairs)


def _opcodes(old: list[bytes], new: list[bytes], same: int) -> Iterator[tuple[str, int, int, int, int]]:
    """Iterate over the steps from one list to the other; equal ends are taken off first, since long ones are usual."""
    if same:
        yield "equal", 0, same, 0, same
    end = 0
    while end < min(len(old), len(new)) - same and old[-1 - end] == new[-1 - end]:
        end += 1
    matcher = SequenceMatcher(None, old[same : len(old) - end], new[same : len(new) - end], autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        yield tag, a + same, b + same, c + same, d + same
    if end:
        yield "equal", len(old) - end, len(old), len(new) - end, len(new)


class _Side:
    """One of two prompts: its blocks with their pointers and what they were made of."""

    def __init__(self, prompt: Derived) -> None:
        self.prompt = prompt
        self.blocks = prompt.blocks
        self.pointers = pointers(prompt.request)
        self._wires = [wire for item in prompt.request.items for wire in item.blocks]

    def sources(self, first: int, stop: int) -> tuple[int, ...]:
        return _positions(self.prompt, (index for wire in self._wires[first:stop] for index in wire.pieces))


_WORDS: dict[str, Change] = {"equal": "same", "replace": "changed", "insert": "added", "delete": "gone"}


def _change(left: _Side, right: _Side, tag: str, old: tuple[int, int], new: tuple[int, int]) -> BlockChange:
    differs = tag != "equal"
    return BlockChange(
        change=_WORDS[tag],
        old=tuple(block.decode() for block in left.blocks[slice(*old)]),
        new=tuple(block.decode() for block in right.blocks[slice(*new)]),
        old_pointer=left.pointers[old[0]] if differs and old[0] < old[1] else "",
        new_pointer=right.pointers[new[0]] if differs and new[0] < new[1] else "",
        sources=(right.sources(*new) or left.sources(*old)) if differs else (),
    )


def _positions(prompt: Derived, indexes: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted({position for index in indexes for position in prompt.pieces[index].sources}))


def _field_changes(old: Derived, new: Derived) -> Iterator[FieldChange]:
    """Iterate over the members around the talk that differ, in the order of the second request."""
    before = {field.name: field for field in old.request.fields if field.data is not None}
    now = {field.name: field for field in new.request.fields if field.data is not None}
    for name in [*now, *(name for name in before if name not in now)]:
        left, right = before.get(name), now.get(name)
        was, is_ = left.data if left else None, right.data if right else None
        if was == is_:
            continue
        sources = _positions(new, right.pieces) if right else _positions(old, left.pieces if left else ())
        yield FieldChange(name, None if was is None else was.decode(), None if is_ is None else is_.decode(), sources)


TOKENS_MAX = 2000
"""Texts of more words and signs are compared by what stands between spaces: the finer way takes long."""

_ESCAPE = r"\\(?:u[0-9a-fA-F]{4}|[^u\s])"
"""One of JSON's escapes, which is one sign."""

_FINE = re.compile(rf"{_ESCAPE}|\w+|\s+|[^\w\s]")
_COARSE = re.compile(rf"\s+|(?:{_ESCAPE})+|[^\s\\]+|\\")


def words(old: str, new: str) -> list[tuple[str, str]]:
    """Give the difference of two texts by words and signs, as ("same" | "gone" | "added", text) in order.

    What is the same or gone makes up the first text, what is the same or added the second.
    """
    left, right = _tokens(old, new)
    found: list[tuple[str, str]] = []
    for tag, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag == "equal":
            found.append(("same", "".join(left[a:b])))
            continue
        found += [(word, text) for word, text in (("gone", "".join(left[a:b])), ("added", "".join(right[c:d]))) if text]
    return found


def _tokens(old: str, new: str) -> tuple[list[str], list[str]]:
    left, right = _FINE.findall(old), _FINE.findall(new)
    if max(len(left), len(right)) > TOKENS_MAX:
        return _COARSE.findall(old), _COARSE.findall(new)
    return left, right


class PrefixReport(msgspec.Struct, frozen=True):
    """How much of each call's prompt the next one keeps (C06)."""

    call: int
    blocks: int
    kept: int
    """Blocks of the call before that stay as they were."""
    share: float
    """Bytes of this prompt that are such a prefix."""


def prefix_report(prompts: Iterable[tuple[int, Derived]]) -> Iterator[PrefixReport]:
    """Report how much of each prompt is a prefix that the one before had, by call number; two are held at a time."""
    for (_, before), (number, now) in pairwise(prompts):
        count, size = common_prefix(before, now) if before.rolling[0] == now.rolling[0] else (0, 0)
        total = sum(len(block) for block in now.blocks) or 1
        yield PrefixReport(number, len(now.blocks), count, size / total)


def common_prefix(old: Derived, new: Derived) -> tuple[int, int]:
    """Give the count and bytes of the blocks from the start that two prompts share."""
    count = size = 0
    for left, right in zip(old.blocks, new.blocks, strict=False):
        if left != right:
            break
        count += 1
        size += len(right)
    return count, size
