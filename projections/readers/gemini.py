"""Reads responses of Gemini's generateContent: of several candidates, the first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .parts import CallPart, ForeignPart, Part, ReasoningPart, ResponseParts, ResultPart, TextPart, Usage, json_text
from .plain import events, mapping, member, number, objects, word

Json = Mapping[str, Any]
PROVIDER = "google"

_SIGNATURE = "thoughtSignature"
_TEXT_FIELDS = frozenset({"text", "thought", _SIGNATURE})
_UNFINISHED = frozenset({"partialArgs", "willContinue"})


def read(response: Any) -> ResponseParts:
    """Read a response, or the chunks of a stream."""
    identity = model = stop = error = None
    usage: Usage | None = None
    raw: list[dict[str, Any]] = []
    for chunk in events(response):
        identity = identity or word(chunk.get("responseId"))
        model = word(chunk.get("modelVersion")) or model
        candidate = next(iter(objects(chunk.get("candidates"))), None)
        stop = word(member(candidate, "finishReason")) or stop
        usage = _usage(mapping(chunk.get("usageMetadata"))) or usage
        error = _error(chunk) or error
        _gather(raw, objects(member(candidate, "content", "parts")))
    return ResponseParts(
        response=identity,
        provider=PROVIDER,
        model=model,
        parts=tuple(_parts(raw, identity or "call")),
        usage=usage,
        stop=stop,
        complete=stop is not None and error is None,
        error=error,
    )


def _error(chunk: Json) -> str | None:
    blocked = word(member(chunk, "promptFeedback", "blockReason"))
    if blocked is not None:
        return f"the prompt was blocked: {blocked}"
    error = mapping(chunk.get("error"))
    return word(error.get("message")) or word(error.get("status"))


def _usage(counts: Json) -> Usage | None:
    """Read the counts: the prompt's includes what was cached, the answer's does not include the thoughts."""
    if not counts:
        return None
    cached = number(counts.get("cachedContentTokenCount"))
    thoughts = number(counts.get("thoughtsTokenCount"))
    return Usage(
        input=max(0, number(counts.get("promptTokenCount")) - cached) + number(counts.get("toolUsePromptTokenCount")),
        cache_read=cached,
        output=number(counts.get("candidatesTokenCount")) + thoughts,
        reasoning=thoughts,
    )


# --- parts ---


def _gather(raw: list[dict[str, Any]], parts: list[Json]) -> None:
    """Add a chunk's parts: a text without signature goes on where the chunk before stopped."""
    for number_, part in enumerate(parts):
        last = raw[-1] if raw else None
        if number_ == 0 and last is not None and _is_open(last) and _is_open(part) and _same_kind(last, part):
            last["text"] += part["text"]
            continue
        made = dict(part)
        if isinstance(made.get(_SIGNATURE), str):
            # The provider's package spells bytes in the alphabet for addresses, the wire in the common one.
            made[_SIGNATURE] = made[_SIGNATURE].replace("-", "+").replace("_", "/")
        raw.append(made)


def _is_open(part: Json) -> bool:
    return isinstance(part.get("text"), str) and not part.keys() - {"text", "thought"}


def _same_kind(one: Json, other: Json) -> bool:
    return bool(one.get("thought")) == bool(other.get("thought"))


def _parts(raw: list[dict[str, Any]], response: str) -> Iterable[Part]:
    running = ""
    for index, part in enumerate(raw):
        id_ = f"{response}:{index}"
        if "executableCode" in part or "toolCall" in part:
            call = _server_call(part, id_)
            running = call.call
            yield call
        elif "toolResponse" in part or ("codeExecutionResult" in part and running):
            yield _server_result(part, running)
        elif "functionCall" in part:
            yield _call(part, id_)
        elif isinstance(part.get("text"), str):
            yield from _text(part)
        elif part:
            yield ForeignPart(json=json_text(part))


def _text(part: dict[str, Any]) -> Iterable[Part]:
    """Read a text. A stream may end in an empty one that carries the signature; without, it says nothing."""
    text, signature = part["text"], word(part.get(_SIGNATURE))
    opaque = json_text(part) if part.keys() - _TEXT_FIELDS else None
    if part.get("thought") or (not text and signature):
        yield ReasoningPart(text=text, signature=signature, opaque=opaque)
    elif text:
        yield TextPart(text=text, signature=signature, opaque=opaque)


def _call(part: dict[str, Any], id_: str) -> Part:
    """Read a call. Without an id of its own it gets one, and its part is kept, so that it goes back without."""
    asked = mapping(part["functionCall"])
    if not asked or not _UNFINISHED.isdisjoint(asked):
        return ForeignPart(json=json_text(part))
    stated = word(asked.get("id"))
    return CallPart(
        call=stated or id_,
        name=word(asked.get("name")) or "",
        input=json_text(asked.get("args") or {}),
        signature=word(part.get(_SIGNATURE)),
        opaque=None if stated else json_text(part),
    )


def _server_call(part: dict[str, Any], id_: str) -> CallPart:
    code, asked = mapping(part.get("executableCode")), mapping(part.get("toolCall"))
    return CallPart(
        call=word(asked.get("id")) or word(code.get("id")) or id_,
        name=word(asked.get("toolType")) or ("codeExecution" if code else "tool"),
        input=json_text(code or asked.get("args") or {}),
        kind="server",
        signature=word(part.get(_SIGNATURE)),
        opaque=json_text(part),
    )


def _server_result(part: dict[str, Any], running: str) -> Part:
    ran, answer = mapping(part.get("codeExecutionResult")), mapping(part.get("toolResponse"))
    call = word(answer.get("id")) or word(ran.get("id")) or running
    if not call:
        return ForeignPart(json=json_text(part))
    failed = ran.get("outcome") not in {None, "OUTCOME_OK"}
    return ResultPart(call=call, json=json_text(part), status="error" if failed else "ok")
