"""Which records of a source a thread holds, and where they stand: about a hundred bytes of memory a record."""

from __future__ import annotations

import re
from array import array

from blake3 import blake3

from ..records import fit_key

ID_LENGTH_MAX = 96
DIGEST_HEX = 12
"""Digits of a record's digest in a key: it tells apart what came under one id, nothing else."""

Named = tuple[str, str, str]
"""Id, digest and suffix: the parts of an event's key."""

_KEY = re.compile(rf"(.*)/([0-9a-f]{{{DIGEST_HEX}}})(?:/([a-z0-9]+))?")


class Identity:
    """Who a record is: its id in the source, or its digest where it has none, and the digest of its content."""

    __slots__ = ("digest", "id")

    def __init__(self, id_: str | None, data: bytes) -> None:
        digest = blake3(data).hexdigest()
        self.digest = digest[:DIGEST_HEX]
        self.id = f"h:{digest}" if id_ is None else key_part(id_)

    def named(self, suffix: str = "") -> Named:
        """Give the parts of the key of the record's first event, or of another one that comes of it."""
        return self.id, self.digest, suffix


def key_part(id_: str) -> str:
    """Give a source's id as it stands in keys, with room for a digest and a suffix."""
    return fit_key(id_, ID_LENGTH_MAX)


def compose_key(named: Named) -> str:
    """Give the idempotency key of these parts."""
    id_, digest, suffix = named
    return f"{id_}/{digest}/{suffix}" if suffix else f"{id_}/{digest}"


def parse_key(key: str) -> Named | None:
    """Give (id, digest, suffix) of a key that `compose_key` made; None for any other."""
    found = _KEY.fullmatch(key)
    return None if found is None else (found[1], found[2], found[3] or "")


class Known:
    """The records that a thread holds. Ids are kept as their hashes: a million of them meet with odds of 1 in 10^7."""

    def __init__(self) -> None:
        self._index: dict[int, int] = {}
        self._place = array("q")
        self._digest = array("q")
        self._met = bytearray()
        self._others: dict[tuple[int, int], bool] = {}
        """Records that came under an id that others had: (index, digest), and whether this run met them."""

    def add(self, id_: str, digest: str, place: int, *, met: bool) -> None:
        """Take a record, or its next event: `place` is the node below which its children go, 0 for none."""
        name, content = hash(id_), int(digest, 16)
        index = self._index.get(name)
        if index is None:
            self._index[name] = len(self._place)
            self._place.append(place)
            self._digest.append(content)
            self._met.append(met)
            return
        self._place[index] = place or self._place[index]
        if content != self._digest[index]:
            self._others[index, content] = met

    def place(self, id_: str) -> int | None:
        """Give the node where a record stands: 0 for one that stands nowhere, None for an unknown one."""
        index = self._index.get(hash(id_))
        return None if index is None else self._place[index]

    def meet(self, identity: Identity) -> bool | None:
        """Note that this run met a record; None when it is new, else whether this run had met it before."""
        index = self._index.get(hash(identity.id))
        if index is None:
            return None
        content = int(identity.digest, 16)
        if content == self._digest[index]:
            before, self._met[index] = bool(self._met[index]), True
            return before
        before_other = self._others.get((index, content))
        if before_other is not None:
            self._others[index, content] = True
        return before_other
