"""Sessions of the OpenAI Agents SDK: the plain form, the advanced one with branches, and encrypted ones."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convlog.eventstore.events import Usage
from convlog.eventstore.importers import ImportReport, detect_format, import_file
from convlog.eventstore.store import Store
from convlog.eventstore.store import open_store as open_any
from convlog.eventstore.thread import Thread
from tests.eventstore.importers.imported import codes, nodes, said, shape, texts

PLAIN = """
CREATE TABLE {sessions} (session_id TEXT PRIMARY KEY, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE {messages} (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, message_data TEXT NOT NULL,
    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (session_id) REFERENCES {sessions} (session_id) ON DELETE CASCADE);
"""
ADVANCED = """
CREATE TABLE message_structure (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
    message_id INTEGER NOT NULL, branch_id TEXT NOT NULL DEFAULT 'main', message_type TEXT NOT NULL,
    sequence_number INTEGER NOT NULL, user_turn_number INTEGER, branch_turn_number INTEGER, tool_name TEXT,
    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE turn_usage (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
    branch_id TEXT NOT NULL DEFAULT 'main', user_turn_number INTEGER NOT NULL, requests INTEGER DEFAULT 0,
    input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0, total_tokens INTEGER DEFAULT 0,
    input_tokens_details JSON, output_tokens_details JSON, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    UNIQUE(session_id, branch_id, user_turn_number));
CREATE TABLE branch_reservations (session_id TEXT, branch_id TEXT);
"""
CREATED = "2026-01-02 10:00:00"


class Sessions:
    """A database as the program would write it."""

    def __init__(
        self, path: Path, *, advanced: bool = False, sessions: str = "agent_sessions", messages: str = "agent_messages"
    ) -> None:
        self.path = path
        self._db = sqlite3.connect(path)
        self._db.execute("PRAGMA synchronous=OFF")
        self._names = {"sessions": sessions, "messages": messages}
        self._advanced = advanced
        self._turns: dict[tuple[str, str], int] = {}
        self._db.executescript(PLAIN.format(**self._names))
        if advanced:
            self._db.executescript(ADVANCED)
        self._db.commit()

    def session(self, id_: str = "s-1", created: str = CREATED) -> None:
        self.run("INSERT OR IGNORE INTO {sessions} VALUES (?, ?, ?)", id_, created, created)

    def run(self, sql: str, *values: object) -> int:
        found = self._db.execute(sql.format(**self._names), values).lastrowid
        self._db.commit()
        return found or 0

    def add(self, item: Any, *, session: str = "s-1", branch: str = "main") -> int:
        """Add an item, in the advanced form to a branch."""
        self.session(session)
        data = item if isinstance(item, str) else json.dumps(item)
        id_ = self.run(
            "INSERT INTO {messages} (session_id, message_data, created_at) VALUES (?, ?, ?)", session, data, CREATED
        )
        if self._advanced:
            kind = str(item.get("role") or item.get("type")) if isinstance(item, dict) else "unknown"
            turn = self._turns.get((session, branch), 0) + (kind == "user")
            self._turns[session, branch] = turn
            self.place(id_, branch, kind, turn, session=session)
        return id_

    def place(self, id_: int, branch: str, kind: str, turn: int, *, session: str = "s-1") -> None:
        self.run(
            "INSERT INTO message_structure (session_id, message_id, branch_id, message_type, sequence_number,"
            " user_turn_number, branch_turn_number) SELECT ?, ?, ?, ?, count(*) + 1, ?, ? FROM message_structure",
            *(session, id_, branch, kind, turn, turn),
        )

    def fork(self, branch: str, ids: list[int], *, session: str = "s-1") -> None:
        """Begin a branch that shares some messages."""
        for number, id_ in enumerate(ids):
            self.place(id_, branch, "user" if number % 2 == 0 else "assistant", number // 2 + 1, session=session)
        self._turns[session, branch] = (len(ids) + 1) // 2

    def usage(self, turn: int, given: int, *, branch: str = "main", session: str = "s-1") -> None:
        self.run(
            "INSERT INTO turn_usage (session_id, branch_id, user_turn_number, requests, input_tokens, output_tokens,"
            " total_tokens, input_tokens_details, output_tokens_details) VALUES (?, ?, ?, 1, ?, 7, ?, ?, ?)",
            *(session, branch, turn, given, given + 7, '{"cached_tokens": 4}', '{"reasoning_tokens": 2}'),
        )

    def close(self) -> None:
        self._db.close()


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answer(text: str, **fields: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [part]} | fields


def called(call: str, name: str = "f") -> dict[str, Any]:
    return {"type": "function_call", "call_id": call, "name": name, "arguments": '{"a":1}', "id": f"fc_{call}"}


def returned(call: str, output: Any = "x") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call, "output": output}


@pytest.fixture
def sessions(tmp_path: Path) -> Any:
    made = Sessions(tmp_path / "agents.db")
    yield made
    made.close()


@pytest.fixture
def advanced(tmp_path: Path) -> Any:
    made = Sessions(tmp_path / "advanced.db", advanced=True)
    yield made
    made.close()


def bring_in(store: Store, source: Sessions) -> tuple[ImportReport, Thread]:
    report = import_file(store, source.path)
    return report, store.thread(report.thread_ids[0])


def talk(sessions: Sessions) -> None:
    sessions.add(user("go"))
    sessions.add({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbA"})
    sessions.add(called("c1"))
    sessions.add(called("c2"))
    sessions.add(returned("c1"))
    sessions.add(returned("c2", [{"type": "input_text", "text": "y"}]))
    sessions.add(answer("done"))


# --- the plain form ---


def test_rows_are_one_line_of_items(store: Store, sessions: Sessions) -> None:
    talk(sessions)
    report, thread = bring_in(store, sessions)
    assert texts(thread) == [
        *("user go", "reasoning ", "call c1", "call c2", "result c1 ok", "result c2 ok", "text done")
    ]
    # 7 messages, and the session's own row.
    assert (report.records, report.mapped, report.kept, report.lost) == (8, 7, 1, 0)
    assert (report.user_messages, report.model_messages, report.tool_calls, report.tool_results) == (1, 2, 2, 2)
    hidden, first = nodes(thread)[1:3]
    assert (hidden.body.signature, hidden.body.item, first.body.needs) == ("c2VhbA", "rs_1", "rs_1")
    assert (hidden.source.provider, first.body.input) == ("openai", '{"a":1}')
    assert {event.body.response for event in nodes(thread) if event.type == "tool.called"} == {hidden.body.response}
    body = thread.event(1).body
    assert (body.agent, body.source_id, body.origin) == ("openai-agents", "s-1", "import")
    assert nodes(thread)[0].occurred_at == 1_767_348_000_000_000
    assert [
        (said(thread.event(event.body.node)), event.body.state) for event in thread.events(types=("turn.ended",))
    ] == [("text done", "done")]


def test_the_file_and_its_folder_stay_as_they_were(store: Store, sessions: Sessions) -> None:
    talk(sessions)
    sessions.run("PRAGMA journal_mode=WAL")
    sessions.add(user("in the log"))
    before = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sessions.path.parent.glob("agents*")}
    _, thread = bring_in(store, sessions)
    assert texts(thread)[-1] == "user in the log"
    after = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sessions.path.parent.glob("agents*")}
    assert {name: digest for name, digest in after.items() if not name.endswith("-shm")} == {
        name: digest for name, digest in before.items() if not name.endswith("-shm")
    }


def test_importing_twice_appends_nothing_and_more_rows_only_themselves(store: Store, sessions: Sessions) -> None:
    talk(sessions)
    first, thread = bring_in(store, sessions)
    before = shape(store)
    second, _ = bring_in(store, sessions)
    assert (second.appended, second.counts()) == (0, first.counts())
    assert shape(store) == before
    sessions.add(user("more"))
    third, thread = bring_in(store, sessions)
    assert texts(thread)[-2:] == ["text done", "user more"]
    assert third.user_messages == 2
    with open_any(":memory:") as other:
        import_file(other, sessions.path)
        assert shape(other).keys() == shape(store).keys()
        assert shape(other)["s-1"]["nodes"] == shape(store)["s-1"]["nodes"]


def test_content_and_file_say_the_same(store: Store, sessions: Sessions, open_store: Any) -> None:
    talk(sessions)
    other = open_store("other.db")
    import_file(store, sessions.path)
    import_file(other, sessions.path.read_bytes())
    assert shape(store) == shape(other)


def test_sessions_are_threads_and_equal_names_of_other_files_are_others(store: Store, tmp_path: Path) -> None:
    one, two = Sessions(tmp_path / "one.db"), Sessions(tmp_path / "two.db")
    one.add(user("here"))
    one.add(user("besides"), session="s-2")
    two.session("s-1", "2026-03-04 10:00:00")
    two.add(user("there"))
    report, thread = bring_in(store, one)
    _, other = bring_in(store, two)
    assert report.threads == 2
    assert (texts(thread), texts(other)) == (["user here"], ["user there"])
    assert (thread.event(1).body.source_id, other.event(1).body.source_id) == ("s-1", "s-1")
    one.close()
    two.close()


def test_rows_that_were_taken_back_stay_as_a_branch(store: Store, sessions: Sessions) -> None:
    sessions.add(user("go"))
    sessions.add(answer("one"))
    bring_in(store, sessions)
    sessions.run("DELETE FROM {messages} WHERE id = 2")
    _, thread = bring_in(store, sessions)
    assert texts(thread) == ["user go"], "what the program would go on with"
    sessions.add(answer("two"))
    _, thread = bring_in(store, sessions)
    assert texts(thread) == ["user go", "text two"]
    assert len(thread.tree.leaves()) == 2


def test_a_compaction_takes_the_place_of_what_it_replaced(store: Store, sessions: Sessions) -> None:
    talk(sessions)
    bring_in(store, sessions)
    sessions.run("DELETE FROM {messages}")
    sessions.add({"type": "compaction", "id": "cmp_1", "encrypted_content": "c2VhbA"})
    sessions.add(user("go on"))
    _, thread = bring_in(store, sessions)
    assert texts(thread) == ["opaque ", "user go on"]
    assert "c2VhbA" in nodes(thread)[-2].body.opaque
    assert len(thread.tree.children(1)) == 2


def test_tables_may_have_other_names(store: Store, tmp_path: Path) -> None:
    made = Sessions(tmp_path / "own.db", sessions='"my sessions"', messages="my_items")
    made.add(user("go"))
    assert detect_format(made.path.read_bytes()[:65536]) == "openai-agents"
    report, thread = bring_in(store, made)
    assert (texts(thread), report.records, report.kept) == (["user go"], 2, 1)
    made.close()


def test_encrypted_rows_are_kept_and_reported(store: Store, sessions: Sessions) -> None:
    sealed = {"__enc__": 1, "v": 1, "kid": "hkdf-v1", "payload": "gAAAA"}
    sessions.add(sealed)
    sessions.add(sealed | {"payload": "gBBBB"})
    report, thread = bring_in(store, sessions)
    assert codes(report) == [(1, "encrypted"), (2, "encrypted")]
    kept = [json.loads(event.body.record) for event in thread.events(types=("record.kept",))]
    assert [record.get("payload") for record in kept] == ["gAAAA", "gBBBB", None]
    assert (nodes(thread), report.lost) == ([], 0)
    assert import_file(store, sessions.path).appended == 0


def test_damaged_rows_are_kept_and_reported(store: Store, sessions: Sessions) -> None:
    sessions.add(user("one"))
    for text in ("{bad", "null", '["x"]', '{"type":"brand-new"}', '{"role":"user","content":null}'):
        sessions.add(text)
    sessions.add('{"role":"user","content":"a\\ud83d\\u0000b"}')
    sessions.add('{"role":"user","role":"user","content":"twice"}')
    sessions.add(returned("nobody"))
    sessions.run("INSERT INTO {messages} (session_id, message_data) VALUES ('lone', ?)", json.dumps(user("lone")))
    report, thread = bring_in(store, sessions)
    assert codes(report) == [
        *((2, "bad_record"), (5, "unknown_item"), (6, "unknown_item"), (8, "doubled_key"), (9, "stray_result"))
    ]
    assert texts(thread) == ["user one", "user a\ufffd\x00b", "user twice", "result nobody ok"]
    assert (report.lost, report.threads, report.records) == (0, 2, 12)
    assert report.records == report.mapped + report.kept
    assert texts(store.thread("lone")) == ["user lone"]


def test_fields_without_a_place_are_kept(store: Store, sessions: Sessions) -> None:
    id_ = sessions.add(
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi", "x": 1.50}], "y": [1]}
    )
    sessions.run("UPDATE {messages} SET created_at = '2026-01-02T10:00:00.5Z' WHERE id = ?", id_)
    sessions.add(answer("so", provider_data={"model": "m-1"}))
    _, thread = bring_in(store, sessions)
    hi, so = nodes(thread)
    assert json.loads(hi.body.extra) == {
        "item": {"y": [1], "content": [{"x": 1.5}]},
        "created_at": "2026-01-02T10:00:00.5Z",
    }
    assert hi.occurred_at == 1_767_348_000_500_000
    assert so.source.model == "m-1"
    assert json.loads(so.body.extra)["item"] == {
        "status": "completed",
        "provider_data": {"model": "m-1"},
        "content": [{"annotations": []}],
    }


# --- the advanced form ---


def branched(advanced: Sessions) -> None:
    """u1 a1 u2 a2 on main; u1 a1 u3 a3 on a branch; then u4 on main."""
    ids = [advanced.add(item) for item in (user("one"), answer("first"), user("two"), answer("second"))]
    advanced.usage(1, 10)
    advanced.usage(2, 20)
    advanced.fork("branch_from_turn_2_1700000000", ids[:2])
    for item in (user("three"), answer("third")):
        advanced.add(item, branch="branch_from_turn_2_1700000000")
    advanced.usage(2, 30, branch="branch_from_turn_2_1700000000")
    advanced.add(user("four"))


def test_branches_share_their_beginning_and_main_is_where_the_program_goes_on(store: Store, advanced: Sessions) -> None:
    branched(advanced)
    report, thread = bring_in(store, advanced)
    assert texts(thread) == ["user one", "text first", "user two", "text second", "user four"]
    leaf = thread.branch_names()["branch_from_turn_2_1700000000"]
    assert texts(thread, leaf) == ["user one", "text first", "user three", "text third"]
    assert len(thread.tree.leaves()) == 2
    assert (report.user_messages, report.model_messages) == (4, 3)
    # 7 messages, 9 rows of structure, 3 of usage, and the session.
    assert (report.records, report.mapped, report.kept, report.lost) == (20, 7, 13, 0)
    assert import_file(store, advanced.path).appended == 0


def test_a_turns_usage_is_counted_with_its_last_response(store: Store, advanced: Sessions) -> None:
    branched(advanced)
    report, thread = bring_in(store, advanced)
    usage = {
        said(thread.event(event.ref("about") or 0)): event.body.usage
        for event in thread.events(types=("call.finished",))
    }
    assert usage == {
        "text first": Usage(input=6, cache_read=4, output=7, reasoning=2),
        "text second": Usage(input=16, cache_read=4, output=7, reasoning=2),
        "text third": Usage(input=26, cache_read=4, output=7, reasoning=2),
    }
    assert report.usage == Usage(input=48, cache_read=12, output=21, reasoning=6)


def test_a_branch_that_grew_keeps_its_name_at_its_end(store: Store, advanced: Sessions) -> None:
    branched(advanced)
    bring_in(store, advanced)
    advanced.add(user("five"), branch="branch_from_turn_2_1700000000")
    _, thread = bring_in(store, advanced)
    leaf = thread.branch_names()["branch_from_turn_2_1700000000"]
    assert texts(thread, leaf)[-1] == "user five"
    assert texts(thread)[-1] == "user four"


def test_messages_that_no_branch_lists_follow_the_row_before(store: Store, advanced: Sessions) -> None:
    advanced.add(user("one"))
    id_ = advanced.add(answer("first"))
    advanced.run("DELETE FROM message_structure WHERE message_id = ?", id_)
    _, thread = bring_in(store, advanced)
    assert [said(event) for event in nodes(thread)] == ["user one", "text first"]
    assert nodes(thread)[1].parent == nodes(thread)[0].position


# --- any content ---

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
odd = json_values | st.sampled_from(["c1", "user", "assistant", "rs_1", "f"])
items = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["message", "reasoning", "function_call", "function_call_output", "x_call"]) | odd,
        "role": st.sampled_from(["user", "assistant", "system"]) | odd,
        **dict.fromkeys(("content", "id", "call_id", "name", "arguments", "output", "summary", "__enc__"), odd),
    },
)


@given(st.lists(items | odd, max_size=6), st.booleans())
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_rows_hold_every_one_is_accounted_for_and_comes_in_once(
    tmp_path_factory: pytest.TempPathFactory, found: list[Any], advanced: bool
) -> None:
    made = Sessions(tmp_path_factory.mktemp("db") / "a.db", advanced=advanced)
    for item in found:
        made.add(json.dumps(item))
    made.close()
    with open_any(":memory:") as store:
        report = import_file(store, made.path, format="openai-agents")
        assert report.records == report.mapped + report.kept + report.repeated + report.lost
        assert (report.lost, report.repeated) == (0, 0)
        assert import_file(store, made.path, format="openai-agents").appended == 0
