"""Reads responses of OpenAI's Responses API."""

from __future__ import annotations

from typing import Any

from .parts import CallPart, ForeignPart, Part, ReasoningPart, ResponseParts, ResultPart, TextPart, Usage, json_text
from .plain import member, number, plain, word

PROVIDER = "openai"
ENDINGS = frozenset({"response.completed", "response.incomplete", "response.failed"})
CALLER_RUNS = frozenset({"apply_patch_call", "computer_call", "local_shell_call", "shell_call"})
"""Calls of tools that the provider defined and the caller runs."""

_SDK_ONLY = frozenset({"parsed", "parsed_arguments"})
"""What the provider's package adds to an item and its server never sent."""
_ASKED = ("arguments", "action", "operation", "code", "queries")
"""Where the items say what was asked."""


def read(response: Any) -> ResponseParts:
    """Read a whole response, or the events of a stream as far as they came."""
    stream = _Stream()
    for event in response if isinstance(response, list | tuple) else [response]:
        stream.take(plain(event))
    header = stream.header
    status = word(member(header, "status"))
    error = stream.error or word(member(header, "error", "message"))
    return ResponseParts(
        response=word(member(header, "id")),
        provider=PROVIDER,
        model=word(member(header, "model")),
        parts=tuple(stream.parts()),
        usage=_usage(member(header, "usage")),
        stop=word(member(header, "incomplete_details", "reason")) or (status if stream.ended else None),
        complete=stream.ended and status in {"completed", "incomplete"} and error is None,
        error=error,
    )


class _Stream:
    """A response that grows with its events; a whole one is a single event."""

    def __init__(self) -> None:
        self.header: dict[str, Any] = {}
        self.ended = False
        self.error: str | None = None
        self._items: dict[int, dict[str, Any]] = {}
        self._done: set[int] = set()
        self._said: dict[int, str] = {}
        """What came of an item that is not done: its text, arguments or summary."""

    def take(self, event: Any) -> None:
        kind = word(member(event, "type")) or ""
        index = number(member(event, "output_index"))
        if member(event, "object") == "response":
            self._take_response(event)
            self.ended = member(event, "status") in {"completed", "incomplete", "failed", "cancelled"}
        elif isinstance(member(event, "response"), dict):
            self._take_response(event["response"])
            self.ended = self.ended or kind in ENDINGS
        elif kind in {"response.output_item.added", "response.output_item.done"}:
            self._items[index] = dict(member(event, "item") or {})
            if kind.endswith("done"):
                self._done.add(index)
        elif kind.endswith(".delta"):
            self._said[index] = self._said.get(index, "") + (word(member(event, "delta")) or "")
        elif kind == "error":
            self.error = word(member(event, "message")) or word(member(event, "code")) or "error"

    def _take_response(self, response: Any) -> None:
        self.header = dict(response)
        output = self.header.pop("output", None)
        for index, item in enumerate(output if isinstance(output, list) else []):
            if isinstance(item, dict):
                self._items[index] = item
                self._done.add(index)

    def parts(self) -> list[Part]:
        """Give the parts in order; each needs the reasoning that came before it in the same response."""
        found: list[Part] = []
        needs: str | None = None
        for index in sorted(self._items):
            item = {name: value for name, value in self._items[index].items() if name not in _SDK_ONLY}
            part = _part(item, needs) if index in self._done else _cut(item, self._said.get(index, ""))
            if part is not None:
                found.append(part)
            if item.get("type") == "reasoning" and index in self._done:
                needs = word(item.get("id"))
        return found


def _part(item: dict[str, Any], needs: str | None) -> Part | None:
    kind, id_ = word(item.get("type")) or "", word(item.get("id"))
    match kind:
        case "message":
            return _message(item, id_, needs)
        case "reasoning":
            text = "\n\n".join(_texts(item.get("summary")) or _texts(item.get("content")))
            return ReasoningPart(text, word(item.get("encrypted_content")), json_text(item), id_)
        case "function_call" | "custom_tool_call":
            return _call(item, needs)
        case _ if kind in CALLER_RUNS:
            call = word(item.get("call_id")) or id_ or ""
            return CallPart(
                call, kind.removesuffix("_call"), _asked(item), opaque=json_text(item), item=id_, needs=needs
            )
        case _ if kind.endswith("_call"):
            return _server_call(item, kind, id_, needs)
        case _ if kind.endswith("_call_output") and word(item.get("call_id")):
            return ResultPart(item["call_id"], json_text(item), "error" if item.get("status") == "failed" else "ok")
    return ForeignPart(json_text(item), id_, needs) if item else None


def _message(item: dict[str, Any], id_: str | None, needs: str | None) -> Part | None:
    content = [
        {name: value for name, value in part.items() if name not in _SDK_ONLY} if isinstance(part, dict) else part
        for part in item.get("content") or []
    ]
    text = "".join(_texts(content))
    if not text:
        return None
    return TextPart(text, opaque=json_text({**item, "content": content}), item=id_, needs=needs)


def _texts(parts: Any) -> list[str]:
    found = [word(member(part, "text")) or word(member(part, "refusal")) for part in parts or []]
    return [text for text in found if text]


def _call(item: dict[str, Any], needs: str | None, spelled: str | None = None) -> CallPart:
    is_custom = item.get("type") == "custom_tool_call"
    asked = item.get("input" if is_custom else "arguments")
    return CallPart(
        word(item.get("call_id")) or word(item.get("id")) or "",
        word(item.get("name")) or "",
        spelled or (asked if isinstance(asked, str) else ""),
        "custom" if is_custom else "function",
        opaque=json_text(item) if item.get("namespace") else None,
        item=word(item.get("id")),
        needs=needs,
    )


def _server_call(item: dict[str, Any], kind: str, id_: str | None, needs: str | None) -> CallPart:
    return CallPart(
        id_ or word(item.get("call_id")) or "",
        word(item.get("name")) or kind.removesuffix("_call"),
        _asked(item),
        "server",
        word(item.get("server_label")),
        opaque=json_text(item),
        item=id_,
        needs=needs,
    )


def _asked(item: dict[str, Any]) -> str:
    asked: Any = next((item[name] for name in _ASKED if item.get(name)), {})
    return asked if isinstance(asked, str) else json_text(asked)


def _cut(item: dict[str, Any], said: str) -> Part | None:
    """Give what came of an item before the stream broke: never its seal, which may be incomplete (R11), nor its id."""
    match item.get("type"):
        case "message":
            return TextPart(said) if said else None
        case "reasoning":
            return ReasoningPart(said) if said else None
        case "function_call" | "custom_tool_call":
            call = _call(item, None, said)
            return CallPart(call.call, call.name, call.input, call.kind)
    return None


def _usage(value: Any) -> Usage | None:
    """Read the counts; those of the input include what was read from a cache and what was written to one."""
    if not isinstance(value, dict) or not value:
        return None
    read = number(member(value, "input_tokens_details", "cached_tokens"))
    written = number(member(value, "input_tokens_details", "cache_write_tokens"))
    return Usage(
        input=max(0, number(value.get("input_tokens")) - read - written),
        cache_read=read,
        cache_write=written,
        output=number(value.get("output_tokens")),
        reasoning=number(member(value, "output_tokens_details", "reasoning_tokens")),
    )
