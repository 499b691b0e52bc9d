"""Gemini CLI sessions that come in parts, grow, break off, or hold whatever JSON can be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convlog.eventstore.importers import detect_format, import_file
from convlog.eventstore.store import Store
from convlog.eventstore.store import open_store as open_any
from tests.eventstore.importers.chats import TOKENS, Chat, bring_in, eventful, extra
from tests.eventstore.importers.imported import codes, nodes, shape, shape_of, texts


@given(st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_lines_cut_anywhere_come_in_as_the_whole_does(data: st.DataObject) -> None:
    content = eventful().lines
    cut = data.draw(st.integers(content.index(b"\n"), len(content)))
    with open_any(":memory:") as store:
        import_file(store, content[:cut], format="gemini-cli")
        if content[cut:].strip():
            import_file(store, content[cut:], format="gemini-cli")
        assert shape(store) == shape_of(content, "gemini-cli")
        assert import_file(store, content).appended == 0
        if content[cut:].strip():
            assert import_file(store, content[cut:], format="gemini-cli").appended == 0


@given(st.data())
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_session_that_grew_comes_in_as_the_whole_does(data: st.DataObject) -> None:
    content = eventful().lines
    cut = data.draw(st.integers(content.index(b"\n"), len(content)))
    with open_any(":memory:") as store:
        import_file(store, content[:cut], format="gemini-cli")
        import_file(store, content, format="gemini-cli")
        assert shape(store) == shape_of(content, "gemini-cli")


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
