"""Gemini CLI sessions: the recorded document by its counts, and every trap of both forms."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

import convlog
from convlog.eventstore.events import Facts, Foreign, Image, Text, Usage
from convlog.eventstore.importers import import_file
from convlog.eventstore.store import Store
from convlog.eventstore.thread import Thread
from convlog.projections.views import view
from tests.eventstore.importers.chats import SPENT, TOKENS, Chat, bring_in, call, diff, eventful, extra, failed, thought
from tests.eventstore.importers.imported import codes, ends, nodes, shape, texts
from tests.recorded import recorded


def kept(thread: Thread) -> list[Any]:
    return [json.loads(event.body.record) for event in thread.events(types=("record.kept",))]


# --- the recorded document ---


def test_the_recorded_session_has_the_counts_of_a_hand_count(store: Store) -> None:
    path = recorded("gemini-cli-real.json")
    report = import_file(store, path)
    # 3 user and 15 model messages, and the header.
    assert (report.records, report.mapped, report.kept, report.lost) == (19, 18, 1, 0)
    assert (report.user_messages, report.model_messages, report.reasoning) == (3, 15, 31)
    assert (report.tool_calls, report.tool_results, report.threads, report.warnings) == (13, 13, 1, [])
    tokens = [message["tokens"] for message in json.loads(path.read_bytes())["messages"] if message.get("tokens")]
    assert report.usage == Usage(
        input=sum(each["input"] - each["cached"] for each in tokens),
        cache_read=sum(each["cached"] for each in tokens),
        output=sum(each["output"] + each["thoughts"] for each in tokens),
        reasoning=sum(each["thoughts"] for each in tokens),
    )


def test_the_recorded_session_is_one_line_whose_results_say_how_they_ended(store: Store) -> None:
    _, thread = bring_in(store, recorded("gemini-cli-real.json").read_bytes())
    assert len(thread.tree.leaves()) == 1
    results = [event.body for event in nodes(thread) if event.type == "tool.returned"]
    statuses = [body.status for body in results]
    assert (statuses.count("ok"), statuses.count("cancelled"), statuses.count("error")) == (11, 1, 1)
    failed = [body.facts for body in results if body.facts and body.facts.failed_command]
    assert [(facts.failed_command, facts.exit_code) for facts in failed] == [
        ("pip install RestrictedPython", 127),
        ("pip3 install RestrictedPython", 1),
    ]
    changed = {body.facts.file_changed for body in results if body.facts and body.facts.file_changed}
    assert changed == {"/Users/dev/Dev/playground/src/test-project/main.py"}
    assert [state for _, state in ends(thread)] == ["done", "done"]


def test_turn_memory_of_the_recorded_session_is_right_by_hand() -> None:
    with convlog.open(":memory:") as store:
        thread = store.thread(import_file(store, recorded("gemini-cli-real.json")).thread_ids[0])
        kept = [piece for piece in view(thread, "turn-memory@6") if piece.provenance == "turn-memory"]
    said = [piece.element for piece in kept if piece.role == "assistant"]
    # The first turn: a folder is listed; words lead to a file that is written; words end it.
    assert [getattr(element, "name", "") for element in said][:4] == ["list_directory", "", "write_file", ""]
    results = [piece.element.content[0].text for piece in kept if piece.role == "tool"]
    assert json.loads(results[1])["file_changed"] == "/Users/dev/Dev/playground/src/test-project/main.py"
    assert any(json.loads(result).get("exit_code") == 127 for result in results)


def test_importing_the_recorded_session_twice_appends_nothing(store: Store) -> None:
    path = recorded("gemini-cli-real.json")
    first, before = import_file(store, path), shape(store)
    second = import_file(store, path)
    assert (second.appended, second.counts(), second.usage) == (0, first.counts(), first.usage)
    assert shape(store) == before


# --- messages ---


def test_a_message_is_a_response_with_thoughts_words_calls_and_results(store: Store) -> None:
    chat = Chat()
    chat.user("u1", "go")
    chat.gemini("g1", "Looking.", thoughts=[thought("Plan", "look")], toolCalls=[call("c1"), call("c2", output=None)])
    report, thread = bring_in(store, chat)
    assert texts(thread) == [
        "user go",
        "reasoning **Plan**\n\nlook",
        "text Looking.",
        "call c1",
        "result c1 ok",
        "call c2",
        "result c2 ok",
    ]
    assert (report.model_messages, report.usage) == (1, SPENT)
    (finished,) = thread.events(types=("call.finished",))
    assert (finished.body.response, finished.body.provider, finished.body.model) == ("g1", "google", "gemini-x")
    assert extra(nodes(thread)[1]) == {
        "message": {"tokens": TOKENS},
        "thought": {"subject": "Plan", "timestamp": Chat.time(9)},
    }


def test_lines_and_a_document_say_the_same(store: Store, open_store: Any) -> None:
    chat = eventful(control=False)
    report, thread = bring_in(store, chat.document)
    other = open_store("other.db")
    other_report, other_thread = bring_in(other, chat.lines)
    assert texts(thread) == texts(other_thread)
    assert report.usage == other_report.usage
    assert (thread.title, report.records) == ("behind", other_report.records + 1)


@pytest.mark.parametrize(
    ("made", "status", "output", "facts"),
    [
        (call(status="error", result=[failed("no")]), "error", b"no", None),
        (call(status="cancelled"), "cancelled", b"a.txt", None),
        (
            call(name="run_shell_command", output="Command: make\nOutput: x\nExit Code: 2\nSignal: 0"),
            "ok",
            None,
            Facts(command="make", exit_code=2, failed_command="make"),
        ),
        (
            call(name="run_shell_command", output="Command: ls\nOutput: x\nExit Code: 0"),
            "ok",
            None,
            Facts(command="ls", exit_code=0),
        ),
        (call(name="run_shell_command", output="Exit Code: (none)"), "ok", None, None),
        (call(name="read_file", output="Exit Code: 2"), "ok", b"Exit Code: 2", None),
        (
            call(name="replace", output="Successfully modified file: /w/a b (2 replacements)."),
            "ok",
            None,
            Facts(path="/w/a b", file_changed="/w/a b"),
        ),
        (call(name="write_file", resultDisplay=diff("", "x", "x", fileName="a")), "ok", None, Facts(path="a")),
        (
            call(name="write_file", resultDisplay=diff("+y", None, "y", filePath="/w/a")),
            "ok",
            None,
            Facts(path="/w/a", file_changed="/w/a"),
        ),
    ],
)  # fmt: skip - one case a line, or two
def test_a_result_is_what_the_source_states(
    store: Store, made: dict[str, Any], status: str, output: bytes | None, facts: Facts | None
) -> None:
    chat = Chat()
    chat.user("u1", "go")
    chat.gemini("g1", "", toolCalls=[made])
    _, thread = bring_in(store, chat)
    result = nodes(thread)[-1]
    assert (result.body.status, result.body.facts) == (status, facts)
    if output is not None:
        assert result.output == output


def test_results_of_another_shape_are_kept_whole(store: Store) -> None:
    pixels = base64.b64encode(b"\x89PNG").decode()
    picture = {"inlineData": {"mimeType": "image/png", "data": pixels}}
    shown = call("c1")
    shown["result"] = [*shown["result"], picture]
    chat = Chat()
    chat.user("u1", "go")
    chat.gemini(
        "g1", "", toolCalls=[shown, call("c2", result=[{"functionResponse": {"id": "x"}}]), call("c3", output=None)]
    )
    _, thread = bring_in(store, chat)
    first, second, third = (event for event in nodes(thread) if event.type == "tool.returned")
    assert first.body.form == "blocks"
    assert extra(first)["toolCall"]["result"] == ["output", {"inlineData": ""}]
    assert (second.body.form, json.loads(second.output or b"")) == ("json", [{"functionResponse": {"id": "x"}}])
    assert third.output is None


def test_contents_in_parts_are_kept_part_by_part(store: Store) -> None:
    pixels = b"\x89PNG pixels"
    inline = {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(pixels).decode()}}
    chat = Chat()
    chat.user("u1", ["look", {"text": "here"}, inline, {"videoMetadata": {}}], displayContent="look")
    chat.gemini(
        "g1", [{"text": "hm", "thought": True}, {"text": "so", "thoughtSignature": "c2ln"}, {"executableCode": {}}]
    )
    _, thread = bring_in(store, chat)
    look, here, picture, odd = nodes(thread)[0].body.content
    assert (look, here) == (Text("look"), Text("here"))
    assert isinstance(picture, Image)
    assert store.attachment(picture.attachment or "") == pixels
    assert isinstance(odd, Foreign)
    assert extra(nodes(thread)[0])["message"] == {
        "displayContent": "look",
        "content": ["", {"text": ""}, {"inlineData": ""}, None],
    }
    assert texts(thread)[1:] == ["reasoning hm", "text so", "opaque "]
    assert nodes(thread)[2].body.signature == "c2ln"


def test_calls_that_only_the_content_holds_are_calls_and_their_responses_results(store: Store) -> None:
    chat = Chat()
    chat.user("u1", "go")
    chat.gemini("g1", [{"functionCall": {"id": "c1", "name": "f", "args": {"a": 1.50}}}])
    chat.user("u2", [{"functionResponse": {"id": "c1", "name": "f", "response": {"output": "x"}}}])
    report, thread = bring_in(store, chat)
    assert texts(thread) == ["user go", "call c1", "result c1 ok"]
    assert (report.user_messages, report.tool_calls, report.tool_results) == (1, 1, 1)


def test_what_the_program_shows_is_a_notice_and_an_error_ends_the_turn(store: Store) -> None:
    chat = Chat()
    chat.message("i1", "info", "Welcome")
    chat.user("u1", "go")
    chat.message("e1", "error", [{"text": "API Error"}])
    chat.message("x1", "brand-new", "?")
    report, thread = bring_in(store, chat)
    assert texts(thread) == ["notice Welcome", "user go", "notice API Error"]
    assert ends(thread) == [("notice API Error", "error")]
    assert codes(report) == [(5, "unknown_message")]
    assert report.user_messages == 1


def test_a_turn_ends_with_the_last_answer_in_words(store: Store) -> None:
    chat = Chat()
    chat.user("u1", "go")
    chat.gemini("g1", "Let me see.", tokens=None)
    report, thread = bring_in(store, chat)
    assert ends(thread) == [], "its tokens are not counted: it may go on"
    chat.gemini("g1", "Let me see.")
    _, thread = bring_in(store, chat)
    assert ends(thread) == [("text Let me see.", "done")]
    assert report.model_messages == 1


# --- messages written again ---


def test_a_message_that_is_written_again_adds_what_is_new_in_it(store: Store) -> None:
    chat = Chat()
    chat.user("u1", "go")
    chat.gemini("g1", "Looking.", tokens=None)
    chat.gemini("g1", "Looking.")
    chat.gemini("g1", "Looking.", toolCalls=[call("c1", status="executing", output=None)])
    chat.gemini("g1", "Looking.", toolCalls=[call("c1"), call("c2")], thoughts=[thought("", "late")])
    chat.gemini("g2", "Done.")
    report, thread = bring_in(store, chat)
    assert texts(thread) == [
        *(
            "user go",
            "text Looking.",
            "call c1",
            "reasoning late",
            "result c1 ok",
            "call c2",
            "result c2 ok",
            "text Done.",
        )
    ]
    assert len(thread.tree.leaves()) == 1
    assert (report.model_messages, report.usage) == (2, Usage(input=126, cache_read=80, output=50, reasoning=10))
    assert [record["id"] for record in kept(thread) if "id" in record] == ["g1", "g1", "g1"]
    assert import_file(store, chat.lines).appended == 0


def test_the_last_message_in_other_words_stands_beside_its_first_form(store: Store) -> None:
    chat = Chat()
    chat.user("u1", "go")
    chat.gemini("g1", "one", toolCalls=[call("c1")])
    chat.gemini("g1", "two")
    _, thread = bring_in(store, chat)
    assert texts(thread) == ["user go", "text two"]
    assert len(thread.tree.leaves()) == 2
    chat.gemini("g2", "three")
    chat.gemini("g1", "four")
    report, thread = bring_in(store, chat)
    assert texts(thread) == ["user go", "text two", "text three"]
    assert codes(report) == [(6, "changed_message")]


def test_a_placeholder_that_gets_its_words_later_is_no_other_form(store: Store) -> None:
    chat = Chat()
    chat.user("u1", "go")
    chat.gemini("g1", "", toolCalls=[call("c1")])
    chat.gemini("g1", "Words.", toolCalls=[call("c1")])
    _, thread = bring_in(store, chat)
    assert texts(thread) == ["user go", "call c1", "result c1 ok", "text Words."]


# --- rewinds and lists ---


def test_a_rewind_goes_to_before_the_message_and_leaves_a_branch(store: Store) -> None:
    chat = Chat()
    for number in (1, 2, 3):
        chat.user(f"u{number}", f"input {number}")
        chat.gemini(f"g{number}", f"answer {number}")
    chat.add({"$rewindTo": "u2"})
    report, thread = bring_in(store, chat)
    assert texts(thread) == ["user input 1", "text answer 1"], "the active leaf is where the program would go on"
    chat.user("u4", "another way")
    _, thread = bring_in(store, chat)
    assert texts(thread) == ["user input 1", "text answer 1", "user another way"]
    assert len(thread.tree.leaves()) == 2
    chat.add({"$rewindTo": "u1"})
    chat.user("u5", "from the start")
    report, thread = bring_in(store, chat)
    assert texts(thread) == ["user from the start"]
    assert report.warnings == []
    chat.add({"$rewindTo": "nobody"})
    report, thread = bring_in(store, chat)
    assert (texts(thread), codes(report)) == ([], [(12, "rewind_unknown")])


def test_new_values_of_the_header_are_kept_and_a_summary_is_the_title(store: Store) -> None:
    chat = Chat(directories=["/w"])
    chat.user("u1", "go")
    chat.add({"$set": {"lastUpdated": Chat.time(9)}})
    chat.add({"$set": {"summary": "Of what it was"}})
    report, thread = bring_in(store, chat)
    assert (thread.title, thread.event(1).body.cwd, report.kept) == ("Of what it was", "/w", 2)
    assert kept(thread)[1:] == [{"$set": {"lastUpdated": Chat.time(9)}}, {"$set": {"summary": "Of what it was"}}]


def test_a_compression_is_a_summary_over_what_its_list_left_out(store: Store) -> None:
    chat = Chat()
    chat.user("u1", "one")
    chat.gemini("g1", "first", toolCalls=[call("c1")])
    chat.gemini("g2", "second")
    tail = [chat.user("u2", "two"), chat.gemini("g3", "third")]
    state = {"id": "s1", "timestamp": Chat.time(9), "type": "user", "content": [{"text": "<state>so far</state>"}]}
    got = {"id": "s2", "timestamp": Chat.time(9), "type": "gemini", "content": [{"text": "Got it."}]}
    chat.add({"$set": {"messages": [state, got, *tail], "lastUpdated": Chat.time(9)}})
    chat.user("u3", "three")
    report, thread = bring_in(store, chat)
    (summary,) = thread.events(types=("summary.added",))
    words = {event.position: text for event, text in zip(nodes(thread), texts(thread), strict=True)}
    assert (words[summary.body.first], words[summary.body.last]) == ("user one", "text second")
    assert (summary.body.text, report.summaries) == ("<state>so far</state>", 1)
    assert texts(thread)[-3:] == ["user two", "text third", "user three"]
    listed = json.loads(summary.body.extra)["$set"]["messages"]
    assert listed[:2] == [state, got]
    assert [message["record"] for message in listed[2:]] == ["u2", "g3"]
    assert import_file(store, chat.lines).appended == 0


def test_a_list_that_goes_back_or_on_is_no_summary(store: Store) -> None:
    chat = Chat()
    one, first = chat.user("u1", "one"), chat.gemini("g1", "first")
    chat.user("u2", "two")
    chat.add({"$set": {"messages": [one, first]}})
    report, thread = bring_in(store, chat)
    assert texts(thread) == ["user one", "text first"]
    other = {"id": "u3", "timestamp": Chat.time(9), "type": "user", "content": "else"}
    chat.add({"$set": {"messages": [one, first, other]}})
    report, thread = bring_in(store, chat)
    assert texts(thread) == ["user one", "text first", "user else"]
    assert len(thread.tree.leaves()) == 2
    assert (report.records, report.mapped + report.kept, report.user_messages) == (6, 6, 3)


def test_lists_alone_tell_a_session(store: Store) -> None:
    messages: list[dict[str, Any]] = []
    source, chat = Chat(), Chat()
    for number in (1, 2):
        messages = [
            *messages,
            source.user(f"u{number}", f"input {number}"),
            source.gemini(f"g{number}", f"answer {number}"),
        ]
        chat.add({"$set": {"messages": messages}})
    report, thread = bring_in(store, chat)
    assert texts(thread) == ["user input 1", "text answer 1", "user input 2", "text answer 2"]
    assert (report.records, report.kept, report.model_messages) == (3, 3, 2)
    assert import_file(store, chat.lines).appended == 0


def test_a_list_that_fits_nothing_is_kept_and_reported(store: Store) -> None:
    chat = Chat()
    one, first = chat.user("u1", "one"), chat.gemini("g1", "first")
    new = {"id": "n1", "timestamp": Chat.time(9), "type": "user", "content": "new"}
    whole = {"$set": {"messages": [first, new, one]}}
    chat.add(whole)
    report, thread = bring_in(store, chat)
    assert codes(report) == [(4, "history_replaced")]
    assert kept(thread)[-1] == whole
    assert texts(thread) == ["user one", "text first"]


def test_a_masked_output_in_a_list_changes_nothing_that_was_recorded(store: Store) -> None:
    chat = Chat()
    one = chat.user("u1", "one")
    first = chat.gemini("g1", "first", toolCalls=[call("c1", output="long")])
    masked = first | {"content": [{"text": "first"}], "toolCalls": [call("c1", output="[masked]")]}
    chat.add({"$set": {"messages": [one, masked]}})
    report, thread = bring_in(store, chat)
    assert nodes(thread)[-1].output == b"long"
    assert masked in kept(thread)
    assert report.records == report.mapped + report.kept


# --- threads ---


def test_a_sub_agent_is_linked_to_the_call_that_names_it(store: Store, tmp_path: Path) -> None:
    chat = Chat("parent")
    chat.user("u1", "go")
    chat.gemini("g1", "", toolCalls=[call("c1", "delegate_to_agent", agentId="child")])
    _, thread = bring_in(store, chat)
    agent = Chat("child", kind="subagent")
    agent.user("x1", "look")
    path = tmp_path / "chats" / "parent" / "child.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(agent.lines)
    report = import_file(store, path)
    body = store.thread("child").event(1).body
    assert (body.origin, body.parent.thread) == ("subagent", thread.id)
    assert thread.event(body.parent.call).type == "tool.returned" or thread.event(body.parent.call).body.call == "c1"
    assert (report.user_messages, report.harness_messages) == (0, 1)
