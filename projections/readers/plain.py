"""What an SDK hands out, as plain JSON values, and careful reading of such values: they may be anything."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """Give objects as dicts without absent members, tuples as lists, and bytes as base64 text."""
    if hasattr(value, "model_dump"):
        return plain(value.model_dump(by_alias=True, exclude_none=True, warnings=False))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes | bytearray):
        return b64encode(value).decode()
    # Enumerations of words are strings as well.
    return value.value if isinstance(value, str) and hasattr(value, "value") else value


def events(response: Any) -> list[Mapping[str, Any]]:
    """Give the events or chunks of a stream, or the one that a whole response is, as plain values."""
    value = plain(response)
    return objects(value if isinstance(value, list) else [value])


def member(value: Any, *path: str) -> Any:
    """Give a member of nested objects; None where there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def mapping(value: Any) -> Mapping[str, Any]:
    """Give `value` if it is an object, otherwise an empty one."""
    return value if isinstance(value, Mapping) else {}


def objects(value: Any) -> list[Mapping[str, Any]]:
    """Give the objects of a list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


def number(value: Any) -> int:
    """Give a count; 0 for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def word(value: Any) -> str | None:
    """Give a text that is not empty."""
    return value if isinstance(value, str) and value else None
