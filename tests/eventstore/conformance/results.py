"""Rules of calls and their results."""

from __future__ import annotations

import pytest

from convlog.eventstore import errors
from convlog.eventstore.events import SegmentAdded, ToolCalled, ToolReturned
from convlog.eventstore.records import Draft
from convlog.eventstore.thread import Thread
from tests.eventstore.conformance.rules import rule, unchanged
from tests.stores import Place


def answered(thread: Thread, position: int) -> int | None:
    return thread.event(position).ref("answers")


@rule
def a_result_answers_the_nearest_open_call_of_its_id(place: Place) -> None:
    thread = place.open().create_thread()
    first = thread.call("id0", "f", {}).position
    assert answered(thread, thread.result("id0", "first").position) == first
    second = thread.call("id0", "f", {}).position
    third = thread.call("id0", "f", {}).position
    assert answered(thread, thread.result("id0", "third").position) == third
    assert answered(thread, thread.result("id0", "second").position) == second
    with unchanged(thread), pytest.raises(errors.DuplicateResult):
        thread.result("id0", "fourth")


@rule
def a_result_without_its_call_is_refused(place: Place) -> None:
    thread = place.open().create_thread()
    thread.user("u")
    with unchanged(thread), pytest.raises(errors.UnknownCall):
        thread.result("none", "lost")


@rule
def a_result_whose_call_is_not_above_it_is_refused(place: Place) -> None:
    thread = place.open().create_thread()
    asked = thread.user("u").position
    thread.call("c", "f", {})
    with unchanged(thread), pytest.raises(errors.UnknownCall):
        thread.result("c", "out", parent=asked)
    thread.select(asked)
    with unchanged(thread), pytest.raises(errors.UnknownCall):
        thread.result("c", "out")


@rule
def a_second_result_is_refused_on_the_same_path_only(place: Place) -> None:
    thread = place.open().create_thread()
    called = thread.call("c", "f", {}).position
    thread.result("c", "one")
    with unchanged(thread), pytest.raises(errors.DuplicateResult):
        thread.result("c", "two")
    other = thread.result("c", "two", parent=called).position
    assert answered(thread, other) == called
    assert thread.tree.results(called) == [3, other]
    assert thread.tree.result_on(called, other) == other
    with unchanged(thread), pytest.raises(errors.DuplicateResult):
        thread.result("c", "three", parent=other)


@rule
def a_result_that_names_its_call_must_lie_below_it(place: Place) -> None:
    thread = place.open().create_thread()
    first = thread.call("c", "f", {}).position
    second = thread.call("c", "f", {}).position
    body = ToolReturned(call="c")
    found = thread.append(body, refs=(("answers", first),), output=b"out").position
    assert answered(thread, found) == first
    with unchanged(thread):
        with pytest.raises(errors.DuplicateResult):
            thread.append(body, refs=(("answers", first),))
        with pytest.raises(errors.UnknownCall):
            thread.append(body, refs=(("answers", 1),))
    assert answered(thread, thread.result("c", "out").position) == second


@rule
def a_late_result_goes_below_the_head(place: Place) -> None:
    thread = place.open().create_thread()
    called = thread.call("c", "bake", {}).position
    asked = thread.user("Hello?").position
    late = thread.result("c", "baked")
    assert thread.event(late.position).parent == asked
    assert answered(thread, late.position) == called
    assert (late.head, thread.head) == (late.position, late.position)


@rule
def results_of_parallel_calls_come_in_any_order(place: Place) -> None:
    thread = place.open().create_thread()
    calls = [thread.call(name, "f", {}).position for name in "abc"]
    results = {name: thread.result(name, name).position for name in "cab"}
    assert [answered(thread, results[name]) for name in "abc"] == calls
    assert thread.tree.path(thread.head) == [1, *calls, *sorted(results.values())]


@rule
def a_result_off_the_head_leaves_the_head_where_it_is(place: Place) -> None:
    thread = place.open().create_thread()
    called = thread.call("c", "f", {}).position
    elsewhere = thread.text("b", parent=1).position
    result = thread.result("c", "out", parent=called)
    assert (result.head, thread.head) == (elsewhere, elsewhere)
    thread.select(called)
    assert thread.tree.children(called) == [result.position]


@rule
def a_node_of_a_response_off_the_head_leaves_the_head_where_it_is(place: Place) -> None:
    thread = place.open().create_thread()
    asked = thread.user("u").position
    first = thread.append(SegmentAdded(text="a", response="r1")).position
    assert thread.head == first
    other = thread.append(SegmentAdded(text="b", response="r2"), parent=asked)
    assert other.head == first
    called = thread.append(ToolCalled(call="c", name="f", response="r2"), parent=other.position)
    assert called.head == first
    assert thread.append(SegmentAdded(text="c"), parent=asked).head == thread.position


@rule
def each_branch_answers_a_call_that_they_share(place: Place) -> None:
    thread = place.open().create_thread()
    called = thread.call("c", "f", {}).position
    left = thread.text("left").position
    right = thread.text("right", parent=called).position
    on_right = thread.result("c", "r").position
    on_left = thread.result("c", "l", parent=left).position
    assert (answered(thread, on_left), answered(thread, on_right)) == (called, called)
    assert thread.tree.result_on(called, on_left) == on_left
    assert thread.tree.result_on(called, right) is None


@rule
def a_stray_result_is_kept_when_asked_for(place: Place) -> None:
    thread = place.open().create_thread()
    stray = Draft(body=ToolReturned(call="lost"), output=b"out", stray=True)
    position = thread.append_many([stray])[0].position
    assert answered(thread, position) is None
    assert thread.event(position).output == b"out"


@rule
def a_store_told_to_keep_facts_keeps_size_and_hash_of_outputs(place: Place) -> None:
    store = place.open(record_outputs="facts")
    thread = store.create_thread()
    thread.call("c", "f", {})
    first = thread.result("c", "some output", key="k")
    event = thread.event(first.position)
    assert event.output is None
    assert event.body.bytes == len("some output")
    assert len(event.body.digest) == 64
    with unchanged(thread):
        assert thread.result("c", "some output", key="k").replayed
        with pytest.raises(errors.KeyMismatch):
            thread.result("c", "same length", key="k")
