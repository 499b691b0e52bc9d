"""Rows of older schema versions: read, verified, exported, imported and gone on with, their bytes never touched."""

from __future__ import annotations

import msgspec
import pytest

from convlog.eventstore import errors, records
from convlog.eventstore.backend import Listing, Record, ThreadRow
from convlog.eventstore.events import BODIES, TurnEnded
from convlog.eventstore.memory import MemoryBackend
from convlog.eventstore.native import export_thread
from convlog.eventstore.native_import import import_native
from convlog.eventstore.store import Store
from convlog.eventstore.thread import Thread
from convlog.eventstore.upcasters import STEPS, upcast
from convlog.eventstore.verify import verify_store
from tests.eventstore.goldens import GOLDEN


class Row(msgspec.Struct):
    """A golden row: a record's columns, bytes as text or hex."""

    thread: str
    position: int
    parent: int | None
    head: int
    type: str
    version: int
    recorded_at: int
    occurred_at: int | None
    source: str
    key: str | None
    refs: str | None
    hash: str
    commitment: str
    salt: str
    secret: None
    body: str
    output: str | None


def golden_rows() -> list[Row]:
    return msgspec.json.decode(
        b"[%s]" % b",".join((GOLDEN / "rows_v1.jsonl").read_bytes().splitlines()), type=list[Row]
    )


def record_of(row: Row) -> Record:
    hash_, commitment, salt = map(bytes.fromhex, (row.hash, row.commitment, row.salt))
    return Record(
        position=row.position,
        parent=row.parent,
        head=row.head,
        type=row.type,
        version=row.version,
        recorded_at=row.recorded_at,
        occurred_at=row.occurred_at,
        source=row.source.encode(),
        key=row.key,
        refs=None if row.refs is None else row.refs.encode(),
        hash=hash_,
        commitment=commitment,
        salt=salt,
        body=row.body.encode(),
        output=None if row.output is None else row.output.encode(),
    )


def old_thread(store: Store) -> Thread:
    """Write the golden rows as they stand, past all code that could make them newer."""
    first, *others = golden_rows()
    row = ThreadRow(thread=first.thread, title="from before", created_at=first.recorded_at)
    store.backend.create(row, [record_of(first)])
    spoke = [other for other in others if other.position <= 5]
    store.backend.append(
        first.thread, [record_of(row) for row in spoke], Listing(spoke=True, turns_ended=1, preview="second question")
    )
    later = [record_of(row) for row in others[len(spoke) :]]
    store.backend.append(first.thread, later, Listing(turns_ended=1))
    return store.thread(first.thread)


def test_the_step_of_every_older_version_is_there() -> None:
    for type_, body in BODIES.items():
        for version in range(1, body.VERSION):
            assert (type_, version) in STEPS


def test_old_rows_read_as_the_current_version(any_store: Store) -> None:
    thread = old_thread(any_store)
    assert thread.event(4).body == TurnEnded(node=3)
    assert thread.event(8).body == TurnEnded(node=7, state="error", error="the provider hung up")
    assert (thread.event(8).version, TurnEnded.VERSION) == (1, 2)


def test_a_step_adds_and_keeps_what_it_does_not_know() -> None:
    body = {"node": 7, "error": "x", "trace": "kept as it is"}
    assert upcast("turn.ended", 1, body) == {**body, "state": "error"}
    assert upcast("turn.ended", 2, body) == body
    assert body == {"node": 7, "error": "x", "trace": "kept as it is"}


def test_old_rows_verify(any_store: Store) -> None:
    old_thread(any_store)
    assert list(verify_store(any_store)) == []


def test_old_rows_come_through_export_and_import_to_the_byte(any_store: Store) -> None:
    source = Store(MemoryBackend())
    thread = old_thread(source)
    import_native(any_store, export_thread(source, thread.id))
    rows = [record_of(row) for row in golden_rows()]
    assert list(any_store.backend.read(thread.id, 1, 99)) == rows
    assert any_store.row(thread.id).turns == 2


def test_a_thread_of_old_rows_goes_on(any_store: Store) -> None:
    thread = old_thread(any_store)
    thread.user("third question")
    thread.text("third answer")
    thread.end_turn("interrupted")
    assert [event.body.state for event in thread.events(types=("turn.ended",))] == ["done", "error", "interrupted"]
    assert [event.version for event in thread.events(types=("turn.ended",))] == [1, 1, 2]


def test_a_retry_finds_what_an_older_program_stored(any_store: Store) -> None:
    thread = old_thread(any_store)
    again = thread.append(TurnEnded(node=7, state="error", error="the provider hung up"), key="end:2")
    assert (again.position, again.replayed) == (8, True)
    with pytest.raises(errors.KeyMismatch):
        thread.append(TurnEnded(node=7), key="end:2")


def test_an_old_body_that_the_step_cannot_carry_is_broken() -> None:
    with pytest.raises(errors.BrokenRecord):
        records.decode_body("turn.ended", 1, b"[1]")
