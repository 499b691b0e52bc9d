"""Recording what a call gave back: parts in order, once, at the right place; usage; how the turn ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convlog.eventstore.errors import KeyMismatch, NoSuchCall, PayloadRejected
from convlog.eventstore.events import CallFinished, SegmentAdded, ToolCalled, ToolReturned, TurnEnded, Usage
from convlog.eventstore.memory import MemoryBackend
from convlog.eventstore.redaction import redact
from convlog.projections.conversation import Store, Thread
from convlog.projections.live import Live
from convlog.projections.readers import UnreadableResponse
from convlog.projections.record import sent_as_prepared

from . import responses
from .responses import Json, asked, message, said, stream, thought


def finished(thread: Thread, position: int) -> CallFinished:
    body = thread.event(position).body
    assert isinstance(body, CallFinished)
    return body


def said_by(thread: Thread) -> list[str]:
    """Give what the nodes of the active path are and say, from the first on."""
    words = []
    for event in thread.path():
        body = event.body
        match body:
            case SegmentAdded():
                words.append(f"{body.kind}: {body.text}")
            case ToolCalled():
                words.append(f"call: {body.name} {body.input}")
            case ToolReturned():
                words.append(f"result: {body.status}")
            case _:
                words.append(event.type)
    return words[2:]


def ends(thread: Thread) -> list[tuple[int, str]]:
    return [(event.body.node, event.body.state) for event in thread.events(types=(TurnEnded.TYPE,))]


@pytest.fixture
def call(thread: Thread) -> int:
    """Give the position of a prepared call about node 2."""
    thread.user("Why does it fail?")
    call = thread.prepare().call
    assert call is not None
    return call


# --- what the providers give back ---


def test_a_message_becomes_its_parts_in_order(thread: Thread, call: int) -> None:
    done = thread.record(message(thought("Hm."), said("Let me see."), asked("c1", path="a")), call=call)
    assert said_by(thread) == ["reasoning: Hm.", "text: Let me see.", 'call: Read {"path":"a"}']
    assert done.nodes == (4, 5, 6)
    assert [each.call for each in done.calls] == ["c1"]
    assert (done.finished, done.ended, ends(thread)) == (7, False, [])
    events = [thread.event(position) for position in done.nodes]
    assert [(event.body.response, event.body.part) for event in events] == [("msg_1", 0), ("msg_1", 1), ("msg_1", 2)]
    assert events[0].body.signature == "c2VhbA=="
    assert thread.head == 6


@pytest.mark.parametrize(
    ("response", "model", "words", "usage"),
    [
        (
            message(said("Done.")),
            "claude-sonnet-4-6",
            ["text: Done."],
            Usage(input=10, cache_read=200, cache_write=30, output=4, reasoning=1),
        ),
        (
            responses.OPENAI_CHAT,
            "gpt-5.4",
            ["text: Reading.", 'call: Read {"path": "a"}'],
            Usage(input=40, cache_read=60, output=9, reasoning=5),
        ),
        (
            responses.OPENAI_RESPONSES,
            "gpt-5.4",
            ["reasoning: ", "text: Done."],
            Usage(input=40, cache_read=60, output=9, reasoning=5),
        ),
        (
            responses.GEMINI,
            "gemini-3-flash-preview",
            ["text: Reading.", 'call: Read {"path":"a"}'],
            Usage(input=40, cache_read=60, output=9, reasoning=5),
        ),
        (
            responses.BEDROCK,
            "bedrock-claude",
            ["text: Reading.", 'call: Read {"path":"a"}'],
            Usage(input=40, cache_read=60, cache_write=7, output=9),
        ),
    ],
    ids=["anthropic", "chat", "responses", "gemini", "bedrock"],
)
def test_each_provider_gives_parts_and_usage_in_classes_that_do_not_overlap(
    thread: Thread, response: Json, model: str, words: list[str], usage: Usage
) -> None:
    thread.user("Why does it fail?")
    prompt = thread.prepare(model=model)
    done = thread.record(response, call=prompt.call)
    assert said_by(thread) == words
    assert finished(thread, done.finished).usage == usage
    # The name that was asked for, not the one with a date that came back: sealed parts go back by it.
    source = thread.event(done.nodes[0]).source
    assert (source.provider, source.model) == (prompt.profile.provider, prompt.profile.model)
    assert done.ended is (not done.calls)
    thread.prepare(model=model)


def test_objects_of_an_sdk_are_read_like_their_json(thread: Thread, call: int) -> None:
    value = message(said("Done."))
    sdk = SimpleNamespace(model_dump=lambda **_: value)
    assert thread.record(sdk, call=call).ended
    assert said_by(thread) == ["text: Done."]


def test_json_text_is_read_too(thread: Thread, call: int) -> None:
    thread.record(json.dumps(message(said("Done."))), call=call)
    assert said_by(thread) == ["text: Done."]


@pytest.mark.parametrize("response", [{}, {"colour": "red"}, "{", 5, []], ids=repr)
def test_what_is_no_response_is_refused_and_nothing_is_written(thread: Thread, call: int, response: Any) -> None:
    before = thread.tip
    with pytest.raises(UnreadableResponse):
        thread.record(response, call=call)
    assert thread.tip == before


def test_a_servers_call_and_its_result_stand_in_the_response_and_are_nobodys_to_run(thread: Thread, call: int) -> None:
    content: list[Json] = [
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "cents"}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []},
        said("Found."),
    ]
    done = thread.record(message(*content), call=call)
    assert said_by(thread) == ['call: web_search {"query":"cents"}', "result: ok", "text: Found."]
    assert done.calls == ()
    assert done.ended
    result = thread.event(done.nodes[1])
    assert result.ref("answers") == done.nodes[0]
    assert json.loads(result.output or b"") == content[1]
    thread.user("Go on.")
    thread.prepare()


def test_half_surrogates_are_kept_aside(thread: Thread, call: int) -> None:
    thread.record(message(said("half \ud800")), call=call)
    body = thread.event(thread.head).body
    assert body.text == "half \ufffd"
    assert body.original == "half \ud800"


# --- streams ---


def test_a_whole_stream_says_what_the_message_says(thread: Thread, call: int) -> None:
    done = thread.record(iter(stream(said("Let me see."), asked("c1"))), call=call)
    assert said_by(thread) == ["text: Let me see.", 'call: Read {"path": "a"}']
    assert finished(thread, done.finished).usage == Usage(input=10, output=7)
    assert finished(thread, done.finished).stop == "tool_use"


@pytest.mark.parametrize("cut", range(len(stream(said("Let me see."), asked("c1")))))
def test_a_stream_that_was_cut_anywhere_is_recorded_as_far_as_it_came(thread: Thread, call: int, cut: int) -> None:
    events = stream(said("Let me see."), asked("c1"))
    if cut == 0:
        with pytest.raises(UnreadableResponse):
            thread.record([], call=call)
        return
    done = thread.record(events[:cut], call=call)
    assert not done.ended
    assert finished(thread, done.finished).stop == (None if cut < len(events) - 1 else "tool_use")
    thread.end_turn("interrupted")
    thread.user("Go on.")
    assert thread.prepare().call is not None


def test_an_interrupted_turn_goes_on_natively_after_a_cut(thread: Thread, call: int) -> None:
    thread.record(stream(said("Let me see."))[:3], call=call)
    thread.end_turn("interrupted")
    thread.user("Go on.")
    request = thread.prepare().request
    assert [each["role"] for each in request["messages"]] == ["user", "assistant", "user"]
    assert request["messages"][1]["content"][0]["text"] == "Let m"


def test_an_error_inside_a_stream_is_kept_and_the_turn_stays_open(thread: Thread, call: int) -> None:
    events = [*stream(said("Let me see."))[:3], {"type": "error", "error": {"type": "overloaded_error"}}]
    done = thread.record(events, call=call)
    assert finished(thread, done.finished).error == "overloaded_error"
    assert ends(thread) == []


# --- once ---


@pytest.mark.parametrize("response", [message(said("Done.")), message(asked("c1")), responses.BEDROCK])
def test_a_response_recorded_again_is_recorded_once(thread: Thread, call: int, response: Json) -> None:
    first = thread.record(response, call=call)
    tip = thread.tip
    assert thread.record(response, call=call) == first
    assert thread.tip == tip
    thread.user("Go on.")
    tip = thread.tip
    assert thread.record(response, call=call) == first
    assert thread.tip == tip


def test_other_content_under_one_response_id_is_refused(thread: Thread, call: int) -> None:
    thread.record(message(said("Done.")), call=call)
    tip = thread.tip
    with pytest.raises(KeyMismatch):
        thread.record(message(said("Otherwise.")), call=call)
    assert thread.tip == tip


def test_without_an_id_or_a_call_nothing_tells_two_responses_apart(thread: Thread) -> None:
    thread.user("Hello.")
    for _ in range(2):
        thread.record(message(said("Hello."), id_=None))
    assert said_by(thread) == ["text: Hello.", "text: Hello."]


def test_two_answers_to_two_calls_may_say_the_same_without_an_id(thread: Thread, call: int) -> None:
    thread.record(message(said("Done."), id_=None), call=call)
    thread.user("Again.")
    thread.record(message(said("Done."), id_=None), call=thread.prepare().call)
    assert said_by(thread) == ["text: Done.", "input.added", "text: Done."]


# --- where it goes ---


def test_a_response_goes_below_the_head_when_that_lies_below_the_calls_leaf(thread: Thread, call: int) -> None:
    steer = thread.user("Rather quickly.", steer=True).position
    done = thread.record(message(said("Done.")), call=call)
    assert thread.tree.parent(done.nodes[0]) == steer


def test_a_response_goes_below_the_calls_leaf_when_the_head_has_moved_away(thread: Thread, call: int) -> None:
    edited = thread.edit(2, "Why does it fail on Mondays?").position
    done = thread.record(message(said("Because."), said("Of clocks.")), call=call)
    assert [thread.tree.parent(node) for node in done.nodes] == [2, done.nodes[0]]
    # Whoever edited is not taken back to where they came from.
    assert thread.head == edited
    assert ends(thread) == [(done.nodes[-1], "done")]


def test_an_empty_answer_ends_the_turn_that_it_belongs_to(thread: Thread, call: int) -> None:
    edited = thread.edit(2, "Why does it fail on Mondays?").position
    thread.record(message(), call=call)
    assert ends(thread) == [(2, "done")]
    assert thread.head == edited


def test_what_another_writer_appends_meanwhile_is_placed_by_the_same_rule(thread: Thread, call: int) -> None:
    other = Store(thread.store.backend).thread(thread.id)
    edited = other.edit(2, "Otherwise.").position
    done = thread.record(message(said("Done.")), call=call)
    assert thread.tree.parent(done.nodes[0]) == 2
    assert thread.head == edited


def test_an_answer_to_no_known_call_goes_below_the_head(thread: Thread) -> None:
    thread.user("Hello.")
    done = thread.record(message(said("Hello.")))
    event = thread.event(done.finished)
    assert event.ref("about") == done.nodes[0]
    assert thread.event(done.nodes[0]).source.model == "claude-sonnet-4-6-20260217"
    assert [info.kind for info in thread.calls()] == ["imported"]


@pytest.mark.parametrize("position", [1, 2])
def test_only_a_call_can_be_answered(thread: Thread, call: int, position: int) -> None:
    with pytest.raises(NoSuchCall):
        thread.record(message(said("Done.")), call=position)


def test_an_answer_is_recorded_although_the_profile_is_gone(thread: Thread, call: int) -> None:
    thread.store.backend.drop_attachments([thread.event(call).body.profile])
    done = thread.record(message(said("Done.")), call=call)
    assert thread.event(done.nodes[0]).source.provider == "anthropic"
    # What verify would find is what this test did.
    thread.store.delete_thread(thread.id)


# --- how the turn ends ---


@pytest.mark.parametrize(
    ("response", "options", "expected"),
    [
        (message(said("Done.")), {}, "done"),
        (message(said("Cut by"), stop="max_tokens"), {}, "done"),
        (message(said("Done.")), {"end": False}, None),
        (message(said("Reading."), asked("c1")), {}, None),
        (message(said("Searching."), stop="pause_turn"), {}, None),
        (stream(said("Done."))[:-2], {}, None),
        (None, {"error": "429 rate limit"}, "error"),
        (None, {"error": "429 rate limit", "end": False}, None),
        (stream(said("Half"))[:4], {"error": "connection lost"}, "error"),
        (None, {}, None),
    ],
    ids=["done", "length", "kept open", "calls", "pause", "cut", "error", "retry", "cut by error", "nothing"],
)
def test_a_turn_is_done_by_a_complete_answer_without_calls_and_fails_by_an_error(
    thread: Thread, call: int, response: Any, options: dict[str, Any], expected: str | None
) -> None:
    done = thread.record(response, call=call, **options)
    found = ends(thread)
    assert [state for _, state in found] == ([] if expected is None else [expected])
    assert done.ended is (expected is not None)
    if found:
        assert found[0][0] == (done.nodes[-1] if done.nodes else 2)
    assert finished(thread, done.finished).error == options.get("error")


def test_a_call_that_failed_and_was_tried_again_keeps_both_answers(thread: Thread, call: int) -> None:
    thread.record(None, call=call, error="429", end=False)
    thread.record(None, call=call, error="429", end=False)
    thread.record(message(said("Done.")), call=call)
    (info,) = thread.calls()
    assert info.answer is not None
    assert info.answer.error is None
    errors = [event.body.error for event in thread.events(types=(CallFinished.TYPE,))]
    assert errors == ["429", "429", None]


# --- what was sent ---


def test_what_was_sent_is_compared_at_the_cost_of_what_is_new(thread: Thread, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    start_over = Live._start_over

    def noted(self: Live, leaf: int, at: int) -> None:
        read.append(at)
        start_over(self, leaf, at)

    monkeypatch.setattr(Live, "_start_over", noted)
    for number in range(12):
        thread.user(f"Question {number}?")
        prompt = thread.prepare()
        done = thread.record(message(said(f"Answer {number}."), id_=f"m{number}"), call=prompt.call, sent=prompt.body)
        assert finished(thread, done.finished).sent_as_prepared is True
    # Once to prepare, and once to compare with what the events alone give.
    assert len(read) == 2


def test_bytes_or_json_equal_to_what_was_prepared_were_sent_as_prepared(thread: Thread) -> None:
    thread.user("Why?")
    cases: list[tuple[Callable[[bytes], bytes | None], str]] = [
        (lambda body: body, "sent as prepared"),
        (lambda body: json.dumps(json.loads(body), indent=1, sort_keys=True).encode(), "sent as prepared"),
        (lambda body: body.replace(b"64000", b"64000.0"), "sent as prepared"),
        (lambda body: body.replace(b"Why?", b"Why not?"), "sent otherwise"),
        (lambda body: body.replace(b"64000", b"true"), "sent otherwise"),
        (lambda body: body[:-1], "sent otherwise"),
        (lambda body: None, "not attested"),
    ]
    for sent, expected in cases:
        prompt = thread.prepare()
        thread.record(message(said("Done."), id_=None), call=prompt.call, sent=sent(prompt.body))
        (replayed,) = thread.replay(numbers=[len(thread.calls())])
        assert (replayed.verdict, replayed.attested) == ("exact", expected)


def test_true_is_not_one(thread: Thread, call: int) -> None:
    prompt = thread.prepare(options={"extra": {"flag": True}})
    assert prompt.call is not None
    assert sent_as_prepared(thread, prompt.call, prompt.body.replace(b"true", b"1")) is False


def test_what_cannot_be_derived_again_is_attested_by_nobody(thread: Thread) -> None:
    thread.user("My number is 555.")
    prompt = thread.prepare()
    redact(thread.store, thread.id, match="555", replacement="[gone]", reason="privacy")
    done = thread.record(message(said("Done.")), call=prompt.call, sent=prompt.body)
    assert finished(thread, done.finished).sent_as_prepared is None


def test_what_was_sent_is_bytes(thread: Thread, call: int) -> None:
    sent: Any = "text"
    with pytest.raises(PayloadRejected):
        thread.record(message(said("Done.")), call=call, sent=sent)


# --- anything ---

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
blocks = st.lists(
    st.dictionaries(st.sampled_from(["type", "text", "id", "name", "input", "thinking", "signature"]), json_values)
    | st.builds(said, st.text(max_size=8))
    | st.builds(asked, st.text(min_size=1, max_size=4)),
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(blocks, st.sampled_from(["end_turn", "tool_use", "max_tokens", "strange"]))
def test_whatever_a_provider_says_is_recorded_and_sent_on(content: list[Json], stop: str) -> None:
    thread = Store(MemoryBackend()).create_thread()
    thread.user("Hello.")
    response = {"type": "message", "id": "m", "content": content, "stop_reason": stop}
    done = thread.record(response, call=thread.prepare().call)
    thread.end_turn()
    thread.user("Go on.")
    prompt = thread.prepare(assembler="transcript@1")
    assert [replayed.verdict for replayed in thread.replay()] == ["exact", "exact"]
    assert json.loads(prompt.body)
    assert len(done.nodes) <= len(content)
