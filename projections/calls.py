"""The calls of a thread, numbered in log order: prepared here, built by the host, or known from an import."""

from __future__ import annotations

from typing import Literal

import msgspec

from convlog.eventstore.calls import TYPES, grouped
from convlog.eventstore.errors import NoSuchCall
from convlog.eventstore.events import CallFinished, CallObserved, CallPrepared, Event
from convlog.eventstore.thread import Thread

CallKind = Literal["prepared", "observed", "imported"]

_KINDS: dict[str, CallKind] = {
    CallPrepared.TYPE: "prepared",
    CallObserved.TYPE: "observed",
    CallFinished.TYPE: "imported",
}


class CallInfo(msgspec.Struct, frozen=True):
    """One call: its number from 1, the event that stands for it, and what came back."""

    number: int
    kind: CallKind
    event: Event
    finished: Event | None = None

    @property
    def position(self) -> int:
        """The event's position."""
        return self.event.position

    @property
    def manifest(self) -> CallPrepared | None:
        """The manifest, where the prompt was prepared here."""
        return self.event.body if isinstance(self.event.body, CallPrepared) else None

    @property
    def answer(self) -> CallFinished | None:
        """What came back, where it was recorded."""
        return self.finished.body if self.finished and isinstance(self.finished.body, CallFinished) else None

    @property
    def first_node(self) -> int | None:
        """For an imported call: the first node of its response."""
        return self.event.ref("about") if self.kind == "imported" else None


def calls(thread: Thread, last: int | None = None) -> list[CallInfo]:
    """Give the calls up to a position, in log order."""
    pairs = grouped(thread.events(last=last, types=TYPES, outputs=False))
    return [CallInfo(number, _KINDS[event.type], event, answer) for number, (event, answer) in enumerate(pairs, 1)]


def call(thread: Thread, number: int) -> CallInfo:
    """Give the call of a number; -1 is the last.

    Raises:
        NoSuchCall: the thread has none of it.
    """
    found = calls(thread)
    if not found or not (number == -1 or 0 < number <= len(found)):
        raise NoSuchCall(f"thread {thread.id[:12]} has no call {number}", hint=f"it has {len(found)}")
    return found[number - 1 if number > 0 else -1]


def info_of(thread: Thread, position: int) -> CallInfo | None:
    """Give the call that the event at a position stands for, without its number and what came back; None for none."""
    event = thread.event(position, output=False)
    kind = _KINDS.get(event.type)
    return None if kind is None else CallInfo(0, kind, event)


def leaf_and_at(info: CallInfo, thread: Thread) -> tuple[int, int]:
    """Give the leaf and the position that a call's prompt is derived at."""
    manifest = info.manifest
    if manifest is not None:
        return manifest.leaf, manifest.at
    if isinstance(info.event.body, CallObserved):
        return info.event.body.leaf, info.position - 1
    node = info.first_node
    if node is None or not thread.tree.is_node(node):
        # Nothing came back: what was active then is what was asked about.
        return info.event.head, info.position - 1
    return thread.tree.parent(node) or 1, node - 1
