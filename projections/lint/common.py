"""What the linters of all formats share: findings, pointers, careful reading of JSON, and the rules X1 to X9.

Each format describes its request once as an `Outline` (who speaks, which calls and results, which texts and tools); the
cross-format rules read only that. A linter must get through any JSON value: what has the wrong type is left out here
and is the business of a schema, not of these rules.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ..profiles import Profile

Json: TypeAlias = Mapping[str, Any]


class Finding(NamedTuple):
    """One breach: the rule's id, an RFC 6901 pointer into the request, and a sentence."""

    rule: str
    pointer: str
    message: str


class Call(NamedTuple):
    """A tool call that the client answers."""

    pointer: str
    id: str | None
    """The id on the wire; None only where the format works without."""
    name: str
    key: str
    """What the result must have for a key to belong to this call: the id, or the place where there is none."""


class Result(NamedTuple):
    """The answer to a call."""

    pointer: str
    key: str


class Turn(NamedTuple):
    """One message: its role is user, assistant, tool or system, whatever the format calls them."""

    pointer: str
    role: str
    empty: bool


class Text(NamedTuple):
    """One text block with its pointer."""

    pointer: str
    text: str


class Tool(NamedTuple):
    """One declared tool that has a name."""

    pointer: str
    name: str
    body: Json


@dataclass(frozen=True, slots=True)
class Outline:
    """The part of a request that the cross-format rules look at."""

    request: Json
    turns: list[Turn]
    texts: list[Text]
    calls: list[Call]
    results: list[Result]
    tools: list[Tool]
    open_end: bool = False
    """The last assistant message may stand last: the provider paused inside it."""
    open_start: bool = False
    """The first message need not be the user's: it begins with the provider's own compaction."""


# --- reading JSON that may be anything ---


def mapping(value: Any) -> Json:
    """Give `value` if it is an object, otherwise an empty one."""
    return value if isinstance(value, Mapping) else {}


def text(value: Any) -> str:
    """Give `value` if it is a string, otherwise an empty one."""
    return value if isinstance(value, str) else ""


def objects(value: Any, pointer: str) -> list[tuple[str, Json]]:
    """Give the objects of a list, each with its pointer."""
    if not isinstance(value, list | tuple):
        return []
    return [(f"{pointer}/{index}", item) for index, item in enumerate(value) if isinstance(item, Mapping)]


def join(pointer: str, key: str) -> str:
    """Give the pointer of member `key` below `pointer` (RFC 6901 escapes)."""
    return f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"


def quote(value: Any) -> str:
    """Give a short form of `value` for a message: printable, at most 60 characters."""
    shown = ascii(value[:60] if isinstance(value, str) else value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def blank(value: str) -> bool:
    """Say whether a text is empty or only whitespace."""
    return not value or value.isspace()


def is_json(value: str) -> bool:
    """Say whether a string is one JSON text."""
    try:
        msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}|[A-Za-z0-9_-]+={0,2}")


def is_base64(value: Any) -> bool:
    """Say whether `value` is base64 text, of the standard or the URL alphabet."""
    return isinstance(value, str) and len(value) % 4 == 0 and _BASE64.fullmatch(value) is not None


def body_bytes(request: Json) -> int:
    """Give the length of the request as JSON; 0 when it has none (X6 says why)."""
    try:
        return len(msgspec.json.encode(request))
    except (UnicodeEncodeError, RecursionError, TypeError):
        return 0


def too_large(rule: str, request: Json, profile: Profile) -> Iterator[Finding]:
    """Find a request that is longer than the profile allows."""
    limit = profile.body_bytes_max
    if limit is not None and (size := body_bytes(request)) > limit:
        yield Finding(rule, "", f"the body has {size} bytes, more than {limit}")


def misnamed(rule: str, tools: Iterable[Tool], profile: Profile) -> Iterator[Finding]:
    """Find declared tools whose name the profile's pattern does not match as a whole."""
    pattern = re.compile(profile.tool_name)
    for tool in tools:
        if pattern.fullmatch(tool.name) is None:
            yield Finding(rule, tool.pointer, f"tool name {quote(tool.name)} does not match {profile.tool_name}")


# --- cross-format rules ---

RULES = {
    "X1": "every tool call has exactly one result and every result a call; where they stand is for the formats' rules",
    "X2": "call ids are unique and of the wire alphabet (1-64 of A-Z a-z 0-9 _ -; Mistral: exactly 9 alphanumerics)",
    "X3": "opaque reasoning goes only to the provider and model that made it",
    "X4": "no empty or blank text block and no empty message",
    "X5": "roles alternate and the user begins, where the profile is strict; the last word is the user's or a result",
    "X6": "all strings are well-formed Unicode and all numbers finite",
    "X7": "tools stand in the order of their names and every tool called in the history is declared; not seen: whether "
    "they changed during the thread",
    "X8": "nothing volatile stands before the newest turn",
    "X9": "a repair neither reorders nor deletes what the model has seen",
}

UNCHECKABLE = {
    "X3": "a request does not say who made an opaque part",
    "X8": "one request does not show what will change in the next",
    "X9": "a request does not show the history it was made from",
}


def cross_format(outline: Outline, profile: Profile) -> Iterator[Finding]:
    """Find the breaches of the X rules."""
    yield from _pairing(outline)
    yield from _ids(outline, profile)
    yield from _emptiness(outline)
    yield from _roles(outline, profile)
    for pointer, message in malformed(outline.request):
        yield Finding("X6", pointer, message)
    yield from _tools(outline)


def _pairing(outline: Outline) -> Iterator[Finding]:
    answers = Counter(result.key for result in outline.results)
    for call in outline.calls:
        if answers[call.key] > 0:
            answers[call.key] -= 1
        else:
            yield Finding("X1", call.pointer, f"call {quote(call.key)} has no result")
    questions = Counter(call.key for call in outline.calls)
    for result in outline.results:
        if questions[result.key] > 0:
            questions[result.key] -= 1
        else:
            yield Finding("X1", result.pointer, f"result {quote(result.key)} has no call left to answer")


_CALL_ID = {"mistral": re.compile(r"[A-Za-z0-9]{9}")}
_CALL_ID_DEFAULT = re.compile(r"[A-Za-z0-9_-]{1,64}")


def _ids(outline: Outline, profile: Profile) -> Iterator[Finding]:
    pattern = _CALL_ID.get(profile.call_id, _CALL_ID_DEFAULT)
    seen: set[str] = set()
    for call in outline.calls:
        if call.id is None:
            continue
        if pattern.fullmatch(call.id) is None:
            yield Finding("X2", call.pointer, f"call id {quote(call.id)} does not match {pattern.pattern}")
        if call.id in seen:
            yield Finding("X2", call.pointer, f"call id {quote(call.id)} is used twice")
        seen.add(call.id)


def _emptiness(outline: Outline) -> Iterator[Finding]:
    for pointer, value in outline.texts:
        if blank(value):
            yield Finding("X4", pointer, "a text block without text")
    for turn in outline.turns:
        if turn.empty:
            yield Finding("X4", turn.pointer, "a message without content")


def _roles(outline: Outline, profile: Profile) -> Iterator[Finding]:
    # Instructions between the messages belong to nobody's turn; where they may stand is for A25.
    talk = [turn for turn in outline.turns if turn.role != "system"]
    if not talk:
        return
    if profile.strict_alternation:
        if talk[0].role != "user" and not outline.open_start:
            yield Finding("X5", talk[0].pointer, f"the first message is of role {talk[0].role}")
        for before, turn in zip(outline.turns, outline.turns[1:], strict=False):
            if before.role == turn.role:
                yield Finding("X5", turn.pointer, f"two messages of role {turn.role} follow each other")
    if talk[-1].role == "assistant" and not (profile.prefill or outline.open_end):
        yield Finding("X5", talk[-1].pointer, "the last message is the assistant's")


def _tools(outline: Outline) -> Iterator[Finding]:
    for before, tool in zip(outline.tools, outline.tools[1:], strict=False):
        if before.name > tool.name:
            yield Finding("X7", tool.pointer, f"tool {quote(tool.name)} stands after {quote(before.name)}")
    declared = {tool.name for tool in outline.tools}
    for call in outline.calls:
        if call.name not in declared:
            yield Finding("X7", call.pointer, f"tool {quote(call.name)} was called and is not declared")


_Path: TypeAlias = "tuple[_Path, str | int] | None"


def malformed(value: Any) -> Iterator[tuple[str, str]]:
    """Give pointer and message of every string that is not well-formed and every number that is not finite."""
    # The path is a linked list, written out only for a finding: the walk stays linear, and no nesting is too deep.
    stack: list[tuple[Any, _Path]] = [(value, None)]
    while stack:
        item, path = stack.pop()
        if isinstance(item, str):
            if not _well_formed(item):
                yield _pointer(path), "half of a surrogate pair"
        elif isinstance(item, float):
            if not math.isfinite(item):
                yield _pointer(path), f"{item} is no JSON number"
        elif isinstance(item, Mapping):
            if not all(_well_formed(key) for key in item):
                yield _pointer(path), "a key with half of a surrogate pair"
            stack.extend((member, (path, key)) for key, member in reversed(list(item.items())))
        elif isinstance(item, list | tuple):
            stack.extend((item[index], (path, index)) for index in reversed(range(len(item))))


def _well_formed(value: Any) -> bool:
    if not isinstance(value, str) or value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _pointer(path: _Path) -> str:
    keys: list[str] = []
    while path is not None:
        path, key = path
        keys.append(join("", str(key)))
    return "".join(reversed(keys))


# --- what Chat and Responses have in common ---


def prompt_cache(request: Json, parts: Iterable[tuple[str, Json]], profile: Profile) -> Iterator[Finding]:
    """Find breaches of O13, the cache controls of OpenAI, in the request and its content parts."""
    options = "prompt_cache_options" in request
    marks = [join(pointer, "prompt_cache_breakpoint") for pointer, part in parts if "prompt_cache_breakpoint" in part]
    if not profile.cache.options:
        for pointer in (["/prompt_cache_options"] if options else []) + marks:
            yield Finding("O13", pointer, f"{profile.id} does not know this cache control")
    if "prompt_cache_retention" in request and (options or marks):
        yield Finding("O13", "/prompt_cache_retention", "not together with prompt_cache_options or breakpoints")
