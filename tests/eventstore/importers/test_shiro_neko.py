"""shiro-neko's sessions, memories and prompt histories: written anew as a whole, taken in once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convlog.eventstore.events import Image, Text, Todo
from convlog.eventstore.importers import ImportReport, detect_format, import_file
from convlog.eventstore.store import Store
from convlog.eventstore.store import open_store as open_any
from convlog.eventstore.thread import Thread
from convlog.projections.views import view
from tests.eventstore.importers.imported import codes, counts, nodes, said, shape, texts

SAMPLES = Path(__file__).parent / "samples"
SAMPLE, MEMORY = SAMPLES / "shiro-neko-session.json", SAMPLES / "shiro-neko-memory.json"
SESSION = "019f0001-aaaa-7000-8000-000000000001"


def session(*messages: Any, **about: Any) -> bytes:
    fields = {"id": "s-1", "createdAt": "2026-05-02T09:00:00.000Z", "cwd": "/w", "inputTokens": 1, **about}
    return json.dumps({**fields, "messages": messages}, indent=2).encode()


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answer(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def bring_in(store: Store, data: bytes) -> tuple[ImportReport, Thread]:
    report = import_file(store, data, format="shiro-neko")
    return report, store.thread("s-1")


def pieces_of(thread: Any, address: str, **options: Any) -> Any:
    return view(thread, address, **options)


# --- the sample ---


def test_the_sample_has_the_counts_of_a_hand_count(store: Store) -> None:
    report = import_file(store, SAMPLE)
    assert (report.format, report.records, report.mapped, report.kept, report.lost) == ("shiro-neko", 9, 9, 0, 0)
    assert (report.user_messages, report.model_messages, report.reasoning) == (2, 4, 1)
    assert (report.tool_calls, report.tool_results, report.warnings) == (3, 3, [])
    thread = store.thread(SESSION)
    assert texts(thread) == [
        *("user why does the pagination\ntest fail?", "reasoning Look first.", "text Looking."),
        *("call call_1", "call call_2", "approval.asked", "approval.answered"),
        *("result call_1 ok", "result call_2 denied", "text The boundary is off by one."),
        *("user fix it, see this ?", "call call_3", "result call_3 error", "text It is gone.", "todo.written"),
    ]
    assert (counts(thread)["call.finished"], counts(thread)["turn.ended"]) == (4, 2)
    assert len(thread.tree.leaves()) == 1


def test_a_session_is_created_with_what_it_says_of_itself(store: Store) -> None:
    import_file(store, SAMPLE)
    thread = store.thread(SESSION)
    created = thread.event(1)
    assert (created.body.agent, created.body.cwd) == ("shiro-neko", "/home/dev/till")
    assert created.occurred_at == 1_777_712_400_000_000
    assert thread.title == "why does the pagination test fail?"
    [kept] = [event.body.record for event in thread.events(types=("record.kept",))]
    whole = json.loads(SAMPLE.read_bytes())
    assert json.loads(kept) == {name: value for name, value in whole.items() if name != "messages"}


def test_parts_keep_the_providers_ids_and_seals(store: Store) -> None:
    import_file(store, SAMPLE)
    reasoning, _, call = nodes(store.thread(SESSION))[1:4]
    assert (reasoning.body.item, reasoning.body.signature) == ("rs_1", "c2VhbA==")
    assert (reasoning.source.provider, reasoning.source.model) == ("openai", "gpt-5")
    assert (call.body.item, json.loads(call.body.input)) == ("fc_1", {"path": "page.py"})


def test_the_task_list_is_as_it_was_saved(store: Store) -> None:
    import_file(store, SAMPLE)
    assert nodes(store.thread(SESSION))[-1].body.todos == (
        Todo("read the code", "done"),
        Todo("fix the boundary", "in_progress"),
        Todo("update the docs", "blocked", "no write access"),
    )


def test_pictures_become_attachments(store: Store) -> None:
    import_file(store, SAMPLE)
    text, image = nodes(store.thread(SESSION))[10].body.content
    assert isinstance(text, Text)
    assert isinstance(image, Image)
    assert (image.media_type, store.attachment(image.attachment or "")) == ("image/png", b"\x89PNG\r\n\x1a\n")


def test_turn_memory_of_an_imported_turn_is_not_empty(store: Store) -> None:
    import_file(store, SAMPLE)
    thread = store.thread(SESSION)
    pieces = pieces_of(thread, "turn-memory@6", leaf=nodes(thread)[9].position)
    outcomes = [piece.element.content[0].text for piece in pieces if piece.role == "tool"]
    assert outcomes == ['{"status":"success"}', '{"status":"error"}']


# --- again, and again later ---


def test_the_sample_comes_in_once_however_it_is_spaced(store: Store) -> None:
    import_file(store, SAMPLE)
    before = shape(store)
    assert import_file(store, SAMPLE).appended == 0
    respaced = json.dumps(json.loads(SAMPLE.read_bytes()), ensure_ascii=False, separators=(",", ":")).encode()
    import_file(store, respaced)
    assert shape(store)[SESSION]["nodes"] == before[SESSION]["nodes"]


def test_a_session_that_grew_adds_its_end_below_the_task_list(store: Store) -> None:
    todo = {"todos": [{"content": "a", "status": "pending"}]}
    bring_in(store, session(user("one"), answer("1"), notebook=todo))
    bring_in(store, session(user("one"), answer("1"), user("two"), notebook={"todos": []}, updatedAt="later"))
    thread = store.thread("s-1")
    assert texts(thread) == ["user one", "text 1", "todo.written", "user two", "todo.written"]
    assert len(thread.tree.leaves()) == 1
    assert nodes(thread)[-1].body.todos == ()


def test_a_compacted_session_is_a_summary_over_what_was_there(store: Store) -> None:
    bring_in(store, session(user("one"), answer("1")))
    summary = user("Summary of the session so far:\n\nOne was asked.")
    _, thread = bring_in(store, session(summary, user("two")))
    assert texts(thread) == ["user one", "text 1", "user two"]
    assert [piece.provenance for piece in pieces_of(thread, "transcript@1")] == ["summary", "verbatim"]
    assert import_file(store, session(summary, user("two")), format="shiro-neko").appended == 0


def test_a_compacted_session_alone_begins_with_its_summary(store: Store) -> None:
    report, thread = bring_in(store, session(user("Summary of the session so far:\n\nOne."), user("two")))
    assert codes(report) == [(1, "summary_of_nothing")]
    assert texts(thread) == ["user Summary of the session so far:\n\nOne.", "user two"]


def test_a_cleared_session_is_another_line_and_a_shortened_one_a_branch(store: Store) -> None:
    bring_in(store, session(user("one"), answer("1"), user("two")))
    bring_in(store, session(user("one"), answer("1"), user("zwei")))
    _, thread = bring_in(store, session(user("anew")))
    assert texts(thread) == ["user anew"]
    assert [texts(thread, leaf)[-1] for leaf in thread.tree.leaves()] == ["user two", "user zwei", "user anew"]
    assert len(thread.tree.children(1)) == 2


# --- memory and history ---


def test_a_memory_is_kept_entry_by_entry_in_a_thread_of_its_kind(store: Store) -> None:
    report = import_file(store, MEMORY)
    assert (report.records, report.kept, report.lost, report.warnings) == (3, 3, 0, [])
    thread = store.thread(report.thread_ids[0])
    assert (thread.event(1).body.kind, thread.event(1).body.agent) == ("memory", "shiro-neko")
    kept = [json.loads(event.body.record) for event in thread.events(types=("record.kept",))]
    assert kept == json.loads(MEMORY.read_bytes())
    assert import_file(store, MEMORY).appended == 0


def test_an_entry_that_was_recalled_is_kept_as_it_is_now_too(store: Store) -> None:
    import_file(store, MEMORY)
    entries = json.loads(MEMORY.read_bytes())
    entries[1]["hits"] = 1
    entries.append({"id": 7, "kind": "rumour"})
    report = import_file(store, json.dumps(entries, indent=2).encode(), format="shiro-neko")
    assert codes(report) == [(4, "bad_entry")]
    assert report.kept == 4


def test_a_history_is_known_by_its_folder_and_kept_prompt_by_prompt(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "history" / "0123456789abcdef.json"
    path.parent.mkdir()
    path.write_text(json.dumps(["one", "two", "one", 42, None]))
    report = import_file(store, path)
    assert (report.records, report.kept, codes(report)) == (5, 5, [(4, "bad_entry"), (5, "bad_entry")])
    path.write_text(json.dumps(["two", "one", 42, None, "three"]))
    assert import_file(store, path).appended == 2, "the prompt, and the report"
    assert detect_format(path.read_bytes(), tmp_path / "other.json") is None


# --- anything ---


def test_damage_is_reported_and_what_came_before_is_kept(store: Store) -> None:
    whole = session(user("one"), None, "text", {"role": "user"}, {"role": "robot", "content": "x"}, answer("1"))
    report, thread = bring_in(store, whole[:-8])
    assert codes(report) == [
        *((2, "no_content"), (3, "no_content"), (4, "no_content"), (5, "no_content")),
        (0, "torn_tail"),
    ]
    assert report.records == report.mapped + report.kept + report.repeated + report.lost
    assert texts(thread) == ["user one"]


def test_halves_nul_and_doubled_names_survive(store: Store) -> None:
    data = b'{"id":"s-1","messages":[{"role":"user","content":"\\ud800 \\u0000","content":"\\udc00"}]}'
    report, thread = bring_in(store, data)
    assert codes(report) == [(1, "doubled_key")]
    assert nodes(thread)[0].body.content[0].original == "\udc00"


def test_every_field_of_a_message_is_mapped_or_kept(store: Store) -> None:
    message: dict[str, Any] = {
        "role": "assistant",
        "providerOptions": {"x": 1},
        "content": [
            {"type": "text", "text": "a", "more": 1},
            {"type": "file", "data": "QQ==", "mediaType": "text/plain"},
            {"type": "tool-call", "toolCallId": "c", "toolName": "f", "input": None, "providerExecuted": True},
            {
                "type": "tool-result",
                "toolCallId": "c",
                "toolName": "f",
                "output": {"type": "json", "value": [1], "y": 2},
            },
        ],
    }
    _, thread = bring_in(store, session(user("q"), message))
    extras = [json.loads(event.body.extra) if event.body.extra else None for event in nodes(thread)][1:]
    assert extras == [
        {"providerOptions": {"x": 1}, "block": {"more": 1}},
        {"part": message["content"][1]},
        {"block": {"providerExecuted": True}},
        {"block": {"toolName": "f", "output": {"y": 2}}},
    ]
    assert [said(event) for event in nodes(thread)[3:]] == ["call c", "result c ok"]
    assert json.loads(nodes(thread)[4].output or b"") == [1]


@pytest.mark.parametrize("path", [SAMPLE, MEMORY], ids=lambda path: path.name)
def test_a_document_is_recognised_by_its_beginning(path: Path) -> None:
    assert detect_format(path.read_bytes()) == "shiro-neko"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
kinds = st.sampled_from(
    [
        "text",
        "reasoning",
        "image",
        "file",
        "tool-call",
        "tool-result",
        "tool-approval-request",
        "tool-approval-response",
    ]
)
outputs = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "json", "error-text", "error-json", "execution-denied", "content"])},
    optional={"value": json_values, "reason": json_values},
)
parts = st.fixed_dictionaries(
    {"type": kinds},
    optional={
        "text": json_values,
        "toolCallId": st.sampled_from(["c1", "c2", 3]),
        "toolName": st.just("f"),
        "output": outputs | json_values,
        "image": json_values,
        "providerOptions": json_values | st.just({"openai": {"itemId": 1}}),
    },
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "system", "assistant", "tool", 1])},
    optional={"content": json_values | st.lists(parts | json_values, max_size=3)},
)


@given(st.lists(messages | json_values, max_size=5), json_values)
@settings(max_examples=60, deadline=None)
def test_whatever_a_session_holds_every_part_is_accounted_for_and_comes_in_once(
    found: list[Any], notebook: Any
) -> None:
    data = session(*found, notebook=notebook)
    with open_any(":memory:") as store:
        report = import_file(store, data, format="shiro-neko")
        assert report.records == len(found) + 1 == report.mapped + report.kept + report.repeated + report.lost
        assert report.lost == 0
        assert import_file(store, data, format="shiro-neko").appended == 0
