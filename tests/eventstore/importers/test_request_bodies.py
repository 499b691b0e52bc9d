"""Bodies of requests to OpenAI and Anthropic: a thread for each, named by its bytes."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from blake3 import blake3

from convlog.eventstore.errors import ImportFailed
from convlog.eventstore.events import Document, Foreign, Image, Text
from convlog.eventstore.importers import ImportReport, detect_format, import_file
from convlog.eventstore.store import Store
from convlog.eventstore.thread import Thread
from tests.eventstore.importers.imported import counts, nodes, shape, texts

PNG = f"data:image/png;base64,{base64.b64encode(b'png').decode()}"

CHAT: dict[str, Any] = {
    "model": "gpt-x",
    "temperature": 0.5,
    "messages": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "List"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "k1", "type": "function", "function": {"name": "ls", "arguments": '{"b":1.50, "a":1}'}},
                {"id": "k2", "type": "custom", "custom": {"name": "sh", "input": "ls -l"}},
            ],
        },
        {"role": "tool", "tool_call_id": "k1", "content": "a.txt"},
        {"role": "tool", "tool_call_id": "k2", "content": [{"type": "text", "text": "b.txt"}]},
        {"role": "assistant", "content": "Two files."},
        {"role": "user", "content": "Thanks", "name": "ann"},
    ],
    "tools": [
        {"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}, "strict": True}},
        {"type": "custom", "custom": {"name": "sh"}},
    ],
}

ANTHROPIC: dict[str, Any] = {
    "model": "claude-x",
    "max_tokens": 10,
    "system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": "List"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "k1", "name": "ls", "input": {"a": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "k1", "content": "no", "is_error": True},
                {"type": "text", "text": "Go on"},
            ],
        },
        {"role": "assistant", "content": "Done."},
    ],
    "tools": [{"name": "ls", "description": "list", "input_schema": {"type": "object"}}],
}

RESPONSES: dict[str, Any] = {
    "model": "gpt-x",
    "instructions": "Be kind.",
    "input": [
        {"role": "user", "content": "List"},
        {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "sealed"},
        {"type": "function_call", "call_id": "k1", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "k1", "output": "a.txt"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "One file."}]},
        {"type": "item_reference", "id": "x"},
    ],
    "tools": [{"type": "function", "name": "ls", "parameters": {}}, {"type": "web_search"}],
}


def spelled(body: Any) -> bytes:
    return json.dumps(body).encode()


def bring_in(store: Store, body: Any) -> tuple[ImportReport, Thread]:
    report = import_file(store, body if isinstance(body, bytes) else spelled(body))
    return report, store.thread(report.thread_ids[0])


def codes(report: ImportReport) -> list[tuple[int, str]]:
    return [(finding.line, finding.code) for finding in report.warnings]


@pytest.mark.parametrize(
    ("body", "form"), [(CHAT, "openai"), (RESPONSES, "openai"), (ANTHROPIC, "anthropic"), (CHAT["messages"], "openai")]
)
def test_a_body_is_known_named_by_its_bytes_and_imported_once(store: Store, body: Any, form: str) -> None:
    data = spelled(body)
    assert detect_format(data) == form
    first, thread = bring_in(store, data)
    assert (first.format, first.lost) == (form, 0)
    assert thread.event(1).body.source_id == blake3(data).hexdigest()
    before = shape(store)
    second = import_file(store, data)
    assert (second.appended, second.counts(), shape(store)) == (0, first.counts(), before)


def test_a_chat_body_is_instructions_tools_and_messages(store: Store) -> None:
    report, thread = bring_in(store, CHAT)
    assert (report.records, report.mapped, report.kept) == (8, 7, 1)
    assert (report.user_messages, report.model_messages, report.tool_calls, report.tool_results) == (2, 2, 2, 2)
    assert texts(thread) == [
        *("tools.set", "instructions.set", "user List", "reasoning hm", "call k1", "call k2"),
        *("result k1 ok", "result k2 ok", "text Two files.", "user Thanks"),
    ]
    tools, standing, _, thought, call, custom, _, listed = nodes(thread)[:8]
    assert [(tool.name, tool.input_schema) for tool in tools.body.tools] == [("ls", '{"type": "object"}'), ("sh", None)]
    assert (standing.body.parts[0].name, standing.body.parts[0].text) == ("system", "Be kind.")
    assert (call.body.input, custom.body.input, custom.body.kind) == ('{"b":1.50, "a":1}', "ls -l", "custom")
    assert (thought.source.provider, thought.source.model) == ("openai", "gpt-x")
    assert {event.body.response for event in (thought, call, custom)} == {"message:3"}
    assert listed.body.form == "blocks"
    assert [event.body.node for event in thread.events(types=("turn.ended",))] == [nodes(thread)[8].position]


def test_what_has_no_place_is_kept_as_json(store: Store) -> None:
    _, thread = bring_in(store, CHAT)
    (kept,) = (json.loads(event.body.record) for event in thread.events(types=("record.kept",)))
    assert kept == {"model": "gpt-x", "temperature": 0.5}
    assert [json.loads(tool.extra) for tool in nodes(thread)[0].body.tools] == [
        {"type": "function", "function": {"strict": True}},
        {"type": "custom", "custom": {}},
    ]
    assert json.loads(nodes(thread)[3].body.extra) == {"content": None}
    assert json.loads(nodes(thread)[-1].body.extra) == {"name": "ann"}


def test_an_anthropic_body_keeps_seals_errors_and_marks(store: Store) -> None:
    report, thread = bring_in(store, ANTHROPIC)
    assert texts(thread) == [
        *("instructions.set", "tools.set", "user List", "reasoning hm", "text Looking.", "call k1"),
        *("result k1 error", "user Go on", "text Done."),
    ]
    thought, more = nodes(thread)[3], nodes(thread)[7]
    assert (thought.body.signature, thought.source.provider, thought.source.model) == ("c2ln", "anthropic", "claude-x")
    assert (more.body.steer, report.model_messages) == (True, 2)
    (kept,) = (json.loads(event.body.record) for event in thread.events(types=("record.kept",)))
    mark = [{"type": "text", "cache_control": {"type": "ephemeral"}}]
    assert kept == {"model": "claude-x", "max_tokens": 10, "system": mark}


def test_items_that_follow_each_other_are_one_response(store: Store) -> None:
    report, thread = bring_in(store, RESPONSES)
    assert texts(thread) == [
        *("instructions.set", "tools.set", "user List", "reasoning ", "call k1", "result k1 ok", "text One file.")
    ]
    thought, call = nodes(thread)[3:5]
    assert (thought.body.signature, thought.body.response, call.body.response) == ("sealed", "response:2", "response:2")
    assert (call.body.needs, report.model_messages, counts(thread)["turn.ended"]) == ("rs", 2, 1)
    assert [tool.name for tool in nodes(thread)[1].body.tools] == ["ls", "web_search"]
    assert codes(report) == [(6, "no_content")]
    assert '{"type": "item_reference", "id": "x"}' in [e.body.record for e in thread.events(types=("record.kept",))]


def test_an_input_that_is_one_text_is_the_users(store: Store) -> None:
    report, thread = bring_in(store, {"model": "gpt-x", "input": "Hi"})
    assert (texts(thread), report.format) == (["user Hi"], "openai")


def test_pictures_in_their_own_address_are_attachments(store: Store) -> None:
    content = [
        {"type": "text", "text": "See"},
        {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}},
        {"type": "image_url", "image_url": {"url": PNG.replace("image/png", "application/pdf")}},
    ]
    _, thread = bring_in(store, [{"role": "user", "content": content}])
    words, picture, linked, broken, document = nodes(thread)[0].body.content
    assert words == Text("See")
    assert isinstance(picture, Image)
    assert (store.attachment(picture.attachment or ""), picture.extra) == (b"png", '{"detail":"low"}')
    assert (linked.url, json.loads(broken.json)) == ("https://example.org/a.png", content[3])
    assert (isinstance(broken, Foreign), isinstance(document, Document)) == (True, True)


def test_later_words_of_the_system_are_inputs_and_earlier_ones_instructions(store: Store) -> None:
    messages = [
        {"role": "system", "content": "One"},
        {"role": "developer", "content": "Two"},
        {"role": "user", "content": "Hi"},
        {"role": "system", "content": "Three"},
    ]
    _, thread = bring_in(store, messages)
    first, second, _, third = nodes(thread)
    assert [part.text for part in second.body.parts] == ["One", "Two"]
    assert (first.body.parts[0].name, second.body.parts[1].name) == ("system", "developer")
    assert (third.type, third.body.role) == ("input.added", "system")


def test_calls_of_the_older_form_pair_by_name(store: Store) -> None:
    messages = [
        {"role": "user", "content": "List"},
        {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": "{}"}},
        {"role": "function", "name": "ls", "content": "a.txt"},
    ]
    report, thread = bring_in(store, messages)
    assert (texts(thread)[1:], report.warnings) == (["call function:ls", "result function:ls ok"], [])


def test_arguments_that_are_no_text_are_kept_as_they_stood(store: Store) -> None:
    called = {"id": "k1", "function": {"name": "ls", "arguments": {"a": 1}}}
    _, thread = bring_in(store, [{"role": "assistant", "content": "", "tool_calls": [called, {"id": "k2"}]}])
    call, odd = nodes(thread)
    assert (call.body.input, odd.body.kind, json.loads(odd.body.opaque)) == ('{"a": 1}', "opaque", {"id": "k2"})
    assert json.loads(call.body.extra)["part"] == {"function": {"arguments": {"a": 1}}, "type": None}


def test_messages_that_say_nothing_known_are_kept_and_reported(store: Store) -> None:
    messages = [{"role": "user", "content": "Hi"}, None, {"role": "wizard", "content": "Ho"}, {"role": "user"}, 7]
    report, thread = bring_in(store, messages)
    assert codes(report) == [(2, "not_object"), (3, "no_content"), (4, "no_content"), (5, "not_object")]
    kept = [event.body.record for event in thread.events(types=("record.kept",))]
    assert (kept[0], json.loads(kept[1]), kept[3], report.lost) == ("null", messages[2], "7", 0)


def test_a_body_that_breaks_off_gives_what_came_before(store: Store) -> None:
    data = spelled(CHAT)
    report, thread = bring_in(store, data[: data.index(b'"k1", "content"')])
    assert (report.lost, codes(report)) == (1, [(0, "torn_tail")])
    assert texts(thread)[-1] == "call k2"


def test_odd_characters_survive(store: Store) -> None:
    data = b'[{"role":"user","content":"a\\ud800b\\u0000"},{"role":"user","content":"n\xff"}]'
    report, thread = bring_in(store, data)
    first, second = nodes(thread)
    assert (first.body.content[0].original, second.body.content[0].text) == ("a\ud800b\0", "n\ufffd")
    assert codes(report) == [(2, "invalid_utf8")]


def test_a_doubled_key_is_reported(store: Store) -> None:
    report, thread = bring_in(store, b'[{"role":"user","role":"user","content":"Hi"}]')
    assert (texts(thread), codes(report)) == (["user Hi"], [(1, "doubled_key")])


@pytest.mark.parametrize("data", [b'{"messages": "none"}', b'{"role": "user"}', b"[1, 2]"])
def test_what_is_no_list_of_messages_is_not_taken_for_one(data: bytes) -> None:
    assert detect_format(data) is None


def test_a_body_on_each_line_is_a_thread_on_each_line(store: Store) -> None:
    first, second = {"messages": CHAT["messages"][:3]}, {"messages": [{"role": "user", "content": "Hi"}]}
    data = spelled(first) + b"\n" + b"oops\n" + spelled(second) + b"\n" + spelled({"messages": None}) + b"\n"
    report = import_file(store, data)
    assert (report.format, report.threads, report.lost) == ("openai", 3, 1)
    assert codes(report) == [(2, "bad_line")]
    assert [texts(store.thread(id_)) for id_ in report.thread_ids] == [
        ["instructions.set", "user List", "reasoning hm", "call k1", "call k2"],
        ["user Hi"],
        [],
    ]
    assert import_file(store, data).appended == 0


def test_a_document_without_a_list_is_refused_and_what_stands_behind_one_reported(store: Store) -> None:
    nested = spelled({"log": {"messages": CHAT["messages"]}})
    with pytest.raises(ImportFailed, match="no list of messages"):
        import_file(store, nested)
    report, _ = bring_in(store, spelled([{"role": "user", "content": "Hi"}]) + b"[1]")
    assert (report.lost, codes(report)) == (1, [(0, "bad_document")])
