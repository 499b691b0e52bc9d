"""Dropping captures: rendered prompts that were kept for a window. What was captured stays provable by its digests."""

from __future__ import annotations

from .backend import Erasure, PositionTaken
from .events import CallObserved, CallPrepared, CaptureDropped
from .log import Log
from .placement import Appended, attachments_of
from .records import Draft, check_name
from .thread import Thread


def drop_captures(thread: Thread, *, before: int | None = None, reason: str = "window") -> list[Appended]:
    """Erase the captures of a thread's own calls, and note each; a second time there is nothing left to do.

    Bytes that another event or another thread still uses stay until it lets go of them too.

    Args:
        thread: the conversation. What it shares with its origin is the origin's to drop.
        before: only those recorded before this moment, microseconds UTC; None for all.
        reason: a short code, kept.

    Returns:
        The `capture.dropped` events.

    Raises:
        StoreLocked: it is done, but a reader keeps the -wal alive, and the erased bytes in it.
    """
    check_name(reason, "reason")
    log = thread.store.log(thread.id)
    with thread.store.mutex:
        while True:
            log.refresh()
            found = _captures(log)
            dropped = {call: name for call, (name, at) in found.items() if before is None or at < before}
            if not dropped:
                return []
            kept = {name for call, (name, _) in found.items() if call not in dropped} | _used_elsewhere(log)
            batch = log.place([Draft(body=CaptureDropped(call=call, reason=reason)) for call in dropped])
            erasure = Erasure(positions=(), attachments=tuple(sorted({*dropped.values()} - kept)))
            try:
                thread.store.backend.redact(log.row.thread, batch.records, erasure)
            except PositionTaken:
                log.learn(batch)
                continue
            finally:
                log.refresh()
            break
    thread.store.backend.finish_erasing()
    return batch.answers


def _captures(log: Log) -> dict[int, tuple[str, int]]:
    """Give (attachment, time of recording) of the captures not dropped yet, by the position of their call."""
    found: dict[int, tuple[str, int]] = {}
    types = (CallPrepared.TYPE, CallObserved.TYPE, CaptureDropped.TYPE)
    for record in log.read(first=log.row.origin_position + 1, types=types):
        body = log.event(record).body
        if isinstance(body, CaptureDropped):
            found.pop(body.call, None)
        elif isinstance(body, CallPrepared | CallObserved) and body.capture is not None:
            found[record.position] = body.capture, record.recorded_at
    return found


def _used_elsewhere(log: Log) -> set[str]:
    """Give the attachments that the thread's own events use for something else than a capture."""
    used: set[str] = set()
    for record in log.read(first=log.row.origin_position + 1):
        body = log.event(record).body
        if isinstance(body, CallPrepared):
            used.add(body.profile)
        elif not isinstance(body, CallObserved):
            used.update(attachments_of(body, record.output))
    return used
