"""Where cache marks go: a policy of four, so that each call finds what the one before wrote.

Mark 1 stands behind system and tools. Mark 2 on the newest block that is not volatile. Mark 3 on the last block of the
request before (the user's message before the newest answer), which hits although many blocks came since. Mark 4 on the
newest summary, or inside a turn so long that the look-back of mark 2 would not reach mark 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .pieces_v1 import SUMMARY, Piece
from .request_v1 import Field, Item


class Place(msgspec.Struct, frozen=True):
    """One block by item and place in it."""

    item: int
    block: int


def places(items: Sequence[Item], pieces: Sequence[Piece], markable: Sequence[bool], lookback: int) -> list[Place]:
    """Give the places of marks 2 to 4, in request order; `markable` says for each block whether it may carry one."""
    flat = [(item, place, block.pieces) for item, each in enumerate(items) for place, block in enumerate(each.blocks)]
    volatile = {index for index, piece in enumerate(pieces) if piece.volatile}
    summary = {index for index, piece in enumerate(pieces) if piece.provenance == SUMMARY}

    def last(first: int, stop: int, made_of: set[int] | None = None) -> int | None:
        """Give the last block of a run that may be marked, made of some pieces where that is asked."""
        for number in reversed(range(first, stop)):
            sources = flat[number][2]
            fits = markable[number] and volatile.isdisjoint(sources)
            if fits and (made_of is None or not made_of.isdisjoint(sources)):
                return number
        return None

    newest = last(0, len(flat))
    if newest is None:
        return []
    before = last(0, _newest_answer(items))
    fourth = last(0, len(flat), summary) if summary else None
    if fourth is None and before is not None and lookback and newest - before > lookback:
        fourth = last(before + 1, newest - lookback + 6)
    chosen = {number for number in (newest, before, fourth) if number is not None}
    return [Place(*flat[number][:2]) for number in sorted(chosen)]


def _newest_answer(items: Sequence[Item]) -> int:
    """Give the number of the newest answer's first block, where the request before ended; 0 where there is none."""
    others = {"user", "system", "tool"}
    answer = next((index for index in reversed(range(len(items))) if items[index].role not in others), 0)
    return sum(len(item.blocks) for item in items[:answer])


def marked(items: Sequence[Item], where: Sequence[Place], mark: bytes = b"", after: bytes = b"") -> tuple[Item, ...]:
    """Give the items with marks on some blocks."""
    found = list(items)
    for place in where:
        item = found[place.item]
        blocks = list(item.blocks)
        blocks[place.block] = msgspec.structs.replace(blocks[place.block], mark=mark, after=after)
        found[place.item] = msgspec.structs.replace(item, blocks=tuple(blocks))
    return tuple(found)


def mark_last(field: Field, mark: bytes) -> Field:
    """Give a field whose data is a list of objects, with a mark in the last one."""
    assert field.data is not None
    return msgspec.structs.replace(field, marked=field.data[:-2] + b"," + mark + b"}]")
