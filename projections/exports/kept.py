"""The records of a foreign source that a thread was imported from, told again from the events that came of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from convlog.eventstore.events import Event, RecordKept
from convlog.eventstore.importers.known import parse_key
from convlog.eventstore.importers.weave import ADDED
from convlog.eventstore.thread import Thread

DIGEST_ID_LENGTH = len("h:") + 64
"""Length of the id of a record that has none of its own, or one that does not fit into a key."""


class Kept(msgspec.Struct, frozen=True):
    """One record: its id, and the events that it made; an event that no record made stands alone, without an id."""

    id: str | None
    events: tuple[Event, ...]

    @property
    def first(self) -> Event:
        """The first event."""
        return self.events[0]

    @property
    def has_own_id(self) -> bool:
        """Whether the id is the source's, and not a digest that stands for it."""
        return self.id is not None and not is_digest(self.id)

    @property
    def verbatim(self) -> bytes | None:
        """The record as it stood, when it was kept."""
        found = next((event.body for event in self.events if isinstance(event.body, RecordKept)), None)
        return None if found is None else found.record.encode()

    @property
    def nodes(self) -> tuple[Event, ...]:
        """The nodes among its events."""
        return tuple(event for event in self.events if event.is_node)


def is_digest(id_: str) -> bool:
    """Whether an id in a key stands for a record, or an id, that does not fit there."""
    return id_.startswith("h:") and len(id_) == DIGEST_ID_LENGTH


def is_from(thread: Thread, form: str) -> bool:
    """Whether a thread was imported from a foreign form: then its keys and extras are that form's."""
    source = thread.event(1, output=False).source
    return source.kind == "import" and source.name == form


def source_id(thread: Thread) -> str:
    """Give the id that the source knows a thread by, or its own."""
    return thread.store.row(thread.id).source_id or thread.id


def records_of(events: Iterable[Event], *, own: bool) -> Iterator[Kept]:
    """Put the events together that came of one record; notes that the import added are left out.

    Args:
        events: in log order.
        own: whether keys are those of the form; else every event stands alone.
    """
    group: list[Event] = []
    at: tuple[str, str] | None = None
    for event in events:
        named = parse_key(event.key) if own and event.key is not None else None
        if named is not None and named[2] in ADDED:
            continue
        here = None if named is None else named[:2]
        if group and (here is None or here != at):
            yield Kept(None if at is None else at[0], tuple(group))
            group = []
        group.append(event)
        at = here
    if group:
        yield Kept(None if at is None else at[0], tuple(group))


def on_path(thread: Thread, leaf: int | None) -> Iterator[Event]:
    """Iterate over a thread's events; with a leaf, over the nodes above it and the notes about them."""
    path = None if leaf is None else set(thread.tree.path(leaf))
    for event in thread.events():
        if path is None or _concerns(event, path):
            yield event


def _concerns(event: Event, path: set[int]) -> bool:
    if event.is_node:
        return event.position in path
    about = event.ref("about")
    return about is None or about in path
