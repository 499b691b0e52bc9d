"""Rules G1 to G16: requests to Gemini's generateContent, as the JSON body of its REST form.

Sources of the rules are Google's SDK types and pages on thought signatures, and refusals that users have reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
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
    is_base64,
    join,
    mapping,
    misnamed,
    objects,
    quote,
    text,
    too_large,
)

RULES = {
    "G1": "contents is not empty and its roles are user and model",
    "G2": "every content has parts and every part exactly one data field",
    "G3": "texts are not empty, save a part that carries a signature",
    "G4": "the content after n function calls has exactly n function responses",
    "G5": "a function-call content follows a user or function-response content and is not first",
    "G6": "function responses directly follow their calls, alone in their content",
    "G7": "the last content is the user's",
    "G8": "neighbouring contents have different roles",
    "G9": "in the current turn the first call of each step carries thoughtSignature and the further ones none; not "
    "seen: whether the signature is the one that came with the call",
    "G10": "signatures are base64, in model contents, each on one part; not seen: whether text was merged into a part",
    "G11": "the sentinel that skips validation stands only on the first call of a step; not seen: who made a call",
    "G12": "args and response are objects, names agree, a call's id is echoed",
    "G13": "declared and called function names match the profile's pattern",
    "G14": "no systemInstruction, tools or toolConfig beside cachedContent",
    "G15": "fields are in camelCase and enum values in capitals",
    "G16": "the body's size is within the profile's limit",
}

UNCHECKABLE: dict[str, str] = {}

SENTINEL = "skip_thought_signature_validator"
DATA_FIELDS = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)
FREE_FIELDS = frozenset(
    {"args", "response", "parametersJsonSchema", "responseJsonSchema", "labels", "partMetadata", "properties"}
)
"""Fields whose keys belong to the user and not to the provider."""
ENUMS = (
    ("toolConfig", "functionCallingConfig", "mode"),
    ("generationConfig", "thinkingConfig", "thinkingLevel"),
    ("generationConfig", "mediaResolution"),
)
CAPITALS = re.compile(r"[A-Z0-9_]+")


class Part(NamedTuple):
    """One part, with those of its fields that are data."""

    pointer: str
    body: Json
    data: tuple[str, ...]

    @property
    def signature(self) -> Any:
        """The part's `thoughtSignature`; None when it has none."""
        return self.body.get("thoughtSignature")


class Content(NamedTuple):
    """One entry of `contents`."""

    pointer: str
    role: str
    parts: list[Part]

    def having(self, field: str) -> list[Part]:
        """Give the parts that have this data field."""
        return [part for part in self.parts if field in part.data]


@dataclass(frozen=True, slots=True)
class View:
    """The request, taken apart once for all rules."""

    request: Json
    contents: list[Content]
    system: Content
    tools: list[Tool]

    def steps(self) -> list[tuple[Content, list[Part]]]:
        """Give the contents with function calls, and those calls."""
        found = ((content, content.having("functionCall")) for content in self.contents)
        return [(content, calls) for content, calls in found if calls]


def lint(request: Json, profile: Profile) -> Iterator[Finding]:
    """Find every breach of the X and G rules."""
    view = _view(request)
    yield from cross_format(_outline(view), profile)
    for check in _CHECKS:
        yield from check(view, profile)


# --- taking the request apart ---


def _content(body: Json, pointer: str) -> Content:
    parts = [
        Part(at, part, tuple(field for field in DATA_FIELDS if field in part))
        for at, part in objects(body.get("parts"), join(pointer, "parts"))
    ]
    return Content(pointer, text(body.get("role")), parts)


def _view(request: Json) -> View:
    contents = [_content(body, pointer) for pointer, body in objects(request.get("contents"), "/contents")]
    tools = [
        Tool(pointer, declared["name"], declared)
        for at, body in objects(request.get("tools"), "/tools")
        for pointer, declared in objects(body.get("functionDeclarations"), join(at, "functionDeclarations"))
        if isinstance(declared.get("name"), str)
    ]
    system = _content(mapping(request.get("systemInstruction")), "/systemInstruction")
    return View(request, contents, system, tools)


def _outline(view: View) -> Outline:
    roles = {"model": "assistant"}
    return Outline(
        request=view.request,
        turns=[
            Turn(content.pointer, roles.get(content.role, content.role), empty=not content.parts)
            for content in view.contents
        ],
        texts=[
            Text(part.pointer, text(part.body["text"]))
            for content in [view.system, *view.contents]
            for part in content.having("text")
            if part.signature is None
        ],
        calls=_calls(view),
        results=_results(view),
        tools=view.tools,
    )


def _calls(view: View) -> list[Call]:
    calls = []
    for content, parts in view.steps():
        for number, part in enumerate(parts):
            call = mapping(part.body["functionCall"])
            call_id = call["id"] if isinstance(call.get("id"), str) else None
            key = call_id if call_id is not None else f"{content.pointer}#{number}"
            calls.append(Call(part.pointer, call_id, text(call.get("name")), key))
    return calls


def _results(view: View) -> list[Result]:
    """Give the responses; one without id answers the call at the same place of the content before."""
    results = []
    before = view.system
    for content in view.contents:
        for number, part in enumerate(content.having("functionResponse")):
            response = mapping(part.body["functionResponse"])
            key = response["id"] if isinstance(response.get("id"), str) else f"{before.pointer}#{number}"
            results.append(Result(part.pointer, key))
        before = content
    return results


# --- contents and parts ---


def _contents(view: View, _profile: Profile) -> Iterator[Finding]:
    if not view.contents:
        yield Finding("G1", "", "contents is missing or empty")
        return
    for content in view.contents:
        if content.role not in {"user", "model"}:
            yield Finding("G1", content.pointer, f"a content of role {quote(content.role)}")
    for before, content in zip(view.contents, view.contents[1:], strict=False):
        if before.role == content.role:
            yield Finding("G8", content.pointer, f"two contents of role {quote(content.role)} follow each other")
    if view.contents[-1].role != "user":
        yield Finding("G7", view.contents[-1].pointer, "the last content is not the user's")


def _parts(view: View, _profile: Profile) -> Iterator[Finding]:
    for content in view.contents:
        if not content.parts:
            yield Finding("G2", content.pointer, "a content without parts")
        for part in content.parts:
            if len(part.data) != 1:
                yield Finding("G2", part.pointer, f"a part with {len(part.data)} data fields, not one")
            # Streams close with an empty text that carries the signature; losing it breaks the chain of thought.
            if "text" in part.data and not part.body["text"] and part.signature is None:
                yield Finding("G3", part.pointer, "an empty text")


# --- calls and responses ---


def _order(view: View, _profile: Profile) -> Iterator[Finding]:
    before: Content | None = None
    for content in view.contents:
        asked = before.having("functionCall") if before is not None else []
        answers = content.having("functionResponse")
        if asked and len(answers) != len(asked):
            yield Finding("G4", content.pointer, f"{len(answers)} function responses after {len(asked)} function calls")
        if answers and not asked:
            yield Finding("G6", content.pointer, "function responses that follow no function calls")
        if answers and len(answers) != len(content.parts):
            yield Finding("G6", content.pointer, "function responses beside other parts")
        if content.having("functionCall") and (before is None or before.role != "user"):
            yield Finding("G5", content.pointer, "function calls that follow neither the user nor function responses")
        before = content
    if before is not None and before.having("functionCall"):
        yield Finding("G4", before.pointer, "function calls without the content of their responses")


def _pairs(view: View, _profile: Profile) -> Iterator[Finding]:
    for before, content in zip(view.contents, view.contents[1:], strict=False):
        calls = [mapping(part.body["functionCall"]) for part in before.having("functionCall")]
        by_id = {call["id"]: call for call in calls if isinstance(call.get("id"), str)}
        for number, part in enumerate(content.having("functionResponse")):
            response = mapping(part.body["functionResponse"])
            by_place = calls[number] if number < len(calls) else {}
            call = by_id.get(text(response.get("id")), by_place)
            if text(call.get("name")) != text(response.get("name")):
                yield Finding(
                    "G12", part.pointer, f"the response is named {quote(response.get('name'))}, not as its call"
                )
            if "id" in call and response.get("id") != call["id"]:
                yield Finding("G12", part.pointer, f"the response does not echo the id {quote(call['id'])}")


def _values(view: View, _profile: Profile) -> Iterator[Finding]:
    for content in view.contents:
        for field, member in (("functionCall", "args"), ("functionResponse", "response")):
            for part in content.having(field):
                value = mapping(part.body[field]).get(member, {} if member == "args" else None)
                if mapping(value) is not value:
                    yield Finding("G12", part.pointer, f"{member} is no object")


def _names(view: View, profile: Profile) -> Iterator[Finding]:
    yield from misnamed("G13", view.tools, profile)
    yield from misnamed("G13", (Tool(call.pointer, call.name, {}) for call in _calls(view)), profile)


# --- thought signatures ---


def _current_turn(view: View, profile: Profile) -> Iterator[Finding]:
    if not profile.thought_signatures:
        return
    spoken = [
        index
        for index, content in enumerate(view.contents)
        if content.role == "user" and len(content.having("functionResponse")) < len(content.parts)
    ]
    current = {content.pointer for content in view.contents[spoken[-1] if spoken else 0 :]}
    for content, calls in view.steps():
        if content.pointer not in current:
            continue
        if not calls[0].signature:
            yield Finding(
                "G9", calls[0].pointer, "the first call of a step of the current turn has no thoughtSignature"
            )
        for part in calls[1:]:
            if part.signature:
                yield Finding("G9", part.pointer, "a further call of a step has a thoughtSignature")


def _signatures(view: View, _profile: Profile) -> Iterator[Finding]:
    first = {calls[0].pointer for _content, calls in view.steps()}
    seen: set[str] = set()
    for content in [view.system, *view.contents]:
        for part in content.parts:
            signature = part.signature
            if signature is None:
                continue
            if content.role != "model":
                yield Finding("G10", part.pointer, "a thoughtSignature outside a model content")
            if signature == SENTINEL:
                if part.pointer not in first:
                    yield Finding("G11", part.pointer, "the sentinel stands elsewhere than on the first call of a step")
            elif not is_base64(signature):
                yield Finding("G10", part.pointer, "a thoughtSignature that is no base64 text")
            elif signature in seen:
                yield Finding("G10", part.pointer, "a thoughtSignature that stands on an earlier part too")
            seen.add(text(signature))


# --- the body ---


def _cached_content(view: View, _profile: Profile) -> Iterator[Finding]:
    if view.request.get("cachedContent") is None:
        return
    for name in ("systemInstruction", "tools", "toolConfig"):
        if name in view.request:
            yield Finding("G14", join("", name), f"{name} beside cachedContent, which has its own")


def _spelling(view: View, _profile: Profile) -> Iterator[Finding]:
    stack: list[tuple[Any, str]] = [(view.request, "")]
    while stack:
        value, pointer = stack.pop()
        if isinstance(value, list | tuple):
            stack.extend((item, f"{pointer}/{index}") for index, item in enumerate(value))
        for key, member in mapping(value).items():
            at = join(pointer, str(key))
            if "_" in str(key):
                yield Finding("G15", at, f"field {quote(key)} is not in camelCase")
            if key not in FREE_FIELDS and isinstance(member, Mapping | list | tuple):
                stack.append((member, at))


def _enums(view: View, _profile: Profile) -> Iterator[Finding]:
    values = [("/".join(("", *path)), _member(view.request, path)) for path in ENUMS]
    schemas = [(f"{tool.pointer}/parameters", tool.body.get("parameters")) for tool in view.tools]
    schemas.append(("/generationConfig/responseSchema", _member(view.request, ("generationConfig", "responseSchema"))))
    for pointer, value in [*values, *_types(schemas)]:
        if isinstance(value, str) and CAPITALS.fullmatch(value) is None:
            yield Finding("G15", pointer, f"enum value {quote(value)} is not in capitals")


def _types(schemas: list[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Give every `type` of OpenAPI schemas, at all levels; the keys of `properties` are the user's."""
    while schemas:
        pointer, value = schemas.pop()
        schema = mapping(value)
        if "type" in schema:
            yield f"{pointer}/type", schema["type"]
        for name, member in mapping(schema.get("properties")).items():
            schemas.append((join(f"{pointer}/properties", str(name)), member))
        if "items" in schema:
            schemas.append((f"{pointer}/items", schema["items"]))
        schemas.extend(objects(schema.get("anyOf"), f"{pointer}/anyOf"))


def _member(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        value = mapping(value).get(key)
    return value


def _size(view: View, profile: Profile) -> Iterator[Finding]:
    yield from too_large("G16", view.request, profile)


_CHECKS: tuple[Callable[[View, Profile], Iterator[Finding]], ...] = (
    _contents,
    _parts,
    _order,
    _pairs,
    _values,
    _names,
    _current_turn,
    _signatures,
    _cached_content,
    _spelling,
    _enums,
    _size,
)
