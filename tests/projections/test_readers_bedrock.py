"""Reading Bedrock's responses: whole, streamed, cut, and back into the next request."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convlog.projections.readers.bedrock import read
from convlog.projections.readers.parts import CallPart, ForeignPart, ReasoningPart, ResultPart, TextPart, Usage
from convlog.projections.stages.pieces_v1 import VERBATIM, Piece, Result, Text
from convlog.projections.stages.target_v1 import Options

from .answers import pieces_of
from .encoding import encoded, target_for, value_of

CONTENT: list[dict[str, Any]] = [
    {"reasoningContent": {"reasoningText": {"text": "Two readings.", "signature": "c2ln"}}},
    {"reasoningContent": {"redactedContent": "c2VjcmV0"}},
    {"citationsContent": {"content": [{"text": "Reading "}, {"text": "both."}], "citations": []}},
    {"text": "So:"},
    {"toolUse": {"toolUseId": "t1", "name": "read_gauge", "input": {"station": "north"}}},
]
USAGE = {
    "inputTokens": 40,
    "cacheReadInputTokens": 60,
    "cacheWriteInputTokens": 10,
    "outputTokens": 20,
    "totalTokens": 130,
}
RESPONSE: dict[str, Any] = {
    "ResponseMetadata": {"RequestId": "q1"},
    "output": {"message": {"role": "assistant", "content": CONTENT}},
    "stopReason": "tool_use",
    "usage": USAGE,
    "metrics": {"latencyMs": 5},
}


def start(index: int, **kind: Any) -> dict[str, Any]:
    return {"contentBlockStart": {"contentBlockIndex": index, "start": kind}}


def delta(index: int, **kind: Any) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": kind}}


STREAM: list[dict[str, Any]] = [
    {"messageStart": {"role": "assistant"}},
    delta(0, reasoningContent={"text": "Two "}),
    delta(0, reasoningContent={"text": "readings."}),
    delta(0, reasoningContent={"signature": "c2ln"}),
    {"contentBlockStop": {"contentBlockIndex": 0}},
    delta(1, reasoningContent={"redactedContent": b"sec"}),
    delta(1, reasoningContent={"redactedContent": b"ret"}),
    delta(2, text="Reading "),
    delta(2, text="both."),
    delta(3, text="So:"),
    start(4, toolUse={"toolUseId": "t1", "name": "read_gauge"}),
    delta(4, toolUse={"input": '{"station":'}),
    delta(4, toolUse={"input": ' "north"}'}),
    {"messageStop": {"stopReason": "tool_use"}},
    {"metadata": {"usage": USAGE, "metrics": {"latencyMs": 5}}},
]


def test_every_block_of_a_response_is_read_in_its_order() -> None:
    found = read(RESPONSE)
    assert (found.response, found.provider, found.model) == ("q1", "bedrock", None)
    assert (found.stop, found.complete, found.error) == ("tool_use", True, None)
    assert found.parts == (
        ReasoningPart("Two readings.", "c2ln"),
        ReasoningPart("", opaque='{"reasoningContent":{"redactedContent":"c2VjcmV0"}}'),
        TextPart(
            "Reading both.",
            opaque='{"citationsContent":{"content":[{"text":"Reading "},{"text":"both."}],"citations":[]}}',
        ),
        TextPart("So:"),
        CallPart("t1", "read_gauge", '{"station":"north"}'),
    )


def test_tokens_are_counted_once_each() -> None:
    usage = read(RESPONSE).usage
    assert usage == Usage(input=40, cache_read=60, cache_write=10, output=20)


def test_a_response_comes_back_unchanged_in_the_next_request() -> None:
    model = target_for("bedrock-claude").model
    question = Piece(VERBATIM, "user", Text("Compare north and south."))
    answer = Piece(VERBATIM, "tool", Result("t1", 5, "ok", (Text("12 mm"),)), (), "response")
    options = Options(thinking={"type": "adaptive"}, cache=False)
    pieces = [question, *pieces_of(read(RESPONSE), model), answer]
    assert value_of(encoded(pieces, "bedrock-claude", "bedrock", {}, options))["messages"][1]["content"] == CONTENT


def test_bytes_are_read_as_they_travel() -> None:
    block = {"reasoningContent": {"redactedContent": b"secret"}}
    assert read({"output": {"message": {"content": [block]}}}).parts == read(RESPONSE).parts[1:2]


# --- streams ---


def test_a_stream_reads_like_the_response_that_it_is() -> None:
    whole = [*CONTENT[:2], {"text": "Reading both."}, *CONTENT[3:]]
    expected = read({**RESPONSE, "output": {"message": {"content": whole}}})
    found = read(STREAM)
    assert found.parts[:-1] == expected.parts[:-1]
    assert found.parts[-1] == CallPart("t1", "read_gauge", '{"station": "north"}')
    assert (found.stop, found.usage, found.complete) == (expected.stop, expected.usage, True)


@pytest.mark.parametrize("length", range(len(STREAM) - 1))
def test_a_stream_that_was_cut_gives_what_came(length: int) -> None:
    found = read(STREAM[:length])
    whole = read(STREAM)
    assert found.complete == (length > 13)
    assert found.parts[:-1] == whole.parts[: max(0, len(found.parts) - 1)]


def test_the_input_of_a_call_that_was_cut_stays_as_far_as_it_came() -> None:
    assert read(STREAM[:12]).parts[-1] == CallPart("t1", "read_gauge", '{"station":')


def test_an_exception_in_a_stream_says_why() -> None:
    found = read([*STREAM[:3], {"throttlingException": {"message": "slow down"}}])
    assert (found.error, found.complete) == ("throttlingException: slow down", False)


def test_citations_of_a_stream_stay_with_their_text() -> None:
    stream = [delta(0, text="Wet."), delta(0, citation={"title": "Gauges"})]
    [part] = read(stream).parts
    assert isinstance(part, TextPart)
    assert part.opaque == '{"citationsContent":{"content":[{"text":"Wet."}],"citations":[{"title":"Gauges"}]}}'


# --- what else there is ---


def test_what_ran_on_the_providers_servers_is_a_call_with_its_result() -> None:
    use = {"toolUse": {"toolUseId": "s1", "name": "search", "input": {}, "type": "server_tool_use"}}
    answer = {"toolResult": {"toolUseId": "s1", "content": [{"json": {}}], "status": "error"}}
    call, result = read({"output": {"message": {"content": [use, answer]}}}).parts
    assert isinstance(call, CallPart)
    assert call.kind == "server"
    assert isinstance(result, ResultPart)
    assert (result.call, result.status) == ("s1", "error")
    streamed = [start(0, toolUse={"toolUseId": "s1", "name": "search", "type": "server_tool_use"})]
    streamed += [start(1, toolResult={"toolUseId": "s1", "status": "error"}), delta(1, toolResult=[{"json": {}}])]
    assert [type(part) for part in read(streamed).parts] == [CallPart, ResultPart]


def test_a_block_without_neutral_form_stays_as_it_is() -> None:
    block = {"image": {"format": "png", "source": {"bytes": "iVBORw0KGgo="}}}
    assert isinstance(read({"output": {"message": {"content": [block]}}}).parts[0], ForeignPart)
    streamed = [start(0, image={"format": "png"}), delta(0, image={"source": {"bytes": "iVBORw0KGgo="}})]
    assert read(streamed).parts == (ForeignPart('{"image":{"format":"png","source":{"bytes":"iVBORw0KGgo="}}}'),)


NAMES = ["output", "message", "content", "text", "toolUse", "contentBlockDelta", "delta", "usage", "reasoningContent"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_anything_can_be_read(value: Any) -> None:
    assert read(value).provider == "bedrock"
    assert read([value, value]).provider == "bedrock"
