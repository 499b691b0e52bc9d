"""openai-chat@1 and openai-responses@1: what they make is accepted, and every mending is in sight."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convlog.projections.stages.pieces_v1 import (
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
from .piece_strategies import ATTACHMENTS, own_opaque, prompts

CHAT, RESPONSES = "openai-chat", "openai-responses"
TARGETS = [
    (CHAT, "gpt-5.4"),
    (CHAT, "gpt-5.4-mini"),
    (CHAT, "gpt-5.6"),
    (CHAT, "deepseek-chat"),
    (CHAT, "deepseek-v4"),
    (CHAT, "kimi-k2.5"),
    (CHAT, "mistral"),
    (RESPONSES, "gpt-5.3-codex"),
    (RESPONSES, "gpt-5.4"),
    (RESPONSES, "gpt-5.4-mini"),
    (RESPONSES, "gpt-5.6"),
]
BOTH = [(CHAT, "gpt-5.4"), (RESPONSES, "gpt-5.4")]
PNG, PDF, TXT = "a" * 64, "c" * 64, "d" * 64


def build(*pieces: Piece, to: str = CHAT, profile: str = "gpt-5.4", options: Options | None = None) -> Request:
    request = encoded(pieces, profile, to, ATTACHMENTS, options)
    assert refusals(request, profile_for(profile, to)) == []
    return request


def items(request: Request) -> Any:
    value = value_of(request)
    return value["messages"] if "messages" in value else value["input"]


def piece(
    role: str, element: Any, source: int = 0, group: str = "", provenance: str = "verbatim", **more: Any
) -> Piece:
    return Piece(provenance, role, element, (source,) if source else (), group, **more)


def user(text: str = "Is it wet?", source: int = 0) -> Piece:
    return piece("user", Text(text), source)


def said(text: str = "Reading.", group: str = "g") -> Piece:
    return piece("assistant", Text(text), 40, group)


def called(node: int = 1, input_: str = "{}", group: str = "g", **more: Any) -> Piece:
    made: dict[str, Any] = {"id": f"call_{node}", "name": "read_gauge"}
    return piece("assistant", Call(node=node, input=input_, **{**made, **more}), node, group)


def answered(node: int = 1, *content: Any, status: str = "ok", group: str = "g") -> Piece:
    return piece("tool", Result(f"call_{node}", node, status, content or (Text("12 mm"),)), node + 500, group)


def own(kind: str, key: str = "1") -> str:
    opaque = own_opaque("openai", kind, key)
    assert opaque is not None
    return opaque


def thought(group: str = "g", key: str = "1", **fields: Any) -> Piece:
    made: dict[str, Any] = {"opaque": own("reasoning", key), "provider": "openai", "model": "gpt-5.4"}
    return piece("assistant", Reasoning("Hm.", **{**made, **fields}), 50, group)


options = st.builds(
    Options,
    max_tokens=st.sampled_from([None, 4096]),
    tool_choice=st.sampled_from([None, "auto", "any", "none", "read_gauge", "unknown"]),
    parallel_tools=st.sampled_from([None, True, False]),
    cache=st.booleans(),
    cache_key=st.sampled_from([None, "thread-7"]),
    extra=st.sampled_from([None, {"top_p": 0.5}, {"store": True}, {"service_tier": "default"}]),
)


@pytest.mark.oracle
@pytest.mark.parametrize(("to", "profile"), TARGETS)
@few(25)
@given(data=st.data())
def test_no_prompt_is_refused_and_its_bytes_repeat(to: str, profile: str, data: st.DataObject) -> None:
    assert_accepted(to, profile, data)


@pytest.mark.long
@pytest.mark.oracle
@pytest.mark.parametrize(("to", "profile"), TARGETS)
@many(900)
@given(data=st.data())
def test_no_prompt_of_many_is_refused(to: str, profile: str, data: st.DataObject) -> None:
    assert_accepted(to, profile, data)


def assert_accepted(to: str, profile: str, data: st.DataObject) -> None:
    pieces, asked = data.draw(prompts(target_for(profile))), data.draw(options)
    request = encoded(pieces, profile, to, ATTACHMENTS, asked)
    assert refusals(request, profile_for(profile, to)) == []
    assert body(encoded(pieces, profile, to, ATTACHMENTS, asked)) == body(request)
    assert_pointers(request)


@pytest.mark.parametrize(("to", "profile"), TARGETS)
@few(25)
@given(data=st.data())
def test_an_earlier_requests_blocks_begin_the_next_one(to: str, profile: str, data: st.DataObject) -> None:
    pieces = data.draw(prompts(target_for(profile)))
    later = encoded(pieces, profile, to, ATTACHMENTS)
    for cut in cuts(pieces):
        assert_prefix(encoded(pieces[:cut], profile, to, ATTACHMENTS), later, pieces[:cut])


# --- both formats ---


@pytest.mark.parametrize(("to", "profile"), BOTH)
def test_outputs_follow_their_batch_in_call_order(to: str, profile: str) -> None:
    request = build(user(), called(1), called(2), answered(2), answered(1), user("Why?"), to=to, profile=profile)
    key = "tool_call_id" if to == CHAT else "call_id"
    outputs = [item[key] for item in items(request) if item["role" if to == CHAT else "type"] in OUTPUTS]
    assert outputs == ["call_1", "call_2"]


OUTPUTS = {"tool", "function_call_output"}


def output(request: Request) -> Any:
    found = next(item for item in items(request) if item.get("role", item.get("type")) in OUTPUTS)
    return found.get("content", found.get("output"))


@pytest.mark.parametrize(("to", "profile"), BOTH)
@pytest.mark.parametrize(
    ("status", "text", "sent"),
    [("ok", "12 mm", "12 mm"), ("error", "offline", "error: offline"), ("denied", "", "denied"), ("ok", "", "")],
)
def test_a_status_stands_before_the_text(to: str, profile: str, status: str, text: str, sent: str) -> None:
    request = build(user(), called(), answered(1, Text(text), status=status), to=to, profile=profile)
    assert output(request) == sent


@pytest.mark.parametrize(("to", "profile"), BOTH)
def test_a_replayed_result_says_its_status_itself(to: str, profile: str) -> None:
    result = Result("call_1", 1, "error", (Text('{"status":"error"}'),))
    request = build(user(), called(), piece("tool", result, 9, "g", TURN_MEMORY), to=to, profile=profile)
    assert output(request) == '{"status":"error"}'


@pytest.mark.parametrize(("to", "profile"), BOTH)
def test_a_call_without_a_result_is_answered_with_an_error(to: str, profile: str) -> None:
    request = build(user(), called(), user("Go on."), to=to, profile=profile)
    assert output(request).startswith("error: ")
    assert "X1" in rules(request)


def arguments(request: Request) -> str:
    for item in items(request):
        if "arguments" in item:
            return str(item["arguments"])
        for call in item.get("tool_calls", []):
            return str(call["function"]["arguments"])
    raise AssertionError


@pytest.mark.parametrize(("to", "profile"), BOTH)
@pytest.mark.parametrize(
    ("spelled", "sent"),
    [(' {"b": 1.50} ', ' {"b": 1.50} '), ("", "{}"), ('{"a":', '{"text":"{\\"a\\":"}'), ("[1]", '{"value":[1]}')],
)
def test_arguments_are_sent_as_spelled_if_they_are_an_object(to: str, profile: str, spelled: str, sent: str) -> None:
    request = build(user(), called(input_=spelled), answered(), to=to, profile=profile)
    assert arguments(request) == sent
    assert ("O5" in rules(request)) == (spelled[:1] in {"{", "["} and spelled.strip() != sent.strip())


@pytest.mark.parametrize(("to", "profile"), BOTH)
def test_a_name_that_does_not_fit_is_mended_alike_in_call_and_declaration(to: str, profile: str) -> None:
    tools = piece("system", Tools((Tool("mcp.weather/read", "Reads."),)), 1)
    request = build(tools, user(), called(name="mcp.weather/read"), answered(), to=to, profile=profile)
    declared = value_of(request)["tools"]
    names = [tool.get("function", tool)["name"] for tool in declared]
    assert len(names) == 1
    assert names[0].startswith("mcpweatherread_")


@pytest.mark.parametrize(("to", "profile"), BOTH)
def test_more_tools_than_taken_keep_those_that_were_called(to: str, profile: str) -> None:
    tools = Tools(tuple(Tool(f"t{number:03}") for number in range(140)))
    request = build(piece("system", tools, 1), user(), called(name="t139"), answered(), to=to, profile=profile)
    names = [tool.get("function", tool)["name"] for tool in value_of(request)["tools"]]
    assert names == [f"t{number:03}" for number in range(127)] + ["t139"]
    assert rules(request).count("O3") == 12


@pytest.mark.parametrize(("to", "profile"), BOTH)
@pytest.mark.parametrize(("choice", "sent"), [("auto", "auto"), ("any", "required"), ("none", "none"), ("x", "auto")])
def test_a_tool_choice_is_spelled_for_the_format(to: str, profile: str, choice: str, sent: str) -> None:
    tools = piece("system", Tools((Tool("read_gauge"),)), 1)
    request = build(tools, user(), to=to, profile=profile, options=Options(tool_choice=choice, parallel_tools=False))
    assert value_of(request)["tool_choice"] == sent
    assert value_of(request)["parallel_tool_calls"] is False


@pytest.mark.parametrize(("to", "profile"), BOTH)
def test_a_key_for_the_cache_is_sent_where_it_is_known(to: str, profile: str) -> None:
    asked = Options(cache_key="thread-7")
    assert value_of(build(user(), to=to, profile=profile, options=asked))["prompt_cache_key"] == "thread-7"
    assert "prompt_cache_key" not in value_of(build(user(), profile="mistral", options=asked))


@pytest.mark.parametrize(("to", "profile"), BOTH)
def test_sampling_parameters_are_left_out_in_sight(to: str, profile: str) -> None:
    request = build(user(), to=to, profile=profile, options=Options(extra={"temperature": 0.5}))
    assert "temperature" not in value_of(request)
    assert "A31" in rules(request)


@pytest.mark.parametrize(("to", "key"), [(CHAT, "messages"), (RESPONSES, "input")])
def test_marks_end_prefixes_that_do_not_change(to: str, key: str) -> None:
    frame = piece("system", Text("Be brief."), 1, provenance="instructions")
    tail = piece("user", Text("now"), 99, provenance="context", volatile=True)
    request = build(frame, user("One", 2), said(), user("Two", 3), tail, to=to, profile="gpt-5.6")
    first = ["/messages/0/content/0"] if to == CHAT else []
    number = len(first)
    assert marked_pointers(request) == [*first, f"/{key}/{number}/content/0", f"/{key}/{number + 2}/content/0"]
    assert value_of(request)["prompt_cache_options"] == {"mode": "explicit"}


@pytest.mark.parametrize(("to", "place"), [(CHAT, "/messages/2/content/0"), (RESPONSES, "/input/2/output/0")])
def test_within_a_loop_the_newest_output_is_marked(to: str, place: str) -> None:
    request = build(user(), called(), answered(), to=to, profile="gpt-5.6")
    assert marked_pointers(request)[-1] == place


# --- Chat ---


def test_texts_of_one_response_join_and_stand_beside_its_calls() -> None:
    request = build(user(), said("Reading"), said(" it."), called(1), called(2), answered(1), answered(2))
    message = items(request)[1]
    assert message["content"] == "Reading it."
    assert [call["id"] for call in message["tool_calls"]] == ["call_1", "call_2"]


def test_a_message_of_calls_alone_has_no_content() -> None:
    assert items(build(user(), called(), answered()))[1]["content"] is None


def test_images_of_a_batch_follow_all_its_outputs() -> None:
    request = build(user(), called(1), called(2), answered(1, Text("A"), Image("image/png", PNG)), answered(2))
    assert [message["role"] for message in items(request)] == ["user", "assistant", "tool", "tool", "user"]
    assert [part["type"] for part in items(request)[4]["content"]] == ["text", "image_url"]


def test_a_model_that_reads_text_only_is_told_of_an_image() -> None:
    request = build(piece("user", Image("image/png", PNG), 1), profile="deepseek-v4")
    assert items(request) == [{"role": "user", "content": "[image, image/png: this model takes no images]"}]
    assert request.repairs


def test_documents_go_out_as_files_and_texts_as_text() -> None:
    pdf, text = Document("application/pdf", PDF, title="Gauges"), Document("text/plain", TXT, name="list.txt")
    content = items(build(piece("user", pdf, 1), piece("user", text, 1)))[0]["content"]
    assert content[0]["file"] == {"file_data": "data:application/pdf;base64,JVBERi0xLjc=", "filename": "Gauges"}
    assert content[1]["text"] == '<document name="list.txt">\nGauge list\n</document>'


def test_more_than_128_calls_are_split_in_sight() -> None:
    calls = [called(number) for number in range(1, 131)]
    results = [answered(number) for number in range(1, 131)]
    request = build(user(), *calls, *results)
    assert [len(message["tool_calls"]) for message in items(request) if message["role"] == "assistant"] == [128, 2]
    assert "O3" in rules(request)


def test_instructions_are_one_message_and_later_system_text_another() -> None:
    frame = [piece("system", Text(text), number, provenance="instructions") for number, text in enumerate("AB", 1)]
    request = build(*frame, user(), piece("system", Text("C"), 9))
    assert [(message["role"], message["content"]) for message in items(request)] == [
        ("developer", "A\n\nB"),
        ("user", "Is it wet?"),
        ("developer", "C"),
    ]


def test_reasoning_is_left_out_where_the_format_has_no_field() -> None:
    request = build(user(), thought(), said(), user("Why?"))
    assert "reasoning_content" not in items(request)[1]
    assert "O12" in rules(request)


@pytest.mark.parametrize(
    ("profile", "provider", "filler"), [("kimi-k2.5", "moonshot", " "), ("deepseek-v4", "deepseek", "")]
)
def test_every_message_has_reasoning_where_it_must(profile: str, provider: str, filler: str) -> None:
    model = target_for(profile).model
    mine = piece("assistant", Reasoning("Wet?", provider=provider, model=model), 1, "g")
    other = piece("assistant", Reasoning("Hm.", provider="openai", model="gpt-5.4"), 2, "h")
    request = build(user(), mine, called(), answered(), other, said(group="h"), user("Why?"), profile=profile)
    found = [message["reasoning_content"] for message in items(request) if message["role"] == "assistant"]
    assert found == ["Wet?", filler]
    assert {"X3", "O14"} <= set(rules(request))


def test_mistrals_ids_are_nine_letters_and_digits() -> None:
    request = build(user(), called(), answered(), profile="mistral")
    id_ = items(request)[1]["tool_calls"][0]["id"]
    assert len(id_) == 9
    assert id_ == items(request)[2]["tool_call_id"]
    kept = build(user(), called(id="abcDEF123"), answered(), profile="mistral")
    assert items(kept)[1]["tool_calls"][0]["id"] == "abcDEF123"


def test_mistrals_user_does_not_speak_right_after_a_tool() -> None:
    request = build(user(), called(), answered(), user("Why?"), profile="mistral")
    assert [message["role"] for message in items(request)] == ["user", "assistant", "tool", "assistant", "user"]
    assert "O15" in rules(request)


@few(60)
@given(data=st.data())
def test_mistrals_roles_follow_in_the_order_it_takes(data: st.DataObject) -> None:
    request = encoded(data.draw(prompts(target_for("mistral"))), "mistral", CHAT, ATTACHMENTS)
    roles = [message["role"] for message in items(request)]
    taken = {
        "system": {"user", "assistant", "system"},
        "user": {"assistant", "system", "user"},
        "assistant": {"assistant", "user", "tool"},
        "tool": {"assistant", "tool"},
    }
    assert all(after in taken[before] for before, after in pairwise(roles))


def test_a_custom_tools_call_is_custom_where_it_is_declared_so() -> None:
    tools = piece("system", Tools((Tool("patch", "Patches.", None, '{"type":"custom"}'),)), 1)
    call = called(name="patch", kind="custom", input_="*** Begin")
    request = build(tools, user(), call, answered())
    assert items(request)[1]["tool_calls"][0]["custom"] == {"name": "patch", "input": "*** Begin"}
    undeclared = build(user(), call, answered())
    assert arguments(undeclared) == '{"text":"*** Begin"}'


def test_the_limit_of_the_answer_has_the_dialects_name() -> None:
    asked = Options(max_tokens=100)
    assert value_of(build(user(), options=asked))["max_completion_tokens"] == 100
    assert value_of(build(user(), profile="mistral", options=asked))["max_tokens"] == 100


def test_a_refusal_goes_back_as_one() -> None:
    refusal = Foreign('{"type":"refusal","refusal":"No."}', "openai", "gpt-5.4")
    request = build(user(), piece("assistant", refusal, 3, "g"), user("Why?"))
    assert items(request)[1]["content"] == [{"type": "refusal", "refusal": "No."}]


# --- Responses ---


def responses(*pieces: Piece, profile: str = "gpt-5.4", options: Options | None = None) -> Request:
    return build(*pieces, to=RESPONSES, profile=profile, options=options)


def kinds(request: Request) -> list[str]:
    return [item.get("type") or item["role"] for item in items(request)]


def test_a_request_is_stateless() -> None:
    held = {"previous_response_id": "resp_1", "store": True, "include": ["web_search_call.results"]}
    value = value_of(responses(user(), options=Options(extra=held)))
    assert value["store"] is False
    assert value["include"] == ["reasoning.encrypted_content", "web_search_call.results"]
    assert "previous_response_id" not in value


def test_instructions_are_one_string() -> None:
    frame = [piece("system", Text(text), number, provenance="instructions") for number, text in enumerate("AB", 1)]
    value = value_of(responses(*frame, user()))
    assert value["instructions"] == "A\n\nB"
    assert len(value["input"]) == 1


def test_own_reasoning_stands_before_what_it_led_to() -> None:
    request = responses(user(), thought(), called(), answered())
    assert kinds(request) == ["message", "reasoning", "function_call", "function_call_output"]
    assert items(request)[1] == json.loads(own("reasoning"))
    assert "id" not in items(request)[2]


@pytest.mark.parametrize("fields", [{"model": "gpt-5.6"}, {"provider": "anthropic"}, {"opaque": None}])
def test_other_reasoning_is_left_out(fields: dict[str, Any]) -> None:
    request = responses(user(), thought(**fields), called(), answered())
    assert "reasoning" not in kinds(request)
    assert {"X3", "R5"} & set(rules(request))


def test_reasoning_that_led_to_nothing_is_left_out() -> None:
    request = responses(user(), thought(), user("Why?"))
    assert kinds(request) == ["message", "message"]
    assert "R3" in rules(request)


def test_reasoning_known_by_its_seal_alone_is_put_together() -> None:
    sealed = thought(opaque=None, signature="b3Bh", item="rs_7")
    item = items(responses(user(), sealed, called(), answered()))[1]
    assert item["id"] == "rs_7"
    assert item["encrypted_content"] == "b3Bh"
    assert item["summary"] == [{"type": "summary_text", "text": "Hm."}]


def recorded(group: str = "g") -> Piece:
    return piece("assistant", Text("Rain tonight.", None, own("text"), "openai", "gpt-5.4"), 60, group)


def test_a_recorded_message_goes_back_whole_behind_its_reasoning() -> None:
    request = responses(user(), thought(), recorded(), user("Why?"))
    assert items(request)[2] == json.loads(own("text"))


def test_without_its_reasoning_a_message_loses_its_id_and_keeps_its_phase() -> None:
    request = responses(user(), recorded(), user("Why?"))
    assert items(request)[1] == {"role": "assistant", "content": "Rain tonight.", "phase": "commentary"}


def test_reasoning_of_another_response_does_not_count() -> None:
    request = responses(user(), thought("a"), said(group="a"), recorded("b"), user("Why?"))
    assert "id" not in items(request)[3]


def test_a_servers_call_goes_back_to_its_own_model_only() -> None:
    def search(model: str) -> Piece:
        call = Call("ws_1", 5, "web_search", "{}", kind="server", opaque=own("server"), provider="openai", model=model)
        return piece("assistant", call, 5, "g")

    assert kinds(responses(user(), search("gpt-5.4"), user("Why?"))) == ["message", "web_search_call", "message"]
    assert kinds(responses(user(), search("gpt-5.6"), user("Why?"))) == ["message", "message"]


def test_a_servers_call_goes_with_the_reasoning_it_needs() -> None:
    fields = {"kind": "server", "opaque": own("server"), "provider": "openai", "model": "gpt-5.4", "needs": "rs_1"}
    search = called(5, id="ws_1", name="web_search", **fields)
    assert kinds(responses(user(), thought(), search, user("Why?")))[1:3] == ["reasoning", "web_search_call"]
    alone = responses(user(), search, user("Why?"))
    assert kinds(alone) == ["message", "message"]
    assert "R4" in rules(alone)


def test_a_compaction_goes_back_verbatim() -> None:
    compaction = Foreign(own("foreign"), "openai", "gpt-5.4")
    request = responses(user(), piece("assistant", compaction, 3, "g"), user("Why?"))
    assert items(request)[1] == json.loads(own("foreign"))


def test_no_item_goes_out_twice() -> None:
    compaction = Foreign(own("foreign"), "openai", "gpt-5.4")
    request = responses(user(), piece("assistant", compaction, 3, "g"), piece("assistant", compaction, 4, "g"), user())
    assert kinds(request).count("compaction") == 1
    assert "R8" in rules(request)


def test_images_of_a_result_stand_in_its_output() -> None:
    request = responses(user(), called(), answered(1, Text("A"), Image("image/png", PNG)))
    assert [part["type"] for part in output(request)] == ["input_text", "input_image"]


def test_a_document_at_a_place_is_cited_by_it() -> None:
    request = responses(piece("user", Document("application/pdf", url="https://example.org/a.pdf"), 1))
    assert items(request)[0]["content"] == [{"type": "input_file", "file_url": "https://example.org/a.pdf"}]


def test_the_providers_own_tools_are_declared_as_they_were() -> None:
    hosted = Tool("web_search", None, None, '{"type":"web_search","search_context_size":"low"}')
    request = responses(piece("system", Tools((hosted, Tool("alarm"))), 1), user())
    schema = {"type": "object", "properties": {}}
    assert value_of(request)["tools"] == [
        {"type": "function", "name": "alarm", "strict": False, "parameters": schema},
        {"type": "web_search", "search_context_size": "low"},
    ]


def test_a_custom_call_and_its_output_are_custom() -> None:
    tools = piece("system", Tools((Tool("patch", "Patches.", None, '{"type":"custom"}'),)), 1)
    request = responses(tools, user(), called(name="patch", kind="custom", input_="*** Begin"), answered())
    assert kinds(request) == ["message", "custom_tool_call", "custom_tool_call_output"]


def test_a_call_of_a_tool_that_the_provider_defined_is_a_functions() -> None:
    tools = piece("system", Tools((Tool("shell", None, None, '{"type":"shell"}'),)), 1)
    request = responses(tools, user(), called(name="shell"), answered())
    assert [tool["type"] for tool in value_of(request)["tools"]] == ["shell", "function"]
    assert "X7" in rules(request)


def test_state_and_controls_that_do_not_fit_are_left_out_in_sight() -> None:
    asked = Options(extra={"conversation": "conv_1", "prompt_cache_options": {"mode": "explicit"}, "top_p": 1.0})
    request = responses(user(), options=asked)
    assert {"R5", "O13", "A31"} <= set(rules(request))
    newer = responses(user(), profile="gpt-5.6", options=Options(extra={"prompt_cache_retention": "24h"}))
    assert "prompt_cache_retention" not in value_of(newer)


def test_an_effort_is_spelled_for_the_format() -> None:
    effort = Options(thinking={"effort": "high"})
    assert value_of(responses(user(), options=effort))["reasoning"] == {"effort": "high"}
    assert value_of(build(user(), options=effort))["reasoning_effort"] == "high"
    switch = Options(thinking={"type": "enabled"})
    dialect = encoded([user()], "deepseek-v4", CHAT, ATTACHMENTS, switch)
    assert value_of(dialect)["thinking"] == {"type": "enabled"}
    assert "O12" in rules(build(user(), options=switch))
