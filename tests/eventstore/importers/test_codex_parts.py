"""Codex rollouts that come in parts, grow, or hold whatever JSON can be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convlog.eventstore.canonical import creation_id
from convlog.eventstore.errors import ImportFailed
from convlog.eventstore.importers import import_file
from convlog.eventstore.store import Store
from convlog.eventstore.store import open_store as open_any
from tests.eventstore.importers.imported import (
    assert_growth_makes_the_whole,
    assert_parts_make_the_whole,
    codes,
    texts,
)
from tests.eventstore.importers.rollouts import Rollout, compacted
from tests.json_values import json_values


def eventful() -> Rollout:
    rollout = compacted(message="We started.", replacement_history=[])
    rollout.add("turn_context", {"model": "gpt-x"})
    rollout.event("task_started", turn_id="2")
    rollout.tokens(1, 1)
    rollout.thinks("Größe", id="rs_1")
    rollout.calls("c5", at=30)
    rollout.returns("c5", at=30.001)
    rollout.calls("c6", at=30.002)
    rollout.returns("c6", at=30.003)
    rollout.thinks("newer", at=40)
    rollout.says("fertig", at=41)
    rollout.tokens(3, 2, at=41.5)
    rollout.event("task_complete", at=42)
    rollout.user("noch einmal", at=50)
    rollout.says("nein", at=51)
    rollout.event("thread_rolled_back", num_turns=1, at=52)
    rollout.user("anders", at=53)
    rollout.says("gut", at=54)
    return rollout


@given(st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_rollout_cut_anywhere_comes_in_as_the_whole_does(data: st.DataObject) -> None:
    content = eventful().data
    cut = data.draw(st.integers(content.index(b"\n"), len(content)))
    assert_parts_make_the_whole(content, cut, "codex")


@given(st.data())
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_rollout_that_grew_comes_in_as_the_whole_does(data: st.DataObject) -> None:
    content = eventful().data
    cut = data.draw(st.integers(content.index(b"\n"), len(content)))
    assert_growth_makes_the_whole(content, cut, "codex")


def test_a_part_without_a_header_is_told_by_its_files_name(store: Store, tmp_path: Path) -> None:
    rollout = eventful()
    path = tmp_path / "rollout-2026-01-02T10-00-00-0190-aaaa.jsonl"
    import_file(store, rollout.data)
    path.write_text(rollout.lines[9] + "\n" + rollout.lines[10])
    report = import_file(store, path)
    assert (report.appended, codes(report)) == (0, [(1, "no_header")])
    assert report.thread_ids == [creation_id("codex", "0190-aaaa")]


def test_a_part_of_a_sub_agents_rollout_goes_on_as_one(store: Store) -> None:
    rollout = Rollout(source={"subagent": "review"})
    rollout.user("look")
    rollout.user("and there")
    data = rollout.data
    cut = data.index(b"\n", data.index(b"look")) + 1
    for part in (data[:cut], data[cut:]):
        report = import_file(store, part, format="codex")
        assert (report.user_messages, report.harness_messages) == (0, 1)


def test_lines_that_go_on_with_nothing_are_a_thread_of_their_own(store: Store) -> None:
    earlier, later = Rollout("a"), Rollout("b")
    later.user("late", at=50)
    earlier.user("early", at=9)
    import_file(store, later.data, format="codex")
    report = import_file(store, earlier.lines[1].encode(), format="codex")
    assert codes(report) == [(1, "no_header")]
    assert texts(store.thread(report.thread_ids[0])) == ["user early"]
    assert texts(store.thread("b")) == ["user late"]


def test_a_dry_run_names_the_thread_that_a_part_goes_on_with(store: Store) -> None:
    rollout = Rollout("a")
    rollout.user("first", at=9)
    import_file(store, rollout.data, format="codex")
    rollout.user("second", at=50)
    part = rollout.lines[-1].encode()
    foreseen = import_file(store, part, format="codex", dry_run=True)
    done = import_file(store, part, format="codex")
    assert foreseen.thread_ids == done.thread_ids == [creation_id("codex", "a")]
    assert foreseen.appended == done.appended


def test_a_named_form_takes_no_file_of_another_form_into_the_last_thread(store: Store) -> None:
    import_file(store, eventful().data, format="codex")
    session = b'{"type":"session","version":3,"id":"p","timestamp":"2026-01-02T10:00:00Z","cwd":"/w"}\n'
    with pytest.raises(ImportFailed, match="this content is of the form pi, not codex"):
        import_file(store, session, format="codex")
    assert len(list(store.threads())) == 1


odd = json_values | st.sampled_from(["c1", "user", "assistant", "input_text", "output_text", "a", "shell"])
parts = st.fixed_dictionaries(
    {"type": st.sampled_from(["input_text", "output_text", "input_image", "refusal", "summary_text"])},
    optional={"text": odd, "image_url": odd, "refusal": odd},
)
items = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            [
                *("message", "reasoning", "function_call", "function_call_output", "custom_tool_call"),
                *("local_shell_call", "web_search_call", "compaction", "token_count", "turn_aborted", "task_complete"),
                *("thread_rolled_back", "x"),
            ]
        )
    },
    optional={
        "role": odd,
        "content": odd | st.lists(odd | parts, max_size=3),
        "summary": odd | st.lists(odd | parts, max_size=2),
        "encrypted_content": odd,
        "call_id": odd,
        "name": odd,
        "arguments": odd,
        "input": odd,
        "output": odd | st.lists(parts, max_size=2),
        "action": odd,
        "id": odd,
        "info": odd,
        "num_turns": st.integers(-1, 3) | odd,
    },
)
records = st.fixed_dictionaries(
    {"type": st.sampled_from(["response_item", "event_msg", "session_meta", "turn_context", "compacted"])},
    optional={
        "timestamp": odd,
        "payload": odd
        | items
        | st.fixed_dictionaries(
            {}, optional={"message": odd, "replacement_history": odd | st.lists(items, max_size=2)}
        ),
    },
)


@given(st.lists(records | items | odd, max_size=8))
@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_whatever_a_rollout_holds_every_record_is_accounted_for_and_comes_in_once(found: list[Any]) -> None:
    lines = [json.loads(Rollout().lines[0]), *found]
    data = b"".join(json.dumps(record).encode() + b"\n" for record in lines)
    with open_any(":memory:") as store:
        report = import_file(store, data, format="codex")
        assert report.records == len(lines) == report.mapped + report.kept + report.repeated + report.lost
        assert (report.lost, report.repeated) == (0, 0)
        assert import_file(store, data, format="codex").appended == 0
