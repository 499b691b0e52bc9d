"""A set of texts that takes eight bytes for each, for what must be known of every record of a long file."""

from __future__ import annotations

from array import array
from bisect import bisect_left

BUCKETS = 1024
"""A million texts are about a thousand to a bucket, which is quickly searched and added to."""


class Hashes:
    """Texts by their hashes: of a million, two have the same with odds of 1 in 10^7."""

    def __init__(self) -> None:
        self._buckets = [array("q") for _ in range(BUCKETS)]

    def add(self, text: str) -> bool:
        """Add a text, and say whether it is new."""
        name = hash(text)
        bucket = self._buckets[name % BUCKETS]
        place = bisect_left(bucket, name)
        if place < len(bucket) and bucket[place] == name:
            return False
        bucket.insert(place, name)
        return True
