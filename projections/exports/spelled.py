"""JSON text as exports write it: what was kept as it was spelled stays so, and any text can be written."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Raw

from convlog.eventstore.canonical import parse_json
from convlog.eventstore.errors import PayloadRejected
from convlog.eventstore.importers.slices import Fields, fields_of

Json = dict[str, Any]
"""An object to be written; a `Raw` in it is JSON text already."""

_encode = msgspec.json.Encoder().encode


def spell(value: Any) -> bytes:
    """Write a value as JSON; half surrogates, which msgspec refuses, as escapes."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return json.dumps(_plain(value), separators=(",", ":")).encode()


def spell_line(value: Any) -> bytes:
    """Write a value as a line of JSON Lines."""
    return spell(value) + b"\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Raw):
        return parse_json(bytes(value))
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def raw(text: str) -> Raw:
    """Take JSON text as it is spelled."""
    return Raw(text.encode())


def extra_of(body: Any) -> Fields:
    """Give what an event keeps of its source's record beside what it says."""
    text = getattr(body, "extra", None)
    return {} if text is None else fields_of(text.encode()) or {}


def object_of(text: str) -> Raw | Json:
    """Give a call's input as an object; one that is none is wrapped."""
    try:
        if fields_of(text.strip().encode()) is not None and isinstance(parse_json(text), dict):
            return raw(text)
        return {"input": raw(text) if is_json(text) else text}
    except PayloadRejected:
        return {"input": text}


def is_json(text: str) -> bool:
    """Whether a text is a JSON value."""
    try:
        parse_json(text)
    except PayloadRejected:
        return False
    return True
