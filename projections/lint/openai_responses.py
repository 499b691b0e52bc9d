"""Rules R1 to R15: requests to OpenAI's Responses API, in its stateless form.

Stateless means `store: false` with the whole history in `input`: only such a request can be derived from events.
Sources of the rules are OpenAI's SDK types and API description, and refusals that users have reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

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
    misnamed,
    objects,
    prompt_cache,
    quote,
    text,
)

RULES = {
    "R1": "every call output has its call earlier in input",
    "R2": "every call has an output",
    "R3": "a reasoning item is followed by an item that the model produced",
    "R4": "an item with a server id (msg_, fc_) has a reasoning item before it in the same response",
    "R5": "store is false, encrypted reasoning is asked for and sent, and no state held by the provider is cited",
    "R6": "ids of items begin with fc_, msg_ or rs_ after their type",
    "R7": "call_id has 1 to 64 characters",
    "R8": "no item id stands twice",
    "R9": "content parts fit the role: input_* for user and developer, output_text and refusal for the assistant",
    "R10": "a reasoning item has a summary, [] if there is none",
    "R11": "encrypted_content is sent back verbatim to its own organisation and model family",
    "R12": "arguments is a string of JSON text, output a string or input_* parts, texts within their limit",
    "R13": "an assistant message in output form has id, status, type and annotations; the easy form has a string",
    "R14": "a function tool has type, name, parameters and strict; tool names match the profile's pattern",
    "R15": "the phase of an assistant message is kept",
}

UNCHECKABLE = {
    "R11": "a request does not show what the provider sent; that something is sent is for R5",
    "R15": "a request does not show whether the provider sent a phase",
}

ID_CHARS_MAX = 64
TEXT_CHARS_MAX = 10_485_760
INCLUDE = "reasoning.encrypted_content"
PREFIXES = {"function_call": "fc_", "message": "msg_", "reasoning": "rs_"}
CALLS = frozenset({"function_call", "custom_tool_call"})
OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
INPUT_PARTS = frozenset({"input_text", "input_image", "input_file"})
OUTPUT_PARTS = frozenset({"output_text", "refusal"})
TOOL_KEYS = ("type", "name", "parameters", "strict")
HELD_STATE = ("previous_response_id", "conversation")


class Item(NamedTuple):
    """One item of `input`; string input counts as one user message."""

    pointer: str
    type: str
    body: Json

    @property
    def role(self) -> str:
        """Who speaks: user, assistant, tool or system."""
        if self.type == "message":
            role = text(self.body.get("role"))
            return "system" if role == "developer" else role
        return "tool" if self.type.endswith("_call_output") else "assistant"

    @property
    def call_id(self) -> str:
        """The id that joins a call and its output."""
        return text(self.body.get("call_id"))


class Part(NamedTuple):
    """One content part of an item; string content counts as one part without a type."""

    pointer: str
    type: str
    body: Json


@dataclass(frozen=True, slots=True)
class View:
    """The request, taken apart once for all rules."""

    request: Json
    items: list[Item]
    parts: list[list[Part]]
    """The content or output parts of each item."""
    tools: list[Tool]

    def of_type(self, *types: str) -> list[Item]:
        """Give the items of these types in order."""
        return [item for item in self.items if item.type in types]


def lint(request: Json, profile: Profile) -> Iterator[Finding]:
    """Find every breach of the X and R rules, and of O13, which both OpenAI formats share."""
    view = _view(request)
    yield from cross_format(_outline(view), profile)
    for check in _CHECKS:
        yield from check(view, profile)


# --- taking the request apart ---


def _view(request: Json) -> View:
    items = []
    value = request.get("input")
    if isinstance(value, str):
        items.append(Item("/input", "message", {"role": "user", "content": value}))
    for pointer, body in objects(value, "/input"):
        items.append(Item(pointer, text(body.get("type")) or "message", body))
    tools = [
        Tool(pointer, body["name"], body)
        for pointer, body in objects(request.get("tools"), "/tools")
        if isinstance(body.get("name"), str)
    ]
    return View(request, items, [_parts(item) for item in items], tools)


def _parts(item: Item) -> list[Part]:
    key = "output" if item.type in OUTPUTS else "content"
    value = item.body.get(key)
    if isinstance(value, str):
        # The string given as the whole input has no member of its own.
        pointer = item.pointer if item.pointer == "/input" else join(item.pointer, key)
        return [Part(pointer, "", {"text": value})]
    return [Part(at, text(body.get("type")), body) for at, body in objects(value, join(item.pointer, key))]


def _outline(view: View) -> Outline:
    calls = view.of_type(*CALLS)
    return Outline(
        request=view.request,
        turns=[
            Turn(item.pointer, item.role, empty=item.type == "message" and not parts)
            for item, parts in zip(view.items, view.parts, strict=True)
        ],
        texts=[
            Text(part.pointer, text(part.body.get("text")))
            for item, parts in zip(view.items, view.parts, strict=True)
            for part in parts
            if _is_text(item, part)
        ],
        calls=[Call(item.pointer, item.call_id, text(item.body.get("name")), item.call_id) for item in calls],
        results=[Result(item.pointer, item.call_id) for item in view.of_type(*OUTPUTS)],
        tools=view.tools,
    )


def _is_text(item: Item, part: Part) -> bool:
    # An empty output of a tool is a fact, and as a plain string the provider takes it.
    return part.type in {"input_text", "output_text"} or (part.type == "" and item.type == "message")


# --- calls and outputs ---


def _pairs(view: View, _profile: Profile) -> Iterator[Finding]:
    asked: set[str] = set()
    for item in view.of_type(*CALLS, *OUTPUTS):
        if item.type in CALLS:
            asked.add(item.call_id)
        elif item.call_id not in asked:
            yield Finding("R1", item.pointer, f"no call {quote(item.call_id)} earlier in input")
    answered = {item.call_id for item in view.of_type(*OUTPUTS)}
    for item in view.of_type(*CALLS):
        if item.call_id not in answered:
            yield Finding("R2", item.pointer, f"no output for call {quote(item.call_id)}")
    for item in view.of_type(*CALLS, *OUTPUTS):
        if not 1 <= len(item.call_id) <= ID_CHARS_MAX:
            yield Finding("R7", item.pointer, f"a call_id of {len(item.call_id)} characters, not 1 to {ID_CHARS_MAX}")


def _arguments(view: View, _profile: Profile) -> Iterator[Finding]:
    for item in view.of_type("function_call"):
        arguments = item.body.get("arguments")
        if not isinstance(arguments, str) or not is_json(arguments):
            yield Finding("R12", item.pointer, "arguments is no string of JSON text")


def _outputs(view: View, _profile: Profile) -> Iterator[Finding]:
    for item, parts in zip(view.items, view.parts, strict=True):
        if item.type in OUTPUTS:
            output = item.body.get("output")
            if not isinstance(output, str | list | tuple) or any(part.type not in INPUT_PARTS | {""} for part in parts):
                yield Finding("R12", item.pointer, "output is neither a string nor a list of input_* parts")
        for part in parts:
            if len(text(part.body.get("text"))) > TEXT_CHARS_MAX:
                yield Finding("R12", part.pointer, f"a text of more than {TEXT_CHARS_MAX} characters")


# --- reasoning and item ids ---


def _reasoning(view: View, _profile: Profile) -> Iterator[Finding]:
    for index, item in enumerate(view.items):
        if item.type != "reasoning":
            continue
        following = view.items[index + 1] if index + 1 < len(view.items) else None
        if following is None or following.role != "assistant":
            yield Finding("R3", item.pointer, "a reasoning item without the item it led to")
        if not isinstance(item.body.get("summary"), list | tuple):
            yield Finding("R10", item.pointer, "a reasoning item without summary")
        if not text(item.body.get("encrypted_content")):
            yield Finding("R5", item.pointer, "a reasoning item without encrypted_content, which nobody else keeps")


def _item_ids(view: View, _profile: Profile) -> Iterator[Finding]:
    seen: set[str] = set()
    reasoned = False
    for item in view.items:
        reasoned = item.role == "assistant" and (reasoned or item.type == "reasoning")
        item_id = item.body.get("id")
        if not isinstance(item_id, str) or item.type == "item_reference":
            continue
        prefix = PREFIXES.get(item.type)
        if prefix is not None and not item_id.startswith(prefix):
            yield Finding("R6", join(item.pointer, "id"), f"id {quote(item_id)} does not begin with {prefix}")
        if item_id in seen:
            yield Finding("R8", join(item.pointer, "id"), f"item id {quote(item_id)} stands twice")
        seen.add(item_id)
        if item.type in {"message", "function_call"} and item.role == "assistant" and not reasoned:
            yield Finding("R4", join(item.pointer, "id"), f"id {quote(item_id)} without its reasoning item before it")


def _stateless(view: View, _profile: Profile) -> Iterator[Finding]:
    if view.request.get("store") is not False:
        yield Finding("R5", "", "store is not false")
    include = view.request.get("include")
    if not isinstance(include, list | tuple) or INCLUDE not in include:
        yield Finding("R5", "", f"include does not ask for {INCLUDE}")
    for name in HELD_STATE:
        if view.request.get(name) is not None:
            yield Finding("R5", join("", name), f"{name} cites state that the provider holds")
    for item in view.of_type("item_reference"):
        yield Finding("R5", item.pointer, "item_reference cites state that the provider holds")


# --- content ---


def _part_kinds(view: View, _profile: Profile) -> Iterator[Finding]:
    for item, parts in zip(view.items, view.parts, strict=True):
        if item.type != "message":
            continue
        allowed = OUTPUT_PARTS if item.role == "assistant" else INPUT_PARTS
        for part in parts:
            if part.type and part.type not in allowed:
                yield Finding("R9", part.pointer, f"a part of type {quote(part.type)} in a message of {item.role}")


def _output_form(view: View, _profile: Profile) -> Iterator[Finding]:
    for item, parts in zip(view.items, view.parts, strict=True):
        if item.type != "message" or item.role != "assistant":
            continue
        easy = isinstance(item.body.get("content"), str)
        if easy and ("id" in item.body or "status" in item.body):
            yield Finding("R13", item.pointer, "an assistant message with id or status and a string as content")
        if easy:
            continue
        missing = [key for key in ("id", "status", "type") if key not in item.body]
        if missing:
            yield Finding("R13", item.pointer, f"an assistant message with parts and without {', '.join(missing)}")
        for part in parts:
            if part.type == "output_text" and not isinstance(part.body.get("annotations"), list | tuple):
                yield Finding("R13", part.pointer, "output_text without annotations")


def _functions(view: View, profile: Profile) -> Iterator[Finding]:
    for tool in view.tools:
        missing = [key for key in TOOL_KEYS if key not in tool.body]
        if tool.body.get("type") == "function" and missing:
            yield Finding("R14", tool.pointer, f"a function tool without {', '.join(missing)}")
    yield from misnamed("R14", view.tools, profile)
    called = (Tool(item.pointer, text(item.body.get("name")), item.body) for item in view.of_type(*CALLS))
    yield from misnamed("R14", called, profile)


def _cache(view: View, profile: Profile) -> Iterator[Finding]:
    parts = [(part.pointer, part.body) for parts in view.parts for part in parts]
    yield from prompt_cache(view.request, parts, profile)


_CHECKS: tuple[Callable[[View, Profile], Iterator[Finding]], ...] = (
    _pairs,
    _arguments,
    _outputs,
    _reasoning,
    _item_ids,
    _stateless,
    _part_kinds,
    _output_form,
    _functions,
    _cache,
)
