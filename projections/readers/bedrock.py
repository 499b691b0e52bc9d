"""Reads responses of Bedrock's Converse and events of ConverseStream. They do not name their model."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Literal

from .parts import CallPart, ForeignPart, Part, ReasoningPart, ResponseParts, ResultPart, TextPart, Usage, json_text
from .plain import events, mapping, member, number, objects, word

Json = Mapping[str, Any]
PROVIDER = "bedrock"

_SERVER = "server_tool_use"


def read(response: Any) -> ResponseParts:
    """Read a whole response or the events of a stream."""
    stream = _Stream()
    for event in events(response):
        stream.take(event)
    return ResponseParts(
        response=stream.response,
        provider=PROVIDER,
        parts=tuple(part for block in stream.content() if (part := _part(block)) is not None),
        usage=stream.usage,
        stop=stream.stop,
        complete=stream.stop is not None and stream.error is None,
        error=stream.error,
    )


class _Stream:
    """A response that grows with its events; a whole one is a single event."""

    def __init__(self) -> None:
        self.response: str | None = None
        self.usage: Usage | None = None
        self.stop: str | None = None
        self.error: str | None = None
        self._whole: list[Json] = []
        self._blocks: dict[int, _Block] = {}

    def take(self, event: Json) -> None:
        for kind, value in event.items():
            match kind:
                case "output":
                    self._whole = objects(member(value, "message", "content"))
                case "ResponseMetadata":
                    self.response = word(member(value, "RequestId"))
                case "stopReason":
                    self.stop = word(value)
                case "usage":
                    self.usage = _usage(mapping(value))
                case "contentBlockStart" | "contentBlockDelta":
                    index = number(member(value, "contentBlockIndex"))
                    self._blocks.setdefault(index, _Block()).take(mapping(value))
                case "messageStop":
                    self.stop = word(member(value, "stopReason"))
                case "metadata":
                    self.usage = _usage(mapping(member(value, "usage")))
                case _ if kind.endswith("Exception"):
                    self.error = f"{kind}: {word(mapping(value).get('message')) or 'no message'}"

    def content(self) -> list[Json]:
        return self._whole or [self._blocks[index].whole() for index in sorted(self._blocks)]


class _Block:
    """One content block, put together from its start and its deltas."""

    def __init__(self) -> None:
        self._start: dict[str, Any] = {}
        self._texts: dict[str, str] = {}
        self._citations: list[Json] = []
        self._result: list[Json] = []
        self._redacted = b""
        self._others: dict[str, dict[str, Any]] = {}

    def take(self, event: Json) -> None:
        self._start.update(mapping(event.get("start")))
        for kind, value in mapping(event.get("delta")).items():
            match kind:
                case "text":
                    self._more("text", value)
                case "toolUse":
                    self._more("input", member(value, "input"))
                case "reasoningContent":
                    self._more("reasoning", member(value, "text"))
                    self._more("signature", member(value, "signature"))
                    self._redacted += b64decode(word(member(value, "redactedContent")) or "")
                case "citation":
                    self._citations.append(mapping(value))
                case "toolResult":
                    self._result.extend(objects(value))
                case _:
                    self._others.setdefault(kind, {}).update(mapping(value))

    def _more(self, name: str, text: Any) -> None:
        if isinstance(text, str):
            self._texts[name] = self._texts.get(name, "") + text

    def whole(self) -> Json:
        """Give the block as a whole response has it, but for a tool's input, which stays text."""
        texts = self._texts
        if "toolUse" in self._start:
            return {"toolUse": {**mapping(self._start["toolUse"]), "input": texts.get("input", "")}}
        if "toolResult" in self._start:
            return {"toolResult": {**mapping(self._start["toolResult"]), "content": self._result}}
        if self._redacted:
            return {"reasoningContent": {"redactedContent": b64encode(self._redacted).decode()}}
        if "reasoning" in texts or "signature" in texts:
            seal = {"signature": texts["signature"]} if "signature" in texts else {}
            return {"reasoningContent": {"reasoningText": {"text": texts.get("reasoning", ""), **seal}}}
        if self._citations:
            said = {"text": texts.get("text", "")}
            return {"citationsContent": {"content": [said], "citations": self._citations}}
        if "text" in texts:
            return {"text": texts["text"]}
        return {kind: {**mapping(self._start.get(kind)), **value} for kind, value in self._others.items()}


# --- parts ---


def _usage(counts: Json) -> Usage | None:
    """Read the counts: `inputTokens` is what no cache holds, apart from both cache counts."""
    if not counts:
        return None
    return Usage(
        input=number(counts.get("inputTokens")),
        cache_read=number(counts.get("cacheReadInputTokens")),
        cache_write=number(counts.get("cacheWriteInputTokens")),
        output=number(counts.get("outputTokens")),
    )


def _part(block: Json) -> Part | None:
    match block:
        case {"text": str(text)}:
            return TextPart(text=text) if text else None
        case {"toolUse": {"toolUseId": str(), "name": str()} as asked}:
            return _call(asked)
        case {"toolResult": {"toolUseId": str(id_)} as answer}:
            failed = answer.get("status") == "error"
            return ResultPart(call=id_, json=json_text(block), status="error" if failed else "ok")
        case {"reasoningContent": {"reasoningText": {"text": str(text)} as said}}:
            return ReasoningPart(text=text, signature=word(said.get("signature")))
        case {"reasoningContent": {"redactedContent": str()}}:
            return ReasoningPart("", opaque=json_text(block))
        case {"citationsContent": {"content": list(content)}} if content:
            text = "".join(word(item.get("text")) or "" for item in objects(content))
            return TextPart(text=text, opaque=json_text(block)) if text else ForeignPart(json=json_text(block))
    return ForeignPart(json=json_text(block)) if block else None


def _call(asked: Json) -> CallPart:
    given = asked.get("input")
    spelled = given if isinstance(given, str) else json_text(given or {})
    kind: Literal["function", "server"] = "server" if asked.get("type") == _SERVER else "function"
    return CallPart(call=asked["toolUseId"], name=asked["name"], input=spelled, kind=kind)
