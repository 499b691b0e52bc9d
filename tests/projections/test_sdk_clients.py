"""The providers' own clients, over a transport that goes nowhere: they send what was derived."""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest

from convlog.eventstore.events import CallFinished, Image, Text
from convlog.projections.conversation import Thread
from convlog.projections.prepare import Prompt

from .answering import READ, TALK, Answer, response, sent_back, unmarked
from .encoding import ADDRESSES
from .oracle import _module
from .piece_strategies import PNG
from .responses import Json

pytestmark = pytest.mark.oracle

Sent = tuple[bytes, Any]
"""What went out, and what the client made of the answer."""


def ask(wire_format: str, request: Json, model: str, answer: Json) -> Sent:
    """Send a request by the provider's client."""
    with warnings.catch_warnings():
        # What these packages deprecate among themselves is not our matter.
        warnings.simplefilter("ignore")
        return CLIENTS[wire_format](request, model, answer)


def _over_http(answer: Json) -> tuple[Any, list[bytes]]:
    httpx = _module("httpx2")
    sent: list[bytes] = []

    def answered(request: Any) -> Any:
        sent.append(request.content)
        return httpx.Response(200, json=answer)

    return httpx.Client(transport=httpx.MockTransport(answered)), sent


def _anthropic(request: Json, _model: str, answer: Json) -> Sent:
    http, sent = _over_http(answer)
    got = _module("anthropic").Anthropic(api_key="none", http_client=http).messages.create(**request)
    return sent[0], got


def _chat(request: Json, _model: str, answer: Json) -> Sent:
    http, sent = _over_http(answer)
    got = _module("openai").OpenAI(api_key="none", http_client=http).chat.completions.create(**request)
    return sent[0], got


def _responses(request: Json, _model: str, answer: Json) -> Sent:
    http, sent = _over_http(answer)
    got = _module("openai").OpenAI(api_key="none", http_client=http).responses.create(**request)
    return sent[0], got


def _gemini(request: Json, model: str, answer: Json) -> Sent:
    """The client takes the body apart: contents by themselves, all other members as its configuration."""
    http, sent = _over_http(answer)
    config = {**request, **request["generationConfig"]}
    for name in ("contents", "generationConfig"):
        del config[name]
    client = _module("google.genai").Client(api_key="none", http_options={"httpx_client": http})
    got = client.models.generate_content(model=model, contents=request["contents"], config=config)
    return sent[0], got


def _bedrock(request: Json, _model: str, answer: Json) -> Sent:
    """The client takes bytes decoded (B9), and puts the model into the address."""
    sent: list[bytes] = []
    raw = type("Raw", (BytesIO,), {"stream": lambda self, **_: iter([self.read()])})

    def answered(request: Any, **_: Any) -> Any:
        sent.append(request.body)
        return _module("botocore.awsrequest").AWSResponse(request.url, 200, {}, raw(json.dumps(answer).encode()))

    client = (
        _module("botocore.session")
        .get_session()
        .create_client(
            "bedrock-runtime", region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none"
        )
    )
    client.meta.events.register("before-send.bedrock-runtime.Converse", answered)
    got = client.converse(**_decoded(request))
    return sent[0], got


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: base64.b64decode(item) if name == "bytes" else _decoded(item) for name, item in value.items()}
    return [_decoded(item) for item in value] if isinstance(value, list) else value


CLIENTS: dict[str, Callable[[Json, str, Json], Sent]] = {
    "anthropic": _anthropic,
    "openai-chat": _chat,
    "openai-responses": _responses,
    "gemini": _gemini,
    "bedrock": _bedrock,
}

SNAKES = {
    "mime_type": "mimeType",
    "parameters_json_schema": "parametersJsonSchema",
    "thinking_level": "thinkingLevel",
}
"""Gemini's client spells some names as Python does, which its server takes as well."""

TARGETS = [
    ("anthropic", "claude-opus-5", {"thinking": {"type": "adaptive"}, "max_tokens": 2048}),
    ("anthropic", "claude-haiku-4-5", {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2048}),
    ("openai-chat", "gpt-5.4", {"thinking": {"effort": "low"}, "cache_key": "thread-7"}),
    ("openai-chat", "gpt-5.6", {}),
    ("openai-chat", "kimi-k2.5", {}),
    ("openai-responses", "gpt-5.4", {"thinking": {"effort": "low"}, "cache_key": "thread-7"}),
    ("openai-responses", "gpt-5.6", {}),
    ("gemini", "gemini-3-flash-preview", {"thinking": {"thinkingLevel": "LOW"}, "tool_choice": "auto"}),
    ("bedrock", "bedrock-claude", {"thinking": {"type": "adaptive"}}),
]


@pytest.mark.parametrize(("wire_format", "profile_id", "options"), TARGETS)
def test_the_client_sends_what_was_derived_and_its_answer_goes_back_as_it_came(
    wire_format: str, profile_id: str, options: Json, thread: Thread
) -> None:
    image = Image(media_type="image/png", attachment=thread.store.attach(PNG))
    thread.user([Text("Is it wet? – ☂"), image])
    recipe: Json = {
        "profile": profile_id,
        "encoder": ADDRESSES[wire_format],
        "options": options,
        "instructions": "Be brief.",
        "tools": [READ],
    }
    before: list[Any] = []
    for number in (1, 2):
        prompt = thread.prepare(**recipe)
        model, field = prompt.profile.model, prompt.profile.reasoning_content != "refused"
        talk = unmarked(prompt.request)[TALK[wire_format]]
        assert talk[: len(before)] == before
        answer = Answer(number, model, thought=True, text="Reading.", calls=2, reasoning_field=field)
        sent, got = ask(wire_format, prompt.request, model, response(answer, wire_format))
        assert as_derived(sent) == without_address(prompt, wire_format)
        finished = thread.event(thread.record(got, call=prompt.call, sent=sent).finished).body
        assert isinstance(finished, CallFinished)
        assert finished.sent_as_prepared is (wire_format not in {"gemini", "bedrock"})
        for id_ in answer.ids:
            thread.result(id_, "12 mm")
        before = [*talk, *sent_back(answer, wire_format)]


def as_derived(sent: bytes) -> Any:
    """Read what was sent, in the spelling of the wire."""
    return json.loads(sent, object_hook=lambda value: {SNAKES.get(name, name): item for name, item in value.items()})


def without_address(prompt: Prompt, wire_format: str) -> Json:
    """Give the request without the model, where that stands in the address."""
    return {name: value for name, value in prompt.request.items() if wire_format != "bedrock" or name != "modelId"}
