"""The judge of shape accepts the examples and refuses each kind of damage that it is meant to see."""

from __future__ import annotations

from typing import Any

import pytest

from .examples import DROP, EXAMPLES, changed
from .oracle import accepts

pytestmark = pytest.mark.oracle

MUTATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "anthropic: unknown key at the top": ("anthropic", {"/mood": "good"}),
    "anthropic: unknown key in a block": ("anthropic", {"/messages/0/content/0/mood": "good"}),
    "anthropic: unknown role": ("anthropic", {"/messages/0/role": "tool"}),
    "anthropic: unknown block": ("anthropic", {"/messages/0/content/0/type": "prose"}),
    "anthropic: unknown lifetime": ("anthropic", {"/system/0/cache_control/ttl": "2h"}),
    "anthropic: thinking without signature": ("anthropic", {"/messages/1/content/0/signature": DROP}),
    "anthropic: mark on thinking": ("anthropic", {"/messages/1/content/0/cache_control": {"type": "ephemeral"}}),
    "anthropic: text for a number": ("anthropic", {"/max_tokens": "1024"}),
    "anthropic: text for an object": ("anthropic", {"/messages/1/content/2/input": "{}"}),
    "anthropic: sampling parameter": ("anthropic", {"/temperature": 1.0}),
    "chat: arguments as an object": ("openai-chat", {"/messages/2/tool_calls/0/function/arguments": {}}),
    "chat: image from a tool": ("openai-chat", {"/messages/3/content": [{"type": "image_url", "image_url": {}}]}),
    "chat: reasoning_content": ("openai-chat", {"/messages/2/reasoning_content": "Two readings."}),
    "chat: unknown retention": ("openai-chat", {"/prompt_cache_retention": "week"}),
    "responses: reasoning without summary": ("openai-responses", {"/input/1/summary": DROP}),
    "responses: input part from the assistant": (
        "openai-responses",
        {"/input/6": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "12 mm"}]}},
    ),
    "responses: arguments as an object": ("openai-responses", {"/input/2/arguments": {}}),
    "gemini: unknown key": ("gemini", {"/mood": "good"}),
    "gemini: snake case": ("gemini", {"/contents/1/parts/0/thought_signature": "c2lnbmF0dXJl"}),
    "gemini: args as text": ("gemini", {"/contents/1/parts/0/functionCall/args": "{}"}),
    "gemini: signature is no base64": ("gemini", {"/contents/1/parts/0/thoughtSignature": "no base64!"}),
    "gemini: unknown mode": ("gemini", {"/toolConfig/functionCallingConfig/mode": "auto"}),
    "bedrock: two keys in a block": ("bedrock", {"/messages/0/content/0/cachePoint": {"type": "default"}}),
    "bedrock: missing member": ("bedrock", {"/messages/1/content/1/toolUse/name": DROP}),
    "bedrock: unknown status": ("bedrock", {"/messages/2/content/0/toolResult/status": "maybe"}),
    "bedrock: alphabet of ids": ("bedrock", {"/messages/1/content/1/toolUse/toolUseId": "call n1"}),
    "bedrock: length of a name": ("bedrock", {"/toolConfig/tools/0/toolSpec/name": "n" * 65}),
    "bedrock: bytes are no base64": (
        "bedrock",
        {"/messages/0/content/-": {"image": {"format": "png", "source": {"bytes": "no base64!"}}}},
    ),
}


@pytest.mark.parametrize("wire_format", EXAMPLES)
def test_example_is_accepted(wire_format: str) -> None:
    assert accepts(EXAMPLES[wire_format], wire_format) is None


@pytest.mark.parametrize("name", MUTATIONS)
def test_damage_is_refused(name: str) -> None:
    wire_format, changes = MUTATIONS[name]
    refusal = accepts(changed(EXAMPLES[wire_format], changes), wire_format)
    assert refusal, "was accepted"


def test_bytes_are_read_from_base64() -> None:
    image = {"image": {"format": "png", "source": {"bytes": "iVBORw0KGgo="}}}
    assert accepts(changed(EXAMPLES["bedrock"], {"/messages/0/content/-": image}), "bedrock") is None
