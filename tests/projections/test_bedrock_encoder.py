"""bedrock@1: what it makes is accepted, and every mending is in sight."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convlog.projections.encoders.bedrock_v1 import build as make
from convlog.projections.lint import lint
from convlog.projections.stages.pieces_v1 import (
    DROPPED,
    SUMMARY,
    TURN_MEMORY,
    Call,
    Document,
    Foreign,
    Image,
    Piece,
    Reasoning,
    Result,
    Text,
    Tool,
    Tools,
)
from convlog.projections.stages.request_v1 import Request, body
from convlog.projections.stages.target_v1 import Options

from .encoding import (
    assert_pointers,
    assert_prefix,
    blocks_with_pieces,
    cuts,
    encoded,
    few,
    many,
    marked_pointers,
    profile_for,
    refusals,
    rules,
    target_for,
    value_of,
)
from .growing import Talk, requests_of_a_turn
from .piece_strategies import ATTACHMENTS, prompts

CLAUDE = "bedrock-claude"
PROFILE = profile_for(CLAUDE, "bedrock")
TARGET = target_for(CLAUDE)
PNG, PDF, NOTES = "a" * 64, "c" * 64, "d" * 64
THINK = Options(thinking={"type": "adaptive"}, cache=False)
MANUAL = Options(thinking={"type": "enabled", "budget_tokens": 1024})
OPTIONS = [Options(), THINK, MANUAL, Options(tool_choice="any", parallel_tools=False)]
POINT = {"cachePoint": {"type": "default"}}
OWN: dict[str, Any] = {"provider": "bedrock", "model": TARGET.model}


def build(*pieces: Piece, options: Options | None = None) -> Request:
    request = encoded(pieces, CLAUDE, "bedrock", ATTACHMENTS, options or Options(cache=False))
    assert refusals(request, PROFILE) == []
    return request


def messages(*pieces: Piece, options: Options | None = None) -> Any:
    return value_of(build(*pieces, options=options))["messages"]


def piece(role: str, element: Any, group: str = "", provenance: str = "verbatim", **fields: Any) -> Piece:
    return Piece(provenance, role, element, (), group, **fields)


def user(text: str = "Is it wet?", **fields: Any) -> Piece:
    return piece("user", Text(text), **fields)


def call(node: int = 1, name: str = "read_gauge", **fields: Any) -> Call:
    return Call(f"call_{node}", node, name, '{"station":"north"}', **fields)


def result(node: int = 1, *content: Any, status: str = "ok", **fields: Any) -> Piece:
    element = Result(f"call_{node}", node, status, content, name="read_gauge")
    return piece("tool", element, "g", **fields)


def asked(*calls: Call) -> list[Piece]:
    return [piece("assistant", each, "g") for each in calls]


WET = Text("12 mm")


# --- the provider accepts ---


@pytest.mark.oracle
@few(200)
@given(prompts(TARGET), st.sampled_from(OPTIONS))
def test_whatever_a_history_has_been_through_its_request_is_accepted(pieces: list[Piece], options: Options) -> None:
    request = encoded(pieces, CLAUDE, "bedrock", ATTACHMENTS, options)
    assert refusals(request, PROFILE) == []
    assert_pointers(request)
    assert body(encoded(pieces, CLAUDE, "bedrock", ATTACHMENTS, options)) == body(request)


@pytest.mark.oracle
@pytest.mark.long
@many(10_000)
@given(prompts(TARGET), st.sampled_from(OPTIONS))
def test_ten_thousand_histories_are_accepted(pieces: list[Piece], options: Options) -> None:
    assert refusals(encoded(pieces, CLAUDE, "bedrock", ATTACHMENTS, options), PROFILE) == []


@few(100)
@given(prompts(TARGET))
def test_a_model_that_wants_results_alone_gets_them_alone(pieces: list[Piece]) -> None:
    request = make(pieces, msgspec.structs.replace(TARGET, results_alone=True), Options(), ATTACHMENTS)
    assert lint(value_of(request), msgspec.structs.replace(PROFILE, results_alone=True)) == []


@few(60)
@given(requests_of_a_turn(TARGET), st.sampled_from([THINK, Options()]))
def test_what_was_sent_begins_what_is_sent_next(steps: list[list[Piece]], options: Options) -> None:
    blocks = [blocks_with_pieces(encoded(pieces, CLAUDE, "bedrock", {}, options)) for pieces in steps]
    for before, after in pairwise(blocks):
        assert after[: len(before)] == before


@few(60)
@given(prompts(TARGET))
def test_an_earlier_requests_blocks_begin_the_next_one(pieces: list[Piece]) -> None:
    lasting = [piece for piece in pieces if not piece.volatile and piece.provenance != DROPPED]
    later = encoded(lasting, CLAUDE, "bedrock", ATTACHMENTS)
    for cut in cuts(lasting):
        assert_prefix(encoded(lasting[:cut], CLAUDE, "bedrock", ATTACHMENTS), later, lasting[:cut])


# --- around the talk ---


def test_options_go_to_their_places() -> None:
    options = Options(
        max_tokens=99,
        thinking={"type": "adaptive"},
        tool_choice="auto",
        extra={"inferenceConfig": {"temperature": 0.5}, "requestMetadata": {"team": "rain"}, "modelId": "other"},
    )
    request = build(piece("system", Tools((Tool("read_gauge"),))), user(), options=options)
    value = value_of(request)
    assert value["modelId"] == TARGET.model
    assert value["inferenceConfig"] == {"maxTokens": 99, "temperature": 0.5}
    assert value["additionalModelRequestFields"] == {"thinking": {"type": "adaptive"}}
    assert value["toolConfig"]["toolChoice"] == {"auto": {}}
    assert value["requestMetadata"] == {"team": "rain"}
    assert rules(request) == ["the encoder sets it"]


def test_a_forced_choice_is_left_out_while_the_model_thinks() -> None:
    options = Options(thinking={"type": "adaptive"}, tool_choice="any")
    request = build(piece("system", Tools((Tool("read_gauge"),))), user(), options=options)
    assert "toolChoice" not in value_of(request)["toolConfig"]
    assert rules(request) == ["A33"]


def test_sampling_is_left_out_for_a_model_that_refuses_it() -> None:
    target = msgspec.structs.replace(TARGET, sampling_refused=True)
    request = make([user()], target, Options(extra={"inferenceConfig": {"temperature": 0.5}}), {})
    assert "temperature" not in value_of(request)["inferenceConfig"]
    assert rules(request) == ["A31"]


def test_system_text_between_messages_is_a_note_of_the_users() -> None:
    request = build(piece("system", Text("Be brief.")), user(), piece("system", Text("It rains.")))
    value = value_of(request)
    assert value["system"] == [{"text": "Be brief."}]
    assert value["messages"][0]["content"][1] == {"text": "<system>\nIt rains.\n</system>"}
    assert rules(request) == ["A25"]


def test_a_history_with_tool_blocks_has_a_tool_configuration_even_if_none_was_set() -> None:
    request = build(user(), *asked(call()), result(1, WET))
    declared = value_of(request)["toolConfig"]["tools"]
    assert [each["toolSpec"]["name"] for each in declared] == ["read_gauge"]
    assert "X7" in rules(request)


def test_tools_are_sorted_and_carry_their_schema_as_spelled() -> None:
    schema = '{"type":"object","properties":{"b":{"type":"number","minimum":1.50},"a":{}}}'
    tools = Tools((Tool("b", "B.", schema, '{"strict":true,"cache_control":{}}'), Tool("a", " ")))
    request = build(piece("system", tools), user())
    declared = value_of(request)["toolConfig"]["tools"]
    assert [each["toolSpec"]["name"] for each in declared] == ["a", "b"]
    assert "description" not in declared[0]["toolSpec"]
    assert declared[1]["toolSpec"]["strict"] is True
    assert schema.encode() in body(request)


# --- cache marks ---


def test_marks_stand_behind_what_they_mark_and_on_nothing_volatile() -> None:
    talk = Talk(TARGET)
    talk.pieces.insert(0, piece("system", Text("Be brief.")))
    talk.user("Is it wet?")
    talk.step(2)
    talk.put("user", Text("Noon."), volatile=True)
    request = build(*talk.pieces, options=Options())
    value = value_of(request)
    assert value["system"][-1] == POINT
    assert value["messages"][0]["content"][-1] == POINT
    assert value["messages"][2]["content"][2:] == [POINT, {"text": "Noon."}]
    assert marked_pointers(request) == ["/messages/0/content/0", "/messages/2/content/1"]


def test_without_system_text_the_tools_are_marked() -> None:
    value = value_of(build(piece("system", Tools((Tool("read_gauge"),))), user(), options=Options(tool_choice="any")))
    assert value["toolConfig"]["tools"][-1] == POINT
    assert value["toolConfig"]["toolChoice"] == {"any": {}}


def test_there_are_never_more_than_four_marks() -> None:
    talk = Talk(TARGET)
    talk.pieces.append(piece("system", Text("Be brief.")))
    talk.pieces.append(piece("user", Text("<summary>\nIt rained.\n</summary>"), provenance=SUMMARY))
    for _ in range(12):
        talk.user("Is it wet?")
        talk.step(3, text="Reading.")
    assert body(build(*talk.pieces, options=Options())).count(b"cachePoint") == 4


def test_without_caching_there_are_no_marks() -> None:
    assert b"cachePoint" not in body(build(piece("system", Text("Be brief.")), user()))


# --- calls and results ---


def test_results_stand_in_call_order_before_what_the_user_says() -> None:
    said = messages(user(), *asked(call(1), call(2)), result(2, WET), result(1, WET), user("Stop."))
    content = said[2]["content"]
    assert [block.get("toolResult", {}).get("toolUseId") for block in content] == ["call_1", "call_2", None]


def test_failures_say_so_in_their_status_and_have_content() -> None:
    request = build(user(), *asked(call()), result(1, Text(" "), status="denied"))
    answer = value_of(request)["messages"][2]["content"][0]["toolResult"]
    assert (answer["status"], answer["content"]) == ("error", [{"text": "denied"}])
    assert "B6" in rules(request)


def test_an_empty_success_says_that_it_is_one() -> None:
    answer = messages(user(), *asked(call()), result(1))[2]["content"][0]["toolResult"]
    assert (answer["status"], answer["content"]) == ("success", [{"text": "(no output)"}])


def test_the_outcome_that_turn_memory_keeps_is_text() -> None:
    outcome = result(1, Text('{"status":"success"}'), provenance=TURN_MEMORY)
    answer = messages(user(), *asked(call()), outcome)[2]["content"][0]["toolResult"]
    assert answer["content"] == [{"text": '{"status":"success"}'}]


def test_ids_and_names_are_mended_alike_on_call_and_result() -> None:
    long = Call("functions.read:0", 1, "mcp.read", "{}")
    answer = piece("tool", Result("functions.read:0", 1, "ok", (WET,), name="mcp.read"), "g")
    request = build(user(), *asked(long), answer)
    said = value_of(request)["messages"]
    use, back = said[1]["content"][0]["toolUse"], said[2]["content"][0]["toolResult"]
    assert use["toolUseId"] == back["toolUseId"] != "functions.read:0"
    assert use["name"] != "mcp.read"
    assert {"X2", "B3"} <= set(rules(request))


def test_input_that_is_no_object_becomes_one() -> None:
    cut = Call("call_1", 1, "read_gauge", '{"station":"no')
    request = build(user(), *asked(cut), result(1, WET))
    assert value_of(request)["messages"][1]["content"][0]["toolUse"]["input"] == {"text": '{"station":"no'}
    assert "A15" in rules(request)


def test_a_late_result_stands_at_its_call_and_a_stray_one_nowhere() -> None:
    request = build(user(), *asked(call()), user("And now?"), result(1, WET), result(7, WET))
    said = value_of(request)["messages"]
    assert [list(block) for block in said[2]["content"]] == [["toolResult"], ["text"]]
    assert [repair.rule for repair in request.repairs if repair.provenance == DROPPED] == [
        "X1: its call is not in the request"
    ]


def test_volatile_text_goes_into_the_last_result_where_results_stand_alone() -> None:
    target = msgspec.structs.replace(TARGET, results_alone=True)
    pieces = [user(), *asked(call()), result(1, WET), user("Noon.", volatile=True)]
    request = make(pieces, target, Options(), {})
    answer = value_of(request)["messages"][2]["content"][0]["toolResult"]
    assert answer["content"] == [{"text": "12 mm"}, {"text": "Noon."}]
    assert "B7" in rules(request)


# --- reasoning ---


def test_own_reasoning_goes_back_and_other_reasoning_never() -> None:
    own = piece("assistant", Reasoning("Hm.", "c2ln", None, **OWN), "g")
    redacted = piece("assistant", Reasoning("", None, '{"reasoningContent":{"redactedContent":"c2ln"}}', **OWN), "g")
    other = piece("assistant", Reasoning("Secret.", "b3Ro", None, "anthropic", "claude-opus-5"), "g")
    request = build(user(), own, redacted, other, piece("assistant", Text("Wet."), "g"), user("And?"), options=THINK)
    assert value_of(request)["messages"][1]["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}},
        {"reasoningContent": {"redactedContent": "c2ln"}},
        {"text": "Wet."},
    ]
    assert "Secret" not in body(request).decode()
    assert rules(request) == ["X3"]


@pytest.mark.parametrize(
    ("before", "thought", "options", "rule"),
    [
        ([], Reasoning("Hm.", "c2ln", None, **OWN), Options(), "A19"),
        ([], Reasoning("Hm.", None, None, **OWN), THINK, "A16"),
        ([Text("Wet.")], Reasoning("Hm.", "c2ln", None, **OWN), THINK, "A18"),
        ([], Reasoning("Hm.", None, '{"text":"Hm."}', **OWN), THINK, "B4"),
    ],
)
def test_reasoning_that_would_be_refused_is_left_out(
    before: list[Text], thought: Reasoning, options: Options, rule: str
) -> None:
    said = [piece("assistant", element, "g") for element in [*before, thought, Text("So.")]]
    request = build(user(), *said, user("And now?"), options=options)
    assert b"reasoningContent" not in body(request)
    assert rules(request) == [rule]


def test_reasoning_that_led_to_nothing_is_left_out() -> None:
    cut = piece("assistant", Reasoning("Hm", "c2ln", None, **OWN), "g")
    late = piece("assistant", Reasoning("Hm", "c2ln", None, **OWN), "h")
    said = [piece("assistant", Reasoning("Hm.", "c2ln", None, **OWN), "h"), piece("assistant", Text("Wet."), "h")]
    request = build(user(), cut, user("And now?"), *said, late, user("So?"), options=THINK)
    kinds = [[*block] for message in value_of(request)["messages"] for block in message["content"]]
    assert kinds == [["text"], ["text"], ["reasoningContent"], ["text"], ["text"]]
    assert rules(request) == ["A18", "A18"]


def test_an_open_loop_without_reasoning_turns_manual_thinking_off() -> None:
    request = build(user(), *asked(call()), result(1, WET), options=MANUAL)
    assert value_of(request)["additionalModelRequestFields"] == {"thinking": {"type": "disabled"}}
    assert "A17" in rules(request)


# --- media, parts of its own, ends ---


def test_images_and_documents_have_a_format_and_documents_a_name_of_their_own() -> None:
    said = messages(
        user(),
        piece("user", Image(None, PNG)),
        piece("user", Document("text/plain", NOTES, name="list.txt")),
        piece("user", Document("text/plain", NOTES, name="list.txt")),
        piece("user", Document("application/pdf", url="s3://gauges/all.pdf", title="All  gauges")),
    )
    blocks = said[0]["content"]
    assert blocks[1]["image"]["format"] == "png"
    assert [block["document"]["name"] for block in blocks[2:]] == ["list txt", "list txt (2)", "All gauges"]
    assert blocks[4]["document"]["source"] == {"s3Location": {"uri": "s3://gauges/all.pdf"}}


def test_a_document_comes_with_a_text() -> None:
    request = build(piece("user", Document("application/pdf", PDF)))
    assert value_of(request)["messages"][0]["content"][1] == {"text": "See the document."}
    assert len(request.repairs) == 1


def test_what_cannot_be_sent_is_named_in_its_place() -> None:
    request = build(user(), piece("user", Image(url="https://example.org/map.png")))
    assert "https://example.org/map.png" in value_of(request)["messages"][0]["content"][1]["text"]
    assert len(request.repairs) == 1


def test_own_blocks_go_back_as_they_were() -> None:
    cited = '{"citationsContent":{"content":[{"text":"Wet."}],"citations":[]}}'
    guard = Foreign('{"guardContent":{"text":{"text":"Is it?"}}}', **OWN)
    said = messages(user(), piece("user", guard), piece("assistant", Text("Wet.", None, cited, **OWN)), user("And?"))
    assert said[0]["content"][1] == json.loads(guard.json)
    assert said[1]["content"] == [json.loads(cited)]


def test_the_user_speaks_first_and_last() -> None:
    request = build(piece("assistant", Text("It rains.")))
    assert [message["role"] for message in value_of(request)["messages"]] == ["user", "assistant", "user"]
    assert rules(request) == ["X5", "X5"]


def test_the_beginning_of_an_answer_may_stand_last_where_the_model_takes_it() -> None:
    target = msgspec.structs.replace(TARGET, prefill=True)
    ends = [
        value_of(make([user(), piece("assistant", Text(text))], target, Options(), {}))["messages"][-1]["role"]
        for text in ("It", "It ")
    ]
    assert ends == ["assistant", "user"]
