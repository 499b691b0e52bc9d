"""The chain of hashes: one hash a header, each header naming the hash before it."""

from __future__ import annotations

from collections.abc import Sequence

from blake3 import blake3

from .backend import HeaderColumns, Record
from .canonical import HEADER_CONTEXT, header


class Chain:
    """The chain of hashes, header by header."""

    def __init__(self, previous: bytes | None = None) -> None:
        self.hash = previous
        """The stored hash of the last header."""
        self._other: bytes | None = None
        """Its computed hash, where the two differ."""
        # One hasher, started again for each header: deriving its key costs as much as hashing one.
        hasher = blake3(derive_key_context=HEADER_CONTEXT)
        self._reset, self._update = hasher.reset, hasher.update

    def add(self, thread: str, record: Record) -> bytes | None:
        """Take the next header; give the hash that it should have when it has another."""
        found, previous = record.hash, self.hash
        self.hash = found
        computed = self._hash(thread, record, previous)
        if computed == found:
            self._other = None
            return None
        if self._other is not None and self._hash(thread, record, self._other) == found:
            # The last header's stored hash was damaged, not this one's link to it.
            self._other = None
            return None
        self._other = computed
        return computed

    def extend(self, thread: str, first: int, page: Sequence[HeaderColumns]) -> bool:
        """Take a run of headers that begins at a position; when one of them is not right, none of them is taken."""
        reset, update, hash_before = self._reset, self._update, self.hash
        expected = first
        for position, parent, head, refs, type_, version, recorded, occurred, source, key, commitment, found in page:
            if position != expected:
                return False
            reset()
            data = header(
                thread,
                position,
                hash_before,
                parent,
                head,
                refs,
                type_,
                version,
                recorded,
                occurred,
                source,
                key,
                commitment,
            )
            if update(data).digest() != found:
                return False
            expected += 1
            hash_before = found
        self.hash, self._other = hash_before, None
        return True

    def _hash(self, thread: str, record: Record, previous: bytes | None) -> bytes:
        self._reset()
        return self._update(
            header(
                thread,
                record.position,
                previous,
                record.parent,
                record.head,
                record.refs,
                record.type,
                record.version,
                record.recorded_at,
                record.occurred_at,
                record.source,
                record.key,
                record.commitment,
            )
        ).digest()

    def skip(self, record: Record) -> None:
        """Go on behind a record that cannot be checked."""
        self.hash, self._other = record.hash, None
