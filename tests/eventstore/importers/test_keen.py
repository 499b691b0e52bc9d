"""Keen logs: turns by their transcript or by their memory, compactions over everything, and every kind of damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convlog.eventstore.events import Facts
from convlog.eventstore.importers import ImportReport, detect_format, import_file
from convlog.eventstore.store import Store
from convlog.eventstore.store import open_store as open_any
from convlog.eventstore.thread import Thread
from convlog.projections.views import view
from tests.eventstore.importers.imported import codes, counts, nodes, said, shape, texts
from tests.json_values import json_values
from tests.vectors import path

SAMPLE = Path(__file__).parent / "samples" / "keen.jsonl"
SESSION = "5f1c2f2e-0c7f-4d7e-9a55-0f6f6f4f0001"


def log(*events: tuple[str, dict[str, Any]]) -> bytes:
    lines = [("session_started", {"session_id": "s-1", "created_at": "2026-07-21T08:15:30Z", "cwd": "/w"}), *events]
    return b"".join(
        json.dumps({"seq": number, "kind": kind, kind: said}).encode() + b"\n"
        for number, (kind, said) in enumerate(lines, 1)
    )


def user(text: str) -> tuple[str, dict[str, Any]]:
    return "user_message", {"content": text}


def turn(**said: Any) -> tuple[str, dict[str, Any]]:
    return "assistant_turn", said


def bring_in(store: Store, data: bytes) -> tuple[ImportReport, Thread]:
    report = import_file(store, data, format="keen")
    return report, store.thread("s-1")


def facts(thread: Thread) -> list[Facts | None]:
    return [event.body.facts for event in nodes(thread) if event.type == "tool.returned"]


def pieces_of(thread: Any, address: str, **options: Any) -> Any:
    return view(thread, address, **options)


# --- the sample ---


def test_the_sample_has_the_counts_of_a_hand_count(store: Store) -> None:
    report = import_file(store, SAMPLE)
    thread = store.thread(SESSION)
    assert (report.format, report.records, report.mapped, report.kept, report.lost) == ("keen", 8, 7, 1, 0)
    assert (report.user_messages, report.model_messages, report.reasoning) == (3, 3, 1)
    assert (report.tool_calls, report.tool_results, report.summaries) == (7, 6, 1)
    assert codes(report) == [(8, "bad_memory"), (8, "bad_memory")]
    assert (counts(thread)["call.finished"], counts(thread)["turn.ended"]) == (3, 3)
    assert len(thread.tree.leaves()) == 1
    assert thread.head == nodes(thread)[-1].position


def test_the_sample_comes_in_once(store: Store) -> None:
    import_file(store, SAMPLE)
    before = shape(store)
    assert import_file(store, SAMPLE).appended == 0
    assert shape(store) == before


def test_a_session_is_created_with_what_its_first_line_says(store: Store) -> None:
    import_file(store, SAMPLE)
    created = store.thread(SESSION).event(1)
    assert (created.body.agent, created.body.cwd, created.body.origin) == ("keen", "/home/dev/till", "import")
    assert created.occurred_at == 1_784_621_730_123_456


def test_facts_come_from_outputs_and_from_the_stored_memory(store: Store) -> None:
    import_file(store, SAMPLE)
    receipt = "/home/dev/till/receipt.py"
    assert facts(store.thread(SESSION)) == [
        Facts(path=receipt),
        Facts(command="pytest -q", failed_command="pytest -q", exit_code=1),
        Facts(path=receipt, file_changed=receipt),
        Facts(server="tickets", tool="search"),
        None,
        Facts(exit_code=2),
    ]


def test_turn_memory_of_an_imported_turn_says_what_keen_kept_of_it(store: Store) -> None:
    import_file(store, SAMPLE)
    pieces = pieces_of(store.thread(SESSION), "turn-memory@6", leaf=17)
    results = [piece.element.content[0].text for piece in pieces if piece.role == "tool"]
    assert results == [
        '{"status":"success"}',
        '{"status":"success","failed_command":"pytest -q","exit_code":1}',
        '{"status":"success","file_changed":"receipt.py"}',
        '{"status":"error"}',
    ]


def test_an_unfinished_turn_of_a_log_is_an_ordinary_one(store: Store) -> None:
    import_file(store, SAMPLE)
    pieces = pieces_of(store.thread(SESSION), "turn-memory@6", leaf=20, at=23)
    assert [piece.provenance for piece in pieces if 20 in piece.sources] == ["dropped"]


def test_a_compaction_stands_for_all_before_it_and_originals_stay(store: Store) -> None:
    import_file(store, SAMPLE)
    thread = store.thread(SESSION)
    [summary] = [event.body for event in thread.events(types=("summary.added",))]
    assert (summary.first, summary.last) == (3, 20)
    asked = [piece for piece in pieces_of(thread, "turn-memory@6", leaf=25) if piece.role == "user"]
    assert [piece.provenance for piece in asked] == ["summary", "verbatim"]
    assert texts(thread)[0] == "user Why is the total wrong? Größe prüfen."


# --- turns ---


def test_a_turn_without_transcript_has_its_calls_where_the_memory_says(store: Store) -> None:
    activity = {"text_offset": 1, "tool": "bash", "status": "success"}
    said_ = turn(message="ab", turn_memory={"tool_activity": [activity]}, interrupted=True, error="x")
    _, thread = bring_in(store, log(user("q"), said_))
    assert texts(thread) == ["user q", "text a", "call seq_3_1", "result seq_3_1 ok", "text b"]
    [ended] = [event.body for event in thread.events(types=("turn.ended",))]
    assert (ended.state, ended.error) == ("interrupted", "x")


def test_parallel_calls_end_by_name_and_input_and_repeats_in_order(store: Store) -> None:
    started = [{"kind": "tool_start", "tool_start": {"name": "read_file", "input": {"path": path}}} for path in "abb"]
    ended = [
        {"kind": "tool_end", "tool_end": {"name": "read_file", "input": {"path": path}, "output": path}}
        for path in "bba"
    ]
    _, thread = bring_in(store, log(user("q"), turn(transcript=[*started, *ended])))
    assert [said(event) for event in nodes(thread)][4:] == [f"result seq_3_{n} ok" for n in (2, 3, 1)]
    assert [event.output for event in nodes(thread)][4:] == [b"b", b"b", b"a"]


def test_a_call_that_never_ended_has_no_result(store: Store) -> None:
    open_calls = [{"kind": "bash", "bash": {"command": "ls"}}, {"kind": "tool_start", "tool_start": {"name": "glob"}}]
    report, _ = bring_in(store, log(user("q"), turn(transcript=open_calls, interrupted=True)))
    assert (report.tool_calls, report.tool_results) == (2, 0)


def test_the_first_version_of_memory_gives_exit_codes_by_command(store: Store) -> None:
    ran = [{"kind": "bash", "bash": {"command": name, "output": "", "duration_ns": 7000}} for name in ("a", "b", "b")]
    memory = {"files_changed": ["x"], "failed_bash": [{"command": "b", "exit_code": 2}]}
    _, thread = bring_in(store, log(user("q"), turn(transcript=ran, turn_memory=memory)))
    assert facts(thread) == [Facts(command="a"), Facts(command="b", exit_code=2), Facts(command="b")]
    assert [event.body.duration_us for event in nodes(thread) if event.type == "tool.returned"] == [7, 7, 7]


@pytest.mark.parametrize(
    ("activity", "detail"),
    [
        ({"text_offset": 4, "tool": "bash"}, "offset 4 is not between 0 and 3"),
        ({"text_offset": -1, "tool": "bash"}, "offset -1 is not between 0 and 3"),
        ({"text_offset": 1, "tool": "bash"}, "offset 1 is inside a character"),
        ({"text_offset": 0, "tool": ""}, "it names no tool"),
        ({"text_offset": True, "tool": "bash"}, "its offset is no number"),
    ],
)
def test_a_stored_activity_that_could_not_be_replayed_is_reported(
    store: Store, activity: dict[str, Any], detail: str
) -> None:
    report, thread = bring_in(store, log(turn(message="€", turn_memory={"tool_activity": [activity]})))
    assert [finding.detail for finding in report.warnings] == [f"stored activity 0: {detail}"]
    assert texts(thread) == ["text €"]


def test_memory_and_message_that_do_not_fit_the_transcript_are_reported_and_kept(store: Store) -> None:
    memory = {"tool_activity": [{"text_offset": 0, "tool": "glob", "status": "success"}]}
    report, thread = bring_in(
        store, log(turn(transcript=[{"kind": "text", "content": "shown"}], message="sent", turn_memory=memory))
    )
    assert codes(report) == [(2, "message_differs"), (2, "memory_differs")]
    kept = json.loads(nodes(thread)[0].body.extra)["assistant_turn"]
    assert kept == {"message": "sent", "turn_memory": memory}


def test_every_field_of_a_turn_is_mapped_or_kept(store: Store) -> None:
    items = [
        {"kind": "text", "content": "a", "x": 1},
        {"kind": "tool_end", "tool_end": {"name": "f", "output": [1], "y": 2, "duration_ns": 1}, "z": 3},
        {"kind": "subagent", "what": "ever"},
    ]
    _, thread = bring_in(store, log(turn(transcript=items, message="a", more={"k": None})))
    extras = [json.loads(event.body.extra) if event.body.extra else None for event in nodes(thread)]
    assert extras == [
        {"seq": 2, "kind": "assistant_turn", "assistant_turn": {"more": {"k": None}}, "item": {"x": 1}},
        None,
        {"z": 3, "y": 2, "duration_ns": 1},
        {"item": items[2]},
    ]
    assert nodes(thread)[2].output == b"[1]"


def test_what_a_compaction_left_standing_follows_the_summary_and_a_later_one_covers_it_too(store: Store) -> None:
    first = {"status": "", "messages": [{"Role": "system", "Content": "be brief"}, {"Role": "user", "Content": "SUM"}]}
    kept = {"Role": "assistant", "Content": "a1"}
    second = {"status": "", "messages": [{"role": "user", "content": "SUM 2"}]}
    compactions = ("compaction_applied", {**first, "messages": [*first["messages"], kept]}), user("q2")
    _, thread = bring_in(store, log(user("q1"), *compactions, ("compaction_applied", second), user("q3")))
    assert texts(thread) == ["user q1", "text a1", "user q2", "user q3"]
    asked = pieces_of(thread, "turn-memory@6")
    assert [piece.provenance for piece in asked if piece.role == "user"] == ["summary", "verbatim"]
    assert "SUM 2" in next(piece.element.text for piece in asked if piece.provenance == "summary")


def test_a_compaction_to_nothing_is_only_kept(store: Store) -> None:
    report, thread = bring_in(store, log(user("q"), ("compaction_applied", {"status": "", "messages": []})))
    assert (report.summaries, report.kept, codes(report)) == (0, 2, [(3, "no_content")])
    assert texts(thread) == ["user q"]


VECTORS = json.loads((Path(path.__file__).parent / "conversation.json").read_bytes())


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
def test_a_loaded_log_starts_a_session_with_the_messages_of_the_examples(store: Store, vector: dict[str, Any]) -> None:
    kinds = {"user": "user_message", "assistant_turn": "assistant_turn", "compaction": "compaction_applied"}
    events = vector["input"]["events"]
    report, thread = bring_in(store, log(*((kinds[event["type"]], stored(event)) for event in events)))
    assert path._messages(thread) == vector["expect"]["messages"]
    assert report.records - 1 == vector["expect"].get("log_length", len(events))


def stored(event: dict[str, Any]) -> dict[str, Any]:
    """Give an example's event as a log holds it."""
    if event["type"] == "user":
        return {"content": event["text"]}
    if event["type"] == "compaction":
        return {
            "status": "",
            "messages": [{"Role": each["role"], "Content": each["text"]} for each in event["messages"]],
        }
    said = {"message": event.get("prose", ""), "turn_memory": {"tool_activity": event.get("activities") or []}}
    return said | {name: event[name] for name in ("interrupted", "error") if name in event}


# --- parts and damage ---


@given(st.data())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_log_cut_anywhere_comes_in_as_the_whole_does(data: st.DataObject) -> None:
    content = SAMPLE.read_bytes()
    cut = data.draw(st.integers(content.index(b"\n"), len(content)))
    with open_any(":memory:") as store, open_any(":memory:") as other:
        import_file(other, content, format="keen")
        import_file(store, content[:cut], format="keen")
        if content[cut:].strip():
            import_file(store, content[cut:], format="keen")
        assert shape(store) == shape(other)
        assert import_file(store, content, format="keen").appended == 0


def test_a_log_without_its_first_line_is_named_by_its_folder(store: Store, tmp_path: Path) -> None:
    place = tmp_path / "s-9" / "transcript_events.jsonl"
    place.parent.mkdir()
    place.write_bytes(log(user("q")).split(b"\n", 1)[1])
    import_file(store, place)
    assert texts(store.thread("s-9")) == ["user q"]


def test_damage_is_reported_by_line_and_the_rest_comes_in(store: Store) -> None:
    lines = log(user("one"), user("two")).splitlines()
    odd = [
        lines[0],
        lines[1] + lines[2],
        b"nonsense",
        b'{"seq":4,"kind":"user_message","user_message":null}',
        b'{"seq":5,"kind":"user_message","user_message":{"content":"\xff"}}',
        b'{"seq":6,"kind":"user_message","user_message":{"content":"\\ud800 \\u0000"}}',
        b'{"seq":6,"kind":"user_message","user_message":{"content":"six again"}}',
        b"[1]",
        b'{"seq":7,"kind":"unheard_of","unheard_of":{}}',
        b'{"seq":8,"kind":"user_mess',
    ]
    report, thread = bring_in(store, b"\n".join(odd))
    assert codes(report) == [
        (2, "welded_record"),
        (3, "bad_line"),
        (4, "no_content"),
        (5, "invalid_utf8"),
        (8, "not_object"),
        (10, "torn_tail"),
    ]
    assert (report.records, report.lost) == (11, 2)
    assert texts(thread) == ["user one", "user two", "user �", "user � \0", "user six again"]
    assert nodes(thread)[3].body.content[0].original == "\ud800 \0"
    assert report.records == report.mapped + report.kept + report.repeated + report.lost


def test_a_part_of_a_log_is_recognised() -> None:
    content = SAMPLE.read_bytes()
    assert detect_format(content) == "keen"
    assert detect_format(content.split(b"\n", 2)[2][:300]) == "keen"
    assert detect_format(b'{"kind":"header","version":4}\n') != "keen"


names = st.sampled_from(
    ["kind", "content", "tool_start", "tool_end", "bash", "diff", "name", "input", "output", "lines"]
)
payloads = st.dictionaries(names | st.sampled_from(["command", "error", "duration_ns", "Kind", "Content"]), json_values)
items = st.fixed_dictionaries(
    {"kind": st.sampled_from(["text", "reasoning", "tool_start", "tool_end", "bash", "diff"]) | json_values},
    optional=dict.fromkeys(("content", "tool_start", "tool_end", "bash", "diff"), payloads | json_values),
)
turns = st.fixed_dictionaries(
    {},
    optional={
        "transcript": st.lists(items | json_values, max_size=4) | json_values,
        "message": json_values,
        "turn_memory": json_values | st.fixed_dictionaries({"tool_activity": st.lists(json_values, max_size=2)}),
        "interrupted": json_values,
        "error": json_values,
        "messages": st.lists(payloads | json_values, max_size=2),
    },
)


@given(
    st.lists(st.tuples(st.sampled_from(["user_message", "assistant_turn", "compaction_applied"]), turns), max_size=5)
)
@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_whatever_a_log_holds_every_record_is_accounted_for_and_comes_in_once(
    events: list[tuple[str, dict[str, Any]]],
) -> None:
    with open_any(":memory:") as store:
        report = import_file(store, log(*events), format="keen")
        assert report.records == len(events) + 1 == report.mapped + report.kept + report.repeated + report.lost
        assert report.lost == 0
        assert import_file(store, log(*events), format="keen").appended == 0
