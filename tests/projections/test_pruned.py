"""pruned@1: verbatim until too large, then without reasoning and older tool parts, and still a job comes to its end."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convlog.eventstore.events import SegmentAdded, Source, ToolCalled
from convlog.eventstore.store import Store, open_store
from convlog.eventstore.thread import Thread
from convlog.projections import registry
from convlog.projections.assemblers import pruned_v1, transcript_v1
from convlog.projections.material import material
from convlog.projections.profiles import profile_bytes
from convlog.projections.stages import request_v1
from convlog.projections.stages.pieces_v1 import DROPPED, REPAIR, Call, Piece, Reasoning, Result, Text
from convlog.projections.stages.prune_v1 import Message, Part, detach, drop, for_wire, prune, tokens
from convlog.projections.stages.target_v1 import Options, target

ALWAYS = pruned_v1.Parameters(threshold=-1)
OPENAI = Source("model", provider="openai", model="gpt-5.6")


def respond(thread: Thread, number: int, text: str, tool: str, *, reasoning: bool = True) -> None:
    """Append one response with a call, and the call's result."""
    response = f"resp_{number}"
    if reasoning:
        body = SegmentAdded(kind="reasoning", text="hm", response=response, part=0, item=f"rs_{number}")
        thread.append(body, source=OPENAI)
    needs = f"rs_{number}" if reasoning else None
    thread.append(SegmentAdded(text=text, response=response, part=1, item=f"msg_{number}", needs=needs), source=OPENAI)
    called = ToolCalled(call=f"c{number}", name=tool, response=response, part=2, item=f"fc_{number}", needs=needs)
    thread.append(called, source=OPENAI)
    thread.result(f"c{number}", f"output of {tool}")


@pytest.fixture
def thread(store: Store) -> Thread:
    thread = store.create_thread()
    thread.user("do it")
    for number in range(4):
        respond(thread, number, f"step {number}", f"tool_{number}")
    return thread


def pruned(thread: Thread, parameters: pruned_v1.Parameters = ALWAYS) -> list[Piece]:
    return pruned_v1.assemble(material(thread), parameters)


def rules(found: list[Piece]) -> dict[str, int]:
    return {rule: sum(piece.rule == rule for piece in found) for rule in sorted({piece.rule for piece in found})}


class TestPruned:
    def test_below_the_threshold_nothing_is_touched(self, thread: Thread) -> None:
        whole = transcript_v1.assemble(material(thread), transcript_v1.Parameters())
        assert pruned(thread, pruned_v1.Parameters()) == whole
        at = range(10_000)
        size = bisect_left(at, True, key=lambda size: pruned(thread, pruned_v1.Parameters(threshold=size)) == whole)
        assert pruned(thread, pruned_v1.Parameters(threshold=size - 1)) != whole, "strictly over is pruned"

    def test_what_goes_goes_visibly_and_in_place(self, thread: Thread) -> None:
        whole = transcript_v1.assemble(material(thread), transcript_v1.Parameters())
        found = pruned(thread)
        assert [piece.sources for piece in found] == [piece.sources for piece in whole]
        assert rules(found) == {
            "": 3,  # the user's words, and the results of the last two calls
            pruned_v1.REASONING_PRUNED: 4,
            pruned_v1.TOOL_PRUNED: 4,
            pruned_v1.DETACHED: 6,  # four texts and two calls
        }
        gone = [piece.element for piece in found if piece.provenance == DROPPED]
        assert {type(element) for element in gone} == {Reasoning, Call, Result}

    def test_parts_tied_to_pruned_reasoning_lose_their_ids_and_keep_their_words(self, thread: Thread) -> None:
        kept = [piece for piece in pruned(thread) if piece.provenance == REPAIR]
        assert [piece.element.text for piece in kept if isinstance(piece.element, Text)] == [
            f"step {number}" for number in range(4)
        ]
        for piece in kept:
            assert isinstance(piece.element, Text | Call)
            assert piece.element.item is None
            assert piece.element.needs is None

    def test_a_response_without_reasoning_keeps_its_ids(self, store: Store) -> None:
        thread = store.create_thread()
        thread.user("do it")
        respond(thread, 0, "plain", "f", reasoning=False)
        assert rules(pruned(thread)) == {"": 4}

    def test_more_messages_may_be_kept(self, thread: Thread) -> None:
        found = pruned(thread, pruned_v1.Parameters(threshold=0, keep_messages=100))
        assert pruned_v1.TOOL_PRUNED not in rules(found)
        assert rules(pruned(thread, pruned_v1.Parameters(threshold=0, keep_messages=0)))[pruned_v1.TOOL_PRUNED] == 8

    def test_the_record_and_the_tail_are_not_touched(self, thread: Thread) -> None:
        thread.context("date", "Monday")
        before = [event.hash for event in thread.events()]
        assert pruned(thread)[-1].provenance == "context"
        assert [event.hash for event in thread.events()] == before


@pytest.mark.parametrize(
    ("data", "expected"),
    [("", 0), ("a", 0), ("ab", 1), ("a" * 5, 1), ("a" * 6, 2), ("é" * 6, 2), ("👍" * 3, 2), ("日" * 480_002, 120_001)],
)
def test_tokens_are_a_quarter_of_the_utf_16_length_half_up(data: str, expected: int) -> None:
    assert tokens(data.encode()) == expected


# --- a job with four calls (S32) ---

JOB = ("count_parcels", "weigh_parcels", "label_parcels", "book_courier")
MOST = 12


def calls_made(thread: Thread, prompt: Callable[[Thread], list[Piece]]) -> int:
    """Let a scripted model work: it makes the first call of its job that it sees no trace of, until none is left."""
    thread.user(f"Ship {len(JOB)} parcels.")
    for number in range(MOST):
        request = _request(prompt(thread))
        missing = [tool for tool in JOB if tool not in request]
        if not missing:
            return number
        respond(thread, number, f"I call {missing[0]}.", missing[0])
    return MOST


def _request(found: list[Piece]) -> str:
    encoder = registry.get("openai-responses@1", "encoder")
    request = encoder.function(found, target(profile_bytes("gpt-5.6")), Options(), {})
    return request_v1.body(request).decode()


def _dropping(thread: Thread) -> list[Piece]:
    """Drop what is tied to pruned reasoning, in place of detaching it."""
    return [
        msgspec.structs.replace(piece, provenance=DROPPED) if piece.rule == pruned_v1.DETACHED else piece
        for piece in pruned(thread)
    ]


def test_a_model_that_repeats_what_it_cannot_see_finishes_in_four_calls(store: Store) -> None:
    assert calls_made(store.create_thread(), pruned) == len(JOB)


def test_it_would_not_if_parts_were_dropped_and_not_detached(store: Store) -> None:
    assert calls_made(store.create_thread(), _dropping) == MOST


# --- properties of the neutral form ---


@st.composite
def messages(draw: st.DrawFn) -> list[Message]:
    made: list[Message] = []
    for number in range(draw(st.integers(0, 6))):
        made.append(Message("user", (Part("text", content=f"u{number}"),)))
        for step in range(draw(st.integers(0, 4))):
            name = f"{number}.{step}"
            item = draw(st.sampled_from([None, f"m{name}"]))
            parts = [Part("text", item=item, content=f"t{name}")]
            if draw(st.booleans()):
                parts.insert(0, Part("reasoning", item=f"r{name}"))
            calls = [f"c{name}.{index}" for index in range(draw(st.integers(0, 3)))]
            parts += [Part("tool_call", call=call, item=item and f"f{call}") for call in calls]
            made.append(Message("assistant", tuple(parts)))
            results = [Part(draw(st.sampled_from(["tool_result", "tool_error"])), call=call) for call in calls]
            together = draw(st.booleans())
            if results and together:
                made.append(Message("tool", tuple(results)))
            else:
                made += [Message("tool", (result,)) for result in results]
    return made


def _of(found: list[Message], *types: str) -> list[Part]:
    return [part for message in found for part in message.parts if part.type in types]


@settings(max_examples=200, deadline=None)
@given(given_=messages(), keep=st.integers(0, 6))
def test_pruning_never_leaves_a_result_without_its_call_nor_changes_text(given_: list[Message], keep: int) -> None:
    sent = for_wire(given_, keep)
    calls = {part.call for part in _of(sent, "tool_call")}
    assert {part.call for part in _of(sent, "tool_result", "tool_error")} <= calls
    assert [part.content for part in _of(sent, "text")] == [part.content for part in _of(given_, "text")]
    assert _of(sent, "reasoning") == []
    assert all(message.parts for message in sent)
    recent = {part.call for message in given_[max(0, len(given_) - keep) :] for part in message.parts if part.call}
    assert calls == {part.call for part in _of(given_, "tool_call")} & recent
    assert for_wire(sent, len(sent)) == sent, "what was pruned and repaired needs no repair"


@settings(max_examples=100, deadline=None)
@given(given_=messages())
def test_the_repairs_change_nothing_that_needs_none(given_: list[Message]) -> None:
    assert detach(given_, given_) == given_
    assert drop(given_) == given_
    assert prune(given_, len(given_)) == detach([], prune(given_, len(given_)))


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(st.booleans(), max_size=8), threshold=st.integers(0, 400))
def test_a_pruned_prompt_is_the_transcript_with_pieces_left_out_or_detached(steps: list[bool], threshold: int) -> None:
    thread = open_store(":memory:").create_thread()
    thread.user("do it")
    for number, reasoning in enumerate(steps):
        respond(thread, number, f"step {number}", "f", reasoning=reasoning)
    whole = transcript_v1.assemble(material(thread), transcript_v1.Parameters())
    for before, after in zip(whole, pruned(thread, pruned_v1.Parameters(threshold=threshold)), strict=True):
        assert _bare(after.element) == _bare(before.element)
        assert after.provenance in {before.provenance, DROPPED, REPAIR}


def _bare(element: Any) -> Any:
    return msgspec.structs.replace(element, item=None, needs=None) if isinstance(element, Text | Call) else element
