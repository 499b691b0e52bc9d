"""Who a line of a rollout is: its content, and which of the lines with this content it is.

Lines bear no ids; in older forms not even times, so that two may be alike to the byte and yet be two.
"""

from __future__ import annotations

from .base import Desk
from .hashes import Hashes
from .known import Identity


class Identities:
    """Numbers alike lines in their order."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._seen = Hashes()
        self._counts: dict[str, int] = {}
        """Of contents that were met more than once."""
        self.goes_on = False
        """Whether the lines go on with what an earlier import brought: then that counts too."""

    def of(self, data: bytes, thread: str) -> Identity:
        """Give the identity of a thread's next line."""
        found = Identity(None, data)
        if not self.goes_on and self._seen.add(found.id):
            return found
        number = self._counts.get(found.id, 0 if self.goes_on else 1) + 1
        while self.goes_on and self._desk.holds(thread, _numbered(found.id, number)):
            number += 1
        if number > 1:
            self._counts[found.id] = number
        return Identity(_numbered(found.id, number), data)


def _numbered(id_: str, number: int) -> str:
    return id_ if number == 1 else f"{id_}.{number}"
