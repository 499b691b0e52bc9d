"""The calls of a thread, numbered from 1: one rule for addresses, listings and replay.

A call is what one request to a model was: prepared here, observed from a host, or known by its response alone
(imported). Its number is its place among the events that first speak of a call, in log order; so it never changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from .errors import NoSuchCall
from .events import CallFinished, CallObserved, CallPrepared, Event
from .thread import Thread

TYPES = (CallPrepared.TYPE, CallObserved.TYPE, CallFinished.TYPE)


def grouped(events: Iterable[Event]) -> list[tuple[Event, Event | None]]:
    """Give (the event that stands for a call, the `call.finished` about it) of each call, in log order."""
    found: dict[int, tuple[Event, Event | None]] = {}
    for event in events:
        about = event.ref("about")
        if event.type == CallFinished.TYPE and about in found:
            found[about] = (found[about][0], event)
        else:
            found[event.position] = (event, event if event.type == CallFinished.TYPE else None)
    return list(found.values())


def calls(thread: Thread, at: int | None = None) -> list[int]:
    """Give the positions of a thread's calls, as of a position."""
    return [event.position for event, _ in grouped(thread.events(last=at, types=TYPES, bodies=False))]


def find_call(thread: Thread, number: int) -> int:
    """Give the position of the call of this number.

    Raises:
        NoSuchCall: the thread has fewer calls.
    """
    found = calls(thread)
    if not 0 < number <= len(found):
        how_many = f"calls run from 1 to {len(found)}" if found else "it has no recorded call"
        raise NoSuchCall(f"thread {thread.id[:12]} has no call {number}", hint=how_many)
    return found[number - 1]
