"""pi sessions that come in parts, grow, or hold whatever JSON can be."""

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
)
from tests.eventstore.importers.pi_sessions import Session, call, compacted, text
from tests.json_values import json_values
from tests.recorded import recorded


def eventful(version: int) -> Session:
    kept: dict[str, Any] = {"firstKeptEntryIndex": 4} if version == 1 else {"firstKeptEntryId": "a2"}
    session = compacted(version, **kept)
    session.assistant("a3", {"type": "thinking", "thinking": "Größe"}, call("c5"), call("c6"), stop="toolUse")
    session.result("r3", "c6", "sechs")
    session.add("thinking_level_change", "x1", thinkingLevel="high")
    session.result("r4", "c5", "fünf")
    session.assistant("a4", text("fertig"))
    if version > 1:
        session.add("label", "x2", targetId="u1", label="hier")
        session.user("u5", "noch einmal", parent="u2")
        session.add("model_change", "x3", provider="p", modelId="q", parent="a4")
    return session


def test_the_recorded_session_cut_in_two_equals_the_whole(store: Store) -> None:
    content = recorded("pi-real.jsonl").read_bytes()
    cut = len(content) // 2
    import_file(store, content[:cut])
    second = import_file(store, content[cut:])
    assert set(second.warning_counts) == {"bad_line", "rejoined_record", "no_header"}
    assert second.lost == 0
    assert shape(store) == shape_of(content, "pi")


@given(st.data(), st.sampled_from([1, 3, 4]))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_file_cut_anywhere_comes_in_as_the_whole_does(data: st.DataObject, version: int) -> None:
    content = eventful(version).data
    cut = data.draw(st.integers(content.index(b"\n"), len(content)))
    assert_parts_make_the_whole(content, cut, "pi")


@given(st.data(), st.sampled_from([1, 3, 4]))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_file_that_grew_comes_in_as_the_whole_does(data: st.DataObject, version: int) -> None:
    content = eventful(version).data
    cut = data.draw(st.integers(content.index(b"\n"), len(content)))
    assert_growth_makes_the_whole(content, cut, "pi")


# --- any content ---

odd = json_values | st.sampled_from(["u1", "a1", "c1", "session/s-1", "seq/1", "stop", "main"])
names = (
    *("id", "parentId", "timestamp", "message", "summary", "firstKeptEntryId", "firstKeptEntryIndex", "targetId"),
    *("label", "name", "content", "customType", "retainedTail", "entry", "record", "lane", "leafId", "seq", "fact"),
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "toolResult", "bashExecution", "custom", "branchSummary"])},
    optional=dict.fromkeys(
        ("content", "toolCallId", "isError", "details", "usage", "provider", "stopReason", "command", "output"), odd
    ),
)
lines = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(names, odd)
    | {
        "type": st.sampled_from(["session", "message", "compaction", "label", "custom_message", "branch_summary", "x"]),
        "kind": st.sampled_from(["entry", "record", "lane", "fact", "header", "y"]),
        "message": messages | odd,
    },
)


@given(st.lists(lines | json_values, max_size=8))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_content_stops_an_import_and_a_second_one_appends_nothing(records: list[Any]) -> None:
    data = "".join(f"{json.dumps(record)}\n" for record in records).encode()
    with open_any(":memory:") as store:
        report = import_file(store, data, format="pi")
        assert report.lost == 0
        assert import_file(store, data, format="pi").appended == 0
