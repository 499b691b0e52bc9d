"""Runs examples of placement, kind provider_input: where a provider's blocks of replayed turns stand.

They show the first stage of encoding, before repair, marks and the provider's forms of system text and text parts. So
each message, and each step of a replayed turn, is encoded by itself: nothing merges, and what only mends the ends was
made of no piece and is left away. Texts go through as tokens, so that an empty one is not repaired.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from convlog.projections.profiles import profile_bytes
from convlog.projections.registry import get
from convlog.projections.stages.pieces_v1 import TURN_MEMORY, VERBATIM, Call, Piece, Result, Text
from convlog.projections.stages.request_v1 import Item, Request
from convlog.projections.stages.segments_v1 import Step
from convlog.projections.stages.target_v1 import Options, target
from tests.vectors.turn_memory import VERSIONS, memory_of

Json = dict[str, Any]


class Provider(NamedTuple):
    """How a provider's examples are run."""

    encoder: str
    profile: str
    reduce: Callable[[Request], list[Json]]
    """Gives the messages of one request in the examples' form."""
    talk: str = "messages"
    has_system_list: bool = False
    drops_empty_user: bool = False
    drops_empty_system: bool = False


def run(vector: Json) -> str | None:
    """Run one example; None when it holds, else the difference in words."""
    given = vector["input"]
    got = _placed(PROVIDERS[given["provider"]], given["messages"], given["projection"])
    for name, expected in vector["expect"].items():
        if got.get(name) != expected:
            said = [json.dumps(value, ensure_ascii=False) for value in (expected, got.get(name))]
            return f"{vector['id']}: {name}: expected {said[0]}, got {said[1]}"
    return None


def _placed(provider: Provider, messages: Sequence[Json], projection: str) -> Json:
    system: list[Json] = []
    talk: list[Json] = []
    for index, message in enumerate(messages):
        role, text = message["role"], message["text"]
        if role == "assistant":
            memory = memory_of({**message, "prose": text})
            for step in VERSIONS[projection].steps(memory, index):
                if step.text or step.calls:
                    talk.extend(_encoded(provider, list(_step(step))))
            continue
        if not text and (provider.drops_empty_system if role == "system" else provider.drops_empty_user):
            continue
        encoded = _encoded(provider, [Piece(VERBATIM, role, Text(text), (1,))])
        (system if role == "system" and provider.has_system_list else talk).extend(encoded)
    if provider.has_system_list:
        return {"system": [block for message in system for block in message["content"]], provider.talk: talk}
    return {provider.talk: talk}


def _step(step: Step) -> Iterator[Piece]:
    if step.text:
        yield Piece(TURN_MEMORY, "assistant", Text(step.text), (1,), "step")
    calls = list(enumerate(step.calls, start=1))
    for node, call in calls:
        yield Piece(TURN_MEMORY, "assistant", Call(call.id, node, call.tool, call.arguments), (1,), "step")
    for node, call in calls:
        status = "error" if call.is_error else "ok"
        result = Result(call.id, node, status, (Text(call.result),), name=call.tool)
        yield Piece(TURN_MEMORY, "tool", result, (1,), "step")


def _encoded(provider: Provider, pieces: list[Piece]) -> list[Json]:
    """Encode the pieces of one message or step, its prose as a token."""
    element = pieces[0].element
    prose = element.text if isinstance(element, Text) else None
    if prose is not None:
        pieces = [Piece(pieces[0].provenance, pieces[0].role, Text(TOKEN), (1,), pieces[0].group), *pieces[1:]]
    build = get(provider.encoder, "encoder").function
    request = build(pieces, target(profile_bytes(provider.profile)), Options(cache=False), {})
    messages: list[Json] = _with_prose(provider.reduce(request), prose)
    return messages


TOKEN = "the prose"


def _with_prose(value: Any, prose: str | None) -> Any:
    if isinstance(value, dict):
        return {key: _with_prose(member, prose) for key, member in value.items()}
    if isinstance(value, list):
        return [_with_prose(item, prose) for item in value]
    return prose if value == TOKEN and prose is not None else value


# --- from requests to the examples' form ---


def _blocks(item: Item) -> list[Json]:
    """Give the blocks that were made of pieces."""
    return [json.loads(block.data) for block in item.blocks if block.pieces]


def _field(request: Request, name: str) -> Any:
    found = next((field.data for field in request.fields if field.name == name and field.data), None)
    return None if found is None else json.loads(found)


def _in_messages(request: Request) -> list[Json]:
    """Anthropic and Bedrock: messages of blocks, system text in a list of its own."""
    system = _field(request, "system")
    if system is not None:
        return [{"role": "system", "content": system}]
    messages: list[Json] = [
        {"role": item.role, "content": blocks} for item in request.items if (blocks := _blocks(item))
    ]
    for message in messages:
        for block in message["content"]:
            if block.get("type") == "tool_result":
                block.setdefault("is_error", False)
    return messages


def _chat(request: Request) -> list[Json]:
    """OpenAI Chat: a message is a block; an absent text is left out."""
    messages = [message for item in request.items for message in _blocks(item)]
    return [{key: value for key, value in message.items() if value is not None} for message in messages]


def _responses(request: Request) -> list[Json]:
    """OpenAI Responses: system text in its place, texts as strings."""
    instructions = _field(request, "instructions")
    if instructions is not None:
        return [{"type": "message", "role": "system", "content": instructions}]
    found = []
    for item in request.items:
        blocks = _blocks(item)
        if item.opening and blocks:
            found.append({"type": "message", "role": item.role, "content": blocks[0]["text"]})
        else:
            found.extend({"type": "message", **block} if "content" in block else block for block in blocks)
    return found


def _genkit(request: Request) -> list[Json]:
    """Gemini, under Genkit's names: tools have a role of their own, and an output is JSON text."""
    system = _field(request, "systemInstruction")
    if system is not None:
        return [{"role": "system", "parts": system["parts"]}]
    messages = []
    for item in request.items:
        parts = [_genkit_part(block.data) for block in item.blocks if block.pieces]
        role = "tool" if any("tool_response" in part for part in parts) else item.role
        if parts:
            messages.append({"role": role, "parts": parts})
    return messages


def _genkit_part(data: bytes) -> Json:
    part = json.loads(data)
    if "functionCall" in part:
        call = part["functionCall"]
        return {"tool_request": {"name": call["name"], "ref": call["id"], "input": call["args"]}}
    if "functionResponse" in part:
        answer = part["functionResponse"]
        # As spelled: reading and writing it again could escape other characters.
        raw = _members(_members(data)["functionResponse"])["response"]
        return {"tool_response": {"name": answer["name"], "ref": answer["id"], "output": bytes(raw).decode()}}
    return {"text": part["text"]}


def _members(data: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(data, type=dict[str, msgspec.Raw])


PROVIDERS = {
    "anthropic": Provider(
        "anthropic@1", "claude-sonnet-4-6", _in_messages, has_system_list=True, drops_empty_user=True
    ),
    "bedrock": Provider(
        "bedrock@1",
        "bedrock-claude",
        _in_messages,
        has_system_list=True,
        drops_empty_user=True,
        drops_empty_system=True,
    ),
    "openai_chat": Provider("openai-chat@1", "deepseek-chat", _chat),
    "openai_responses": Provider("openai-responses@1", "gpt-5.4", _responses, talk="input"),
    "gemini_genkit": Provider("gemini@1", "gemini-3-flash-preview", _genkit),
}
