"""OpenCode sessions: the database and the older folder, rows that change, undone parts, compactions, sub-agents."""

from __future__ import annotations

import base64
import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import convlog
from convlog.eventstore.errors import ImportFailed
from convlog.eventstore.events import Document, Facts, Foreign, Image, Text, Usage
from convlog.eventstore.importers import ImportReport, detect_format, import_file, import_path
from convlog.eventstore.store import Store
from convlog.eventstore.thread import Thread
from tests.conftest import Stores
from tests.eventstore.importers.imported import counts, nodes, said, shape, texts
from tests.eventstore.importers.opencode_files import TOKENS, Sessions, tool


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "opencode.db"


def bring_in(store: Store, sessions: Sessions, file: Path) -> tuple[ImportReport, Thread]:
    report = import_file(store, sessions.save(file))
    return report, store.thread("ses_1")


def codes(report: ImportReport) -> list[str]:
    return [finding.code for finding in report.warnings]


def usual() -> Sessions:
    """Give a session of two turns, with a helper."""
    sessions = Sessions()
    sessions.session()
    sessions.user("msg_1", "Water the plants.")
    thought = {"type": "reasoning", "text": "hm", "time": {"start": 1, "end": 2}}
    thought |= {"metadata": {"anthropic": {"signature": "c2ln"}}}
    sessions.assistant("msg_2", thought, "Looking.", tool("c1", command="ls"), tool("c2", command="pwd"))
    sessions.assistant("msg_3", "Done.")
    sessions.user("msg_4", "And now?")
    sessions.assistant("msg_5", tool("c3", "task", prompt="x", state={"metadata": {"sessionId": "ses_2"}}))
    sessions.session("ses_2", parent_id="ses_1", title="Helper")
    sessions.user("msg_6", "x", session="ses_2")
    sessions.assistant("msg_7", "Helped.", session="ses_2")
    sessions.rows.append(("INSERT INTO todo VALUES (?,?,?,?,?)", ("ses_1", "water", "pending", "high", 0)))
    return sessions


# --- what comes of a database ---


def test_a_database_has_the_counts_of_a_hand_count(store: Store, file: Path) -> None:
    report, thread = bring_in(store, usual(), file)
    # 2 sessions, 7 messages, 3 inputs, 4 x 2 marks of steps, 7 other parts of responses, 2 project rows, 1 todo.
    assert (report.records, report.mapped, report.kept, report.lost) == (30, 10, 20, 0)
    assert (report.user_messages, report.model_messages, report.reasoning) == (3, 4, 1)
    assert (report.tool_calls, report.tool_results, report.threads) == (3, 3, 2)
    assert report.warnings == []
    assert report.usage == Usage(input=40, cache_read=12, cache_write=4, output=28, reasoning=8)
    created = thread.event(1).body
    assert (thread.title, created.cwd, created.agent) == ("Water", "/w", "opencode")
    assert texts(thread) == [
        *(
            "user Water the plants.",
            "reasoning hm",
            "text Looking.",
            "call c1",
            "result c1 ok",
            "call c2",
            "result c2 ok",
        ),
        *("text Done.", "user And now?", "call c3", "result c3 ok"),
    ]


def test_a_response_is_recorded_once_with_its_model_and_seal(store: Store, file: Path) -> None:
    _, thread = bring_in(store, usual(), file)
    finished = [event.body for event in thread.events(types=("call.finished",))]
    assert [(body.response, body.provider, body.model, body.stop) for body in finished] == [
        ("msg_2", "anthropic", "claude-x", "tool-calls"),
        ("msg_3", "anthropic", "claude-x", "stop"),
        ("msg_5", "anthropic", "claude-x", "tool-calls"),
    ]
    assert finished[0].usage == Usage(input=10, cache_read=3, cache_write=1, output=7, reasoning=2)
    hm = nodes(thread)[1]
    assert (hm.body.signature, hm.source.provider, hm.source.model) == ("c2ln", "anthropic", "claude-x")
    assert [event.body.response for event in nodes(thread)[1:4]] == ["msg_2"] * 3
    ends = [(said(thread.event(event.body.node)), event.body.state) for event in thread.events(types=("turn.ended",))]
    assert ends == [("text Done.", "done")]


def test_a_helpers_session_is_a_thread_that_names_its_call(store: Store, file: Path) -> None:
    _, thread = bring_in(store, usual(), file)
    created = store.thread("ses_2").event(1).body
    assert created.origin == "subagent"
    assert (created.parent.thread, said(thread.event(created.parent.call))) == (thread.id, "call c3")


def test_importing_twice_appends_nothing(store: Store, file: Path) -> None:
    first, _ = bring_in(store, usual(), file)
    before = shape(store)
    second = import_file(store, file)
    assert (second.appended, first.counts()) == (0, second.counts())
    assert shape(store) == before


def test_bytes_are_read_like_the_file(store: Store, open_store: Stores, file: Path) -> None:
    bring_in(store, usual(), file)
    other = open_store("other.db")
    assert detect_format(file.read_bytes()[:4096]) == "opencode"
    import_file(other, file.read_bytes())
    assert shape(other) == shape(store)


def test_the_source_is_not_touched(store: Store, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    file = usual().save(tmp_path / "source" / "opencode.db")
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        before = file.read_bytes()
        db.execute("UPDATE session SET title = 'In the log' WHERE id = 'ses_1'")
        db.commit()
        import_file(store, file)
        assert file.read_bytes() == before
    assert store.thread("ses_1").title == "In the log"
    before = file.read_bytes()
    import_file(store, file)
    assert (file.read_bytes(), [path.name for path in file.parent.iterdir()]) == (before, ["opencode.db"])


@settings(max_examples=8, deadline=None)
@given(cut=st.integers(0, 7))
def test_a_session_that_grew_equals_one_that_came_whole(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    folder = tmp_path_factory.mktemp("grown")
    stores = Stores(folder)
    whole, part = usual(), usual()
    part.messages = dict(list(whole.messages.items())[:cut])
    part.parts = {id_: found for id_, found in whole.parts.items() if found[0] in part.messages}
    grown, once = stores("grown.db"), stores("once.db")
    import_file(grown, part.save(folder / "opencode.db"))
    import_file(grown, whole.save(folder / "opencode.db"))
    import_file(once, folder / "opencode.db")
    assert shape(grown) == shape(once)
    assert stores.problems() == []


# --- the folder of older versions ---


def test_the_older_folder_gives_the_same_nodes(store: Store, open_store: Stores, tmp_path: Path, file: Path) -> None:
    bring_in(store, usual(), file)
    other = open_store("other.db")
    found = import_path(other, usual().save_folder(tmp_path / "storage"))
    assert [row.format for row in found] == ["opencode", "opencode"], "messages and parts are no sources of their own"
    assert texts(other.thread("ses_1")) == texts(store.thread("ses_1"))
    assert other.thread("ses_2").event(1).body.parent.call == store.thread("ses_2").event(1).body.parent.call
    again = import_file(other, file)
    ids = [event.key for event in nodes(other.thread("ses_1"))]
    assert ids == [event.key for event in nodes(store.thread("ses_1"))]
    assert again.model_messages == 4


def test_a_damaged_file_in_the_folder_costs_itself(store: Store, tmp_path: Path) -> None:
    folder = usual().save_folder(tmp_path / "storage")
    (folder / "part" / "msg_3" / "prt_31.json").write_text('{"type": "te')
    import_path(store, folder)
    thread = store.thread("ses_1")
    assert "text Done." not in texts(thread)
    assert '{"type": "te' in [event.body.record for event in thread.events(types=("record.kept",))]


def test_a_session_without_its_messages_says_so(store: Store, tmp_path: Path) -> None:
    folder = usual().save_folder(tmp_path / "storage")
    data = (folder / "session" / "prj" / "ses_1.json").read_bytes()
    report = import_file(store, data, format="opencode")
    assert codes(report) == ["missing_messages"]


def test_an_exported_session_gives_the_same_nodes(store: Store, open_store: Stores, file: Path) -> None:
    sessions = usual()
    _, thread = bring_in(store, sessions, file)
    other = open_store("other.db")
    data = json.dumps(sessions.exported("ses_1"), indent=2).encode()
    assert detect_format(data) == "opencode"
    report = import_file(other, data)
    keys = [event.key for event in nodes(thread)]
    assert [event.key for event in nodes(other.thread("ses_1"))] == keys
    assert (report.lost, report.model_messages) == (0, 3)
    report = import_file(other, data[: data.index(b"And now?")])
    assert (report.lost, codes(report)) == (1, ["torn_tail"])


# --- rows that change ---


def test_a_tool_that_was_running_gets_its_result_later(store: Store, file: Path) -> None:
    sessions = Sessions()
    sessions.session()
    sessions.user("msg_1", "go")
    running = {
        "type": "tool",
        "callID": "c1",
        "tool": "bash",
        "state": {"status": "running", "input": {"command": "ls"}},
    }
    sessions.assistant("msg_2", running, steps=False, done=False)
    _, thread = bring_in(store, sessions, file)
    assert texts(thread) == ["user go", "call c1"]
    sessions.parts["prt_20"] = ("msg_2", tool("c1", command="ls"))
    _, thread = bring_in(store, sessions, file)
    assert texts(thread) == ["user go", "call c1", "result c1 ok"]


def test_words_that_may_still_grow_wait_until_they_are_whole(store: Store, file: Path) -> None:
    sessions = Sessions()
    sessions.session()
    sessions.user("msg_1", "go")
    sessions.assistant("msg_2", {"type": "text", "text": "Hel", "time": {"start": 1}}, steps=False, done=False)
    report, thread = bring_in(store, sessions, file)
    assert (codes(report), texts(thread)) == (["unfinished_part"], ["user go"])
    assert any('"Hel"' in event.body.record for event in thread.events(types=("record.kept",)))
    sessions.assistant("msg_2", "Hello.", steps=False)
    _, thread = bring_in(store, sessions, file)
    assert texts(thread) == ["user go", "text Hello."]


def test_words_that_were_cut_off_for_good_are_told(store: Store, file: Path) -> None:
    sessions = Sessions()
    sessions.session()
    sessions.user("msg_1", "go")
    sessions.assistant("msg_2", {"type": "text", "text": "Hel", "time": {"start": 1}}, steps=False, done=False)
    sessions.user("msg_3", "again")
    _, thread = bring_in(store, sessions, file)
    assert texts(thread) == ["user go", "text Hel", "user again"]


def test_a_new_title_counts_and_a_changed_row_is_kept(store: Store, file: Path) -> None:
    sessions = usual()
    bring_in(store, sessions, file)
    sessions.sessions["ses_1"]["title"] = "Watered"
    report, thread = bring_in(store, sessions, file)
    assert thread.title == "Watered"
    assert report.appended == 3, "the row, the title, the report"


def test_an_output_that_is_no_longer_sent_is_noted(store: Store, file: Path) -> None:
    sessions = usual()
    _, thread = bring_in(store, sessions, file)
    before = nodes(thread)
    sessions.parts["prt_23"][1]["state"]["time"]["compacted"] = 5
    _, thread = bring_in(store, sessions, file)
    assert [event.key for event in nodes(thread)] == [event.key for event in before]
    assert '{"compacted":5}' in [event.body.record for event in thread.events(types=("record.kept",))]


# --- the revert pointer ---


def test_what_is_undone_is_left_and_comes_back(store: Store, file: Path) -> None:
    sessions = usual()
    sessions.sessions["ses_1"]["revert"] = {"messageID": "msg_4"}
    report, thread = bring_in(store, sessions, file)
    assert (said(thread.event(thread.head)), codes(report)) == ("text Done.", [])
    assert len(thread.tree.leaves()) == 1
    del sessions.sessions["ses_1"]["revert"]
    _, thread = bring_in(store, sessions, file)
    assert said(thread.event(thread.head)) == "result c3 ok"


def test_a_prompt_after_an_undo_is_a_branch(store: Store, file: Path) -> None:
    sessions = usual()
    bring_in(store, sessions, file)
    del sessions.messages["msg_4"], sessions.messages["msg_5"]
    sessions.parts = {id_: found for id_, found in sessions.parts.items() if found[0] in sessions.messages}
    sessions.user("msg_8", "Otherwise.")
    _, thread = bring_in(store, sessions, file)
    assert texts(thread)[-2:] == ["text Done.", "user Otherwise."]
    assert len(thread.tree.leaves()) == 2


def test_an_undo_from_a_part_on_or_of_everything(store: Store, file: Path) -> None:
    sessions = usual()
    sessions.sessions["ses_1"]["revert"] = {"messageID": "msg_2", "partID": "prt_23"}
    _, thread = bring_in(store, sessions, file)
    assert said(thread.event(thread.head)) == "text Looking."
    sessions.sessions["ses_1"]["revert"] = {"messageID": "msg_1"}
    _, thread = bring_in(store, sessions, file)
    assert thread.head == 1


def test_an_undo_of_what_is_not_here_is_reported(store: Store, file: Path) -> None:
    sessions = usual()
    sessions.sessions["ses_1"]["revert"] = {"messageID": "msg_0"}
    report, thread = bring_in(store, sessions, file)
    assert codes(report) == ["missing_message"]
    assert thread.head == nodes(thread)[-1].position


# --- compaction ---


def compacted(**part: Any) -> Sessions:
    sessions = Sessions()
    sessions.session()
    sessions.user("msg_1", "start")
    sessions.assistant("msg_2", tool("c1"))
    sessions.assistant("msg_3", "ready")
    sessions.user("msg_4", {"type": "compaction", "auto": True} | part)
    sessions.assistant("msg_5", "It was started.", summary=True)
    sessions.user("msg_6", "go on")
    return sessions


def test_a_compaction_covers_what_lies_before_it(store: Store, file: Path) -> None:
    report, thread = bring_in(store, compacted(), file)
    (summary,) = thread.events(types=("summary.added",))
    assert (summary.body.text, summary.body.maker, report.summaries) == ("It was started.", "opencode", 1)
    first, last = thread.event(summary.body.first), thread.event(summary.body.last)
    assert (said(first), said(last)) == ("user start", "text ready")
    assert texts(thread)[-1] == "user go on"


def test_a_compaction_leaves_out_what_it_keeps(store: Store, file: Path) -> None:
    _, thread = bring_in(store, compacted(tail_start_id="msg_3"), file)
    (summary,) = thread.events(types=("summary.added",))
    assert said(thread.event(summary.body.last)) == "result c1 ok"


# --- parts ---


def test_what_the_program_put_in_is_not_the_users(store: Store, file: Path) -> None:
    sessions = Sessions()
    sessions.session()
    hidden = {"type": "text", "text": "not sent", "ignored": True}
    sessions.user("msg_1", "read it", {"type": "text", "text": "1: a", "synthetic": True}, hidden)
    report, thread = bring_in(store, sessions, file)
    assert [(said(event), event.source.kind, event.body.steer) for event in nodes(thread)] == [
        ("user read it", "user", False),
        ("user 1: a", "host", True),
    ]
    assert (report.user_messages, report.harness_messages) == (1, 1)


def test_files_are_pictures_and_documents(store: Store, file: Path) -> None:
    sessions = Sessions()
    sessions.session()
    data = base64.b64encode(b"png").decode()
    picture = {"type": "file", "mime": "image/png", "filename": "a.png", "url": f"data:image/png;base64,{data}"}
    place = {"type": "file", "mime": "text/plain", "filename": "b.txt", "url": "file:///w/b.txt"}
    broken = {"type": "file", "mime": "image/png", "url": "data:image/png;base64,?"}
    sessions.user("msg_1", "look", picture, place, broken)
    _, thread = bring_in(store, sessions, file)
    words, image, document, foreign = nodes(thread)[0].body.content
    assert words == Text("look")
    assert isinstance(image, Image)
    assert (image.media_type, image.name, store.attachment(image.attachment or "")) == ("image/png", "a.png", b"png")
    assert document == Document(media_type="text/plain", name="b.txt", url="file:///w/b.txt")
    assert isinstance(foreign, Foreign)


@pytest.mark.parametrize(
    ("name", "metadata", "facts"),
    [
        ("bash", {"exit": 3}, Facts(exit_code=3)),
        ("bash", {"exit": None}, None),
        (
            "edit",
            {"filediff": {"file": "/w/a", "additions": 1, "deletions": 0}},
            Facts(path="/w/a", file_changed="/w/a"),
        ),
        ("edit", {"filediff": {"file": "/w/a", "additions": 0, "deletions": 0}}, Facts(path="/w/a")),
        ("write", {"filepath": "/w/b", "exists": False}, Facts(path="/w/b", file_changed="/w/b")),
        ("write", {"filepath": "/w/b", "exists": True}, Facts(path="/w/b")),
        ("other", {"filepath": "/w/b"}, None),
    ],
)
def test_facts_are_what_the_metadata_states(
    store: Store, file: Path, name: str, metadata: dict[str, Any], facts: Facts | None
) -> None:
    sessions = Sessions()
    sessions.session()
    sessions.assistant("msg_1", tool("c1", name, state={"metadata": metadata}, filePath="/w/z"))
    _, thread = bring_in(store, sessions, file)
    result = nodes(thread)[1].body
    assert (result.facts, result.duration_us) == (facts, 250_000)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ("The user rejected permission to use this specific tool call.", "denied"),
        ("Tool execution aborted", "cancelled"),
        ("ENOENT", "error"),
    ],
)
def test_a_failed_tool_says_how(store: Store, file: Path, error: str, status: str) -> None:
    sessions = Sessions()
    sessions.session()
    sessions.assistant("msg_1", tool("c1", state={"status": "error", "error": error}))
    _, thread = bring_in(store, sessions, file)
    result = next(iter(thread.events(types=("tool.returned",))))
    assert (result.body.status, result.output) == (status, error.encode())


def test_an_output_with_files_is_blocks(store: Store, file: Path) -> None:
    sessions = Sessions()
    sessions.session()
    url = f"data:image/png;base64,{base64.b64encode(b'png').decode()}"
    shot = {"type": "file", "mime": "image/png", "url": url, "id": "prt_x"}
    sessions.assistant("msg_1", tool("c1", "read", state={"attachments": [shot]}))
    _, thread = bring_in(store, sessions, file)
    result = next(iter(thread.events(types=("tool.returned",))))
    assert result.body.form == "blocks"
    assert json.loads(result.body.extra or "")["state"]["attachments"] == [{"id": "prt_x"}]
    assert b'"done"' in (result.output or b"")


def test_steps_of_one_message_are_calls_of_their_own(store: Store, file: Path) -> None:
    sessions = Sessions()
    sessions.session()
    sessions.user("msg_1", "go")
    finish = {"type": "step-finish", "reason": "tool-calls", "tokens": TOKENS}
    last = finish | {"reason": "stop"}
    start = {"type": "step-start"}
    sessions.assistant("msg_2", start, tool("c1"), finish, start, "Done.", last, steps=False)
    report, thread = bring_in(store, sessions, file)
    finished = [event.body.response for event in thread.events(types=("call.finished",))]
    assert (finished, report.model_messages) == (["msg_2", "msg_2/1"], 2)
    assert report.usage == Usage(input=20, cache_read=6, cache_write=2, output=14, reasoning=4)


def test_a_message_without_steps_states_its_tokens_itself(store: Store, file: Path) -> None:
    sessions = Sessions()
    sessions.session()
    sessions.user("msg_1", "go")
    sessions.assistant("msg_2", "Done.", steps=False, finish="stop")
    report, thread = bring_in(store, sessions, file)
    assert report.usage.output == 7
    assert counts(thread)["turn.ended"] == 1


@pytest.mark.parametrize(
    ("error", "state", "words"),
    [
        (
            {"name": "MessageAbortedError", "data": {"message": "stopped"}},
            "interrupted",
            "MessageAbortedError: stopped",
        ),
        ({"name": "APIError", "data": {}}, "error", "APIError"),
    ],
)
def test_an_error_ends_the_turn(store: Store, file: Path, error: dict[str, Any], state: str, words: str) -> None:
    sessions = Sessions()
    sessions.session()
    sessions.user("msg_1", "go")
    sessions.assistant("msg_2", "Hal", steps=False, done=False, error=error)
    _, thread = bring_in(store, sessions, file)
    ends = [(event.body.state, event.body.error) for event in thread.events(types=("turn.ended",))]
    assert ends == [(state, words)]


def test_a_step_that_ran_out_of_tokens_leaves_the_turn_incomplete(store: Store, file: Path) -> None:
    sessions = Sessions()
    sessions.session()
    sessions.user("msg_1", "go")
    sessions.assistant("msg_2", "Hal", {"type": "step-finish", "reason": "length", "tokens": TOKENS}, steps=False)
    _, thread = bring_in(store, sessions, file)
    assert [event.body.state for event in thread.events(types=("turn.ended",))] == ["incomplete"]


# --- nothing is lost ---


def test_unknown_parts_fields_and_tables_are_kept_as_json(store: Store, file: Path) -> None:
    sessions = usual()
    sessions.parts["prt_zz"] = ("msg_3", {"type": "hologram", "beam": [1.50]})
    sessions.parts["prt_31"][1]["mood"] = {"b": 1, "a": 2}
    _, thread = bring_in(store, sessions, file)
    kept = [event.body.record for event in thread.events(types=("record.kept",))]
    assert '{"type": "hologram", "beam": [1.5]}' in kept
    assert any('"content":"water"' in record for record in kept)
    assert any(json.loads(record).get("worktree") == "/w" for record in kept)
    (done,) = [event.body for event in nodes(thread) if event.type == "segment.added" and event.body.text == "Done."]
    extra = json.loads(done.extra or "")
    assert (extra["mood"], extra["id"], extra["time"]) == ({"b": 1, "a": 2}, "prt_31", {"start": 1, "end": 2})
    row = next(json.loads(record) for record in kept if '"claude-x"' in record)
    assert (row["data"]["cost"], row["data"]["tokens"]) == (0.01, TOKENS)


def test_damage_is_reported_and_the_rest_comes_in(store: Store, file: Path) -> None:
    sessions = usual()
    sessions.messages["msg_0"] = ("ses_9", {"role": "user"})
    sessions.messages["msg_00"] = ("ses_1", "null")
    sessions.parts["prt_0"] = ("msg_none", {"type": "text", "text": "lost"})
    sessions.parts["prt_22"] = ("msg_2", '{"type": "text", "text": "a\\ud800b\\u0000"}')
    report, thread = bring_in(store, sessions, file)
    assert sorted(codes(report)) == ["missing_message", "missing_session"]
    kept = [event.body.record for event in thread.events(types=("record.kept",))]
    assert "null" in kept
    assert any('"message_id":"msg_none"' in record for record in kept)
    odd = nodes(thread)[2].body
    assert (odd.text, odd.original) == ("a\ufffdb\0", "a\ud800b\0")
    assert store.thread("ses_9").position > 1


def test_a_text_that_is_no_utf8_is_repaired(store: Store, file: Path) -> None:
    sessions = usual()
    sessions.rows.append(("UPDATE session SET title = CAST(x'41ff' AS TEXT) WHERE id = ?", ("ses_1",)))
    report, thread = bring_in(store, sessions, file)
    assert "invalid_utf8" in codes(report)
    assert thread.title == "A\ufffd"


def test_a_damaged_page_costs_what_lies_on_it(store: Store, file: Path) -> None:
    sessions = usual()
    for number in range(100, 300):
        sessions.user(f"msg_{number}", "x" * 200)
    data = bytearray(sessions.save(file).read_bytes())
    page = data.rindex(b"x" * 200) // 4096 * 4096
    data[page : page + 4096] = b"\xff" * 4096
    file.write_bytes(data)
    report = import_file(store, file)
    assert (report.lost > 0, "damaged_database" in codes(report)) == (True, True)
    assert texts(store.thread("ses_1"))[0] == "user Water the plants."


def test_half_a_database_is_refused(store: Store, file: Path) -> None:
    data = usual().save(file).read_bytes()
    file.write_bytes(data[:5000])
    with pytest.raises(ImportFailed, match="cannot be read as a database"):
        import_file(store, file)


def test_a_dry_run_writes_nothing_and_counts_the_same(store: Store, file: Path) -> None:
    usual().save(file)
    report = import_file(store, file, dry_run=True)
    assert list(store.threads()) == []
    assert report.counts() == import_file(store, file).counts()


def test_turn_memory_of_an_imported_turn_names_its_calls(tmp_path: Path, file: Path) -> None:
    with convlog.open(tmp_path / "memory.db") as store:
        import_file(store, usual().save(file))
        pieces = store.thread("ses_1").prepare(assembler="turn-memory@6", record=False).pieces
    calls = [piece for piece in pieces if piece.provenance == "turn-memory" and piece.role == "assistant"]
    assert len(calls) == 4, "the words of two responses and two calls"
