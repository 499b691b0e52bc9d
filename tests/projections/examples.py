"""One valid request per wire format: two tools called at once, one failing, where the format can say so."""

from __future__ import annotations

from typing import Any

SCHEMA = {"type": "object", "properties": {"station": {"type": "string"}}, "required": ["station"]}
TOOL = {"name": "read_gauge", "description": "Read one rain gauge."}
SYSTEM = "You maintain a small weather bureau."
QUESTION = "Compare north and south."
FUNCTION_ARGUMENTS = {"north": '{"station":"north"}', "south": '{"station":"south"}'}

ANTHROPIC: dict[str, Any] = {
    "model": "claude-sonnet-4-6",
    "max_tokens": 1024,
    "system": [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}],
    "tools": [{**TOOL, "input_schema": SCHEMA}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Two readings are needed.", "signature": "c2lnbmF0dXJl"},
                {"type": "text", "text": "Reading both."},
                {"type": "tool_use", "id": "call_n1", "name": "read_gauge", "input": {"station": "north"}},
                {"type": "tool_use", "id": "call_s1", "name": "read_gauge", "input": {"station": "south"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_n1", "content": "12 mm"},
                {
                    "type": "tool_result",
                    "tool_use_id": "call_s1",
                    "content": [{"type": "text", "text": "gauge offline"}],
                    "is_error": True,
                },
                {"type": "text", "text": "Use what you have.", "cache_control": {"type": "ephemeral"}},
            ],
        },
    ],
}

OPENAI_CHAT: dict[str, Any] = {
    "model": "gpt-5.4",
    "prompt_cache_key": "thread-7",
    "messages": [
        {"role": "developer", "content": SYSTEM},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": QUESTION},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            ],
        },
        {
            "role": "assistant",
            "content": "Reading both.",
            "tool_calls": [
                {
                    "id": "call_n1",
                    "type": "function",
                    "function": {"name": "read_gauge", "arguments": FUNCTION_ARGUMENTS["north"]},
                },
                {
                    "id": "call_s1",
                    "type": "function",
                    "function": {"name": "read_gauge", "arguments": FUNCTION_ARGUMENTS["south"]},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "call_n1", "content": "12 mm"},
        {"role": "tool", "tool_call_id": "call_s1", "content": "error: gauge offline"},
        {"role": "user", "content": "Use what you have."},
    ],
    "tools": [{"type": "function", "function": {**TOOL, "parameters": SCHEMA}}],
}

OPENAI_RESPONSES: dict[str, Any] = {
    "model": "gpt-5.4",
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "instructions": SYSTEM,
    "prompt_cache_key": "thread-7",
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
        {"type": "reasoning", "id": "rs_a1", "summary": [], "encrypted_content": "b3BhcXVl"},
        {
            "type": "function_call",
            "call_id": "call_n1",
            "name": "read_gauge",
            "arguments": FUNCTION_ARGUMENTS["north"],
        },
        {
            "type": "function_call",
            "call_id": "call_s1",
            "name": "read_gauge",
            "arguments": FUNCTION_ARGUMENTS["south"],
        },
        {"type": "function_call_output", "call_id": "call_n1", "output": "12 mm"},
        {"type": "function_call_output", "call_id": "call_s1", "output": "error: gauge offline"},
        {"role": "assistant", "content": "North has 12 mm; south is offline."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And tomorrow?"}]},
    ],
    "tools": [{"type": "function", **TOOL, "strict": False, "parameters": SCHEMA}],
}

GEMINI: dict[str, Any] = {
    "systemInstruction": {"parts": [{"text": SYSTEM}]},
    "contents": [
        {"role": "user", "parts": [{"text": QUESTION}]},
        {
            "role": "model",
            "parts": [
                {
                    "functionCall": {"id": "call_n1", "name": "read_gauge", "args": {"station": "north"}},
                    "thoughtSignature": "c2lnbmF0dXJl",
                },
                {"functionCall": {"id": "call_s1", "name": "read_gauge", "args": {"station": "south"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "call_n1", "name": "read_gauge", "response": {"output": "12 mm"}}},
                {"functionResponse": {"id": "call_s1", "name": "read_gauge", "response": {"error": "gauge offline"}}},
            ],
        },
    ],
    "tools": [{"functionDeclarations": [{**TOOL, "parametersJsonSchema": SCHEMA}]}],
    "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
    "generationConfig": {"maxOutputTokens": 1024, "thinkingConfig": {"thinkingLevel": "LOW"}},
}

BEDROCK: dict[str, Any] = {
    "modelId": "anthropic.claude-sonnet-4-6",
    "system": [{"text": SYSTEM}, {"cachePoint": {"type": "default"}}],
    "messages": [
        {"role": "user", "content": [{"text": QUESTION}]},
        {
            "role": "assistant",
            "content": [
                {"text": "Reading."},
                {"toolUse": {"toolUseId": "call_n1", "name": "read_gauge", "input": {"station": "north"}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "call_n1", "content": [{"text": "12 mm"}], "status": "success"}},
                {"cachePoint": {"type": "default"}},
            ],
        },
    ],
    "toolConfig": {"tools": [{"toolSpec": {**TOOL, "inputSchema": {"json": SCHEMA}}}]},
    "inferenceConfig": {"maxTokens": 1024},
}

EXAMPLES: dict[str, dict[str, Any]] = {
    "anthropic": ANTHROPIC,
    "openai-chat": OPENAI_CHAT,
    "openai-responses": OPENAI_RESPONSES,
    "gemini": GEMINI,
    "bedrock": BEDROCK,
}

TARGETS = {
    "anthropic": "claude-sonnet-4-6",
    "openai-chat": "gpt-5.4",
    "openai-responses": "gpt-5.4",
    "gemini": "gemini-3-flash-preview",
    "bedrock": "bedrock-claude",
}
"""The profile that each example is made for."""


class _Drop:
    """The value that `changed` takes for "remove this member"."""


DROP = _Drop()


def changed(request: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Give a copy of `request` with members set, appended (last key `-`) or dropped, each named by its pointer."""
    import copy

    request = copy.deepcopy(request)
    for pointer, value in changes.items():
        *path, key = pointer.split("/")[1:]
        holder: Any = request
        for step in path:
            holder = holder[int(step) if isinstance(holder, list) else step]
        if key == "-":
            holder.append(value)
        elif value is DROP:
            del holder[int(key) if isinstance(holder, list) else key]
        else:
            holder[int(key) if isinstance(holder, list) else key] = value
    return request


def resolve(request: Any, pointer: str) -> Any:
    """Give what an RFC 6901 pointer names; KeyError, IndexError or ValueError if it names nothing."""
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        request = request[int(key)] if isinstance(request, list | tuple) else request[key]
    return request
