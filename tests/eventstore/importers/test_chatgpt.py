"""ChatGPT exports: the recorded conversation by its counts, trees, messages by kind, and every trap of the form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import convlog
from convlog.eventstore.events import Foreign, Image, Part, Text
from convlog.eventstore.importers import ImportReport, detect_format, import_file, import_path
from convlog.eventstore.store import Store
from convlog.eventstore.store import open_store as open_any
from convlog.eventstore.thread import Thread
from convlog.projections.views import view
from tests.eventstore.importers.conversations import (
    MICROSECONDS,
    SECONDS,
    ChatGPTConversation,
    as_json,
    chatgpt_talk,
    zipped,
)
from tests.eventstore.importers.imported import codes, counts, ends, log_texts, nodes, shape, texts
from tests.json_values import json_values
from tests.recorded import recorded

FORM = "chatgpt"


def bring_in(store: Store, *conversations: Any) -> tuple[ImportReport, Thread]:
    report = import_file(store, as_json(*conversations), format=FORM)
    return report, store.thread(report.thread_ids[0])


# --- the recorded conversation ---


def test_the_recorded_conversation_has_the_counts_of_a_hand_count(store: Store) -> None:
    path = recorded("chatgpt-tree.json")
    report = import_file(store, path)
    assert (report.format, report.records, report.mapped, report.kept, report.lost) == (FORM, 9, 8, 1, 0)
    assert (report.user_messages, report.model_messages, report.reasoning) == (1, 5, 2)
    assert (report.tool_calls, report.tool_results, report.threads) == (1, 1, 1)
    assert report.warnings == []
    thread = store.thread("chatgpt-fixture-conversation")
    assert thread.title == "Privacy-safe ChatGPT native fixture"
    assert len(thread.tree.leaves()) == 2
    assert texts(thread) == [
        "instructions.set",
        "user Analyze the attached fixture and create an artifact. ?",
        "reasoning Privacy-safe reasoning trace.",
        "call tool-call",
        "result tool-call ok",
        "reasoning Privacy-safe reasoning summary.",
        "text Final answer. [Download artifact](sandbox:/mnt/data/fixture-result.zip)",
        "opaque ",
    ]
    assert [state for _, state in ends(thread)] == ["done", "done"]
    assert import_file(store, path).appended == 0


def test_turn_memory_of_the_recorded_conversation_is_not_empty() -> None:
    with convlog.open(":memory:") as store:
        thread = store.thread(import_file(store, recorded("chatgpt-tree.json")).thread_ids[0])
        kept = [piece for piece in view(thread, "turn-memory@6") if piece.provenance == "turn-memory"]
    assert [piece.element.name for piece in kept if hasattr(piece.element, "input")] == ["browser.search"]


# --- the tree ---


def test_a_conversation_is_a_thread_of_its_own(store: Store) -> None:
    report, thread = bring_in(store, chatgpt_talk())
    created = thread.event(1)
    assert (created.body.agent, created.body.origin, created.body.source_id) == (FORM, "import", "c-1")
    assert created.occurred_at == MICROSECONDS == nodes(thread)[0].occurred_at
    assert texts(thread) == ["user What is new in c-1?", "call k1", "result k1 ok", "text Much."]
    assert (report.records, report.mapped, report.kept) == (6, 4, 2)
    assert ends(thread) == [("text Much.", "done")]
    assert counts(thread)["call.finished"] == 2


def test_edits_and_regenerations_are_branches_and_the_current_node_is_active(store: Store) -> None:
    talk = ChatGPTConversation()
    talk.say("user", "u1", "one")
    talk.say("assistant", "a1", "first", end_turn=True)
    talk.say("assistant", "a2", "second", parent="u1", end_turn=True)
    talk.say("user", "u2", "edited", parent=None)
    talk.current = "a1"
    report, thread = bring_in(store, talk)
    assert texts(thread) == ["user one", "text first"]
    assert len(thread.tree.leaves()) == 3
    assert (report.user_messages, report.model_messages) == (2, 2)


def test_siblings_come_in_the_order_of_their_parents_list(store: Store) -> None:
    talk = ChatGPTConversation()
    talk.say("user", "u1", "one")
    talk.say("assistant", "a1", "first")
    talk.say("assistant", "a2", "second", parent="u1")
    talk.mapping["u1"]["children"] = ["a2", "a1"]
    report, thread = bring_in(store, talk)
    assert log_texts(thread) == ["user one", "text second", "text first"]
    assert codes(report) == []


def test_a_list_of_children_that_is_wrong_is_reported_and_kept(store: Store) -> None:
    talk = ChatGPTConversation()
    talk.say("user", "u1", "one")
    talk.say("assistant", "a1", "first")
    talk.mapping["u1"]["children"] = ["zz"]
    report, thread = bring_in(store, talk)
    assert texts(thread) == ["user one", "text first"]
    assert codes(report) == [(1, "children_differ")]
    assert json.loads(nodes(thread)[0].body.extra)["children"] == ["zz"]


def test_nodes_come_in_any_order(store: Store) -> None:
    talk = chatgpt_talk()
    talk.mapping = dict(reversed(talk.mapping.items()))
    _, thread = bring_in(store, talk)
    assert texts(thread) == ["user What is new in c-1?", "call k1", "result k1 ok", "text Much."]


def test_a_missing_parent_and_a_circle_are_reported(store: Store) -> None:
    talk = ChatGPTConversation()
    talk.say("user", "u1", "one", parent="zz")
    talk.say("user", "u2", "two", parent="u3")
    talk.say("user", "u3", "three", parent="u2")
    report, thread = bring_in(store, talk)
    assert [code for _, code in codes(report)] == ["missing_parent", "parent_cycle"]
    assert sorted(log_texts(thread)) == ["user one", "user three", "user two"]


@pytest.mark.parametrize("current", [None, "zz"])
def test_without_a_current_node_the_newest_leaf_is_active(store: Store, current: str | None) -> None:
    talk = ChatGPTConversation()
    talk.say("user", "u1", "one")
    talk.say("assistant", "a1", "newer", create_time=SECONDS + 9)
    talk.say("assistant", "a2", "older", parent="u1")
    talk.current = current
    report, thread = bring_in(store, talk)
    assert texts(thread) == ["user one", "text newer"]
    assert codes(report) == [(1, "no_current_node")]


def test_ids_of_nodes_repeat_between_conversations(store: Store) -> None:
    report, _ = bring_in(store, chatgpt_talk("c-1"), chatgpt_talk("c-2"))
    assert (report.records, report.threads, report.model_messages, report.repeated) == (12, 2, 4, 0)
    for id_ in ("c-1", "c-2"):
        assert texts(store.thread(id_))[0] == f"user What is new in {id_}?"


# --- later exports ---


def test_a_later_export_adds_what_is_new_and_moves_to_its_current_node(store: Store) -> None:
    talk = chatgpt_talk()
    early = as_json(talk)
    bring_in(store, talk)
    talk.say("user", "u2", "More?")
    talk.fields |= {"update_time": SECONDS + 5, "title": "Renamed"}
    talk.mapping["u1"]["message"]["metadata"]["seen"] = True
    _, thread = bring_in(store, talk)
    assert texts(thread)[-1] == "user More?"
    assert thread.title == "Renamed"
    assert len(nodes(thread)) == 5, "what is known is not said again though its metadata changed"
    talk.current = "a1"
    talk.fields["update_time"] = SECONDS + 6
    bring_in(store, talk)
    assert texts(thread)[-1] == "text Much."
    head = thread.head
    import_file(store, early, format=FORM)
    assert (thread.head, thread.title) == (head, "Renamed"), "an earlier export moves nothing back"


def test_a_title_given_here_stays_when_the_export_has_the_same_as_before(store: Store) -> None:
    talk = chatgpt_talk()
    _, thread = bring_in(store, talk)
    thread.set_title("Mine")
    talk.fields["update_time"] = SECONDS + 5
    bring_in(store, talk)
    assert thread.title == "Mine"


def test_a_message_that_changed_is_kept_beside_the_first(store: Store) -> None:
    talk = ChatGPTConversation()
    talk.say("user", "u1", "go")
    talk.say("assistant", "a1", "Wri", status="in_progress")
    bring_in(store, talk)
    talk.mapping["a1"]["message"] |= {"status": "finished_successfully", "end_turn": True}
    talk.mapping["a1"]["message"]["content"] = {"content_type": "text", "parts": ["Written."]}
    _, thread = bring_in(store, talk)
    assert log_texts(thread) == ["user go", "text Wri", "text Written."]
    assert texts(thread) == ["user go", "text Written."]


# --- messages ---


def test_what_has_no_place_is_kept_with_the_first_part(store: Store) -> None:
    talk = ChatGPTConversation()
    content = {"content_type": "text", "parts": ["hi", "ho"], "more": 1.50}
    talk.say("user", "u1", content, metadata={"a": [1]}, channel=None)
    _, thread = bring_in(store, talk)
    node = nodes(thread)[0]
    assert node.body.content == (Text("hi"), Text("ho"))
    extra = json.loads(node.body.extra)
    assert extra["parent"] is None
    assert extra["message"]["metadata"] == {"a": [1]}
    assert extra["message"]["create_time"] == SECONDS
    assert extra["message"]["content"] == {"content_type": "text", "more": 1.5}
    about = next(iter(thread.events(types=("record.kept",))))
    assert json.loads(about.body.record) == {name: value for name, value in talk.value.items() if name != "mapping"}


def test_pictures_are_named_and_other_parts_kept(store: Store) -> None:
    pointer = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://f", "width": 8, "height": 9}
    sound = {"content_type": "audio_transcription", "text": "hm"}
    talk = ChatGPTConversation()
    talk.say("user", "u1", {"content_type": "multimodal_text", "parts": ["see", pointer | {"size": 3}, sound, None]})
    _, thread = bring_in(store, talk)
    see, image, heard, none = nodes(thread)[0].body.content
    assert see == Text("see")
    assert image == Image(name="sediment://f", width=8, height=9, extra='{"size":3}')
    assert isinstance(heard, Foreign)
    assert json.loads(heard.json) == sound
    assert none == Foreign(json="null", provider="openai")


def test_what_the_user_set_for_all_conversations_are_instructions(store: Store) -> None:
    content = {"content_type": "user_editable_context", "user_profile": "A cook.", "user_instructions": "Be brief."}
    talk = ChatGPTConversation()
    talk.say("user", "u0", content, metadata={"is_user_system_message": True})
    talk.say("user", "u1", "hi")
    report, thread = bring_in(store, talk)
    assert nodes(thread)[0].body.parts == (
        Part(name="user_profile", text="A cook.", origin="user"),
        Part(name="user_instructions", text="Be brief.", origin="user"),
    )
    assert (report.user_messages, report.harness_messages) == (1, 0)


def test_hidden_inputs_are_not_the_users_and_stay_in_the_tree(store: Store) -> None:
    talk = ChatGPTConversation()
    talk.say("system", "s1", "Be kind.")
    talk.say("system", "s2", " ")
    talk.say("user", "u1", "hidden", metadata={"is_visually_hidden_from_conversation": True})
    talk.say("user", "u2", "weightless", weight=0.0)
    talk.say("user", "u3", "mine")
    report, thread = bring_in(store, talk)
    assert texts(thread) == ["user Be kind.", "user hidden", "user weightless", "user mine"]
    assert [(event.source.kind, event.body.role, event.body.steer) for event in nodes(thread)] == [
        ("system", "system", False),
        ("host", "user", True),
        ("host", "user", True),
        ("user", "user", False),
    ]
    assert (report.user_messages, report.harness_messages, report.kept) == (1, 3, 1)


def test_thinking_is_reasoning_and_ends_no_turn(store: Store) -> None:
    talk = ChatGPTConversation()
    talk.say("user", "u1", "go")
    thoughts = [{"summary": "First", "content": "Look."}, {"summary": "Then", "content": "", "finished": True}]
    talk.say("assistant", "h1", {"content_type": "thoughts", "thoughts": thoughts, "source_analysis_msg_id": "x"})
    talk.say("assistant", "h2", {"content_type": "reasoning_recap", "content": "Thought for 2s"})
    report, thread = bring_in(store, talk)
    assert texts(thread) == ["user go", "reasoning First\nLook.\n\nThen", "reasoning Thought for 2s"]
    assert ends(thread) == []
    assert json.loads(nodes(thread)[1].body.extra)["message"]["content"]["thoughts"] == thoughts
    assert report.reasoning == 2


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"end_turn": True}, "done"),
        ({"end_turn": None}, "done"),
        ({"end_turn": False}, None),
        ({"status": "in_progress"}, None),
        ({"metadata": {"finish_details": {"type": "max_tokens"}}}, "incomplete"),
        ({"end_turn": True, "metadata": {"finish_details": {"type": "interrupted"}}}, "interrupted"),
        ({"end_turn": True, "metadata": {"finish_details": {"type": "stop"}}}, "done"),
    ],
)
def test_a_turn_ends_where_the_source_says_or_with_a_complete_answer(
    store: Store, fields: dict[str, Any], state: str | None
) -> None:
    talk = ChatGPTConversation()
    talk.say("user", "u1", "go")
    talk.say("assistant", "a1", "so", **fields)
    _, thread = bring_in(store, talk)
    assert ends(thread) == ([] if state is None else [("text so", state)])


def test_an_answer_that_another_message_of_the_model_follows_ends_no_turn(store: Store) -> None:
    talk = ChatGPTConversation()
    talk.say("user", "u1", "go")
    talk.say("assistant", "a1", "Let me see.")
    talk.say("assistant", "a2", "Done.")
    _, thread = bring_in(store, talk)
    assert ends(thread) == [("text Done.", "done")]


def test_code_for_a_tool_is_a_call_as_it_was_written(store: Store) -> None:
    talk = ChatGPTConversation()
    talk.say("user", "u1", "go")
    talk.say("assistant", "k1", {"content_type": "code", "language": "python", "text": "print(1)"}, recipient="python")
    talk.say("tool", "t1", {"content_type": "execution_output", "text": "1"}, name="python")
    talk.say("assistant", "k2", '{ "q": 1.50 }', recipient="browser.search")
    quote = {"content_type": "tether_browsing_display", "result": "found", "summary": "s"}
    talk.say("tool", "t2", quote, name="browser")
    talk.say("assistant", "k3", {"content_type": "text", "parts": ["a", "b"]}, recipient="bio")
    talk.say("tool", "t3", {"content_type": "multimodal_text", "parts": ["a picture", {"x": 1}]}, name="bio")
    _, thread = bring_in(store, talk)
    asked = [event.body for event in nodes(thread) if event.type == "tool.called"]
    assert [(body.name, body.kind, body.input) for body in asked] == [
        ("python", "custom", "print(1)"),
        ("browser.search", "function", '{ "q": 1.50 }'),
        ("bio", "custom", "a\nb"),
    ]
    results = [event for event in nodes(thread) if event.type == "tool.returned"]
    assert [(event.body.call, event.body.form) for event in results] == [
        ("k1", "text"),
        ("k2", "text"),
        ("k3", "blocks"),
    ]
    assert [event.output for event in results[:2]] == [b"1", b"found"]
    assert json.loads(asked[0].extra)["message"]["content"] == {"content_type": "code", "language": "python"}
    assert json.loads(asked[2].extra)["message"]["content"]["parts"] == ["a", "b"]


def test_results_answer_the_call_of_their_tool_first(store: Store) -> None:
    talk = ChatGPTConversation()
    talk.say("user", "u1", "go")
    talk.say("assistant", "k1", "a", recipient="web.run")
    talk.say("assistant", "k2", "b", recipient="python")
    talk.say("tool", "t1", "from web", name="web")
    talk.say("tool", "t2", "from python", name="python")
    talk.say("tool", "t3", "once more", name="python")
    report, thread = bring_in(store, talk)
    results = [event.body.call for event in nodes(thread) if event.type == "tool.returned"]
    assert results[:2] == ["k1", "k2"]
    assert codes(report) == [(1, "stray_result")]
    assert report.tool_results == 3


def test_results_on_two_branches_answer_the_same_call(store: Store) -> None:
    talk = ChatGPTConversation()
    talk.say("user", "u1", "go")
    talk.say("assistant", "k1", "a", recipient="python")
    talk.say("tool", "t1", "one", name="python")
    talk.say("tool", "t2", "two", name="python", parent="k1")
    report, thread = bring_in(store, talk)
    asked = nodes(thread)[1].position
    assert [event.ref("answers") for event in nodes(thread)[2:]] == [asked, asked]
    assert report.warnings == []


def test_a_result_above_which_nothing_was_called_is_kept(store: Store) -> None:
    talk = ChatGPTConversation()
    talk.say("user", "u1", "go")
    talk.say("tool", "t1", "unasked", name="bio")
    report, thread = bring_in(store, talk)
    assert texts(thread) == ["user go", "result t1 ok"]
    assert codes(report) == [(1, "stray_result")]


@pytest.mark.parametrize(
    ("fields", "content", "status"),
    [
        ({"metadata": {"aggregate_result": {"status": "failed_with_in_kernel_exception"}}}, "x", "error"),
        ({"metadata": {"aggregate_result": {"status": "success"}}}, "x", "ok"),
        ({}, {"content_type": "system_error", "name": "E", "text": "no"}, "error"),
    ],
)
def test_a_result_says_how_it_ended(store: Store, fields: dict[str, Any], content: Any, status: str) -> None:
    talk = ChatGPTConversation()
    talk.say("assistant", "k1", "a", recipient="python")
    talk.say("tool", "t1", content, name="python", **fields)
    _, thread = bring_in(store, talk)
    assert nodes(thread)[1].body.status == status


# --- files ---


def test_the_list_a_single_conversation_and_the_zip_are_the_same(store: Store) -> None:
    talk = chatgpt_talk()
    single = json.dumps(talk.value, indent=2).encode()
    archive = zipped(conversations=as_json(talk), user=b"{}")
    assert detect_format(single) == detect_format(as_json(talk)) == FORM
    assert import_file(store, single).appended > 0
    assert import_file(store, as_json(talk)).appended == 0
    assert import_file(store, archive).appended == 0


def test_shards_of_a_folder_are_read_each_by_itself(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "conversations-000.json").write_bytes(as_json(chatgpt_talk("c-1"), chatgpt_talk("c-2")))
    (folder / "conversations-001.json").write_bytes(as_json(chatgpt_talk("c-3")))
    (folder / "user.json").write_bytes(b'{"id": "me"}')
    found = {Path(row.path).name: row.format for row in import_path(store, folder)}
    assert found == {"conversations-000.json": FORM, "conversations-001.json": FORM, "user.json": None}
    assert {row.source_id for row in store.threads()} == {"c-1", "c-2", "c-3"}


def test_lists_that_follow_each_other_are_all_read(store: Store) -> None:
    report = import_file(store, as_json(chatgpt_talk("c-1")) + b"\n" + as_json(chatgpt_talk("c-2")))
    assert (report.threads, report.lost) == (2, 0)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"[null,%s]", [(1, "not_object")]),
        (b'[{"title":"x",}, %s]', [(1, "bad_record")]),
        (b"[%s,{", [(2, "torn_tail")]),
        (b"[%s", [(1, "torn_tail")]),
        (b'[{"title":"\xff","id":"c-0","mapping":{}},%s]', [(1, "invalid_utf8")]),
        (b'[{"title":"x","id":"c-0","mapping":null},%s]', [(1, "no_mapping")]),
        (b'[{"title":"a","title":"b","id":"c-0","mapping":{}},%s]', [(1, "doubled_key")]),
        (b"[" + b"[" * 300 + b"]" * 300 + b",%s]", [(1, "too_deep")]),
    ],
)
def test_damage_costs_one_conversation_and_is_reported(store: Store, data: bytes, found: list[tuple[int, str]]) -> None:
    content = data.replace(b"%s", as_json(chatgpt_talk())[1:-1])
    report = import_file(store, content, format=FORM)
    assert codes(report) == found
    assert texts(store.thread("c-1"))[-1] == "text Much."
    assert report.lost == (found[0][1] in {"not_object", "bad_record", "torn_tail", "too_deep"} and data != b"[%s")


def test_odd_nodes_are_kept(store: Store) -> None:
    talk = ChatGPTConversation()
    talk.say("user", "u1", "a\ud83d\x00b")
    talk.mapping["x1"] = None
    talk.node("x2", {"author": None, "content": None}, parent="u1")
    talk.node("x3", {"author": {"role": "assistant"}, "content": None}, parent="x2")
    data = json.dumps([talk.value]).encode()
    report = import_file(store, data, format=FORM)
    thread = store.thread("c-1")
    assert nodes(thread)[0].body.content[0].original == "a\ud83d\x00b"
    assert texts(thread)[1:] == ["text "]
    assert (report.records, report.kept, codes(report)) == (4, 2, [(1, "not_object")])
    assert import_file(store, data, format=FORM).appended == 0


def test_a_conversation_without_an_id_goes_by_its_first_message(store: Store) -> None:
    talk = chatgpt_talk()
    value = talk.value
    del value["conversation_id"]
    report = import_file(store, json.dumps([value]).encode())
    assert codes(report) == [(1, "no_id")]
    assert import_file(store, json.dumps([value]).encode()).appended == 0


def test_a_dry_run_counts_and_writes_nothing(store: Store) -> None:
    data = as_json(chatgpt_talk("c-1"), chatgpt_talk("c-2"))
    dry = import_file(store, data, dry_run=True)
    assert list(store.threads()) == []
    assert dry.appended == import_file(store, data).appended


# --- any content ---

ids = st.sampled_from(["a", "b", "c", "current:a"])
messages = st.fixed_dictionaries(
    {"author": st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "tool", "system", "x"])})},
    optional={
        "content": st.fixed_dictionaries(
            {"content_type": st.sampled_from(["text", "code", "thoughts", "multimodal_text", "z"])},
            optional=dict.fromkeys(("parts", "text", "thoughts", "content", "result"), json_values),
        )
        | json_values,
        "recipient": st.sampled_from(["all", "python"]) | json_values,
        **dict.fromkeys(("metadata", "end_turn", "status", "weight", "create_time"), json_values),
    },
)
nodes_of_any = st.fixed_dictionaries(
    {},
    optional={"parent": ids | json_values, "children": st.lists(ids) | json_values, "message": messages | json_values},
)
conversations = st.fixed_dictionaries(
    {"mapping": st.dictionaries(ids, nodes_of_any | json_values, max_size=4) | json_values},
    optional={"id": ids | json_values, "current_node": ids, **dict.fromkeys(("title", "update_time"), json_values)},
)


@given(st.lists(conversations | json_values, max_size=4))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_content_stops_an_import_and_a_second_one_appends_nothing(values: list[Any]) -> None:
    data = json.dumps(values).encode()
    with open_any(":memory:") as store:
        import_file(store, data, format=FORM)
        before = shape(store)
        assert import_file(store, data, format=FORM).appended == 0
        assert shape(store) == before
