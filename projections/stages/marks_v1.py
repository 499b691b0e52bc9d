"""Where cache marks go: a policy of four, so that each call finds what the one before wrote.

Mark 1 stands behind system and tools. Mark 2 on the newest block that is not volatile. Mark 3 on the last block of the
request before (the user's message before the newest answer), which hits although many blocks came since. Mark 4 on the
newest summary, or inside a turn so long that the look-back of mark 2 would not reach mark 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .pieces_v1 import SUMMARY, Piece
from .request_v1 import Field, Item, WireBlock


class Place(msgspec.Struct, frozen=True):
    """One block by item and place in it."""

    item: int
    block: int


def places(items: Sequence[Item], pieces: Sequence[Piece], markable: Sequence[bool], lookback: int) -> list[Place]:
    """Give the places of marks 2 to 4, in request order; `markable` says for each block whether it may carry one."""
    flat = [Place(i, b) for i, item in enumerate(items) for b in range(len(item.blocks))]
    stable = [
        number
        for number, place in enumerate(flat)
        if markable[number] and not _volatile(items[place.item].blocks[place.block], pieces)
    ]
    if not stable:
        return []
    newest = stable[-1]
    before = _end_of_request_before(items, flat, stable)
    summaries = [number for number in stable if _is_summary(items, flat[number], pieces)]
    chosen = {newest}
    if before is not None:
        chosen.add(before)
    if summaries:
        chosen.add(summaries[-1])
    elif before is not None and lookback and newest - before > lookback:
        between = [number for number in stable if before < number <= newest - lookback + 5]
        chosen.update(between[-1:])
    return [flat[number] for number in sorted(chosen)]


def _end_of_request_before(items: Sequence[Item], flat: Sequence[Place], stable: Sequence[int]) -> int | None:
    """Give the last block before the newest answer: the request before ended there."""
    answers = [index for index, item in enumerate(items) if item.role not in {"user", "system", "tool"}]
    if not answers:
        return None
    return next((number for number in reversed(stable) if flat[number].item < answers[-1]), None)


def _volatile(block: WireBlock, pieces: Sequence[Piece]) -> bool:
    return any(pieces[index].volatile for index in block.pieces)


def _is_summary(items: Sequence[Item], place: Place, pieces: Sequence[Piece]) -> bool:
    return any(pieces[index].provenance == SUMMARY for index in items[place.item].blocks[place.block].pieces)


def marked(items: Sequence[Item], where: Sequence[Place], mark: bytes = b"", after: bytes = b"") -> tuple[Item, ...]:
    """Give the items with marks on some blocks."""
    wanted = {(place.item, place.block) for place in where}
    return tuple(
        msgspec.structs.replace(
            item,
            blocks=tuple(
                msgspec.structs.replace(block, mark=mark, after=after) if (i, b) in wanted else block
                for b, block in enumerate(item.blocks)
            ),
        )
        if any(i == place.item for place in where)
        else item
        for i, item in enumerate(items)
    )


def mark_last(field: Field, mark: bytes) -> Field:
    """Give a field whose data is a list of objects, with a mark in the last one."""
    assert field.data is not None
    return msgspec.structs.replace(field, marked=field.data[:-2] + b"," + mark + b"}]")
