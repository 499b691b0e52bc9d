"""Claude Code sessions in parts, and with whatever in them: nothing is doubled, nothing goes unaccounted for."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convlog.eventstore.importers import import_file
from convlog.eventstore.store import Store
from convlog.eventstore.store import open_store as open_any
from tests.eventstore.importers.imported import (
    assert_growth_makes_the_whole,
    assert_parts_make_the_whole,
    shape,
    shape_of,
    texts,
)
from tests.eventstore.importers.sessions import Session, call, compacted, text
from tests.json_values import json_values
from tests.recorded import recorded


def eventful() -> Session:
    session = compacted(trigger="auto")
    session.assistant("a5", {"type": "thinking", "thinking": "Größe", "signature": "s"}, message="m-5")
    session.assistant("a6", call("c5"), message="m-5", usage={"input_tokens": 3, "output_tokens": 9})
    session.assistant("a7", call("c6"), message="m-5", usage={"input_tokens": 3, "output_tokens": 12})
    session.result("u6", "c6", parent="a6")
    session.add("system", "h1", subtype="turn_duration", parent="a7")
    session.result("u7", "c5", parent="a6")
    session.assistant("a8", text("fertig"), message="m-6")
    session.user("u8", "noch einmal", parent="u4")
    return session


@given(st.data())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_file_cut_anywhere_comes_in_as_the_whole_does(data: st.DataObject) -> None:
    content = eventful().data
    first_line = content.index(b"\n")
    cut = data.draw(st.integers(first_line, len(content)))
    assert_parts_make_the_whole(content, cut, "claude-code")


@given(st.data())
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_file_that_grew_comes_in_as_the_whole_does(data: st.DataObject) -> None:
    content = recorded("claude-code-edge.jsonl").read_bytes()
    cut = data.draw(st.integers(content.index(b"\n"), len(content)))
    assert_growth_makes_the_whole(content, cut, "claude-code")


def test_parts_in_any_order_are_the_same_threads(store: Store) -> None:
    lines = [f"{line}\n".encode() for line in eventful().lines]
    for part in (b"".join(lines[6:]), b"".join(lines[:6])):
        import_file(store, part, format="claude-code")
    assert {id_: set(found["nodes"]) for id_, found in shape(store).items()} == {
        id_: set(found["nodes"]) for id_, found in shape_of(b"".join(lines), "claude-code").items()
    }


def test_a_line_that_two_files_share_is_joined(store: Store) -> None:
    session = Session()
    session.user("u1", "one")
    session.user("u2", "zwölf")
    session.user("u3", "three")
    cut = session.data.index("ö".encode()) + 1
    first = import_file(store, session.data[:cut])
    assert (first.lost, [(finding.line, finding.code) for finding in first.warnings]) == (1, [(2, "torn_tail")])
    report = import_file(store, session.data[cut:])
    assert texts(store.thread("s-1")) == ["user one", "user zwölf", "user three"]
    assert (report.lost, report.repaired) == (0, 1)


# --- any content ---

odd = json_values | st.sampled_from(["u1", "u2", "a1", "m-1", "c1", "text", "tool_use", "tool_result", "s-1", "s-2"])
blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "tool_result", "thinking", "image", "x_tool_result"])},
    optional=dict.fromkeys(("text", "id", "name", "input", "tool_use_id", "content", "thinking", "source"), odd),
)
records = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant", "system", "attachment", "summary", "custom-title", "ai-title"])},
    optional={
        "uuid": odd,
        "parentUuid": odd,
        "sessionId": odd,
        "timestamp": odd,
        "isSidechain": st.booleans() | odd,
        "agentId": odd,
        "isMeta": odd,
        "isCompactSummary": st.booleans(),
        "subtype": st.just("compact_boundary"),
        "logicalParentUuid": odd,
        "compactMetadata": odd,
        "toolUseResult": odd,
        "leafUuid": odd,
        "summary": odd,
        "customTitle": odd,
        "attachment": odd,
        "message": odd
        | st.fixed_dictionaries(
            {"content": odd | st.lists(odd | blocks, max_size=3)},
            optional={"id": odd, "model": odd, "usage": odd, "stop_reason": odd, "role": odd},
        ),
    },
)


@given(st.lists(records | odd, max_size=8))
@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_whatever_a_file_holds_every_record_is_accounted_for_and_comes_in_once(found: list[Any]) -> None:
    data = b"".join(json.dumps(record).encode() + b"\n" for record in found)
    with open_any(":memory:") as store:
        report = import_file(store, data, format="claude-code")
        assert report.records == len(found) == report.mapped + report.kept + report.repeated + report.lost
        assert report.lost == 0
        assert import_file(store, data, format="claude-code").appended == 0
