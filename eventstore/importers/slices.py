"""Foreign JSON as slices of its own text: what is kept is kept as it was spelled, and only what is mapped is decoded.

A slice is a `msgspec.Raw`: the bytes of one JSON value. msgspec cannot read an escaped half of a surrogate pair, not
even to step over it; where one stands, it is masked while the value is cut up, and put back into the slices.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from ..canonical import DEPTH_MAX, parse_json, split_halves
from ..errors import PayloadRejected
from ..events import Halves

Fields = dict[str, Raw]
"""The entries of a JSON object, in order."""

Entries = list[tuple[str, bytes | Raw]]
"""Entries of an object that is to be written."""

Cut = TypeVar("Cut")

_decode_object = msgspec.json.Decoder(Fields).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode
_decode_text: Callable[[bytes | Raw], str | None] = msgspec.json.Decoder(str | None).decode
_encode = msgspec.json.Encoder().encode

_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]")
_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u([dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""Whole pairs, halves (group 1) and all other escapes, so that an escaped backslash begins nothing."""

_COUNT_MAX = 2**53

_MARKS = (b"~", b"^", b"`", b"%", b"@")


def is_too_deep(data: bytes) -> bool:
    """Whether JSON text is nested deeper than `DEPTH_MAX`, found out without parsing it."""
    if data.count(b"[") + data.count(b"{") <= DEPTH_MAX:
        return False
    # Code in strings is full of brackets; only those outside count.
    brackets = _BRACKETS.findall(_STRINGS.sub(b"", data))
    depth = 0
    for bracket in brackets if len(brackets) > DEPTH_MAX else ():
        depth += 1 if bracket in b"[{" else -1
        if depth > DEPTH_MAX:
            return True
    return False


def fields_of(data: bytes | Raw | None) -> Fields | None:
    """Give an object's entries (the last of a doubled key); None for what is no object.

    Raises:
        PayloadRejected: it begins like an object, but is no JSON.
    """
    if data is None or bytes(memoryview(data)[:1]) != b"{":
        return None
    try:
        return _decode_object(data)
    except (msgspec.DecodeError, RecursionError):
        entries, halves = _cut_masked(_decode_object, data)
    return {name: _unmask(value, halves) for name, value in entries.items()}


def items_of(data: bytes | Raw | None) -> list[Raw] | None:
    """Give an array's items; None for what is no array.

    Raises:
        PayloadRejected: it begins like an array, but is no JSON.
    """
    if data is None or bytes(memoryview(data)[:1]) != b"[":
        return None
    try:
        return _decode_array(data)
    except (msgspec.DecodeError, RecursionError):
        items, halves = _cut_masked(_decode_array, data)
    return [_unmask(value, halves) for value in items]


def text_of(data: bytes | Raw | None) -> str | None:
    """Give a string as it is, half surrogates included; None for what is no string."""
    if data is None or bytes(memoryview(data)[:1]) != b'"':
        return None
    try:
        return _decode_text(data)
    except msgspec.DecodeError:
        value = parse_json(bytes(data))
        return value if isinstance(value, str) else None


def clean_text(data: Raw | None) -> tuple[str, Halves] | None:
    """Give a string in the form in which events hold it; None for what is no string."""
    if data is None:
        return None
    try:
        text = _decode_text(data)
    except msgspec.DecodeError:
        text = text_of(data)
        return None if text is None else split_halves(text)
    return None if text is None else (text, ())  # msgspec reads no half surrogates: what it gives is well formed


def name_of(data: Raw | None) -> str | None:
    """Give a string that is used as an id or a name, well formed; None for what is no string."""
    if data is None:
        return None
    try:
        return _decode_text(data)
    except msgspec.DecodeError:
        text = text_of(data)
        return text and split_halves(text)[0]


def is_true(fields: Fields, name: str) -> bool:
    """Whether an entry is there and is `true`."""
    value = fields.get(name)
    return value is not None and bytes(value) == b"true"


def value_of(data: Raw | None) -> Any:
    """Decode a value; None where it is absent."""
    return None if data is None else parse_json(bytes(data))


def count_of(data: Raw | None) -> int:
    """Give a whole number that counts something; 0 for anything else."""
    value = value_of(data)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _COUNT_MAX else 0


def spelled(data: Raw) -> str:
    """Give a value's own JSON text."""
    return bytes(data).decode()


def object_text(entries: Iterable[tuple[str, bytes | Raw]]) -> str | None:
    """Give the JSON text of an object with these entries, as they are spelled; None when there are none."""
    parts = [_label(name) + data for name, data in entries]
    return f"{{{b','.join(parts).decode()}}}" if parts else None


@lru_cache(maxsize=1024)
def _label(name: str) -> bytes:
    return _encode(name) + b":"


def has_doubled_key(data: bytes, fields: Mapping[str, Raw]) -> bool:
    """Whether the object that `fields` were cut from names a key twice at its top level."""
    if not fields:
        return False
    length = len("".join(fields)) + sum(map(len, fields.values())) + 4 * len(fields) + 1
    after_mark = len(next(iter(fields))) + 4
    if data[after_mark : after_mark + 1] == b" ":
        length += 2 * len(fields) - 1
    if len(data) == length:
        return False  # as long as these entries are, written compactly or with one space after each mark
    names: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        names[:] = [name for name, _ in pairs]

    # Numbers are not asked for, and Python refuses to make one of thousands of digits.
    json.loads(bytes(data), object_pairs_hook=note, parse_int=str, parse_float=str)
    return len(set(names)) < len(names)


def _cut_masked(decode: Callable[[bytes], Cut], data: bytes | Raw) -> tuple[Cut, re.Pattern[bytes]]:
    masked, halves = _mask(bytes(data))
    try:
        return decode(masked), halves
    except (msgspec.DecodeError, RecursionError) as error:
        raise PayloadRejected(f"not JSON: {error}") from None


def _mask(data: bytes) -> tuple[bytes, re.Pattern[bytes]]:
    """Write each half surrogate as plain characters, as many as it has, and give the pattern that finds them again.

    Raises:
        PayloadRejected: the text holds no half surrogate, or whatever could stand for one.
    """
    for mark in _MARKS:
        pattern = re.compile(re.escape(mark) + rb"([dD][89a-fA-F][0-9a-fA-F]{2})" + re.escape(mark))
        if pattern.search(data) is None:
            masked = _ESCAPES.sub(lambda match: match[0] if match[1] is None else mark + match[1] + mark, data)  # noqa: B023 - used at once
            if masked != data:
                return masked, pattern
    raise PayloadRejected("not JSON")


def _unmask(data: Raw, halves: re.Pattern[bytes]) -> Raw:
    return Raw(halves.sub(rb"\\u\1", bytes(data)))
