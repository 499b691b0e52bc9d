"""Who uses a damaged store is told so by a typed error: nothing goes on for ever, nothing is made of wrong rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from convlog.eventstore import errors
from convlog.eventstore.backend import Problem
from convlog.eventstore.events import SegmentAdded
from convlog.eventstore.masking import Mask, erased, masked, without
from convlog.eventstore.native import export_thread
from convlog.eventstore.records import decode_refs, decode_source
from convlog.eventstore.redaction import redact
from convlog.eventstore.store import Store
from convlog.eventstore.store import open_store as open_at
from convlog.eventstore.thread import Thread
from convlog.eventstore.tree import Tree
from convlog.eventstore.verify import verify_store
from tests.conftest import Stores
from tests.eventstore.test_verify import alter

DAMAGES = {
    "a source that is none": "UPDATE sources SET json = '7' WHERE id = 1",
    "a source that is no JSON": "UPDATE sources SET json = '{' WHERE id = 1",
    "no source for the last event": "UPDATE events SET source = 99 WHERE position = 6",
    "references that are none": "UPDATE events SET refs = '' WHERE position = 5",
    "a position that is missing": "DELETE FROM events WHERE position = 3",
    "a last position out of reach": f"UPDATE events SET position = {2**63 - 1} WHERE position = 6",
    "a parent that is none": "UPDATE events SET parent = -1 WHERE position = 6",
    "a parent that comes later": "UPDATE events SET parent = 6 WHERE position = 4",
    "a body that is no JSON": "UPDATE events SET body = 'NaN' WHERE position = 2",
    "a body that is no object": "UPDATE events SET body = '[1]' WHERE position = 2",
    "an output that is no text": "UPDATE events SET output = CAST(x'fffe' AS TEXT) WHERE position = 5",
}

Use = Callable[[Store, Thread], Any]

USES: dict[str, Use] = {
    "append": lambda _store, thread: thread.text("more"),
    "append a result": lambda _store, thread: thread.result("c1", "again"),
    "append with a known key": lambda _store, thread: thread.text("kept", key="k1"),
    "read": lambda _store, thread: list(thread.events()),
    "path": lambda _store, thread: thread.tree.path(thread.head),
    "branches": lambda _store, thread: [thread.tree.branches(), thread.branch_names()],
    "redact": lambda store, thread: redact(store, thread.id, match="hello", replacement="-", reason="test"),
    "redact whole": lambda store, thread: redact(
        store, thread.id, (2, 5), match=None, replacement="-", whole=True, reason="test"
    ),
    "fork": lambda _store, thread: thread.fork().text("on"),
    "delete": lambda store, thread: store.delete_thread(thread.id),
    "export": lambda store, thread: list(export_thread(store, thread.id)),
    "name a branch": lambda _store, thread: thread.name_branch("name"),
}


def talk(store: Store) -> Thread:
    """Make a thread of 6 events: created, input, text with a key, call, result, text."""
    thread = store.create_thread(title="talk")
    thread.user("hello")
    thread.text("kept", key="k1")
    thread.call("c1", "Read", {"path": "a"})
    thread.result("c1", "hello again")
    thread.text("last")
    return thread


@pytest.mark.usefixtures("allow_damage")
@pytest.mark.parametrize("statement", DAMAGES.values(), ids=DAMAGES)
def test_a_use_of_a_damaged_store_ends_well_or_in_a_typed_error(statement: str, open_store: Stores) -> None:
    for number, use in enumerate(USES.values()):
        store = open_store(f"{number}.db")
        id_ = talk(store).id
        store.close()
        alter(open_store.path(f"{number}.db"), statement)
        store = open_store(f"{number}.db")
        with suppress(errors.ConvlogError):  # any other error is a failure
            use(store, store.thread(id_))
        store.close()
    store = open_store("0.db")
    assert any(isinstance(problem, Problem) for problem in verify_store(store))


@pytest.mark.usefixtures("allow_damage")
def test_an_append_to_an_end_that_cannot_be_read_is_refused_and_not_tried_for_ever(open_store: Stores) -> None:
    path = open_store.path()
    id_ = talk(open_store()).id
    open_store.close()
    alter(path, "UPDATE events SET source = 99 WHERE position = 6")
    thread = open_store().thread(id_)
    with pytest.raises(errors.BrokenRecord, match="position 6"):
        thread.text("more")
    with pytest.raises(errors.BrokenRecord, match="position 6"):
        redact(thread.store, id_, match="hello", replacement="-", reason="test")


@pytest.mark.usefixtures("allow_damage")
def test_a_known_key_whose_event_cannot_be_read_is_a_typed_error(open_store: Stores) -> None:
    path = open_store.path()
    id_ = talk(open_store()).id
    open_store.close()
    alter(path, "UPDATE events SET source = 99 WHERE position = 3")
    with pytest.raises(errors.BrokenRecord):
        open_store().thread(id_).append(SegmentAdded(text="kept"), key="k1")


@pytest.mark.parametrize("data", [b"", b"7", b"{", b"\xff", b'{"kind":"nobody"}', b"[" * 2000])
def test_stored_bytes_that_are_no_source_and_no_references_are_broken(data: bytes) -> None:
    with pytest.raises(errors.BrokenRecord):
        decode_source(data)
    with pytest.raises(errors.BrokenRecord):
        decode_refs(data)


@pytest.mark.parametrize(("position", "parent"), [(4, 1), (2, 1), (3, 3), (3, 9), (3, -1), (3, 2)])
def test_a_tree_takes_no_event_that_does_not_fit(position: int, parent: int) -> None:
    tree = Tree()
    tree.add(1, None)
    tree.add(2, None)
    with pytest.raises(errors.BrokenRecord):
        tree.add(position, parent)
    assert tree.position == 2
    tree.add(3, 1)
    assert tree.path(3) == [1, 3]


@pytest.mark.parametrize("body", [b"", b"NaN", b"[1]", b"\xff", b"[" * 5000])
def test_words_cannot_be_taken_out_of_what_cannot_be_read(body: bytes, store: Store) -> None:
    thread = talk(store)
    record = next(store.log(thread.id).read(2, 2))
    broken = msgspec.structs.replace(record, body=body)
    takes: list[Callable[[], object]] = [
        lambda: masked(broken, Mask("a", "b")),
        lambda: erased(broken, "b"),
        lambda: without(broken, "extra"),
    ]
    for take in takes:
        with pytest.raises(errors.BrokenRecord):
            take()


# --- places ---


@pytest.mark.parametrize("suffix", ["-lock", "-wal", "-shm", "-journal"])
def test_what_lies_beside_a_store_is_no_store(suffix: str, open_store: Stores, tmp_path: Path) -> None:
    talk(open_store())
    with pytest.raises(errors.NotAStore, match="belongs to it"):
        open_at(tmp_path / f"store.db{suffix}")
    assert not (tmp_path / f"store.db{suffix}-lock").exists()


def test_a_name_that_only_ends_like_one_is_a_place(open_store: Stores) -> None:
    assert talk(open_store("my-lock")).position == 6


def test_a_name_that_is_no_unicode_names_no_thread(any_store: Store) -> None:
    with pytest.raises(errors.NoSuchThread):
        any_store.thread("\udcff")
