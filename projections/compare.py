"""Two prompts side by side: blocks kept, changed, added and gone, and the event that made the first difference."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import pairwise
from typing import Literal

import msgspec

from .derive import Derived
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


class Comparison(msgspec.Struct, frozen=True):
    """Two prompts compared."""

    changes: list[BlockChange]
    prefix_blocks: int
    """Blocks from the start that are equal: what a cache of the first still serves for the second."""
    prefix_bytes: int
    old_blocks: int
    new_blocks: int
    surroundings_differ: bool
    """Whether system, tools or options differ: then no cached prefix is left."""

    @property
    def first_difference(self) -> BlockChange | None:
        """The first run of blocks that is not the same."""
        return next((change for change in self.changes if change.change != "same"), None)

    @property
    def counts(self) -> dict[str, int]:
        """How many blocks are the same, changed, added and gone."""
        counts = {"same": 0, "changed": 0, "added": 0, "gone": 0}
        for change in self.changes:
            counts[change.change] += max(len(change.old), len(change.new))
        return counts


def compare(old: Derived, new: Derived) -> Comparison:
    """Compare two derived prompts block by block, marks left aside."""
    changes = [
        _change(old, new, tag, (a, b), (c, d))
        for tag, a, b, c, d in SequenceMatcher(None, old.blocks, new.blocks, autojunk=False).get_opcodes()
    ]
    same = 0
    for left, right in zip(old.blocks, new.blocks, strict=False):
        if left != right:
            break
        same += 1
    return Comparison(
        changes=changes,
        prefix_blocks=same,
        prefix_bytes=sum(len(block) for block in new.blocks[:same]),
        old_blocks=len(old.blocks),
        new_blocks=len(new.blocks),
        surroundings_differ=old.rolling[0] != new.rolling[0],
    )


_WORDS: dict[str, Change] = {"equal": "same", "replace": "changed", "insert": "added", "delete": "gone"}


def _change(old: Derived, new: Derived, tag: str, left: tuple[int, int], right: tuple[int, int]) -> BlockChange:
    differs = tag != "equal"
    return BlockChange(
        change=_WORDS[tag],
        old=tuple(block.decode() for block in old.blocks[slice(*left)]),
        new=tuple(block.decode() for block in new.blocks[slice(*right)]),
        old_pointer=_pointer(old, left) if differs else "",
        new_pointer=_pointer(new, right) if differs else "",
        sources=(_sources(new, right) or _sources(old, left)) if differs else (),
    )


def _pointer(prompt: Derived, run: tuple[int, int]) -> str:
    return pointers(prompt.request)[run[0]] if run[0] < run[1] else ""


def _sources(prompt: Derived, run: tuple[int, int]) -> tuple[int, ...]:
    blocks = [block for item in prompt.request.items for block in item.blocks][slice(*run)]
    found = {position for block in blocks for index in block.pieces for position in prompt.pieces[index].sources}
    return tuple(sorted(found))


def words(old: str, new: str) -> list[tuple[str, str]]:
    """Give the word-level difference of two texts as ("same" | "gone" | "added", words)."""
    left, right = old.split(" "), new.split(" ")
    found: list[tuple[str, str]] = []
    for tag, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag == "equal":
            found.append(("same", " ".join(left[a:b])))
            continue
        if a < b:
            found.append(("gone", " ".join(left[a:b])))
        if c < d:
            found.append(("added", " ".join(right[c:d])))
    return found


class PrefixReport(msgspec.Struct, frozen=True):
    """How much of each call's prompt the next one keeps (C06)."""

    call: int
    blocks: int
    kept: int
    """Blocks of the call before that stay as they were."""
    share: float
    """Bytes of this prompt that are such a prefix."""


def prefix_report(prompts: list[tuple[int, Derived]]) -> list[PrefixReport]:
    """Report the longest common prefix between consecutive prompts, by call number."""
    found = []
    for (_, before), (number, now) in pairwise(prompts):
        comparison = compare_prefix(before, now)
        total = sum(len(block) for block in now.blocks) or 1
        found.append(PrefixReport(number, len(now.blocks), comparison[0], comparison[1] / total))
    return found


def compare_prefix(old: Derived, new: Derived) -> tuple[int, int]:
    """Give the count and bytes of the blocks that the second prompt keeps of the first, from the start."""
    if old.rolling[0] != new.rolling[0]:
        return 0, 0
    count = size = 0
    for left, right in zip(old.blocks, new.blocks, strict=False):
        if left != right:
            break
        count += 1
        size += len(right)
    return count, size
