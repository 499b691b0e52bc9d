"""Rules of reading: runs, pages, filters, what is not loaded, what is not known."""

from __future__ import annotations

import pytest

from convlog.eventstore import errors, records
from convlog.eventstore.events import SegmentAdded, Unknown
from convlog.eventstore.log import END
from convlog.eventstore.records import Draft, Encoded
from convlog.eventstore.thread import Thread
from tests.eventstore.conformance.rules import assert_chained, prose, rule, stored, texts
from tests.stores import Place

MANY = 600
"""More than two pages of any backend so far."""


def append_foreign(thread: Thread, content: Encoded, parent: int | None) -> int:
    """Store, below the policy, what a newer program would write; give its position."""
    position = thread.position + 1
    record = records.seal(
        thread.id,
        position,
        thread.tip,
        parent,
        position if parent else thread.head,
        content,
        Draft(body=SegmentAdded()),
        (),
        1,
        b"0" * 16,
    )
    thread.store.backend.append(thread.id, [record], None)
    thread.refresh()
    return position


@rule
def a_long_log_is_read_in_order_and_whole(place: Place) -> None:
    thread = place.open().create_thread()
    thread.append_many([prose(str(number)) for number in range(MANY)])
    assert [event.position for event in thread.events()] == list(range(1, MANY + 2))
    assert texts(thread) == [str(number) for number in range(MANY)]


@rule
def a_closed_run_holds_both_its_ends(place: Place) -> None:
    store = place.open()
    thread = store.create_thread()
    thread.append_many([prose(str(number)) for number in range(MANY)])
    for first, last in ((1, 1), (2, 5), (250, 530), (MANY, 2 * MANY), (5, 4), (-3, 2), (MANY + 2, END)):
        wanted = [position for position in range(first, min(last, MANY + 1) + 1) if position > 0]
        assert [event.position for event in thread.events(first, last)] == wanted
        assert [record.position for record in store.backend.read(thread.id, first, last)] == wanted


@rule
def a_reader_and_a_writer_do_not_disturb_each_other(place: Place) -> None:
    thread = place.open().create_thread()
    thread.append_many([prose(str(number)) for number in range(MANY)])
    other = place.open().thread(thread.id)
    seen = []
    for event in other.events():
        seen.append(event.position)
        if event.position % 100 == 0:
            thread.text("meanwhile")
    assert seen == list(range(1, MANY + 2))
    assert thread.position == MANY + 1 + MANY // 100


@rule
def events_are_filtered_by_type(place: Place) -> None:
    thread = place.open().create_thread()
    for number in range(300):
        thread.append_many([prose(str(number)), Draft(body=SegmentAdded(kind="notice"))])
        if number % 100 == 0:
            thread.end_turn()
    ended = [event.position for event in thread.events(types=("turn.ended",))]
    assert ended == [4, 205, 406]
    assert [event.position for event in thread.events(5, 300, types=["turn.ended", "thread.created"])] == [205]
    assert list(thread.events(types=("no.such",))) == []
    assert list(thread.events(types=())) == []


@rule
def what_is_not_asked_for_is_not_loaded(place: Place) -> None:
    store = place.open()
    thread = store.create_thread()
    thread.call("c", "f", {})
    position = thread.result("c", "out").position
    whole = next(thread.events(position, position))
    no_output = next(thread.events(position, position, outputs=False))
    neither = next(thread.events(position, position, bodies=False))
    assert (whole.output, no_output.output, neither.output) == (b"out", None, None)
    assert (whole.body, no_output.body.call, neither.body) == (no_output.body, "c", None)
    assert whole.hash == no_output.hash == neither.hash
    assert {event.output for event in thread.path(outputs=False)} == {None}
    assert {event.body for event in thread.path(bodies=False)} == {None}
    tip = store.backend.tip(thread.id)
    assert tip is not None
    assert (tip.position, tip.body, tip.output) == (position, None, None)
    assert tip.salt is not None


@rule
def a_position_that_is_not_there_is_not_found(place: Place) -> None:
    thread = place.open().create_thread()
    for position in (0, -1, 2, 2**70):
        with pytest.raises(errors.NoSuchNode):
            thread.event(position)


@rule
def an_event_of_another_writer_is_found(place: Place) -> None:
    first, second = place.open(), place.open()
    thread = first.create_thread()
    other = second.thread(thread.id)
    assert other.position == 1
    position = thread.text("new").position
    assert other.event(position).body.text == "new"


@rule
def a_path_with_wide_gaps_is_read_whole(place: Place) -> None:
    thread = place.open().create_thread()
    node = thread.text("0").position
    for number in range(1, 8):
        thread.append_many([prose("elsewhere", parent=1) for _ in range(number * 20)])
        node = thread.text(str(number), parent=node).position
    assert texts(thread, node) == [str(number) for number in range(8)]


@rule
def unknown_types_and_newer_versions_survive(place: Place) -> None:
    store = place.open()
    thread = store.create_thread()
    thread.user("a")
    bodies = [b'{"new":[1,2.50,"\\u0041"]}', b'{"text":"b","also":{"x":null}}', b'{"text":"c","unheard":7}']
    node = append_foreign(thread, Encoded("thought.dreamt", 3, bodies[0], b"out"), thread.head)
    newer = append_foreign(thread, Encoded("segment.added", 99, bodies[1], None), node)
    wider = append_foreign(thread, Encoded("segment.added", 1, bodies[2], None), newer)
    append_foreign(thread, Encoded("thread.dreamt", 1, b"{}", None), None)
    thread = place.reopen(store).thread(thread.id)
    assert thread.event(node).body == Unknown(bodies[0])
    assert thread.event(node).output == b"out"
    assert thread.event(newer).body == Unknown(bodies[1])
    assert thread.event(wider).body == SegmentAdded(text="c")
    assert [record.body for record in stored(thread.store, thread)][2:5] == bodies
    assert thread.tree.path(thread.head) == [1, 2, node, newer, wider]
    assert thread.event(thread.text("d").position).parent == wider
    assert_chained(thread)


@rule
def a_closed_store_refuses_all_use(place: Place) -> None:
    store = place.open()
    thread = store.create_thread()
    thread.text("a")
    store.close()
    store.close()
    for use in (
        lambda: thread.text("b"),
        lambda: thread.event(1),
        lambda: list(thread.events()),
        lambda: store.thread(thread.id),
        lambda: list(store.threads()),
        store.create_thread,
        lambda: store.attach(b"x"),
    ):
        with pytest.raises(errors.StoreClosed):
            use()


@rule
def threads_that_are_not_there_are_not_found(place: Place) -> None:
    store = place.open()
    backend = store.backend
    nowhere = "f" * 32
    assert backend.thread(nowhere) is None
    assert not backend.is_deleted(nowhere)
    for use in (
        lambda: store.thread(nowhere),
        lambda: store.thread(""),
        lambda: store.row(nowhere),
        lambda: backend.tip(nowhere),
        lambda: list(backend.read(nowhere, 1, END)),
        lambda: backend.position_of_key(nowhere, "k"),
        lambda: backend.redacted_by(nowhere, 1),
        lambda: list(backend.attachments(nowhere)),
        lambda: backend.append(nowhere, [], None),
    ):
        with pytest.raises(errors.NoSuchThread):
            use()
