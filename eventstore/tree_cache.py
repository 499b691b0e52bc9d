"""A thread's tree, kept in the store for the next process: a derived value, which may go at any time.

What is kept are parents as branches, results, and positions by type: the structure that headers state, and none of what
was said. `verify` compares it with the tree that the rows give.
"""

from __future__ import annotations

import zlib
from array import array

import msgspec

from .sealed import seal, unseal
from .tree import Packed, Tree

QUICK = 1
"""The level of compression: positions are regular, so more work saves little."""


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    position: int
    hash: bytes
    tree: Packed
    types: dict[str, bytes]


class Snapshot(msgspec.Struct, frozen=True):
    """A tree as of a position."""

    position: int
    hash: bytes
    """Of the event there: the log is the one that the tree was grown from."""
    tree: Tree
    types: dict[str, array[int]]
    """Positions by type."""


def name(thread: str) -> str:
    """Give the name that a thread's tree is kept by."""
    return f"tree 1 {thread}"


def packed(snapshot: Snapshot) -> bytes:
    """Give a value to keep."""
    types = {type_: positions.tobytes() for type_, positions in snapshot.types.items()}
    stored = _Stored(snapshot.position, snapshot.hash, snapshot.tree.pack(), types)
    return seal(zlib.compress(msgspec.msgpack.encode(stored), QUICK))


def unpacked(value: bytes) -> Snapshot | None:
    """Read a kept value; None for one that is damaged, or of another program's."""
    data = unseal(value)
    if data is None:
        return None
    try:
        stored = msgspec.msgpack.decode(zlib.decompress(data), type=_Stored)
        types = {type_: array("q", positions) for type_, positions in stored.types.items()}
        return Snapshot(stored.position, stored.hash, Tree.unpack(stored.tree), types)
    except (msgspec.MsgspecError, zlib.error, ValueError):
        return None
