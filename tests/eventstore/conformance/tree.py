"""Rules of the tree: heads, siblings, branches and their names."""

from __future__ import annotations

import pytest

from convlog.eventstore import errors
from convlog.eventstore.events import BranchNamed, Source
from tests.eventstore.conformance.rules import assert_chained, rule, text_of, texts, unchanged
from tests.stores import Place


@rule
def every_node_becomes_the_head_and_notes_leave_it(place: Place) -> None:
    thread = place.open().create_thread()
    nodes = [thread.user("a"), thread.text("b"), thread.todo([]), thread.context("date", "today")]
    assert [node.head for node in nodes] == [node.position for node in nodes]
    notes = [thread.end_turn(), thread.set_title("t"), thread.name_branch("main")]
    assert {note.head for note in notes} == {nodes[-1].position}
    assert all(thread.event(note.position).parent is None for note in notes)


@rule
def a_parent_that_is_no_node_is_refused(place: Place) -> None:
    thread = place.open().create_thread()
    thread.user("a")
    note = thread.end_turn().position
    for parent in (note, 99, 0, -1, 2**70):
        with unchanged(thread), pytest.raises(errors.NoSuchNode):
            thread.text("b", parent=parent)
        with unchanged(thread), pytest.raises(errors.NoSuchNode):
            thread.select(parent)
        with unchanged(thread), pytest.raises(errors.NoSuchNode):
            thread.append(BranchNamed(name="b", node=parent))


@rule
def another_parent_makes_a_branch(place: Place) -> None:
    thread = place.open().create_thread()
    asked = thread.user("u").position
    left = [thread.text(text).position for text in ("a", "b")]
    right = [thread.text("c", parent=asked).position, thread.text("d").position]
    assert thread.tree.children(asked) == [left[0], right[0]]
    assert thread.tree.leaves() == [left[-1], right[-1]]
    assert thread.tree.path(left[-1]) == [1, asked, *left]
    assert thread.tree.path(right[-1]) == [1, asked, *right]
    assert thread.tree.common(left[-1], right[-1]) == asked
    assert texts(thread) == ["u", "c", "d"]
    assert texts(thread, left[-1]) == ["u", "a", "b"]


@rule
def select_makes_a_node_active(place: Place) -> None:
    store = place.open()
    thread = store.create_thread()
    first = thread.user("a").position
    thread.text("b")
    moved = thread.select(first, reason="again")
    assert (moved.head, thread.head) == (first, first)
    assert thread.event(moved.position).body.reason == "again"
    thread = place.reopen(store).thread(thread.id)
    assert thread.head == first
    assert thread.event(thread.text("c").position).parent == first


@rule
def an_edit_is_a_sibling_that_becomes_active(place: Place) -> None:
    thread = place.open().create_thread()
    asked = thread.user("one", source=Source("user", actor="ann")).position
    thread.text("answer")
    edited = thread.edit(asked, "two", key="k")
    event = thread.event(edited.position)
    assert (event.type, event.parent, thread.head) == ("input.added", 1, edited.position)
    assert (event.ref("edits"), event.source.actor) == (asked, "ann")
    assert text_of(thread, asked) == "one"
    assert texts(thread) == ["two"]
    with unchanged(thread):
        assert thread.edit(asked, "two", key="k").position == edited.position


@rule
def an_answer_is_regenerated_beside_the_first(place: Place) -> None:
    thread = place.open().create_thread()
    asked = thread.user("u").position
    first = thread.text("one").position
    thread.user("more")
    second = thread.regenerate(first, "two").position
    assert thread.event(second).ref("regenerates") == first
    assert thread.tree.children(asked) == [first, second]
    assert texts(thread) == ["u", "two"]


@rule
def an_edited_result_answers_the_same_call(place: Place) -> None:
    thread = place.open().create_thread()
    called = thread.call("c", "f", {}).position
    result = thread.result("c", "one").position
    edited = thread.edit(result, "two").position
    event = thread.event(edited)
    assert (event.ref("answers"), event.ref("edits"), event.output) == (called, result, b"two")
    assert thread.head == edited
    assert thread.tree.result_on(called, edited) == edited


@rule
def the_root_cannot_be_said_again(place: Place) -> None:
    thread = place.open().create_thread()
    thread.user("a")
    with unchanged(thread), pytest.raises(errors.NoSuchNode):
        thread.edit(1, "other")


@rule
def a_branch_name_follows_the_line_it_was_given_to(place: Place) -> None:
    thread = place.open().create_thread()
    asked = thread.user("u").position
    left = thread.text("a").position
    thread.name_branch("left")
    right = thread.text("b", parent=asked).position
    thread.name_branch("right")
    left_end = thread.text("c", parent=left).position
    assert thread.branch_names() == {"left": left_end, "right": right}
    assert (thread.branch("left"), thread.branch(str(right))) == (left_end, right)
    named = thread.position
    thread.drop_branch_name("left")
    assert thread.branch_names() == {"right": right}
    assert thread.branch_names(at=named) == {"left": left_end, "right": right}
    assert thread.branch_names(at=left + 1) == {"left": left}
    with unchanged(thread), pytest.raises(errors.NoSuchBranch):
        thread.drop_branch_name("left")


@rule
def the_head_of_any_position_is_known(place: Place) -> None:
    thread = place.open().create_thread()
    a = thread.user("a").position
    thread.text("b")
    thread.select(a)
    c = thread.text("c").position
    assert [thread.head_at(at) for at in range(1, c + 1)] == [1, 2, 3, a, c]
    assert texts(thread, at=3) == ["a", "b"]
    assert texts(thread, at=4) == ["a"]
    assert texts(thread) == ["a", "c"]
    with pytest.raises(errors.NoSuchNode):
        thread.head_at(0)


@rule
def a_long_thread_of_many_branches_keeps_its_tree(place: Place) -> None:
    store = place.open()
    thread = store.create_thread()
    tips = [thread.text(f"stem {number}", parent=1).position for number in range(20)]
    for number in range(400):
        branch = (number * 7) % 20
        tips[branch] = thread.text(str(number), parent=tips[branch]).position
    paths = [thread.tree.path(tip) for tip in tips]
    again = place.reopen(store).thread(thread.id)
    assert [again.tree.path(tip) for tip in tips] == paths
    assert sum(len(path) - 1 for path in paths) == 420
    assert again.tree.leaves() == sorted(tips)
    assert_chained(again)
