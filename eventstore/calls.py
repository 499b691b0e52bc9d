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


def number_calls(events: Iterable[Event]) -> list[int]:
    """Give the positions of the events that stand for calls; a `call.finished` about one of them is no call more."""
    calls: list[int] = []
    known: set[int] = set()
    for event in events:
        if event.type == CallFinished.TYPE and any(position in known for _, position in event.refs):
            continue
        calls.append(event.position)
        known.add(event.position)
    return calls


def calls(thread: Thread, at: int | None = None) -> list[int]:
    """Give the positions of a thread's calls, as of a position."""
    return number_calls(thread.events(last=at, types=TYPES, bodies=False))


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
