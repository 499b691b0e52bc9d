"""Anthropic's responses as neutral parts: whole and streamed alike, and as far as a cut stream came."""

from __future__ import annotations

import json
from typing import Any

import pytest

from convlog.projections.readers import CallPart, ForeignPart, ReasoningPart, ResponseParts, ResultPart, TextPart, read

from .encoding import spelled_alike

USAGE = {
    "input_tokens": 10,
    "cache_read_input_tokens": 200,
    "cache_creation_input_tokens": 30,
    "output_tokens": 7,
    "output_tokens_details": {"thinking_tokens": 4},
}
THOUGHT = {"type": "thinking", "thinking": "Two readings.", "signature": "c2ln"}
SERVER_USE = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rain"}}
SERVER_RESULT = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
USE = {"type": "tool_use", "id": "toolu_1", "name": "read_gauge", "input": {"station": "north"}}
COMPACTION = {"type": "compaction", "content": "Two gauges read."}
CITED = {"type": "text", "text": "Rain.", "citations": [{"type": "char_location", "cited_text": "Rain"}]}


def message(*content: dict[str, Any], **changes: Any) -> dict[str, Any]:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-20260901"}
    return {**head, "content": list(content), "stop_reason": "tool_use", "usage": USAGE, **changes}


def stream(*blocks: tuple[dict[str, Any], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    usage: dict[str, Any] = {**USAGE, "output_tokens": 1, "output_tokens_details": None}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message(stop_reason=None, usage=usage)}]
    for index, (start, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events.extend({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        events.append({"type": "content_block_stop", "index": index})
    usage = {"output_tokens": 7, "output_tokens_details": {"thinking_tokens": 4}}
    events.append({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage})
    return [*events, {"type": "message_stop"}]


STREAM = stream(
    (
        {"type": "thinking", "thinking": "", "signature": ""},
        [
            {"type": "thinking_delta", "thinking": "Two "},
            {"type": "thinking_delta", "thinking": "readings."},
            {"type": "signature_delta", "signature": "c2ln"},
        ],
    ),
    ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Reading "}, {"type": "text_delta", "text": "it."}]),
    (
        {**USE, "input": {}},
        [
            {"type": "input_json_delta", "partial_json": '{"station": '},
            {"type": "input_json_delta", "partial_json": '"north"}'},
        ],
    ),
)


def test_a_whole_message_gives_its_parts_in_order() -> None:
    found = read(message(THOUGHT, {"type": "text", "text": "Reading it."}, USE))
    assert found.parts == (
        ReasoningPart("Two readings.", "c2ln", json.dumps(THOUGHT, separators=(",", ":"))),
        TextPart("Reading it."),
        CallPart("toolu_1", "read_gauge", '{"station":"north"}'),
    )
    assert (found.response, found.provider, found.model) == ("msg_1", "anthropic", "claude-opus-5-20260901")
    assert (found.stop, found.complete, found.error) == ("tool_use", True, None)


def test_the_four_counts_do_not_overlap() -> None:
    usage = read(message()).usage
    assert usage is not None
    assert (usage.input, usage.cache_read, usage.cache_write, usage.output, usage.reasoning) == (10, 200, 30, 7, 4)


def test_a_stream_gives_what_the_whole_message_gives_and_the_input_as_spelled() -> None:
    whole = read(message(THOUGHT, {"type": "text", "text": "Reading it."}, USE))
    streamed = read(STREAM)
    assert streamed.parts[:2] == whole.parts[:2]
    assert streamed.parts[2] == CallPart("toolu_1", "read_gauge", '{"station": "north"}')
    assert (streamed.usage, streamed.stop, streamed.complete) == (whole.usage, "tool_use", True)


@pytest.mark.parametrize("length", range(1, len(STREAM)))
def test_a_cut_stream_is_not_complete_and_its_parts_begin_the_whole_ones(length: int) -> None:
    cut, whole = read(STREAM[:length]), read(STREAM)
    assert not cut.complete
    for one, other in zip(cut.parts, whole.parts, strict=False):
        if isinstance(one, CallPart):
            assert isinstance(other, CallPart)
            assert one.input in {"{}", other.input} or other.input.startswith(one.input)
        else:
            assert isinstance(one, TextPart | ReasoningPart)
            assert isinstance(other, TextPart | ReasoningPart)
            assert other.text.startswith(one.text)


def test_thinking_that_was_cut_before_its_signature_is_not_kept_for_sending() -> None:
    cut = read(STREAM[:3])
    assert cut.parts == (ReasoningPart("Two "),)


def test_a_servers_call_and_result_keep_the_providers_parts() -> None:
    found = read(message(SERVER_USE, SERVER_RESULT))
    call, result = found.parts
    assert isinstance(call, CallPart)
    assert (call.kind, json.loads(call.opaque or "")) == ("server", SERVER_USE)
    assert result == ResultPart("srvtoolu_1", json.dumps(SERVER_RESULT, separators=(",", ":")))


def test_a_streamed_servers_call_is_put_together() -> None:
    found = read(
        stream(({**SERVER_USE, "input": {}}, [{"type": "input_json_delta", "partial_json": '{"query":"rain"}'}]))
    )
    call = found.parts[0]
    assert isinstance(call, CallPart)
    assert json.loads(call.opaque or "") == SERVER_USE


def test_a_servers_call_that_was_cut_has_no_part_to_send_back() -> None:
    events = stream(({**SERVER_USE, "input": {}}, [{"type": "input_json_delta", "partial_json": '{"que'}]))
    assert read(events[:3]).parts == (CallPart("srvtoolu_1", "web_search", '{"que', "server"),)


def test_a_failed_server_tool_is_an_error() -> None:
    failed = {**SERVER_RESULT, "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"}}
    result = read(message(SERVER_USE, failed)).parts[1]
    assert isinstance(result, ResultPart)
    assert result.status == "error"


def test_unknown_and_cited_parts_stay_whole() -> None:
    found = read(message(COMPACTION, CITED))
    assert found.parts[0] == ForeignPart(json.dumps(COMPACTION, separators=(",", ":")))
    text = found.parts[1]
    assert isinstance(text, TextPart)
    assert (text.text, json.loads(text.opaque or "")) == ("Rain.", CITED)


def test_a_streamed_compaction_is_put_together() -> None:
    found = read(stream(({"type": "compaction"}, [{"type": "compaction_delta", "content": "Two gauges read."}])))
    assert found.parts == (ForeignPart(json.dumps(COMPACTION, separators=(",", ":"))),)


def test_an_error_event_ends_the_response_incomplete() -> None:
    fault = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    found = read([*STREAM[:3], fault])
    assert (found.error, found.complete) == ("Overloaded", False)


def test_json_text_is_read_like_its_value() -> None:
    assert read(json.dumps(message(THOUGHT, USE))) == read(message(THOUGHT, USE))


@pytest.mark.oracle
def test_the_packages_objects_are_read_like_their_json() -> None:
    types = pytest.importorskip("anthropic.types")
    whole = message(THOUGHT, {"type": "text", "text": "Reading it."}, USE, stop_sequence=None)
    assert spelled_alike(read(types.Message.model_validate(whole))) == spelled_alike(read(whole))
    adapter = pytest.importorskip("pydantic").TypeAdapter(types.RawMessageStreamEvent)
    events = [adapter.validate_python(event) for event in STREAM[1:]]
    assert spelled_alike(read([STREAM[0], *events])) == spelled_alike(read(STREAM))


def test_an_empty_stream_of_a_named_format_has_no_parts() -> None:
    assert read([], "anthropic") == ResponseParts(provider="anthropic")
