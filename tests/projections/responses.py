"""Responses of providers, as plain JSON values: what `record` takes."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

USAGE = {
    "input_tokens": 10,
    "cache_read_input_tokens": 200,
    "cache_creation_input_tokens": 30,
    "output_tokens": 4,
    "output_tokens_details": {"thinking_tokens": 1},
}


def said(text: str) -> Json:
    return {"type": "text", "text": text}


def asked(call: str, name: str = "Read", **arguments: Any) -> Json:
    return {"type": "tool_use", "id": call, "name": name, "input": arguments}


def thought(text: str, signature: str = "c2VhbA==") -> Json:
    return {"type": "thinking", "thinking": text, "signature": signature}


def message(*content: Json, id_: str | None = "msg_1", stop: str | None = None, usage: Json | None = USAGE) -> Json:
    """Give a whole message of Anthropic's."""
    calls = any(block["type"] == "tool_use" for block in content)
    found = {
        "id": id_,
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-6-20260217",
        "content": list(content),
        "stop_reason": stop or ("tool_use" if calls else "end_turn"),
        "usage": usage,
    }
    return {name: value for name, value in found.items() if value is not None}


def stream(*content: Json, id_: str = "msg_1") -> list[Json]:
    """Give the events of a stream of Anthropic's that gives this message."""
    events: list[Json] = [
        {"type": "message_start", "message": {**message(id_=id_, usage={"input_tokens": 10}), "stop_reason": None}}
    ]
    for index, block in enumerate(content):
        start = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        if block["type"] == "text":
            half = len(block["text"]) // 2
            deltas = [{"type": "text_delta", "text": part} for part in (block["text"][:half], block["text"][half:])]
        else:
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in ('{"path":', ' "a"}')]
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    stop = message(*content)["stop_reason"]
    events.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 7}})
    return [*events, {"type": "message_stop"}]


OPENAI_CHAT: Json = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "gpt-5.4-2026-03-05",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": "Reading.",
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "Read", "arguments": '{"path": "a"}'}}
                ],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 100,
        "completion_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 5},
    },
}

OPENAI_RESPONSES: Json = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "model": "gpt-5.4-2026-03-05",
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbA=="},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
        },
    ],
    "usage": {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 5},
    },
}

GEMINI: Json = {
    "responseId": "gem-1",
    "modelVersion": "gemini-3-flash-preview",
    "candidates": [
        {
            "finishReason": "STOP",
            "content": {
                "role": "model",
                "parts": [
                    {"text": "Reading."},
                    {"functionCall": {"name": "Read", "args": {"path": "a"}}, "thoughtSignature": "c2VhbA=="},
                ],
            },
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 60,
        "candidatesTokenCount": 4,
        "thoughtsTokenCount": 5,
    },
}

BEDROCK: Json = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"text": "Reading."},
                {"toolUse": {"toolUseId": "tooluse_1", "name": "Read", "input": {"path": "a"}}},
            ],
        }
    },
    "stopReason": "tool_use",
    "usage": {
        "inputTokens": 40,
        "cacheReadInputTokens": 60,
        "cacheWriteInputTokens": 7,
        "outputTokens": 9,
    },
}
