"""The short digests of a prompt's beginnings, as a manifest keeps them: 32 slots of 8 bytes, whatever its length.

Slot 0 is of r_0; slots 1 to 22 are of the first 1, 2, 4, ... 2^21 blocks, as far as at least 9 more stand behind them;
slots 23 to 31 are of all but the last 8, 7, ... 0 blocks, but never of none. All others hold zeros.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping

DIGEST_BYTES = 8
DOUBLINGS = 22
RECENT = 8

Counts = tuple[int | None, ...]
"""The number of blocks that each slot is of; None for an empty one."""


def counts(blocks: int) -> Counts:
    """Give what the slots of a prompt of so many blocks are of."""
    first_recent = max(1, blocks - RECENT)
    doubling = (count if (count := 1 << power) < first_recent else None for power in range(DOUBLINGS))
    recent = (count if (count := blocks - back) > 0 else None for back in range(RECENT, -1, -1))
    return 0, *doubling, *recent


def packed(digests: Mapping[int, bytes], blocks: int) -> str:
    """Give the slots, base64, from digests by number of blocks."""
    empty = bytes(DIGEST_BYTES)
    slots = (empty if count is None else digests.get(count, empty) for count in counts(blocks))
    return b64encode(b"".join(slots)).decode()


def unpacked(text: str, blocks: int) -> list[tuple[int, bytes]]:
    """Give (number of blocks, digest) of the slots that are not empty, ascending; none for what is no base64."""
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        return []
    slots = (data[start : start + DIGEST_BYTES] for start in range(0, len(data), DIGEST_BYTES))
    found = zip(counts(blocks), slots, strict=False)
    return [(count, digest) for count, digest in found if count is not None and any(digest)]
