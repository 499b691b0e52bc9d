"""Rules A1 to A34: requests to Anthropic's Messages API.

Sources of the rules are Anthropic's SDK types and published error lists, and refusals that users have reported.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..profiles import Profile
from . import images
from .common import (
    Call,
    Finding,
    Json,
    Outline,
    Result,
    Text,
    Tool,
    Turn,
    blank,
    cross_format,
    join,
    malformed,
    mapping,
    misnamed,
    objects,
    quote,
    text,
    too_large,
)

RULES = {
    "A1": "there is a first message and it is the user's, or begins with the provider's compaction block",
    "A2": "neighbouring messages have different roles",
    "A3": "the last message is not the assistant's, unless prefill is allowed or it pauses in a server tool",
    "A4": "a prefilled answer does not end in whitespace and goes without thinking",
    "A5": "every message has content; an assistant message at the end may be empty",
    "A6": "text blocks in system, messages and tool results are not blank",
    "A7": "no cache mark on an empty text block",
    "A8": "every tool_use of an assistant message has its tool_result in the next message",
    "A9": "every tool_result stands in a user message and names a tool_use of the message before",
    "A10": "in a user message the tool_results stand first",
    "A11": "tool_use ids are unique in the request, and one result per id",
    "A12": "ids of tool_use, tool_result and server_tool_use have their alphabets",
    "A13": "declared tool names match the profile's pattern; tool_use names have 1 to 200 characters",
    "A14": "declared tool names are unique",
    "A15": "tool_use.input is an object",
    "A16": "thinking stands in assistant messages with its signature or data; not seen: whether it is unchanged",
    "A17": "with manual thinking the assistant message of an open tool loop begins with thinking",
    "A18": "an assistant message with thinking begins with it",
    "A19": "with thinking off the final assistant message holds none",
    "A20": "signatures go only to the model that made them",
    "A21": "no cache mark on thinking",
    "A22": "no more cache marks than the profile allows, the automatic one counted",
    "A23": "in the order tools, system, messages no 1h mark after a 5m one",
    "A24": "a mark on the last block has the lifetime of the automatic one",
    "A25": "system messages only where the profile has them, after a user message, last or before an assistant, text",
    "A26": "a server tool's result stands after its use in the same assistant message",
    "A27": "one compaction block with content, the first block of the conversation; not seen: whether it is unchanged",
    "A28": "the request is valid JSON: no half surrogates, no NaN",
    "A29": "the body's size and the number of messages are within their limits",
    "A30": "images: media type of the list and true to the bytes, size, sides and number within the profile",
    "A31": "sampling parameters and the kind of thinking are accepted by the model",
    "A32": "budget_tokens is at least 1024 and below max_tokens",
    "A33": "no forced tool choice with thinking on, where the profile says so",
    "A34": "tools are declared when the history has tool blocks",
}

UNCHECKABLE = {"A20": "a request does not say which model made a signature"}

MESSAGES_MAX = 100_000
CALLED_NAME_MAX = 200
BUDGET_TOKENS_MIN = 1024
CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
SERVER_CALL_ID = re.compile(r"srvtoolu_[a-zA-Z0-9_]+")
THINKING = frozenset({"thinking", "redacted_thinking"})
SERVER_USES = frozenset({"server_tool_use", "mcp_tool_use"})


class Block(NamedTuple):
    """One content block; string content counts as one text block at the place of the string."""

    pointer: str
    type: str
    body: Json


class Message(NamedTuple):
    """One entry of `messages`."""

    pointer: str
    role: str
    blocks: list[Block]
    empty: bool


@dataclass(frozen=True, slots=True)
class View:
    """The request, taken apart once for all rules."""

    request: Json
    system: list[Block]
    messages: list[Message]
    tools: list[tuple[str, Json]]
    nested: list[Block]
    """All blocks in request order, those inside a tool result or document before it."""

    @property
    def thinking(self) -> str:
        """The kind of thinking that the request asks for; empty when it says nothing."""
        return text(mapping(self.request.get("thinking")).get("type"))

    def last_assistant(self) -> Message | None:
        """Give the assistant message that stands last."""
        return next((message for message in reversed(self.messages) if message.role == "assistant"), None)


def lint(request: Json, profile: Profile) -> Iterator[Finding]:
    """Find every breach of the X and A rules."""
    view = _view(request)
    yield from cross_format(_outline(view), profile)
    for check in _CHECKS:
        yield from check(view, profile)


# --- taking the request apart ---


def _content(value: Any, pointer: str) -> list[Block]:
    if isinstance(value, str):
        return [Block(pointer, "text", {"type": "text", "text": value})]
    return [Block(at, text(body.get("type")), body) for at, body in objects(value, pointer)]


def _view(request: Json) -> View:
    messages = []
    for pointer, body in objects(request.get("messages"), "/messages"):
        content = body.get("content")
        messages.append(
            Message(pointer, text(body.get("role")), _content(content, join(pointer, "content")), empty=not content)
        )
    system = _content(request.get("system"), "/system")
    nested: list[Block] = []
    for block in [*system, *(block for message in messages for block in message.blocks)]:
        _unfold(block, nested)
    return View(request, system, messages, objects(request.get("tools"), "/tools"), nested)


def _unfold(block: Block, into: list[Block], levels: int = 2) -> None:
    """Append the blocks inside a tool result or document, then the block itself."""
    inner: Any = None
    pointer = join(block.pointer, "content")
    if block.type == "tool_result":
        inner = block.body.get("content")
    elif block.type == "document":
        inner = mapping(block.body.get("source")).get("content")
        pointer = f"{block.pointer}/source/content"
    # Results hold documents, documents hold texts and images; there is no third level. Plain strings may be empty.
    if levels and not isinstance(inner, str):
        for each in _content(inner, pointer):
            _unfold(each, into, levels - 1)
    into.append(block)


def _outline(view: View) -> Outline:
    calls, results = [], []
    for message in view.messages:
        for pointer, kind, body in message.blocks:
            if kind == "tool_use":
                call_id = text(body.get("id"))
                calls.append(Call(pointer, call_id, text(body.get("name")), call_id))
            elif kind == "tool_result":
                results.append(Result(pointer, text(body.get("tool_use_id"))))
    return Outline(
        request=view.request,
        turns=[Turn(message.pointer, message.role, message.empty) for message in view.messages],
        texts=[Text(block.pointer, text(block.body.get("text"))) for block in view.nested if block.type == "text"],
        calls=calls,
        results=results,
        tools=_named_tools(view),
        open_end=bool(view.messages) and _paused(view.messages[-1]),
        open_start=_compacted(view),
    )


def _named_tools(view: View) -> list[Tool]:
    return [Tool(pointer, body["name"], body) for pointer, body in view.tools if isinstance(body.get("name"), str)]


def _is_server_result(block: Block) -> bool:
    return block.type.endswith("_tool_result")


def _paused(message: Message) -> bool:
    """Say whether an assistant message ends in the use of a server tool, to be sent again as it is."""
    if message.role != "assistant" or not message.blocks:
        return False
    last = message.blocks[-1]
    return last.type in SERVER_USES or _is_server_result(last)


def _compacted(view: View) -> bool:
    blocks = view.messages[0].blocks if view.messages else []
    return bool(blocks) and blocks[0].type == "compaction"


# --- messages ---


def _edges(view: View, profile: Profile) -> Iterator[Finding]:
    if not view.messages:
        yield Finding("A1", "", "messages is missing or empty")
        return
    first, last = view.messages[0], view.messages[-1]
    if first.role != "user" and not _compacted(view):
        yield Finding("A1", first.pointer, f"the first message is of role {quote(first.role)}")
    if last.role != "assistant" or _paused(last):
        return
    if not profile.prefill:
        yield Finding("A3", last.pointer, f"{profile.id} refuses a prefilled answer")
        return
    if last.blocks and last.blocks[-1].type == "text" and text(last.blocks[-1].body.get("text"))[-1:].isspace():
        yield Finding("A4", last.blocks[-1].pointer, "a prefilled answer ends in whitespace")
    if _thinks(view, profile):
        yield Finding("A4", last.pointer, "a prefilled answer does not go with thinking")


def _alternation(view: View, _profile: Profile) -> Iterator[Finding]:
    for before, message in zip(view.messages, view.messages[1:], strict=False):
        if before.role == message.role:
            yield Finding("A2", message.pointer, f"two messages of role {quote(message.role)} follow each other")


def _content_present(view: View, _profile: Profile) -> Iterator[Finding]:
    for message in view.messages:
        if message.empty and not (message is view.messages[-1] and message.role == "assistant"):
            yield Finding("A5", message.pointer, "a message without content")
    for block in view.nested:
        if block.type == "text" and blank(text(block.body.get("text"))):
            yield Finding("A6", block.pointer, "a text block without text")
            if block.body.get("cache_control") is not None:
                yield Finding("A7", block.pointer, "a cache mark on an empty text block")


# --- calls and results ---


def _results_follow(view: View, _profile: Profile) -> Iterator[Finding]:
    for index, message in enumerate(view.messages):
        uses = [block for block in message.blocks if block.type == "tool_use"]
        if uses and message.role != "assistant":
            yield Finding("A8", uses[0].pointer, f"a tool_use in a message of role {quote(message.role)}")
        answered = {_id_of(result) for after in view.messages[index + 1 : index + 2] for result in _results(after)}
        for use in uses:
            if _id_of(use) not in answered:
                yield Finding("A8", use.pointer, "no tool_result in the next message")


def _results(message: Message) -> list[Block]:
    return [block for block in message.blocks if block.type == "tool_result"]


def _id_of(block: Block) -> str:
    return text(block.body.get("tool_use_id" if block.type == "tool_result" else "id"))


def _results_have_calls(view: View, _profile: Profile) -> Iterator[Finding]:
    asked: set[str] = set()
    for message in view.messages:
        other = False
        for block in message.blocks:
            if block.type != "tool_result":
                other = True
                continue
            if message.role != "user":
                yield Finding("A9", block.pointer, f"a tool_result in a message of role {quote(message.role)}")
            elif _id_of(block) not in asked:
                yield Finding("A9", block.pointer, "no tool_use of this id in the message before")
            if other:
                yield Finding("A10", block.pointer, "a tool_result after other content")
        asked = {_id_of(block) for block in message.blocks if block.type == "tool_use"}


def _ids(view: View, _profile: Profile) -> Iterator[Finding]:
    seen: Counter[tuple[str, str]] = Counter()
    for message in view.messages:
        for block in message.blocks:
            if block.type in {"tool_use", "tool_result"}:
                yield from _client_id(block, seen)
            elif block.type == "server_tool_use" and SERVER_CALL_ID.fullmatch(_id_of(block)) is None:
                yield Finding(
                    "A12", block.pointer, f"id {quote(_id_of(block))} does not match {SERVER_CALL_ID.pattern}"
                )


def _client_id(block: Block, seen: Counter[tuple[str, str]]) -> Iterator[Finding]:
    call_id = _id_of(block)
    if CALL_ID.fullmatch(call_id) is None:
        yield Finding("A12", block.pointer, f"id {quote(call_id)} does not match {CALL_ID.pattern}")
    seen[block.type, call_id] += 1
    if seen[block.type, call_id] > 1:
        yield Finding("A11", block.pointer, f"a second {block.type} of id {quote(call_id)}")


def _calls(view: View, _profile: Profile) -> Iterator[Finding]:
    for message in view.messages:
        for block in message.blocks:
            if block.type != "tool_use":
                continue
            name = text(block.body.get("name"))
            if not 1 <= len(name) <= CALLED_NAME_MAX:
                yield Finding("A13", block.pointer, f"the name has {len(name)} characters, not 1 to {CALLED_NAME_MAX}")
            if mapping(block.body.get("input")) is not block.body.get("input"):
                yield Finding("A15", block.pointer, "input is no object")


def _tools(view: View, profile: Profile) -> Iterator[Finding]:
    tools = _named_tools(view)
    yield from misnamed("A13", tools, profile)
    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            yield Finding("A14", tool.pointer, f"a second tool of the name {quote(tool.name)}")
        seen.add(tool.name)
    if view.tools:
        return
    for message in view.messages:
        for block in message.blocks:
            if "tool_use" in block.type or "tool_result" in block.type:
                yield Finding("A34", block.pointer, "a tool block in a request that declares no tools")
                return


def _server_tools(view: View, _profile: Profile) -> Iterator[Finding]:
    # Code that calls client tools pauses for their results, so its own result comes in a later message.
    waiting: set[str] = set()
    for message in view.messages:
        uses: dict[str, Block] = {}
        for block in message.blocks:
            if block.type in SERVER_USES:
                uses[_id_of(block)] = block
            elif _is_server_result(block):
                use_id = text(block.body.get("tool_use_id"))
                if message.role != "assistant" or (use_id not in waiting and uses.pop(use_id, None) is None):
                    yield Finding("A26", block.pointer, f"{block.type} without its use before it in the message")
                waiting.discard(use_id)
        callers = {text(mapping(block.body.get("caller")).get("tool_id")) for block in message.blocks}
        waiting |= uses.keys() & callers
        if message is not view.messages[-1]:
            for use_id, use in uses.items():
                if use_id not in callers:
                    yield Finding("A26", use.pointer, "a server tool's use without a result in the message")


# --- thinking ---


def _thinks(view: View, profile: Profile) -> bool:
    return view.thinking in {"enabled", "adaptive", "between_tools"} or (
        not view.thinking and profile.thinks_by_default
    )


def _thinking_blocks(view: View, _profile: Profile) -> Iterator[Finding]:
    for message in view.messages:
        for block in message.blocks:
            if block.type not in THINKING:
                continue
            proof = "signature" if block.type == "thinking" else "data"
            if not text(block.body.get(proof)):
                yield Finding("A16", block.pointer, f"{block.type} without {proof}")
            if message.role != "assistant":
                yield Finding("A16", block.pointer, f"{block.type} in a message of role {quote(message.role)}")
            if block.body.get("cache_control") is not None:
                yield Finding("A21", block.pointer, f"a cache mark on {block.type}")


def _begins_with_thinking(message: Message) -> bool:
    content = [block for block in message.blocks if block.type != "compaction"]
    return bool(content) and content[0].type in THINKING


def _thinking_order(view: View, profile: Profile) -> Iterator[Finding]:
    for message in view.messages:
        if _has_thinking(message) and not _begins_with_thinking(message):
            yield Finding("A18", message.pointer, "thinking stands after other content")
    last = view.last_assistant()
    if last is None:
        return
    in_loop = last is not view.messages[-1] and bool(_results(view.messages[-1]))
    if view.thinking == "enabled" and in_loop and not _begins_with_thinking(last):
        yield Finding("A17", last.pointer, "the message of the open tool loop does not begin with thinking")
    off = view.thinking == "disabled" or (last is view.messages[-1] and not _thinks(view, profile))
    if off and _has_thinking(last):
        yield Finding("A19", last.pointer, "thinking in the final assistant message, and thinking is off")


def _has_thinking(message: Message) -> bool:
    return message.role == "assistant" and any(block.type in THINKING for block in message.blocks)


def _accepted(view: View, profile: Profile) -> Iterator[Finding]:
    if profile.sampling_refused:
        for name in ("temperature", "top_p", "top_k"):
            if name in view.request:
                yield Finding("A31", join("", name), f"{profile.id} refuses {name}")
    if view.thinking and view.thinking not in profile.thinking:
        yield Finding("A31", "/thinking/type", f"{profile.id} refuses thinking of type {quote(view.thinking)}")
    choice = mapping(view.request.get("tool_choice")).get("type")
    if profile.forced_choice_refused_with_thinking and choice in ("any", "tool") and _thinks(view, profile):
        yield Finding("A33", "/tool_choice", f"tool_choice {choice} with thinking on")


def _budget(view: View, _profile: Profile) -> Iterator[Finding]:
    if view.thinking != "enabled":
        return
    budget = mapping(view.request.get("thinking")).get("budget_tokens")
    limit = view.request.get("max_tokens")
    if not (isinstance(budget, int) and budget >= BUDGET_TOKENS_MIN):
        yield Finding("A32", "/thinking", f"budget_tokens is not {BUDGET_TOKENS_MIN} or more")
    elif isinstance(limit, int) and budget >= limit:
        yield Finding("A32", "/thinking/budget_tokens", f"budget_tokens {budget} is not below max_tokens {limit}")


# --- cache marks ---


def _marks(view: View) -> Iterator[tuple[str, str]]:
    """Give pointer and lifetime of every mark, in the order in which prompts are cached."""
    bodies = [*view.tools, *((block.pointer, block.body) for block in view.nested)]
    for pointer, body in bodies:
        if isinstance(body.get("cache_control"), dict):
            yield pointer, _lifetime(body)


def _lifetime(body: Json) -> str:
    return text(mapping(body.get("cache_control")).get("ttl")) or "5m"


def _cache_marks(view: View, profile: Profile) -> Iterator[Finding]:
    marks = list(_marks(view))
    automatic = view.request.get("cache_control") is not None
    if len(marks) + automatic > profile.cache.marks_max:
        yield Finding("A22", marks[-1][0] if marks else "", f"{len(marks) + automatic} cache marks")
    if automatic:
        last = view.messages[-1].blocks[-1:] if view.messages else []
        for block in last:
            if block.body.get("cache_control") is not None and _lifetime(block.body) != _lifetime(view.request):
                yield Finding("A24", block.pointer, "a mark of another lifetime than the automatic one")
        marks.append(("", _lifetime(view.request)))
    short = False
    for pointer, lifetime in marks:
        if lifetime == "1h" and short:
            yield Finding("A23", pointer, "a mark of 1h after one of 5m")
        short = short or lifetime == "5m"


# --- special blocks and limits ---


def _system_messages(view: View, profile: Profile) -> Iterator[Finding]:
    for index, message in enumerate(view.messages):
        if message.role != "system":
            continue
        before = view.messages[index - 1] if index else None
        after = view.messages[index + 1] if index + 1 < len(view.messages) else None
        if not profile.inline_system:
            yield Finding("A25", message.pointer, f"{profile.id} knows no system messages")
        if before is None or not (before.role == "user" or _paused(before)):
            yield Finding("A25", message.pointer, "a system message that follows no user message")
        if after is not None and after.role != "assistant":
            yield Finding("A25", message.pointer, "a system message in the midst, not before an assistant message")
        if any(block.type != "text" for block in message.blocks):
            yield Finding("A25", message.pointer, "a system message with something else than text")


def _compaction(view: View, _profile: Profile) -> Iterator[Finding]:
    # A block with null content records a failed compaction; the provider ignores it.
    found = [
        (message, block)
        for message in view.messages
        for block in message.blocks
        if block.type == "compaction" and block.body.get("content") is not None
    ]
    for index, (message, block) in enumerate(found):
        if index:
            yield Finding("A27", block.pointer, "a second compaction block with content")
        if not block.body.get("content"):
            yield Finding("A27", block.pointer, "a compaction block with empty content")
        if message.role == "system" or message is not view.messages[0] or block is not message.blocks[0]:
            yield Finding("A27", block.pointer, "a compaction block that is not first in the conversation")
    if found and view.messages[-1].role == "assistant":
        yield Finding("A27", view.messages[-1].pointer, "compaction, and the last turn is not finished")


def _json(view: View, _profile: Profile) -> Iterator[Finding]:
    for pointer, message in malformed(view.request):
        yield Finding("A28", pointer, message)


def _size(view: View, profile: Profile) -> Iterator[Finding]:
    yield from too_large("A29", view.request, profile)
    if len(view.messages) > MESSAGES_MAX:
        yield Finding("A29", "/messages", f"{len(view.messages)} messages, more than {MESSAGES_MAX}")


def _images(view: View, profile: Profile) -> Iterator[Finding]:
    found = [block for block in view.nested if block.type == "image"]
    rules = profile.images
    if rules is None:
        yield from (Finding("A30", block.pointer, f"{profile.id} takes no images") for block in found)
        return
    if rules.count_max is not None and len(found) > rules.count_max:
        yield Finding("A30", found[rules.count_max].pointer, f"{len(found)} images, more than {rules.count_max}")
    for block in found:
        source = mapping(block.body.get("source"))
        if source.get("type") == "base64":
            for message in images.faults(text(source.get("media_type")), text(source.get("data")), rules, len(found)):
                yield Finding("A30", block.pointer, message)


_CHECKS: tuple[Callable[[View, Profile], Iterator[Finding]], ...] = (
    _edges,
    _alternation,
    _content_present,
    _results_follow,
    _results_have_calls,
    _ids,
    _calls,
    _tools,
    _server_tools,
    _thinking_blocks,
    _thinking_order,
    _accepted,
    _budget,
    _cache_marks,
    _system_messages,
    _compaction,
    _json,
    _size,
    _images,
)
