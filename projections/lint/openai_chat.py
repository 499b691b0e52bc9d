"""Rules O1 to O16: requests to OpenAI's Chat Completions API and to the dialects that others speak.

Sources of the rules are OpenAI's SDK types and API description, and refusals that users have reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..profiles import Profile
from .common import (
    Call,
    Finding,
    Json,
    Outline,
    Result,
    Text,
    Tool,
    Turn,
    cross_format,
    is_json,
    join,
    mapping,
    misnamed,
    objects,
    prompt_cache,
    quote,
    text,
)

RULES = {
    "O1": "an assistant message with tool_calls is followed at once by one tool message per id",
    "O2": "a tool message answers an id of the nearest assistant message before it",
    "O3": "at most 128 tool_calls in a message and no more tools than the profile allows",
    "O4": "assistant content is a string or a non-empty list, or absent beside tool_calls",
    "O5": "function.arguments is a string of JSON text",
    "O6": "call ids have 1 to 64 characters",
    "O7": "names of declared and called functions match the profile's pattern",
    "O8": "tool messages hold text only",
    "O9": "image parts stand only in user messages",
    "O10": "tool descriptions are within the profile's cap",
    "O11": "texts and data URLs are within their limits",
    "O12": "messages have only known fields, reasoning_content and prompt_cache_key only where the profile has them; "
    "not seen: unknown fields at the top and in content parts",
    "O13": "prompt_cache_options and breakpoints only where the profile has them, and without prompt_cache_retention",
    "O14": "reasoning_content is on every assistant message where the profile requires it, non-empty for some",
    "O15": "Mistral: ids of nine alphanumerics, assistant messages with content or calls, a user or tool message last",
    "O16": "call ids are unique in the request",
}

UNCHECKABLE: dict[str, str] = {}

CALLS_MAX = 128
ID_CHARS_MAX = 64
TEXT_CHARS_MAX = 10_485_760
DATA_URL_CHARS_MAX = 20_971_520
MISTRAL_ID_CHARS = 9
FIELDS = {
    "developer": {"role", "content", "name"},
    "system": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "refusal", "audio", "tool_calls", "function_call"},
    "tool": {"role", "content", "tool_call_id"},
}


class Part(NamedTuple):
    """One content part; string content counts as one text part at the place of the string."""

    pointer: str
    type: str
    body: Json


class ToolCall(NamedTuple):
    """One entry of `tool_calls`; a custom tool's input is text and not JSON."""

    pointer: str
    id: str
    name: str
    arguments: Any
    is_function: bool


class Message(NamedTuple):
    """One entry of `messages`."""

    pointer: str
    role: str
    body: Json
    parts: list[Part]
    calls: list[ToolCall]


@dataclass(frozen=True, slots=True)
class View:
    """The request, taken apart once for all rules."""

    request: Json
    messages: list[Message]
    tools: list[Tool]

    def of_role(self, role: str) -> list[Message]:
        """Give the messages of one role."""
        return [message for message in self.messages if message.role == role]

    def calls(self) -> Iterator[ToolCall]:
        """Give the calls of all messages in order."""
        for message in self.messages:
            yield from message.calls


def lint(request: Json, profile: Profile) -> Iterator[Finding]:
    """Find every breach of the X and O rules."""
    view = _view(request)
    yield from cross_format(_outline(view), profile)
    for check in _CHECKS:
        yield from check(view, profile)


# --- taking the request apart ---


def _view(request: Json) -> View:
    messages = []
    for pointer, body in objects(request.get("messages"), "/messages"):
        parts = _parts(body.get("content"), join(pointer, "content"))
        calls = [_tool_call(at, call) for at, call in objects(body.get("tool_calls"), join(pointer, "tool_calls"))]
        messages.append(Message(pointer, text(body.get("role")), body, parts, calls))
    tools = []
    for pointer, body in objects(request.get("tools"), "/tools"):
        declared = mapping(body.get(text(body.get("type"))))
        if isinstance(declared.get("name"), str):
            tools.append(Tool(pointer, declared["name"], declared))
    return View(request, messages, tools)


def _parts(content: Any, pointer: str) -> list[Part]:
    if isinstance(content, str):
        return [Part(pointer, "text", {"type": "text", "text": content})]
    return [Part(at, text(body.get("type")), body) for at, body in objects(content, pointer)]


def _tool_call(pointer: str, body: Json) -> ToolCall:
    is_function = body.get("type") != "custom"
    called = mapping(body.get("function" if is_function else "custom"))
    arguments = called.get("arguments" if is_function else "input")
    return ToolCall(pointer, text(body.get("id")), text(called.get("name")), arguments, is_function)


def _outline(view: View) -> Outline:
    roles = {"developer": "system"}
    return Outline(
        request=view.request,
        turns=[
            Turn(message.pointer, roles.get(message.role, message.role), empty=not (message.parts or message.calls))
            for message in view.messages
        ],
        texts=[
            Text(part.pointer, text(part.body.get("text")))
            for message in view.messages
            for part in message.parts
            # An empty output of a tool is a fact, and as a plain string every provider takes it.
            if part.type == "text" and not (message.role == "tool" and isinstance(message.body["content"], str))
        ],
        calls=[Call(call.pointer, call.id, call.name, call.id) for call in view.calls()],
        results=[Result(message.pointer, text(message.body.get("tool_call_id"))) for message in view.of_role("tool")],
        tools=view.tools,
    )


# --- calls and results ---


def _results_follow(view: View, _profile: Profile) -> Iterator[Finding]:
    pending: dict[str, str] = {}
    asked: set[str] = set()
    for message in view.messages:
        if message.role == "tool":
            answer = text(message.body.get("tool_call_id"))
            if answer not in asked:
                yield Finding("O2", message.pointer, f"no call {quote(answer)} in the assistant message before")
            elif pending.pop(answer, None) is None:
                yield Finding("O1", message.pointer, f"call {quote(answer)} was answered, or given up, before")
            continue
        yield from _unanswered(pending)
        pending = {call.id: call.pointer for call in message.calls}
        if message.role == "assistant":
            asked = set(pending)
    yield from _unanswered(pending)


def _unanswered(pending: dict[str, str]) -> Iterator[Finding]:
    for call_id, pointer in pending.items():
        yield Finding("O1", pointer, f"no tool message for call {quote(call_id)} follows at once")


def _counts(view: View, profile: Profile) -> Iterator[Finding]:
    for message in view.messages:
        if len(message.calls) > CALLS_MAX:
            yield Finding("O3", message.pointer, f"{len(message.calls)} calls in a message, more than {CALLS_MAX}")
    if profile.tools_max is not None and len(view.tools) > profile.tools_max:
        yield Finding("O3", "/tools", f"{len(view.tools)} tools, more than {profile.tools_max}")


def _ids(view: View, profile: Profile) -> Iterator[Finding]:
    seen: set[str] = set()
    for call in view.calls():
        yield from _id(call.pointer, call.id, profile)
        if call.id in seen:
            yield Finding("O16", call.pointer, f"call id {quote(call.id)} is used twice")
        seen.add(call.id)
    for message in view.of_role("tool"):
        yield from _id(message.pointer, text(message.body.get("tool_call_id")), profile)


def _id(pointer: str, value: str, profile: Profile) -> Iterator[Finding]:
    if not 1 <= len(value) <= ID_CHARS_MAX:
        yield Finding("O6", pointer, f"a call id of {len(value)} characters, not 1 to {ID_CHARS_MAX}")
    if profile.call_id == "mistral" and not (len(value) == MISTRAL_ID_CHARS and value.isascii() and value.isalnum()):
        yield Finding("O15", pointer, f"call id {quote(value)} is not nine of A-Z a-z 0-9")


def _functions(view: View, profile: Profile) -> Iterator[Finding]:
    yield from misnamed("O7", view.tools, profile)
    yield from misnamed("O7", (Tool(call.pointer, call.name, {}) for call in view.calls()), profile)
    for call in view.calls():
        if not isinstance(call.arguments, str) or (call.is_function and not is_json(call.arguments)):
            yield Finding("O5", call.pointer, "arguments is no string of JSON text")
    cap = profile.tool_description_chars_max
    for tool in view.tools:
        if cap is not None and len(text(tool.body.get("description"))) > cap:
            yield Finding("O10", tool.pointer, f"the description has more than {cap} characters")


# --- content ---


def _content_present(view: View, profile: Profile) -> Iterator[Finding]:
    for message in view.of_role("assistant"):
        content = message.body.get("content")
        if content is None and not message.calls:
            yield Finding("O4", message.pointer, "an assistant message with neither content nor tool_calls")
        elif content is not None and not isinstance(content, str) and not message.parts:
            yield Finding("O4", join(message.pointer, "content"), "content is no string and no list of parts")
        if profile.call_id == "mistral" and not content and not message.calls:
            yield Finding("O15", message.pointer, "an assistant message without content and calls")
    if profile.call_id == "mistral" and view.messages and view.messages[-1].role not in {"user", "tool"}:
        yield Finding("O15", view.messages[-1].pointer, "the last message is neither the user's nor a tool's")


def _part_kinds(view: View, _profile: Profile) -> Iterator[Finding]:
    for message in view.messages:
        for part in message.parts:
            if message.role == "tool" and part.type != "text":
                yield Finding("O8", part.pointer, f"a part of type {quote(part.type)} in a tool message")
            if message.role != "user" and part.type == "image_url":
                yield Finding("O9", part.pointer, f"an image in a message of role {quote(message.role)}")


def _lengths(view: View, _profile: Profile) -> Iterator[Finding]:
    for message in view.messages:
        for part in message.parts:
            if len(text(part.body.get("text"))) > TEXT_CHARS_MAX:
                yield Finding("O11", part.pointer, f"a text of more than {TEXT_CHARS_MAX} characters")
            if len(text(mapping(part.body.get("image_url")).get("url"))) > DATA_URL_CHARS_MAX:
                yield Finding("O11", part.pointer, f"a data URL of more than {DATA_URL_CHARS_MAX} characters")


def _fields(view: View, profile: Profile) -> Iterator[Finding]:
    for message in view.messages:
        known = FIELDS.get(message.role, set(message.body))
        if message.role == "assistant" and profile.reasoning_content != "refused":
            known = known | {"reasoning_content"}
        for name in message.body:
            if name not in known:
                yield Finding("O12", join(message.pointer, str(name)), f"unknown field of a message: {quote(name)}")
    if "prompt_cache_key" in view.request and not profile.cache.key:
        yield Finding("O12", "/prompt_cache_key", f"{profile.id} knows no prompt_cache_key")


def _cache(view: View, profile: Profile) -> Iterator[Finding]:
    parts = [(part.pointer, part.body) for message in view.messages for part in message.parts]
    yield from prompt_cache(view.request, parts, profile)


def _reasoning(view: View, profile: Profile) -> Iterator[Finding]:
    if not profile.reasoning_content.startswith("required"):
        return
    for message in view.of_role("assistant"):
        value = message.body.get("reasoning_content")
        if not isinstance(value, str):
            yield Finding("O14", message.pointer, f"{profile.id} wants reasoning_content on every assistant message")
        elif profile.reasoning_content == "required-nonempty" and not value:
            yield Finding("O14", join(message.pointer, "reasoning_content"), "reasoning_content is empty")


_CHECKS: tuple[Callable[[View, Profile], Iterator[Finding]], ...] = (
    _results_follow,
    _counts,
    _ids,
    _functions,
    _content_present,
    _part_kinds,
    _lengths,
    _fields,
    _cache,
    _reasoning,
)
