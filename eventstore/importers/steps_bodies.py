"""What the steps of a hand-written conversation say, as events."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from ..canonical import split_halves
from ..errors import ImportFailed
from ..events import (
    Body,
    Facts,
    InputAdded,
    SegmentAdded,
    Source,
    SummaryFailed,
    SummaryInvalidated,
    Text,
    ToolCalled,
    ToolReturned,
    TurnState,
)
from .base import Item, is_name

USER, MODEL, TOOL, SYSTEM, HOST = Source("user"), Source("model"), Source("tool"), Source("system"), Source("host")

STATES: dict[str, TurnState] = {"done": "done", "incomplete": "incomplete", "error": "error", "aborted": "interrupted"}

_UNIT = re.compile(r"\\u([0-9a-fA-F]{4})")

Step = dict[str, Any]


def words(step: Step, name: str) -> str:
    """Give a step's text: plain, with escaped UTF-16 units, or a unit that is said many times."""
    if isinstance(escaped := step.get(f"{name}_escaped"), str):
        return _UNIT.sub(lambda match: chr(int(match[1], 16)), escaped)
    if isinstance(made := step.get(f"{name}_generated"), dict):
        return str(made.get("unit", "")) * int(made.get("times", 1))
    text = step.get(name)
    return text if isinstance(text, str) else ""


def body_of(operation: str, step: Step, args: str) -> Item:
    """Give the event of a step that says something; `args` is a call's input as spelled."""
    text, halves = split_halves(words(step, "output" if operation == "tool_result" else "text"))
    item, needs = _text(step, "item"), _text(step, "needs")
    match operation:
        case "user" | "system":
            role: Literal["user", "system"] = "user" if operation == "user" else "system"
            body: Body = InputAdded(role=role, content=(Text(text, halves),), item=item, needs=needs)
            return Item(body=body, source=USER if operation == "user" else SYSTEM)
        case "assistant":
            stop = _text(step, "stop")
            return Item(body=SegmentAdded(text=text, halves=halves, stop=stop, item=item, needs=needs), source=MODEL)
        case "reasoning":
            body = SegmentAdded(
                kind="reasoning",
                text=text,
                halves=halves,
                signature=_text(step, "signature"),
                item=item,
                needs=needs,
            )
            provider = _text(step, "provider")
            return Item(body=body, source=Source("model", provider=provider if is_name(provider) else None))
        case "tool_call":
            return Item(body=ToolCalled(call=step["call"], name=step["name"], input=args, item=item), source=MODEL)
    meta = step.get("meta")
    status = _text(step, "status") or "ok"
    body = ToolReturned(call=step["call"], status=status, facts=_facts(meta), halves=halves)
    return Item(body=body, source=TOOL, output=text.encode())


def _text(step: Step, name: str) -> str | None:
    value = step.get(name)
    return value if isinstance(value, str) and value else None


def _facts(meta: object) -> Facts | None:
    if not isinstance(meta, dict):
        return None
    code, path = meta.get("exit_code"), meta.get("file_changed")
    return Facts(
        exit_code=code if isinstance(code, int | float) and not isinstance(code, bool) else None,
        file_changed=path if isinstance(path, str) else None,
    )


def again(operation: str, target: str, said: Item, step: Step) -> Item:
    """Say a step again with other words: an edit is by whom it was, another answer is the model's."""
    text, halves = split_halves(words(step, "text"))
    source = said.source if operation == "edit" else MODEL
    refs = (("edits" if operation == "edit" else "regenerates", target),)
    match said.body:
        case InputAdded() as body:
            content = (Text(text, halves),)
            return Item(body=msgspec.structs.replace(body, content=content), source=source, refs=refs)
        case SegmentAdded() as body:
            return Item(body=msgspec.structs.replace(body, text=text, halves=halves), source=source, refs=refs)
        case ToolCalled() as body:
            return Item(body=msgspec.structs.replace(body, input=text), source=source, refs=refs)
        case ToolReturned() as body:
            return Item(
                body=msgspec.structs.replace(body, halves=halves), source=source, refs=refs, output=text.encode()
            )
    raise ImportFailed(f"{target} cannot be said again")


def invalidated(target: str, reason: str) -> Item:
    """Give the event that takes a summary out of use."""
    return Item(
        body=lambda position: SummaryInvalidated(summary=position(target), reason=reason), source=HOST, stands=False
    )


def failed_summary(first: str, last: str, reason: str) -> Item:
    """Give the event of a summary that did not come about."""
    return Item(
        body=lambda position: SummaryFailed(first=position(first), last=position(last), reason=reason),
        source=HOST,
        stands=False,
    )
