"""What an assembler is handed: one path of one thread as of one position, and nothing else of the world."""

from __future__ import annotations

import msgspec

from .view_v1 import Stored


class Material(msgspec.Struct, frozen=True, gc=False):
    """One snapshot."""

    path: tuple[Stored, ...]
    """The nodes from the root to the leaf."""
    notes: tuple[Stored, ...] = ()
    """The notes up to the position that say something of the path, in order."""
    at: int = 0
    """The position of the snapshot."""
