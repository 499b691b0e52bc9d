"""Settled turns as encoded, kept in the store for the next process.

A thread has one row of pages, by one recipe at a time: each page holds the turns that settled since the one before, and
where the thread stood then. Pages are derived values: they may go at any time, and an erasure anywhere in the store
drops them all. What proves a prompt never reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from blake3 import blake3

from convlog.eventstore.errors import ConvlogError
from convlog.eventstore.sealed import DIGEST_BYTES, seal, unseal

from .freeze import fingerprint
from .generation import GENERATION
from .kept import Kept, Portion
from .prepare import runtime

if TYPE_CHECKING:
    from .conversation import Thread
    from .derive import Recipe

PAGE_BYTES_MAX = 16 * 1024 * 1024
"""No provider takes a prompt this long."""

MADE_BY = (
    *("caches.py", "derive.py", "kept.py", "live.py", "live_derived.py", "material.py", "reach.py", "window.py"),
)
"""The files, beside the versions' own, that pages hang on."""


class Page(msgspec.Struct, frozen=True, array_like=True):
    """Turns that settled since the page before, and where the thread stood."""

    before: bytes
    """The digest of the page before; the first page has what it was made by in its place."""
    at: int
    hash: bytes
    """Of the event at this position: the log is the one that the page was made of."""
    tip: int
    """The last node of the path."""
    first: int
    """The first node that did not settle."""
    crossed: bool
    """Whether a summary, which does not apply on this path, begins in what settled and ends behind it."""
    standing: tuple[int, ...]
    """Positions of the settled nodes that set instructions, tools, context and task list."""
    lead_count: int
    portion: Portion


class Pages:
    """The pages of one thread by one recipe, as far as they were read or written here."""

    def __init__(self, thread: Thread, recipe: Recipe) -> None:
        self._thread = thread
        self._backend = thread.store.backend
        self._encoder = recipe.encoder
        self._made_by = made_by(recipe)
        self.start_over()

    def start_over(self) -> None:
        """Begin anew: the next page is the first."""
        self._before, self._number = self._made_by, 0
        self._chunks, self._names = 0, 0

    def newest(self, leaf: int, at: int) -> tuple[Page, Kept] | None:
        """Give the newest page on the path to a leaf as of a position, and what it and those before it hold."""
        self.start_over()
        found = list(self._read())
        while found and not self._fits(found[-1][0], leaf, at):
            found.pop()
        if not found:
            return None
        rolled = dict(found[0][0].portion.rolled)
        kept = Kept(self._encoder, [rolled[number] for number in range(found[0][0].lead_count + 1)])
        for page, digest in found:
            kept.add(page.portion)
            self._before = digest
        self._number, self._chunks, self._names = len(found), len(kept.chunks), len(kept.names)
        return found[-1][0], kept

    def _read(self) -> Iterator[tuple[Page, bytes]]:
        """Iterate over the pages that follow one another, each with its digest."""
        before, number = self._made_by, 0
        while (value := self._backend.cached(self._name(number))) is not None:
            data = unseal(value)
            if data is None:
                return
            try:
                page = msgspec.msgpack.decode(data, type=Page)
            except msgspec.MsgspecError:
                return  # another version's
            if page.before != before:
                return
            before, number = value[:DIGEST_BYTES], number + 1
            yield page, before

    def _fits(self, page: Page, leaf: int, at: int) -> bool:
        return (
            page.at <= at
            and self._thread.tree.is_node(page.first)
            and self._thread.tree.is_above(page.first, leaf)
            and self._thread.hash_at(page.at) == page.hash
        )

    def add(
        self,
        kept: Kept,
        *,
        at: int,
        tip: int,
        first: int,
        crossed: bool,
        standing: tuple[int, ...],
        generation: bytes,
    ) -> None:
        """Write a page of what was kept since the last one, unless something was erased meanwhile."""
        page = Page(
            before=self._before,
            at=at,
            hash=self._thread.hash_at(at),
            tip=tip,
            first=first,
            crossed=crossed,
            standing=standing,
            lead_count=kept.lead_count,
            portion=kept.since(self._chunks, self._names),
        )
        value = seal(msgspec.msgpack.encode(page))
        if len(value) > PAGE_BYTES_MAX or not self._write(value, generation):
            return
        self._before, self._number = value[:DIGEST_BYTES], self._number + 1
        self._chunks, self._names = len(kept.chunks), len(kept.names)

    def _write(self, value: bytes, generation: bytes) -> bool:
        try:
            return self._backend.cache(self._name(self._number), value, self._thread.id, given=(GENERATION, generation))
        except ConvlogError:
            # A prompt does not fail for want of room or time to keep what can be derived again.
            return False

    def _name(self, number: int) -> str:
        return f"turns {self._thread.id} {number}"


def made_by(recipe: Recipe) -> bytes:
    """Give the digest of all that pages by a recipe hang on, besides the events."""
    parts = (
        msgspec.json.encode(recipe),
        fingerprint(recipe.assembler).encode(),
        fingerprint(recipe.encoder).encode(),
        runtime().encode(),
        _own_code(),
    )
    return blake3(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).digest()


@cache
def _own_code() -> bytes:
    folder = Path(__file__).parent
    return b"".join(blake3((folder / name).read_bytes()).digest() for name in MADE_BY)
