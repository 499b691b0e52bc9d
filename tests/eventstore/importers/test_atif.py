"""ATIF trajectories: steps, calls and what came back, sub-agents, continuations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import convlog
from convlog.eventstore.events import Document, Image, Text, Usage
from convlog.eventstore.importers import ImportReport, detect_format, import_file
from convlog.eventstore.store import Store
from convlog.eventstore.thread import Thread
from tests.eventstore.importers.imported import codes, counts, nodes, said, shape, texts


def trajectory(*steps: Any, **entries: Any) -> dict[str, Any]:
    """Give a trajectory; steps are numbered."""
    tools = [{"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}}]
    agent = {"name": "openhands", "version": "1.0", "model_name": "gpt-x", "tool_definitions": tools}
    numbered = [{"step_id": number} | step if isinstance(step, dict) else step for number, step in enumerate(steps, 1)]
    return {"schema_version": "ATIF-v1.8", "session_id": "s-1", "agent": agent, "steps": numbered} | entries


def agent(message: Any = "", *calls: str, results: Any = (), **fields: Any) -> dict[str, Any]:
    """Give an agent's step."""
    step: dict[str, Any] = {"source": "agent", "message": message} | fields
    if calls:
        step["tool_calls"] = [{"tool_call_id": id_, "function_name": "ls", "arguments": {"a": 1.5}} for id_ in calls]
    return step | ({"observation": {"results": list(results)}} if results else {})


def result(call: str | None, content: Any = "a.txt", **fields: Any) -> dict[str, Any]:
    return {"source_call_id": call, "content": content} | fields


SYSTEM = {"source": "system", "message": "Be kind."}
USER = {"source": "user", "message": "List", "timestamp": "2026-01-02T10:00:00Z"}
METRICS = {"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 4, "cost_usd": 0.1}
METRICS_MORE = METRICS | {"extra": {"reasoning_tokens": 2, "cache_creation_input_tokens": 1}}

INSIDE = trajectory({"source": "user", "message": "x"}, agent("Helped."), trajectory_id="sub-1")
REF = [{"trajectory_id": "sub-1", "session_id": "s-1"}]
USUAL = trajectory(
    SYSTEM,
    USER,
    agent(
        "",
        *("k1", "k2"),
        results=[result("k1"), result("k2", None, subagent_trajectory_ref=REF)],
        reasoning_content="hm",
        metrics=METRICS_MORE,
    ),
    agent("Done.", metrics=METRICS, model_name="gpt-y"),
    final_metrics={"total_steps": 4},
    subagent_trajectories=[INSIDE],
)


def spelled(document: Any) -> bytes:
    return json.dumps(document).encode()


def bring_in(store: Store, document: Any) -> tuple[ImportReport, Thread]:
    report = import_file(store, document if isinstance(document, bytes) else spelled(document))
    return report, store.thread(report.thread_ids[0])


def test_a_trajectory_has_the_counts_of_a_hand_count(store: Store) -> None:
    assert detect_format(spelled(USUAL)) == "atif"
    report, thread = bring_in(store, USUAL)
    # 4 steps and 2 of the sub-agent, and what either trajectory says beside them.
    assert (report.records, report.mapped, report.kept, report.lost) == (8, 6, 2, 0)
    assert (report.user_messages, report.model_messages, report.reasoning) == (2, 3, 1)
    assert (report.tool_calls, report.tool_results, report.threads, report.warnings) == (2, 2, 2, [])
    assert report.usage == Usage(input=5 + 6, cache_read=8, cache_write=1, output=10, reasoning=2)
    assert texts(thread) == [
        *("tools.set", "instructions.set", "user List", "reasoning hm", "call k1", "call k2"),
        *("result k1 ok", "result k2 ok", "text Done."),
    ]
    created = thread.event(1).body
    assert (created.source_id, created.agent) == ("s-1", "openhands")
    assert nodes(thread)[2].occurred_at == 1_767_348_000_000_000
    assert nodes(thread)[4].body.input == '{"a": 1.5}'
    finished = [(event.body.response, event.body.model) for event in thread.events(types=("call.finished",))]
    assert finished == [("step:3", "gpt-x"), ("step:4", "gpt-y")]
    assert counts(thread)["turn.ended"] == 1


def test_a_sub_agents_trajectory_is_a_thread_that_names_its_call(store: Store) -> None:
    _, thread = bring_in(store, USUAL)
    inside = store.thread("s-1/sub-1")
    created = inside.event(1).body
    assert (created.origin, created.parent.thread) == ("subagent", thread.id)
    assert said(thread.event(created.parent.call)) == "call k2"
    assert texts(inside)[1:] == ["user x", "text Helped."]


def test_importing_twice_or_grown_adds_only_what_is_new(store: Store) -> None:
    part = USUAL | {"steps": USUAL["steps"][:3]}
    bring_in(store, part)
    bring_in(store, USUAL)
    before = shape(store)
    second = import_file(store, spelled(USUAL))
    assert second.appended == 0
    assert shape(store) == before
    assert len(store.thread("s-1").tree.leaves()) == 1


def test_what_stands_behind_the_steps_counts_like_what_stands_before(store: Store) -> None:
    document = {name: USUAL[name] for name in ("schema_version", "steps", "agent", "session_id")}
    _, thread = bring_in(store, document)
    assert texts(thread)[0] == "tools.set"
    assert thread.event(1).body.source_id == "s-1"


def test_a_continuation_is_a_thread_of_its_own_and_its_copies_cost_nothing(store: Store) -> None:
    bring_in(store, USUAL)
    copied = agent("Done.", metrics=METRICS, is_copied_context=True)
    more = {**USER, "message": "More"}
    report, thread = bring_in(store, trajectory(USER | {"is_copied_context": True}, copied, more))
    assert thread.event(1).body.source_id.startswith("s-1/")
    assert texts(thread)[1:] == ["user List", "text Done.", "user More"]
    assert (report.usage, counts(thread).get("call.finished")) == (Usage(), None)
    assert json.loads(nodes(thread)[2].body.extra)["is_copied_context"] is True


def test_a_step_without_a_model_is_the_programs(store: Store) -> None:
    step = agent("Started.", "k1", results=[result("k1")], llm_call_count=0)
    report, thread = bring_in(store, trajectory(USER, step))
    words, call, _ = nodes(thread)[2:]
    assert (words.body.kind, words.source.kind, call.source.kind) == ("notice", "host", "host")
    assert (report.model_messages, report.tool_results, report.warnings) == (0, 1, [])


def test_what_no_call_asked_for_is_an_input(store: Store) -> None:
    _, thread = bring_in(store, trajectory(USER, agent("Hm", results=[result(None, "It rains.")])))
    last = nodes(thread)[-1]
    assert (said(last), last.source.kind, last.body.steer) == ("user It rains.", "host", True)


def test_parts_are_pictures_and_sounds(store: Store) -> None:
    picture = {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}
    sound = {"type": "audio", "source": {"media_type": "audio/wav", "path": "a.wav", "duration_sec": 2.5}}
    parts = [{"type": "text", "text": "See"}, picture, sound]
    _, thread = bring_in(store, trajectory(USER | {"message": parts}, agent("", "k1", results=[result("k1", parts)])))
    content = nodes(thread)[1].body.content
    assert content == (
        Text("See"),
        Image(media_type="image/png", url="a.png"),
        Document(media_type="audio/wav", url="a.wav", extra='{"duration_sec":2.5}'),
    )
    (back,) = thread.events(types=("tool.returned",))
    assert (back.body.form, json.loads(back.body.extra)) == ("blocks", {"content": [{}, {}, {}]})


def test_an_answer_with_a_picture_keeps_it_as_it_stands(store: Store) -> None:
    picture = {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}
    _, thread = bring_in(store, trajectory(USER, agent([{"type": "text", "text": "See"}, picture])))
    words, opaque = nodes(thread)[2:]
    assert (words.body.text, json.loads(opaque.body.opaque)) == ("See", picture)


def test_later_words_of_the_system_are_inputs(store: Store) -> None:
    _, thread = bring_in(store, trajectory(SYSTEM, SYSTEM | {"message": "Be brief."}, USER, SYSTEM))
    first, second, _, third = nodes(thread)[1:]
    assert (len(first.body.parts), [part.text for part in second.body.parts]) == (1, ["Be kind.", "Be brief."])
    assert (third.type, third.body.role) == ("input.added", "system")


def test_what_has_no_place_is_kept_as_json(store: Store) -> None:
    odd = agent("Done.", "k1", results=[result("k1", extra={"score": 1})], metrics=METRICS, reasoning_effort="high")
    odd["tool_calls"][0]["extra"] = {"timeout": 5}
    odd |= {"timestamp": "2026-01-02T10:00:00+02:00", "extra": {"mood": [1.50]}}
    _, thread = bring_in(store, trajectory(USER, odd, notes="none"))
    words, call, back = nodes(thread)[2:]
    assert json.loads(words.body.extra) == {
        "timestamp": "2026-01-02T10:00:00+02:00",
        "metrics": METRICS,
        "reasoning_effort": "high",
        "extra": {"mood": [1.5]},
    }
    assert json.loads(call.body.extra) == {"extra": {"timeout": 5}}
    assert json.loads(back.body.extra) == {"extra": {"score": 1}}
    (kept,) = (json.loads(event.body.record) for event in thread.events(types=("record.kept",)))
    assert kept["notes"] == "none"
    assert kept["agent"] == {"name": "openhands", "version": "1.0", "model_name": "gpt-x"}


def test_damage_is_reported_and_survived(store: Store) -> None:
    steps = [USER, None, {"source": "wizard", "message": "x"}, agent("", "k1", results=[result("stray")])]
    report, thread = bring_in(store, trajectory(*steps, subagent_trajectories=[None]))
    assert codes(report) == [(2, "not_object"), (3, "no_content"), (4, "stray_result"), (0, "not_object")]
    assert texts(thread)[-2:] == ["call k1", "result stray ok"]
    assert report.lost == 1
    data = spelled(trajectory(USER, agent("Done."), session_id="s-2"))
    report, thread = bring_in(store, data[: data.index(b"Done.")])
    assert (codes(report), texts(thread)) == ([(0, "torn_tail")], ["tools.set", "user List"])


def test_odd_characters_survive(store: Store) -> None:
    data = spelled(trajectory(USER)).replace(b'"List"', b'"a\\ud800\\u0000"')
    _, thread = bring_in(store, data)
    assert nodes(thread)[1].body.content[0].original == "a\ud800\0"


def test_a_trajectory_without_ids_goes_by_its_first_step(store: Store) -> None:
    document = trajectory(USER)
    del document["session_id"]
    _, thread = bring_in(store, document)
    grown = trajectory(USER, agent("Done."))
    del grown["session_id"]
    assert bring_in(store, grown)[1].id == thread.id


def test_trajectories_are_valid_ones() -> None:
    atif = pytest.importorskip("atif", reason="the form's own models are not installed")
    atif.Trajectory.model_validate(USUAL)


def test_turn_memory_of_an_imported_turn_names_its_calls(tmp_path: Path) -> None:
    with convlog.open(tmp_path / "memory.db") as store:
        import_file(store, spelled(USUAL))
        prompt = store.thread("s-1").prepare(assembler="turn-memory@6", record=False)
        calls = [piece for piece in prompt.pieces if piece.provenance == "turn-memory" and piece.role == "assistant"]
        assert len(calls) == 3, "two calls and the words of the answer"
