"""The canonical JSON form "cj1", and the hashes that stand on it.

cj1 is compact UTF-8 JSON with msgspec's escapes, string keys, well-formed text, finite numbers and at most
`DEPTH_MAX` levels. Our own structures are written in declaration order; what came from outside keeps its own order and
number spelling, as text. Stored bytes are hashed as they lie and never encoded again.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any

import msgspec
from blake3 import blake3

from .errors import PayloadRejected, TooLarge

DEPTH_MAX = 200
"""Levels of nesting: far above real tool input, far below the interpreter's recursion limit."""

BODY_BYTES_MAX = 16 * 1024 * 1024
"""Bytes of one event's body and output together; larger things are attachments."""

SALT_BYTES = 16
HEADER_CONTEXT = "convlog 1 header"
BODY_CONTEXT = "convlog 1 body"

_encode = msgspec.json.Encoder().encode
_u64 = struct.Struct("<Q").pack
_body_hasher = blake3(derive_key_context=BODY_CONTEXT)
_header_hasher = blake3(derive_key_context=HEADER_CONTEXT)
"""Copied for each hash: deriving a context's key costs as much as hashing a header."""

# --- values ---


def encode(value: Any) -> bytes:
    """Give the cj1 bytes of `value` (dict with str keys, list, tuple, str, bool, int, finite float, None).

    Raises:
        PayloadRejected: with the JSON pointer of what is not storable.
    """
    check(value)
    return _encode(value)


def check(value: Any, pointer: str = "", depth: int = 0) -> None:
    """Refuse what cj1 cannot hold: msgspec itself would write NaN as null and other types as something else."""
    if depth > DEPTH_MAX:
        raise PayloadRejected(f"nested deeper than {DEPTH_MAX} levels at {pointer[:80] or '/'}")
    if value is None or isinstance(value, bool | int):
        return
    if isinstance(value, str):
        _check_text(value, pointer)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise PayloadRejected(f"{value} at {pointer or '/'} is not a finite number")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise PayloadRejected(f"key {key!r} at {pointer or '/'} is not text")
            _check_text(key, pointer)
            check(item, f"{pointer}/{_escape_pointer(key)}", depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            check(item, f"{pointer}/{index}", depth + 1)
    else:
        raise PayloadRejected(f"{type(value).__name__} at {pointer or '/'} has no JSON form")


def _check_text(text: str, pointer: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PayloadRejected(f"half a surrogate pair at {pointer or '/'}, character {error.start}") from None


def _escape_pointer(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


# --- JSON text from outside ---


def check_json_text(text: str | bytes) -> str:
    """Validate JSON text once, and give it back unchanged, as it will be kept.

    Raises:
        PayloadRejected: no JSON, NaN or Infinity, or nested deeper than `DEPTH_MAX`.
        TooLarge: over `BODY_BYTES_MAX`.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            raise PayloadRejected(f"JSON text is not UTF-8 at byte {error.start}") from None
    if len(text) > BODY_BYTES_MAX:
        raise TooLarge(f"JSON text of {len(text):,} characters; the limit is {BODY_BYTES_MAX:,}")
    if depth_of(text) > DEPTH_MAX:
        raise PayloadRejected(f"JSON text nested deeper than {DEPTH_MAX} levels")
    parse_json(text)
    return text


def depth_of(text: str) -> int:
    """Count the deepest nesting of JSON text without parsing it, so that no parser recurses into a bomb."""
    if text.count("[") + text.count("{") <= DEPTH_MAX:
        return 0
    depth = deepest = 0
    in_string = escaped = False
    for char in text:
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


def parse_json(text: str | bytes) -> Any:
    """Parse JSON text, also where it holds escaped half surrogates, which msgspec cannot read.

    Raises:
        PayloadRejected: no JSON, or a number that is not finite.
    """
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeEncodeError, RecursionError) as error:
        if "\\u" not in (text if isinstance(text, str) else text.decode(errors="replace")):
            raise PayloadRejected(f"not JSON: {error}") from None
    return _parse_with_halves(text)


def _parse_with_halves(text: str | bytes) -> Any:
    import json

    def refuse(word: str) -> None:
        raise PayloadRejected(f"{word} is not a finite number")

    def finite(digits: str) -> float:
        number = float(digits)
        if not math.isfinite(number):
            refuse(digits)
        return number

    try:
        return json.loads(text, parse_constant=refuse, parse_float=finite)
    except (ValueError, RecursionError) as error:
        raise PayloadRejected(f"not JSON: {error}") from None


# --- half surrogates ---


def split_halves(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Replace each half surrogate by U+FFFD and say which stood where: ((UTF-16 index, unit), ...).

    Prompts stay valid Unicode, and `join_halves` gives the original back.
    """
    if is_well_formed(text):
        return text, ()
    # UTF-16 units: two halves that came in as two characters but make a pair become the pair.
    data = bytearray(text.encode("utf-16-le", "surrogatepass"))
    units = struct.unpack(f"<{len(data) // 2}H", data)
    halves: list[tuple[int, int]] = []
    index = 0
    while index < len(units):
        unit = units[index]
        if _is_high(unit) and index + 1 < len(units) and _is_low(units[index + 1]):
            index += 2
            continue
        if _is_high(unit) or _is_low(unit):
            halves.append((index, unit))
            data[2 * index : 2 * index + 2] = b"\xfd\xff"
        index += 1
    return data.decode("utf-16-le"), tuple(halves)


def is_well_formed(text: str) -> bool:
    """Whether a text can be written as UTF-8: it has no half of a surrogate pair."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_high(unit: int) -> bool:
    return 0xD800 <= unit < 0xDC00


def _is_low(unit: int) -> bool:
    return 0xDC00 <= unit < 0xE000


def join_halves(text: str, halves: tuple[tuple[int, int], ...]) -> str:
    """Undo `split_halves`: the text as it came in."""
    if not halves:
        return text
    units = bytearray(text.encode("utf-16-le"))
    for index, unit in halves:
        units[2 * index : 2 * index + 2] = unit.to_bytes(2, "little")
    return bytes(units).decode("utf-16-le", "surrogatepass")


# --- hashes ---


def commitment(salt: bytes, body: bytes, output: bytes | None) -> bytes:
    """Commit to a body and its output under a salt, so that an erased short text cannot be guessed."""
    data = salt + _u64(len(body)) + body + _u64(0 if output is None else len(output) + 1)
    hasher = _body_hasher.copy().update(data)
    return hasher.digest() if output is None else hasher.update(output).digest()


def header(
    thread: str,
    position: int,
    previous: bytes | None,
    parent: int | None,
    head: int,
    refs: bytes | None,
    type_: str,
    version: int,
    recorded_at: int,
    occurred_at: int | None,
    source: bytes,
    key: str | None,
    commitment: bytes,
) -> bytes:
    """Give the bytes that an event's hash is taken of: cj1 of the 14 entries, of which the first is the form's number.

    `refs` and `source` come as the JSON bytes stored in the row.
    """
    return _encode(
        (
            1,
            thread,
            position,
            None if previous is None else previous.hex(),
            parent,
            head,
            None if refs is None else msgspec.Raw(refs),
            type_,
            version,
            recorded_at,
            occurred_at,
            msgspec.Raw(source),
            key,
            commitment.hex(),
        )
    )


def hash_header(data: bytes) -> bytes:
    """Hash a header: the link of the chain."""
    return _header_hasher.copy().update(data).digest()


def digest(data: bytes, context: str) -> bytes:
    """Hash bytes under a domain of their own, so that no digest can stand for another kind's."""
    return blake3(data, derive_key_context=context).digest()


def attachment_hash(data: bytes) -> str:
    """Name bytes by their plain blake3, as any other tool computes it."""
    return blake3(data).hexdigest()


def creation_id(scope: str, key: str) -> str:
    """Give the thread id that a creation key stands for: the first 128 bits of a hash of scope and key."""
    return blake3(encode([scope, key])).hexdigest(length=16)
