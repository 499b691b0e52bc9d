"""anthropic@1: what it makes is accepted, and every mending is in sight."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convlog.projections.stages.pieces_v1 import (
    SUMMARY,
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
from convlog.projections.stages.target_v1 import MissingAttachment, Options

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

PROFILES = ("claude-haiku-4-5", "claude-opus-4-6", "claude-opus-5", "claude-sonnet-4-6")
SONNET, OPUS_5, HAIKU = "claude-sonnet-4-6", "claude-opus-5", "claude-haiku-4-5"
THINKING: list[dict[str, Any] | None] = [
    None,
    {"type": "adaptive"},
    {"type": "enabled", "budget_tokens": 2048},
    {"type": "enabled", "budget_tokens": 10},
    {"type": "disabled"},
]


def build(*pieces: Piece, profile: str = SONNET, options: Options | None = None) -> Request:
    request = encoded(pieces, profile, "anthropic", ATTACHMENTS, options)
    assert refusals(request, profile_for(profile, "anthropic")) == []
    return request


def messages(request: Request) -> Any:
    return value_of(request)["messages"]


def piece(
    role: str, element: Any, source: int = 0, group: str = "", provenance: str = "verbatim", **more: Any
) -> Piece:
    return Piece(provenance, role, element, (source,) if source else (), group, **more)


def user(text: str = "Is it wet?", source: int = 0) -> Piece:
    return piece("user", Text(text), source)


def called(node: int = 1, id_: str = "call_1", name: str = "read_gauge", input_: str = "{}", group: str = "g") -> Piece:
    return piece("assistant", Call(id_, node, name, input_), node, group)


def answered(node: int = 1, text: str = "12 mm", status: str = "ok", group: str = "g") -> Piece:
    return piece("tool", Result(f"call_{node}", node, status, (Text(text),)), node + 100, group)


def thought(profile: str = SONNET, group: str = "g", **fields: Any) -> Piece:
    made: dict[str, Any] = {"provider": "anthropic", "model": profile, "signature": "c2ln"}
    return piece("assistant", Reasoning("Hm.", **{**made, **fields}), 50, group)


options = st.builds(
    Options,
    max_tokens=st.sampled_from([None, 512, 4096]),
    tool_choice=st.sampled_from([None, "auto", "any", "none", "read_gauge", "unknown"]),
    parallel_tools=st.sampled_from([None, True, False]),
    thinking=st.sampled_from(THINKING),
    cache=st.booleans(),
    extra=st.sampled_from([None, {"cache_control": {"type": "ephemeral", "ttl": "1h"}}, {"stop_sequences": ["\n\n"]}]),
)


@pytest.mark.oracle
@pytest.mark.parametrize("profile", PROFILES)
@few(60)
@given(data=st.data())
def test_no_prompt_is_refused_and_its_bytes_repeat(profile: str, data: st.DataObject) -> None:
    assert_accepted(profile, data)


@pytest.mark.long
@pytest.mark.oracle
@pytest.mark.parametrize("profile", PROFILES)
@many(2_500)
@given(data=st.data())
def test_no_prompt_of_many_is_refused(profile: str, data: st.DataObject) -> None:
    assert_accepted(profile, data)


def assert_accepted(profile: str, data: st.DataObject) -> None:
    pieces, asked = data.draw(prompts(target_for(profile))), data.draw(options)
    request = encoded(pieces, profile, "anthropic", ATTACHMENTS, asked)
    assert refusals(request, profile_for(profile, "anthropic")) == []
    assert body(encoded(pieces, profile, "anthropic", ATTACHMENTS, asked)) == body(request)
    assert_pointers(request)


@pytest.mark.parametrize("profile", PROFILES)
@few(40)
@given(data=st.data())
def test_an_earlier_requests_blocks_begin_the_next_one(profile: str, data: st.DataObject) -> None:
    pieces = data.draw(prompts(target_for(profile)))
    later = encoded(pieces, profile, "anthropic", ATTACHMENTS)
    for cut in cuts(pieces):
        assert_prefix(encoded(pieces[:cut], profile, "anthropic", ATTACHMENTS), later, pieces[:cut])


# --- calls and results ---


def test_results_of_a_batch_stand_first_in_call_order() -> None:
    request = build(user(), called(1), called(2, "call_2"), answered(2, "9 mm"), answered(1), user("And now?"))
    found = messages(request)[2]["content"]
    assert [block.get("tool_use_id") for block in found] == ["call_1", "call_2", None]


def test_a_call_without_a_result_gets_an_error_in_its_place() -> None:
    request = build(user(), called(1), user("Go on."))
    assert messages(request)[2]["content"][0]["is_error"] is True
    assert "X1" in rules(request)


def test_an_id_that_does_not_fit_is_hashed_alike_on_call_and_result() -> None:
    request = build(user(), called(1, "functions.read:0"), answered(1))
    use, result = messages(request)[1]["content"][0], messages(request)[2]["content"][0]
    assert use["id"] == result["tool_use_id"]
    assert use["id"].startswith("call_")


def test_input_goes_out_as_the_model_spelled_it() -> None:
    request = build(user(), called(1, input_='{"b": 1.50, "a":2}'), answered(1))
    assert b'"input":{"b": 1.50, "a":2}' in body(request)


@pytest.mark.parametrize(("spelled", "sent"), [('{"a":', {"text": '{"a":'}), ("[1]", {"value": [1]})])
def test_input_that_is_no_object_is_mended_in_sight(spelled: str, sent: dict[str, Any]) -> None:
    request = build(user(), called(1, input_=spelled), answered(1))
    assert messages(request)[1]["content"][0]["input"] == sent
    assert "A15" in rules(request)


def test_a_tool_that_was_called_stays_declared() -> None:
    request = build(user(), called(1), answered(1))
    assert [tool["name"] for tool in value_of(request)["tools"]] == ["read_gauge"]


# --- reasoning ---


def test_own_thinking_goes_back_and_another_models_does_not() -> None:
    asked = Options(thinking={"type": "adaptive"})
    own = build(user(), thought(), called(), answered(), options=asked)
    other = build(user(), thought(model="claude-opus-5"), called(), answered(), options=asked)
    assert messages(own)[1]["content"][0] == {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    assert [block["type"] for block in messages(other)[1]["content"]] == ["tool_use"]
    assert "X3" in rules(other)


def test_a_dated_model_name_is_the_same_model() -> None:
    asked = Options(thinking={"type": "adaptive"})
    request = build(user(), thought(model=f"{SONNET}-20260115"), called(), answered(), options=asked)
    assert messages(request)[1]["content"][0]["type"] == "thinking"


def test_thinking_behind_other_content_is_left_out() -> None:
    asked = Options(thinking={"type": "adaptive"})
    request = build(
        user(), piece("assistant", Text("Reading."), 2, "g"), thought(), called(), answered(), options=asked
    )
    assert [block["type"] for block in messages(request)[1]["content"]] == ["text", "tool_use"]
    assert "A18" in rules(request)


def test_an_open_loop_without_thinking_turns_manual_thinking_off() -> None:
    asked = Options(thinking={"type": "enabled", "budget_tokens": 2048})
    request = build(user(), called(), answered(), options=asked)
    assert value_of(request)["thinking"] == {"type": "disabled"}
    assert "A17" in rules(request)


@pytest.mark.parametrize(
    ("profile", "asked", "sent"),
    [
        (OPUS_5, {"type": "enabled", "budget_tokens": 2048}, {"type": "adaptive"}),
        (HAIKU, {"type": "adaptive"}, {"type": "enabled", "budget_tokens": 2048}),
        (SONNET, {"type": "enabled", "budget_tokens": 9000}, {"type": "enabled", "budget_tokens": 4095}),
        (SONNET, {"type": "enabled", "budget_tokens": 1}, {"type": "enabled", "budget_tokens": 1024}),
    ],
)
def test_thinking_is_fitted_to_the_model(profile: str, asked: dict[str, Any], sent: dict[str, Any]) -> None:
    request = build(user(), profile=profile, options=Options(max_tokens=4096, thinking=asked))
    assert value_of(request)["thinking"] == sent
    assert request.repairs


def test_no_choice_is_forced_while_the_model_thinks() -> None:
    tools = piece("system", Tools((Tool("read_gauge"),)), 1)
    request = build(tools, user(), options=Options(tool_choice="any", thinking={"type": "adaptive"}))
    assert value_of(request)["tool_choice"] == {"type": "auto"}
    assert "A33" in rules(request)


def test_sampling_is_left_out_where_it_is_refused() -> None:
    request = build(user(), profile=OPUS_5, options=Options(extra={"temperature": 0.5}))
    assert "temperature" not in value_of(request)
    assert "A31" in rules(request)


# --- system text ---


def system(text: str = "Be brief.", source: int = 9) -> Piece:
    return piece("system", Text(text), source)


def test_system_text_during_the_talk_has_its_own_message_where_the_model_takes_it() -> None:
    request = build(user(), system(), piece("assistant", Text("Yes."), 10, "g"), user("Why?", 11), profile=OPUS_5)
    assert [message["role"] for message in messages(request)] == ["user", "system", "assistant", "user"]


def test_system_text_in_front_of_the_user_is_said_by_the_user() -> None:
    request = build(user(), system(), user("Why?", 11), profile=OPUS_5)
    assert [message["role"] for message in messages(request)] == ["user"]
    assert "<system>\nBe brief.\n</system>" in json.dumps(messages(request)).replace("\\n", "\n")
    assert "A25" in rules(request)


def test_other_models_are_told_by_a_block_of_the_user() -> None:
    request = build(user(), system())
    assert messages(request)[0]["content"][1]["text"] == "<system>\nBe brief.\n</system>"


def test_system_text_before_everything_is_the_system_field() -> None:
    request = build(system(), user())
    assert value_of(request)["system"][0]["text"] == "Be brief."


# --- the provider's own parts ---


def own(kind: str, key: str = "1") -> Any:
    return own_opaque("anthropic", kind, key)


def test_a_servers_call_and_result_go_back_as_they_were() -> None:
    use = Call(
        "srvtoolu_1", 5, "web_search", "{}", kind="server", opaque=own("server"), provider="anthropic", model=SONNET
    )
    back = Result("srvtoolu_1", 5, "ok", (Foreign(own("server result"), "anthropic", SONNET),), server=True)
    request = build(user(), piece("assistant", use, 5, "g"), piece("assistant", back, 6, "g"), user("And?"))
    assert messages(request)[1]["content"] == [json.loads(own("server")), json.loads(own("server result"))]
    assert request.repairs == tuple(repair for repair in request.repairs if repair.rule.startswith("X7"))


def test_a_servers_call_without_its_result_is_left_out_unless_it_pauses() -> None:
    use = Call(
        "srvtoolu_1", 5, "web_search", "{}", kind="server", opaque=own("server"), provider="anthropic", model=SONNET
    )
    paused = build(user(), piece("assistant", use, 5, "g"))
    broken = build(user(), piece("assistant", use, 5, "g"), user("And?"))
    assert messages(paused)[-1]["role"] == "assistant"
    assert [message["role"] for message in messages(broken)] == ["user"]
    assert "A26" in rules(broken)


def test_a_compaction_begins_the_talk() -> None:
    compaction = '{"type":"compaction","content":"Two gauges read."}'
    element = Foreign(compaction, "anthropic", SONNET)
    request = build(
        user("Old.", 1),
        piece("assistant", Text("Older."), 2, "a"),
        piece("assistant", element, 3, "b"),
        user("New.", 4),
    )
    assert [block["type"] for message in messages(request) for block in message["content"]] == ["compaction", "text"]
    repair = next(repair for repair in request.repairs if repair.rule.startswith("A27"))
    assert repair.sources == (1, 2)


def test_cited_text_goes_back_with_its_citations() -> None:
    cited = '{"type":"text","text":"Rain.","citations":[]}'
    text = Text("Rain.", None, cited, "anthropic", SONNET)
    request = build(user(), piece("assistant", text, 2, "g"), user("Why?"))
    assert messages(request)[1]["content"] == [json.loads(cited)]


# --- the ends ---


@pytest.mark.parametrize(("text", "last"), [("It rains", "assistant"), ("It rains ", "user")])
def test_an_answer_that_was_begun_stays_last_only_where_it_may(text: str, last: str) -> None:
    begun = piece("assistant", Text(text), 2, "g")
    assert messages(build(user(), begun, profile=HAIKU))[-1]["role"] == last
    assert messages(build(user(), begun, profile=SONNET))[-1]["role"] == "user"


def test_a_prompt_without_a_user_begins_with_one() -> None:
    request = build(piece("assistant", Text("Hello."), 2, "g"), user())
    assert messages(request)[0]["role"] == "user"
    assert "A1" in rules(request)


# --- images and documents ---


def test_the_media_type_is_what_the_bytes_say() -> None:
    request = build(piece("user", Image("image/jpeg", "a" * 64), 1))
    assert messages(request)[0]["content"][0]["source"]["media_type"] == "image/png"


@pytest.mark.parametrize("image", [Image("image/png", "b" * 64), Image("image/tiff", "e" * 64), Image()])
def test_an_image_that_is_not_taken_is_named_in_words(image: Image) -> None:
    request = build(piece("user", image, 1))
    assert messages(request)[0]["content"][0]["type"] == "text"
    assert "A30" in rules(request)


def test_of_too_many_images_the_oldest_stay_behind() -> None:
    pieces = [piece("user", Image("image/png", "a" * 64), number) for number in range(1, 104)]
    kinds = [block["type"] for block in messages(build(*pieces))[0]["content"]]
    assert kinds == ["text"] * 3 + ["image"] * 100


def test_a_text_document_goes_out_as_text() -> None:
    request = build(piece("user", Document("text/plain", "d" * 64, title="Gauges"), 1), options=Options(cache=False))
    source = {"type": "text", "media_type": "text/plain", "data": "Gauge list"}
    assert messages(request)[0]["content"] == [{"type": "document", "source": source, "title": "Gauges"}]


def test_a_missing_attachment_is_told() -> None:
    with pytest.raises(MissingAttachment):
        encoded([piece("user", Image("image/png", "f" * 64), 1)], SONNET, "anthropic", ATTACHMENTS)


# --- cache marks ---


def test_marks_stand_on_instructions_the_newest_stable_block_and_the_request_before() -> None:
    tail = piece("user", Text("now"), 30, provenance="context", volatile=True)
    talk = [user("One", 2), piece("assistant", Text("Yes."), 3, "g"), user("Two", 4), tail]
    request = build(system(source=1), *talk)
    assert value_of(request)["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert marked_pointers(request) == ["/messages/0/content/0", "/messages/2/content/0"]


def test_a_summary_is_marked_and_never_more_than_four_marks_are_set() -> None:
    summary = piece("user", Text("<summary>"), 1, provenance=SUMMARY)
    talk = [user("One", 2), piece("assistant", Text("Yes."), 3, "g"), user("Two", 4)]
    request = build(system(source=9), summary, *talk)
    assert marked_pointers(request) == ["/messages/0/content/0", "/messages/0/content/1", "/messages/2/content/0"]


def test_an_automatic_mark_takes_a_place_and_gives_its_lifetime() -> None:
    automatic = {"type": "ephemeral", "ttl": "1h"}
    summary = piece("user", Text("<summary>"), 1, provenance=SUMMARY)
    talk = [user("One", 2), piece("assistant", Text("Yes."), 3, "g"), user("Two", 4)]
    request = build(system(source=9), summary, *talk, options=Options(extra={"cache_control": automatic}))
    assert len(marked_pointers(request)) == 2
    assert value_of(request)["messages"][2]["content"][0]["cache_control"] == automatic


def test_without_cache_nothing_is_marked() -> None:
    assert b"cache_control" not in body(build(system(), user(), options=Options(cache=False)))


# --- tools ---


def test_tools_stand_in_the_order_of_their_names_as_declared() -> None:
    schema = '{"type": "object", "properties": {}}'
    hosted = Tool("web_search", None, None, '{"type":"web_search_20250305","name":"web_search","max_uses":3}')
    strict = Tool("alarm", "Rings.", schema, '{"strict":true,"cache_control":{"type":"ephemeral"}}')
    request = build(piece("system", Tools((hosted, strict)), 1), user(), options=Options(cache=False))
    assert b'"input_schema":{"type": "object", "properties": {}}' in body(request)
    assert value_of(request)["tools"] == [
        {"name": "alarm", "description": "Rings.", "input_schema": json.loads(schema), "strict": True},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
    ]


def test_another_providers_own_tool_is_left_out() -> None:
    foreign = Tool("search", None, None, '{"type":"file_search"}')
    request = build(piece("system", Tools((foreign,)), 1), user())
    assert "tools" not in value_of(request)
    assert request.repairs
