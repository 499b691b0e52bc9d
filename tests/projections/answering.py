"""Responses of each provider, whole enough for its own package to read, and what each becomes in the next request."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st

from .responses import Json

TALK = {
    "anthropic": "messages",
    "openai-chat": "messages",
    "openai-responses": "input",
    "gemini": "contents",
    "bedrock": "messages",
}
"""The member of a request that holds the talk."""

READ = {
    "name": "read_gauge",
    "description": "Reads one gauge.",
    "input_schema": {"type": "object", "properties": {"station": {"type": "string"}}},
}
MARKS = frozenset({"cache_control", "prompt_cache_breakpoint", "prompt_cache_options"})


class Answer(msgspec.Struct, frozen=True):
    """What a model answers: perhaps reasoning, perhaps text, and calls; neither text nor calls is no answer."""

    number: int
    model: str
    thought: bool = False
    text: str = ""
    calls: int = 0
    reasoning_field: bool = False
    """The model's dialect has `reasoning_content`."""

    @property
    def ids(self) -> list[str]:
        """The ids of its calls."""
        return [f"call_{self.number}_{index}" for index in range(self.calls)]

    @property
    def seal(self) -> str:
        """A signature that no other answer has."""
        return f"c2Vh{self.number:04}"


def answers(number: int, model: str, *, last: bool, thinks: bool, reasoning_field: bool) -> st.SearchStrategy[Answer]:
    """Draw an answer that calls tools, or the last of a turn; with `thinks`, each begins with reasoning."""
    return st.builds(
        Answer,
        number=st.just(number),
        model=st.just(model),
        thought=st.just(True) if thinks else st.booleans(),
        text=st.just("It is wet.") if last else st.sampled_from(["", "Reading – ☂."]),
        calls=st.just(0) if last else st.integers(1, 3),
        reasoning_field=st.just(reasoning_field),
    )


def _input(index: int) -> Json:
    return {"station": ("north", "south", "east")[index]}


# --- responses: what comes in, and what stands for it in the next request ---


def _anthropic(answer: Answer) -> tuple[Json, list[Json]]:
    content: list[Json] = []
    if answer.thought:
        content.append({"type": "thinking", "thinking": "Hm.", "signature": answer.seal})
    if answer.text:
        content.append({"type": "text", "text": answer.text})
    for index, id_ in enumerate(answer.ids):
        content.append({"type": "tool_use", "id": id_, "name": READ["name"], "input": _input(index)})
    response = {
        "id": f"msg_{answer.number}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": "tool_use" if answer.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 7},
    }
    return response, [{"role": "assistant", "content": content}]


def _chat(answer: Answer) -> tuple[Json, list[Json]]:
    message: Json = {"role": "assistant", "content": answer.text or None}
    if answer.reasoning_field:
        message["reasoning_content"] = "Hm."
    if answer.calls:
        message["tool_calls"] = [
            {"id": id_, "type": "function", "function": {"name": READ["name"], "arguments": json.dumps(_input(index))}}
            for index, id_ in enumerate(answer.ids)
        ]
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "tool_calls" if answer.calls else "stop",
        "logprobs": None,
    }
    response = {
        "id": f"chatcmpl-{answer.number}",
        "object": "chat.completion",
        "created": 1_780_000_000,
        "model": answer.model,
        "choices": [choice],
        "usage": {"prompt_tokens": 10, "completion_tokens": 7, "total_tokens": 17},
    }
    return response, [message]


def _responses(answer: Answer) -> tuple[Json, list[Json]]:
    output: list[Json] = []
    sent: list[Json] = []
    if answer.thought:
        output.append(
            {"type": "reasoning", "id": f"rs_{answer.number}", "summary": [], "encrypted_content": answer.seal}
        )
        sent += output
    if answer.text:
        said = {"type": "output_text", "text": answer.text, "annotations": []}
        head = {"type": "message", "id": f"msg_{answer.number}", "status": "completed", "role": "assistant"}
        output.append({**head, "content": [said]})
        # An id needs its reasoning before it (R4).
        sent.append(output[-1] if answer.thought else {"role": "assistant", "content": answer.text})
    for index, id_ in enumerate(answer.ids):
        call = {"type": "function_call", "call_id": id_, "name": READ["name"], "arguments": json.dumps(_input(index))}
        output.append({**call, "id": f"fc_{answer.number}_{index}", "status": "completed"})
        sent.append(call)
    response = {
        "id": f"resp_{answer.number}",
        "object": "response",
        "created_at": 1_780_000_000,
        "status": "completed",
        "model": answer.model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 17,
        },
    }
    return response, sent


def _gemini(answer: Answer) -> tuple[Json, list[Json]]:
    parts: list[Json] = []
    if answer.thought:
        parts.append({"text": "Hm.", "thought": True})
    if answer.text:
        parts.append({"text": answer.text})
    for index, id_ in enumerate(answer.ids):
        call: Json = {"functionCall": {"id": id_, "name": READ["name"], "args": _input(index)}}
        # The first call of a step is signed (G9).
        parts.append(call if index else {**call, "thoughtSignature": answer.seal})
    response = {
        "responseId": f"gem-{answer.number}",
        "modelVersion": answer.model,
        "candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 7, "totalTokenCount": 17},
    }
    return response, [{"role": "model", "parts": parts}]


def _bedrock(answer: Answer) -> tuple[Json, list[Json]]:
    content: list[Json] = []
    if answer.thought:
        content.append({"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": answer.seal}}})
    if answer.text:
        content.append({"text": answer.text})
    for index, id_ in enumerate(answer.ids):
        content.append({"toolUse": {"toolUseId": id_, "name": READ["name"], "input": _input(index)}})
    response = {
        "ResponseMetadata": {"RequestId": f"req-{answer.number}"},
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "tool_use" if answer.calls else "end_turn",
        "usage": {"inputTokens": 10, "outputTokens": 7, "totalTokens": 17},
        "metrics": {"latencyMs": 1},
    }
    return response, [{"role": "assistant", "content": content}]


_MADE: dict[str, Callable[[Answer], tuple[Json, list[Json]]]] = {
    "anthropic": _anthropic,
    "openai-chat": _chat,
    "openai-responses": _responses,
    "gemini": _gemini,
    "bedrock": _bedrock,
}


def response(answer: Answer, wire_format: str) -> Json:
    """Give the response that a provider sends."""
    return _MADE[wire_format](answer)[0]


def sent_back(answer: Answer, wire_format: str) -> list[Json]:
    """Give what stands for it in the talk of the next request."""
    return _MADE[wire_format](answer)[1]


def unmarked(value: Any) -> Any:
    """Copy a request without its cache marks."""
    if isinstance(value, dict):
        return {name: unmarked(member) for name, member in value.items() if name not in MARKS}
    if isinstance(value, list):
        return [unmarked(member) for member in value if not (isinstance(member, dict) and "cachePoint" in member)]
    return value
