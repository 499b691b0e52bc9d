"""Verdicts: exact, differs (where, and because of what), unprovable (why), derived."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from convlog.eventstore.events import CallFinished, CallPrepared
from convlog.eventstore.native import export_thread
from convlog.eventstore.native_import import import_native
from convlog.eventstore.prompt_digests import packed
from convlog.eventstore.records import Draft
from convlog.eventstore.redaction import redact
from convlog.projections import freeze, prepare, profiles
from convlog.projections.calls import call, calls
from convlog.projections.conversation import Store, Thread
from convlog.projections.errors import NoSuchProjection
from convlog.projections.replay import Replayed, damaged, replay, replay_call
from convlog.projections.stages.pieces_v1 import Image
from tests.conftest import Stores

from .authors import AS_WRITTEN, Author, author, with_pieces
from .responses import asked, message, said

__all__ = ["author"]

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


def one(thread: Thread, number: int = -1) -> Replayed:
    return replay_call(thread, call(thread, number))


def talk(thread: Thread, turns: int = 6) -> None:
    for number in range(turns):
        thread.user(f"Question {number}?")
        thread.text(f"Answer {number}.")
        thread.end_turn()
    thread.user("And now?")


# --- exact ---


@pytest.mark.parametrize(
    "assembler", ["transcript@1", *(f"turn-memory@{version}" for version in range(1, 7)), "pruned@1"]
)
@pytest.mark.parametrize("model", ["claude-sonnet-4-6", "gpt-5.4", "gemini-3-flash-preview", "bedrock-claude"])
def test_a_call_of_every_version_is_exact(thread: Thread, assembler: str, model: str) -> None:
    thread.user("Why does it fail?")
    thread.record(message(said("Let me see."), asked("c1", path="a")), call=thread.prepare(model=model).call)
    thread.result("c1", "content")
    prompt = thread.prepare(assembler=assembler, model=model)
    found = one(thread)
    assert (found.verdict, found.reason, found.difference) == ("exact", "", None)
    assert (found.assembler, found.encoder) == (assembler, prompt.derived.recipe.encoder)
    assert (found.node, found.at, found.bytes) == (prompt.leaf, prompt.at, len(prompt.body))
    assert found.model == prompt.profile.model
    assert found.prompt is not None
    assert found.prompt.body == prompt.body


def test_calls_are_numbered_in_log_order_across_branches(thread: Thread) -> None:
    thread.user("one")
    thread.prepare()
    thread.edit(2, "two")
    thread.prepare()
    assert [(each.call, each.node) for each in replay(thread)] == [(1, 2), (2, 4)]
    assert [each.call for each in replay(thread, until=4)] == [1]
    assert [each.call for each in replay(thread, numbers={2})] == [2]
    assert [each.call for each in replay(thread, on=4)] == [2]
    assert [each.call for each in replay(thread, on=2)] == [1]


def test_a_call_stays_exact_in_a_fork_and_in_another_store(thread: Thread, open_store: Stores) -> None:
    talk(thread)
    prompt = thread.prepare()
    fork = thread.store.thread(thread.fork().id)
    assert one(fork).verdict == "exact"
    other = open_store("other.db", store_class=Store)
    import_native(other, export_thread(thread.store, thread.id))
    copy = other.thread(thread.id)
    assert isinstance(copy, Thread)
    found = one(copy)
    assert found.verdict == "exact"
    assert found.prompt is not None
    assert found.prompt.body == prompt.body


def test_a_newer_bundled_profile_changes_no_recorded_prompt(thread: Thread, monkeypatch: pytest.MonkeyPatch) -> None:
    thread.user("Why?")
    thread.prepare()
    newer = json.loads(profiles.profile_bytes("claude-sonnet-4-6")) | {"output_tokens_max": 5, "date": "2027-01-01"}
    monkeypatch.setattr(prepare, "profile_bytes", lambda _id: json.dumps(newer).encode())
    profiles._bundled.cache_clear()
    changed = thread.prepare()
    assert changed.request["max_tokens"] == 5
    assert [each.verdict for each in replay(thread)] == ["exact", "exact"]
    profiles._bundled.cache_clear()


# --- differs ---


def test_a_changed_assembler_is_named_with_the_first_difference(thread: Thread, author: Author) -> None:
    talk(thread, 2)
    thread.prepare(assembler="mine@1")
    before = freeze.fingerprint("mine@1")
    assert one(thread).verdict == "exact"
    author.write(with_pieces("pieces[2] = pieces[0]"))
    found = one(thread)
    assert found.verdict == "differs"
    assert found.difference is not None
    assert (found.difference.first, found.difference.last) == (2, 2)
    assert found.difference.pointer == "/messages/2/content/0"
    assert json.loads(found.difference.text or "") == ["user", {"type": "text", "text": "Question 0?"}]
    assert found.difference.old is None
    code, made_of = found.difference.causes
    assert code.startswith("the code or data of assembler mine@1 changed")
    assert before[:12] in code
    assert made_of == "the block is made of :2"
    assert found.detail == f"{code}; {made_of}"


def test_what_stood_there_is_shown_where_a_capture_was_kept(thread: Thread, author: Author) -> None:
    talk(thread, 40)
    thread.prepare(assembler="mine@1", capture=True)
    thread.prepare(assembler="mine@1")
    author.write(with_pieces("del pieces[21]"))
    with_capture, without = replay(thread)
    assert with_capture.difference is not None
    assert without.difference is not None
    assert (without.difference.first, without.difference.last) == (16, 31)
    assert without.difference.pointer is None
    assert (with_capture.difference.first, with_capture.difference.last) == (21, 21)
    assert json.loads(with_capture.difference.old or "")["text"] == "Answer 10."
    assert "Question 11?" in (with_capture.difference.text or "")


def test_more_and_fewer_blocks_are_told(thread: Thread, author: Author) -> None:
    talk(thread, 2)
    thread.prepare(assembler="mine@1")
    author.write(with_pieces("pieces.append(pieces[0])"))
    found = one(thread).difference
    assert found is not None
    assert found.first == 5
    assert "Question 0?" in (found.text or "")
    author.write(with_pieces("del pieces[3:]"))
    found = one(thread).difference
    assert found is not None
    assert found.first == 3
    assert found.causes[-1] == "the prompt is shorter now"


def test_a_difference_around_the_talk_is_told_apart(thread: Thread, author: Author) -> None:
    talk(thread, 2)
    thread.prepare(assembler="mine@1")
    author.write(AS_WRITTEN.replace("Be brief.", "Be long."))
    found = one(thread).difference
    assert found is not None
    assert (found.first, found.last, found.pointer) == (0, -1, None)
    assert found.causes[-1] == "what surrounds the talk: system, tools or options"


def test_other_message_boundaries_are_a_difference(thread: Thread, monkeypatch: pytest.MonkeyPatch) -> None:
    thread.user("one")
    thread.user("two")
    thread.user("three")
    thread.prepare(parameters={"notice": False}, options={"cache": False})
    assert one(thread).verdict == "exact"
    from convlog.projections import derive

    def regrouped(*given: Any) -> Any:
        request = derive_encode(*given)
        (item,) = request.items
        parts = [
            msgspec.structs.replace(item, blocks=item.blocks[:1]),
            msgspec.structs.replace(item, blocks=item.blocks[1:]),
        ]
        return msgspec.structs.replace(request, items=tuple(parts))

    derive_encode = derive.encode
    monkeypatch.setattr(derive, "encode", regrouped)
    found = one(thread)
    assert found.verdict == "differs"


def test_a_changed_runtime_and_package_are_named(
    thread: Thread, author: Author, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(thread, 1)
    monkeypatch.setattr("convlog.projections.prepare.runtime", lambda: "python 3.10.0 msgspec 0.1")
    monkeypatch.setattr("convlog.projections.prepare.distributions", lambda recipe: {"mine@1": "mine==1.0"})
    thread.prepare(assembler="mine@1")
    monkeypatch.setattr("convlog.projections.difference.distributions", lambda recipe: {"mine@1": "mine==1.1"})
    author.write("return assemble(material, parameters)")
    found = one(thread).difference
    assert found is not None
    assert "mine@1 came from mine==1.0 then, from mine==1.1 now" in found.causes
    assert any(cause.startswith("python 3.10.0 msgspec 0.1 then, python 3.") for cause in found.causes)


# --- unprovable ---


def reason(thread: Thread, number: int = -1) -> tuple[str, str]:
    found = one(thread, number)
    return found.verdict, found.reason


def test_a_version_that_is_not_installed_proves_nothing(thread: Thread, author: Author) -> None:
    thread.user("Why?")
    thread.prepare(assembler="mine@1")
    author.take_away()
    found = one(thread)
    assert (found.verdict, found.reason) == ("unprovable", "version missing")
    assert "mine@1" in found.detail
    assert (found.assembler, found.prompt) == ("mine@1", None)
    assert found.bytes > 0
    assert one(thread).digest == found.digest != ""


def test_a_version_that_fails_as_installed_proves_nothing(thread: Thread, author: Author) -> None:
    thread.user("Why?")
    thread.prepare(assembler="mine@1")
    author.write('raise KeyError("no such thing")')
    found = one(thread)
    assert (found.verdict, found.reason) == ("unprovable", "version missing")
    assert "KeyError: 'no such thing'" in found.detail


def test_redaction_takes_the_proof_of_a_prompt_that_held_it_and_shows_how_it_reads_now(thread: Thread) -> None:
    thread.user("My number is 555.")
    thread.prepare()
    thread.edit(2, "Never mind.")
    thread.prepare()
    redact(thread.store, thread.id, match="555", replacement="[gone]", reason="privacy")
    assert (reason(thread, 1), reason(thread, 2)) == (("unprovable", "redacted"), ("exact", ""))
    found = one(thread, 1)
    assert found.prompt is not None
    assert b"My number is [gone]." in found.prompt.body


def test_erased_instructions_that_a_later_value_cites_are_redacted_and_no_crash(thread: Thread) -> None:
    thread.user("Why?")
    thread.prepare(instructions={"a": "Secret.", "b": "B."})
    thread.prepare(instructions={"a": "Secret.", "b": "C."})
    redact(thread.store, thread.id, [3], whole=True, reason="test")
    assert [reason(thread, 1), reason(thread, 2)] == [("unprovable", "redacted")] * 2


def test_an_erased_manifest_is_redacted(thread: Thread) -> None:
    thread.user("Why?")
    position = thread.prepare().call
    redact(thread.store, thread.id, [position or 0], whole=True, reason="test")
    assert reason(thread) == ("unprovable", "redacted")


def test_an_erased_output_is_redacted_not_unrecorded(thread: Thread) -> None:
    thread.user("Read.")
    thread.call("c", "Read", {})
    result = thread.result("c", "secret").position
    thread.prepare(assembler="transcript@1")
    redact(thread.store, thread.id, [result], whole=True, reason="test")
    assert reason(thread) == ("unprovable", "redacted")


def test_an_attachment_that_is_gone_proves_nothing(thread: Thread, allow_damage: None) -> None:
    name = thread.store.attach(PNG)
    from convlog.eventstore.events import Image as Picture

    thread.user([Picture(attachment=name, media_type="image/png")])
    prompt = thread.prepare()
    assert any(isinstance(piece.element, Image) for piece in prompt.pieces)
    thread.store.backend.drop_attachments([name])
    assert reason(thread) == ("unprovable", "attachment gone")


def test_a_profile_that_is_gone_proves_nothing(thread: Thread, allow_damage: None) -> None:
    thread.user("Why?")
    position = thread.prepare().call
    thread.store.backend.drop_attachments([thread.event(position or 0).body.profile])
    assert reason(thread) == ("unprovable", "attachment gone")
    assert one(thread, 1).detail.startswith("the profile")


def test_an_output_that_the_store_does_not_keep_is_not_recorded(open_store: Stores) -> None:
    store = open_store(store_class=Store, record_outputs="facts")
    thread = store.create_thread()
    assert isinstance(thread, Thread)
    thread.user("Read.")
    thread.call("c", "Read", {})
    prompt = thread.prepare(assembler="transcript@1")
    body = thread.event(prompt.call or 0).body
    thread.result("c", "secret")
    # As another program would write that kept the output for itself: a manifest behind the result.
    secret = thread.event(prompt.call or 0).secret
    later = msgspec.structs.replace(body, leaf=thread.head, at=thread.position, inputs=())
    thread.append_many([Draft(body=later, secret=secret)])
    found = replay_call(thread, calls(thread)[-1])
    assert (found.verdict, found.reason) == ("unprovable", "not recorded")


def forged(thread: Thread, **changes: Any) -> Replayed:
    """Give what becomes of a manifest that says otherwise, as another program's would."""
    position = thread.prepare().call
    event = thread.event(position or 0)
    assert isinstance(event.body, CallPrepared)
    body = msgspec.structs.replace(event.body, **changes)
    thread.append_many([Draft(body=body, secret=event.secret)])
    return one(thread)


def test_options_and_parameters_of_a_newer_program_are_a_missing_version(thread: Thread) -> None:
    thread.user("Why?")
    for changes in ({"options": '{"colour":"red"}'}, {"parameters": '{"colour":"red"}'}, {"encoder": "anthropic@99"}):
        found = forged(thread, **changes)
        assert (found.verdict, found.reason) == ("unprovable", "version missing"), changes


def test_a_digest_that_is_not_the_prompts_differs_though_no_version_changed(thread: Thread) -> None:
    talk(thread, 1)
    found = forged(thread, digests=packed({0: b"0" * 8}, 1), digest="0" * 64)
    assert found.verdict == "differs"
    found = forged(thread, digest="0" * 64)
    assert found.difference is not None
    assert "cache marks" in found.difference.causes[-1]


def test_nothing_of_a_damaged_thread_is_exact(thread: Thread) -> None:
    thread.user("Why?")
    thread.prepare()
    found = damaged(one(thread))
    assert (found.verdict, found.reason) == ("unprovable", "damaged")
    assert damaged(found) == found


# --- derived ---


def test_a_call_known_by_its_answer_alone_is_derived(thread: Thread) -> None:
    thread.user("Why?")
    first = thread.text("Because.").position
    thread.append(CallFinished(response="r", model="m"), refs=(("about", first),))
    found = one(thread)
    assert (found.verdict, found.assembler, found.encoder) == ("derived", "transcript@1", "anthropic@1")
    assert (found.node, found.model) == (2, "m")
    assert found.prompt is not None
    assert b"Because." not in found.prompt.body
    assert one(thread).digest == found.digest != ""


def test_a_call_of_which_nothing_came_back_is_derived_at_what_was_active(thread: Thread) -> None:
    thread.user("Why?")
    thread.record(None, error="429", end=False)
    found = one(thread)
    assert (found.verdict, found.node) == ("derived", 2)


def test_another_version_than_the_recorded_one_is_derived(thread: Thread) -> None:
    talk(thread, 2)
    thread.prepare()
    found = one(thread)
    other = next(replay(thread, assembler="transcript@1"))
    assert (other.verdict, other.assembler, other.encoder) == ("derived", "transcript@1", "anthropic@1")
    assert other.prompt is not None
    assert found.prompt is not None
    assert other.prompt.body != found.prompt.body
    with pytest.raises(NoSuchProjection):
        list(replay(thread, assembler="mine@9"))
    with pytest.raises(NoSuchProjection):
        list(replay(thread, encoder="anthropic@9"))


@pytest.mark.parametrize("encoder", ["openai-chat@1", "openai-responses@1", "gemini@1", "bedrock@1"])
def test_another_format_is_made_for_a_model_that_is_offered_in_it(thread: Thread, encoder: str) -> None:
    thread.user("Why?")
    thread.prepare()
    found = next(replay(thread, encoder=encoder))
    assert (found.verdict, found.encoder) == ("derived", encoder)
    assert found.prompt is not None
    model = json.loads(found.prompt.body).get("model", json.loads(found.prompt.body).get("modelId"))
    assert model != "claude-sonnet-4-6"
