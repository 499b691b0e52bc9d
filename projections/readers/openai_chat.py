"""Reads responses of OpenAI's Chat Completions API and its dialects: of several choices, the first.

Many providers speak it and none names itself; who made the response is for the caller to say.
"""

from __future__ import annotations

from typing import Any

from .parts import CallPart, ForeignPart, Part, ReasoningPart, ResponseParts, TextPart, Usage, json_text
from .plain import member, number, plain, word

REASONING = ("reasoning_content", "reasoning")
"""The first is DeepSeek's and Kimi's word, the second a router's."""


def read(response: Any) -> ResponseParts:
    """Read a whole completion, or the chunks of a stream as far as they came."""
    stream = _Stream()
    for chunk in response if isinstance(response, list | tuple) else [response]:
        stream.take(plain(chunk))
    return ResponseParts(
        response=stream.response,
        model=stream.model,
        parts=tuple(stream.parts()),
        usage=stream.usage,
        stop=stream.stop,
        complete=stream.stop is not None and stream.error is None,
        error=stream.error,
    )


class _Call:
    """One call, put together from its deltas."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.input = ""
        self.kind = "function"

    def take(self, value: Any) -> None:
        self.id = word(member(value, "id")) or self.id
        for kind, spelled in (("function", "arguments"), ("custom", "input")):
            said = member(value, kind)
            if isinstance(said, dict):
                self.kind = kind
                self.name += word(said.get("name")) or ""
                self.input += word(said.get(spelled)) or ""

    def part(self) -> CallPart:
        return CallPart(self.id, self.name, self.input, "custom" if self.kind == "custom" else "function")


class _Stream:
    """A message that grows with its chunks; a whole one is a single chunk."""

    def __init__(self) -> None:
        self.response: str | None = None
        self.model: str | None = None
        self.usage: Usage | None = None
        self.stop: str | None = None
        self.error: str | None = None
        self._text = ""
        self._reasoning = ""
        self._refusal = ""
        self._calls: dict[int, _Call] = {}
        self._foreign: list[Any] = []

    def take(self, chunk: Any) -> None:
        choices = member(chunk, "choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        self.response = self.response or word(member(chunk, "id"))
        self.model = word(member(chunk, "model")) or self.model
        self.stop = word(member(choice, "finish_reason")) or self.stop
        # Kimi puts the counts of a stream into its last choice.
        self.usage = _usage(member(chunk, "usage")) or _usage(member(choice, "usage")) or self.usage
        self.error = word(member(chunk, "error", "message")) or word(member(chunk, "error")) or self.error
        for said in (member(choice, "message"), member(choice, "delta")):
            if isinstance(said, dict):
                self._hear(said)

    def _hear(self, said: dict[str, Any]) -> None:
        content = said.get("content")
        if isinstance(content, list):
            for part in content:
                text = word(member(part, "text")) if member(part, "type") == "text" else None
                if text is None:
                    self._foreign.append(part)
                self._text += text or ""
        self._text += word(content) or ""
        self._reasoning += next((text for name in REASONING if (text := word(said.get(name)))), "")
        self._refusal += word(said.get("refusal")) or ""
        calls = said.get("tool_calls")
        for place, call in enumerate(calls if isinstance(calls, list) else []):
            index = member(call, "index")
            self._calls.setdefault(index if isinstance(index, int) else place, _Call()).take(call)
        if isinstance(said.get("audio"), dict):
            self._foreign.append({"type": "audio", "audio": said["audio"]})

    def parts(self) -> list[Part]:
        found: list[Part] = []
        if self._reasoning:
            found.append(ReasoningPart(self._reasoning))
        found.extend(ForeignPart(json_text(part)) for part in self._foreign)
        if self._text:
            found.append(TextPart(self._text))
        if self._refusal:
            found.append(ForeignPart(json_text({"type": "refusal", "refusal": self._refusal})))
        found.extend(self._calls[index].part() for index in sorted(self._calls))
        return found


def _usage(value: Any) -> Usage | None:
    """Read the counts; those of the prompt include what was read from a cache and what was written to one."""
    if not isinstance(value, dict) or not value:
        return None
    # DeepSeek counts hits beside the details, Kimi `cached_tokens`.
    read = (
        number(member(value, "prompt_tokens_details", "cached_tokens"))
        or number(value.get("prompt_cache_hit_tokens"))
        or number(value.get("cached_tokens"))
    )
    written = number(member(value, "prompt_tokens_details", "cache_write_tokens"))
    return Usage(
        input=max(0, number(value.get("prompt_tokens")) - read - written),
        cache_read=read,
        cache_write=written,
        output=number(value.get("completion_tokens")),
        reasoning=number(member(value, "completion_tokens_details", "reasoning_tokens")),
    )
