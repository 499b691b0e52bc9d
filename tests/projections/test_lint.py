"""The linter: clean on valid requests, one hand-made breach for every rule that a request can show."""

from __future__ import annotations

import base64
import copy
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convlog.projections.lint import RULES, UNCHECKABLE, Finding, lint
from convlog.projections.lint.images import read_header
from convlog.projections.profiles import Profile, load_profile

from .examples import DROP, EXAMPLES, FUNCTION_ARGUMENTS, SCHEMA, TARGETS, changed, resolve


class Case(NamedTuple):
    """An example with changes, for the example's own target unless another is given."""

    format: str
    changes: dict[str, Any]
    profile_id: str
    tuning: dict[str, Any]
    """Fields of the profile to replace, where no bundled one has the limit."""

    @property
    def request(self) -> dict[str, Any]:
        return changed(EXAMPLES[self.format], self.changes)

    @property
    def profile(self) -> Profile:
        profile = load_profile(self.profile_id or TARGETS[self.format]).in_format(self.format)
        return msgspec.structs.replace(profile, **self.tuning)

    def findings(self) -> list[Finding]:
        return lint(self.request, self.profile)


def anthropic(changes: dict[str, Any], profile_id: str = "", **tuning: Any) -> Case:
    return Case("anthropic", changes, profile_id, tuning)


def chat(changes: dict[str, Any], profile_id: str = "", **tuning: Any) -> Case:
    return Case("openai-chat", changes, profile_id, tuning)


def responses(changes: dict[str, Any], profile_id: str = "") -> Case:
    return Case("openai-responses", changes, profile_id, {})


def gemini(changes: dict[str, Any], **tuning: Any) -> Case:
    return Case("gemini", changes, "", tuning)


def bedrock(changes: dict[str, Any], **tuning: Any) -> Case:
    return Case("bedrock", changes, "", tuning)


MARK = {"type": "ephemeral"}
WORD = {"type": "text", "text": "A word."}
THOUGHT = {"type": "thinking", "thinking": "", "signature": "c2lnbmF0dXJl"}
MANUAL = {"type": "enabled", "budget_tokens": 1024}
USER = {"role": "user", "content": "And now?"}
ANSWER = {"role": "assistant", "content": "It rains."}
COMPACTION = {"type": "compaction", "content": "So far: two gauges read."}
SERVER_USE = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rain"}}
SIGNED_ANSWER = {"role": "model", "parts": [{"text": "It rains."}, {"text": "", "thoughtSignature": "b3RoZXIx"}]}
QUESTION = {"role": "user", "parts": [{"text": "And now?"}]}
SERVER_RESULT = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


def png(width: int, height: int, *, media_type: str = "image/png") -> dict[str, Any]:
    head = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": media_type, "data": base64.b64encode(head).decode()},
    }


def chat_without(*fields: str) -> dict[str, Any]:
    """Changes that take OpenAI's own fields and roles away, for the dialects."""
    return {"/messages/0/role": "system", "/prompt_cache_key": DROP, **{f"/{field}": DROP for field in fields}}


def mistral(changes: dict[str, Any]) -> Case:
    ids = {
        "/messages/2/tool_calls/0/id": "calln0001",
        "/messages/2/tool_calls/1/id": "calls0001",
        "/messages/3/tool_call_id": "calln0001",
        "/messages/4/tool_call_id": "calls0001",
    }
    return chat({**chat_without(), **ids, **changes}, "mistral")


BREACHES: list[tuple[str, Case]] = [
    # every format
    ("X1", anthropic({"/messages/2/content/1": DROP})),
    ("X1", chat({"/messages/4": DROP})),
    ("X1", responses({"/input/5": DROP})),
    ("X1", gemini({"/contents/2/parts/1": DROP})),
    ("X1", bedrock({"/messages/2/content/-": {"toolResult": {"toolUseId": "call_n1", "content": [{"text": "9 mm"}]}}})),
    ("X2", anthropic({"/messages/1/content/2/id": "Bash:0", "/messages/2/content/0/tool_use_id": "Bash:0"})),
    ("X2", bedrock({"/messages/1/content/1/toolUse/toolUseId": "a.b"})),
    ("X2", mistral({"/messages/2/tool_calls/0/id": "call_n001"})),
    ("X2", gemini({"/contents/1/parts/1/functionCall/id": "call_n1"})),
    ("X4", anthropic({"/messages/0/content": []})),
    ("X4", chat({"/messages/2/content": " \n"})),
    ("X4", responses({"/input/6/content": ""})),
    ("X4", bedrock({"/messages/2/content/0/toolResult/content/0/text": ""})),
    ("X5", anthropic({"/messages/0": DROP})),
    ("X5", chat({"/messages/-": ANSWER})),
    ("X5", responses({"/input/7": DROP})),
    ("X5", gemini({"/contents/0": DROP})),
    ("X6", chat({"/messages/3/content": "half \ud83d of a pair"})),
    ("X6", bedrock({"/inferenceConfig/temperature": float("nan")})),
    ("X6", gemini({"/contents/1/parts/0/functionCall/args/\ud83d": 1})),
    ("X7", responses({"/tools/-": {"type": "function", "name": "alarm", "strict": False, "parameters": SCHEMA}})),
    ("X7", chat({"/tools": DROP})),
    # Anthropic
    ("A1", anthropic({"/messages": []})),
    ("A1", anthropic({"/messages/0": DROP})),
    ("A2", anthropic({"/messages/-": USER})),
    ("A3", anthropic({"/messages/-": ANSWER})),
    ("A4", anthropic({"/messages/-": {"role": "assistant", "content": "It "}}, "claude-haiku-4-5")),
    ("A4", anthropic({"/messages/-": ANSWER, "/thinking": MANUAL, "/max_tokens": 2048}, "claude-haiku-4-5")),
    ("A5", anthropic({"/messages/0/content": ""})),
    ("A6", anthropic({"/system/0/text": " "})),
    ("A6", anthropic({"/messages/2/content/1/content/0/text": ""})),
    ("A7", anthropic({"/messages/2/content/2/text": ""})),
    ("A8", anthropic({"/messages/2/content/1": DROP})),
    ("A8", anthropic({"/messages/2": DROP})),
    ("A8", anthropic({"/messages/0/content/-": {"type": "tool_use", "id": "c", "name": "read_gauge", "input": {}}})),
    ("A9", anthropic({"/messages/2/content/1/tool_use_id": "call_x"})),
    ("A9", anthropic({"/messages/1/content/-": {"type": "tool_result", "tool_use_id": "call_n1", "content": "1"}})),
    ("A10", anthropic({"/messages/2/content": [WORD, *EXAMPLES["anthropic"]["messages"][2]["content"]]})),
    ("A11", anthropic({"/messages/1/content/3/id": "call_n1"})),
    ("A11", anthropic({"/messages/2/content/1/tool_use_id": "call_n1"})),
    ("A12", anthropic({"/messages/1/content/2/id": "call.n1"})),
    ("A12", anthropic({"/messages/1/content/1": {**SERVER_USE, "id": "toolu_1"}})),
    ("A13", anthropic({"/tools/0/name": "read gauge"})),
    ("A13", anthropic({"/messages/1/content/2/name": "n" * 201})),
    ("A14", anthropic({"/tools/-": {"name": "read_gauge", "input_schema": SCHEMA}})),
    ("A15", anthropic({"/messages/1/content/2/input": FUNCTION_ARGUMENTS["north"]})),
    ("A16", anthropic({"/messages/1/content/0/signature": ""})),
    ("A16", anthropic({"/messages/1/content/0": {"type": "redacted_thinking"}})),
    ("A16", anthropic({"/messages/0/content/-": THOUGHT})),
    ("A17", anthropic({"/thinking": MANUAL, "/max_tokens": 2048, "/messages/1/content/0": DROP})),
    ("A18", anthropic({"/messages/1/content/0": WORD, "/messages/1/content/1": THOUGHT})),
    ("A19", anthropic({"/thinking": {"type": "disabled"}})),
    ("A19", anthropic({"/messages/-": {"role": "assistant", "content": [THOUGHT, WORD]}}, "claude-haiku-4-5")),
    ("A21", anthropic({"/messages/1/content/0/cache_control": MARK})),
    ("A22", anthropic({f"/messages/1/content/{index}/cache_control": MARK for index in (1, 2, 3)})),
    (
        "A22",
        anthropic({**{f"/messages/1/content/{index}/cache_control": MARK for index in (1, 2)}, "/cache_control": MARK}),
    ),
    ("A23", anthropic({"/messages/2/content/2/cache_control/ttl": "1h"})),
    ("A23", anthropic({"/messages/2/content/1/content/0/cache_control": {**MARK, "ttl": "1h"}})),
    ("A24", anthropic({"/cache_control": {**MARK, "ttl": "1h"}})),
    ("A25", anthropic({"/messages/-": {"role": "system", "content": "Be brief."}})),
    ("A25", anthropic({"/messages/0": {"role": "system", "content": "Be brief."}}, "claude-opus-5")),
    ("A25", anthropic({"/messages/-": {"role": "system", "content": [png(1, 1)]}}, "claude-opus-5")),
    (
        "A25",
        anthropic({"/messages/1": {"role": "system", "content": "Be brief."}, "/messages/2": USER}, "claude-opus-5"),
    ),
    ("A26", anthropic({"/messages/1/content/1": SERVER_RESULT})),
    ("A26", anthropic({"/messages/1/content/1": SERVER_USE})),
    ("A26", anthropic({"/messages/0/content/-": SERVER_RESULT})),
    ("A27", anthropic({"/messages/1/content/1": COMPACTION})),
    ("A27", anthropic({"/messages/0/content": [COMPACTION, COMPACTION, WORD]})),
    ("A27", anthropic({"/messages/0/content": [{**COMPACTION, "content": ""}, WORD]})),
    ("A27", anthropic({"/messages/0/content": [COMPACTION], "/messages/-": ANSWER}, "claude-haiku-4-5")),
    ("A28", anthropic({"/messages/2/content/0/content": "half \udc00 of a pair"})),
    ("A28", anthropic({"/messages/1/content/2/input/level": float("inf")})),
    ("A29", anthropic({}, body_bytes_max=1000)),
    ("A29", anthropic({"/messages": [{"role": "user", "content": "x"}] * 100_001})),
    ("A30", anthropic({"/messages/0/content/-": png(10, 10, media_type="image/jpeg")})),
    ("A30", anthropic({"/messages/0/content/-": png(10, 10, media_type="image/bmp")})),
    ("A30", anthropic({"/messages/0/content/-": png(8001, 10)})),
    ("A30", anthropic({"/messages/0/content": [WORD, *[png(2001, 10)] * 21]})),
    ("A30", anthropic({"/messages/0/content": [png(10, 10)] * 101})),
    ("A30", anthropic({"/messages/2/content/1/content/-": png(10, 10)}, images=None)),
    ("A31", anthropic({"/temperature": 0.5}, "claude-opus-5")),
    ("A31", anthropic({"/thinking": MANUAL, "/max_tokens": 2048}, "claude-opus-5")),
    ("A31", anthropic({"/thinking": {"type": "adaptive"}}, "claude-haiku-4-5")),
    ("A32", anthropic({"/thinking": {**MANUAL, "budget_tokens": 1023}})),
    ("A32", anthropic({"/thinking": {**MANUAL, "budget_tokens": 1024}})),
    ("A33", anthropic({"/thinking": {"type": "adaptive"}, "/tool_choice": {"type": "any"}})),
    ("A33", anthropic({"/tool_choice": {"type": "tool", "name": "read_gauge"}}, "claude-opus-5")),
    ("A34", anthropic({"/tools": DROP})),
    # OpenAI Chat
    ("O1", chat({"/messages/4": DROP})),
    ("O1", chat({"/messages/4/tool_call_id": "call_n1"})),
    ("O1", chat({"/messages/3": USER, "/messages/5": {"role": "tool", "tool_call_id": "call_n1", "content": "12 mm"}})),
    ("O2", chat({"/messages/4/tool_call_id": "call_x"})),
    ("O3", chat({"/messages/2/tool_calls": [EXAMPLES["openai-chat"]["messages"][2]["tool_calls"][0]] * 129})),
    ("O3", chat({"/tools": EXAMPLES["openai-chat"]["tools"] * 129})),
    ("O4", chat({"/messages/2/tool_calls": DROP, "/messages/2/content": None})),
    ("O4", chat({"/messages/2/content": []})),
    ("O5", chat({"/messages/2/tool_calls/0/function/arguments": {}})),
    ("O5", chat({"/messages/2/tool_calls/0/function/arguments": ""})),
    ("O6", chat({"/messages/2/tool_calls/0/id": "n" * 65})),
    ("O6", chat({"/messages/3/tool_call_id": ""})),
    ("O7", chat({"/tools/0/function/name": "gauge.read"})),
    ("O7", chat({"/messages/2/tool_calls/0/function/name": "n" * 65})),
    ("O8", chat({"/messages/3/content": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]})),
    ("O9", chat({"/messages/2/content": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]})),
    ("O10", chat({}, tool_description_chars_max=10)),
    ("O11", chat({"/messages/5/content": "x" * 10_485_761})),
    ("O11", chat({"/messages/1/content/1/image_url/url": "data:image/png;base64," + "A" * 20_971_520})),
    ("O12", chat({"/messages/2/reasoning_content": "Two readings are needed."})),
    ("O12", chat({"/messages/5/id": "msg_1"})),
    ("O12", chat({}, "deepseek-chat")),
    ("O13", chat({"/prompt_cache_options": {"mode": "explicit"}})),
    ("O13", responses({"/input/0/content/0/prompt_cache_breakpoint": {"mode": "explicit"}})),
    ("O13", chat({"/prompt_cache_options": {"mode": "explicit"}, "/prompt_cache_retention": "24h"}, "gpt-5.6")),
    ("O14", chat(chat_without(), "deepseek-v4")),
    ("O14", chat({**chat_without(), "/messages/2/reasoning_content": ""}, "kimi-k2.5")),
    ("O15", mistral({"/messages/2/tool_calls/0/id": "call_n001"})),
    ("O15", mistral({"/messages/3/tool_call_id": "calln1"})),
    ("O15", mistral({"/messages/-": {"role": "assistant", "content": ""}})),
    ("O15", mistral({"/messages/-": {"role": "system", "content": "Be brief."}})),
    ("O16", chat({"/messages/2/tool_calls/1/id": "call_n1"})),
    # OpenAI Responses
    ("R1", responses({"/input/4/call_id": "call_x"})),
    ("R2", responses({"/input/4": DROP})),
    ("R3", responses({"/input/-": {"type": "reasoning", "id": "rs_b", "summary": [], "encrypted_content": "b3A="}})),
    ("R3", responses({"/input/2": USER, "/input/3": USER})),
    ("R4", responses({"/input/1": USER, "/input/2/id": "fc_1"})),
    ("R5", responses({"/store": True})),
    ("R5", responses({"/include": DROP})),
    ("R5", responses({"/previous_response_id": "resp_1"})),
    ("R5", responses({"/input/6": {"type": "item_reference", "id": "msg_1"}})),
    ("R5", responses({"/input/1/encrypted_content": DROP})),
    ("R6", responses({"/input/2/id": "call_n1"})),
    ("R6", responses({"/input/1/id": "reasoning-1"})),
    ("R7", responses({"/input/2/call_id": "n" * 65})),
    ("R7", responses({"/input/5/call_id": ""})),
    ("R8", responses({"/input/2/id": "fc_1", "/input/3/id": "fc_1"})),
    ("R9", responses({"/input/0/content/0/type": "output_text"})),
    ("R9", responses({"/input/6/content": [{"type": "input_text", "text": "North has 12 mm."}]})),
    ("R10", responses({"/input/1/summary": DROP})),
    ("R12", responses({"/input/2/arguments": {}})),
    ("R12", responses({"/input/4/output": {"level": 12}})),
    ("R12", responses({"/input/4/output": [{"type": "output_text", "text": "12 mm"}]})),
    ("R12", responses({"/input/4/output": "x" * 10_485_761})),
    ("R13", responses({"/input/6/id": "msg_1"})),
    ("R13", responses({"/input/6/content": [{"type": "output_text", "text": "North has 12 mm.", "annotations": []}]})),
    ("R13", responses({"/input/6/content": [{"type": "output_text", "text": "North has 12 mm."}]})),
    ("R14", responses({"/tools/0/strict": DROP})),
    ("R14", responses({"/tools/0/name": "gauge.read"})),
    # Gemini
    ("G1", gemini({"/contents": []})),
    ("G1", gemini({"/contents/1/role": "assistant"})),
    ("G2", gemini({"/contents/0/parts": []})),
    ("G2", gemini({"/contents/1/parts/0/text": "Reading."})),
    ("G2", gemini({"/contents/1/parts/-": {"thoughtSignature": "c2lnbmF0dXJl"}})),
    ("G3", gemini({"/contents/0/parts/0/text": ""})),
    ("G4", gemini({"/contents/2/parts/1": DROP})),
    ("G4", gemini({"/contents/2": DROP})),
    ("G5", gemini({"/contents/0": DROP})),
    ("G5", gemini({"/contents/0/role": "model"})),
    ("G6", gemini({"/contents/1/parts": [{"text": "Reading."}]})),
    ("G6", gemini({"/contents/2/parts/-": {"text": "Use what you have."}})),
    ("G7", gemini({"/contents/-": {"role": "model", "parts": [{"text": "It rains."}]}})),
    ("G8", gemini({"/contents/-": {"role": "user", "parts": [{"text": "And now?"}]}})),
    ("G9", gemini({"/contents/1/parts/0/thoughtSignature": DROP})),
    ("G9", gemini({"/contents/1/parts/1/thoughtSignature": "b3RoZXIx"})),
    ("G10", gemini({"/contents/1/parts/0/thoughtSignature": "no base64!"})),
    ("G10", gemini({"/contents/0/parts/0/thoughtSignature": "b3RoZXIx"})),
    ("G10", gemini({"/contents/1/parts/1/thoughtSignature": "c2lnbmF0dXJl"})),
    ("G11", gemini({"/contents/1/parts/1/thoughtSignature": "skip_thought_signature_validator"})),
    ("G12", gemini({"/contents/1/parts/0/functionCall/args": "{}"})),
    ("G12", gemini({"/contents/2/parts/0/functionResponse/response": "12 mm"})),
    ("G12", gemini({"/contents/2/parts/0/functionResponse/name": "read"})),
    ("G12", gemini({"/contents/2/parts/0/functionResponse/id": DROP})),
    ("G13", gemini({"/tools/0/functionDeclarations/0/name": "9gauge"})),
    ("G13", gemini({"/contents/1/parts/0/functionCall/name": "read gauge"})),
    ("G14", gemini({"/cachedContent": "cachedContents/1"})),
    ("G15", gemini({"/generationConfig/max_output_tokens": 1024})),
    ("G15", gemini({"/toolConfig/functionCallingConfig/mode": "auto"})),
    ("G15", gemini({"/tools/0/functionDeclarations/0/parameters": {"type": "object", "properties": {}}})),
    ("G16", gemini({}, body_bytes_max=500)),
    # Bedrock
    ("B1", bedrock({"/toolConfig": DROP})),
    ("B2", bedrock({"/messages/2/content/-": {"toolResult": {"toolUseId": "call_x", "content": [{"text": "9 mm"}]}}})),
    ("B2", bedrock({"/messages/1/content/-": EXAMPLES["bedrock"]["messages"][1]["content"][1]})),
    ("B3", bedrock({"/messages/1/content/1/toolUse/toolUseId": "call n1"})),
    ("B3", bedrock({"/messages/2/content/0/toolResult/toolUseId": "n" * 65})),
    ("B3", bedrock({"/toolConfig/tools/0/toolSpec/name": "gauge.read"})),
    ("B4", bedrock({"/messages/0/content/0/image": {}})),
    ("B5", bedrock({"/messages/2/content/0/toolResult/content/-": {"cachePoint": {"type": "default"}}})),
    ("B5", bedrock({"/messages/0/content/0/cachePoint": {"type": "default"}})),
    ("B6", bedrock({"/messages/1/content/0/text": " "})),
    ("B6", bedrock({"/messages/2/content/0/toolResult": {"toolUseId": "call_n1", "content": [], "status": "error"}})),
    ("B7", bedrock({"/messages/2/content/-": {"text": "Use what you have."}}, results_alone=True)),
    ("B8", bedrock({"/messages/0": DROP})),
    ("B8", bedrock({"/messages/-": {"role": "user", "content": [{"text": "And now?"}]}})),
    ("B9", bedrock({"/messages/0/content/-": {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}})),
    ("B9", bedrock({"/messages/1/content/-": {"reasoningContent": {"redactedContent": "no base64!"}}})),
]

VALID: dict[str, Case] = {
    **{wire_format: Case(wire_format, {}, "", {}) for wire_format in EXAMPLES},
    "a prefilled answer": anthropic({"/messages/-": ANSWER}, "claude-haiku-4-5"),
    "an answer that paused in a server tool": anthropic(
        {"/messages/-": {"role": "assistant", "content": [SERVER_USE]}}
    ),
    "a server tool answered in place": anthropic(
        {"/messages/1/content/1": SERVER_USE, "/messages/1/content/-": SERVER_RESULT}
    ),
    "code on the server that waits for a client tool": anthropic(
        {
            "/messages/1/content/0": SERVER_USE,
            "/messages/1/content/2/caller": {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"},
            "/messages/-": {"role": "assistant", "content": [SERVER_RESULT, WORD]},
            "/messages/2/content/2": DROP,
        },
        "claude-haiku-4-5",
    ),
    "instructions at the end": anthropic({"/messages/-": {"role": "system", "content": "Be brief."}}, "claude-opus-5"),
    "compaction at the start": anthropic(
        {"/messages/0": {"role": "assistant", "content": [COMPACTION]}, "/messages/1": USER, "/messages/2": DROP}
    ),
    "a compaction that failed": anthropic({"/messages/0/content/-": {"type": "compaction", "content": None}}),
    "marks of 1h before marks of 5m": anthropic({"/system/0/cache_control/ttl": "1h", "/cache_control": MARK}),
    "manual thinking in an open loop": anthropic({"/thinking": MANUAL, "/max_tokens": 2048}),
    "a forced choice without thinking": anthropic({"/tool_choice": {"type": "any"}}),
    "twenty-one small images": anthropic({"/messages/0/content": [png(2000, 2000)] * 21}),
    "an empty output": anthropic({"/messages/2/content/0/content": ""}),
    "an empty output in chat": chat({"/messages/3/content": ""}),
    "calls without text": chat({"/messages/2/content": None}),
    "breakpoints": chat({"/prompt_cache_options": {"mode": "explicit"}}, "gpt-5.6"),
    "a blank in place of reasoning": chat({**chat_without(), "/messages/2/reasoning_content": " "}, "kimi-k2.5"),
    "nine characters": mistral({}),
    "one text as input": responses({"/input": "Compare north and south."}),
    "items with their reasoning": responses({"/input/2/id": "fc_1", "/input/3/id": "fc_2"}),
    "a signature on an empty text": gemini({"/contents": [*EXAMPLES["gemini"]["contents"], SIGNED_ANSWER, QUESTION]}),
    "calls without ids": gemini(
        {
            "/contents/1/parts/0/functionCall/id": DROP,
            "/contents/1/parts/1/functionCall/id": DROP,
            "/contents/2/parts/0/functionResponse/id": DROP,
            "/contents/2/parts/1/functionResponse/id": DROP,
        }
    ),
    "the sentinel on a foreign call": gemini(
        {"/contents/1/parts/0/thoughtSignature": "skip_thought_signature_validator"}
    ),
    "results beside text": bedrock({"/messages/2/content/-": {"text": "Use what you have."}}),
}


def test_every_rule_is_checked_or_says_why_not() -> None:
    assert set(UNCHECKABLE) < set(RULES)
    assert {rule for rule, _case in BREACHES} == set(RULES) - set(UNCHECKABLE)


def test_rules_are_numbered_without_gaps() -> None:
    last = {"X": 9, "A": 34, "O": 16, "R": 15, "G": 16, "B": 9}
    assert list(RULES) == [f"{letter}{number}" for letter in last for number in range(1, last[letter] + 1)]


@pytest.mark.parametrize("name", VALID)
def test_valid_request_is_clean(name: str) -> None:
    assert VALID[name].findings() == []


@pytest.mark.parametrize(
    ("rule", "case"), BREACHES, ids=[f"{rule}-{index}" for index, (rule, _) in enumerate(BREACHES)]
)
def test_breach_is_found(rule: str, case: Case) -> None:
    request = case.request
    findings = lint(request, case.profile)
    assert rule in {finding.rule for finding in findings}
    for finding in findings:
        resolve(request, finding.pointer)
        assert finding.message.isprintable()


def test_finding_points_at_the_breach() -> None:
    [finding] = [found for found in anthropic({"/tools/0/name": "read gauge"}).findings() if found.rule == "A13"]
    assert finding.pointer == "/tools/0"
    [finding] = chat({"/metadata": {"a/b~c": "\ud800"}}).findings()
    assert finding == ("X6", "/metadata/a~1b~0c", "half of a surrogate pair")


@pytest.mark.parametrize("wire_format", EXAMPLES)
def test_a_request_is_not_changed_by_looking(wire_format: str) -> None:
    request = copy.deepcopy(EXAMPLES[wire_format])
    lint(request, load_profile(TARGETS[wire_format]).in_format(wire_format))
    assert request == EXAMPLES[wire_format]


IMAGES = {
    "image/png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\x02\0\0\0\x03",
    "image/gif": b"GIF89a\x02\x01\x03\0",
    "image/jpeg": b"\xff\xd8\xff\xe0\0\x04ab\xff\xc4\0\x03c\xff\xc2\0\x11\x08\0\x03\x01\x02",
    "image/webp": b"RIFF\0\0\0\0WEBPVP8X\n\0\0\0\0\0\0\0\x01\x01\0\x02\0\0",
    "image/webp, lossy": b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x02\x01\x03\0",
    "image/webp, lossless": b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + (0x101 | 2 << 14).to_bytes(4, "little"),
}


@pytest.mark.parametrize("kind", IMAGES)
def test_images_say_their_kind_and_size(kind: str) -> None:
    assert read_header(IMAGES[kind]) == (kind.split(",", maxsplit=1)[0], 0x102, 3)


@pytest.mark.parametrize("data", [b"", b"\x89PNG", b"BM\0\0", b"RIFF\0\0\0\0WAVE"])
def test_other_bytes_are_no_known_image(data: bytes) -> None:
    assert read_header(data) is None


def test_a_cut_header_has_no_size() -> None:
    assert read_header(b"\xff\xd8\xff\xe0\0\x04") == ("image/jpeg", 0, 0)


def test_nesting_has_no_bottom() -> None:
    deep: Any = "\ud800"
    for _ in range(100_000):
        deep = [deep]
    findings = anthropic({"/messages/1/content/2/input/deep": deep}).findings()
    assert {finding.rule for finding in findings} == {"X6", "A28"}


def _pointers(value: Any, pointer: str = "") -> list[str]:
    members: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        members = list(value.items())
    elif isinstance(value, list):
        members = list(enumerate(value))
    return [pointer, *(found for key, item in members for found in _pointers(item, f"{pointer}/{key}"))]


PLACES = [(wire_format, pointer) for wire_format in EXAMPLES for pointer in _pointers(EXAMPLES[wire_format])[1:]]
WORDS = st.sampled_from(["", " ", "call_n1", "tool_use", "tool_result", "assistant", "compaction", "\ud800"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | st.text(max_size=3) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | WORDS, inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(place=st.sampled_from(PLACES), value=ANYTHING)
def test_any_json_is_got_through(place: tuple[str, str], value: Any) -> None:
    wire_format, pointer = place
    case = Case(wire_format, {pointer: value}, "", {})
    request = case.request
    for finding in lint(request, case.profile):
        resolve(request, finding.pointer)
        assert finding.rule in RULES
