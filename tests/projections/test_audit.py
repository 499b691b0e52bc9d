"""Auditing a whole store: damage first, then every call and every derived summary, alone or shared out."""

from __future__ import annotations

import gc
import sqlite3
import tracemalloc
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import msgspec
import pytest

import convlog
from convlog.eventstore.errors import OpeningError
from convlog.eventstore.redaction import redact
from convlog.projections.audit import CHUNK_THREADS, Finding, ThreadAudit, Total, audit, audit_thread
from convlog.projections.conversation import Store, Thread

from .authors import AS_WRITTEN, Author, author
from .responses import asked, message, said

__all__ = ["author"]

VERSIONS = ("transcript@1", *(f"turn-memory@{version}" for version in range(1, 7)), "pruned@1")


def talk(thread: Thread) -> None:
    thread.user("Why does it fail?")
    thread.record(message(said("Let me see."), asked("c1", path="a")), call=thread.prepare().call)
    thread.result("c1", "content")
    thread.record(message(said("Because."), id_="msg_2"), call=thread.prepare().call)


def total_of(results: list[ThreadAudit]) -> Total:
    total = Total()
    for result in results:
        total.add(result)
    return total


def test_a_store_with_calls_of_all_versions_is_exact(store: Store) -> None:
    for assembler in VERSIONS:
        thread = store.create_thread(title=assembler)
        talk(thread)
        thread.user("And now?")
        thread.prepare(assembler=assembler)
    total = total_of(list(audit(store)))
    assert (total.threads, total.calls, total.damaged, total.failed, total.unprovable) == (8, 24, 0, 0, 0)
    assert total.verdicts == {
        **{f"{assembler} anthropic@1 exact": 1 for assembler in VERSIONS},
        "turn-memory@6 anthropic@1 exact": 17,
    }
    assert total.prompt_bytes > 24 * 100


def test_an_audit_says_what_the_thread_is(thread: Thread) -> None:
    talk(thread)
    found = audit_thread(thread.store, thread.id)
    assert (found.thread, found.tip, found.events) == (thread.id, thread.tip.hex(), thread.position)
    assert (found.damaged, found.failed, found.findings, found.stale) == (False, False, [], [])
    assert msgspec.json.decode(msgspec.json.encode(found), type=ThreadAudit) == found


def test_a_changed_version_is_found_and_named(store: Store, author: Author) -> None:
    thread = store.create_thread()
    thread.user("Why?")
    thread.prepare(assembler="mine@1")
    thread.prepare()
    author.write(AS_WRITTEN.replace("Be brief.", "Be long."))
    found = audit_thread(store, thread.id)
    assert found.failed
    (finding,) = found.findings
    assert (finding.call, finding.verdict, finding.assembler) == (1, "differs", "mine@1")
    assert "mine@1 changed" in finding.detail


def test_what_was_redacted_is_unprovable_and_no_failure(thread: Thread) -> None:
    thread.user("My number is 555.")
    thread.prepare()
    redact(thread.store, thread.id, match="555", replacement="[gone]", reason="privacy")
    found = audit_thread(thread.store, thread.id)
    assert not found.failed
    assert not found.damaged
    assert [(finding.verdict, finding.reason) for finding in found.findings] == [("unprovable", "redacted")]
    assert total_of([found]).unprovable == 1


# --- damage ---

BODY = "UPDATE events SET body = ? WHERE thread = (SELECT MIN(thread) FROM events) AND "


def damaged(store: Store, sql: str, *values: object) -> Store:
    """Change a store's file behind its back; its triggers, which would refuse that, are put back."""
    place = store.place
    store.close()
    db = sqlite3.connect(place)
    with db:
        triggers = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        db.execute(sql, values)
        for _, statement in triggers:
            db.execute(statement)
    db.close()
    return convlog.open(place, mode="r")


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        (f"{BODY} position = 2", ('{"content":[{"type":"text","text":"Lies."}]}',)),
        (f"{BODY} position = 2", ("no JSON",)),
        (f"{BODY} position = 2", ("{}",)),
        (f"{BODY} position = 3", ("no JSON",)),
        (f"{BODY} type = (SELECT type FROM events WHERE position = 3)", ("{}",)),
        ("DELETE FROM events WHERE thread = (SELECT MIN(thread) FROM events) AND position = 2", ()),
        ("UPDATE events SET parent = 3 WHERE thread = (SELECT MIN(thread) FROM events) AND position = 4", ()),
        ("UPDATE events SET hash = zeroblob(32) WHERE thread = (SELECT MIN(thread) FROM events) AND position = 5", ()),
        ("DELETE FROM chunks", ()),
    ],
    ids=["words", "no JSON", "no body", "manifest", "manifests", "gap", "tree", "hash", "attachments"],
)
def test_no_call_of_a_damaged_thread_is_exact(
    store: Store, allow_damage: None, sql: str, values: tuple[object, ...]
) -> None:
    thread, sound = store.create_thread(), store.create_thread()
    for each in (thread, sound):
        talk(each)
    with damaged(store, sql, *values) as found:
        results = {result.thread: result for result in audit(found)}
    broken = results[thread.id]
    assert broken.damaged
    assert broken.failed
    assert not any("exact" in verdict for verdict in broken.verdicts)
    assert {finding.verdict for finding in broken.findings} <= {"damaged", "unprovable", "differs"}
    assert broken.findings[0].verdict == "damaged"
    if "chunks" not in sql:
        assert results[sound.id].findings == []


# --- summaries ---


def test_a_derived_summary_is_derived_again(thread: Thread) -> None:
    talk(thread)
    thread.summarise_with("outline@1", 2, thread.head)
    found = audit_thread(thread.store, thread.id)
    assert (found.summaries, found.findings) == (1, [])


def test_a_derived_summary_that_says_otherwise_is_a_finding(thread: Thread) -> None:
    talk(thread)
    summary = thread.summarise(2, thread.head, "We talked.", maker="outline@1").position
    found = audit_thread(thread.store, thread.id)
    assert found.failed
    assert found.findings == [
        Finding(
            None,
            "differs",
            "outline@1",
            reason="summary differs",
            detail=f"outline@1 says 2..{thread.head} otherwise today",
            position=summary,
        )
    ]


def test_a_summary_whose_maker_is_not_installed_is_unprovable(thread: Thread) -> None:
    talk(thread)
    thread.summarise(2, thread.head, "We talked.", maker="gist@3")
    thread.summarise(2, thread.head, "We talked.", maker="a colleague")
    (finding,) = audit_thread(thread.store, thread.id).findings
    assert (finding.verdict, finding.reason, finding.assembler) == ("unprovable", "version missing", "gist@3")


def test_a_summary_of_what_was_redacted_is_unprovable(thread: Thread) -> None:
    thread.user("My number is 555.")
    thread.text("I see.")
    thread.end_turn()
    thread.summarise_with("outline@1", 2, 3)
    redact(thread.store, thread.id, match="555", replacement="[gone]", reason="privacy")
    found = audit_thread(thread.store, thread.id)
    assert not found.failed
    assert [(each.verdict, each.reason, each.position) for each in found.findings] == [("unprovable", "redacted", 5)]
    assert found.stale == [5]


def test_a_late_result_makes_a_summary_stale_and_is_no_failure(thread: Thread) -> None:
    thread.user("Read.")
    thread.call("c1", "Read", {})
    thread.end_turn("interrupted")
    summary = thread.summarise(2, 3, "Began to read.").position
    thread.user("Go on.")
    thread.result("c1", "late", parent=thread.head)
    found = audit_thread(thread.store, thread.id)
    assert (found.stale, found.failed, found.findings) == ([summary], False, [])


# --- many threads ---


def many(store: Store, count: int) -> list[str]:
    names = []
    for number in range(count):
        thread = store.create_thread(title=f"t{number}")
        thread.user(f"Question {number}?")
        thread.prepare()
        names.append(thread.id)
    return names


def test_work_is_shared_with_any_executor_and_the_order_stays(store: Store) -> None:
    names = many(store, CHUNK_THREADS + 3)
    alone = list(audit(store, names))
    assert [result.thread for result in alone] == names
    done: list[int] = []
    with ThreadPoolExecutor(2) as executor:
        assert list(audit(store, names, executor=executor, progress=done.append)) == alone
    assert done == list(range(1, len(names) + 1))


def test_work_is_shared_with_processes(store: Store) -> None:
    names = many(store, 3)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        assert list(audit(store, executor=executor)) == list(audit(store))
    assert len(names) == 3


def test_what_is_in_memory_cannot_be_shared() -> None:
    with convlog.open(":memory:") as store, ThreadPoolExecutor(1) as executor, pytest.raises(OpeningError):
        list(audit(store, executor=executor))


def test_memory_does_not_grow_with_the_number_of_threads(store: Store) -> None:
    many(store, 40)

    def peak(names: list[str]) -> int:
        tracemalloc.start()
        for _ in audit(store, names):
            gc.collect()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    names = [row.thread for row in store.threads()]
    list(audit(store, names[:2]))
    few, all_ = peak(names[:5]), peak(names)
    assert all_ < 1.5 * few


def test_a_threads_live_state_is_let_go_of_and_found_again(store: Store) -> None:
    (name,) = many(store, 1)
    thread = store.thread(name)
    list(audit(store))
    thread.user("Go on.")
    assert thread.prepare().leaf == 4
