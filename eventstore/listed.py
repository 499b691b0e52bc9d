"""What a thread's events make of its row in the list of threads."""

from __future__ import annotations

from typing import Any

import msgspec

from . import records
from .backend import Backend, Listing, Record, ThreadRow
from .events import InputAdded, ThreadCreated, ThreadForked, ThreadTitled, TurnEnded, Unknown
from .placement import listing_of
from .replacements import as_it_reads

TYPES = frozenset({ThreadCreated.TYPE, ThreadForked.TYPE, ThreadTitled.TYPE, InputAdded.TYPE, TurnEnded.TYPE})
"""Types that say something of the row."""


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


def listed_again(backend: Backend, row: ThreadRow) -> Listed:
    """Read what a thread's own events make of its row, with what stands in place of erased content."""
    listed = Listed()
    for raw in backend.read(row.thread, row.origin_position + 1, 2**62, types=TYPES):
        record, _ = as_it_reads(backend, row.thread, raw)
        body = body_of(record)
        if record.position == row.origin_position + 1:
            listed.open(body, record)
        listing = None if body is None else listing_of(body, None, records.decode_source(record.source), row)
        if listing is not None:
            listed.add(record.position, listing)
    return listed


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
