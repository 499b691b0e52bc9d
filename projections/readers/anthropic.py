"""Reads responses of Anthropic's Messages API."""

from __future__ import annotations

from typing import Any

import msgspec

from .parts import CallPart, ForeignPart, Part, ReasoningPart, ResponseParts, ResultPart, TextPart, Usage, json_text
from .plain import member, number, plain, word

PROVIDER = "anthropic"
SERVER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})


def read(response: Any) -> ResponseParts:
    """Read a whole message, or the events of a stream as far as they came."""
    stream = _Stream()
    for event in response if isinstance(response, list | tuple) else [response]:
        stream.take(plain(event))
    message = stream.message
    return ResponseParts(
        response=word(member(message, "id")),
        provider=PROVIDER,
        model=word(member(message, "model")),
        parts=tuple(
            part
            for index, block in sorted(stream.blocks.items())
            if (part := _part(block, stream.inputs.get(index))) is not None
        ),
        usage=_usage(member(message, "usage")),
        stop=word(member(message, "stop_reason")),
        complete=stream.complete and stream.error is None,
        error=stream.error,
    )


class _Stream:
    """A message that grows with its events; a whole one is a single event."""

    def __init__(self) -> None:
        self.message: dict[str, Any] = {}
        self.blocks: dict[int, dict[str, Any]] = {}
        self.inputs: dict[int, str] = {}
        """The text of streamed tool inputs, as spelled, by block."""
        self.complete = False
        self.error: str | None = None

    def take(self, event: Any) -> None:
        match member(event, "type"):
            case "message":
                self.message = dict(event)
                self._content(event.get("content"))
                self.complete = word(event.get("stop_reason")) is not None
            case "message_start":
                self.message = dict(member(event, "message") or {})
                self._content(self.message.get("content"))
            case "content_block_start":
                self.blocks[number(member(event, "index"))] = dict(member(event, "content_block") or {})
            case "content_block_delta":
                self._delta(number(member(event, "index")), member(event, "delta") or {})
            case "message_delta":
                self.message.update(member(event, "delta") or {})
                usage = {**(self.message.get("usage") or {}), **(member(event, "usage") or {})}
                self.message["usage"] = {name: value for name, value in usage.items() if value is not None}
            case "message_stop":
                self.complete = True
            case "error":
                self.error = word(member(event, "error", "message")) or word(member(event, "error", "type")) or "error"
            case _:
                pass  # ping, content_block_stop, and events yet unknown

    def _content(self, content: Any) -> None:
        blocks = content if isinstance(content, list) else []
        self.blocks = {index: dict(block) for index, block in enumerate(blocks) if isinstance(block, dict)}

    def _delta(self, index: int, delta: dict[str, Any]) -> None:
        block = self.blocks.setdefault(index, {})
        match delta.get("type"):
            case "text_delta":
                block["text"] = _joined(block.get("text"), delta.get("text"))
            case "thinking_delta":
                block["thinking"] = _joined(block.get("thinking"), delta.get("thinking"))
            case "signature_delta":
                block["signature"] = _joined(block.get("signature"), delta.get("signature"))
            case "input_json_delta":
                self.inputs[index] = _joined(self.inputs.get(index), delta.get("partial_json"))
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or []), delta.get("citation")]
            case _:
                # Other deltas name the members that they fill, such as a compaction's content.
                block.update({name: value for name, value in delta.items() if name != "type"})


def _joined(before: Any, more: Any) -> str:
    return (before if isinstance(before, str) else "") + (more if isinstance(more, str) else "")


def _part(block: dict[str, Any], spelled: str | None) -> Part | None:
    kind = word(block.get("type")) or ""
    if kind == "text":
        text = word(block.get("text"))
        says_more = any(block.get(name) for name in block.keys() - {"type", "text"})
        return None if text is None else TextPart(text, opaque=json_text(block) if says_more else None)
    if kind in {"thinking", "redacted_thinking"}:
        signature = word(block.get("signature"))
        sealed = signature or word(block.get("data"))
        # Without its seal it was cut, and is never sent back.
        opaque = json_text(block) if sealed else None
        return ReasoningPart(word(block.get("thinking")) or "", signature, opaque)
    if kind == "tool_use" or kind in SERVER_CALLS:
        return _call(block, spelled)
    if kind.endswith("_tool_result"):
        failed = block.get("is_error") is True or (word(member(block, "content", "type")) or "").endswith("_error")
        return ResultPart(word(block.get("tool_use_id")) or "", json_text(block), "error" if failed else "ok")
    return ForeignPart(json_text(block)) if block else None


def _call(block: dict[str, Any], spelled: str | None) -> CallPart:
    text = spelled or json_text(block.get("input") or {})
    id_, name = word(block.get("id")) or "", word(block.get("name")) or ""
    if block.get("type") not in SERVER_CALLS:
        return CallPart(id_, name, text)
    # A server's call goes back as a whole; one that was cut inside its input never does.
    whole = {**block, "input": msgspec.Raw(text.encode(errors="replace"))} if _is_object(text) else None
    opaque = None if whole is None else json_text(whole)
    return CallPart(id_, name, text, "server", word(block.get("server_name")), opaque=opaque)


def _is_object(text: str) -> bool:
    try:
        msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


def _usage(value: Any) -> Usage | None:
    """Read the counts; `input_tokens` is what no cache holds, beside both cache counts."""
    if not isinstance(value, dict) or not value:
        return None
    return Usage(
        input=number(value.get("input_tokens")),
        cache_read=number(value.get("cache_read_input_tokens")),
        cache_write=number(value.get("cache_creation_input_tokens")),
        output=number(value.get("output_tokens")),
        reasoning=number(member(value, "output_tokens_details", "thinking_tokens")),
    )
