"""Parts of files in which only the first record says which thread they are of: what a part without it goes on with."""

from __future__ import annotations

from itertools import islice
from typing import Literal

from ..events import ThreadCreated
from ..thread import Thread
from .base import Desk, ThreadInfo

THREADS_LOOKED_AT = 8
"""Threads, last touched first, that a part may go on with."""


def continued_thread(desk: Desk, own: str | None, at: int | None) -> str | None:
    """Find the thread that a part goes on with, or was taken into when it came before.

    Args:
        desk: the run.
        own: id of its first record; None where that would not tell it from others.
        at: when that was written, which must not be before the thread's end.

    Returns:
        The source's id of the thread; None when it goes on with none.
    """
    near = list(islice(desk.continued(), THREADS_LOOKED_AT))
    for id_, _ in near:
        if own is not None and desk.holds(id_, own):
            return id_
    for id_, fits in near:
        stored = desk.thread(id_) if fits else None
        if stored is not None:
            last = max((event.occurred_at or 0 for event in stored.events(bodies=False)), default=0)
            return id_ if at is None or at >= last else None
    return None


def info_of(stored: Thread, id_: str, agent: str) -> ThreadInfo:
    """Give what an importer says of a thread that is stored already."""
    created = stored.event(1)
    body = created.body
    assert isinstance(body, ThreadCreated)
    origin: Literal["import", "subagent"] = "subagent" if body.origin == "subagent" else "import"
    return ThreadInfo(id=id_, agent=agent, labels=body.labels, origin=origin, occurred_at=created.occurred_at)
