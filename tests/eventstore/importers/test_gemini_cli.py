"""Gemini CLI sessions: the recorded document by its counts, and every trap of both forms."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import convlog
from convlog.eventstore.events import Facts, Foreign, Image, Text, Usage
from convlog.eventstore.importers import ImportReport, detect_format, import_file
from convlog.eventstore.store import Store
from convlog.eventstore.store import open_store as open_any
from convlog.eventstore.thread import Thread
from convlog.projections.views import view
from tests.eventstore.importers.sessions import nodes, said, shape, texts
from tests.recorded import recorded

TOKENS = {"input": 100, "output": 20, "cached": 40, "thoughts": 5, "tool": 3, "total": 128}
SPENT = Usage(input=63, cache_read=40, output=25, reasoning=5)


class Chat:
    """Writes one session, as lines or as a document."""

    def __init__(self, session: str = "s-1", **header: Any) -> None:
        self.header = {"sessionId": session, "projectHash": "p", "startTime": self.time(0)} | header
        self.records: list[Any] = []

    @staticmethod
    def time(seconds: int) -> str:
        return f"2026-01-02T10:00:{seconds:02d}.000Z"

    def add(self, record: Any) -> Any:
        self.records.append(record)
        return record

    def message(self, id_: str, type_: str, content: Any, **fields: Any) -> dict[str, Any]:
        time = self.time(len(self.records) + 1)
        message = {"id": id_, "timestamp": time, "type": type_, "content": content} | fields
        self.add(message)
        return message

    def user(self, id_: str, content: Any, **fields: Any) -> dict[str, Any]:
        return self.message(id_, "user", content, **fields)

    def gemini(self, id_: str, content: Any, **fields: Any) -> dict[str, Any]:
        return self.message(id_, "gemini", content, **{"model": "gemini-x", "tokens": TOKENS} | fields)

    @property
    def lines(self) -> bytes:
        return "".join(
            f"{json.dumps(record, ensure_ascii=False)}\n" for record in [self.header, *self.records]
        ).encode()

    @property
    def document(self) -> bytes:
        return json.dumps(self.header | {"messages": self.records, "summary": "behind"}, indent=2).encode()


def call(id_: str = "c1", name: str = "list_directory", output: Any = "a.txt", **fields: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"id": id_, "name": name, "args": {"path": "/w"}, "status": "success"} | fields
    if output is not None and "result" not in made:
        made["result"] = [{"functionResponse": {"id": id_, "name": name, "response": {"output": output}}}]
    return made


def failed(words: str) -> dict[str, Any]:
    return {"functionResponse": {"id": "c1", "name": "list_directory", "response": {"error": words}}}


def diff(shown: str, before: str | None, after: str, **fields: Any) -> dict[str, Any]:
    return {"fileDiff": shown, "originalContent": before, "newContent": after} | fields


def thought(subject: str, description: str) -> dict[str, Any]:
    return {"subject": subject, "description": description, "timestamp": Chat.time(9)}


def bring_in(store: Store, source: Chat | bytes) -> tuple[ImportReport, Thread]:
    report = import_file(store, source if isinstance(source, bytes) else source.lines, format="gemini-cli")
    return report, store.thread(report.thread_ids[0])


def codes(report: ImportReport) -> list[tuple[int, str]]:
    return [(finding.line, finding.code) for finding in report.warnings]


def kept(thread: Thread) -> list[Any]:
    return [json.loads(event.body.record) for event in thread.events(types=("record.kept",))]


def ends(thread: Thread) -> list[tuple[str, str]]:
    return [(said(thread.event(event.body.node)), event.body.state) for event in thread.events(types=("turn.ended",))]


def extra(event: Any) -> Any:
    return json.loads(event.body.extra or "{}")


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
        (call(name="run_shell_command", output="Command: make\nOutput: x\nExit Code: 2\nSignal: 0"),
         "ok", None, Facts(command="make", exit_code=2, failed_command="make")),
        (call(name="run_shell_command", output="Command: ls\nOutput: x\nExit Code: 0"),
         "ok", None, Facts(command="ls", exit_code=0)),
        (call(name="run_shell_command", output="Exit Code: (none)"), "ok", None, None),
        (call(name="read_file", output="Exit Code: 2"), "ok", b"Exit Code: 2", None),
        (call(name="replace", output="Successfully modified file: /w/a b (2 replacements)."),
         "ok", None, Facts(path="/w/a b", file_changed="/w/a b")),
        (call(name="write_file", resultDisplay=diff("", "x", "x", fileName="a")), "ok", None, Facts(path="a")),
        (call(name="write_file", resultDisplay=diff("+y", None, "y", filePath="/w/a")),
         "ok", None, Facts(path="/w/a", file_changed="/w/a")),
    ],
)  # fmt: skip
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


# --- parts of one history ---


def whole(data: bytes) -> dict[str | None, Any]:
    with open_any(":memory:") as other:
        import_file(other, data, format="gemini-cli")
        return shape(other)


def eventful(*, control: bool = True) -> Chat:
    chat = Chat()
    chat.user("u1", "Größe")
    chat.gemini(
        "g1", "", thoughts=[thought("A", "b")], toolCalls=[call("c1", status="executing", output=None)], tokens=None
    )
    if control:
        chat.gemini("g1", "", thoughts=[thought("A", "b")], toolCalls=[call("c1"), call("c2")])
        chat.add({"$set": {"lastUpdated": Chat.time(4)}})
    chat.gemini("g2", "fertig")
    chat.user("u2", "weiter")
    chat.gemini("g3", "ja", tokens=None)
    if control:
        chat.gemini("g3", "ja")
        chat.add({"$rewindTo": "u2"})
        chat.user("u3", "anders")
        chat.gemini("g4", "gut")
        chat.gemini("g4", "besser")
        chat.add({"$set": {"messages": [dict(chat.records[0])]}})
        chat.user("u4", "noch einmal")
    return chat


@given(st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_lines_cut_anywhere_come_in_as_the_whole_does(data: st.DataObject) -> None:
    content = eventful().lines
    cut = data.draw(st.integers(content.index(b"\n"), len(content)))
    with open_any(":memory:") as store:
        import_file(store, content[:cut], format="gemini-cli")
        if content[cut:].strip():
            import_file(store, content[cut:], format="gemini-cli")
        assert shape(store) == whole(content)
        assert import_file(store, content).appended == 0


@given(st.data())
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_session_that_grew_comes_in_as_the_whole_does(data: st.DataObject) -> None:
    content = eventful().lines
    cut = data.draw(st.integers(content.index(b"\n"), len(content)))
    with open_any(":memory:") as store:
        import_file(store, content[:cut], format="gemini-cli")
        import_file(store, content, format="gemini-cli")
        assert shape(store) == whole(content)


def test_a_document_that_grew_adds_what_is_new(store: Store) -> None:
    chat = Chat()
    chat.user("u1", "go")
    chat.gemini("g1", "one")
    bring_in(store, chat.document)
    chat.gemini("g2", "two")
    report, thread = bring_in(store, chat.document)
    assert texts(thread) == ["user go", "text one", "text two"]
    assert report.appended == 4, "a node, its call, the turn's end, and the report"


# --- damage and any content ---


def test_damage_is_reported_by_its_line(store: Store) -> None:
    chat = Chat()
    chat.user("u1", "o@e")
    chat.gemini("g1", "two")
    header, *lines = chat.lines.replace(b"@", b"\xff").splitlines()
    data = b"\n".join([header, b"{bad", lines[0] + lines[1], b"null", b'["x"]', b'{"id":"u9","type'])
    report, thread = bring_in(store, data)
    assert codes(report) == [
        *((2, "bad_line"), (3, "welded_record"), (4, "not_object"), (5, "not_object"), (6, "torn_tail"))
    ]
    assert (report.lost, texts(thread)) == (2, ["user o\ufffde", "text two"])


@pytest.mark.parametrize(("end", "there"), [(-60, 1), (-3, 2)])
def test_a_document_that_breaks_off_gives_what_came_before(store: Store, end: int, there: int) -> None:
    chat = Chat()
    chat.user("u1", "one")
    chat.gemini("g1", "two")
    report, thread = bring_in(store, chat.document[:end])
    assert (codes(report), report.lost) == ([(0, "torn_tail")], 1)
    assert texts(thread) == ["user one", "text two"][:there]


def test_half_surrogates_and_nul_survive(store: Store) -> None:
    line = '{"id":"u1","timestamp":"2026-01-02T10:00:00Z","type":"user","content":"a\\ud83d\\u0000b"}'
    _, thread = bring_in(store, Chat().lines + line.encode())
    part = nodes(thread)[0].body.content[0]
    assert (part.text, part.original) == ("a\ufffd\x00b", "a\ud83d\x00b")
    assert extra(nodes(thread)[0]) == {"message": {"timestamp": "2026-01-02T10:00:00Z"}}


def test_records_without_a_header_are_a_thread_of_their_own(store: Store) -> None:
    chat = Chat()
    chat.user("u1", "go")
    report, thread = bring_in(store, chat.lines.splitlines()[1])
    assert (codes(report), texts(thread)) == ([(1, "no_header")], ["user go"])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
odd = json_values | st.sampled_from(["u1", "g1", "c1", "success", "user", "gemini"])
ids = st.sampled_from(["u1", "g1", "g2"])
calls = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("id", "name", "args", "result", "status", "resultDisplay"), odd)
)
parts = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("text", "thought", "inlineData", "functionCall", "functionResponse"), odd)
)
messages = st.fixed_dictionaries(
    {"id": ids | odd, "type": st.sampled_from(["user", "gemini", "info", "error", "x"]) | odd},
    optional={
        "content": odd | st.lists(odd | parts, max_size=3),
        "timestamp": odd,
        "toolCalls": odd | st.lists(odd | calls, max_size=2),
        "thoughts": odd | st.lists(odd | st.fixed_dictionaries({"description": odd}), max_size=2),
        "tokens": odd | st.just(TOKENS),
        "model": odd,
    },
)
records = (
    messages
    | st.fixed_dictionaries({"$rewindTo": ids | odd})
    | st.fixed_dictionaries({"$set": odd | st.fixed_dictionaries({"messages": odd | st.lists(messages, max_size=3)})})
    | st.fixed_dictionaries({"sessionId": odd}, optional={"summary": odd, "messages": odd})
)


@given(st.lists(records | odd, max_size=8))
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_whatever_a_session_holds_every_record_is_accounted_for_and_comes_in_once(found: list[Any]) -> None:
    chat = Chat()
    chat.records = found
    with open_any(":memory:") as store:
        report = import_file(store, chat.lines, format="gemini-cli")
        assert report.records == 1 + len(found) == report.mapped + report.kept + report.repeated + report.lost
        assert report.lost == 0
        assert import_file(store, chat.lines, format="gemini-cli").appended == 0


def test_the_form_is_told_by_its_records() -> None:
    chat = Chat()
    chat.user("u1", "hi")
    assert detect_format(chat.lines) == detect_format(chat.document) == "gemini-cli"
    assert detect_format(json.dumps(chat.header | {"messages": chat.records}).encode()) == "gemini-cli"
    assert detect_format(b'{"$rewindTo":"x"}\n') == "gemini-cli"
    assert detect_format(b'{"type":"user","uuid":"u","sessionId":"s","message":{}}\n') == "claude-code"
