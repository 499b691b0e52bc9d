"""One provider request as bytes in parts: what surrounds the talk, and its blocks, each encoded once.

A block is one content block or input item in request order. Blocks are kept apart from their cache marks, so that
moving a mark changes no digest; the request's bytes are put together from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from blake3 import blake3

from .pieces_v1 import Piece


class WireBlock(msgspec.Struct, frozen=True, gc=False):
    """One block, as JSON without its mark."""

    data: bytes
    pieces: tuple[int, ...] = ()
    """Indexes of the pieces that it was made of."""
    mark: bytes = b""
    """JSON members that mark it for the cache, put before its closing brace."""
    after: bytes = b""
    """A JSON value that marks it from behind, as a block of its own."""


class Item(msgspec.Struct, frozen=True, gc=False):
    """One entry of the talk: a message around its blocks, or a block alone (`opening` is then empty)."""

    role: str
    opening: bytes
    blocks: tuple[WireBlock, ...]
    closing: bytes


class Field(msgspec.Struct, frozen=True, gc=False):
    """One member of the request's top level; the one without data holds the talk."""

    name: str
    data: bytes | None
    marked: bytes | None = None
    """The same with cache marks."""
    pieces: tuple[int, ...] = ()


class Request(msgspec.Struct, frozen=True):
    """What an encoder gives: fields in order, the talk, and what had to be repaired or left out."""

    fields: tuple[Field, ...]
    items: tuple[Item, ...]
    repairs: tuple[Piece, ...] = ()


def encode(value: object) -> bytes:
    """Give compact JSON in insertion order."""
    return msgspec.json.encode(value)


def body(request: Request) -> bytes:
    """Give the bytes of the request."""
    parts: list[bytes] = []
    for field in request.fields:
        parts += (b"," if parts else b"{", encode(field.name), b":")
        value = field.marked or field.data
        if value is not None:
            parts.append(value)
            continue
        between = b"["
        for item in request.items:
            parts.append(between)
            _put(item, parts)
            between = b","
        parts.append(b"]" if request.items else b"[]")
    parts.append(b"}")
    # Joined once: a long talk is not copied level by level.
    return b"".join(parts)


def item_bytes(item: Item) -> bytes:
    """Give the bytes of one item, marks included."""
    parts: list[bytes] = []
    _put(item, parts)
    return b"".join(parts)


def _put(item: Item, parts: list[bytes]) -> None:
    parts.append(item.opening)
    between = b""
    for block in item.blocks:
        parts.append(between)
        if block.mark:
            parts += (block.data[:-1], b",", block.mark, b"}")
        else:
            parts.append(block.data)
        if block.after:
            parts += (b",", block.after)
        between = b","
    parts.append(item.closing)


def skeleton(request: Request) -> bytes:
    """Give the request without its blocks and marks."""
    fields = [encode(field.name) + b":" + (b"[]" if field.data is None else field.data) for field in request.fields]
    return b"{" + b",".join(fields) + b"}"


def blocks(request: Request) -> Iterator[bytes]:
    """Iterate over the blocks without marks, each with the role that says it."""
    for item in request.items:
        role = encode(item.role)
        for block in item.blocks:
            yield b"[" + role + b"," + block.data + b"]"


def links(request: Request) -> Iterator[bytes]:
    """Iterate over what the rolling digest is of: each block, and whether it begins a message or goes on with one."""
    for item in request.items:
        role = encode(item.role)
        sign = b"|["
        for block in item.blocks:
            yield sign + role + b"," + block.data + b"]"
            sign = b"+["


def marks(fields: Sequence[Field], items: Iterable[tuple[int, Item]]) -> bytes:
    """Give the marks and where they stand, as JSON, of fields and of items with the number of their first block."""
    found: list[tuple[str | int, str]] = [(field.name, field.marked.decode()) for field in fields if field.marked]
    for first, item in items:
        for number, block in enumerate(item.blocks, first):
            if block.mark or block.after:
                found.append((number, (block.mark or block.after).decode()))
    return encode(found)


def numbered(items: Iterable[Item], first: int = 0) -> Iterator[tuple[int, Item]]:
    """Iterate over items with the number of their first block."""
    for item in items:
        yield first, item
        first += len(item.blocks)


def rolling(first: bytes, parts: Sequence[bytes]) -> list[bytes]:
    """Give r_1 ... r_n from r_0 = `first`: each the blake3 of the one before, the length and the block."""
    found = []
    previous = first
    for part in parts:
        previous = blake3(previous + len(part).to_bytes(8, "little") + part).digest()
        found.append(previous)
    return found


def start(request: Request) -> bytes:
    """Give r_0."""
    return blake3(skeleton(request)).digest()


def pointers(request: Request) -> list[str]:
    """Give the JSON pointer of every block, in order."""
    name = next(field.name for field in request.fields if field.data is None)
    found = []
    for index, item in enumerate(request.items):
        if not item.opening:
            found.append(f"/{name}/{index}")
            continue
        inner = item.opening.rsplit(b'"', 2)[-2].decode()
        offset = 0
        for block in item.blocks:
            found.append(f"/{name}/{index}/{inner}/{offset}")
            offset += 2 if block.after else 1
    return found
