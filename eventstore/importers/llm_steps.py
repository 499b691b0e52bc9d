"""What is read of `llm`'s log, step by step."""

from __future__ import annotations

from typing import Any

import msgspec

from ..events import Usage
from .databases import Row
from .lines import Record
from .llm_messages import Message, value_of_text
from .times import microseconds


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a model: a row of `responses`, or of `turns`."""

    id: str
    model: str | None
    usage: Usage | None
    at: int | None
    """Microseconds UTC."""


class Step(Record, frozen=True):
    """A message, a call, or another record of a conversation."""

    kind: str = ""
    """message, call, kept, select, or end."""
    thread: str = ""
    id: str = ""
    title: str | None = None
    continues: tuple[str, str] | None = None
    message: Message | None = None
    call: Call | None = None
    tools: tuple[Row, ...] | None = None
    """The tools that are offered from this message on, where they are others than before."""
    is_last: bool = False
    """Nothing will ask for its thread again."""
    counts: bool = True


def call_of(row: Row) -> Call:
    """Read what a row says of its call."""
    details = value_of_text(row.get("token_details"))
    usage = None
    if row.get("input_tokens") is not None or row.get("output_tokens") is not None:
        cached, reasoning = _detail(details, "cached_tokens"), _detail(details, "reasoning_tokens")
        whole = _count(row.get("input_tokens"))
        usage = Usage(
            input=max(whole - cached, 0),
            cache_read=min(cached, whole),
            output=_count(row.get("output_tokens")),
            reasoning=reasoning,
        )
    model = row.get("resolved_model") or row.get("model")
    return Call(id=str(row["id"]), model=model, usage=usage, at=time_of(row.get("datetime_utc")))


def time_of(text: Any) -> int | None:
    """Read a time; one that names no zone is in UTC, as its column says."""
    if not isinstance(text, str):
        return None
    found = microseconds(text)
    return microseconds(f"{text}+00:00") if found is None else found


def _count(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**53 else 0


def _detail(details: Any, name: str) -> int:
    """Find a number in the provider's own words, which lie one or two objects deep."""
    if not isinstance(details, dict):
        return 0
    values = [value for value in details.values() if isinstance(value, dict)]
    return next((_count(said[name]) for said in (details, *values) if name in said), 0)
