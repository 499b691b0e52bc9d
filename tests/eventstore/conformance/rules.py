"""The list of rules, and what several of them need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from convlog.eventstore.backend import Record
from convlog.eventstore.chain import Chain
from convlog.eventstore.events import SegmentAdded
from convlog.eventstore.log import END
from convlog.eventstore.records import Draft
from convlog.eventstore.store import Store
from convlog.eventstore.thread import Thread
from tests.stores import Place

Rule = Callable[[Place], None]

RULES: dict[str, Rule] = {}


def rule(function: Rule) -> Rule:
    """Add a rule to the list."""
    assert function.__name__ not in RULES
    RULES[function.__name__] = function
    return function


def prose(text: str, **options: Any) -> Draft:
    """Give a draft of the agent's prose."""
    return Draft(body=SegmentAdded(text=text), **options)


def stored(store: Store, thread: Thread) -> list[Record]:
    """Give the records of a thread's own rows, as the backend has them."""
    return list(store.backend.read(thread.id, 1, END))


@contextmanager
def unchanged(thread: Thread) -> Iterator[None]:
    """Assert that a thread is at its end what it was before: tip, head and tree."""
    before = thread.position, thread.tip, thread.head
    yield
    thread.refresh()
    assert (thread.position, thread.tip, thread.head) == before
    assert thread.position == len(list(thread.events(bodies=False)))


def text_of(thread: Thread, position: int) -> str:
    """Give the text of a segment, an input or a result."""
    event = thread.event(position)
    if event.output is not None:
        return event.output.decode()
    return event.body.text if isinstance(event.body, SegmentAdded) else event.body.content[0].text


def texts(thread: Thread, leaf: int | None = None, *, at: int | None = None) -> list[str]:
    """Give the texts along a path, the root left out."""
    return [text_of(thread, event.position) for event in list(thread.path(leaf, at=at))[1:]]


def assert_chained(thread: Thread) -> None:
    """Recompute the whole chain of a log, what it shares included."""
    chain = Chain()
    for expected, record in enumerate(thread.store.log(thread.id).read(), start=1):
        assert record.position == expected
        owner = thread.store.log(thread.id).owner(record.position)
        assert chain.add(owner, record) is None
    assert chain.hash == thread.tip
