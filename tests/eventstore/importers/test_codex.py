"""Codex rollouts: the recorded file by its counts, the three outer forms, and every trap of the form."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

import convlog
from convlog.eventstore.events import Event, Facts, Foreign, Image, Text, Usage
from convlog.eventstore.importers import ImportReport, detect_format, import_file
from convlog.eventstore.store import Store
from convlog.eventstore.thread import Thread
from convlog.projections.views import view
from tests.eventstore.importers.imported import codes, ends, nodes, said, shape, texts
from tests.eventstore.importers.rollouts import Rollout, compacted
from tests.recorded import recorded


def bring_in(store: Store, source: Rollout | bytes) -> tuple[ImportReport, Thread]:
    report = import_file(store, source if isinstance(source, bytes) else source.data, format="codex")
    return report, store.thread(report.thread_ids[0])


def kept(thread: Thread) -> list[str]:
    return [event.body.record for event in thread.events(types=("record.kept",))]


def responses(thread: Thread) -> list[list[str]]:
    """Give the nodes of each response, in a word."""
    found: dict[str, list[str]] = {}
    for event in nodes(thread):
        if event.type in {"segment.added", "tool.called"}:
            found.setdefault(event.body.response, []).append(said(event))
    return list(found.values())


def usage_of(thread: Thread) -> list[Usage | None]:
    return [event.body.usage for event in thread.events(types=("call.finished",))]


# --- the recorded file ---


def test_the_recorded_rollout_has_the_counts_of_a_hand_count(store: Store) -> None:
    report = import_file(store, recorded("codex-real.jsonl"))
    # 209 lines: 2 inputs, 33 reasoning, 34 calls, 34 outputs and 1 message are items; 1 header, 35 contexts,
    # 35 token counts, 32 thoughts and 2 messages said again are kept.
    assert (report.records, report.mapped, report.kept, report.lost) == (209, 104, 105, 0)
    assert (report.user_messages, report.harness_messages, report.model_messages) == (1, 1, 35)
    assert (report.reasoning, report.tool_calls, report.tool_results, report.threads) == (33, 34, 34, 1)
    assert report.warnings == []
    # What the last line's total says, the cached part of the input apart.
    assert report.usage == Usage(input=536_834 - 472_320, cache_read=472_320, output=6654, reasoning=4096)


def test_the_recorded_rollout_is_one_line_of_paired_calls_that_ends_done(store: Store) -> None:
    _, thread = bring_in(store, recorded("codex-real.jsonl").read_bytes())
    assert len(thread.tree.leaves()) == 1
    assert thread.head == nodes(thread)[-1].position
    answers = [event for event in nodes(thread) if event.type == "tool.returned"]
    assert all(thread.event(event.ref("answers") or 0).body.call == event.body.call for event in answers)
    assert {event.body.facts.exit_code for event in answers} == {0}
    assert [event.body.state for event in thread.events(types=("turn.ended",))] == ["done"]
    body = thread.event(1).body
    assert (body.agent, body.source_id) == ("codex", "019982b8-3422-79e0-8b3b-05abaf4f3c3e")
    assert body.cwd.endswith("/spectora-labs-monorepo-v2")
    sealed = [event.body for event in nodes(thread) if event.type == "segment.added" and event.body.kind == "reasoning"]
    assert all(body.signature.startswith("gAAAA") for body in sealed)


def test_turn_memory_of_the_recorded_rollout_is_right_by_hand() -> None:
    with convlog.open(":memory:") as store:
        thread = store.thread(import_file(store, recorded("codex-real.jsonl")).thread_ids[0])
        kept = [piece for piece in view(thread, "turn-memory@6") if piece.provenance == "turn-memory"]
    said = [piece.element for piece in kept if piece.role == "assistant"]
    # 34 calls of the one turn, all of which left with exit code 0, then the answer in words.
    assert [getattr(element, "name", "") for element in said] == ["shell"] * 34 + [""]
    assert [getattr(element, "input", "") for element in said] == ["{}"] * 34 + [""]
    ended = [piece.element for piece in kept if piece.role == "tool"]
    assert [part.text for element in ended for part in element.content] == ['{"status":"success"}'] * 34
    assert said[-1].text.startswith("**Findings**\n- `@repo/services` wraps Supabase CRUD with shared hooks")


def test_importing_the_recorded_rollout_twice_appends_nothing(store: Store) -> None:
    path = recorded("codex-real.jsonl")
    first, before = import_file(store, path), shape(store)
    second = import_file(store, path)
    assert (second.appended, second.counts(), second.usage) == (0, first.counts(), first.usage)
    assert shape(store) == before


# --- what was said ---


def test_a_user_turn_that_is_written_twice_is_one_input(store: Store) -> None:
    rollout = Rollout()
    rollout.user("hey")
    rollout.event("user_message", message="hey")
    rollout.event("agent_message", message="ho")
    rollout.says("ho")
    rollout.user("hey")
    rollout.event("user_message", message="hey")
    report, thread = bring_in(store, rollout)
    assert texts(thread) == ["user hey", "text ho", "user hey"]
    assert (report.user_messages, report.model_messages, report.kept) == (2, 1, 4)
    assert [event.source.kind for event in nodes(thread)] == ["user", "model", "user"]


@pytest.mark.parametrize(
    "text", ["<environment_context>\n<cwd>/w</cwd>", "# AGENTS.md instructions for /w\n", "<turn_aborted>\nx"]
)
def test_what_the_program_put_in_is_not_the_users_word(store: Store, text: str) -> None:
    rollout = Rollout()
    rollout.user(text)
    rollout.item("message", role="developer", content=[{"type": "input_text", "text": "be brief"}])
    report, thread = bring_in(store, rollout)
    wrapped, told = nodes(thread)
    assert (wrapped.source.kind, wrapped.body.steer, wrapped.body.role) == ("host", True, "user")
    assert (told.source.kind, told.body.role, told.body.extra) == ("host", "system", '{"payload":{"role":"developer"}}')
    assert (report.user_messages, report.harness_messages) == (0, 2)


def test_base_instructions_are_what_the_model_was_told(store: Store) -> None:
    rollout = Rollout(base_instructions={"text": "You are careful."}, git={"branch": "main"})
    rollout.user("go")
    _, thread = bring_in(store, rollout)
    told = nodes(thread)[0]
    assert (told.type, told.body.parts[0].text) == ("instructions.set", "You are careful.")
    assert json.loads(told.body.extra)["payload"]["git"] == {"branch": "main"}
    assert kept(thread) == []


def test_reasoning_keeps_its_seal_and_its_summary(store: Store) -> None:
    rollout = Rollout()
    rollout.user("go")
    rollout.add("turn_context", {"model": "gpt-x"})
    rollout.thinks("hm", "c2VhbA", id="rs_1")
    two = [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]
    rollout.item("reasoning", summary=two, encrypted_content=None)
    rollout.item("reasoning", summary=[], content=[{"type": "reasoning_text", "text": "raw"}])
    rollout.says("so", id="msg_1")
    report, thread = bring_in(store, rollout)
    hm, both, raw, so = nodes(thread)[1:]
    assert (hm.body.text, hm.body.signature, hm.body.item) == ("hm", "c2VhbA", "rs_1")
    assert (hm.source.provider, hm.source.model) == ("openai", "gpt-x")
    assert (both.body.text, json.loads(both.body.extra)["payload"]) == (
        "a\n\nb",
        {"encrypted_content": None, "summary": two},
    )
    assert (raw.body.text, json.loads(raw.body.extra)["payload"]["summary"]) == ("raw", [])
    assert (so.body.item, so.body.needs, report.reasoning) == ("msg_1", "rs_1", 3)


def test_calls_of_every_kind_are_paired_with_their_outputs(store: Store) -> None:
    patch = "*** Begin Patch\n*** Add File: a\n*** End Patch"
    rollout = Rollout()
    rollout.user("go")
    rollout.item("custom_tool_call", call_id="c1", name="apply_patch", input=patch, status="completed")
    rollout.item("custom_tool_call_output", call_id="c1", output="Success. Updated the following files:\nA a\nM b\n")
    rollout.item("local_shell_call", call_id="c2", status="completed", action={"type": "exec", "command": ["ls"]})
    rollout.returns("c2", [{"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": "https://x/y"}])
    rollout.item("web_search_call", status="completed", action={"type": "search", "query": "q"})
    rollout.calls("c3", "search", namespace="mcp__docs__", arguments={})
    rollout.returns("c3", {"content": "no", "success": False})
    report, thread = bring_in(store, rollout)
    by_call = {event.body.call: event for event in nodes(thread) if event.type == "tool.called"}
    assert (by_call["c1"].body.kind, by_call["c1"].body.input) == ("custom", patch)
    assert (by_call["c2"].body.name, by_call["c2"].body.input) == (
        "local_shell",
        '{"type": "exec", "command": ["ls"]}',
    )
    (search,) = [event for event in by_call.values() if event.body.kind == "server"]
    assert (search.body.name, json.loads(search.body.opaque)["type"]) == ("web_search", "web_search_call")
    assert by_call["c3"].body.server == "docs"
    results = {event.body.call: event for event in nodes(thread) if event.type == "tool.returned"}
    assert results["c1"].body.facts == Facts(path="a, b", file_changed="a, b")
    assert results["c2"].body.form == "blocks"
    assert (results["c3"].body.status, results["c3"].output) == ("error", b"no")
    assert (report.tool_calls, report.tool_results, report.warnings) == (4, 3, [])


@pytest.mark.parametrize(
    ("output", "status", "facts", "duration"),
    [
        ('{"output":"no","metadata":{"exit_code":2,"duration_seconds":0.5}}', "ok", Facts(exit_code=2), 500_000),
        ("Exit code: 1\nWall time: 1.5 seconds\nOutput:\nno", "ok", Facts(exit_code=1), 1_500_000),
        (
            "Chunk ID: 3\nWall time: 0.2500 seconds\nProcess exited with code 0\nOriginal token count: 7\nOutput:\nok",
            *("ok", Facts(exit_code=0), 250_000),
        ),
        ("Wall time: 0.1 seconds\nProcess running with session ID 7\nOutput:\n", "ok", None, 100_000),
        ("exec command rejected by user", "denied", None, None),
        ("aborted by user after 3.2s", "cancelled", None, None),
        ("aborted", "cancelled", None, None),
        ("unsupported call: nope", "error", None, None),
        ("Exit code: nothing", "ok", None, None),
        ('{"output":"x","metadata":', "ok", None, None),
        ("plain", "ok", None, None),
    ],
)
def test_an_output_says_how_its_call_ended(
    store: Store, output: str, status: str, facts: Facts | None, duration: int | None
) -> None:
    rollout = Rollout()
    rollout.user("go")
    rollout.calls("c1")
    rollout.returns("c1", output)
    _, thread = bring_in(store, rollout)
    result = nodes(thread)[-1]
    assert (result.body.status, result.body.facts, result.body.duration_us) == (status, facts, duration)
    assert result.output == output.encode()


def test_pictures_become_attachments(store: Store) -> None:
    pixels = b"\x89PNG pixels"
    url = f"data:image/png;base64,{base64.b64encode(pixels).decode()}"
    rollout = Rollout()
    content = [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": url, "detail": "high"},
        {"type": "input_image", "image_url": "data:image/png;base64,???"},
    ]
    rollout.item("message", role="user", content=content)
    _, thread = bring_in(store, rollout)
    look, picture, odd = nodes(thread)[0].body.content
    assert look == Text("look")
    assert isinstance(picture, Image)
    assert (picture.media_type, picture.extra) == ("image/png", '{"detail":"high"}')
    assert store.attachment(picture.attachment or "") == pixels
    assert isinstance(odd, Foreign)


# --- responses and turns ---


def test_tokens_before_and_behind_their_items_are_counted_once(store: Store) -> None:
    older, newer = Rollout("older"), Rollout("newer")
    for rollout, comes_first in ((older, True), (newer, False)):
        rollout.user("go")
        rollout.add("turn_context", {"model": "m"})
        if comes_first:
            rollout.tokens(1, 1)
        rollout.thinks("hm")
        rollout.calls("c1")
        rollout.calls("c2")
        if not comes_first:
            rollout.tokens(1, 1)
        rollout.returns("c1")
        rollout.returns("c2")
        if comes_first:
            rollout.tokens(3, 2)
        rollout.says("done")
        if not comes_first:
            rollout.tokens(3, 2)
            rollout.tokens(3, 2)
        report, thread = bring_in(store, rollout)
        assert responses(thread) == [["reasoning hm", "call c1", "call c2"], ["text done"]]
        assert [found.output if found else None for found in usage_of(thread)] == [2, 4]
        assert report.usage == Usage(input=18, cache_read=12, output=6, reasoning=3)
        assert ends(thread) == [("text done", "done")]
        assert [event.body.stop for event in thread.events(types=("call.finished",))][-1] == "completed"


def test_tokens_without_the_last_ones_are_the_difference(store: Store) -> None:
    rollout = Rollout()
    rollout.user("go")
    rollout.says("one")
    rollout.tokens(2)
    rollout.user("on")
    rollout.says("two")
    rollout.tokens(5)
    _, thread = bring_in(store, rollout)
    assert [found.output if found else None for found in usage_of(thread)] == [4, 6]


@pytest.mark.parametrize("info", [None, {}, {"total_token_usage": {"input_tokens": -1}}, {"total_token_usage": 7}])
def test_odd_counts_of_tokens_are_kept_and_counted_for_nothing(store: Store, info: Any) -> None:
    rollout = Rollout()
    rollout.user("go")
    rollout.says("one")
    rollout.event("token_count", info=info)
    report, thread = bring_in(store, rollout)
    assert report.usage == Usage()
    assert codes(report) == ([(4, "odd_usage")] if info else [])
    assert usage_of(thread) == [None]


def test_outputs_between_the_calls_of_one_response_part_nothing(store: Store) -> None:
    rollout = Rollout()
    rollout.user("go")
    rollout.tokens(1, 1)
    rollout.calls("c1", at=5.000)
    rollout.returns("c1", at=5.001)
    rollout.calls("c2", at=5.001)
    rollout.returns("c2", at=5.002)
    rollout.calls("c3", at=9)
    _, thread = bring_in(store, rollout)
    assert responses(thread) == [["call c1", "call c2"], ["call c3"]]


def test_a_call_without_an_output_is_normal(store: Store) -> None:
    rollout = Rollout()
    rollout.user("go")
    rollout.calls("c1")
    rollout.event("turn_aborted", reason="interrupted")
    rollout.user("stop that")
    report, thread = bring_in(store, rollout)
    assert texts(thread) == ["user go", "call c1", "user stop that"]
    assert ends(thread) == [("call c1", "interrupted")]
    assert report.warnings == []


def test_the_source_says_when_a_turn_ends(store: Store) -> None:
    rollout = Rollout()
    for state in ("task_complete", "turn_aborted", "error"):
        rollout.event("task_started", turn_id="1")
        rollout.user(state)
        rollout.event(state, message="bad luck")
        rollout.event("task_complete")
    _, thread = bring_in(store, rollout)
    assert ends(thread) == [
        *(("user task_complete", "done"), ("user turn_aborted", "interrupted"), ("user error", "error"))
    ]
    assert [event.body.error for event in thread.events(types=("turn.ended",))][-1] == "bad luck"


def test_an_input_into_a_running_turn_steers_it(store: Store) -> None:
    rollout = Rollout()
    rollout.event("task_started", turn_id="1")
    rollout.user("go")
    rollout.calls("c1")
    rollout.user("faster")
    rollout.event("task_complete", turn_id="1")
    rollout.user("next")
    _, thread = bring_in(store, rollout)
    assert [event.body.steer for event in nodes(thread) if event.type == "input.added"] == [False, True, False]


def test_a_rollback_leaves_the_last_turns_as_a_branch(store: Store) -> None:
    rollout = Rollout()
    for text in ("one", "two", "three"):
        rollout.user(text)
        rollout.says(f"to {text}")
    rollout.event("thread_rolled_back", num_turns=2)
    _, thread = bring_in(store, rollout)
    assert texts(thread) == ["user one", "text to one"], "the active leaf is where the program would go on"
    rollout.user("four")
    _, thread = bring_in(store, rollout)
    assert texts(thread) == ["user one", "text to one", "user four"]
    assert len(thread.tree.leaves()) == 2
    rollout.event("thread_rolled_back", num_turns=9)
    rollout.user("anew")
    _, thread = bring_in(store, rollout)
    assert texts(thread) == ["user anew"]
    assert bring_in(store, rollout)[0].appended == 0


# --- compaction ---


def summaries(thread: Thread) -> list[Event]:
    return list(thread.events(types=("summary.added",)))


def test_a_compaction_without_a_replacement_is_a_summary_of_what_came_before(store: Store) -> None:
    report, thread = bring_in(store, compacted(message="We started."))
    (summary,) = summaries(thread)
    first, last = nodes(thread)[0].position, nodes(thread)[3].position
    assert (summary.body.first, summary.body.last, summary.body.nodes) == (first, last, 4)
    assert (summary.body.text, summary.body.maker, report.summaries) == ("We started.", "codex", 1)
    assert texts(thread) == ["user start", "call c1", "result c1 ok", "text ready", "user go on"]


def test_a_replacement_names_what_stood_before_and_ends_with_the_summary(store: Store) -> None:
    start = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "start" + "t" * 99}]}
    long = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Summary: " + "x" * 99}]}
    rollout = compacted(message="", replacement_history=[start, long], window_number=2)
    rollout.lines[1] = rollout.lines[1].replace("start", "start" + "t" * 99)
    _, thread = bring_in(store, rollout)
    (summary,) = summaries(thread)
    assert summary.body.text == "Summary: " + "x" * 99
    over = json.loads(summary.body.extra)["payload"]
    named, whole = over["replacement_history"]
    assert (whole, over["window_number"], over["message"]) == (long, 2, "")
    assert (nodes(thread)[0].key or "").startswith(f"{named['record']}/")


def test_a_sealed_replacement_is_kept_and_reported(store: Store) -> None:
    sealed = {"type": "compaction", "encrypted_content": "gAAAA"}
    report, thread = bring_in(store, compacted(message="", replacement_history=[sealed]))
    assert codes(report) == [(6, "sealed_summary")]
    assert summaries(thread) == []
    assert any("gAAAA" in record for record in kept(thread))


def test_a_second_compaction_covers_what_came_after_the_first(store: Store) -> None:
    rollout = compacted(message="We started.")
    rollout.says("went on")
    rollout.add("compacted", {"message": "We went on."})
    _, thread = bring_in(store, rollout)
    _, second = summaries(thread)
    said = {event.position: words for event, words in zip(nodes(thread), texts(thread), strict=True)}
    assert (said[second.body.first], said[second.body.last]) == ("user go on", "text went on")


def test_a_compaction_of_nothing_or_inside_a_call_is_kept_and_reported(store: Store) -> None:
    nothing = Rollout("a")
    nothing.add("compacted", {"message": "of nothing"})
    report, thread = bring_in(store, nothing)
    assert (codes(report), len(kept(thread))) == ([(2, "summary_of_nothing")], 2)
    inside = Rollout("b")
    inside.user("go")
    inside.calls("c1")
    inside.add("compacted", {"message": "too early"})
    report, thread = bring_in(store, inside)
    assert (codes(report), len(kept(thread))) == ([(4, "summary_not_closed")], 2)


# --- threads ---


def test_a_fork_is_a_thread_that_counts_nothing_of_what_it_copied(store: Store) -> None:
    parent = Rollout("parent")
    parent.user("start")
    parent.says("ready")
    parent.tokens(1, 1)
    child = Rollout("child", forked_from_id="parent", timestamp=Rollout.time(100))
    child.lines += parent.lines
    child.user("elsewhere", at=110)
    child.says("here", at=111)
    child.tokens(3, 2, at=111)
    bring_in(store, parent)
    report, thread = bring_in(store, child)
    assert store.row(thread.id).source_id == "child"
    assert texts(thread) == ["user start", "text ready", "user elsewhere", "text here"]
    assert thread.event(1).body.labels == {"forked_from": "parent"}
    assert [found.output if found else None for found in usage_of(thread)] == [4]
    assert report.usage == Usage(input=12, cache_read=8, output=4, reasoning=2)


def test_a_sub_agent_is_linked_to_the_call_that_made_it(store: Store) -> None:
    parent = Rollout("parent")
    parent.user("go")
    parent.calls("c1", "spawn_agent")
    parent.returns("c1", '{"agent_id":"child"}')
    agent = Rollout("child", source={"subagent": {"thread_spawn": {"parent_thread_id": "parent", "depth": 1}}})
    agent.user("look")
    agent.says("seen")
    _, thread = bring_in(store, parent)
    report, agent_thread = bring_in(store, agent)
    body = agent_thread.event(1).body
    assert (body.origin, body.parent.thread) == ("subagent", thread.id)
    assert thread.event(body.parent.call).body.call == "c1"
    assert (report.user_messages, nodes(agent_thread)[0].source.kind) == (0, "model")


def test_a_name_that_was_given_is_the_title(store: Store) -> None:
    rollout = Rollout()
    rollout.user("go")
    rollout.event("thread_name_updated", thread_name="My thread")
    assert bring_in(store, rollout)[1].title == "My thread"


# --- the older forms ---


def bare() -> Rollout:
    rollout = Rollout(bare=True, git={"branch": "main"})
    rollout.lines.append('{"record_type":"state"}')
    rollout.user("<environment_context>\n  <cwd>/w/x</cwd>\n</environment_context>")
    rollout.user("continue", id=None)
    rollout.thinks("hm")
    rollout.calls("c1")
    rollout.returns("c1")
    rollout.lines.append('{"record_type":"state"}')
    rollout.says("done")
    rollout.user("continue", id=None)
    return rollout


def test_bare_lines_are_items_and_equal_ones_are_not_one(store: Store) -> None:
    report, thread = bring_in(store, bare())
    assert texts(thread)[1:] == [
        *("user continue", "reasoning hm", "call c1", "result c1 ok", "text done", "user continue")
    ]
    assert (report.records, report.mapped, report.kept, report.lost) == (10, 7, 3, 0)
    body = thread.event(1).body
    assert (body.cwd, body.source_id, body.labels) == ("/w/x", "0190-aaaa", {"form": "bare"})
    assert responses(thread) == [["reasoning hm", "call c1"], ["text done"]]
    assert kept(thread).count('{"record_type":"state"}') == 2
    assert bring_in(store, bare())[0].appended == 0


def test_a_document_of_items_says_the_same(store: Store) -> None:
    items = [json.loads(line) for line in bare().lines[2:] if "record_type" not in line]
    session = {"timestamp": Rollout.time(0), "id": "0190-bbbb", "instructions": ""}
    document = json.dumps({"session": session, "items": items}, indent=2).encode()
    report, thread = bring_in(store, document)
    other = bring_in(store, bare())[1]
    assert texts(thread) == texts(other)
    assert (thread.event(1).body.cwd, thread.event(1).body.labels) == ("/w/x", {"form": "document"})
    assert (report.records, report.mapped, report.kept) == (8, 7, 1)
    assert import_file(store, document).appended == 0


# --- fields without a place ---


def test_fields_without_a_place_are_kept_as_they_are_spelled(store: Store) -> None:
    line = (
        '{"timestamp":"2026-01-02T10:00:00Z","ordinal":7,"type":"response_item","payload":{"type":"message",'
        '"role":"assistant","content":[{"type":"output_text","text":"hi","annotations":[1.50]}],"phase":"final"}}'
    )
    _, thread = bring_in(store, (Rollout().lines[0] + "\n" + line).encode())
    assert nodes(thread)[0].body.extra == (
        '{"timestamp":"2026-01-02T10:00:00Z","ordinal":7,'
        '"payload":{"phase":"final","content":[{"annotations":[1.50]}]}}'
    )


def test_half_surrogates_and_nul_survive(store: Store) -> None:
    line = '{"type":"message","role":"user","content":[{"type":"input_text","text":"a\\ud83d\\u0000b"}]}'
    _, thread = bring_in(store, (Rollout(bare=True).lines[0] + "\n" + line).encode())
    part = nodes(thread)[0].body.content[0]
    assert (part.text, part.original) == ("a\ufffd\x00b", "a\ud83d\x00b")


def test_unknown_kinds_are_kept(store: Store) -> None:
    rollout = Rollout()
    rollout.add("world_state", {"full": True, "state": {}})
    rollout.item("brand_new", x=1)
    rollout.item("function_call", name="no id", arguments="{}")
    rollout.add("event_msg", None)
    rollout.lines += ["42", "null", '{"type":"response_item"}']
    report, thread = bring_in(store, rollout)
    assert (report.records, report.kept, report.lost) == (8, 8, 0)
    assert codes(report) == [
        *((3, "unknown_item"), (4, "unknown_item"), (6, "not_object"), (7, "not_object"), (8, "unknown_item"))
    ]
    assert len(kept(thread)) == 8


# --- damage ---


def test_damage_is_reported_by_its_line(store: Store) -> None:
    rollout = Rollout()
    rollout.lines.append("{bad")
    rollout.user("o@e")
    rollout.says("two")
    rollout.lines[2:] = [rollout.lines[3] + rollout.lines[2]]
    report, thread = bring_in(store, rollout.data.replace(b"@", b"\xff") + b'{"timestamp":"x","type')
    assert codes(report) == [(2, "bad_line"), (3, "welded_record"), (4, "torn_tail")]
    assert (report.lost, texts(thread)) == (2, ["text two", "user o\ufffde"])


def test_a_result_of_no_call_and_a_second_result_are_kept_and_reported(store: Store) -> None:
    rollout = Rollout()
    rollout.user("go")
    rollout.returns("nobody")
    rollout.calls("c1")
    rollout.returns("c1")
    rollout.returns("c1", "again")
    report, thread = bring_in(store, rollout)
    assert codes(report) == [(3, "stray_result"), (6, "stray_result")]
    assert len(nodes(thread)) == 5


def test_the_form_is_told_by_its_lines() -> None:
    assert detect_format(Rollout().data) == "codex"
    assert detect_format(bare().data) == "codex"
    assert detect_format(b'{"record_type":"state"}\n') == "codex"
    assert detect_format(json.dumps({"session": {"id": "x"}, "items": []}).encode()) == "codex"
    assert detect_format(b'{"type":"message","id":"a","parentId":null,"message":{}}\n') != "codex"
    assert detect_format(b'{"type":"user","uuid":"u","message":{"role":"user"}}\n') != "codex"


def test_the_last_time_of_the_user_orders_a_folder(store: Store, tmp_path: Path) -> None:
    from convlog.eventstore.importers import import_path

    folder = tmp_path / "sessions"
    folder.mkdir()
    for name, at in (("b", 5), ("a", 50)):
        rollout = Rollout(name)
        rollout.user("hi", at=at)
        (folder / f"{name}.jsonl").write_bytes(rollout.data)
    assert [Path(row.path).name for row in import_path(store, folder)] == ["b.jsonl", "a.jsonl"]
    assert store.row(store.latest().id).source_id == "a"
