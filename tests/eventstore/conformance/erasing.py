"""Rules of erasure: whole threads, and the content of single events."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from convlog.eventstore import errors
from convlog.eventstore.backend import Erasure, PositionTaken, Record, ThreadTaken
from convlog.eventstore.events import Document, Redacted, Redaction, Text, ThreadDeleted
from convlog.eventstore.log import END
from convlog.eventstore.records import Draft
from convlog.eventstore.store import STORE_THREAD
from convlog.eventstore.thread import Thread
from tests.eventstore.conformance.rules import assert_chained, prose, rule, stored, texts
from tests.stores import Place


def note_of(thread: Thread, position: int, instead: str | None = None) -> list[Record]:
    """Give the records that say that an event was erased, and what its body reads now; nothing is stored."""
    body = Redacted(targets=(Redaction(position=position, body=instead),), reason="test")
    return thread.store.log(thread.id).place([Draft(body=body)]).records


def erase(thread: Thread, position: int, *, instead: str | None = None, **options: Any) -> int:
    """Erase an event, below the policy; give the position of the event that says so."""
    note = note_of(thread, position, instead)
    thread.store.backend.redact(thread.id, note, Erasure(positions=(position,), **options))
    thread.refresh()
    return note[0].position


# --- whole threads ---


@rule
def a_deleted_thread_is_gone(place: Place) -> None:
    store = place.open()
    kept, gone = store.create_thread(title="kept"), store.create_thread(title="gone", source_id="s")
    kept.user("a")
    gone.user("b", key="k")
    tip = gone.tip
    assert store.delete_thread(gone.id, reason="asked") == [gone.id]
    assert [row.title for row in store.threads()] == ["kept"]
    assert store.latest().id == kept.id
    for text in (gone.id, gone.id[:16], "gone", "s"):
        with pytest.raises(errors.NoSuchThread):
            store.thread(text)
    for use in (lambda: gone.text("c"), lambda: gone.event(1), gone.fork, lambda: store.delete_thread(gone.id)):
        with pytest.raises(errors.NoSuchThread):
            use()
    assert all(name != gone.id for name, _ in store.backend.changes(0, 100)[0])
    note = list(store.thread(STORE_THREAD).events(types=("thread.deleted",)))[-1]
    assert note.body == ThreadDeleted(thread=gone.id, reason="asked", events=2, tip=tip.hex())
    assert texts(kept) == ["a"]


@rule
def a_writer_does_not_write_into_a_thread_that_another_deleted(place: Place) -> None:
    first, second = place.open(), place.open()
    thread = first.create_thread()
    other = second.thread(thread.id)
    other.text("a")
    other.text("b")
    first.delete_thread(thread.id)
    after = first.create_thread(title="after")
    for append in (
        lambda: other.text("c"),
        lambda: other.text("c", key="k"),
        lambda: other.user("c"),
        lambda: other.append_many([prose("c"), prose("d")]),
        lambda: list(second.backend.read(thread.id, 1, END)),
    ):
        with pytest.raises(errors.NoSuchThread):
            append()
    assert [record.position for record in stored(first, after)] == [1]
    assert_chained(after)


@rule
def a_deletion_is_remembered_until_the_thread_is_made_again(place: Place) -> None:
    store = place.open()
    thread = store.create_thread(key=("import", "s"))
    thread.user("a")
    store.delete_thread(thread.id)
    store = place.reopen(store)
    assert store.backend.is_deleted(thread.id)
    again = store.create_thread(key=("import", "s"))
    assert again.id == thread.id
    assert again.position == 1
    assert not store.backend.is_deleted(thread.id)


@rule
def a_thread_that_others_share_is_not_deleted_without_a_word(place: Place) -> None:
    store = place.open()
    origin = store.create_thread()
    origin.user("a")
    fork = origin.fork()
    inner = fork.fork()
    with pytest.raises(errors.HasForks) as caught:
        store.delete_thread(origin.id)
    assert fork.id[:12] in caught.value.message
    assert inner.id[:12] in caught.value.message
    assert texts(inner) == ["a"]
    assert store.delete_thread(inner.id) == [inner.id]
    assert set(store.delete_thread(origin.id, cascade=True)) == {origin.id, fork.id}
    assert list(store.threads()) == []


@rule
def the_stores_own_thread_is_not_deleted(place: Place) -> None:
    store = place.open()
    store.delete_thread(store.create_thread().id)
    with pytest.raises(errors.ConvlogError):
        store.delete_thread(STORE_THREAD)
    assert [event.type for event in store.thread(STORE_THREAD).events()] == ["thread.created", "thread.deleted"]


@rule
def a_deleted_thread_takes_its_own_attachments_along(place: Place) -> None:
    store = place.open()
    own, shared, free = (store.attach(text) for text in (b"own", b"shared", b"free"))
    gone, kept = store.create_thread(), store.create_thread()
    gone.user([Document(attachment=own), Document(attachment=shared)])
    kept.user([Document(attachment=shared)])
    store.backend.cache("c", b"1", gone.id)
    store.delete_thread(gone.id)
    assert set(store.backend.attachments()) == {shared, free}
    assert list(store.backend.attachments(kept.id)) == [shared]
    assert store.backend.cached("c") is None


@rule
def a_deletion_with_a_stale_note_erases_nothing(place: Place) -> None:
    store = place.open()
    store.delete_thread(store.create_thread().id)
    thread = store.create_thread(title="t")
    stale = store.log(STORE_THREAD).place([Draft(body=ThreadDeleted(thread=thread.id))]).records
    store.delete_thread(store.create_thread().id)
    with pytest.raises(PositionTaken):
        store.backend.delete([thread.id], STORE_THREAD, stale)
    assert store.thread("t").position == 1
    assert not store.backend.is_deleted(thread.id)


@rule
def a_thread_that_others_share_by_now_is_not_erased(place: Place) -> None:
    store = place.open()
    origin = store.create_thread(title="t")
    origin.user("a")
    store.delete_thread(store.create_thread().id)
    note = store.log(STORE_THREAD).place([Draft(body=ThreadDeleted(thread=origin.id))]).records
    fork = origin.fork()
    with pytest.raises(errors.HasForks):
        store.backend.delete([origin.id], STORE_THREAD, note)
    assert texts(fork) == texts(origin) == ["a"]
    assert not store.backend.is_deleted(origin.id)


@rule
def a_fork_of_a_thread_that_is_gone_by_now_is_not_made(place: Place) -> None:
    store = place.open()
    origin = store.create_thread()
    fork = origin.fork()
    row, own = store.row(fork.id), stored(store, fork)
    store.delete_thread(origin.id, cascade=True)
    with pytest.raises(errors.NoSuchThread):
        store.backend.create(row, own)
    assert list(store.threads()) == []


@rule
def an_id_that_is_taken_is_not_made_twice(place: Place) -> None:
    store = place.open()
    thread = store.create_thread()
    with pytest.raises(ThreadTaken):
        store.backend.create(store.row(thread.id), stored(store, thread))
    assert thread.position == 1


# --- single events ---


@rule
def an_erased_event_keeps_its_place_and_its_hash(place: Place) -> None:
    store = place.open()
    thread = store.create_thread()
    thread.call("c", "f", {})
    erased = thread.result("c", "secret", key="k").position
    before = stored(store, thread)[erased - 1]
    by = erase(thread, erased)
    thread = place.reopen(store).thread(thread.id)
    after = stored(thread.store, thread)[erased - 1]
    assert (after.body, after.output, after.salt) == (None, None, None)
    assert (after.hash, after.commitment, after.key) == (before.hash, before.commitment, before.key)
    assert thread.store.backend.redacted_by(thread.id, erased) == by
    assert thread.store.backend.redacted_by(thread.id, by) is None
    event = thread.event(erased)
    assert (event.body, event.output, event.redacted_by) == (None, None, by)
    assert_chained(thread)


@rule
def the_key_of_an_erased_event_still_answers(place: Place) -> None:
    thread = place.open().create_thread()
    erased = thread.text("secret", key="k").position
    erase(thread, erased)
    again = thread.text("whatever it was", key="k")
    assert (again.position, again.replayed) == (erased, True)
    with pytest.raises(errors.KeyMismatch):
        thread.user("of another type", key="k")


@rule
def a_fork_sees_what_was_erased_in_its_origin_later(place: Place) -> None:
    origin = place.open().create_thread()
    erased = origin.text("secret").position
    fork = origin.fork()
    by = erase(origin, erased)
    event = fork.event(erased)
    assert (event.body, event.redacted_by) == (None, by)


@rule
def an_erasure_takes_derived_words_along(place: Place) -> None:
    store = place.open()
    thread, other = store.create_thread(title="t"), store.create_thread()
    own = store.attach(b"secret")
    erased = thread.user([Text("secret"), Document(attachment=own)]).position
    store.backend.cache("a", b"secret", thread.id)
    store.backend.cache("b", b"secret", other.id)
    before = store.row(thread.id)
    assert before.preview == "secret"
    after = msgspec.structs.replace(before, preview="gone")
    instead = '{"content":[{"type":"text","text":"gone"}]}'
    erase(thread, erased, instead=instead, rows=(after,), attachments=(own,))
    assert store.row(thread.id) == after
    assert texts(thread) == ["gone"]
    assert list(store.backend.attachments()) == []
    assert (store.backend.cached("a"), store.backend.cached("b")) == (None, None)


@rule
def an_erasure_with_a_stale_note_erases_nothing(place: Place) -> None:
    store = place.open()
    thread = store.create_thread()
    target = thread.text("words").position
    stale = note_of(thread, target)
    thread.text("meanwhile")
    with pytest.raises(PositionTaken):
        store.backend.redact(thread.id, stale, Erasure(positions=(target,)))
    assert texts(thread) == ["words", "meanwhile"]
    assert store.backend.redacted_by(thread.id, target) is None
