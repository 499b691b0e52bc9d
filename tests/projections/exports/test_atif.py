"""ATIF documents: what the form's own package says of them, and what lies where."""

from __future__ import annotations

import json
from typing import Any

import pytest

from convlog.eventstore.events import ParentCall
from convlog.eventstore.importers import import_file
from convlog.eventstore.store import Store
from convlog.eventstore.thread import Thread
from tests.projections import oracle
from tests.projections.exports.threads import odd, talk
from tests.projections.exports.trips import active, again, exported
from tests.recorded import recorded


def document(thread: Thread, leaf: int | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(exported(thread, "atif", leaf))
    return found


def checked(found: dict[str, Any]) -> dict[str, Any]:
    oracle._module("atif").Trajectory.model_validate(found)
    return found


def test_a_path_becomes_steps_with_calls_results_and_metrics(store: Store) -> None:
    found = document(talk(store))
    system, asked, said, last = found["steps"]
    assert (system["source"], system["message"]) == ("system", "Be brief.")
    assert (asked["source"], asked["timestamp"]) == ("user", "2026-01-02T10:00:00.000Z")
    assert [part["type"] for part in asked["message"]] == ["text", "image"]
    assert (said["message"], said["reasoning_content"], said["model_name"]) == ("Looking.", "ls will do", "claude-x")
    assert [call["arguments"] for call in said["tool_calls"]] == [{"command": "ls"}, {"command": "false"}]
    results = said["observation"]["results"]
    assert [(result["source_call_id"], result.get("extra")) for result in results] == [
        ("c2", {"status": "error"}),
        ("c1", None),
    ]
    assert said["metrics"] == {
        "prompt_tokens": 17,
        "completion_tokens": 7,
        "cached_tokens": 5,
        "extra": {"cache_write": 2, "reasoning": 3},
    }
    assert last["message"] == "One file."
    assert found["final_metrics"]["total_prompt_tokens"] == 17
    assert found["agent"]["name"] == "claude-code"
    assert said["extra"]["convlog"]["nodes"] == [6, 7, 8, 9, 11, 12]


@pytest.mark.oracle
@pytest.mark.parametrize("make", [talk, odd])
def test_documents_have_the_shape_that_the_form_asks_for(store: Store, make: Any) -> None:
    checked(document(make(store)))


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("name", "form"), [("claude-code-real.jsonl", "claude-code"), ("claude-code-edge.jsonl", "claude-code")]
)
def test_documents_of_recorded_sessions_have_that_shape_too(store: Store, name: str, form: str) -> None:
    report = import_file(store, recorded(name), format=form)
    for id_ in report.thread_ids:
        checked(document(store.thread(id_)))


@pytest.mark.oracle
def test_a_subagents_thread_lies_within_and_its_call_points_to_it(store: Store) -> None:
    thread = talk(store)
    helper = store.create_thread(origin="subagent", parent=ParentCall(thread.id, 8))
    helper.user("look closely")
    found = checked(document(thread))
    [embedded] = found["subagent_trajectories"]
    assert embedded["trajectory_id"] == helper.id
    results = found["steps"][2]["observation"]["results"]
    assert results[1]["subagent_trajectory_ref"][0]["trajectory_id"] == helper.id
    assert embedded["steps"][0]["message"] == "look closely"


def test_a_recorded_session_comes_in_again_with_the_same_texts(store: Store) -> None:
    report = import_file(store, recorded("claude-code-real.jsonl"))
    thread = store.thread(report.thread_ids[0])
    other, copy = again(exported(thread, "atif"), "atif")
    with other:
        assert [step[:2] for step in active(copy)] == [step[:2] for step in active(thread)]


def test_what_the_form_cannot_say_of_a_tree_lies_in_extra(store: Store) -> None:
    thread = talk(store)
    at = thread.summarise(5, thread.head, "SUMMARY").position
    left = thread.head
    thread.edit(5, "list them all")
    about = document(thread, left)["extra"]["convlog"]
    assert (about["leaf"], about["leaves"]) == (left, [left, thread.head])
    assert about["summaries"] == [{"summary": at, "first": 5, "last": left, "text": "SUMMARY"}]
    assert "summaries" not in document(thread)["extra"]["convlog"]
