"""Two prompts side by side: what stays, what changed, and which event did it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from convlog.eventstore.memory import MemoryBackend
from convlog.projections.compare import compare, words
from convlog.projections.conversation import Store, Thread
from convlog.projections.derive import Derived

from .conversations import Conversation, steps


def prompt(thread: Thread, **recipe: Any) -> Derived:
    return thread.prepare(record=False, parameters={"notice": False}, **recipe).derived


def test_a_prompt_is_the_same_as_itself(thread: Thread) -> None:
    thread.user("one")
    one = prompt(thread)
    found = compare(one, one)
    assert not found.differs
    assert found.counts == {"same": 1, "changed": 0, "added": 0, "gone": 0}
    assert (found.prefix_blocks, found.first_difference, found.first_event) == (1, None, None)
    assert found.prefix_bytes == len(one.blocks[0])


def test_what_was_said_since_is_added_and_named_by_its_event(thread: Thread) -> None:
    thread.user("one")
    before = prompt(thread)
    thread.text("a")
    asked = thread.user("two").position
    found = compare(before, prompt(thread))
    assert found.counts == {"same": 1, "changed": 0, "added": 2, "gone": 0}
    assert (found.prefix_blocks, found.old_blocks, found.new_blocks) == (1, 1, 3)
    difference = found.first_difference
    assert difference is not None
    assert (difference.change, difference.old, difference.old_pointer) == ("added", (), "")
    assert (difference.new_pointer, difference.sources) == ("/messages/1/content/0", (3, asked))
    assert found.first_event == 3


def test_an_edit_changes_one_block_and_a_summary_takes_many(thread: Thread) -> None:
    thread.user("one")
    thread.text("a")
    thread.user("two")
    before = prompt(thread)
    edited = thread.edit(4, "three").position
    found = compare(before, prompt(thread))
    assert found.counts == {"same": 2, "changed": 1, "added": 0, "gone": 0}
    assert found.first_event == edited
    assert json.loads(found.changes[-1].old[0])[1]["text"] == "two"
    thread.summarise(2, 3, "We talked.")
    now = compare(before, prompt(thread))
    assert now.counts == {"same": 0, "changed": 2, "added": 0, "gone": 1}
    assert now.prefix_blocks == 0


def test_instructions_that_differ_are_shown_and_leave_no_cached_prefix(thread: Thread) -> None:
    thread.user("one")
    thread.prepare(instructions="Be brief.")
    before = prompt(thread)
    thread.prepare(instructions="Be long.")
    found = compare(before, prompt(thread))
    assert found.surroundings_differ
    assert found.first_difference is None
    assert found.differs
    (field,) = found.fields
    assert field.name == "system"
    assert "Be brief." in (field.old or "")
    assert "Be long." in (field.new or "")
    assert found.first_event == field.sources[0] == thread.head


def test_two_versions_of_one_call_are_compared_like_any_prompts(thread: Thread) -> None:
    thread.user("one")
    thread.reasoning("Hm.")
    thread.text("a")
    thread.end_turn()
    thread.user("two")
    one = thread.prepare(assembler="transcript@1", record=False, model="gemini-3-flash-preview").derived
    two = thread.prepare(assembler="turn-memory@6", record=False, parameters={"notice": False}).derived
    assert compare(one, two).fields
    assert compare(two, two).counts["same"] == 3


@settings(max_examples=25, deadline=None)
@given(steps())
def test_the_changes_lead_from_one_prompt_to_the_other(found: list[tuple[str, int, int]]) -> None:
    talk = Conversation(Store(MemoryBackend()).create_thread())
    talk.thread.user("Let us begin.")
    first = talk.prepare(0).derived
    talk.do_all(found)
    second = talk.prepare(1).derived
    for old, new in ((first, second), (second, first)):
        comparison = compare(old, new)
        assert [block for change in comparison.changes for block in change.old] == [b.decode() for b in old.blocks]
        assert [block for change in comparison.changes for block in change.new] == [b.decode() for b in new.blocks]
        assert all(change.old == change.new for change in comparison.changes if change.change == "same")
        counts = comparison.counts
        assert counts["same"] + counts["changed"] + counts["gone"] == len(old.blocks)
        assert counts["same"] + counts["changed"] + counts["added"] == len(new.blocks)


def test_words_that_differ_are_shown_in_place() -> None:
    assert words("the red house", "the blue house") == [
        ("same", "the "),
        ("gone", "red"),
        ("added", "blue"),
        ("same", " house"),
    ]
    assert words('{"id":"a1"}', '{"id":"b2"}') == [("same", '{"id":"'), ("gone", "a1"), ("added", "b2"), ("same", '"}')]
    assert words(r'"one\ntwo"', r'"one\"two"') == [
        ("same", '"one'),
        ("gone", r"\n"),
        ("added", r"\""),
        ("same", 'two"'),
    ]
    assert words(r"\u00e9t", r"\u00e8t") == [("gone", r"\u00e9"), ("added", r"\u00e8"), ("same", "t")]
    assert words("a b", "a b c") == [("same", "a b"), ("added", " c")]
    assert words("", "") == []


@given(st.text(), st.text())
def test_words_lead_from_one_text_to_the_other(old: str, new: str) -> None:
    _assert_leads(old, new)


def test_long_texts_are_compared_too() -> None:
    long = "word, " * 3000
    _assert_leads(long + "end", "begin " + long)
    _assert_leads(long + r"a\nb\\" + "\\", "\\ " + long)


def test_tools_that_are_called_and_not_declared_stand_in(thread: Thread) -> None:
    thread.user("one")
    before = prompt(thread)
    thread.call("c", "Read", {"path": "a"})
    thread.result("c", "text")
    after = prompt(thread)
    assert not compare(before, before).tools_stand_in
    assert compare(before, after).tools_stand_in
    assert compare(after, before).tools_stand_in
    thread.prepare(tools=[{"name": "Read", "input_schema": {"type": "object"}}])
    declared = prompt(thread)
    assert not compare(declared, declared).tools_stand_in


def _assert_leads(old: str, new: str) -> None:
    found = words(old, new)
    assert "".join(text for word, text in found if word != "added") == old
    assert "".join(text for word, text in found if word != "gone") == new


def test_the_prefix_report_says_what_a_cache_still_serves(thread: Thread) -> None:
    thread.user("one")
    thread.prepare()
    thread.text("a")
    thread.user("two")
    thread.prepare()
    thread.summarise(2, 4, "We talked.")
    thread.prepare()
    thread.prepare(instructions="Be brief.")
    report = list(thread.prefix_report())
    assert [(each.call, each.blocks, each.kept) for each in report] == [(2, 3, 1), (3, 2, 0), (4, 2, 0)]
    assert 0 < report[0].share < 1
    assert report[1].share == 0
