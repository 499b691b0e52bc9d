"""Requests that a host built by itself, and captures that are kept for a window."""

from __future__ import annotations

import pytest
from blake3 import blake3

import convlog
from convlog.eventstore.errors import NoSuchNode, PayloadRejected
from convlog.eventstore.events import CallObserved, CallPrepared, CaptureDropped
from convlog.eventstore.native import export_thread
from convlog.eventstore.native_import import import_native
from convlog.eventstore.redaction import redact
from convlog.eventstore.verify import verify_store, verify_thread
from convlog.projections.conversation import Store, Thread
from tests.conftest import Stores

from .responses import message, said

REQUEST = b'{"model":"m","messages":[{"role":"user","content":"Why?"}]}'


def captures(thread: Thread) -> list[str]:
    return [event.body.capture for event in thread.events(types=(CallPrepared.TYPE, CallObserved.TYPE))]


def kept(store: Store) -> set[str]:
    """Give the attachments that are there, profiles apart."""
    profiles = {
        event.body.profile
        for row in store.threads()
        for event in store.thread(row.thread).events(types=(CallPrepared.TYPE,))
    }
    return set(store.backend.attachments()) - profiles


# --- observed ---


def test_an_observed_request_is_kept_by_its_digest_and_answered_like_any_call(thread: Thread) -> None:
    thread.user("Why?")
    call = thread.observe(REQUEST, provider="anthropic", model="m", key="sent-1")
    body = thread.event(call.position).body
    assert (body.leaf, body.length, body.digest) == (2, len(REQUEST), blake3(REQUEST).hexdigest())
    assert body.capture is None
    assert thread.observe(REQUEST, provider="anthropic", model="m", key="sent-1").replayed
    done = thread.record(message(said("Because.")), call=call.position)
    assert thread.event(done.nodes[0]).source.model == "m"
    (info,) = thread.calls()
    assert (info.kind, info.position, info.answer is not None) == ("observed", call.position, True)


def test_an_observed_call_is_unprovable_since_nobody_knows_what_it_was_made_of(thread: Thread) -> None:
    thread.user("Why?")
    thread.observe(REQUEST)
    thread.observe(REQUEST, provider_state="resp_1")
    first, second = thread.replay()
    assert (first.verdict, first.reason) == ("unprovable", "input unknown")
    assert (second.verdict, second.reason) == ("unprovable", "provider-held state")
    assert first.digest == blake3(REQUEST).hexdigest()
    assert (first.assembler, first.encoder, first.bytes) == ("", "", len(REQUEST))


def test_an_answer_to_an_observed_call_goes_below_its_leaf(thread: Thread) -> None:
    thread.user("Why?")
    call = thread.observe(REQUEST).position
    thread.edit(2, "Otherwise?")
    done = thread.record(message(said("Because.")), call=call)
    assert thread.tree.parent(done.nodes[0]) == 2


def test_an_observed_request_is_bytes_about_a_node(thread: Thread) -> None:
    thread.user("Why?")
    before = thread.tip
    with pytest.raises(PayloadRejected):
        thread.observe({"model": "m"})  # type: ignore[arg-type] # what is refused
    with pytest.raises(PayloadRejected):
        thread.observe(REQUEST, model="a\nb")
    with pytest.raises(NoSuchNode):
        thread.observe(REQUEST, leaf=99)
    assert thread.tip == before


def test_a_redaction_takes_the_digest_and_the_capture_of_an_observed_request(thread: Thread) -> None:
    thread.user("Why 555?")
    call = thread.observe(REQUEST.replace(b"Why?", b"Why 555?"), capture=True).position
    redact(thread.store, thread.id, match="555", replacement="[gone]", reason="test")
    body = thread.event(call).body
    assert not getattr(body, "capture", None)
    assert kept(thread.store) == set()


# --- captures ---


def test_captures_are_dropped_all_at_once(thread: Thread) -> None:
    thread.user("Why?")
    thread.prepare(capture=True)
    thread.prepare()
    thread.observe(REQUEST, capture=True)
    assert len(kept(thread.store)) == 2
    dropped = thread.drop_captures()
    assert [thread.event(each.position).body.call for each in dropped] == [3, 5]
    assert kept(thread.store) == set()
    assert thread.drop_captures() == []
    assert [replayed.verdict for replayed in thread.replay()] == ["exact", "exact", "unprovable"]


def test_captures_older_than_a_moment_are_dropped(open_store: Stores) -> None:
    now = [1_000]
    store = open_store(store_class=Store, clock=lambda: now[0])
    thread = store.create_thread()
    assert isinstance(thread, Thread)
    thread.user("Why?")
    old = thread.prepare(capture=True)
    now[0] = 2_000
    thread.user("And now?")
    thread.prepare(capture=True)
    assert len(thread.drop_captures(before=2_000, reason="window")) == 1
    (note,) = thread.events(types=(CaptureDropped.TYPE,))
    assert (note.body.call, note.body.reason) == (old.call, "window")
    assert kept(store) == {captures(thread)[1]}  # type: ignore[arg-type] # a store of conversations


def test_bytes_that_two_calls_captured_stay_until_both_let_go(open_store: Stores) -> None:
    now = [1_000]
    store = open_store(store_class=Store, clock=lambda: now[0])
    thread = store.create_thread()
    assert isinstance(thread, Thread)
    thread.user("Why?")
    thread.prepare(capture=True)
    now[0] = 2_000
    thread.prepare(capture=True)
    one, two = captures(thread)
    assert one == two
    thread.drop_captures(before=2_000)
    assert store.attachment(one)
    thread.drop_captures()
    assert kept(thread.store) == set()


def test_bytes_that_another_thread_uses_stay(store: Store) -> None:
    one, two = store.create_thread(), store.create_thread()
    for thread in (one, two):
        thread.user("Why?")
        thread.prepare(capture=True)
    one.drop_captures()
    assert len(kept(store)) == 1
    assert list(verify_store(store)) == []
    two.drop_captures()
    assert kept(store) == set()


def test_a_fork_verifies_after_its_origin_dropped_a_capture(thread: Thread) -> None:
    thread.user("Why?")
    thread.prepare(capture=True)
    fork = thread.store.thread(thread.fork().id)
    thread.drop_captures()
    assert [replayed.verdict for replayed in fork.replay()] == ["exact"]
    assert list(verify_thread(thread.store, fork.id)) == []
    assert fork.drop_captures() == []


def test_a_dropped_capture_is_missed_by_nobody_where_the_thread_is_imported(thread: Thread, open_store: Stores) -> None:
    thread.user("Why?")
    thread.prepare(capture=True)
    thread.drop_captures()
    other = open_store("other.db")
    import_native(other, export_thread(thread.store, thread.id))
    assert list(verify_store(other)) == []


def test_a_capture_that_is_gone_without_a_word_is_a_fault_and_no_loss_of_proof(
    thread: Thread, allow_damage: None
) -> None:
    thread.user("Why?")
    thread.prepare(capture=True)
    thread.store.backend.drop_attachments(captures(thread))
    assert [problem.kind for problem in verify_thread(thread.store, thread.id)] == ["attachment"]
    assert [replayed.verdict for replayed in thread.replay()] == ["exact"]


def test_a_capture_that_was_redacted_away_needs_no_dropping(thread: Thread) -> None:
    thread.user("Why 555?")
    thread.prepare(capture=True)
    redact(thread.store, thread.id, match="555", replacement="[gone]", reason="test")
    assert kept(thread.store) == set()
    assert thread.drop_captures() == []


def test_a_capture_can_be_dropped_in_memory_too() -> None:
    with convlog.open(":memory:") as store:
        thread = store.create_thread()
        thread.user("Why?")
        thread.prepare(capture=True)
        assert len(thread.drop_captures()) == 1
        assert kept(store) == set()
        assert list(verify_store(store)) == []
