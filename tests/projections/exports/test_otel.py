"""Spans for generative AI: one trace a thread, a span for each response and each call, messages written once."""

from __future__ import annotations

import json
from typing import Any

from convlog.eventstore.store import Store
from convlog.eventstore.thread import Thread
from tests.projections.exports.threads import odd, talk
from tests.projections.exports.trips import exported


def spans(thread: Thread) -> list[dict[str, Any]]:
    document = json.loads(exported(thread, "otel"))
    [resource] = document["resourceSpans"]
    found: list[dict[str, Any]] = resource["scopeSpans"][0]["spans"]
    return found


def facts(span: dict[str, Any]) -> dict[str, Any]:
    return {entry["key"]: next(iter(entry["value"].values())) for entry in span["attributes"]}


def test_a_thread_is_a_trace_of_responses_and_calls(store: Store) -> None:
    thread = talk(store)
    found = spans(thread)
    assert [span["name"] for span in found] == [
        *("invoke_agent claude-code", "chat claude-x", "execute_tool bash", "execute_tool bash", "chat claude-x"),
    ]
    assert {span["traceId"] for span in found} == {thread.id}
    assert {span["parentSpanId"] for span in found[1:]} == {found[0]["spanId"]}
    assert len({span["spanId"] for span in found}) == 5
    assert all(int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) for span in found)
    assert found[1]["startTimeUnixNano"] == "1767348001000000000"


def test_a_response_says_its_model_tokens_and_messages(store: Store) -> None:
    first = facts(spans(talk(store))[1])
    assert (first["gen_ai.operation.name"], first["gen_ai.provider.name"]) == ("chat", "anthropic")
    assert (first["gen_ai.response.id"], first["gen_ai.response.model"]) == ("msg_1", "claude-x")
    assert (first["gen_ai.usage.input_tokens"], first["gen_ai.usage.cache_read.input_tokens"]) == ("17", "5")
    assert first["gen_ai.usage.reasoning.output_tokens"] == "3"
    assert json.loads(first["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be brief."}]
    [asked] = json.loads(first["gen_ai.input.messages"])
    assert asked["parts"][0] == {"type": "text", "content": "list the files"}
    [said] = json.loads(first["gen_ai.output.messages"])
    assert said["finish_reason"] == "tool_use"
    assert said["parts"][2] == {"type": "tool_call", "id": "c1", "name": "bash", "arguments": {"command": "ls"}}


def test_messages_are_written_once_and_a_span_names_the_one_before(store: Store) -> None:
    _, first, _, _, last = spans(talk(store))
    assert facts(last)["convlog.input.after"] == first["spanId"]
    given = json.loads(facts(last)["gen_ai.input.messages"])
    assert [part["id"] for message in given for part in message["parts"]] == ["c2", "c1"]
    assert "gen_ai.system_instructions" not in facts(last)


def test_a_failed_call_is_an_error_and_a_compacted_thread_says_so(store: Store) -> None:
    thread = talk(store)
    assert spans(thread)[2]["status"] == {"code": 2, "message": "error"}
    assert facts(spans(thread)[2])["gen_ai.tool.call.result"] == "no"
    thread.summarise(5, thread.head, "SUMMARY")
    thread.text("more")
    found = [facts(span).get("gen_ai.conversation.compacted") for span in spans(thread) if span["name"][:4] == "chat"]
    assert found == [None, None, True]


def test_anything_a_thread_holds_can_be_written(store: Store) -> None:
    found = [facts(span) for span in spans(odd(store))]
    assert "\\ud800" in found[1]["gen_ai.input.messages"]
    assert found[1]["gen_ai.provider.name"] == "other" or found[1]["gen_ai.provider.name"] == "unknown"
