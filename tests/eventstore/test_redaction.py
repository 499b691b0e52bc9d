"""Redaction: the words go from every place that held them, and what is left verifies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from convlog.eventstore import errors
from convlog.eventstore.events import (
    CallFinished,
    CallPrepared,
    Document,
    Image,
    InstructionsSet,
    Part,
    RecordKept,
    Redaction,
    ResultPromoted,
    SegmentAdded,
    Source,
    SummaryAdded,
    Text,
    ThreadTitled,
    ToolCalled,
)
from convlog.eventstore.masking import Mask
from convlog.eventstore.placement import Appended
from convlog.eventstore.ranges import covered_hash
from convlog.eventstore.records import Draft
from convlog.eventstore.redaction import redact
from convlog.eventstore.store import Store
from convlog.eventstore.thread import USER, Thread
from convlog.eventstore.verify import verify_store
from tests.conftest import Stores
from tests.stores import Place

SECRET = "pw-Yx82-bolt"


def login(store: Store) -> Thread:
    thread = store.create_thread(title="log in")
    thread.user("Log in.")
    thread.call("l1", "login", {"user": "ops", "password": SECRET})
    thread.result("l1", "welcome")
    thread.text("Done.")
    thread.end_turn()
    return thread


def redact_all(store: Store, thread: Thread, match: str = SECRET, **options: Any) -> list[Appended]:
    return redact(store, thread.id, match=match, reason="credential", **options)


def places_of(path: Path, words: str) -> list[str]:
    """Give which files of a store hold some words."""
    files = [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm", "-lock")]
    return [file.name for file in files if file.exists() and words.encode() in file.read_bytes()]


def prepared(thread: Thread, leaf: int, **fields: Any) -> Appended:
    """Append a manifest of a prompt that showed everything up to `leaf`."""
    key = b"k" * 32
    body = CallPrepared(
        assembler="transcript@1",
        encoder="anthropic@1",
        leaf=leaf,
        at=thread.position,
        length=10,
        blocks=1,
        digests="",
        digest="11" * 32,
        digest_key_hash=blake3(key).hexdigest(),
        profile=thread.store.attach(b"{}"),
        **{"inputs": ((thread.id, thread.position, thread.tip.hex()),), "ranges": ((1, leaf),), **fields},
    )
    return thread.append_many([Draft(body=body, secret=key)])[0]


# --- what reads differently, and what stays ---


def test_words_are_taken_out_and_the_rest_stays(any_store: Store) -> None:
    thread = login(any_store)
    before = {event.position: event for event in thread.events()}
    (answer,) = redact_all(any_store, thread, source=Source("user", actor="ops"))
    after = {event.position: event for event in thread.events()}
    assert [position for position in before if before[position] != after[position]] == [3]
    assert after[3].body == ToolCalled(
        call="l1", name="login", input='{"user":"ops","password":"[redacted]"}', response=before[3].body.response
    )
    assert after[3].redacted_by == answer.position == 7
    assert after[3].hash == before[3].hash
    assert after[7].body.reason == "credential"
    assert [problem.kind for problem in verify_store(any_store)] == ["redacted"]


def test_the_words_are_in_no_file_of_the_store(open_store: Stores) -> None:
    store = open_store()
    thread = login(store)
    assert places_of(open_store.path(), SECRET)
    redact_all(store, thread)
    assert places_of(open_store.path(), SECRET) == []
    store.close()
    assert places_of(open_store.path(), SECRET) == []


def test_a_whole_event_keeps_its_place_and_nothing_that_it_said(any_store: Store) -> None:
    thread = login(any_store)
    thread.append(SegmentAdded(text="secret plan", signature="seal", opaque='{"text":"secret plan"}', response="r1"))
    redact(any_store, thread.id, [2, 3, 4, 7], whole=True, reason="erasure-request")
    events = {event.position: event for event in thread.events()}
    assert events[2].body.content == (Text("[redacted]"),)
    assert (events[3].body.call, events[3].body.name, events[3].body.input) == ("l1", "login", "{}")
    assert events[4].output == b"[redacted]"
    assert events[7].body == SegmentAdded(text="[redacted]", response="r1")
    assert any_store.row(thread.id).preview == "[redacted]"


def test_a_call_that_was_redacted_can_still_be_answered(any_store: Store) -> None:
    thread = any_store.create_thread()
    thread.user("go")
    call = thread.call("c1", "login", {"password": SECRET}).position
    redact_all(any_store, thread)
    result = thread.result("c1", "fine").position
    assert thread.event(result).ref("answers") == call


def test_a_key_of_a_redacted_event_answers_with_that_event(any_store: Store) -> None:
    thread = any_store.create_thread()
    first = thread.user(f"my password is {SECRET}", key="k1")
    redact_all(any_store, thread)
    again = thread.user(f"my password is {SECRET}", key="k1")
    assert (again.position, again.replayed) == (first.position, True)


def test_a_handle_that_was_open_before_reads_the_replacement(any_place: Place) -> None:
    writer, reader = any_place.open(), any_place.open()
    thread = login(writer)
    other = reader.thread(thread.id)
    assert SECRET in other.event(3).body.input
    redact_all(writer, thread)
    assert SECRET not in other.event(3).body.input


# --- where words hide ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"plain {SECRET}.", "plain [redacted]."),
        (f'{{"a": "{SECRET}", "n": 1.50}}', '{"a": "[redacted]", "n": 1.50}'),
        (f'{{"{SECRET}":1e3}}', '{"[redacted]":1e3}'),
        (json.dumps({"a": json.dumps({"b": SECRET})}), json.dumps({"a": json.dumps({"b": "[redacted]"})})),
        ('"\\u0070w-Yx82-bolt"', '"[redacted]"'),
        (f'["\\ud800 {SECRET}"]', '["\\ud800 [redacted]"]'),
        (f"[not JSON: {SECRET}", "[not JSON: [redacted]"),
        ("nothing here", "nothing here"),
    ],
)
def test_words_are_found_as_they_read(text: str, expected: str) -> None:
    assert Mask(SECRET, "[redacted]").text(text) == expected


def test_a_number_that_holds_the_words_becomes_text() -> None:
    assert Mask("4471", "[redacted]").text('{"pin":4471,"on":true,"x":1.0}') == '{"pin":"[redacted]","on":true,"x":1.0}'


def test_words_across_the_structure_of_json_text_take_it_with_them() -> None:
    assert Mask('a","b', "[redacted]").text('["a","b"]') == '["[redacted]"]'
    assert Mask('"a":1}', "[redacted]").text('{"a":1}') == '"[redacted]"'


@given(st.text(), st.text(min_size=1), st.text(max_size=5))
def test_no_text_holds_the_words_afterwards(text: str, match: str, replacement: str) -> None:
    if match not in replacement:
        assert match not in Mask(match, replacement).text(text + match)


def test_words_go_from_every_field(any_store: Store) -> None:
    store = any_store
    thread = store.create_thread(title=f"about {SECRET}", cwd=f"/home/{SECRET}", labels={SECRET: SECRET})
    thread.append(InstructionsSet(parts=(Part("rules", f"never say {SECRET}"),)))
    thread.user([Text(f"say {SECRET}"), Text("ok")], source=USER)
    thread.append(SegmentAdded(text="", kind="opaque", opaque=json.dumps({"data": SECRET})))
    thread.append(
        ToolCalled(call="c", name="bash", input=json.dumps({"cmd": f'echo "{SECRET}"'}), extra=f'["{SECRET}"]')
    )
    thread.result("c", [Text(SECRET), Text("and more")])
    thread.append(RecordKept(format="claude-code", record=json.dumps({"type": "snapshot", "data": [SECRET]})))
    thread.set_title(f"{SECRET} again")
    redact_all(store, thread)
    held = [record for record in store.backend.read(thread.id, 1, 99) if SECRET in f"{record.body!r}{record.output!r}"]
    assert held == []
    assert SECRET not in f"{store.row(thread.id)}"
    assert store.row(thread.id).title == "[redacted] again"
    assert store.row(thread.id).preview == "say [redacted] ok"
    assert thread.event(1).body.labels == {"[redacted]": "[redacted]"}
    assert thread.event(4).body.opaque == '{"data": "[redacted]"}'
    assert thread.event(6).output == b'[{"type":"text","text":"[redacted]"},{"type":"text","text":"and more"}]'


def test_a_short_word_does_not_break_what_bodies_are_made_of(any_store: Store) -> None:
    thread = login(any_store)
    redact_all(any_store, thread, "user")
    redact_all(any_store, thread, "w", replacement="*")
    assert thread.event(2).body.role == "user"
    assert thread.event(4).output == b"*elcome"


def test_half_surrogates_keep_their_places(any_store: Store) -> None:
    thread = any_store.create_thread()
    at = thread.user(f"a{SECRET}b\ud83dc").position
    redact_all(any_store, thread)
    (block,) = thread.event(at).body.content
    assert block.original == "a[redacted]b\ud83dc"


def test_a_seal_over_changed_reasoning_goes_with_it(any_store: Store) -> None:
    thread = any_store.create_thread()
    at = thread.reasoning(f"the password is {SECRET}", signature="EqQB").position
    redact_all(any_store, thread)
    assert thread.event(at).body == SegmentAdded(kind="reasoning", text="the password is [redacted]")


def test_only_the_positions_named_are_touched(any_store: Store) -> None:
    thread = any_store.create_thread()
    first, second = thread.user(SECRET).position, thread.text(SECRET).position
    redact(any_store, thread.id, [first], match=SECRET, reason="credential")
    assert thread.event(first).body.content == (Text("[redacted]"),)
    assert thread.event(second).body.text == SECRET


# --- what repeats the words ---


def test_a_summary_that_repeats_the_words_goes_with_them(any_store: Store) -> None:
    thread = any_store.create_thread()
    first, last = thread.user(f"use {SECRET}").position, thread.text("done").position
    covered = covered_hash(thread, [first, last])

    def add(text: str) -> int:
        return thread.append(SummaryAdded(first=first, last=last, text=text, covered=covered, nodes=2)).position

    telling, silent = add(f"They gave {SECRET}."), add("They logged in.")
    promoted = thread.append(ResultPromoted(call=last, text=SECRET, reason="gone")).position
    redact(any_store, thread.id, [first], match=SECRET, reason="credential")
    assert thread.event(telling).body.text == "They gave [redacted]."
    assert thread.event(silent).redacted_by is None
    assert thread.event(promoted).redacted_by is None


def test_words_in_a_fork_s_origin_are_erased_in_the_origin(any_store: Store) -> None:
    origin = login(any_store)
    fork = origin.fork(title="another try")
    fork.user(f"again with {SECRET}")
    fork.append(SummaryAdded(first=2, last=3, text=f"used {SECRET}"))
    answers = redact_all(any_store, fork)
    assert [answer.thread for answer in answers] == [fork.id, origin.id]
    for thread in (origin, fork):
        assert SECRET not in f"{list(thread.events())}"
    assert fork.event(3).redacted_by == answers[1].position


def test_what_forks_repeat_of_their_origin_goes_too(any_store: Store) -> None:
    origin = any_store.create_thread(title=f"about {SECRET}")
    origin.user(f"use {SECRET}")
    origin.text("fine")
    fork = origin.fork()
    deeper = fork.fork()
    summary = deeper.append(SummaryAdded(first=2, last=3, text=f"used {SECRET}")).position
    redact_all(any_store, origin)
    assert [any_store.row(thread.id).title for thread in (origin, fork, deeper)] == ["about [redacted]"] * 3
    assert deeper.event(summary).body.text == "used [redacted]"
    assert deeper.fork().title == "about [redacted]"


def test_words_are_redacted_out_of_a_replacement(any_store: Store) -> None:
    thread = any_store.create_thread()
    at = thread.user("alpha beta gamma").position
    first = redact_all(any_store, thread, "alpha")[0].position
    second = redact_all(any_store, thread, "beta")[0].position
    event = thread.event(at)
    assert event.body.content == (Text("[redacted] [redacted] gamma"),)
    assert event.redacted_by == second
    assert thread.event(first).body.targets == (Redaction(at),)
    held = [record for record in any_store.backend.read(thread.id, 1, 99) if b"beta" in (record.body or b"")]
    assert held == []


# --- what would betray them ---


def test_a_prompt_that_showed_the_words_loses_its_key_and_others_keep_theirs(any_store: Store) -> None:
    thread = any_store.create_thread()
    question = thread.user("hello").position
    before = prepared(thread, question).position
    secret = thread.user(f"it is {SECRET}").position
    after = prepared(thread, secret).position
    aside = thread.text("other branch", parent=question).position
    beside = prepared(thread, aside, ranges=((1, question), (aside, aside))).position
    redact_all(any_store, thread)
    assert [thread.event(at).secret is None for at in (before, after, beside)] == [False, True, False]


def test_a_prompt_of_a_thread_whose_title_alone_held_the_words_keeps_its_key(any_store: Store) -> None:
    thread = any_store.create_thread(title=f"about {SECRET}")
    call = prepared(thread, thread.user("hello").position).position
    redact_all(any_store, thread)
    assert any_store.row(thread.id).title == "about [redacted]"
    assert thread.event(call).secret is not None


def test_plain_hashes_and_captures_of_such_a_prompt_go(any_store: Store) -> None:
    thread = any_store.create_thread()
    at = thread.user(f"it is {SECRET}").position
    capture = any_store.attach(f"the prompt with {SECRET}".encode())
    call = prepared(thread, at, capture=capture).position
    answer = thread.text("ok").position
    finished = thread.append(CallFinished(sent="ab" * 32, response="r"), refs=(("about", answer),)).position
    redact_all(any_store, thread)
    assert thread.event(call).body.capture is None
    assert any_store.backend.attachment_size(capture) is None
    assert thread.event(finished).body == CallFinished(response="r")


def test_a_prompt_of_a_fork_that_showed_the_words_loses_its_key(any_store: Store) -> None:
    origin = any_store.create_thread()
    at = origin.user(f"it is {SECRET}").position
    fork = origin.fork()
    call = prepared(fork, at).position
    redact_all(any_store, origin)
    assert fork.event(call).secret is None


def test_a_prompt_that_read_a_memory_thread_loses_its_key(any_store: Store) -> None:
    memory = any_store.create_thread(kind="memory")
    memory.user(f"the door code is {SECRET}")
    thread = any_store.create_thread()
    at = thread.user("what is the code?").position
    inputs = ((thread.id, thread.position, thread.tip.hex()), (memory.id, memory.position, memory.tip.hex()))
    call = prepared(thread, at, inputs=inputs).position
    redact_all(any_store, memory)
    assert thread.event(call).secret is None


def test_an_attachment_that_holds_the_words_goes_unless_another_thread_shows_it(any_store: Store) -> None:
    name = any_store.attach(f"notes: {SECRET}".encode())
    other_name = any_store.attach(b"a picture")
    first, second = any_store.create_thread(), any_store.create_thread()
    for thread in (first, second):
        thread.user([Document(attachment=name), Image(attachment=other_name)])
    redact_all(any_store, first)
    assert first.event(2).body.content == (Text("[redacted]"), Image(attachment=other_name))
    assert any_store.attachment(name)
    redact_all(any_store, second)
    assert any_store.backend.attachment_size(name) is None
    assert any_store.attachment(other_name) == b"a picture"


def test_caches_are_dropped(any_store: Store) -> None:
    thread = login(any_store)
    any_store.backend.cache("memory", SECRET.encode(), thread.id)
    redact_all(any_store, thread)
    assert any_store.backend.cached("memory") is None


# --- refusals and races ---


def test_nothing_is_written_when_nothing_matches(any_store: Store) -> None:
    thread = login(any_store)
    tip = thread.position
    with pytest.raises(errors.NothingMatches):
        redact_all(any_store, thread, "not there")
    assert thread.position == tip


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"match": "x", "whole": True},
        {"whole": True},
        {"match": "x", "replacement": "xx"},
        {"match": "x", "reason": "x"},
        {"match": "x", "reason": ""},
    ],
)
def test_what_makes_no_sense_is_refused(store: Store, options: dict[str, Any]) -> None:
    thread = login(store)
    with pytest.raises(errors.PayloadRejected):
        redact(store, thread.id, **{"reason": "credential", **options})


def test_a_position_that_is_not_there_is_refused(store: Store) -> None:
    thread = login(store)
    with pytest.raises(errors.NoSuchNode):
        redact(store, thread.id, [99], whole=True, reason="credential")


def test_replacements_that_do_not_fit_into_one_event_make_several(
    any_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("convlog.eventstore.redaction.EVENT_BYTES_SOFT", 200)
    thread = any_store.create_thread()
    for number in range(5):
        thread.user(f"{number} {SECRET} {'x' * 100}")
    answers = redact_all(any_store, thread)
    assert len(answers) == 5
    assert SECRET not in f"{list(thread.events())}"


def test_an_event_too_large_to_be_said_again_goes_whole(any_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convlog.eventstore.redaction_plan.TARGET_BYTES_MAX", 100)
    thread = any_store.create_thread()
    thread.call("c", "cat", {})
    at = thread.result("c", SECRET + "x" * 200).position
    redact_all(any_store, thread)
    assert thread.event(at).output == b"[redacted]"


def test_nobody_writes_between_the_look_and_the_erasure(open_store: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a prompt made on a fork, or somebody who appends without a pause, would keep or repeat what goes."""
    store = open_store()
    thread = login(store)
    fork = thread.fork()
    other = Thread(open_store(timeout_s=0.05), fork.id)
    redact_once = store.backend.redact
    erasures = 0

    def redact_late(*arguments: Any) -> None:
        nonlocal erasures
        erasures += 1
        with pytest.raises(errors.StoreLocked):
            other.user("too early")
        redact_once(*arguments)

    monkeypatch.setattr(store.backend, "redact", redact_late)
    redact_all(store, thread)
    assert erasures
    assert SECRET not in f"{list(thread.events())}{list(fork.events())}"
    other.user("now")


def test_a_title_set_by_hand_is_cleaned(any_store: Store) -> None:
    thread = login(any_store)
    thread.append(ThreadTitled(title=SECRET))
    redact(any_store, thread.id, [3], match=SECRET, reason="credential")
    assert any_store.row(thread.id).title == "[redacted]"
