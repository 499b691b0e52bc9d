"""What others do in the middle of an operation: it is done all the same, or refused; nobody is told what is not so."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from convlog.eventstore import errors
from convlog.eventstore.captures import drop_captures
from convlog.eventstore.events import Image, Text
from convlog.eventstore.redaction import redact
from convlog.eventstore.sqlite import SqliteBackend
from convlog.eventstore.store import Store
from convlog.eventstore.verify import Level, is_fault, verify_store, verify_thread
from tests.conftest import Stores
from tests.stores import Place

SECRET = "a word that must go"


def meanwhile(
    monkeypatch: pytest.MonkeyPatch, target: object, name: str, what: Callable[[], object], *, call: int = 1
) -> list[bool]:
    """Let something happen just before a method is called for the n-th time; the list is then no longer empty."""
    method, happened = getattr(target, name), []
    left = [call]

    def calls(*args: Any, **settings: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            happened.append(True)
            what()
        return method(*args, **settings)

    monkeypatch.setattr(target, name, calls)
    return happened


def raw(store: Store) -> bytes:
    paths = [Path(f"{store.place}{suffix}") for suffix in ("", "-wal")]
    return b"".join(path.read_bytes() for path in paths if path.exists())


@pytest.fixture
def reader(store: Store) -> Iterator[sqlite3.Connection]:
    """Give a foreign program that reads the store and does not let go, once the store has a thread with a secret."""
    store.create_thread(title="talk", key=("test", "talk")).user(f"here is {SECRET}")
    stranger = sqlite3.connect(store.place, isolation_level=None)
    stranger.execute("BEGIN")
    stranger.execute("SELECT count(*) FROM events").fetchone()
    yield stranger
    stranger.close()


# --- deletion ---


def test_no_fork_is_made_of_a_thread_that_another_process_deleted(any_place: Place) -> None:
    store, other = any_place.open(), any_place.open()
    thread = store.create_thread(title="talk")
    thread.user("hello")
    thread.fork(title="keeps the number in mind").text("a")
    other.delete_thread(thread.id, cascade=True)
    with pytest.raises(errors.NoSuchThread):
        thread.fork()
    assert list(other.threads()) == []


def test_a_deletion_takes_the_forks_that_were_made_meanwhile_too(
    any_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = any_place.open(), any_place.open()
    thread = store.create_thread(title="talk")
    thread.user("hello")
    happened = meanwhile(monkeypatch, store.backend, "delete", lambda: other.thread(thread.id).fork().text("a"))
    assert len(store.delete_thread(thread.id, cascade=True)) == 2
    assert happened
    assert list(store.threads()) == []


def test_a_deletion_without_cascade_refuses_the_forks_that_were_made_meanwhile(
    any_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = any_place.open(), any_place.open()
    thread = store.create_thread(title="talk")
    happened = meanwhile(monkeypatch, store.backend, "delete", lambda: other.thread(thread.id).fork().text("a"))
    with pytest.raises(errors.HasForks, match="share the log"):
        store.delete_thread(thread.id)
    assert happened
    assert len(list(store.threads())) == 2


# --- erasure and readers ---


def test_erased_bytes_that_a_reader_keeps_are_said_to_be_there_and_go_with_the_next_write(
    open_store: Stores,
    reader: sqlite3.Connection,
) -> None:
    store = open_store(timeout_s=0.02)
    thread = store.create_thread(key=("test", "talk"))
    with pytest.raises(errors.StoreLocked, match="erased from the record"):
        redact(store, thread.id, match=SECRET, replacement="-", reason="test")
    assert [problem.kind for problem in verify_store(store)] == ["redacted"]
    assert SECRET.encode() in raw(store)
    reader.execute("COMMIT")
    thread.text("more")
    assert SECRET.encode() not in raw(store)


def test_others_write_while_an_erasure_waits_for_a_reader(open_store: Stores, reader: sqlite3.Connection) -> None:
    store, other = open_store(timeout_s=30.0), open_store(timeout_s=5.0)
    thread = store.create_thread(key=("test", "talk"))
    waiting = threading.Thread(
        target=lambda: redact(store, thread.id, match=SECRET, replacement="-", reason="test"), daemon=True
    )
    waiting.start()
    writer = other.thread(thread.id)
    while not any(event.type == "redacted" for event in writer.events()):
        writer.refresh()
    assert writer.text("written meanwhile").position == 4
    reader.execute("COMMIT")
    waiting.join(30.0)
    assert not waiting.is_alive()
    assert SECRET.encode() not in raw(store)


def test_an_erasure_of_several_events_is_whole_though_a_reader_keeps_old_bytes(
    open_store: Stores, reader: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("convlog.eventstore.redaction.EVENT_BYTES_SOFT", 10)
    store = open_store(timeout_s=0.02)
    thread = store.create_thread(key=("test", "talk"))
    thread.text(f"{SECRET} again")
    fork = thread.fork()
    fork.text(f"{SECRET} in a fork")
    with pytest.raises(errors.StoreLocked):
        redact(store, fork.id, match=SECRET, replacement="-", reason="test")
    assert not [event for event in fork.events() if SECRET in repr(event.body)]
    assert len(list(thread.events(types=("redacted",)))) == 2
    reader.execute("COMMIT")
    store.close()


def test_a_deletion_that_a_reader_delays_is_done(open_store: Stores, reader: sqlite3.Connection) -> None:
    store = open_store(timeout_s=0.02)
    with pytest.raises(errors.StoreLocked, match="erased from the record"):
        store.delete_thread(store.create_thread(key=("test", "talk")).id)
    assert list(store.threads()) == []
    reader.execute("COMMIT")
    store.close()
    assert SECRET.encode() not in Path(store.place).read_bytes()


def test_an_erasure_on_a_full_disk_says_what_is_left(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    thread = store.create_thread()
    thread.user(SECRET)
    assert isinstance(store.backend, SqliteBackend)

    def full(_connection: object) -> bool:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("convlog.eventstore.sqlite._emptied", full)
        with pytest.raises(errors.StoreFull, match="erased from the record"):
            redact(store, thread.id, match=SECRET, replacement="-", reason="test")
    thread.text("more")
    assert SECRET.encode() not in raw(store)


def test_nothing_waits_where_nothing_was_erased(any_store: Store) -> None:
    thread = any_store.create_thread()
    assert drop_captures(thread) == []
    any_store.backend.finish_erasing()


# --- verify ---


@pytest.mark.parametrize("level", ["quick", "chain", "full"])
@pytest.mark.parametrize("method", ["tip", "read", "headers", "changes", "attachments", "thread"])
def test_what_is_written_while_verify_looks_is_no_fault(
    any_place: Place, monkeypatch: pytest.MonkeyPatch, method: str, level: Level
) -> None:
    store, other = any_place.open(), any_place.open()
    thread = store.create_thread(title="talk")
    thread.user([Text(SECRET), Image(attachment=store.attach(b"a picture"))])
    gone = store.create_thread(title="gone")
    gone.user("hello")
    changes: list[Callable[[], object]] = [
        lambda: other.thread(thread.id).user("spoke"),
        lambda: other.thread(thread.id).set_title("renamed"),
        lambda: other.thread(thread.id).end_turn(),
        lambda: redact(other, thread.id, match=SECRET, replacement="-", reason="test"),
        lambda: other.delete_thread(gone.id),
    ]
    for call, change in enumerate([*changes[:3], *changes, *changes[:3]], 1):
        with monkeypatch.context() as patch:
            meanwhile(patch, store.backend, method, ignoring(change), call=call)
            assert list(filter(is_fault, verify_store(store, level))) == []
    assert list(filter(is_fault, verify_thread(store, thread.id, level))) == []


@pytest.mark.parametrize("call", range(1, 9))
@pytest.mark.parametrize("method", ["tip", "thread"])
@pytest.mark.parametrize("number", range(4))
def test_a_change_at_any_step_of_verify_is_no_fault(
    store: Store, open_store: Stores, monkeypatch: pytest.MonkeyPatch, number: int, method: str, call: int
) -> None:
    other = open_store()
    thread = store.create_thread(title="talk")
    thread.user(SECRET)
    change: Callable[[], object] = (
        lambda: other.thread(thread.id).user("spoke"),
        lambda: other.thread(thread.id).set_title("renamed"),
        lambda: redact(other, thread.id, match=SECRET, replacement="-", reason="test"),
        lambda: other.delete_thread(thread.id),
    )[number]
    meanwhile(monkeypatch, store.backend, method, change, call=call)
    assert list(filter(is_fault, verify_store(store))) == []


def ignoring(change: Callable[[], object]) -> Callable[[], object]:
    """Let something happen that may have happened before."""

    def happens() -> None:
        with suppress(errors.NotFound):
            change()

    return happens


def test_a_fault_is_found_though_others_write_all_the_time(
    open_store: Stores, allow_damage: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.eventstore.test_verify import alter

    id_ = open_store().create_thread(title="talk").id
    open_store().thread(id_).user("hello")
    open_store.close()
    alter(open_store.path(), "UPDATE threads SET preview = 'goodbye'")
    store, other = open_store(), open_store()
    method = store.backend.tip

    def tip(thread: str) -> Any:
        other.thread(id_).text("more")
        return method(thread)

    monkeypatch.setattr(store.backend, "tip", tip)
    monkeypatch.setattr("convlog.eventstore.listed.SETTLING_MAX", 5)
    kinds = [problem.kind for problem in verify_store(store)]
    assert "listing" in kinds
