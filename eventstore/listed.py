"""What a thread's events make of its row in the list of threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from . import records
from .backend import Backend, Listing, Problem, Record, ThreadRow
from .events import InputAdded, ThreadCreated, ThreadForked, ThreadTitled, TurnEnded, Unknown
from .placement import listing_of
from .replacements import as_it_reads

TYPES = frozenset({ThreadCreated.TYPE, ThreadForked.TYPE, ThreadTitled.TYPE, InputAdded.TYPE, TurnEnded.TYPE})
"""Types that say something of the row."""

ATTEMPTS_MAX = 20
"""How often a row that others change meanwhile is compared with its events."""

SETTLING_MAX = 100
"""How often it is waited for that a row and its events are of one moment."""

_MADE_ONCE = ("kind", "helper", "cwd", "agent", "source_id", "parent_thread", "parent_call")
"""What a thread's row says from its creation on."""


class Listed(msgspec.Struct):
    """What a thread's own events make of its row."""

    opened: Any = None
    """Body of its first event."""
    opened_at: int = 0
    listing: Listing = Listing()
    spoke_at: int = 0
    """Position of a user's last input."""

    def open(self, body: Any, record: Record) -> None:
        """Take the first event."""
        self.opened, self.opened_at = body, record.recorded_at

    def add(self, position: int, listing: Listing) -> None:
        """Take what an event changes."""
        self.spoke_at = position if listing.spoke else self.spoke_at
        kept = self.listing
        self.listing = Listing(
            kept.spoke or listing.spoke,
            kept.turns_ended + listing.turns_ended,
            listing.title or kept.title,
            listing.preview or kept.preview,
        )

    @property
    def title(self) -> str | None:
        """The title that the thread's own events give it."""
        return self.listing.title or getattr(self.opened, "title", None)


def listed_again(backend: Backend, row: ThreadRow, last: int = 2**62) -> Listed:
    """Read what a thread's own events make of its row, with what stands in place of erased content."""
    listed = Listed()
    for raw in backend.read(row.thread, row.origin_position + 1, last, types=TYPES):
        record, _ = as_it_reads(backend, row.thread, raw)
        body = body_of(record)
        if record.position == row.origin_position + 1:
            listed.open(body, record)
        listing = None if body is None else listing_of(body, None, records.decode_source(record.source), row)
        if listing is not None:
            listed.add(record.position, listing)
    return listed


def check_listing(backend: Backend, thread: str, listed: Listed | None, last: int) -> Iterator[Problem]:
    """Compare a thread's row with its events; where others write meanwhile, with those that it speaks of.

    Args:
        backend: where both lie.
        thread: its id.
        listed: what the events up to `last` make of the row; None to read them again.
        last: position of the last event looked at.
    """
    found: list[Problem] = []
    for _ in range(ATTEMPTS_MAX):
        now = _row_and_tip(backend, thread)
        if now is None:
            return  # deleted meanwhile
        row, tip = now
        if listed is None or tip != last:
            listed, last = listed_again(backend, row, tip), tip
        found = list(_compared(backend, row, listed))
        if not found or _row_and_tip(backend, thread) == now:
            break
        listed = None
    yield from found


def _row_and_tip(backend: Backend, thread: str) -> tuple[ThreadRow, int] | None:
    """Give a thread's row and its last position, of one moment as far as writers leave one; None for no thread."""
    row, last = backend.thread(thread), backend.tip(thread)
    for _ in range(SETTLING_MAX):
        if row is None or last is None:
            return None
        before = row, last
        row, last = backend.thread(thread), backend.tip(thread)
        if (row, last) == before:
            break
    return None if row is None or last is None else (row, last.position)


def _compared(backend: Backend, row: ThreadRow, listed: Listed) -> Iterator[Problem]:
    expected: dict[str, object] = {
        "turns": listed.listing.turns_ended,
        "preview": listed.listing.preview,
    }
    if listed.opened is not None:
        expected["created_at"] = listed.opened_at
    if isinstance(listed.opened, ThreadCreated):
        made = row_of(row.thread, listed.opened, 1, listed.opened_at, None)
        expected |= {name: getattr(made, name) for name in _MADE_ONCE}
    if listed.title or isinstance(listed.opened, ThreadCreated):
        expected["title"] = listed.title
    for name, value in expected.items():
        if getattr(row, name) != value:
            yield Problem("listing", f"{name} is {getattr(row, name)!r:.80}, the events say {value!r:.80}", row.thread)
    if (row.spoke > 0) != (listed.spoke_at > 0):
        yield Problem("listing", f"whether a user spoke: the events say {listed.spoke_at > 0}", row.thread)
    yield from check_cursors(backend, row, listed.spoke_at)


def check_cursors(backend: Backend, row: ThreadRow, spoke_at: int) -> Iterator[Problem]:
    """Check that the row's store-wide cursors are those of the thread's own events."""
    for name, cursor, least in (("touched", row.touched, 0), ("spoke", row.spoke, spoke_at)):
        if cursor == 0:
            continue
        found, at = backend.changes(cursor - 1, 1)
        if at != cursor or found[0][0] != row.thread or found[0][1] < least:
            yield Problem("listing", f"{name} is {cursor}, which is no such event of the thread", row.thread)


def body_of(record: Record) -> Any:
    """Decode a record's body; None when it is absent, or of a newer program."""
    if record.body is None:
        return None
    body = records.decode_body(record.type, record.version, record.body)
    return None if isinstance(body, Unknown) else body


def row_of(thread: str, body: Any, position: int, recorded_at: int, origin: ThreadRow | None) -> ThreadRow:
    """Give the row of a new thread whose own first event says this; a fork takes over what its origin's row says."""
    if origin is not None:
        forked = body if isinstance(body, ThreadForked) else None
        return ThreadRow(
            thread=thread,
            origin=origin.thread,
            origin_position=position - 1,
            kind=origin.kind,
            helper=origin.helper,
            title=(forked.title if forked else None) or origin.title,
            cwd=origin.cwd,
            agent=origin.agent,
            source_id=forked.source_id if forked else None,
            created_at=recorded_at,
        )
    if not isinstance(body, ThreadCreated):
        return ThreadRow(thread=thread, created_at=recorded_at)
    return ThreadRow(
        thread=thread,
        kind=body.kind,
        helper=body.origin == "subagent",
        title=body.title,
        cwd=body.cwd,
        agent=body.agent,
        source_id=body.source_id,
        parent_thread=body.parent.thread if body.parent else None,
        parent_call=body.parent.call if body.parent else None,
        created_at=recorded_at,
    )
