"""Claude.ai exports: both forms of its messages, rounds of an answer, and every trap of the form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convlog.eventstore.events import Document, Text
from convlog.eventstore.importers import ImportReport, detect_format, import_file
from convlog.eventstore.store import Store
from convlog.eventstore.store import open_store as open_any
from convlog.eventstore.thread import Thread
from tests.eventstore.importers.conversations import (
    ISO,
    MICROSECONDS,
    as_json,
    claude_conversation,
    claude_message,
    zipped,
)
from tests.eventstore.importers.imported import codes, counts, ends, log_texts, nodes, shape, texts
from tests.json_values import json_values

FORM = "claude-ai"
NOBODY = "00000000-0000-4000-8000-000000000000"


def bring_in(store: Store, *conversations: Any) -> tuple[ImportReport, Thread]:
    report = import_file(store, as_json(*conversations), format=FORM)
    return report, store.thread(report.thread_ids[0])


def tool_use(id_: str | None, name: str = "web_search", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": name, "input": {"q": 1}} | fields


def tool_result(id_: str | None, *content: Any, name: str = "web_search", **fields: Any) -> dict[str, Any]:
    blocks = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
    return {"type": "tool_result", "tool_use_id": id_, "name": name, "content": blocks, "is_error": False} | fields


# --- both forms ---


def test_an_older_export_is_a_chain_in_the_order_of_its_list(store: Store) -> None:
    report, thread = bring_in(
        store,
        claude_conversation(
            claude_message("m1", "human", "Hi"), claude_message("m2", "assistant", "Hello"), name="Greetings"
        ),
    )
    assert texts(thread) == ["user Hi", "text Hello"]
    assert (report.records, report.mapped, report.kept, report.lost) == (2, 2, 0, 0)
    assert (report.user_messages, report.model_messages, report.threads) == (1, 1, 1)
    created = thread.event(1)
    assert (created.body.agent, created.body.origin, created.body.source_id) == (FORM, "import", "c-1")
    assert created.occurred_at == MICROSECONDS == nodes(thread)[0].occurred_at
    assert thread.title == "Greetings"
    assert ends(thread) == [("text Hello", "done")]
    assert counts(thread)["call.finished"] == 1


@pytest.mark.parametrize("root", [NOBODY, "00000000-0000-0000-0000-000000000000", None])
def test_a_newer_export_is_a_tree_and_its_newest_leaf_is_active(store: Store, root: str | None) -> None:
    later = "2026-01-02T11:00:00.000000Z"
    report, thread = bring_in(
        store,
        claude_conversation(
            claude_message("m1", "human", "one", parent=root),
            claude_message("m2", "assistant", "first", parent="m1", created_at=later),
            claude_message("m3", "assistant", "second", parent="m1"),
            claude_message("m4", "human", "edited", parent=root),
        ),
    )
    assert texts(thread) == ["user one", "text first"]
    assert len(thread.tree.leaves()) == 3
    assert report.warnings == []


def test_the_sites_own_answer_names_the_active_leaf_and_the_model(store: Store) -> None:
    conversation = claude_conversation(
        claude_message("m1", "human", "one", parent=NOBODY),
        claude_message("m2", "assistant", "first", parent="m1", stop_reason="max_tokens"),
        claude_message("m3", "assistant", "second", parent="m1"),
        model="claude-x",
        current_leaf_message_uuid="m2",
        settings={"a": 1},
    )
    _, thread = bring_in(store, conversation)
    assert texts(thread) == ["user one", "text first"]
    finished = [event.body for event in thread.events(types=("call.finished",))]
    assert [(body.model, body.stop) for body in finished] == [("claude-x", "max_tokens"), ("claude-x", None)]
    assert ends(thread) == [("text first", "incomplete"), ("text second", "done")]
    about = next(iter(thread.events(types=("record.kept",)))).body.record
    assert json.loads(about) == {name: value for name, value in conversation.items() if name != "chat_messages"}


def test_both_forms_and_the_zip_are_detected(store: Store) -> None:
    conversation = claude_conversation(claude_message("m1", "human", "Hi"))
    assert detect_format(as_json(conversation)) == FORM
    assert detect_format(json.dumps(conversation, indent=1).encode()) == FORM
    archive = zipped(conversations=as_json(conversation), users=b"[]", projects=b"[]")
    assert import_file(store, archive).format == FORM
    assert import_file(store, as_json(conversation)).appended == 0


# --- answers ---


def test_an_answer_of_several_rounds_is_one_message_and_a_response_for_each(store: Store) -> None:
    answer = claude_message(
        "m2",
        "assistant",
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln", "summaries": []},
        "Looking.",
        tool_use("t1"),
        tool_use("t2"),
        tool_result("t2", "two"),
        tool_result("t1", "one"),
        tool_use("t3", message="why"),
        tool_result("t3", "three", is_error=True),
        "Found.",
    )
    report, thread = bring_in(store, claude_conversation(claude_message("m1", "human", "Go"), answer))
    assert texts(thread) == [
        *("user Go", "reasoning Hm.", "text Looking.", "call t1", "call t2", "result t2 ok", "result t1 ok"),
        *("call t3", "result t3 error", "text Found."),
    ]
    assert (report.records, report.mapped, report.model_messages) == (2, 2, 1)
    assert (report.tool_calls, report.tool_results, report.reasoning) == (3, 3, 1)
    responses = [event.body.response for event in thread.events(types=("call.finished",))]
    assert responses == ["m2", "m2/1", "m2/2"]
    assert ends(thread) == [("text Found.", "done")]
    asked = [event.body for event in nodes(thread) if event.type == "tool.called"]
    assert [(body.response, body.part) for body in asked] == [("m2", 2), ("m2", 3), ("m2/1", 0)]
    assert json.loads(asked[2].extra) == {"block": {"message": "why"}}


def test_what_follows_an_answer_hangs_below_its_last_round(store: Store) -> None:
    _, thread = bring_in(
        store,
        claude_conversation(
            claude_message("m1", "human", "Go", parent=NOBODY),
            claude_message("m2", "assistant", tool_use("t1"), tool_result("t1", "x"), "Found.", parent="m1"),
            claude_message("m3", "human", "Thanks", parent="m2"),
        ),
    )
    assert texts(thread)[-2:] == ["text Found.", "user Thanks"]


def test_calls_without_ids_pair_by_their_tool_and_order(store: Store) -> None:
    answer = claude_message(
        "m2",
        "assistant",
        tool_use(None, "a"),
        tool_use(None, "b"),
        tool_result(None, "of b", name="b"),
        tool_result(None, "of a", name="?"),
        tool_result(None, "of nobody", name="a"),
    )
    report, thread = bring_in(store, claude_conversation(claude_message("m1", "human", "Go"), answer))
    assert texts(thread)[1:] == [
        *("call m2/0", "call m2/1", "result m2/1 ok", "result m2/0 ok", "result m2/4 ok"),
    ]
    assert codes(report) == [(1, "stray_result")]
    assert json.loads(nodes(thread)[1].body.extra)["block"] == {"id": None}
    assert ends(thread) == []


def test_a_results_blocks_are_kept_as_they_are(store: Store) -> None:
    knowledge = {"type": "knowledge", "title": "T", "url": "u", "text": "words"}
    answer = claude_message(
        "m2",
        "assistant",
        *(tool_use("t1"), tool_use("t2"), tool_use("t3")),
        tool_result("t1", {"type": "text", "text": "one", "uuid": "x"}, structured_content={"a": 1.5}),
        tool_result("t2", "two", knowledge),
        tool_result("t3", content=None),
    )
    _, thread = bring_in(store, claude_conversation(answer))
    one, two, three = (event for event in nodes(thread) if event.type == "tool.returned")
    assert (one.output, one.body.form) == (b"one", "text")
    extra = json.loads(one.body.extra)
    assert extra["blocks"] == [{"uuid": "x"}]
    assert extra["block"]["structured_content"] == {"a": 1.5}
    assert two.body.form == "blocks"
    assert json.loads(json.loads(two.output or b"")[1]["json"]) == knowledge
    assert (three.output, json.loads(three.body.extra)["block"]["content"]) == (None, None)


def test_blocks_by_the_way_are_notices(store: Store) -> None:
    budget = {"type": "token_budget", "remaining": 5}
    _, thread = bring_in(store, claude_conversation(claude_message("m1", "assistant", budget, "Hi")))
    assert texts(thread) == ["notice ", "text Hi"]
    assert json.loads(nodes(thread)[0].body.extra)["block"] == budget


# --- what a person wrote ---


def test_pastes_are_text_and_files_documents(store: Store) -> None:
    paste = {"file_name": "", "file_size": 5, "file_type": "txt", "extracted_content": "pasted"}
    file = {"file_name": "a.csv", "file_size": 3, "file_type": "csv", "extracted_content": "1,2"}
    bare = {"file_name": "b.png", "file_size": 3}
    message = claude_message("m1", "human", "See", attachments=[paste, file, bare], files=[{"file_name": "b.png"}])
    _, thread = bring_in(store, claude_conversation(message))
    see, pasted, document = nodes(thread)[0].body.content
    assert (see, pasted) == (Text("See"), Text("pasted"))
    assert isinstance(document, Document)
    assert (document.name, store.attachment(document.attachment or "")) == ("a.csv", b"1,2")
    extra = json.loads(nodes(thread)[0].body.extra)
    assert extra["attachments"] == [
        {"file_name": "", "file_size": 5, "file_type": "txt"},
        {"file_name": "a.csv", "file_size": 3, "file_type": "csv"},
        bare,
    ]
    assert extra["files"] == [{"file_name": "b.png"}]


def test_a_message_without_blocks_has_its_flat_text(store: Store) -> None:
    _, thread = bring_in(
        store,
        claude_conversation(
            claude_message("m1", "human", text="Hi"),
            claude_message("m2", "assistant", text="Hello", content=None),
            claude_message("m3", "assistant", text=""),
        ),
    )
    assert texts(thread) == ["user Hi", "text Hello", "text "]


def test_what_has_no_place_is_kept(store: Store) -> None:
    block = {"type": "text", "text": "Hi", "citations": [1.50], "start_timestamp": None}
    message = claude_message("m1", "human", block, text="another", odd={"b": 1, "a": 2})
    _, thread = bring_in(store, claude_conversation(message))
    assert json.loads(nodes(thread)[0].body.extra) == {
        "text": "another",
        "created_at": ISO,
        "updated_at": ISO,
        "files": [],
        "odd": {"b": 1, "a": 2},
        "blocks": [{"citations": [1.5], "start_timestamp": None}],
        "attachments": [],
    }


# --- damage ---


def test_a_missing_parent_is_reported(store: Store) -> None:
    report, thread = bring_in(
        store,
        claude_conversation(
            claude_message("m1", "human", "one", parent=NOBODY), claude_message("m2", "human", "two", parent="zz")
        ),
    )
    assert codes(report) == [(1, "missing_parent")]
    assert log_texts(thread) == ["user one", "user two"]


def test_odd_messages_are_links(store: Store) -> None:
    report, thread = bring_in(
        store,
        claude_conversation(
            claude_message("m1", "human", "one"),
            None,
            claude_message("m2", "nobody", "x"),
            claude_message("m3", "assistant", "three"),
        ),
    )
    assert texts(thread) == ["user one", "text three"]
    assert (report.kept, codes(report)) == (2, [(1, "not_object")])


@pytest.mark.parametrize("messages", [None, "x", {}])
def test_a_conversation_without_messages_is_kept(store: Store, messages: Any) -> None:
    report, thread = bring_in(store, claude_conversation() | {"chat_messages": messages})
    assert codes(report) == [(1, "no_messages")]
    assert json.loads(next(iter(thread.events(types=("record.kept",)))).body.record)["chat_messages"] == messages


def test_an_id_met_again_is_kept_beside_the_first(store: Store) -> None:
    report, thread = bring_in(
        store, claude_conversation(claude_message("m1", "human", "one"), claude_message("m1", "human", "uno"))
    )
    assert sorted(log_texts(thread)) == ["user one", "user uno"]
    assert report.lost == 0


def test_a_later_export_adds_what_is_new(store: Store) -> None:
    first = claude_message("m1", "human", "one")
    early = claude_conversation(first)
    bring_in(store, early)
    later = claude_conversation(first, claude_message("m2", "assistant", "two"), updated_at="2026-01-03T10:00:00Z")
    _, thread = bring_in(store, later)
    assert texts(thread) == ["user one", "text two"]
    assert import_file(store, as_json(later)).appended == 0
    head = thread.head
    bring_in(store, early)
    assert thread.head == head


def test_import_twice_appends_nothing_and_conversations_stay_apart(store: Store) -> None:
    data = as_json(
        claude_conversation(claude_message("m1", "human", "a"), uuid="c-1"),
        claude_conversation(claude_message("m1", "human", "b"), uuid="c-2"),
    )
    report = import_file(store, data)
    assert (report.threads, report.records) == (2, 2)
    before = shape(store)
    assert import_file(store, data).appended == 0
    assert shape(store) == before


# --- any content ---

ids = st.sampled_from(["m1", "m2", "t1", NOBODY])
blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "thinking", "tool_use", "tool_result", "image", "token_budget"])},
    optional=dict.fromkeys(
        ("text", "thinking", "signature", "id", "name", "input", "tool_use_id", "content", "is_error"),
        json_values | ids,
    ),
)
messages = st.fixed_dictionaries(
    {"sender": st.sampled_from(["human", "assistant", "x"])},
    optional={
        "uuid": ids,
        "parent_message_uuid": ids | json_values,
        "content": st.lists(blocks | json_values, max_size=5) | json_values,
        **dict.fromkeys(("text", "attachments", "created_at", "stop_reason"), json_values),
    },
)
conversations = st.fixed_dictionaries(
    {"chat_messages": st.lists(messages | json_values, max_size=4) | json_values},
    optional={"uuid": ids, **dict.fromkeys(("name", "updated_at", "model", "current_leaf_message_uuid"), json_values)},
)


@given(st.lists(conversations | json_values, max_size=3))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_content_stops_an_import_and_a_second_one_appends_nothing(values: list[Any]) -> None:
    data = json.dumps(values).encode()
    with open_any(":memory:") as store:
        import_file(store, data, format=FORM)
        before = shape(store)
        assert import_file(store, data, format=FORM).appended == 0
        assert shape(store) == before
