"""Which messages of a Gemini CLI session are on the active path, and what a list that sets them anew means for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from ..thread import Thread
from .base import Place
from .known import parse_key


class Step(msgspec.Struct, frozen=True):
    """What a list of messages does to the path."""

    kind: Literal["same", "back", "grow", "compact", "other"]
    back_to: str | Place | None = None
    """The message that is the last one now."""
    keeps: str | None = None
    """Of a compression: the first message that it left as it was."""
    heads: frozenset[str] = frozenset()
    """Of a compression: the messages that stand for what came before."""


class History:
    """The active path as a session's records make it."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.digests: dict[str, str] = {}
        """Of each message's record as it was written last, by id."""
        self._unplaced: set[str] = set()
        """Messages that no node came of."""

    def resume(self, thread: Thread) -> None:
        """Take what came of earlier records."""
        on_path = {event.position for event in thread.path()}
        for event in thread.events(bodies=False):
            named = None if event.key is None else parse_key(event.key)
            if named is None or named[0].startswith("h:") or ":" in named[0]:
                continue
            self.digests[named[0]] = named[1]
            if event.is_node and event.position in on_path and named[0] not in self.order[-1:]:
                self.order.append(named[0])

    def add(self, id_: str, digest: str) -> None:
        """Take a message, or the last one in other words."""
        if id_ not in self.order[-1:]:
            self.order.append(id_)
        self.digests[id_] = digest

    def write_again(self, id_: str, digest: str) -> None:
        """Take a message that was there before."""
        self.digests[id_] = digest

    def leave_out(self, id_: str) -> None:
        """Note that no node came of a message."""
        self._unplaced.add(id_)

    def before(self, id_: str) -> str | Place:
        """Give the message before one, or the root."""
        return self._last_of(self.order[: self.order.index(id_)]) if id_ in self.order else Place.BEFORE

    def rewind(self, id_: str) -> str | Place | None:
        """Go back to before a message; give the last one left. From an unknown one on, everything goes (None)."""
        if id_ not in self.order:
            self.order = []
            return None
        self.order = self.order[: self.order.index(id_)]
        return self._last_of(self.order)

    def set_to(self, ids: Sequence[str]) -> Step:
        """Set all messages anew."""
        step = self._step(ids)
        if step.kind in {"back", "compact"}:
            self.order = list(ids)
            self._unplaced |= step.heads
        elif step.kind == "grow":
            self.order = self.order[: _common(self.order, ids)]
        return step

    def _step(self, ids: Sequence[str]) -> Step:
        order, common = self.order, _common(self.order, ids)
        rest = ids[common:]
        if not ids or (not rest and common == len(order)):
            return Step("same")
        if not rest:
            return Step("back", back_to=self._last_of(ids))
        heads = [id_ for id_ in rest if id_ not in self.digests]
        tail = rest[len(heads) :]
        if list(rest[: len(heads)]) != heads or (common and tail):
            return Step("other")
        if common or not order:
            return Step("grow", back_to=self._last_of(ids[:common]) if common < len(order) else None)
        if tail and list(tail) != order[-len(tail) :]:
            return Step("other")
        return Step("compact", keeps=tail[0] if tail else None, heads=frozenset(heads))

    def _last_of(self, ids: Iterable[str]) -> str | Place:
        placed = [id_ for id_ in ids if id_ not in self._unplaced]
        return placed[-1] if placed else Place.ROOT


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))
