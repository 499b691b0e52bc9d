"""Back to pi: every line of forms 1 to 4 comes back as it was; anything else as a session of form 3."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convlog.eventstore.importers import import_file
from convlog.eventstore.store import Store
from convlog.eventstore.store import open_store as open_any
from tests.eventstore.importers.pi_sessions import Session, call, text
from tests.eventstore.importers.test_pi_parts import eventful, messages
from tests.projections.exports.threads import odd, talk
from tests.projections.exports.trips import active, again, costs, exported, in_any_order, rows, tree
from tests.recorded import recorded

FORM = "pi"


def back(store: Store, data: bytes) -> bytes:
    report = import_file(store, data, format=FORM)
    return b"".join(exported(store.thread(id_), FORM) for id_ in report.thread_ids)


def test_the_lines_of_a_recorded_session_come_back_in_order_as_equal_values(store: Store) -> None:
    data = recorded("pi-real.jsonl").read_bytes()
    assert rows(back(store, data)) == rows(data)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_every_form_comes_back_and_the_copy_is_the_same_thread(store: Store, version: int) -> None:
    data = eventful(version).data
    assert in_any_order(rows(back(store, data))) == in_any_order(rows(data))
    thread = store.thread("s-1")
    other, copy = again(exported(thread, FORM), FORM)
    with other:
        assert (tree(copy), active(copy), costs(copy)) == (tree(thread), active(thread), costs(thread))


@pytest.mark.parametrize("version", [3, 4])
def test_odd_blocks_and_messages_come_back(store: Store, version: int) -> None:
    session = Session(version)
    session.user(
        "u1", [text("see", mark=1), {"type": "image", "data": "QQ==", "mimeType": "image/png"}, {"type": "odd"}]
    )
    thought = {"type": "thinking", "thinking": "hm", "thinkingSignature": '{"type":"reasoning","id":"rs_1"}'}
    session.assistant("a1", thought, text("x", textSignature="s"), call("c1"), {"type": "toolCall", "id": "c2"})
    session.result("r1", "c1", [text("no", n=1)], message={"isError": True, "details": {"diff": "d"}})
    session.result("r2", "c9", [text("a"), {"type": "image", "data": "QQ==", "mimeType": "image/png"}])
    session.add("custom_message", "m1", customType="note", content="as text", display=False)
    session.add("custom_message", "m2", customType="note", content=[text("as blocks", k=1)], display=True)
    session.add("message", "b1", message={"role": "bashExecution", "command": "ls", "output": "a", "exitCode": 1})
    session.add("message", "s1", message={"role": "branchSummary", "summary": "left", "fromId": "u1"})
    session.add("branch_summary", "s2", fromId="root", summary="before")
    session.add("label", "l1", targetId="a1", label="here")
    assert rows(back(store, session.data)) == rows(session.data)


def test_an_active_entry_that_was_chosen_here_is_written_behind_the_others(store: Store) -> None:
    back(store, eventful(3).data)
    thread = store.thread("s-1")
    chosen = next(event.position for event in thread.events() if event.type == "tool.returned")
    thread.select(chosen)
    other, copy = again(exported(thread, FORM), FORM)
    with other:
        assert active(copy) == active(thread)


def test_a_session_that_was_gone_on_with_gets_entries_of_its_own(store: Store) -> None:
    data = eventful(3).data
    back(store, data)
    thread = store.thread("s-1")
    thread.text("and so on")
    found = rows(exported(thread, FORM))
    assert found[-1]["message"]["content"] == [text("and so on")]
    assert found[-1]["parentId"] in {row.get("id") for row in rows(data)}


def test_a_thread_of_ones_own_becomes_a_session_with_its_branches(store: Store) -> None:
    thread = talk(store)
    left = thread.head
    thread.summarise(5, left, "One file.")
    thread.user("and now?")
    thread.edit(5, "list them all")
    other, copy = again(exported(thread, FORM), FORM)

    def words(paths: list[str]) -> list[list[str]]:
        return [[step for step in eval(path) if step[0] not in {"instructions.set", "tools.set"}] for path in paths]

    with other:
        assert [[step[:2] for step in path] for path in words(tree(copy)[0])] == [
            [step[:2] for step in path] for path in words(tree(thread)[0])
        ]
        assert active(copy)[-1] == active(thread)[-1]
        assert len(tree(copy)[1]) == 1
        [usage] = [event.body.usage for event in copy.events(types=("call.finished",)) if event.body.usage.output]
        assert (usage.input, usage.cache_read, usage.cache_write, usage.output) == (10, 5, 2, 7)
    only = rows(exported(thread, FORM, left))
    assert "list them all" not in json.dumps(only)


def test_anything_a_thread_holds_can_be_written(store: Store) -> None:
    assert b"any text ``` at all" in exported(odd(store), FORM)


@given(st.lists(messages, max_size=6))
@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_whatever_a_message_holds_comes_back(found: list[Any]) -> None:
    session = Session()
    for number, message in enumerate(found):
        session.add("message", f"e{number}", message=message)
    with open_any(":memory:") as store:
        for got, line in zip(rows(back(store, session.data)), rows(session.data), strict=True):
            assert got == line
