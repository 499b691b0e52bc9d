"""gemini@1: what it makes is accepted, and every mending is in sight."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convlog.projections.stages.pieces_v1 import (
    DROPPED,
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
    profile_for,
    refusals,
    rules,
    target_for,
    value_of,
)
from .growing import Talk, requests_of_a_turn
from .piece_strategies import ATTACHMENTS, prompts

PROFILES = ("gemini-3-flash-preview", "gemini-3-pro-preview")
FLASH = PROFILES[0]
SENTINEL = "skip_thought_signature_validator"
PNG, PDF = "a" * 64, "c" * 64
THINKING = [None, Options(thinking={"thinkingLevel": "LOW"}, tool_choice="any", parallel_tools=False)]


def build(*pieces: Piece, options: Options | None = None) -> Request:
    request = encoded(pieces, FLASH, "gemini", ATTACHMENTS, options)
    assert refusals(request, profile_for(FLASH, "gemini")) == []
    return request


def contents(*pieces: Piece) -> Any:
    return value_of(build(*pieces))["contents"]


def piece(role: str, element: Any, group: str = "", provenance: str = "verbatim", **fields: Any) -> Piece:
    return Piece(provenance, role, element, (), group, **fields)


def user(text: str = "Is it wet?") -> Piece:
    return piece("user", Text(text))


def call(node: int = 1, name: str = "read_gauge", **fields: Any) -> Call:
    return Call(f"call_{node}", node, name, '{"station":"north"}', **fields)


def result(node: int = 1, *content: Any, status: str = "ok", **fields: Any) -> Piece:
    element = Result(f"call_{node}", node, status, content or (Text("12 mm"),), name="read_gauge")
    return piece("tool", element, "g", **fields)


def asked(*calls: Call) -> list[Piece]:
    return [piece("assistant", each, "g") for each in calls]


OWN: dict[str, Any] = {"provider": "google", "model": FLASH}


# --- the provider accepts ---


@pytest.mark.oracle
@pytest.mark.parametrize("profile_id", PROFILES)
@few(150)
@given(data=st.data())
def test_whatever_a_history_has_been_through_its_request_is_accepted(profile_id: str, data: st.DataObject) -> None:
    pieces = data.draw(prompts(target_for(profile_id)))
    options = data.draw(st.sampled_from(THINKING))
    request = encoded(pieces, profile_id, "gemini", ATTACHMENTS, options)
    assert refusals(request, profile_for(profile_id, "gemini")) == []
    assert_pointers(request)
    assert body(encoded(pieces, profile_id, "gemini", ATTACHMENTS, options)) == body(request)


@pytest.mark.oracle
@pytest.mark.long
@many(10_000)
@given(prompts(target_for(FLASH)))
def test_ten_thousand_histories_are_accepted(pieces: list[Piece]) -> None:
    assert refusals(encoded(pieces, FLASH, "gemini", ATTACHMENTS), profile_for(FLASH, "gemini")) == []


@few(60)
@given(requests_of_a_turn(target_for(FLASH)))
def test_what_was_sent_begins_what_is_sent_next(steps: list[list[Piece]]) -> None:
    blocks = [blocks_with_pieces(encoded(pieces, FLASH, "gemini", {})) for pieces in steps]
    for before, after in pairwise(blocks):
        assert after[: len(before)] == before


@few(60)
@given(prompts(target_for(FLASH)))
def test_an_earlier_requests_blocks_begin_the_next_one(pieces: list[Piece]) -> None:
    lasting = [piece for piece in pieces if not piece.volatile and piece.provenance != DROPPED]
    later = encoded(lasting, FLASH, "gemini", ATTACHMENTS)
    for cut in cuts(lasting):
        assert_prefix(encoded(lasting[:cut], FLASH, "gemini", ATTACHMENTS), later, lasting[:cut])


# --- around the talk ---


def test_the_model_is_in_the_address_and_not_in_the_body() -> None:
    assert "model" not in value_of(build(user()))


def test_leading_system_text_is_the_instruction_and_later_system_text_a_note_of_the_users() -> None:
    request = build(piece("system", Text("Be brief.")), user(), piece("system", Text("It rains.")))
    value = value_of(request)
    assert value["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert value["contents"][0]["parts"][1]["text"] == "<system>\nIt rains.\n</system>"
    assert rules(request) == ["G1"]


def test_options_go_to_their_places() -> None:
    options = Options(
        max_tokens=99,
        thinking={"thinkingLevel": "LOW"},
        tool_choice="read_gauge",
        extra={"generationConfig": {"temperature": 0.5}, "labels": {"team": "rain"}, "contents": []},
    )
    tools = piece("system", Tools((Tool("read_gauge", "Reads."),)))
    request = build(tools, user(), options=options)
    value = value_of(request)
    assert value["generationConfig"] == {
        "maxOutputTokens": 99,
        "thinkingConfig": {"thinkingLevel": "LOW"},
        "temperature": 0.5,
    }
    assert value["toolConfig"]["functionCallingConfig"] == {"mode": "ANY", "allowedFunctionNames": ["read_gauge"]}
    assert value["labels"] == {"team": "rain"}
    assert rules(request) == ["the encoder sets it"]


def test_a_choice_of_a_tool_that_is_not_there_is_left_out() -> None:
    request = build(piece("system", Tools((Tool("alarm"),))), user(), options=Options(tool_choice="read_gauge"))
    assert "toolConfig" not in value_of(request)
    assert len(request.repairs) == 1


def test_cached_content_has_its_own_instruction_and_tools() -> None:
    options = Options(extra={"cachedContent": "cachedContents/1"})
    request = build(piece("system", Text("Be brief.")), user(), options=options)
    assert "systemInstruction" not in value_of(request)
    assert rules(request) == ["G14"]


def test_tools_are_sorted_declared_once_and_carry_their_schema_as_spelled() -> None:
    schema = '{"type":"object","properties":{"b":{"type":"number","minimum":1.50},"a":{}}}'
    extra = '{"googleSearch":{}}'
    tools = Tools((Tool("b", "B.", schema), Tool("a"), Tool("b"), Tool("search", extra=extra)))
    request = build(piece("system", tools), user())
    declared = value_of(request)["tools"]
    assert [each["name"] for each in declared[0]["functionDeclarations"]] == ["a", "b"]
    assert schema.encode() in body(request)
    assert declared[1] == {"googleSearch": {}}


def test_a_tool_that_was_called_stays_declared() -> None:
    request = build(user(), *asked(call()), result())
    assert value_of(request)["tools"][0]["functionDeclarations"][0]["name"] == "read_gauge"
    assert "X7" in rules(request)


# --- calls and responses ---


def test_parallel_responses_stand_in_call_order_alone_in_their_content() -> None:
    said = contents(user(), *asked(call(1), call(2)), result(2), result(1))
    assert [part["functionCall"]["id"] for part in said[1]["parts"]] == ["call_1", "call_2"]
    assert [part["functionResponse"]["id"] for part in said[2]["parts"]] == ["call_1", "call_2"]


def test_a_failure_stands_under_error() -> None:
    said = contents(user(), *asked(call()), result(1, Text("gauge offline"), status="denied"))
    assert said[2]["parts"][0]["functionResponse"]["response"] == {"error": "gauge offline"}


def test_a_failure_without_words_names_its_status() -> None:
    said = contents(user(), *asked(call()), result(1, Text(" "), status="cancelled"))
    assert said[2]["parts"][0]["functionResponse"]["response"] == {"error": "cancelled"}


def test_the_outcome_that_turn_memory_keeps_is_the_response_itself() -> None:
    outcome = Text('{"status":"error","exit_code":2}')
    said = contents(user(), *asked(call()), result(1, outcome, status="error", provenance=TURN_MEMORY))
    assert said[2]["parts"][0]["functionResponse"]["response"] == {"status": "error", "exit_code": 2}


def test_an_output_that_happens_to_be_json_stays_text() -> None:
    said = contents(user(), *asked(call()), result(1, Text('{"mm":12}')))
    assert said[2]["parts"][0]["functionResponse"]["response"] == {"output": '{"mm":12}'}


def test_an_image_from_a_tool_goes_with_its_response() -> None:
    said = contents(user(), *asked(call()), result(1, Text("The map:"), Image(None, PNG)))
    answer = said[2]["parts"][0]["functionResponse"]
    assert answer["response"] == {"output": "The map:"}
    assert answer["parts"][0]["inlineData"]["mimeType"] == "image/png"


def test_a_call_without_result_gets_one_that_says_so() -> None:
    request = build(user(), *asked(call()))
    answer = value_of(request)["contents"][2]["parts"][0]["functionResponse"]
    assert answer["response"] == {"error": "No result of this call was recorded."}
    assert "X1" in rules(request)


def test_a_late_result_stands_at_its_call_and_a_second_or_stray_one_nowhere() -> None:
    request = build(user(), *asked(call()), user("And now?"), result(), result(), result(7))
    said = value_of(request)["contents"]
    assert said[2]["parts"][0]["functionResponse"]["response"] == {"output": "12 mm"}
    assert [repair.rule for repair in request.repairs if repair.provenance == DROPPED] == [
        "X1: a second result",
        "X1: its call is not in the request",
    ]


def test_an_ill_formed_name_is_mended_alike_on_declaration_call_and_response() -> None:
    name = "mcp.weather/" + "n" * 60
    tools = piece("system", Tools((Tool(name),)))
    said = value_of(build(tools, user(), *asked(call(name=name)), result()))
    mended = said["tools"][0]["functionDeclarations"][0]["name"]
    assert mended != name
    assert said["contents"][1]["parts"][0]["functionCall"]["name"] == mended
    assert said["contents"][2]["parts"][0]["functionResponse"]["name"] == mended


def test_a_call_that_came_without_id_goes_back_without() -> None:
    opaque = '{"functionCall":{"name":"read_gauge","args":{"station":"north"}}}'
    said = contents(user(), *asked(call(opaque=opaque, **OWN), call(2, opaque=opaque, **OWN)), result(), result(2))
    assert said[1]["parts"][1] == {"functionCall": {"name": "read_gauge", "args": {"station": "north"}}}
    assert "id" not in said[2]["parts"][0]["functionResponse"]


# --- G6: nothing beside responses ---


def test_what_the_user_says_after_responses_follows_a_short_word_of_the_model() -> None:
    request = build(user(), *asked(call()), result(), user("Stop."))
    said = value_of(request)["contents"]
    assert said[3:] == [
        {"role": "model", "parts": [{"text": "Noted."}]},
        {"role": "user", "parts": [{"text": "Stop."}]},
    ]
    assert "G6" in rules(request)


def test_volatile_text_after_responses_is_carried_by_the_last_one() -> None:
    date = piece("user", Text("It is noon."), volatile=True)
    todo = piece("user", Text("Nothing to do."), volatile=True)
    request = build(user(), *asked(call(1), call(2)), result(1), result(2), date, todo)
    said = value_of(request)["contents"]
    assert len(said) == 3
    assert said[2]["parts"][0]["functionResponse"]["response"] == {"output": "12 mm"}
    assert said[2]["parts"][1]["functionResponse"]["response"] == {
        "output": "12 mm",
        "context": "It is noon.\nNothing to do.",
    }
    assert request.items[-1].blocks[-1].pieces == (4, 5, 6)


def test_volatile_text_beside_an_outcome_of_turn_memory_leaves_it_whole() -> None:
    outcome = result(1, Text('{"status":"success"}'), provenance=TURN_MEMORY)
    said = contents(user(), *asked(call()), outcome, piece("user", Text("Noon."), volatile=True))
    assert said[2]["parts"][0]["functionResponse"]["response"] == {"output": {"status": "success"}, "context": "Noon."}


def test_volatile_text_after_the_users_words_stands_beside_them() -> None:
    said = contents(user(), piece("user", Text("Noon."), volatile=True))
    assert said == [{"role": "user", "parts": [{"text": "Is it wet?"}, {"text": "Noon."}]}]


def test_volatile_text_changes_no_block_but_the_last() -> None:
    talk = Talk(target_for(FLASH))
    talk.user("Is it wet?")
    talk.step(2)
    plain = encoded(talk.pieces, FLASH, "gemini", {})
    talk.put("user", Text("Noon."), volatile=True)
    dated = encoded(talk.pieces, FLASH, "gemini", {})
    blocks = [[block.data for item in each.items for block in item.blocks] for each in (plain, dated)]
    assert blocks[0][:-1] == blocks[1][:-1]
    assert len(blocks[0]) == len(blocks[1])


# --- signatures and reasoning ---


def test_a_signature_stays_on_its_own_part_for_its_own_model() -> None:
    said = contents(user(), *asked(call(signature="c2ln", **OWN)), result())
    assert said[1]["parts"][0]["thoughtSignature"] == "c2ln"


def test_the_first_call_of_a_step_that_this_model_did_not_make_skips_validation() -> None:
    other: dict[str, Any] = {"signature": "c2ln", "provider": "google", "model": "gemini-2.5-flash"}
    request = build(user(), *asked(call(1, **other), call(2, **other)), result(1), result(2))
    parts = value_of(request)["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == [SENTINEL, None]
    assert {"X3", "G11"} <= set(rules(request))


def test_a_model_without_signatures_gets_no_sentinel() -> None:
    target = msgspec.structs.replace(target_for(FLASH), thought_signatures=False)
    from convlog.projections.encoders.gemini_v1 import build as make

    said = value_of(make([user(), *asked(call()), result()], target, Options(), {}))["contents"]
    assert "thoughtSignature" not in said[1]["parts"][0]


def test_a_further_signature_of_a_step_and_a_repeated_or_corrupted_one_are_left_out() -> None:
    first, second = call(1, signature="c2ln", **OWN), call(2, signature="b3Ro", **OWN)
    later = piece("assistant", call(3, signature="c2ln", **OWN), "h")
    corrupted = piece("assistant", call(4, signature="no base64", **OWN), "i")
    pieces = [user(), *asked(first, second), result(1), result(2), later, result(3), corrupted, result(4)]
    request = build(*pieces)
    signatures = [
        part.get("thoughtSignature")
        for content in value_of(request)["contents"]
        for part in content["parts"]
        if "functionCall" in part
    ]
    assert signatures == ["c2ln", None, SENTINEL, SENTINEL]
    assert {"G9", "G10"} <= set(rules(request))


def test_own_reasoning_goes_back_and_other_reasoning_never() -> None:
    own = piece("assistant", Reasoning("Hm.", "c2ln", None, **OWN), "g")
    other = piece("assistant", Reasoning("Secret.", "b3Ro", None, "anthropic", "claude-opus-5"), "g")
    request = build(user(), own, other, piece("assistant", Text("Wet."), "g"), user("And now?"))
    assert value_of(request)["contents"][1]["parts"] == [
        {"text": "Hm.", "thought": True, "thoughtSignature": "c2ln"},
        {"text": "Wet."},
    ]
    assert "Secret" not in body(request).decode()
    assert rules(request) == ["X3"]


@pytest.mark.parametrize("opaque", [None, '{"text":"Wet.","thoughtSignature":"c2ln"}'])
def test_a_signed_text_goes_back_as_it_came(opaque: str | None) -> None:
    said = contents(user(), piece("assistant", Text("Wet.", "c2ln", opaque, **OWN)), user("And now?"))
    assert said[1]["parts"] == [{"text": "Wet.", "thoughtSignature": "c2ln"}]


@pytest.mark.parametrize("kind", [Reasoning, Text])
def test_a_seal_without_text_stays_where_it_was(kind: type[Reasoning | Text]) -> None:
    seal = piece("assistant", kind("", "c2ln", None, **OWN), "g")
    said = contents(user(), piece("assistant", Text("Wet."), "g"), seal, user("And now?"))
    assert said[1]["parts"] == [{"text": "Wet."}, {"text": "", "thoughtSignature": "c2ln"}]


def test_reasoning_that_was_cut_off_before_any_answer_is_left_out() -> None:
    cut = piece("assistant", Reasoning("Hm", "c2ln", None, **OWN), "g")
    request = build(user(), cut, user("And now?"))
    assert len(value_of(request)["contents"]) == 1
    assert rules(request) == ["X4"]


# --- parts of its own, media, ends ---


def test_what_ran_on_its_own_servers_goes_back_as_it_was() -> None:
    code = '{"executableCode":{"language":"PYTHON","code":"1+1"}}'
    output = '{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"2"}}'
    running = Call("x:0", 1, "codeExecution", "{}", kind="server", opaque=code, **OWN)
    ran = Result("x:0", 1, "ok", (Foreign(output, **OWN),), server=True)
    said = contents(user(), piece("assistant", running, "g"), piece("assistant", ran, "g"), user("And?"))
    assert [list(part) for part in said[1]["parts"]] == [["executableCode"], ["codeExecutionResult"]]


def test_what_ran_on_another_providers_servers_is_left_out_unless_it_can_be_read() -> None:
    search: dict[str, Any] = {"kind": "server", "provider": "anthropic", "model": "claude-opus-5"}
    hidden = Result("call_1", 1, "ok", (Foreign('{"type":"web_search_tool_result"}', "anthropic"),), server=True)
    shown = Result("call_2", 2, "ok", (Text("Rain."),), server=True)
    said = contents(
        user(),
        *asked(call(1, "web_search", **search), call(2, "web_search", **search)),
        piece("assistant", hidden, "g"),
        piece("assistant", shown, "g"),
    )
    assert [part["functionCall"]["id"] for part in said[1]["parts"]] == ["call_2"]
    assert said[2]["parts"][0]["functionResponse"]["response"] == {"output": "Rain."}


def test_images_and_documents_go_inline_or_by_their_place() -> None:
    place = Document("application/pdf", url="https://example.org/gauges.pdf")
    said = contents(user(), piece("user", Image(None, PNG)), piece("user", Document(None, PDF)), piece("user", place))
    assert [list(part) for part in said[0]["parts"]] == [["text"], ["inlineData"], ["inlineData"], ["fileData"]]
    assert said[0]["parts"][3]["fileData"]["fileUri"] == "https://example.org/gauges.pdf"


def test_an_image_that_the_model_does_not_take_is_named_in_its_place() -> None:
    request = build(user(), piece("user", Image("image/tiff", "e" * 64)))
    assert "image/tiff" in value_of(request)["contents"][0]["parts"][1]["text"]
    assert len(request.repairs) == 1


def test_the_user_speaks_first_and_last() -> None:
    request = build(piece("assistant", Text("It rains.")))
    assert [content["role"] for content in value_of(request)["contents"]] == ["user", "model", "user"]
    assert rules(request) == ["X5", "X5"]
