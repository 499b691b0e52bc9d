"""mini-swe-agent trajectories: commands as calls and in fences, observations, exit states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import convlog
from convlog.eventstore.events import Facts, Usage
from convlog.eventstore.importers import ImportReport, detect_format, import_file
from convlog.eventstore.store import Store
from convlog.eventstore.thread import Thread
from tests.eventstore.importers.imported import codes, counts, nodes, shape, texts

SYSTEM, TASK = {"role": "system", "content": "You have a shell."}, {"role": "user", "content": "Fix it."}


def run(messages: list[Any], status: str | None = "Submitted", **entries: Any) -> bytes:
    """Give a trajectory's file."""
    config = {"model": {"model_name": "anthropic/claude-x"}, "environment": {"cwd": "/testbed"}}
    info = {"model_stats": {"api_calls": 2}, "config": config, "mini_version": "2.3.0"}
    info |= {"exit_status": status, "submission": ""} if status is not None else {}
    said = {"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"} | entries
    return json.dumps(said, indent=2).encode()


def called(command: str, call: str = "k1", **extra: Any) -> dict[str, Any]:
    """Give an answer that calls its tool."""
    arguments = json.dumps({"command": command})
    usage = {"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 3}}
    response = {"model": "claude-x", "choices": [{"finish_reason": "tool_calls"}], "usage": usage}
    noted = {"actions": [{"command": command, "tool_call_id": call}], "response": response, "cost": 0.1}
    return {
        "role": "assistant",
        "content": "Looking.",
        "tool_calls": [{"id": call, "type": "function", "function": {"name": "bash", "arguments": arguments}}],
        "extra": noted | {"timestamp": 1767348000.5} | extra,
    }


def observed(call: str = "k1", code: int = 0, **extra: Any) -> dict[str, Any]:
    """Give what came back for a call."""
    content = f"<returncode>{code}</returncode>\n<output>\na.txt</output>"
    noted = {"raw_output": "a.txt", "returncode": code, "exception_info": ""} | extra
    return {"role": "tool", "tool_call_id": call, "content": content, "extra": noted}


def fenced(command: str, word: str = "mswea_bash_command") -> dict[str, Any]:
    """Give an answer with its command in a fenced block."""
    return {"role": "assistant", "content": f"THOUGHT: look.\n\n```{word}\n{command}\n```"}


def bring_in(store: Store, data: bytes) -> tuple[ImportReport, Thread]:
    report = import_file(store, data)
    return report, store.thread(report.thread_ids[0])


EXIT = {"role": "exit", "content": "a patch", "extra": {"exit_status": "Submitted", "submission": "a patch"}}
USUAL = [SYSTEM, TASK, called("ls"), observed(), called("false", "k2"), observed("k2", 1), EXIT]


def test_a_run_has_the_counts_of_a_hand_count(store: Store) -> None:
    assert detect_format(run(USUAL)) == "mini-swe-agent"
    report, thread = bring_in(store, run(USUAL))
    assert (report.records, report.mapped, report.kept, report.lost) == (8, 7, 1, 0)
    assert (report.user_messages, report.model_messages, report.tool_calls, report.tool_results) == (1, 2, 2, 2)
    assert report.usage == Usage(input=14, cache_read=6, output=8)
    assert texts(thread) == [
        *("instructions.set", "user Fix it.", "text Looking.", "call k1", "result k1 ok"),
        *("text Looking.", "call k2", "result k2 ok", "notice a patch"),
    ]
    created = thread.event(1).body
    assert (created.agent, created.cwd, report.warnings) == ("mini-swe-agent", "/testbed", [])
    answer = nodes(thread)[2]
    assert (answer.source.provider, answer.source.model, answer.occurred_at) == (
        *("anthropic", "claude-x", 1_767_348_000_500_000),
    )
    assert counts(thread)["call.finished"] == 2


def test_facts_are_the_command_that_ran_and_how_it_ended(store: Store) -> None:
    _, thread = bring_in(store, run(USUAL))
    facts = [event.body.facts for event in thread.events(types=("tool.returned",))]
    assert facts == [
        Facts(command="ls", exit_code=0),
        Facts(command="false", exit_code=1, failed_command="false"),
    ]


def test_a_command_that_could_not_run_is_an_error_without_a_code(store: Store) -> None:
    _, thread = bring_in(store, run([SYSTEM, TASK, called("ls"), observed(code=-1, exception_info="timed out")]))
    (result,) = thread.events(types=("tool.returned",))
    assert (result.body.status, result.body.facts) == ("error", Facts(command="ls"))


@pytest.mark.parametrize(
    ("status", "state", "error"),
    [
        ("Submitted", "done", None),
        ("LimitsExceeded", "incomplete", None),
        ("UserInterruption", "interrupted", None),
        ("RuntimeError", "error", "RuntimeError"),
    ],
)
@pytest.mark.parametrize("has_message", [True, False])
def test_a_run_ends_as_its_exit_status_says(
    store: Store, status: str, state: str, error: str | None, has_message: bool
) -> None:
    messages = [SYSTEM, TASK, called("ls"), observed()]
    if has_message:
        messages.append({"role": "exit", "content": "x", "extra": {"exit_status": status}})
    _, thread = bring_in(store, run(messages, status))
    ends = [(event.body.node, event.body.state, event.body.error) for event in thread.events(types=("turn.ended",))]
    assert ends == [(thread.head, state, error)]


def test_a_run_that_goes_on_has_no_end(store: Store) -> None:
    _, thread = bring_in(store, run(USUAL[:4], ""))
    assert "turn.ended" not in counts(thread)


@pytest.mark.parametrize("word", ["bash", "mswea_bash_command"])
def test_a_fenced_command_is_a_call_and_the_next_message_its_output(store: Store, word: str) -> None:
    output = {"role": "user", "content": "<returncode>2</returncode>\n<output>\nno</output>"}
    report, thread = bring_in(store, run([SYSTEM, TASK, fenced("ls -l", word), output], None))
    _, _, words, call, result = nodes(thread)
    assert (words.body.text, call.body.name) == (fenced("ls -l", word)["content"], "bash")
    assert json.loads(call.body.input) == {"command": "ls -l"}
    assert (result.body.facts, result.output) == (Facts(exit_code=2), output["content"].encode())
    assert (report.user_messages, report.tool_results) == (1, 1)


def test_a_list_of_messages_alone_is_known_by_its_commands_or_its_name(store: Store, tmp_path: Path) -> None:
    submits = "git diff && echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
    messages = [SYSTEM, TASK, fenced("ls"), {"role": "user", "content": "<returncode>0</returncode>\n"}]
    messages += [fenced(submits), {"role": "user", "content": "diff --git a b"}]
    data = json.dumps(messages).encode()
    assert detect_format(data) == "mini-swe-agent"
    plain = tmp_path / "run.traj.json"
    plain.write_bytes(json.dumps(messages[:2]).encode())
    assert detect_format(plain.read_bytes(), plain) == "mini-swe-agent"
    _, thread = bring_in(store, data)
    assert [event.body.state for event in thread.events(types=("turn.ended",))] == ["done"]
    assert texts(thread)[-1] == "result message:5/0 ok"


def test_the_agents_own_words_and_a_users_are_told_apart(store: Store) -> None:
    mistake = {"role": "user", "content": "Exactly one command.", "extra": {"interrupt_type": "FormatError"}}
    broke_in = {"role": "user", "content": "Stop that.", "extra": {"interrupt_type": "UserInterruption"}}
    answer = {"role": "assistant", "content": "No command."}
    report, thread = bring_in(store, run([SYSTEM, TASK, answer, mistake, fenced("ls"), broke_in], None))
    inputs = [(event.source.kind, event.body.steer) for event in thread.events(types=("input.added",))]
    assert inputs == [("user", False), ("host", True), ("user", True)]
    assert (report.user_messages, report.harness_messages, report.tool_results) == (2, 1, 0)


def test_answers_in_the_responses_form_are_read(store: Store) -> None:
    output = [
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
        {"type": "function_call", "call_id": "k1", "name": "bash", "arguments": '{"command": "ls"}'},
    ]
    usage = {"input_tokens": 10, "output_tokens": 4, "output_tokens_details": {"reasoning_tokens": 2}}
    answer = {"object": "response", "model": "gpt-x", "output": output, "usage": usage, "status": "completed"}
    answer["extra"] = {"actions": [{"command": "ls", "tool_call_id": "k1"}], "timestamp": 1}
    result = {"type": "function_call_output", "call_id": "k1", "output": "a.txt", "extra": {"returncode": 0}}
    note = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go on"}]}
    report, thread = bring_in(store, run([SYSTEM, TASK, answer, result, note], None))
    assert texts(thread)[2:] == ["reasoning hm", "text Looking.", "call k1", "result k1 ok", "user Go on"]
    assert report.usage == Usage(input=10, output=4, reasoning=2)
    (facts,) = (event.body.facts for event in thread.events(types=("tool.returned",)))
    assert facts == Facts(command="ls", exit_code=0)
    assert json.loads(nodes(thread)[2].body.extra)["message"]["status"] == "completed"


def test_importing_twice_or_grown_adds_only_what_is_new(store: Store) -> None:
    bring_in(store, run(USUAL[:4], ""))
    bring_in(store, run(USUAL))
    before = shape(store)
    assert len(before) == 1
    assert import_file(store, run(USUAL)).appended == 0
    assert import_file(store, json.dumps(json.loads(run(USUAL))).encode()).appended == 0, "other white space"
    assert shape(store) == before


def test_two_runs_of_one_task_are_two_threads_and_an_instance_names_its_runs(store: Store) -> None:
    bring_in(store, run(USUAL, instance_id="repo__1"))
    bring_in(store, run([SYSTEM, TASK, called("pwd"), observed()], instance_id="repo__1"))
    ids = sorted(row.source_id or "" for row in store.threads())
    assert [id_.split("/")[0] for id_ in ids] == ["repo__1", "repo__1"]


def test_what_has_no_place_is_kept_as_json(store: Store) -> None:
    _, thread = bring_in(store, run(USUAL, mood={"b": 1.5}))
    (kept,) = (json.loads(event.body.record) for event in thread.events(types=("record.kept",)))
    assert (kept["mood"], kept["info"]["model_stats"], kept["trajectory_format"]) == (
        *({"b": 1.5}, {"api_calls": 2}, "mini-swe-agent-1.1"),
    )
    extra = json.loads(nodes(thread)[2].body.extra)
    assert extra["extra"] == USUAL[2]["extra"]


def test_damage_is_reported_and_survived(store: Store) -> None:
    messages = [SYSTEM, TASK, None, {"role": "tool", "content": "x"}, observed("stray"), {"role": "user"}]
    report, thread = bring_in(store, run(messages, None))
    assert codes(report) == [(3, "not_object"), (4, "no_content"), (5, "stray_result"), (6, "no_content")]
    assert len(list(thread.events(types=("record.kept",)))) == 4
    data = run(USUAL)
    report, thread = bring_in(store, data[: data.index(b'"k2"')])
    assert (report.lost, codes(report), texts(thread)[-1]) == (1, [(0, "torn_tail")], "result k1 ok")


def test_odd_characters_survive(store: Store) -> None:
    data = b'[{"role":"system","content":"s"},{"role":"user","content":"a\\ud800\\u0000"},'
    data += json.dumps(fenced("ls\ud800")).encode() + b"]"
    _, thread = bring_in(store, data)
    assert nodes(thread)[1].body.content[0].original == "a\ud800\0"
    assert json.loads(nodes(thread)[3].body.input) == {"command": "ls\ufffd"}


def test_turn_memory_of_an_imported_run_names_its_commands(tmp_path: Path) -> None:
    with convlog.open(tmp_path / "memory.db") as store:
        report = import_file(store, run(USUAL))
        prompt = store.thread(report.thread_ids[0]).prepare(assembler="turn-memory@6", record=False)
        calls = [piece for piece in prompt.pieces if piece.provenance == "turn-memory" and piece.role == "assistant"]
        assert len(calls) == 4, "the words of two answers and two commands"
