"""Stand-ins for what a store takes from the world: a clock that a test sets, and randomness from a seed."""

from __future__ import annotations

import random

START = 1_790_000_000_000_000
"""Microseconds UTC: a day in 2026."""


class Clock:
    """A clock that stands still until it is set, or goes on by `step` at each look."""

    def __init__(self, now: int = START, *, step: int = 0) -> None:
        self.now = now
        self.step = step

    def __call__(self) -> int:
        """Give the time, microseconds UTC."""
        self.now += self.step
        return self.now

    def advance(self, microseconds: int) -> None:
        """Go on, or back."""
        self.now += microseconds


class Entropy:
    """The same "random" bytes for the same seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def __call__(self, count: int) -> bytes:
        """Give that many bytes."""
        return self._random.randbytes(count)
