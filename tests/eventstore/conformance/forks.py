"""Rules of forks into new threads, which share the log of their origin."""

from __future__ import annotations

import pytest

from convlog.eventstore import errors
from convlog.eventstore.events import ThreadForked
from convlog.eventstore.records import Member
from convlog.eventstore.thread import Thread
from tests.eventstore.conformance.rules import assert_chained, prose, rule, stored, texts, unchanged
from tests.stores import Place


def hashes(thread: Thread, last: int | None = None) -> list[bytes]:
    return [event.hash for event in thread.events(last=last)]


@rule
def a_fork_shares_the_log_of_its_origin(place: Place) -> None:
    store = place.open()
    origin = store.create_thread(title="t", cwd="/x", agent="keen")
    for text in "abc":
        origin.text(text)
    before = origin.tip
    fork = origin.fork()
    assert fork.id != origin.id
    assert (fork.position, fork.head) == (5, 4)
    assert hashes(fork, 4) == hashes(origin)
    assert texts(fork) == ["a", "b", "c"]
    note = fork.event(5)
    assert isinstance(note.body, ThreadForked)
    assert (note.body.thread, note.body.position, note.body.hash, note.body.node) == (origin.id, 4, before.hex(), 4)
    assert len(stored(store, fork)) == 1
    row = store.row(fork.id)
    assert (row.origin, row.origin_position, row.title, row.cwd, row.agent) == (origin.id, 4, "t", "/x", "keen")


@rule
def the_tip_of_a_fork_proves_the_shared_part(place: Place) -> None:
    store = place.open()
    origin = store.create_thread()
    origin.text("a")
    fork = origin.fork()
    fork.text("b")
    assert_chained(fork)
    assert_chained(place.reopen(store).thread(fork.id))


@rule
def origin_and_fork_go_on_apart(place: Place) -> None:
    store = place.open()
    origin = store.create_thread()
    origin.user("shared")
    fork = origin.fork()
    assert [fork.text("f").position, origin.text("o").position] == [4, 3]
    assert fork.text("f2").position == 5
    assert texts(origin) == ["shared", "o"]
    assert texts(fork) == ["shared", "f", "f2"]
    assert [fork.event(3).type, origin.event(3).type] == ["thread.forked", "segment.added"]


@rule
def a_fork_begins_at_the_node_asked_for(place: Place) -> None:
    origin = place.open().create_thread()
    a, b = origin.user("a").position, origin.text("b").position
    origin.text("c")
    fork = origin.fork(a)
    assert (fork.head, fork.position) == (a, 5)
    fork.text("d")
    assert texts(fork) == ["a", "d"]
    assert fork.tree.children(a) == [b, 6]


@rule
def a_fork_shares_notes_up_to_its_position_only(place: Place) -> None:
    origin = place.open().create_thread()
    origin.user("a")
    origin.name_branch("before")
    at = origin.position
    origin.text("b")
    origin.name_branch("after")
    origin.end_turn()
    fork = origin.fork(at=at)
    assert fork.branch_names() == {"before": 2}
    assert [event.type for event in fork.events()][-1] == "thread.forked"
    assert (fork.head, fork.position) == (2, at + 1)


@rule
def a_fork_from_nowhere_is_refused(place: Place) -> None:
    store = place.open()
    origin = store.create_thread()
    a = origin.user("a").position
    note = origin.end_turn().position
    later = origin.text("b").position
    count = len(list(store.threads()))
    for node, at in ((note, None), (99, None), (0, None), (None, 99), (None, 0), (later, a)):
        with pytest.raises(errors.NoSuchNode):
            origin.fork(node, at=at)
    assert len(list(store.threads())) == count


@rule
def a_fork_takes_in_what_other_writers_appended(place: Place) -> None:
    first, second = place.open(), place.open()
    thread = first.create_thread()
    other = second.thread(thread.id)
    assert other.position == 1
    thread.text("a")
    assert texts(other.fork()) == ["a"]


@rule
def keys_hold_across_the_shared_log(place: Place) -> None:
    store = place.open()
    origin = store.create_thread()
    first = origin.text("a", key="shared")
    fork = origin.fork()
    origin.text("b", key="later")
    with unchanged(fork):
        again = fork.text("a", key="shared")
        assert (again.position, again.replayed) == (first.position, True)
        with pytest.raises(errors.KeyMismatch):
            fork.text("other", key="shared")
    own = fork.text("c", key="later")
    assert not own.replayed
    assert fork.append_many([prose("a", key="shared"), prose("d", parent=Member(0))])[1].position == own.position + 1


@rule
def a_call_of_the_shared_log_is_answered_in_each_thread(place: Place) -> None:
    origin = place.open().create_thread()
    called = origin.call("c", "f", {}).position
    fork = origin.fork()
    assert fork.event(fork.result("c", "in the fork").position).ref("answers") == called
    assert origin.event(origin.result("c", "in the origin").position).ref("answers") == called
    with unchanged(fork), pytest.raises(errors.DuplicateResult):
        fork.result("c", "again")


@rule
def a_fork_of_a_fork_may_lie_inside_what_they_share(place: Place) -> None:
    store = place.open()
    origin = store.create_thread()
    for text in ("a", "b", "c"):
        origin.text(text)
    fork = origin.fork()
    fork.text("d")
    inner = fork.fork(at=2)
    assert (inner.position, inner.head) == (3, 2)
    inner.text("x")
    assert texts(inner) == ["a", "x"]
    assert hashes(inner, 2) == hashes(origin, 2)
    again = place.reopen(store).thread(inner.id)
    assert texts(again) == ["a", "x"]
    assert_chained(again)


@rule
def forks_nest_ten_deep(place: Place) -> None:
    store = place.open()
    thread = store.create_thread()
    thread.text("0", key="k0")
    tips = [thread.position]
    for depth in range(1, 11):
        thread = thread.fork()
        thread.text(str(depth), key=f"k{depth}")
        tips.append(thread.position)
    again = place.reopen(store).thread(thread.id)
    assert texts(again) == [str(depth) for depth in range(11)]
    assert_chained(again)
    with unchanged(again):
        for depth in range(11):
            assert again.text(str(depth), key=f"k{depth}").replayed
    assert [len(texts(again, at=tip)) for tip in tips] == list(range(1, 12))


@rule
def a_fork_with_a_creation_key_is_made_once(place: Place) -> None:
    store = place.open()
    origin = store.create_thread()
    origin.text("a")
    fork = origin.fork(title="try", key=("host", "fork-1"))
    fork.text("b")
    again = origin.fork(title="try", key=("host", "fork-1"))
    assert again.id == fork.id
    assert texts(again) == ["a", "b"]


@rule
def a_fork_knows_its_branches_and_answers_as_of_any_position(place: Place) -> None:
    origin = place.open().create_thread()
    a = origin.user("a").position
    left = origin.text("left").position
    origin.text("right", parent=a)
    fork = origin.fork(left)
    fork.text("more")
    assert fork.head_at(left) == left
    assert fork.head_at(4) == 4
    assert fork.head_at(5) == left
    assert fork.tree.leaves() == [4, 6]
    assert texts(fork, 4) == ["a", "right"]
