"""Reading Gemini's responses: whole, streamed, cut, and back into the next request."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convlog.projections.readers.gemini import read
from convlog.projections.readers.parts import CallPart, ForeignPart, ReasoningPart, ResultPart, TextPart, Usage
from convlog.projections.stages.pieces_v1 import VERBATIM, Piece, Result, Text

from .answers import pieces_of
from .encoding import encoded, value_of
from .oracle import _module

MODEL = "gemini-3-flash-preview"
PARTS: list[dict[str, Any]] = [
    {"text": "Two readings are needed.", "thought": True},
    {"text": "Reading both.", "thoughtSignature": "dGV4dA=="},
    {"functionCall": {"id": "a1", "name": "read_gauge", "args": {"station": "north"}}, "thoughtSignature": "Y2Fs+w=="},
    {"functionCall": {"name": "read_gauge", "args": {"depth": 1.5}}},
]
RESPONSE: dict[str, Any] = {
    "candidates": [{"content": {"role": "model", "parts": PARTS}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 60,
        "toolUsePromptTokenCount": 5,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 7,
        "totalTokenCount": 132,
    },
    "modelVersion": MODEL,
    "responseId": "r1",
}


def chunk(*parts: dict[str, Any], stop: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    return {"responseId": "r1", "candidates": [candidate if stop is None else {**candidate, "finishReason": stop}]}


def texts(*words: str) -> list[dict[str, Any]]:
    return [chunk({"text": word}) for word in words]


def test_every_part_of_a_response_is_read_in_its_order() -> None:
    found = read(RESPONSE)
    assert (found.response, found.provider, found.model) == ("r1", "google", MODEL)
    assert (found.stop, found.complete, found.error) == ("STOP", True, None)
    assert found.parts == (
        ReasoningPart("Two readings are needed."),
        TextPart("Reading both.", "dGV4dA=="),
        CallPart("a1", "read_gauge", '{"station":"north"}', signature="Y2Fs+w=="),
        CallPart(
            "r1:3",
            "read_gauge",
            '{"depth":1.5}',
            opaque='{"functionCall":{"name":"read_gauge","args":{"depth":1.5}}}',
        ),
    )


def test_tokens_are_counted_once_each() -> None:
    usage = read(RESPONSE).usage
    assert usage == Usage(input=45, cache_read=60, output=27, reasoning=7)
    assert usage.input + usage.cache_read + usage.cache_write + usage.output == 132


def test_a_response_comes_back_unchanged_in_the_next_request() -> None:
    question = Piece(VERBATIM, "user", Text("Compare north and south."))
    said = pieces_of(read(RESPONSE), MODEL)
    results = [
        Piece(VERBATIM, "tool", Result(str(node), node, "ok", (Text("12 mm"),)), (), "response") for node in (3, 4)
    ]
    contents = value_of(encoded([question, *said, *results], MODEL, "gemini", {}))["contents"]
    assert contents[1]["parts"] == PARTS
    assert "id" in contents[2]["parts"][0]["functionResponse"]
    assert "id" not in contents[2]["parts"][1]["functionResponse"]


@pytest.mark.oracle
def test_an_object_of_the_providers_package_reads_like_the_json_it_came_from() -> None:
    response = _module("google.genai.types").GenerateContentResponse.model_validate(RESPONSE)
    whole = read(RESPONSE)
    for found in (read(response), read([response])):
        assert (found.parts[:3], found.usage, found.stop) == (whole.parts[:3], whole.usage, whole.stop)
        # The package puts the members of a part into an order of its own.
        spelled = [json.loads(getattr(each.parts[3], "opaque", "")) for each in (found, whole)]
        assert spelled[0] == spelled[1]


# --- streams ---


def test_a_text_that_was_streamed_is_one_text_up_to_its_signature() -> None:
    stream = [*texts("It ", "rains", "."), chunk({"text": "", "thoughtSignature": "c2ln"}, stop="STOP")]
    found = read(stream)
    assert found.parts == (TextPart("It rains."), ReasoningPart("", "c2ln"))
    assert found.complete


def test_a_signed_text_is_never_merged_with_another() -> None:
    stream = [*texts("It ", "rains"), chunk({"text": ".", "thoughtSignature": "c2ln"}), *texts("And", " pours.")]
    assert read(stream).parts == (TextPart("It rains"), TextPart(".", "c2ln"), TextPart("And pours."))


def test_thoughts_and_answers_are_kept_apart() -> None:
    stream = [chunk({"text": "H", "thought": True}), chunk({"text": "m.", "thought": True}), *texts("Wet.")]
    assert read(stream).parts == (ReasoningPart("Hm."), TextPart("Wet."))


def test_texts_of_one_response_stay_the_parts_that_they_were() -> None:
    assert read(chunk({"text": "One."}, {"text": "Two."})).parts == (TextPart("One."), TextPart("Two."))


def test_the_last_chunk_has_the_usage_and_the_end() -> None:
    stream = [*texts("Wet."), {**chunk({"text": ""}, stop="MAX_TOKENS"), "usageMetadata": {"promptTokenCount": 3}}]
    found = read(stream)
    assert (found.stop, found.usage, found.parts) == ("MAX_TOKENS", Usage(input=3), (TextPart("Wet."),))


@pytest.mark.parametrize("length", range(4))
def test_a_stream_that_was_cut_gives_what_came(length: int) -> None:
    stream = [*texts("It ", "rains", "."), chunk(stop="STOP")]
    found = read(stream[:length])
    assert (
        "".join(part.text for part in found.parts if isinstance(part, TextPart)) == "It rains."[: [0, 3, 8, 9][length]]
    )
    assert not found.complete


def test_chunks_are_left_as_they_were() -> None:
    stream = texts("It ", "rains")
    before = copy.deepcopy(stream)
    read(stream)
    assert stream == before


# --- what else there is ---


def test_code_that_ran_on_the_providers_servers_is_a_call_with_its_result() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1+1"}}
    ran = {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "no"}}
    call, result = read(chunk(code, ran)).parts
    assert isinstance(call, CallPart)
    assert (call.name, call.kind) == ("codeExecution", "server")
    assert isinstance(result, ResultPart)
    assert (result.call, result.status) == (call.call, "error")


@pytest.mark.parametrize(
    "part",
    [
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
        {"functionCall": {"name": "read_gauge", "willContinue": True}},
        {"novelty": {"a": 1}},
    ],
)
def test_a_part_without_neutral_form_stays_as_it_is(part: dict[str, Any]) -> None:
    [found] = read(chunk(part)).parts
    assert isinstance(found, ForeignPart)


def test_a_blocked_prompt_and_a_failure_say_why() -> None:
    assert read({"promptFeedback": {"blockReason": "SAFETY"}}).error == "the prompt was blocked: SAFETY"
    failed = read([*texts("It "), {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}])
    assert (failed.error, failed.complete, failed.parts) == ("overloaded", False, (TextPart("It "),))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["candidates", "content", "parts", "text", "functionCall", "args", "error", "usageMetadata"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_anything_can_be_read(value: Any) -> None:
    assert read(value).provider == "google"
    assert read([value, value]).provider == "google"
