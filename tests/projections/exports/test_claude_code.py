"""Back to Claude Code: its own lines come back as they were, anything else as lines that it can go on with."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convlog.eventstore.events import CallFinished, Image, SegmentAdded, Source, Text, Usage
from convlog.eventstore.importers import import_file
from convlog.eventstore.store import Store
from convlog.eventstore.store import open_store as open_any
from convlog.eventstore.thread import Thread
from tests.eventstore.importers.sessions import Session, call, compacted, text
from tests.eventstore.importers.test_claude_code_parts import eventful, records
from tests.projections.exports.trips import active, again, costs, exported, in_any_order, rows, tree
from tests.recorded import recorded

FORM = "claude-code"


def back(store: Store, data: bytes) -> list[Any]:
    report = import_file(store, data, format=FORM)
    return [row for id_ in report.thread_ids for row in rows(exported(store.thread(id_), FORM))]


@pytest.mark.parametrize("name", ["real", "small", "edge"])
def test_the_lines_of_a_recorded_session_come_back_as_equal_values(store: Store, name: str) -> None:
    data = recorded(f"claude-code-{name}.jsonl").read_bytes()
    assert in_any_order(back(store, data)) == in_any_order(rows(data))


def test_a_compacted_session_with_branches_comes_back(store: Store) -> None:
    data = eventful().data
    found = back(store, data)
    assert in_any_order(found) == in_any_order(rows(data))
    thread = store.thread("s-1")
    other, copy = again(exported(thread, FORM), FORM)
    with other:
        assert tree(copy) == tree(thread)
        assert active(copy) == active(thread)
        assert costs(copy) == costs(thread)


def test_side_chains_pictures_notices_and_queued_words_come_back(store: Store) -> None:
    session = Session()
    session.user(
        "u1", [text("see"), {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}]
    )
    session.assistant("a1", {"type": "text", "text": "an error"}, model="<synthetic>", isApiErrorMessage=True)
    session.add("attachment", "q1", attachment={"type": "queued_command", "prompt": "faster", "commandMode": "prompt"})
    session.assistant("a2", call("c1", "Task", prompt="go"), {"type": "redacted_thinking", "data": "x"}, cache=1)
    session.user("u2", "go", isSidechain=True, agentId="g1", parent=None)
    session.result("u3", "c1", [text("done")], block={"is_error": False}, toolUseResult={"interrupted": True})
    session.result("u4", "c9", "[Request interrupted by user]", block={"is_error": True})
    session.user("u 5", "an id with a space")
    session.user("u6", [text("Summary"), text("in two blocks")], isCompactSummary=True)
    assert in_any_order(back(store, session.data)) == in_any_order(rows(session.data))


@given(st.lists(records, max_size=6))
@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_whatever_a_record_holds_comes_back(found: list[dict[str, Any]]) -> None:
    data = b"".join(json.dumps({**record, "uuid": f"u{n}"}).encode() + b"\n" for n, record in enumerate(found))
    with open_any(":memory:") as store:
        got = {row.get("uuid"): row for row in back(store, data) if isinstance(row, dict)}
        for row in rows(data):
            same = got[row["uuid"]]
            assert {name: same.get(name, ...) for name in row} == row


# --- what came otherwise ---


def talk(store: Store) -> Thread:
    thread = store.create_thread(cwd="/w", title="by hand")
    thread.user("list the files")
    thread.reasoning("ls will do", source=Source("model", provider="anthropic", model="m"), signature="seal")
    thread.text("Looking.")
    thread.call("c1", "bash", {"command": "ls"})
    thread.call("c2", "bash", {"command": "false"})
    thread.result("c2", "no", status="error")
    thread.result("c1", [Text("a.txt"), Image(media_type="image/png", attachment=store.attach(b"A"))])
    thread.text("One file.")
    thread.end_turn()
    return thread


def test_a_thread_of_ones_own_becomes_a_session(store: Store) -> None:
    thread = talk(store)
    other, copy = again(exported(thread, FORM), FORM)
    with other:
        assert [step[:2] for step in active(copy)] == [step[:2] for step in active(thread)]
        assert copy.title is None or copy.title == "by hand"
        assert exported(copy, FORM).count(b"\n") == 8


def test_parallel_calls_stay_one_response_and_an_edit_stays_a_branch(store: Store) -> None:
    thread = talk(store)
    thread.edit(2, "list them all")
    thread.text("All right.")
    data = exported(thread, FORM)
    lines = [row for row in rows(data) if row["type"] == "assistant"]
    assert len({line["message"]["id"] for line in lines[:4]}) == 1
    other, copy = again(data, FORM)
    with other:
        assert tree(copy) == tree(thread)


def test_only_the_asked_branch_is_exported(store: Store) -> None:
    thread = talk(store)
    left = thread.head
    thread.edit(2, "list them all")
    asked = rows(exported(thread, FORM, left))
    assert b"list them all" not in exported(thread, FORM, left)
    assert asked[-1]["type"] == "assistant"
    assert b"Looking" not in exported(thread, FORM, thread.head)


def test_a_summary_becomes_a_boundary_and_what_follows_hangs_below_it(store: Store) -> None:
    thread = talk(store)
    thread.summarise(2, thread.head, "There is one file.")
    thread.user("and now?")
    data = exported(thread, FORM)
    boundary, summary, asked = rows(data)[-3:]
    assert (boundary["subtype"], summary["isCompactSummary"]) == ("compact_boundary", True)
    assert (summary["parentUuid"], asked["parentUuid"]) == (boundary["uuid"], summary["uuid"])
    other, copy = again(data, FORM)
    with other:
        assert tree(copy) == tree(thread)


def test_a_session_that_was_gone_on_with_keeps_its_lines_and_gets_new_ones(store: Store) -> None:
    data = compacted().data
    import_file(store, data, format=FORM)
    thread = store.thread("s-1")
    thread.text("went on")
    found = rows(exported(thread, FORM))
    assert found[:-1] == rows(data)
    assert (found[-1]["parentUuid"], found[-1]["sessionId"]) == ("u4", "s-1")
    assert exported(thread, FORM) == exported(thread, FORM)


def test_another_active_leaf_is_named_in_the_last_line(store: Store) -> None:
    thread = talk(store)
    thread.select(4)
    last = rows(exported(thread, FORM))[-1]
    assert (last["type"], last["leafUuid"]) == ("last-prompt", rows(exported(thread, FORM))[2]["uuid"])


def test_usage_and_stop_go_with_every_line_of_a_response_and_half_surrogates_are_written(store: Store) -> None:
    thread = store.create_thread()
    thread.user("\ud800")
    usage = CallFinished(response="msg_1", usage=Usage(input=3, cache_read=1, output=4), stop="end_turn", model="m")
    for part in ("a", "b"):
        thread.append(SegmentAdded(text=part, response="msg_1"), source=Source("model"))
    thread.append(usage, refs=(("about", 3),))
    asked, *answered = rows(exported(thread, FORM))
    assert asked["message"]["content"] == "\ud800"
    counts = {"input_tokens": 3, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 1, "output_tokens": 4}
    assert [(line["message"]["id"], line["message"]["usage"]) for line in answered] == [("msg_1", counts)] * 2
    assert [line["message"]["stop_reason"] for line in answered] == ["end_turn"] * 2
