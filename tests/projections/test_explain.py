"""Why a prompt is as it is: every piece and its place, and why a node is not in it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from convlog.eventstore.errors import NoSuchNode
from convlog.eventstore.memory import MemoryBackend
from convlog.eventstore.redaction import redact
from convlog.projections.conversation import Store, Thread
from convlog.projections.explain import byte_map, explain, missing, pieces_at
from convlog.projections.prepare import Prompt
from convlog.projections.stages.pieces_v1 import DROPPED

from .conversations import Conversation, steps
from .examples import resolve
from .responses import asked, message, said, thought


def why(thread: Thread, prompt: Prompt, node: int) -> str:
    return missing(thread, prompt.derived, prompt.leaf, prompt.at, node).reason


@pytest.fixture
def prompt(thread: Thread) -> Prompt:
    """Give a prompt with tools, instructions, a memory of a turn, a verbatim one, and what stands behind it."""
    thread.user("Why does it fail?")
    tools = [{"name": "Read", "input_schema": {"type": "object"}}]
    call = thread.prepare(instructions={"a": "Be brief.", "b": "Be kind."}, tools=tools).call
    thread.record(message(thought("Hm."), said("Let me see."), asked("c1", path="a")), call=call)
    thread.result("c1", "content")
    thread.record(message(said("Because."), id_="msg_2"), call=thread.prepare().call)
    thread.user("And now?")
    thread.context("date", "Monday")
    return thread.prepare()


def test_every_piece_says_its_rule_and_where_it_stands(prompt: Prompt) -> None:
    found = explain(prompt.derived)
    assert [each.number for each in found] == list(range(1, len(found) + 1))
    assert [each.piece for each in found] == [*prompt.pieces, *prompt.repairs]
    by_provenance = {each.piece.provenance: each for each in found}
    assert by_provenance["instructions"].rule.startswith("standing instructions")
    assert by_provenance["tools"].pointers == ("/tools",)
    assert by_provenance["context"].rule == "runtime context as it was last set"
    assert by_provenance["dropped"].pointers == ()
    assert by_provenance["dropped"].rule == "left out: reasoning of an ended turn"
    assert by_provenance["turn-memory"].rule.startswith("what is kept of an ended turn")
    assert by_provenance["verbatim"].rule == "the event itself, as recorded"


def test_what_a_piece_says_stands_at_its_pointers(prompt: Prompt) -> None:
    for index, places in byte_map(prompt.derived).items():
        element = prompt.pieces[index].element
        for pointer in places:
            value = resolve(prompt.request, pointer)
            text = getattr(element, "text", None)
            if text is not None:
                assert text in json.dumps(value, ensure_ascii=False).replace("\\n", "\n").replace('\\"', '"')


def test_the_pieces_behind_a_place_are_found(prompt: Prompt) -> None:
    places = byte_map(prompt.derived)
    for index, pointers in places.items():
        for pointer in pointers:
            assert index in pieces_at(prompt.derived, pointer)
            assert index in pieces_at(prompt.derived, f"{pointer}/text")
    assert pieces_at(prompt.derived, "/messages") == sorted(
        index for index, pointers in places.items() if any(pointer.startswith("/messages") for pointer in pointers)
    )
    assert pieces_at(prompt.derived, "/nowhere") == []
    assert pieces_at(prompt.derived, "/mess") == []


@settings(max_examples=25, deadline=None)
@given(steps())
def test_places_and_pieces_agree_in_any_prompt(found: list[tuple[str, int, int]]) -> None:
    talk = Conversation(Store(MemoryBackend()).create_thread())
    talk.thread.user("Let us begin.")
    talk.do_all(found)
    for number in range(0, 18, 5):
        prompt = talk.prepare(number)
        for index, pointers in byte_map(prompt.derived).items():
            assert prompt.pieces[index].provenance != DROPPED
            for pointer in pointers:
                resolve(prompt.request, pointer)
                assert index in pieces_at(prompt.derived, pointer)


# --- why a node is missing ---


def test_a_node_that_is_there_is_named_with_its_place(thread: Thread, prompt: Prompt) -> None:
    last = thread.tree.path(prompt.leaf)[-2]
    said_at = why(thread, prompt, last)
    assert said_at.startswith("it is in the prompt: piece ")
    assert "verbatim at /messages/" in said_at


def test_a_node_that_is_not_there_has_its_reason(thread: Thread, prompt: Prompt) -> None:
    reasoning = next(event.position for event in thread.path() if getattr(event.body, "kind", "") == "reasoning")
    assert why(thread, prompt, reasoning) == "left out: reasoning of an ended turn"
    assert (
        why(thread, prompt, 1)
        == "thread.created says nothing to a model, or its turn is kept as turn memory without it"
    )
    assert "is a note" in why(thread, prompt, prompt.at - 5) or "prompt" in why(thread, prompt, prompt.at - 5)
    assert why(thread, prompt, prompt.call or 0) == f"it was recorded after the prompt was made at position {prompt.at}"
    with pytest.raises(NoSuchNode):
        why(thread, prompt, 999)


def test_what_a_turns_memory_shortens_is_there_only_in_short(thread: Thread, prompt: Prompt) -> None:
    call, result = (
        next(event.position for event in thread.events(types=(name,))) for name in ("tool.called", "tool.returned")
    )
    found = missing(thread, prompt.derived, prompt.leaf, prompt.at, call)
    assert found.reason.startswith("it is in the prompt only in short: piece ")
    assert found.reason.endswith("; its arguments are left out")
    assert (found.in_short, len(found.pieces)) == (True, 1)
    assert why(thread, prompt, result).endswith("; its output is left out")
    text = next(event.position for event in thread.path() if getattr(event.body, "kind", "") == "text")
    said_at = missing(thread, prompt.derived, prompt.leaf, prompt.at, text)
    assert said_at.reason.startswith("it is in the prompt: piece ")
    assert not said_at.in_short


@pytest.mark.parametrize("assembler", ["turn-memory@1", "turn-memory@2", "turn-memory@4", "turn-memory@6"])
def test_every_version_of_turn_memory_says_what_it_shortens(thread: Thread, assembler: str) -> None:
    thread.user("one")
    call = thread.call("c", "Read", {"path": "a"}).position
    result = thread.result("c", "words of the file").position
    thread.text("a")
    thread.end_turn()
    thread.user("two")
    prompt = thread.prepare(assembler=assembler)
    for node in (call, result):
        found = missing(thread, prompt.derived, prompt.leaf, prompt.at, node)
        assert found.in_short == bool(found.pieces)
        assert "it is in the prompt: " not in found.reason
    whole = thread.prepare(assembler="transcript@1")
    assert not missing(thread, whole.derived, whole.leaf, whole.at, result).in_short


def test_what_was_promoted_is_not_left_out(thread: Thread) -> None:
    thread.user("one")
    call = thread.call("c", "Read", {"path": "a"}).position
    result = thread.result("c", "words of the file").position
    thread.end_turn()
    thread.promote(call, "words", "costly")
    thread.user("two")
    assert why(thread, thread.prepare(), result).endswith("; its output is left out, but for what was promoted")


def test_a_note_is_on_no_path(thread: Thread) -> None:
    thread.user("one")
    thread.end_turn()
    prompt = thread.prepare()
    assert why(thread, prompt, 3) == "a turn.ended is a note: it is on no path and no model sees it"


def test_another_branch_and_a_later_node_are_told_apart(thread: Thread) -> None:
    first = thread.user("one").position
    other = thread.text("a").position
    thread.select(first)
    thread.text("b")
    assert why(thread, thread.prepare(), other) == f"it is on another branch (1), which left this path at {first}"
    assert (
        why(thread, thread.prepare(leaf=first), other)
        == f"it comes after {first}, the node that the prompt was made at"
    )


def test_a_summary_that_stands_for_a_node_is_named(thread: Thread) -> None:
    thread.user("one")
    thread.text("a")
    summary = thread.summarise(2, 3, "We talked.").position
    thread.user("two")
    prompt = thread.prepare()
    assert why(thread, prompt, 2) == f"summary {summary} stands for it"


def test_a_summary_is_found_in_the_prompt_or_told_why_it_is_not(thread: Thread) -> None:
    first = thread.user("one").position
    last = thread.text("a").position
    thread.end_turn()
    old = thread.summarise(first, last, "We talked.").position
    thread.user("two")
    assert why(thread, thread.prepare(), old).startswith("it is in the prompt: piece 2, summary at /messages/0")
    new = thread.summarise(first, last, "We talked much.").position
    assert why(thread, thread.prepare(), old) == f"summary {new} is newer and covers some of the same nodes"
    gone = thread.invalidate(new, "wrong").position
    assert why(thread, thread.prepare(), new) == f"{gone} invalidated it"
    thread.edit(first, "one, otherwise")
    assert why(thread, thread.prepare(), old) == f"its range {first}..{last} is not wholly on the path to {thread.head}"


def test_a_promotion_is_found_in_the_prompt(thread: Thread) -> None:
    thread.user("one")
    call = thread.call("c", "Read", {"path": "a"}).position
    thread.result("c", "words of the file")
    thread.end_turn()
    promoted = thread.promote(call, "words", "costly").position
    thread.user("two")
    assert why(thread, thread.prepare(), promoted).startswith("it is in the prompt: piece ")
    assert "carries no promoted result" in why(thread, thread.prepare(assembler="transcript@1"), promoted)


def test_a_value_that_another_one_replaced_names_it(thread: Thread) -> None:
    thread.user("one")
    thread.context("date", "Monday")
    thread.context("branch", "main")
    thread.context("date", "Tuesday")
    thread.prepare(instructions="Be brief.")
    thread.prepare(instructions="Be long.")
    prompt = thread.prepare()
    sets = [event.position for event in thread.events(types=("instructions.set",))]
    assert why(thread, prompt, 3) == "the context.set at 5 took its place"
    assert "piece" in why(thread, prompt, 4)
    assert why(thread, prompt, sets[0]) == f"the instructions.set at {sets[1]} took its place"


def test_what_was_erased_stands_there_as_erased(thread: Thread) -> None:
    thread.user("one")
    thread.text("secret")
    thread.user("two")
    redact(thread.store, thread.id, [3], whole=True, replacement="[gone]", reason="test")
    prompt = thread.prepare(assembler="transcript@1")
    assert why(thread, prompt, 3) == "it is in the prompt: piece 2, verbatim at /messages/1/content/0"
    assert b"[gone]" in prompt.body
