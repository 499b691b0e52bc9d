"""OpenAI's responses, of both formats, as neutral parts: whole and streamed alike, and as far as a cut stream came."""

from __future__ import annotations

import json
from typing import Any

import pytest

from convlog.projections.readers import (
    CallPart,
    ForeignPart,
    ReasoningPart,
    TextPart,
    UnreadableResponse,
    read,
)

from .encoding import spelled_alike

# --- Chat Completions ---

CHAT_USAGE = {
    "prompt_tokens": 240,
    "completion_tokens": 7,
    "total_tokens": 247,
    "prompt_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 30},
    "completion_tokens_details": {"reasoning_tokens": 4},
}
ARGUMENTS = '{"station": "north"}'
CHAT_CALL = {"id": "call_1", "type": "function", "function": {"name": "read_gauge", "arguments": ARGUMENTS}}


def chat(changes: dict[str, Any], finish: str | None = "tool_calls", **top: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": None, **changes}
    choice = {"index": 0, "finish_reason": finish, "message": said, "logprobs": None}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-5.4-2026-03-05"}
    return {**head, "choices": [choice], "usage": CHAT_USAGE, **top}


def chunk(delta: dict[str, Any], finish: str | None = None, **top: Any) -> dict[str, Any]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5.4-2026-03-05"}
    return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **top}


CHUNKS = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"reasoning_content": "Two readings."}),
    chunk({"content": "Reading "}),
    chunk({"content": "it."}),
    chunk({"tool_calls": [{**CHAT_CALL, "index": 0, "function": {"name": "read_gauge", "arguments": ""}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"station": '}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"north"}'}}]}),
    chunk({}, "tool_calls"),
    {**chunk({}), "choices": [], "usage": CHAT_USAGE},
]


def test_a_whole_completion_gives_reasoning_text_and_calls() -> None:
    said = {"content": "Reading it.", "reasoning_content": "Two readings.", "tool_calls": [CHAT_CALL]}
    found = read(chat(said))
    assert found.parts == (
        ReasoningPart("Two readings."),
        TextPart("Reading it."),
        CallPart("call_1", "read_gauge", ARGUMENTS),
    )
    assert (found.response, found.model, found.stop) == ("chatcmpl-1", "gpt-5.4-2026-03-05", "tool_calls")
    assert found.complete
    assert found.provider is None


def test_chunks_give_what_the_whole_completion_gives() -> None:
    said = {"content": "Reading it.", "reasoning_content": "Two readings.", "tool_calls": [CHAT_CALL]}
    assert read(CHUNKS) == read(chat(said))


@pytest.mark.parametrize("length", range(1, 8))
def test_cut_chunks_are_not_complete(length: int) -> None:
    found = read(CHUNKS[:length])
    assert not found.complete
    assert found.stop is None
    assert len(found.parts) == [0, 1, 2, 2, 3, 3, 3][length - 1]


def test_parallel_calls_of_a_stream_are_told_apart_by_index() -> None:
    more = {"index": 1, "id": "call_2", "type": "function", "function": {"name": "alarm", "arguments": "{}"}}
    found = read([*CHUNKS[:5], chunk({"tool_calls": [more]}), *CHUNKS[5:]])
    assert found.parts[2:] == (CallPart("call_1", "read_gauge", ARGUMENTS), CallPart("call_2", "alarm", "{}"))


def test_the_prompts_count_is_split_into_three() -> None:
    usage = read(chat({})).usage
    assert usage is not None
    assert (usage.input, usage.cache_read, usage.cache_write, usage.output, usage.reasoning) == (10, 200, 30, 7, 4)


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 210, "completion_tokens": 7, "prompt_cache_hit_tokens": 200, "prompt_cache_miss_tokens": 10},
        {"prompt_tokens": 210, "completion_tokens": 7, "cached_tokens": 200},
    ],
)
def test_dialects_count_cache_hits_in_their_own_words(usage: dict[str, int]) -> None:
    found = read(chat({}, usage=usage)).usage
    assert found is not None
    assert (found.input, found.cache_read, found.output) == (10, 200, 7)


def test_refusals_and_unknown_parts_stay_opaque() -> None:
    found = read(
        chat({"refusal": "No.", "content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "A"}]})
    )
    assert found.parts == (
        ForeignPart('{"type":"thinking","thinking":[]}'),
        TextPart("A"),
        ForeignPart('{"type":"refusal","refusal":"No."}'),
    )


def test_a_custom_call_keeps_its_text() -> None:
    call = {"id": "call_1", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    assert read(chat({"tool_calls": [call]})).parts == (CallPart("call_1", "patch", "*** Begin", "custom"),)


def test_an_error_chunk_is_told() -> None:
    found = read([*CHUNKS[:3], {"choices": [], "error": {"message": "overloaded"}}])
    assert (found.error, found.complete) == ("overloaded", False)


# --- Responses ---

USAGE = {
    "input_tokens": 240,
    "input_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 30},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 4},
    "total_tokens": 247,
}
THOUGHT = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Two readings."}],
    "encrypted_content": "b3Bh",
}
MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "phase": "commentary",
    "content": [{"type": "output_text", "text": "Reading it.", "annotations": []}],
}
CALL = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "read_gauge", "arguments": ARGUMENTS}
SEARCH = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "rain"}}
COMPACTION = {"id": "cmp_1", "type": "compaction", "encrypted_content": "b3Bh"}


def whole(*items: dict[str, Any], **changes: Any) -> dict[str, Any]:
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-5.4-2026-03-05", "status": "completed"}
    return {**head, "error": None, "incomplete_details": None, "output": list(items), "usage": USAGE, **changes}


def event(kind: str, **members: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "sequence_number": 1, **members}


EVENTS = [
    event("created", response=whole(status="in_progress", usage=None)),
    event("output_item.added", output_index=0, item={**THOUGHT, "summary": [], "encrypted_content": "half"}),
    event("reasoning_summary_text.delta", output_index=0, item_id="rs_1", summary_index=0, delta="Two "),
    event("output_item.done", output_index=0, item=THOUGHT),
    event("output_item.added", output_index=1, item={**MESSAGE, "content": [], "status": "in_progress"}),
    event("output_text.delta", output_index=1, item_id="msg_1", content_index=0, logprobs=[], delta="Reading "),
    event("output_text.delta", output_index=1, item_id="msg_1", content_index=0, logprobs=[], delta="it."),
    event("output_item.done", output_index=1, item=MESSAGE),
    event("output_item.added", output_index=2, item={**CALL, "arguments": ""}),
    event("function_call_arguments.delta", output_index=2, item_id="fc_1", delta='{"station": '),
    event("function_call_arguments.delta", output_index=2, item_id="fc_1", delta='"north"}'),
    event("output_item.done", output_index=2, item=CALL),
    event("completed", response=whole(THOUGHT, MESSAGE, CALL)),
]


def test_a_whole_response_gives_its_items_each_with_the_reasoning_it_needs() -> None:
    found = read(whole(THOUGHT, MESSAGE, CALL))
    assert found.parts == (
        ReasoningPart("Two readings.", "b3Bh", json.dumps(THOUGHT, separators=(",", ":")), "rs_1"),
        TextPart("Reading it.", opaque=json.dumps(MESSAGE, separators=(",", ":")), item="msg_1", needs="rs_1"),
        CallPart("call_1", "read_gauge", ARGUMENTS, item="fc_1", needs="rs_1"),
    )
    assert (found.response, found.provider, found.model) == ("resp_1", "openai", "gpt-5.4-2026-03-05")
    assert (found.stop, found.complete, found.error) == ("completed", True, None)


def test_events_give_what_the_whole_response_gives() -> None:
    assert read(EVENTS) == read(whole(THOUGHT, MESSAGE, CALL))


def test_finished_items_of_a_cut_stream_are_whole() -> None:
    assert read(EVENTS[:12]).parts == read(EVENTS).parts
    assert not read(EVENTS[:12]).complete


def test_reasoning_is_taken_from_its_end_and_not_from_its_beginning() -> None:
    assert read(EVENTS[:3]).parts == (ReasoningPart("Two "),)


def test_a_cut_item_keeps_its_text_and_no_id() -> None:
    assert read(EVENTS[:6]).parts[1:] == (TextPart("Reading "),)
    assert read(EVENTS[:10]).parts[2:] == (CallPart("call_1", "read_gauge", '{"station": '),)


def test_an_incomplete_response_is_one_that_the_provider_ended() -> None:
    found = read(whole(MESSAGE, status="incomplete", incomplete_details={"reason": "max_output_tokens"}))
    assert (found.stop, found.complete) == ("max_output_tokens", True)


def test_a_failed_response_tells_its_error() -> None:
    found = read(whole(status="failed", error={"code": "server_error", "message": "it failed"}))
    assert (found.error, found.complete) == ("it failed", False)


def test_an_error_event_tells_its_message() -> None:
    found = read([*EVENTS[:3], {"type": "error", "code": "x", "message": "it failed"}])
    assert (found.error, found.complete) == ("it failed", False)


def test_a_servers_call_and_a_compaction_stay_whole() -> None:
    found = read(whole(THOUGHT, SEARCH, COMPACTION))
    call, foreign = found.parts[1:]
    assert isinstance(call, CallPart)
    assert (call.kind, call.name, call.needs) == ("server", "web_search", "rs_1")
    assert json.loads(call.opaque or "") == SEARCH
    assert foreign == ForeignPart(json.dumps(COMPACTION, separators=(",", ":")), "cmp_1", "rs_1")


def test_what_the_package_parsed_is_no_part_of_an_item() -> None:
    parsed = {**MESSAGE, "content": [{**MESSAGE["content"][0], "parsed": {"rain": True}}]}
    assert read(whole(THOUGHT, parsed)) == read(whole(THOUGHT, MESSAGE))


def test_the_inputs_count_is_split_into_three() -> None:
    usage = read(whole()).usage
    assert usage is not None
    assert (usage.input, usage.cache_read, usage.cache_write, usage.output, usage.reasoning) == (10, 200, 30, 7, 4)


# --- both ---


@pytest.mark.oracle
def test_the_packages_objects_are_read_like_their_json() -> None:
    pydantic = pytest.importorskip("pydantic")
    chat_types = pytest.importorskip("openai.types.chat")
    responses = pytest.importorskip("openai.types.responses")
    completion = chat({"content": "Reading it.", "tool_calls": [CHAT_CALL], "refusal": None})
    assert read(chat_types.ChatCompletion.model_validate(completion)) == read(completion)
    response = whole(THOUGHT, MESSAGE, CALL, parallel_tool_calls=True, tool_choice="auto", tools=[])
    found = responses.Response.model_validate(response)
    assert spelled_alike(read(found)) == spelled_alike(read(response))
    adapter = pydantic.TypeAdapter(responses.ResponseStreamEvent)
    events = [adapter.validate_python(each) for each in EVENTS[1:-1]]
    assert spelled_alike(read([EVENTS[0], *events, EVENTS[-1]])) == spelled_alike(read(EVENTS))


@pytest.mark.parametrize("value", ["no json", b"[1", 7, {"mood": "good"}, [{"mood": "good"}], []])
def test_what_is_no_response_is_refused(value: Any) -> None:
    with pytest.raises(UnreadableResponse):
        read(value)


def test_an_unknown_format_is_refused_by_name() -> None:
    with pytest.raises(UnreadableResponse, match="telegram"):
        read(whole(), "telegram")


def test_an_iterator_of_events_is_a_stream() -> None:
    assert read(iter(EVENTS)) == read(EVENTS)
