"""What all wire formats need alike: ids that fit, texts that are well formed, JSON that is an object."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from blake3 import blake3

from .pieces_v1 import Call, Piece

MISTRAL_ID_CHARS = 9

_ALPHANUMERIC = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_COMMON = re.compile("[A-Za-z0-9_-]{1,64}")

Fits = Callable[[str], bool]
Make = Callable[[str], str]


def fits_common(id_: str) -> bool:
    """X2: 1-64 characters of letters, digits, `_` and `-`."""
    return _COMMON.fullmatch(id_) is not None


def make_common(stored: str) -> str:
    """X2: `call_` and 24 hex digits of the stored id's blake3; replacing characters could make two ids collide."""
    return "call_" + blake3(stored.encode(errors="surrogatepass")).hexdigest()[:24]


def fits_mistral(id_: str) -> bool:
    """O15: exactly nine letters or digits."""
    return len(id_) == MISTRAL_ID_CHARS and id_.isascii() and id_.isalnum()


def make_mistral(stored: str) -> str:
    """O15: nine letters or digits from the stored id's blake3."""
    number = int.from_bytes(blake3(stored.encode(errors="surrogatepass")).digest(), "big")
    chars = []
    for _ in range(MISTRAL_ID_CHARS):
        number, digit = divmod(number, len(_ALPHANUMERIC))
        chars.append(_ALPHANUMERIC[digit])
    return "".join(chars)


def wire_ids(pieces: Sequence[Piece], fits: Fits = fits_common, make: Make = make_common) -> dict[int, str]:
    """Give each call, by its node, an id that is unique in the request and stays as later calls come."""
    ids: dict[int, str] = {}
    taken: set[str] = set()
    for piece in pieces:
        call = piece.element
        if not isinstance(call, Call) or call.node in ids:
            continue
        id_ = call.id if fits(call.id) else make(call.id)
        if id_ in taken:
            # The same id in another turn: the node tells them apart, whatever else is in the request.
            id_ = make(f"{call.id}#{call.node}")
        taken.add(id_)
        ids[call.node] = id_
    return ids


def json_object(text: str) -> tuple[bytes, str]:
    """Give a JSON object's bytes as spelled, and what had to be mended: "" or a reason.

    Text that is no JSON, or no object, becomes an object that holds it (a stream that was cut, a model that erred). No
    text at all is how some models spell no arguments.
    """
    if is_blank(text):
        return b"{}", ""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return _mended(text)
    if isinstance(value, dict):
        return text.strip(" \t\n\r").encode(), ""
    return msgspec.json.encode({"value": value}), "the arguments are no JSON object"


def _mended(text: str) -> tuple[bytes, str]:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return msgspec.json.encode({"text": well_formed(text)}), "the arguments are no JSON"
    # Escaped half surrogates: well-formed JSON for some, refused by every provider (X6).
    value = json.loads(well_formed(json.dumps(value, ensure_ascii=False)))
    if isinstance(value, dict):
        return msgspec.json.encode(value), "X6: half a surrogate pair in the arguments"
    return msgspec.json.encode({"value": value}), "the arguments are no JSON object"


def well_formed(text: str) -> str:
    """Replace half surrogates by U+FFFD (X6)."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        pass
    else:
        return text
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)


_SPACES = (
    " \t\n\r\v\f\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


def is_blank(text: str) -> bool:
    """X4: empty or only white space (listed here, since Python's own list moves with Unicode)."""
    return text[:1] in _SPACES and not text.strip(_SPACES)


def read_object(text: str) -> dict[str, Any] | None:
    """Read an opaque part; None for what no provider can have meant: no JSON, or no object."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def same_model(made: str | None, target: str) -> bool:
    """Say whether a recorded model is the target's: the same name, or the same with a date behind it.

    Providers answer a request for `name` with `name-20260115` or `name-2026-01-15`.
    """
    if made is None or made == target:
        return made == target
    long, short = (made, target) if len(made) > len(target) else (target, made)
    date = long[len(short) + 1 :].replace("-", "")
    return long.startswith(short + "-") and len(date) == _DATE_DIGITS and date.isascii() and date.isdigit()


_DATE_DIGITS = 8


def ends_in_space(text: str) -> bool:
    """Say whether a text ends in white space."""
    return text[-1:] != "" and text[-1] in _SPACES
