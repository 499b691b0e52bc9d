"""Claude Code sessions: recorded files by their counts, and every trap of the form."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from convlog.eventstore.events import Facts, Foreign, Image, Text, Usage
from convlog.eventstore.importers import ImportReport, detect_format, import_file
from convlog.eventstore.store import Store
from convlog.eventstore.thread import Thread
from tests.eventstore.importers.imported import codes, counts, nodes, shape, texts
from tests.eventstore.importers.sessions import Session, call, compacted, text
from tests.recorded import recorded


def bring_in(store: Store, source: Session | bytes) -> tuple[ImportReport, Thread]:
    report = import_file(store, source if isinstance(source, bytes) else source.data, format="claude-code")
    return report, store.thread(report.thread_ids[0])


# --- recorded files ---


def test_a_recorded_session_has_the_counts_of_a_hand_count(store: Store) -> None:
    report = import_file(store, recorded("claude-code-real.jsonl"))
    assert (report.records, report.mapped, report.kept, report.lost) == (49, 49, 0, 0)
    assert (report.user_messages, report.model_messages, report.messages) == (2, 10, 12)
    assert (report.tool_calls, report.tool_results, report.threads) == (23, 20, 1)
    assert report.warnings == []
    assert report.usage == Usage(input=1223, cache_read=185_540, cache_write=21_565, output=833)


def test_a_recorded_session_is_one_line_though_its_results_hang_elsewhere(store: Store) -> None:
    _, thread = bring_in(store, recorded("claude-code-real.jsonl").read_bytes())
    assert len(thread.tree.leaves()) == 1
    assert thread.head == nodes(thread)[-1].position
    calls = {event.position: event.body.call for event in nodes(thread) if event.type == "tool.called"}
    answers = {event.ref("answers"): event.body.call for event in nodes(thread) if event.type == "tool.returned"}
    assert len(answers) == 20
    assert all(calls[call] == name for call, name in answers.items() if call)
    assert counts(thread)["call.finished"] == 10


def test_a_small_session_is_one_chain_in_file_order(store: Store) -> None:
    report = import_file(store, recorded("claude-code-small.jsonl"))
    thread = store.thread("test-session-id")
    assert (report.records, report.mapped, report.kept) == (8, 7, 1)
    assert (report.user_messages, report.model_messages, report.tool_calls, report.tool_results) == (2, 3, 2, 2)
    assert [event.type for event in nodes(thread)] == [
        *("input.added", "segment.added", "tool.called", "tool.returned", "tool.called", "tool.returned"),
        *("input.added", "segment.added"),
    ]
    assert len(thread.tree.leaves()) == 1
    assert thread.title is None, "the summary names a leaf that lies in another session"


def test_the_edge_session_keeps_what_nothing_can_hold(store: Store) -> None:
    report = import_file(store, recorded("claude-code-edge.jsonl"))
    assert (report.records, report.mapped, report.kept, report.lost) == (19, 12, 7, 0)
    assert (report.user_messages, report.model_messages, report.tool_calls, report.tool_results) == (7, 4, 3, 1)
    assert (report.threads, report.usage) == (2, Usage(input=488, output=435))
    assert codes(report) == [
        *((10, "no_content"), (11, "no_content"), (13, "not_object"), (15, "not_object"), (16, "not_object")),
        (17, "missing_parent"),
    ]
    thread = store.thread("edge_cases")
    kept = [event.body.record for event in thread.events(types=("record.kept",))]
    assert '"massive error"' in kept
    assert "42" in kept
    assert '{"silly": "this"}' in kept
    assert (thread.title or "").startswith("Tested various edge cases including markdown")


@pytest.mark.parametrize("name", ["claude-code-small", "claude-code-edge", "claude-code-real"])
def test_importing_a_recorded_file_twice_appends_nothing(store: Store, name: str) -> None:
    path = recorded(f"{name}.jsonl")
    first = import_file(store, path)
    before = shape(store)
    second = import_file(store, path)
    assert (second.appended, first.counts()) == (0, second.counts())
    assert first.usage == second.usage
    assert shape(store) == before


# --- responses ---


def test_lines_of_one_message_are_one_response_and_count_once(store: Store) -> None:
    session = Session()
    session.user("u1", "Water the plants.")
    session.assistant("a1", text("Watering."), usage={"input_tokens": 10, "output_tokens": 1})
    session.assistant("a2", call("c1"), usage={"input_tokens": 10, "output_tokens": 7}, stop="tool_use")
    session.result("u2", "c1")
    report, thread = bring_in(store, session)
    assert (report.model_messages, report.usage) == (1, Usage(input=10, output=7))
    parts = [event.body for event in nodes(thread) if event.type in {"segment.added", "tool.called"}]
    assert [(part.response, part.part) for part in parts] == [("m-1", 0), ("m-1", 1)]
    finished = list(thread.events(types=("call.finished",)))
    assert [(event.body.response, event.body.model, event.body.stop) for event in finished] == [
        ("m-1", "claude-x", "tool_use")
    ]
    assert finished[0].body.usage == Usage(input=10, output=7)
    assert thread.event(finished[0].ref("about") or 0).body.text == "Watering."


def test_results_of_a_parallel_batch_are_no_fork_whatever_their_parents(store: Store) -> None:
    session = Session()
    session.user("u1", "go")
    session.assistant("a1", call("c1"))
    session.assistant("a2", call("c2"))
    session.result("u2", "c2", parent="a1")
    session.result("u3", "c1", parent="a1")
    session.assistant("a3", text("both done"), message="m-2", parent="u2")
    _, thread = bring_in(store, session)
    assert texts(thread) == ["user go", "call c1", "call c2", "result c2 ok", "result c1 ok", "text both done"]
    assert len(thread.tree.leaves()) == 1


def test_a_part_that_comes_after_a_result_stays_in_its_response(store: Store) -> None:
    session = Session()
    session.user("u1", "go")
    session.assistant("a1", call("c1"))
    session.result("u2", "c1", parent="a1")
    session.assistant("a2", call("c2"), parent="a1")
    session.result("u3", "c2", parent="a2")
    report, thread = bring_in(store, session)
    assert texts(thread) == ["user go", "call c1", "result c1 ok", "call c2", "result c2 ok"]
    assert [event.body.part for event in nodes(thread) if event.type == "tool.called"] == [0, 1]
    assert report.model_messages == 1


def test_a_late_result_comes_to_the_active_line(store: Store) -> None:
    session = Session()
    session.user("u1", "go")
    session.assistant("a1", call("c1"))
    session.user("u2", "hello?", parent="a1")
    session.result("u3", "c1", parent="a1")
    _, thread = bring_in(store, session)
    assert texts(thread) == ["user go", "call c1", "user hello?", "result c1 ok"]


def test_a_result_without_a_call_is_kept_and_reported(store: Store) -> None:
    session = Session()
    session.user("u1", "go")
    session.result("u2", "nobody")
    session.result("u3", "nobody", "other")
    report, thread = bring_in(store, session)
    assert codes(report) == [(2, "stray_result"), (3, "stray_result")]
    assert (report.tool_results, report.lost) == (2, 0)
    assert texts(thread) == ["user go", "result nobody ok", "result nobody ok"]


def test_reasoning_and_unknown_blocks_are_kept_as_they_are(store: Store) -> None:
    session = Session()
    session.user("u1", "go")
    session.assistant("a1", {"type": "thinking", "thinking": "hm", "signature": "c2ln"})
    session.assistant("a2", {"type": "redacted_thinking", "data": "eA=="})
    session.assistant("a3", {"type": "fallback", "from": "x", "to": "y"})
    session.assistant("a4", text("so") | {"citations": [1.50]})
    report, thread = bring_in(store, session)
    hm, hidden, fallback, so = (event.body for event in nodes(thread)[1:])
    assert (hm.kind, hm.text, hm.signature, report.reasoning) == ("reasoning", "hm", "c2ln", 2)
    assert (hidden.kind, hidden.opaque) == ("reasoning", '{"type": "redacted_thinking", "data": "eA=="}')
    assert (fallback.kind, json.loads(fallback.opaque)["from"]) == ("opaque", "x")
    assert '"block":{"citations":[1.5]}' in so.extra


def test_a_call_keeps_its_input_as_it_was_spelled(store: Store) -> None:
    line = (
        '{"type":"assistant","uuid":"a1","parentUuid":null,"sessionId":"s-1","message":{"role":"assistant","id":"m",'
        '"content":[{"type":"tool_use","id":"c","name":"f","input":{ "b":1.50, "a":1e2,"x":"\\ud800" }}]}}\n'
    )
    _, thread = bring_in(store, line.encode())
    assert nodes(thread)[0].body.input == '{ "b":1.50, "a":1e2,"x":"\\ud800" }'


# --- turns ---


def test_a_turn_ends_with_a_response_that_calls_nothing(store: Store) -> None:
    session = Session()
    session.user("u1", "one")
    session.assistant("a1", call("c1"), message="m-1")
    session.result("u2", "c1")
    session.assistant("a2", text("done"), message="m-2")
    session.user("u3", "two")
    session.assistant("a3", text("cut"), message="m-3", stop="max_tokens")
    _, thread = bring_in(store, session)
    said = {event.position: getattr(event.body, "text", "") for event in nodes(thread)}
    ends = [(said[event.body.node], event.body.state) for event in thread.events(types=("turn.ended",))]
    assert ends == [("done", "done"), ("cut", "incomplete")]


def test_a_response_that_may_go_on_ends_no_turn_yet(store: Store) -> None:
    session = Session()
    session.user("u1", "one")
    session.assistant("a1", text("Let me see."))
    _, thread = bring_in(store, session)
    assert "turn.ended" not in counts(thread)
    session.assistant("a2", call("c1"), usage={"input_tokens": 10, "output_tokens": 9})
    session.result("u2", "c1")
    _, thread = bring_in(store, session)
    assert "turn.ended" not in counts(thread)
    first, second = thread.events(types=("call.finished",))
    assert second.body.usage == Usage(input=10, output=9)
    assert second.ref("about") == first.position, "what is recorded later speaks of what was recorded first"


def test_an_interruption_ends_the_turn_and_is_not_the_users_word(store: Store) -> None:
    session = Session()
    session.user("u1", "go")
    session.assistant("a1", call("c1"))
    session.result("u2", "c1", "The user doesn't want to proceed with this tool use. Stop.", block={"is_error": True})
    session.user("u3", [text("[Request interrupted by user for tool use]")])
    report, thread = bring_in(store, session)
    assert [(event.body.node, event.body.state) for event in thread.events(types=("turn.ended",))] == [
        (thread.head, "interrupted")
    ]
    assert (report.user_messages, report.harness_messages) == (1, 1)
    assert texts(thread)[2] == "result c1 denied"
    mark = nodes(thread)[-1]
    assert (mark.source.kind, mark.body.steer) == ("host", True)


def test_what_the_program_put_in_is_not_the_users_and_starts_no_turn(store: Store) -> None:
    session = Session()
    session.user("u1", "go")
    session.user("u2", "Caveat: not typed", isMeta=True)
    report, thread = bring_in(store, session)
    assert [(event.source.kind, event.body.steer) for event in nodes(thread)] == [("user", False), ("host", True)]
    assert (report.user_messages, report.harness_messages) == (1, 1)


def test_a_failed_request_is_a_notice_that_ends_the_turn(store: Store) -> None:
    session = Session()
    session.user("u1", "go")
    session.assistant("a1", text("API Error: 529"), message="x", isApiErrorMessage=True)
    report, thread = bring_in(store, session)
    assert texts(thread) == ["user go", "notice API Error: 529"]
    assert [(event.body.state, event.body.error) for event in thread.events(types=("turn.ended",))] == [
        ("error", "API Error: 529")
    ]
    assert report.model_messages == 0


# --- the tree ---


def test_a_rewind_is_a_branch_and_the_last_record_is_active(store: Store) -> None:
    session = Session()
    session.user("u1", "start")
    session.assistant("a1", text("ready"), message="m-1", stop="end_turn")
    session.user("u2", "left")
    session.assistant("a2", text("went left"), message="m-2", stop="end_turn")
    session.user("u3", "right", parent="a1")
    _, thread = bring_in(store, session)
    assert texts(thread) == ["user start", "text ready", "user right"]
    assert len(thread.tree.leaves()) == 2


def test_another_answer_below_the_same_input_is_a_branch(store: Store) -> None:
    session = Session()
    session.user("u1", "start")
    session.assistant("a1", text("one"), message="m-1")
    session.assistant("a2", text("two"), message="m-2", parent="u1")
    _, thread = bring_in(store, session)
    assert texts(thread) == ["user start", "text two"]
    assert len(thread.tree.leaves()) == 2


def test_null_names_the_root_and_no_parent_the_line_before(store: Store) -> None:
    session = Session()
    session.user("u1", "one", parent=None)
    session.user("u2", "two", parent=...)
    session.user("u3", "three", parent=None)
    _, thread = bring_in(store, session)
    assert [event.parent for event in nodes(thread)] == [1, nodes(thread)[0].position, 1]


def test_a_missing_parent_is_reported_and_the_record_before_stands_in(store: Store) -> None:
    session = Session()
    session.user("b-1", "Hello?", parent=None)
    session.user("b-3", "Anyone?", parent="b-2")
    session.assistant("b-4", text("Here."))
    report, thread = bring_in(store, session)
    assert codes(report) == [(2, "missing_parent")]
    assert "b-2" in report.warnings[0].detail
    assert (report.messages, report.lost) == (3, 0)
    assert texts(thread) == ["user Hello?", "user Anyone?", "text Here."]


def test_an_id_met_again_is_skipped_with_the_same_content_and_kept_with_other(store: Store) -> None:
    session = Session()
    session.user("u1", "one")
    session.lines.append(session.lines[0])
    session.user("u1", "uno", parent=None)
    report, thread = bring_in(store, session)
    assert (report.records, report.mapped, report.repeated) == (3, 2, 1)
    assert [event.body.content[0].text for event in nodes(thread)] == ["one", "uno"]
    assert import_file(store, session.data).appended == 0


def test_lines_of_the_chain_that_say_nothing_are_links_not_forks(store: Store) -> None:
    session = Session()
    session.user("u1", "go")
    session.assistant("a1", text("done"), stop="end_turn")
    session.add("system", "h1", subtype="stop_hook_summary", parent="a1")
    session.add("attachment", "x1", attachment={"type": "task_reminder"})
    session.user("u2", "next", parent="x1")
    report, thread = bring_in(store, session)
    assert texts(thread) == ["user go", "text done", "user next"]
    assert (report.kept, len(thread.tree.leaves())) == (2, 1)


def test_what_the_user_typed_while_the_agent_worked_steers_it(store: Store) -> None:
    session = Session()
    session.user("u1", "go")
    session.add("attachment", "x1", attachment={"type": "queued_command", "prompt": "faster", "commandMode": "prompt"})
    report, thread = bring_in(store, session)
    assert texts(thread) == ["user go", "user faster"]
    assert nodes(thread)[1].body.steer
    assert report.user_messages == 2


# --- threads ---


def test_a_thread_says_where_it_comes_from(store: Store) -> None:
    session = Session()
    session.user("u1", "go", cwd="/w", version="2.1.0")
    report, thread = bring_in(store, session)
    body = thread.event(1).body
    assert (body.origin, body.agent, body.cwd, body.source_id) == ("import", "claude-code", "/w", "s-1")
    assert thread.event(1).occurred_at == 1_767_348_000_000_000
    assert store.latest().id == thread.id == report.thread_ids[0]


def test_titles_come_by_rank_and_branch_summaries_only_for_leaves_that_are_here(store: Store) -> None:
    session = Session()
    session.lines.append('{"type":"summary","summary":"Of this branch","leafUuid":"u1"}')
    session.lines.append('{"type":"summary","summary":"Of another file","leafUuid":"zz"}')
    session.user("u1", "go")
    _, thread = bring_in(store, session)
    assert thread.title == "Of this branch"
    session.add("custom-title", None, customTitle="Mine\u0007 own")
    session.add("ai-title", None, aiTitle="Guessed")
    _, thread = bring_in(store, session)
    assert thread.title == "Mine own"
    thread.set_title("named by hand")
    import_file(store, session.data)
    assert thread.title == "named by hand"


def test_a_sub_agent_is_a_thread_of_its_own_linked_to_its_call(store: Store) -> None:
    session = Session()
    session.user("u1", "go")
    session.assistant("a1", call("t1", "Task", prompt="count the files"))
    side: dict[str, Any] = {"isSidechain": True}
    session.user("s1", "count the files", parent=None, **side)
    session.assistant("s2", text("three"), message="m-9", **side)
    session.result("u2", "t1", "three", parent="a1")
    report, thread = bring_in(store, session)
    agent = store.thread("s-1/s1")
    assert texts(thread) == ["user go", "call t1", "result t1 ok"]
    assert texts(agent) == ["user count the files", "text three"]
    parent = agent.event(1).body.parent
    assert (parent.thread, thread.event(parent.call).body.call) == (thread.id, "t1")
    assert (agent.event(1).body.origin, store.row(agent.id).helper, report.threads) == ("subagent", True, 2)
    assert (report.user_messages, report.harness_messages) == (1, 1)
    assert store.latest().id == thread.id


def test_two_side_chains_that_interleave_are_two_threads(store: Store) -> None:
    session = Session()
    session.user("u1", "go")
    side: dict[str, Any] = {"isSidechain": True}
    session.user("s1", "one", parent=None, **side)
    session.user("t1", "two", parent=None, **side)
    session.assistant("s2", text("1"), message="m-1", parent="s1", **side)
    session.assistant("t2", text("2"), message="m-2", parent="t1", **side)
    bring_in(store, session)
    assert texts(store.thread("s-1/s1")) == ["user one", "text 1"]
    assert texts(store.thread("s-1/t1")) == ["user two", "text 2"]


def test_a_sub_agents_own_file_is_linked_by_what_its_call_returned(store: Store) -> None:
    session = Session()
    session.user("u1", "go")
    session.assistant("a1", call("t1", "Task", prompt="look"))
    session.result("u2", "t1", toolUseResult={"agentId": "ab12", "status": "completed", "totalDurationMs": 1500})
    _, thread = bring_in(store, session)
    assert nodes(thread)[-1].body.duration_us == 1_500_000
    agent = Session()
    agent.user("s1", "look", isSidechain=True, agentId="ab12")
    report, agent_thread = bring_in(store, agent)
    assert store.row(agent_thread.id).source_id == "s-1/ab12"
    assert thread.event(agent_thread.event(1).body.parent.call).body.call == "t1"
    assert report.user_messages == 0


def test_the_copy_that_a_compaction_agent_leaves_makes_no_calls(store: Store) -> None:
    agent = Session()
    agent.user("s1", "sum it up", isSidechain=True, agentId="acompact-1")
    agent.assistant("s2", text("a copy"), isSidechain=True, agentId="acompact-1")
    report, thread = bring_in(store, agent)
    assert "call.finished" not in counts(thread)
    assert report.usage == Usage()


def test_records_of_an_earlier_session_in_a_resumed_file_are_the_beginning_of_the_later_one(store: Store) -> None:
    earlier = Session("old")
    earlier.user("u1", "start")
    earlier.assistant("a1", text("ready"), stop="end_turn")
    later = Session("new")
    later.user("u2", "go on", parent="a1")
    import_file(store, earlier.data + later.data)
    thread = store.thread(import_file(store, earlier.data + later.data).thread_ids[1])
    assert texts(thread) == ["user start", "text ready", "user go on"]
    assert texts(store.thread("old")) == ["user start", "text ready"]


# --- compaction ---


def test_a_compaction_is_a_summary_over_the_range_that_it_covered(store: Store) -> None:
    report, thread = bring_in(store, compacted(trigger="auto"))
    assert texts(thread) == ["user start", "call c1", "result c1 ok", "text ready", "user go on"]
    (summary,) = thread.events(types=("summary.added",))
    first, last = nodes(thread)[0].position, nodes(thread)[3].position
    assert (summary.body.first, summary.body.last, summary.body.nodes) == (first, last, 4)
    assert (summary.body.text, summary.body.maker, report.summaries) == ("Summary: started.", "claude-code", 1)
    assert (report.user_messages, report.harness_messages) == (2, 1)


def test_what_a_compaction_left_verbatim_is_not_covered(store: Store) -> None:
    _, thread = bring_in(store, compacted(preservedSegment={"headUuid": "a2", "anchorUuid": "u3", "tailUuid": "a2"}))
    (summary,) = thread.events(types=("summary.added",))
    assert (summary.body.last, summary.body.nodes) == (nodes(thread)[2].position, 3)


def test_a_second_compaction_goes_on_where_the_first_ended(store: Store) -> None:
    session = compacted()
    session.assistant("a4", text("went on"), message="m-4", stop="end_turn")
    session.add("system", "b2", parent=None, logicalParentUuid="a4", subtype="compact_boundary")
    session.user("u5", "Summary: went on.", isCompactSummary=True)
    _, thread = bring_in(store, session)
    _, second = thread.events(types=("summary.added",))
    said = {event.position: text for event, text in zip(nodes(thread), texts(thread), strict=True)}
    assert (said[second.body.first], said[second.body.last]) == ("user go on", "text went on")


def test_a_compaction_that_would_part_a_call_from_its_result_is_kept_and_reported(store: Store) -> None:
    session = Session()
    session.user("u1", "start")
    session.assistant("a1", call("c1"))
    session.add("system", "b1", parent=None, logicalParentUuid="a1", subtype="compact_boundary")
    session.user("u3", "Summary: started.", isCompactSummary=True)
    report, thread = bring_in(store, session)
    assert codes(report) == [(4, "summary_not_closed")]
    assert "summary.added" not in counts(thread)
    assert counts(thread)["record.kept"] == 2


def test_a_summary_of_what_is_not_here_stands_in_its_place(store: Store) -> None:
    session = Session()
    session.user("u1", "This session is continued: ...", parent=None, isCompactSummary=True)
    report, thread = bring_in(store, session)
    assert codes(report) == [(1, "summary_of_nothing")]
    assert texts(thread) == ["user This session is continued: ..."]
    assert nodes(thread)[0].source.kind == "host"


# --- what tools state ---


@pytest.mark.parametrize(
    ("stated", "facts"),
    [
        ({"type": "create", "filePath": "/w/a", "structuredPatch": []}, Facts(path="/w/a", file_changed="/w/a")),
        ({"filePath": "/w/a", "structuredPatch": [{"lines": []}]}, Facts(path="/w/a", file_changed="/w/a")),
        ({"type": "update", "filePath": "/w/a", "structuredPatch": []}, Facts(path="/w/a")),
        ({"type": "text", "file": {"filePath": "/w/a"}}, Facts(path="/w/a")),
        ({"stdout": "x", "stderr": "", "interrupted": False}, None),
        ("Error: no", None),
        ([{"type": "text"}], None),
    ],
)
def test_facts_are_what_the_source_states(store: Store, stated: Any, facts: Facts | None) -> None:
    session = Session()
    session.user("u1", "go")
    session.assistant("a1", call("c1", "Edit", file_path="/w/b"))
    session.result("u2", "c1", toolUseResult=stated)
    _, thread = bring_in(store, session)
    result = nodes(thread)[-1].body
    assert (result.status, result.facts) == ("ok", facts)
    assert json.loads(result.extra)["toolUseResult"] == stated


@pytest.mark.parametrize(
    ("output", "fields", "status", "exit_code"),
    [
        ("Exit code 2\nno such file", {"toolUseResult": "Error: Exit code 2\nno such file"}, "error", 2),
        ("no such tool", {}, "error", None),
        ("[Request interrupted by user for tool use]", {}, "cancelled", None),
    ],
)
def test_a_failure_says_how(
    store: Store, output: str, fields: dict[str, Any], status: str, exit_code: int | None
) -> None:
    session = Session()
    session.user("u1", "go")
    session.assistant("a1", call("c1"))
    session.result("u2", "c1", output, block={"is_error": True}, **fields)
    _, thread = bring_in(store, session)
    result = nodes(thread)[-1].body
    assert (result.status, result.facts and result.facts.exit_code) == (status, exit_code)


def test_pictures_become_attachments(store: Store) -> None:
    data = b"\x89PNG pixels"
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(data).decode()}
    session = Session()
    session.user("u1", [text("look"), {"type": "image", "source": source}])
    session.assistant("a1", call("c1", "Read"))
    session.result("u2", "c1", [{"type": "image", "source": source}, {"type": "tool_reference", "x": 1}])
    _, thread = bring_in(store, session)
    look, picture = nodes(thread)[0].body.content
    assert (look, picture.media_type) == (Text("look"), "image/png")
    assert isinstance(picture, Image)
    assert store.attachment(picture.attachment or "") == data
    result = nodes(thread)[-1]
    assert result.body.form == "blocks"
    assert (picture.attachment or "").encode() in (result.output or b"")


def test_a_picture_that_is_none_is_kept_as_it_is(store: Store) -> None:
    session = Session()
    session.user("u1", [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "?"}}])
    _, thread = bring_in(store, session)
    (block,) = nodes(thread)[0].body.content
    assert isinstance(block, Foreign)


def test_fields_without_a_place_are_kept_as_they_are_spelled(store: Store) -> None:
    line = (
        '{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s-1","timestamp":"2026-01-02T10:00:00Z",'
        '"new":{"b":1.0,"a":[1e3]},"message":{"role":"user","content":"hi","more":0.10}}'
    )
    _, thread = bring_in(store, line.encode())
    node = nodes(thread)[0]
    assert node.body.extra == (
        '{"parentUuid":null,"timestamp":"2026-01-02T10:00:00Z","new":{"b":1.0,"a":[1e3]},'
        '"message":{"more":0.10,"content":""}}'
    )
    assert node.occurred_at == 1_767_348_000_000_000


def test_half_surrogates_and_nul_survive(store: Store) -> None:
    line = (
        '{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s-1",'
        '"message":{"role":"user","content":"a\\ud83d\\u0000b"}}'
    )
    report, thread = bring_in(store, line.encode())
    part = nodes(thread)[0].body.content[0]
    assert (part.text, part.original) == ("a\ufffd\x00b", "a\ud83d\x00b")
    assert (report.lost, report.warnings) == (0, [])


def test_a_doubled_key_is_flagged_and_the_line_is_kept_beside_what_it_means(store: Store) -> None:
    line = (
        '{"type":"user","uuid":"u1","cwd":"/a","cwd":"/b","parentUuid":null,"sessionId":"s-1",'
        '"message":{"role":"user","content":"hi"}}'
    )
    report, thread = bring_in(store, line.encode())
    assert codes(report) == [(1, "doubled_key")]
    assert thread.event(1).body.cwd == "/b"
    assert [event.body.record for event in thread.events(types=("record.kept",))] == [line]


def test_the_form_is_told_by_its_lines() -> None:
    session = Session()
    session.user("u1", "hi")
    assert detect_format(session.data) == "claude-code"
    assert detect_format(b'{"type":"summary","summary":"x","leafUuid":"y"}\n') == "claude-code"
    assert detect_format(b'{"type":"session","version":3,"id":"x"}\n') != "claude-code"
    assert detect_format(b'{"timestamp":"x","type":"session_meta","payload":{}}\n') != "claude-code"
