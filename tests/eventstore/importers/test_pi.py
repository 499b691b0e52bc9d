"""pi sessions: the recorded file by its counts, the four forms, compaction, and every trap of the form."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

import convlog
from convlog.eventstore.events import Facts, Image, Text, Usage
from convlog.eventstore.importers import ImportReport, detect_format, import_file
from convlog.eventstore.store import Store
from convlog.eventstore.thread import Thread
from convlog.projections.views import view
from tests.eventstore.importers.imported import codes, counts, log_texts, nodes, texts
from tests.eventstore.importers.pi_sessions import MS, TIME, USAGE, Session, call, compacted, text
from tests.recorded import recorded


def bring_in(store: Store, source: Session | bytes) -> tuple[ImportReport, Thread]:
    report = import_file(store, source if isinstance(source, bytes) else source.data, format="pi")
    return report, store.thread(report.thread_ids[0])


def ends(thread: Thread) -> list[tuple[int, str]]:
    return [(event.body.node, event.body.state) for event in thread.events(types=("turn.ended",))]


def summaries(thread: Thread) -> list[tuple[str, str, str]]:
    """Give what each summary covers, by its first and last node, and its text."""
    said = {event.position: words for event, words in zip(nodes(thread), log_texts(thread), strict=True)}
    found = thread.events(types=("summary.added",))
    return [(said[event.body.first], said[event.body.last], event.body.text) for event in found]


# --- the recorded file ---


def test_the_recorded_session_has_the_counts_of_a_hand_count(store: Store) -> None:
    path = recorded("pi-real.jsonl")
    report = import_file(store, path)
    assert (report.format, report.records, report.mapped, report.kept, report.lost) == ("pi", 1019, 914, 105, 0)
    assert (report.user_messages, report.harness_messages, report.model_messages) == (88, 0, 453)
    assert (report.tool_calls, report.tool_results, report.reasoning, report.threads) == (391, 373, 1, 1)
    assert report.usage == Usage(input=1049, cache_read=43_229_469, cache_write=4_296_232, output=83_156)
    assert report.warnings == []
    thread = store.thread(report.thread_ids[0])
    finished = [event.body for event in thread.events(types=("call.finished",))]
    assert sum(body.stop == "aborted" for body in finished) == 21
    assert {body.provider for body in finished} == {"anthropic", "openai"}
    assert len(thread.tree.leaves()) == 1
    assert thread.head == nodes(thread)[-1].position
    calls = {event.position: event.body.call for event in nodes(thread) if event.type == "tool.called"}
    answers = {event.ref("answers"): event.body.call for event in nodes(thread) if event.type == "tool.returned"}
    assert len(answers) == 373
    assert all(calls[position] == name for position, name in answers.items() if position is not None)
    assert import_file(store, path).appended == 0


def test_the_recorded_session_states_which_files_its_edits_changed(store: Store) -> None:
    thread = store.thread(import_file(store, recorded("pi-real.jsonl")).thread_ids[0])
    facts = [event.body.facts for event in nodes(thread) if event.type == "tool.returned" and event.body.facts]
    assert sum(fact.file_changed is not None for fact in facts) == 128
    assert sum(fact.exit_code is not None for fact in facts) == 17
    assert [fact.path for fact in facts if fact.path and not fact.file_changed] == [
        *("packages/tui/test/test-themes.ts", "packages/tui/test/truncated-text.test.ts"),
        "packages/coding-agent/test/test-theme-colors.ts",
    ]


def test_turn_memory_of_the_recorded_session_is_right_by_hand() -> None:
    with convlog.open(":memory:") as store:
        thread = store.thread(import_file(store, recorded("pi-real.jsonl")).thread_ids[0])
        third = [event.position for event in nodes(thread) if event.type == "input.added"][2:4]
        pieces = [piece for piece in view(thread, "turn-memory@6") if third[0] < min(piece.sources or (0,)) < third[1]]
    file = "packages/coding-agent/src/tui/user-message-selector.ts"
    calls = [piece.element.name for piece in pieces if hasattr(piece.element, "input")]
    results = [piece.element.content[0].text for piece in pieces if piece.role == "tool"]
    assert calls == ["read", "edit", "edit", "edit"]
    assert results == ['{"status":"success"}', *[f'{{"status":"success","file_changed":"{file}"}}'] * 3]


# --- messages ---


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_every_form_gives_the_same_talk(store: Store, version: int) -> None:
    session = Session(version)
    session.user("u1", "List the files")
    session.assistant("a1", text("Looking."), call("c1", command="ls"), stop="toolUse")
    session.result("r1", "c1", "a.txt")
    session.assistant("a2", text("One file."))
    report, thread = bring_in(store, session)
    assert texts(thread) == ["user List the files", "text Looking.", "call c1", "result c1 ok", "text One file."]
    assert (report.records, report.mapped, report.kept, report.lost) == (5, 4, 1, 0)
    assert report.usage == Usage(input=20, cache_read=6, cache_write=4, output=10)
    created = thread.event(1)
    assert (created.body.agent, created.body.cwd, created.body.source_id) == ("pi", "/w", "s-1")
    assert created.occurred_at == nodes(thread)[0].occurred_at == MS * 1000
    assert ends(thread) == [(thread.head, "done")]
    assert counts(thread)["call.finished"] == 2
    assert detect_format(session.data) == "pi"
    assert import_file(store, session.data).appended == 0


def test_what_has_no_place_is_kept(store: Store) -> None:
    session = Session(4)
    session.user("u1", [text("hi", new=1.50)], odd={"b": 1, "a": [2]})
    session.assistant("a1", text("yo", textSignature="t"), usage=USAGE | {"more": 1})
    _, thread = bring_in(store, session)
    user, answer = (json.loads(event.body.extra) for event in nodes(thread))
    assert user == {
        "kind": "entry",
        "lane": "main",
        "entry": {
            "parentId": None,
            "seq": 1,
            "timestamp": MS,
            "odd": {"b": 1, "a": [2]},
            "message": {"timestamp": MS, "blocks": [{"new": 1.5}]},
        },
    }
    assert answer["entry"]["message"]["usage"] == USAGE | {"more": 1}
    assert answer["block"] == {"textSignature": "t"}


def test_content_that_is_one_text_says_so(store: Store) -> None:
    session = Session()
    session.user("u1", "hi")
    _, thread = bring_in(store, session)
    assert json.loads(nodes(thread)[0].body.extra) == {"parentId": None, "message": {"timestamp": MS, "content": ""}}


@pytest.mark.parametrize(
    ("stop", "state"), [("length", "incomplete"), ("error", "error"), ("aborted", "interrupted"), ("stop", "done")]
)
def test_a_turn_ends_as_its_last_response_stopped(store: Store, stop: str, state: str) -> None:
    session = Session()
    session.user("u1", "go")
    session.assistant("a1", stop=stop, error="because" if stop != "stop" else None)
    report, thread = bring_in(store, session)
    assert texts(thread) == ["user go", "text "]
    assert ends(thread) == [(thread.head, state)]
    assert report.model_messages == 1
    (finished,) = thread.events(types=("call.finished",))
    assert (finished.body.stop, finished.body.error) == (stop, "because" if stop != "stop" else None)


def test_an_aborted_response_with_calls_ends_the_turn(store: Store) -> None:
    session = Session()
    session.user("u1", "go")
    session.assistant("a1", call("c1") | {"partialJson": '{"a'}, stop="aborted")
    _, thread = bring_in(store, session)
    assert ends(thread) == [(thread.head, "interrupted")]
    assert json.loads(nodes(thread)[1].body.extra)["block"] == {"partialJson": '{"a'}


def test_reasoning_keeps_its_seal_and_a_providers_own_item(store: Store) -> None:
    item = '{"type":"reasoning","id":"rs_1","encrypted_content":"x"}'
    session = Session()
    session.assistant(
        "a1",
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"},
        {"type": "thinking", "thinking": "", "thinkingSignature": item},
        {"type": "toolCall", "id": "c1", "name": "f", "arguments": None, "thoughtSignature": "t"},
        {"type": "strange", "x": 1},
        stop="toolUse",
    )
    report, thread = bring_in(store, session)
    hm, own, asked, strange = (event.body for event in nodes(thread))
    assert (hm.kind, hm.signature, own.opaque, own.signature, report.reasoning) == ("reasoning", "c2ln", item, None, 2)
    assert (asked.input, asked.signature, json.loads(asked.extra)) == ("{}", "t", {"block": {"arguments": None}})
    assert (strange.kind, json.loads(strange.opaque)) == ("opaque", {"type": "strange", "x": 1})
    assert [event.source.provider for event in nodes(thread)] == ["p"] * 4


def test_pictures_become_attachments(store: Store) -> None:
    data = b"\x89PNG pixels"
    picture = {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": "image/png"}
    session = Session()
    session.user("u1", [text("look"), picture])
    session.assistant("a1", call("c1"), stop="toolUse")
    session.result("r1", "c1", [picture])
    _, thread = bring_in(store, session)
    look, image = nodes(thread)[0].body.content
    assert (look, image.media_type) == (Text("look"), "image/png")
    assert isinstance(image, Image)
    assert store.attachment(image.attachment or "") == data
    assert nodes(thread)[2].body.form == "blocks"


@pytest.mark.parametrize(
    ("tool", "said", "more", "status", "facts"),
    [
        ("bash", "oops\n\nCommand exited with code 2", {"isError": True}, "error", Facts(exit_code=2)),
        ("bash", "Command exited with code 2", {}, "ok", None),
        ("bash", "x\nCommand aborted", {"isError": True}, "cancelled", None),
        ("write", "Successfully wrote 3 bytes to a.txt", {}, "ok", Facts(path="a.txt")),
        (
            "edit",
            "Successfully replaced text in a.b.txt.",
            {"details": {"diff": "+x"}},
            "ok",
            Facts(path="a.b.txt", file_changed="a.b.txt"),
        ),
        ("edit", "Successfully replaced 2 block(s) in a.txt.", {}, "ok", Facts(path="a.txt")),
        ("read", "Successfully wrote 3 bytes to a.txt", {}, "ok", None),
    ],
)
def test_facts_are_what_the_tool_states(
    store: Store, tool: str, said: str, more: dict[str, Any], status: str, facts: Facts | None
) -> None:
    session = Session()
    session.assistant("a1", call("c1", tool, path="other.txt"), stop="toolUse")
    session.result("r1", "c1", said, message={"toolName": tool} | more)
    _, thread = bring_in(store, session)
    body = nodes(thread)[-1].body
    assert (body.status, body.facts) == (status, facts)


def test_what_the_program_tells_the_model_is_not_the_users(store: Store) -> None:
    session = Session()
    session.user("u1", "go")
    session.add("custom_message", "x1", customType="git", content="dirty", display=True, details={"n": 1})
    shell = {"role": "bashExecution", "command": "ls", "output": "a\n", "exitCode": 2, "cancelled": False}
    session.add("message", "x2", message=shell)
    session.add("message", "x3", message=shell | {"excludeFromContext": True})
    session.add("branch_summary", "x4", fromId="u1", summary="We tried.")
    report, thread = bring_in(store, session)
    assert texts(thread) == ["user go", "user dirty", "user $ ls\na\n[exit code 2]", "user We tried."]
    assert [(event.source.kind, event.source.name, event.body.steer) for event in nodes(thread)] == [
        *(("user", None, False), ("host", "git", True), ("host", "bash", True), ("host", None, True))
    ]
    assert (report.user_messages, report.harness_messages, report.kept) == (1, 3, 2)
    custom = json.loads(nodes(thread)[1].body.extra)
    assert custom == {
        "type": "custom_message",
        "parentId": "u1",
        "customType": "git",
        "display": True,
        "details": {"n": 1},
        "content": "",
    }
    assert json.loads(nodes(thread)[3].body.extra)["fromId"] == "u1"


def test_a_result_without_its_call_is_kept(store: Store) -> None:
    session = Session()
    session.user("u1", "go")
    session.result("r1", "nobody")
    report, thread = bring_in(store, session)
    assert texts(thread) == ["user go", "result nobody ok"]
    assert (report.tool_results, nodes(thread)[1].ref("answers")) == (1, None)
    assert codes(report) == [(3, "stray_result")]


# --- the tree ---


def test_a_rewind_is_a_branch_and_the_last_line_is_active(store: Store) -> None:
    session = Session()
    session.user("u1", "start")
    session.assistant("a1", text("ready"), call("c1"), stop="toolUse")
    session.result("r1", "c1")
    session.user("u2", "instead", parent="a1")
    _, thread = bring_in(store, session)
    assert texts(thread) == ["user start", "text ready", "call c1", "user instead"]
    assert len(thread.tree.leaves()) == 2


@pytest.mark.parametrize("version", [3, 4])
def test_a_last_line_that_says_nothing_is_active_where_it_hangs(store: Store, version: int) -> None:
    session = Session(version)
    session.user("u1", "start")
    session.assistant("a1", text("left"))
    session.add("model_change", "x1", provider="p", modelId="m", parent="u1")
    _, thread = bring_in(store, session)
    assert texts(thread) == ["user start"]
    session.add("thinking_level_change", "x2", thinkingLevel="high")
    session.user("u2", "right")
    report, thread = bring_in(store, session)
    assert texts(thread) == ["user start", "user right"]
    assert report.appended > 0
    assert import_file(store, session.data).appended == 0


def test_an_earlier_part_that_comes_again_moves_nothing(store: Store) -> None:
    session = Session()
    session.user("u1", "start")
    session.assistant("a1", text("left"))
    session.add("model_change", "x1", provider="p", modelId="m", parent="u1")
    part = session.data
    session.user("u2", "right")
    bring_in(store, session)
    assert import_file(store, part).appended == 0


def test_parents_that_are_null_missing_or_absent(store: Store) -> None:
    session = Session()
    session.user("u1", "one")
    session.user("u2", "two", parent=None)
    session.user("u3", "three", parent="zz")
    session.user("u4", "four", parent=...)
    report, thread = bring_in(store, session)
    one, two, three, four = nodes(thread)
    assert [node.parent for node in (one, two, three, four)] == [1, 1, two.position, three.position]
    assert codes(report) == [(4, "missing_parent")]


def test_lanes_are_branches_and_the_main_one_is_active(store: Store) -> None:
    session = Session(4)
    session.user("u1", "start")
    session.assistant("a1", text("main"))
    session.user("u2", "aside", parent="u1", lane="side")
    session.mutation("lane", lane="side", leafId="u2")
    session.mutation("record", record={"type": "tool_started", "id": "x", "seq": 9, "lane": "main", "timestamp": MS})
    report, thread = bring_in(store, session)
    assert texts(thread) == ["user start", "text main"]
    assert thread.branch_names() == {"side": nodes(thread)[-1].position}
    session.mutation("lane", lane="main", leafId="u1")
    _, thread = bring_in(store, session)
    assert texts(thread) == ["user start"]
    session.mutation("lane", lane="main", leafId="nowhere")
    report, thread = bring_in(store, session)
    assert codes(report) == [(8, "missing_leaf")]
    assert import_file(store, session.data).appended == 0


@pytest.mark.parametrize("version", [3, 4])
def test_labels_and_names(store: Store, version: int) -> None:
    session = Session(version)
    session.user("u1", "start")
    session.user("u2", "go on")

    def label(**fields: Any) -> None:
        if version == 4:
            session.mutation("fact", fact="label", **fields)
        else:
            session.add("label", f"x{len(session.lines)}", **fields)

    label(targetId="u1", label="here")
    label(targetId="gone", label="nowhere")
    if version == 4:
        session.mutation("fact", fact="name", name="My session")
    else:
        session.add("session_info", "n1", name="My session")
    _, thread = bring_in(store, session)
    (named,) = thread.events(types=("branch.named",))
    assert (named.body.name, named.body.node) == ("here", nodes(thread)[0].position)
    assert thread.title == "My session"
    assert texts(thread) == ["user start", "user go on"]
    label(targetId="u1")
    _, thread = bring_in(store, session)
    assert thread.branch_names() == {}
    assert import_file(store, session.data).appended == 0


# --- compaction ---


def test_a_compaction_covers_what_is_above_the_first_kept_entry(store: Store) -> None:
    report, thread = bring_in(store, compacted(firstKeptEntryId="a2"))
    assert summaries(thread) == [("user start", "result c1 ok", "Started.")]
    assert (report.summaries, report.harness_messages) == (1, 1)
    (event,) = thread.events(types=("summary.added",))
    assert (event.body.maker, event.body.nodes) == ("pi", 4)
    assert json.loads(event.body.extra)["tokensBefore"] == 50_000
    assert texts(thread)[-1] == "user go on"


def test_a_kept_entry_that_says_nothing_leaves_what_is_below_it(store: Store) -> None:
    session = compacted()
    session.lines.insert(4, json.dumps({"type": "model_change", "id": "x1", "parentId": "r1", "timestamp": TIME}))
    session.lines[5] = session.lines[5].replace('"parentId": "r1"', '"parentId": "x1"')
    session.lines[6] = session.lines[6].replace('"tokensBefore"', '"firstKeptEntryId": "x1", "tokensBefore"')
    _, thread = bring_in(store, session)
    assert summaries(thread) == [("user start", "result c1 ok", "Started.")]


def test_form_1_counts_the_entries_of_the_file_header_included(store: Store) -> None:
    content = compacted(1, firstKeptEntryIndex=4).data
    _, thread = bring_in(store, content)
    assert summaries(thread) == [("user start", "result c1 ok", "Started.")]


def test_a_retained_tail_is_found_at_the_end_of_the_path(store: Store) -> None:
    tail = json.loads(compacted().lines[4])["message"]
    _, thread = bring_in(store, compacted(4, retainedTail=[tail]))
    assert summaries(thread) == [("user start", "result c1 ok", "Started.")]


def test_a_tail_that_is_not_there_is_reported_and_the_whole_path_covered(store: Store) -> None:
    other = {"role": "user", "content": "never said", "timestamp": MS}
    report, thread = bring_in(store, compacted(retainedTail=[other]))
    assert summaries(thread) == [("user start", "text really", "Started.")]
    assert codes(report) == [(6, "tail_not_found")]


def test_a_first_kept_entry_that_is_not_there_is_reported(store: Store) -> None:
    report, thread = bring_in(store, compacted(firstKeptEntryId="zz"))
    assert summaries(thread) == [("user start", "text really", "Started.")]
    assert codes(report) == [(6, "missing_kept")]


def test_a_second_compaction_goes_on_where_the_first_ended(store: Store) -> None:
    session = compacted(firstKeptEntryId="a2")
    session.assistant("a3", text("went on"))
    session.add("compaction", "k2", summary="Went on.", firstKeptEntryId="a3", tokensBefore=1)
    _, thread = bring_in(store, session)
    assert summaries(thread)[1] == ("text done", "user go on", "Went on.")


# --- damage ---


def test_damage_costs_the_record_and_is_reported_by_line(store: Store) -> None:
    session = compacted()
    first, second, *rest = session.data.splitlines(keepends=True)
    data = b"".join([first, b"null\n", b"[1]\n", b"{oops\n", second.rstrip() + rest[0], b"\n", *rest[1:]])
    data = data.replace(b"go on", b"go \xff\\ud83d \\u0000") + b'{"type":"message","id":"zz","mess'
    report, thread = bring_in(store, data)
    assert codes(report) == [
        *((2, "not_object"), (3, "not_object"), (4, "bad_line"), (5, "welded_record")),
        *((10, "invalid_utf8"), (11, "torn_tail")),
    ]
    assert report.lost == 2
    assert texts(thread)[0] == "user start"
    last = nodes(thread)[-1].body.content[0]
    assert last.original == "go \ufffd\ud83d \x00"


@pytest.mark.parametrize(
    "fields",
    [
        {"message": None},
        {"message": {"role": "user", "content": None}},
        {"message": {"role": "assistant", "content": None}},
        {"message": {"role": "toolResult", "content": []}},
        {"message": {"role": "nobody", "content": "x"}},
        {},
    ],
)
def test_messages_that_say_nothing_are_kept_as_links(store: Store, fields: dict[str, Any]) -> None:
    session = Session()
    session.user("u1", "start")
    session.add("message", "x1", **fields)
    session.user("u2", "go on")
    report, thread = bring_in(store, session)
    assert texts(thread) == ["user start", "user go on"]
    assert (report.kept, report.lost) == (2, 0)


def test_an_id_met_again_is_skipped_with_the_same_content_and_kept_with_other(store: Store) -> None:
    session = Session()
    session.user("u1", "one")
    session.lines.append(session.lines[-1])
    session.user("u1", "uno", parent=None)
    report, thread = bring_in(store, session)
    assert (report.repeated, log_texts(thread)) == (1, ["user one", "user uno"])
    assert import_file(store, session.data).appended == 0


def test_a_file_without_a_header_goes_by_its_own(store: Store) -> None:
    session = Session()
    session.user("u1", "one")
    report, thread = bring_in(store, session.lines[1].encode())
    assert codes(report) == [(1, "no_header")]
    assert texts(thread) == ["user one"]
