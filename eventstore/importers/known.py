"""Which records of a source a thread holds, and where they stand."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left

from blake3 import blake3

from ..records import fit_key

ID_LENGTH_MAX = 96
DIGEST_HEX = 12
"""Digits of a record's digest in a key: it tells apart what came under one id, nothing else."""

RECENT_MAX = 32_768
"""Records that are looked up fast; older ones are searched."""

Named = tuple[str, str, str]
"""Id, digest and suffix: the parts of an event's key."""

_KEY = re.compile(rf"(.*)/([0-9a-f]{{{DIGEST_HEX}}})(?:/([a-z0-9]+))?")


class Identity:
    """Who a record is: its id in the source, or its digest where it has none, and the digest of its content."""

    __slots__ = ("digest", "id")

    def __init__(self, id_: str | None, data: bytes) -> None:
        digest = blake3(data).hexdigest()
        self.digest = digest[:DIGEST_HEX]
        self.id = key_part(id_) if id_ is not None else f"h:{digest}"

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
    """The records that a thread holds: about thirty bytes of memory a record, so that long files fit.

    Ids are kept as their hashes, of which a million meet with odds of 1 in 10^7. New ones go into a dict; when that has
    grown, its entries become a sorted run, which is searched.
    """

    def __init__(self) -> None:
        self._recent: dict[int, int] = {}
        self._runs: list[tuple[array[int], array[int]]] = []
        """(hashes in order, their indexes)."""
        self._place = array("q")
        self._digest = array("Q")
        self._met = bytearray()
        self._others: dict[tuple[int, int], bool] = {}
        """Records that came under an id that others had: (index, digest), and whether this run met them."""

    def _index(self, id_: str) -> int | None:
        name = hash(id_)
        index = self._recent.get(name)
        if index is not None:
            return index
        for names, indexes in reversed(self._runs):
            found = bisect_left(names, name)
            if found < len(names) and names[found] == name:
                return indexes[found]
        return None

    def _add_index(self, id_: str) -> None:
        self._recent[hash(id_)] = len(self._place)
        if len(self._recent) >= RECENT_MAX:
            entries = sorted(self._recent.items())
            self._runs.append((array("q", [name for name, _ in entries]), array("q", [index for _, index in entries])))
            self._recent = {}

    def add(self, id_: str, digest: str, place: int, *, met: bool) -> None:
        """Take a record, or its next event: `place` is the node below which its children go, 0 for none."""
        content = int(digest, 16)
        index = self._index(id_)
        if index is None:
            self._add_index(id_)
            self._place.append(place)
            self._digest.append(content)
            self._met.append(met)
            return
        self._place[index] = place or self._place[index]
        if content != self._digest[index]:
            self._others[index, content] = met

    def place(self, id_: str) -> int | None:
        """Give the node where a record stands: 0 for one that stands nowhere, None for an unknown one."""
        index = self._index(id_)
        return None if index is None else self._place[index]

    def meet(self, identity: Identity) -> bool | None:
        """Note that this run met a record; None when it is new, else whether this run had met it before."""
        index = self._index(identity.id)
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
