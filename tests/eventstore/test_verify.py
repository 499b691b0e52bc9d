"""Verify: every damage is found, with its thread, position and kind; and nothing is found where nothing is wrong."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest
from blake3 import blake3

from convlog.eventstore import errors, records
from convlog.eventstore.backend import Problem
from convlog.eventstore.canonical import creation_id
from convlog.eventstore.events import CallPrepared, CaptureDropped, Image, Source, SummaryAdded, Text
from convlog.eventstore.ranges import covered_hash
from convlog.eventstore.records import Draft, Encoded
from convlog.eventstore.redaction import redact
from convlog.eventstore.store import Store
from convlog.eventstore.store import open_store as open_store_of
from convlog.eventstore.thread import Thread
from convlog.eventstore.verify import Level, is_fault, verify_store, verify_thread
from tests.conftest import Stores

pytestmark = pytest.mark.usefixtures("allow_damage")


def talk(store: Store) -> Thread:
    """Make a thread of 9 events: created, input, call, result, prose, turn end, summary, prompt, edit."""
    thread = store.create_thread(title="talk", key=("test", "talk"))
    picture = store.attach(b"a picture" * 100)
    thread.user([Text("look at this"), Image(attachment=picture)], key="k1")
    thread.call("c1", "bash", {"cmd": "ls"})
    thread.result("c1", "a file", occurred_at=5)
    thread.text("one file")
    thread.end_turn()
    covered = covered_hash(thread, [3, 4])
    thread.append(SummaryAdded(first=3, last=4, text="listed", covered=covered, nodes=2))
    prompt(thread)
    thread.edit(2, "look again")
    return thread


def prompt(thread: Thread, **fields: Any) -> int:
    key = b"k" * 32
    body = CallPrepared(
        assembler="transcript@1",
        encoder="anthropic@1",
        leaf=5,
        at=thread.position,
        length=2,
        blocks=1,
        digests="",
        digest="11" * 32,
        digest_key_hash=blake3(key).hexdigest(),
        profile=thread.store.attach(b"{}"),
        inputs=((thread.id, thread.position, thread.tip.hex()),),
    )
    return thread.append_many([Draft(body=msgspec.structs.replace(body, **fields), secret=key)])[0].position


def found(store: Store, level: Level = "full") -> list[tuple[str, int | None]]:
    return [(problem.kind, problem.position) for problem in verify_store(store, level)]


def alter(path: Path, *statements: str, values: tuple[Any, ...] = ()) -> None:
    """Write into a store's file past everything that guards it."""
    connection = sqlite3.connect(path, isolation_level=None)
    triggers = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement, values)
    for _, sql in triggers:
        connection.execute(sql)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def altered(stores: Stores, *statements: str, values: tuple[Any, ...] = ()) -> Store:
    store = stores()
    talk(store)
    store.close()
    alter(stores.path(), *statements, values=values)
    return stores()


# --- what is right ---


@pytest.mark.parametrize("level", ["quick", "chain", "full"])
def test_nothing_is_found_where_nothing_is_wrong(any_store: Store, level: Level) -> None:
    thread = talk(any_store)
    fork = thread.fork(at=6)
    fork.text("on its own")
    fork.fork(at=3).text("deeper")
    any_store.delete_thread(any_store.create_thread().id)
    assert found(any_store, level) == []
    for row in any_store.threads():
        assert list(verify_thread(any_store, row.thread, level, tip=any_store.thread(row.thread).tip)) == []


def test_a_thread_that_is_not_there_is_no_finding(any_store: Store) -> None:
    with pytest.raises(errors.NoSuchThread):
        list(verify_thread(any_store, "0" * 32))


# --- every column of an event ---


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("parent = 1 WHERE position = 5", [("hash", 5)]),
        ("head = 4 WHERE position = 5", [("hash", 5), ("head", 5)]),
        ("type = 'segment.adde' WHERE position = 5", [("hash", 5)]),
        ("type = CAST(x'ff' AS TEXT) WHERE position = 5", [("unreadable", 5)]),
        ("version = 2 WHERE position = 5", [("hash", 5)]),
        ("recorded_at = recorded_at + 1 WHERE position = 5", [("hash", 5)]),
        ("occurred_at = NULL WHERE position = 4", [("hash", 4)]),
        ("source = 1 WHERE position = 5", [("hash", 5)]),
        ("source = 999 WHERE position = 5", [("gap", 5)]),
        ("key = 'k2' WHERE position = 2", [("hash", 2)]),
        ("refs = NULL WHERE position = 4", [("hash", 4)]),
        ("refs = '[[\"answers\",5]]' WHERE position = 4", [("hash", 4), ("refs", 4)]),
        ("hash = zeroblob(32) WHERE position = 4", [("hash", 4), ("covered", 7)]),
        ("commitment = zeroblob(32) WHERE position = 5", [("hash", 5), ("commitment", 5)]),
        ("salt = zeroblob(16) WHERE position = 5", [("commitment", 5)]),
        ("secret = zeroblob(32) WHERE position = 8", [("manifest", 8)]),
        ("secret = NULL WHERE position = 8", [("manifest", 8)]),
        ("body = replace(body, 'one', 'two') WHERE position = 5", [("commitment", 5)]),
        ("body = 'no JSON' WHERE position = 5", [("commitment", 5), ("body", 5)]),
        ("output = 'another' WHERE position = 4", [("commitment", 4)]),
        ("body = NULL, output = NULL, salt = NULL WHERE position = 4", [("missing", 4)]),
        ("salt = NULL WHERE position = 4", [("missing", 4)]),
        ("position = 10 WHERE position = 5", [("gap", 5), ("hash", 10), ("head", 10)]),
    ],
)
def test_a_change_to_an_event_is_found_where_it_is(
    open_store: Stores, change: str, expected: list[tuple[str, int]]
) -> None:
    store = altered(open_store, f"UPDATE events SET {change}")
    problems = list(verify_store(store))
    kinds = [(problem.kind, problem.position) for problem in problems if problem.kind not in {"listing", "node"}]
    assert set(expected) <= set(kinds)
    assert {position for _, position in expected} >= {position for _, position in kinds} - {5, 6, 7, 8, 9, 10}
    assert {problem.thread for problem in problems} == {next(store.threads()).thread}


def test_one_damaged_hash_is_one_finding_not_two(open_store: Stores) -> None:
    store = altered(open_store, "UPDATE events SET hash = zeroblob(32) WHERE position = 5")
    assert found(store, "chain") == [("hash", 5)]


def test_all_damages_are_found_not_the_first_alone(open_store: Stores) -> None:
    store = altered(
        open_store,
        "UPDATE events SET body = replace(body, 'one', 'two') WHERE position = 5",
        "UPDATE events SET recorded_at = 0 WHERE position = 3",
        "DELETE FROM events WHERE position = 7",
        "UPDATE threads SET title = 'other'",
    )
    assert found(store) == [("hash", 3), ("commitment", 5), ("gap", 7), ("listing", None)]
    assert found(store, "chain") == [("hash", 3), ("gap", 7)]


@pytest.mark.parametrize(("level", "expected"), [("quick", []), ("chain", []), ("full", [("commitment", 5)])])
def test_what_a_level_looks_at(open_store: Stores, level: Level, expected: list[tuple[str, int]]) -> None:
    store = altered(open_store, "UPDATE events SET body = replace(body, 'one', 'two') WHERE position = 5")
    assert found(store, level) == expected


@pytest.mark.parametrize(
    "change",
    ["UPDATE events SET recorded_at = 0 WHERE position = 9", "DELETE FROM events WHERE position = 8"],
)
def test_the_quick_level_sees_the_last_header(open_store: Stores, change: str) -> None:
    assert found(altered(open_store, change), "quick") != []


def test_a_position_beyond_all_reason_does_not_keep_verify_busy(open_store: Stores) -> None:
    store = altered(open_store, f"UPDATE events SET position = {2**60} WHERE position = 9")
    assert ("gap", 9) in found(store)


# --- the tail ---


def test_a_lost_tail_is_seen_with_a_tip_kept_elsewhere_only(open_store: Stores) -> None:
    store = open_store()
    thread = talk(store)
    thread.text("lost")
    tip, earlier = thread.tip, thread.event(5).hash
    store.close()
    alter(open_store.path(), "DELETE FROM events WHERE position = 10")
    store = open_store()
    for level in ("quick", "chain", "full"):
        assert list(verify_thread(store, thread.id, level)) == []
        assert list(verify_thread(store, thread.id, level, tip=earlier)) == []
        assert [problem.kind for problem in verify_thread(store, thread.id, level, tip=tip)] == ["lost_tail"]


# --- attachments ---


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE chunks SET bytes = zeroblob(900) WHERE attachment = 1",
        "UPDATE chunks SET bytes = substr(bytes, 2) WHERE attachment = 1",
        "UPDATE attachments SET size = 1 WHERE id = 1",
        "DELETE FROM chunks WHERE attachment = 1",
        "DELETE FROM attachments WHERE id = 1",
        "DELETE FROM uses WHERE attachment = 1",
    ],
)
def test_a_damaged_attachment_is_found_where_it_is_used(open_store: Stores, change: str) -> None:
    store = altered(open_store, change)
    assert found(store) == [("attachment", 2)]
    assert [problem.position for problem in verify_thread(store, next(store.threads()).thread)] == [2]


def test_a_damaged_attachment_that_nothing_uses_is_found(open_store: Stores) -> None:
    store = open_store()
    store.attach(b"unused")
    store.close()
    alter(open_store.path(), "UPDATE chunks SET bytes = zeroblob(6)")
    assert found(open_store()) == [("attachment", None)]


def test_a_capture_dropped_on_purpose_is_not_missing(any_store: Store) -> None:
    thread = talk(any_store)
    capture = any_store.attach(b"rendered")
    call = prompt(thread, capture=capture)
    any_store.backend.drop_attachments([capture])
    assert found(any_store) == [("attachment", call)]
    thread.append(CaptureDropped(call=call, reason="window"))
    assert found(any_store) == []


# --- the list of threads ---


@pytest.mark.parametrize(
    "change",
    [
        "title = 'other'",
        "title = CAST(x'ff' AS TEXT)",
        "preview = NULL",
        "turns = 7",
        "spoke = 0",
        "spoke = 8",
        "touched = 999",
        "kind = 'memory'",
        "helper = 1",
        "cwd = '/'",
        "agent = 'codex'",
        "source_id = 's'",
        "created_at = 1",
    ],
)
def test_a_row_that_says_otherwise_than_its_events_is_found(open_store: Stores, change: str) -> None:
    problems = list(verify_store(altered(open_store, f"UPDATE threads SET {change}")))
    assert {problem.kind for problem in problems} <= {"listing", "unreadable"}
    assert [problem.thread for problem in problems] == [creation_id("test", "talk")] * len(problems) != []


def test_events_that_no_list_names_are_found(open_store: Stores) -> None:
    assert ("engine", None) in found(altered(open_store, "DELETE FROM threads"))


# --- forks ---


def test_a_fork_is_held_against_its_origin(open_store: Stores) -> None:
    store = open_store()
    origin = talk(store)
    fork = origin.fork(at=5)
    fork.text("on its own")
    store.close()
    alter(open_store.path(), "UPDATE events SET hash = zeroblob(32) WHERE position = 5 AND thread = 1")
    store = open_store()
    problems = {(problem.thread, problem.kind, problem.position) for problem in verify_store(store)}
    assert {(origin.id, "hash", 5), (fork.id, "hash", 6), (fork.id, "origin", 6)} <= problems
    whole = {(problem.thread, problem.kind, problem.position) for problem in verify_thread(store, fork.id)}
    assert {(origin.id, "hash", 5), (fork.id, "origin", 6)} <= whole


def test_a_fork_whose_origin_is_gone_is_found(open_store: Stores) -> None:
    store = open_store()
    fork = talk(store).fork()
    store.close()
    alter(open_store.path(), "DELETE FROM threads WHERE id = 1")
    assert (fork.id, "unreadable") in {(problem.thread, problem.kind) for problem in verify_store(open_store())}


# --- erasure ---


def test_erased_content_is_told_from_missing_content(open_store: Stores) -> None:
    store = open_store()
    thread = talk(store)
    redact(store, thread.id, [5], whole=True, reason="test")
    store.close()
    alter(
        open_store.path(),
        "UPDATE events SET body = NULL, output = NULL, salt = NULL WHERE position = 4",
    )
    problems = list(verify_store(open_store()))
    assert [(problem.kind, problem.position, is_fault(problem)) for problem in problems] == [
        ("missing", 4, True),
        ("redacted", 5, False),
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            'UPDATE events SET body = \'{"text":"one file"}\', salt = zeroblob(16) WHERE position = 5',
            "erasure_incomplete",
        ),
        ("UPDATE events SET salt = zeroblob(16) WHERE position = 5", "erasure_incomplete"),
        ("UPDATE redactions SET redacted_by = 3", "redaction"),
        ("DELETE FROM redactions", "redaction"),
    ],
)
def test_an_erasure_that_is_not_whole_is_found(open_store: Stores, change: str, expected: str) -> None:
    store = open_store()
    thread = talk(store)
    redact(store, thread.id, [5], whole=True, reason="test")
    store.close()
    alter(open_store.path(), change)
    assert (expected, 5) in found(open_store())


# --- events that are chained, and break a rule ---


def seal(thread: Thread, type_: str, body: Any, **given: Any) -> int:
    """Append an event past all policy."""
    log = thread.store.log(thread.id)
    log.refresh()
    position = log.position + 1
    parent = given.get("parent")
    record = records.seal(
        thread.id,
        position,
        log.hash,
        parent,
        given.get("head", log.head if parent is None else position),
        Encoded(type_, given.get("version", 1), msgspec.json.encode(body), given.get("output")),
        Draft(body=None, source=Source("host")),  # type: ignore[arg-type] # sealed as it is
        given.get("refs", ()),
        7,
        b"s" * 16,
    )
    thread.store.backend.append(thread.id, [record], None)
    return position


@pytest.mark.parametrize(
    ("kind", "type_", "body", "given"),
    [
        ("tree", "input.added", {"content": []}, {"parent": 6, "head": 10}),
        ("tree", "input.added", {"content": []}, {"parent": 50, "head": 10}),
        ("tree", "input.added", {"content": []}, {"parent": 0, "head": 10}),
        ("tree", "input.added", {"content": []}, {}),
        ("tree", "head.moved", {}, {"parent": 9, "head": 10}),
        ("tree", "thread.created", {}, {"parent": 9, "head": 10}),
        ("head", "input.added", {"content": []}, {"parent": 5, "head": 9}),
        ("head", "branch.named", {"name": "x", "node": 5}, {"head": 5}),
        ("head", "head.moved", {}, {"head": 6}),
        ("head", "segment.added", {"response": "r"}, {"parent": 5, "head": 10}),
        ("head", "tool.returned", {"call": "c1"}, {"parent": 3, "head": 10}),
        ("head", "later.type", {"response": "r"}, {"parent": 5, "head": 10}),
        ("refs", "segment.added", {"text": "x"}, {"parent": 9, "refs": (("about", 10),)}),
        ("refs", "segment.added", {"text": "x"}, {"parent": 9, "refs": (("sings", 3),)}),
        ("result", "tool.returned", {"call": "c1"}, {"parent": 9, "refs": (("answers", 3),)}),
        ("result", "tool.returned", {"call": "c1"}, {"parent": 5, "head": 9, "refs": (("answers", 3),)}),
        ("result", "tool.returned", {"call": "c1"}, {"parent": 3, "head": 9, "refs": (("answers", 2),)}),
        ("node", "turn.ended", {"node": 6}, {"version": 2}),
        ("node", "branch.named", {"name": "x", "node": 99}, {}),
        ("origin", "thread.forked", {"thread": "ab" * 16, "position": 3, "hash": "00", "node": 3}, {}),
        ("range", "summary.added", {"first": 3, "last": 3, "text": "x"}, {}),
        ("range", "summary.added", {"first": 4, "last": 5, "text": "x"}, {}),
        ("range", "summary.added", {"first": 5, "last": 9, "text": "x"}, {}),
        ("range", "summary.added", {"first": 5, "last": 6, "text": "x"}, {}),
        ("covered", "summary.added", {"first": 3, "last": 4, "text": "x", "covered": "00" * 32}, {}),
        ("covered", "summary.added", {"first": 3, "last": 4, "text": "x", "nodes": 3}, {}),
        ("body", "turn.ended", {"node": "five"}, {"version": 2}),
        ("body", "turn.ended", {"node": "five"}, {"version": 1}),
        ("missing", "redacted", {"targets": [{"position": 5}], "reason": "x"}, {}),
        ("attachment", "input.added", {"content": [{"type": "image", "attachment": "ab"}]}, {"parent": 9}),
    ],
)
def test_a_chained_event_that_breaks_a_rule_is_found(
    any_store: Store, kind: str, type_: str, body: dict[str, Any], given: dict[str, Any]
) -> None:
    thread = talk(any_store)
    position = seal(thread, type_, body, **given)
    kinds = {problem.kind: problem.position for problem in verify_store(any_store)}
    if kind == "missing":
        assert kinds == {"erasure_incomplete": 5}
    else:
        assert kinds.pop(kind) == position
        assert kinds.keys() <= {"listing", "head"}
    assert found(any_store, "chain") == []


def test_a_prompt_that_names_another_hash_of_what_it_read_is_found(any_store: Store) -> None:
    thread = talk(any_store)
    at = prompt(thread, inputs=((thread.id, 5, "00" * 32),))
    assert found(any_store) == [("manifest", at)]


def test_a_stray_result_of_an_import_is_no_fault(any_store: Store) -> None:
    thread = talk(any_store)
    seal(thread, "tool.returned", {"call": "nobody's"}, parent=9)
    assert found(any_store) == []


# --- any bit of the file ---


def contents(store: Store) -> Any:
    """Give everything that a reader could read."""
    rows = list(store.threads())
    return (
        rows,
        [list(store.backend.read(row.thread, 1, 99)) for row in rows],
        [(name, store.attachment(name)) for name in store.backend.attachments()],
    )


@pytest.mark.parametrize("seed", range(3))
def test_no_flipped_bit_gives_wrong_bytes_unnoticed(open_store: Stores, tmp_path: Path, seed: int) -> None:
    store = open_store()
    talk(store)
    expected = contents(store)
    store.close()
    whole = open_store.path().read_bytes()
    path = tmp_path / "flipped.db"
    rng = random.Random(seed)
    unseen = []
    for _ in range(100):
        at, bit = rng.randrange(len(whole)), 1 << rng.randrange(8)
        path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
        if not (faults_of(path) or read(path) == expected):
            unseen.append((at, bit))
        for suffix in ("-wal", "-shm", "-lock"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
    assert unseen == []


def faults_of(path: Path) -> list[Problem]:
    try:
        with open_store_of(path) as store:
            return [problem for problem in verify_store(store) if is_fault(problem)]
    except errors.ConvlogError as error:
        return [Problem("opening", str(error))]


def read(path: Path) -> Any:
    try:
        with open_store_of(path) as store:
            return contents(store)
    except errors.ConvlogError:
        return None


def test_a_copied_file_verifies_like_the_first(open_store: Stores, tmp_path: Path) -> None:
    store = open_store()
    talk(store)
    store.close()
    shutil.copy(open_store.path(), tmp_path / "copy.db")
    with open_store_of(tmp_path / "copy.db") as copy:
        assert found(copy) == []
