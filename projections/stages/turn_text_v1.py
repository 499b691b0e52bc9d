"""Text rules of TurnMemory: whitespace, bounds, the word filter, tool inputs, paths and targets.

The source is a Go program. What its library decides is written out here in full, because the Python functions of the
same purpose answer differently, or differ between Python versions.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import NoReturn

from .segments_v1 import Facts

LIMIT = 256
"""Bytes of a kept string, the mark of a cut included (K17, Q10)."""

CUT = "..."

# Go's unicode.IsSpace. Python's own whitespace also has U+001C to U+001F.
SPACE = (
    "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)

_SPACES = re.compile(f"[{SPACE}]+")
_HALF_SURROGATE = re.compile("[\ud800-\udfff]")

# Go folds K with the Kelvin sign and S with the long s; spelled out, no flag is needed.
_FOLDED = {"k": "[kK\u212a]", "s": "[sS\u017f]"}
_WORDS = ("token", "secret", "password", "passwd", "authorization", "credential")


def _folded(word: str) -> str:
    return "".join(_FOLDED.get(letter, f"[{letter}{letter.upper()}]") for letter in word)


_SENSITIVE = re.compile("|".join([f"{_folded('api')}[_-]?{_folded('key')}", *map(_folded, _WORDS)]))


def trim(text: str) -> str:
    """Take whitespace off both ends."""
    return text.strip(SPACE)


def collapse(text: str) -> str:
    """Make every run of whitespace one space, and trim (K17)."""
    return trim(_SPACES.sub(" ", text))


def cut(text: str, limit: int) -> str:
    """Take the longest beginning of at most `limit` UTF-8 bytes that ends between two characters."""
    data = text.encode()
    return text if len(data) <= limit else data[:limit].decode(errors="ignore")


def bound(text: str, limit: int = LIMIT) -> str:
    """Keep at most `limit` bytes, the mark of a cut included (K17, Q10)."""
    return text if len(text.encode()) <= limit else cut(text, limit - len(CUT)) + CUT


def is_sensitive(text: str) -> bool:
    """Tell whether a word of the filter stands anywhere in the text, inside other words too (K18, Q2)."""
    return _SENSITIVE.search(text) is not None


def kept(text: str) -> str:
    """Collapse, drop when sensitive, bound: what versions 2 to 4 keep of any string (K17, K18)."""
    text = collapse(text)
    return "" if is_sensitive(text) else bound(text)


def _no_constant(name: str) -> NoReturn:
    msg = f"not JSON: {name}"
    raise ValueError(msg)


def _whole(digits: str) -> int:
    _finite(digits)
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        msg = "number out of range"
        raise ValueError(msg)
    return number


_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_int=_whole, parse_float=_finite)


def parsed(raw: str) -> object:
    """Read JSON text; None when it is none.

    A half surrogate becomes U+FFFD, so that every text read can be sent. The depth needs no check: the store refuses
    deep input before it is recorded.
    """
    try:
        value = _DECODER.decode(raw)
        return _well_formed(value) if "\\u" in raw else value
    except (ValueError, RecursionError):
        return None


def _well_formed(value: object) -> object:
    if isinstance(value, str):
        return _HALF_SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_well_formed(item) for item in value]
    if isinstance(value, dict):
        return {_well_formed(key): _well_formed(item) for key, item in value.items()}
    return value


def fields(raw: str) -> dict[str, object]:
    """Read a tool's input: its top-level fields, none when it is no JSON object."""
    value = parsed(raw)
    return value if isinstance(value, dict) else {}


def string(values: Mapping[str, object], name: str) -> str:
    """Read a field; "" when it is missing or no string."""
    value = values.get(name)
    return value if isinstance(value, str) else ""


def exit_code(facts: Facts) -> int | None:
    """Read the stated exit code, truncated to a whole number; None when it is absent, no number or zero (K19)."""
    code = facts.exit_code
    if code is None or isinstance(code, bool) or (isinstance(code, float) and not math.isfinite(code)):
        return None
    return int(code) or None


def clean_path(path: str) -> str:
    """Resolve `.`, `..` and doubled slashes by the text alone; the empty path is `.`."""
    rooted = path.startswith("/")
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part == ".." and rooted:
            continue
        elif part not in ("", "."):
            parts.append(part)
    return ("/" if rooted else "") + "/".join(parts) or "."


def relative_path(path: str, workspace: str) -> str:
    """Say a path as seen from the workspace, `../` and all: version 1's form (K02, Q8).

    A path stays as it is when one of the two is absolute and the other is not, or when either is empty.
    """
    if not path or not workspace:
        return path
    base, target = clean_path(workspace), clean_path(path)
    if base == target:
        return "."
    if base.startswith("/") != target.startswith("/"):
        return path
    above = [part for part in base.split("/") if part not in ("", ".")]
    below = [part for part in target.split("/") if part]
    while above and below and above[0] == below[0]:
        del above[0], below[0]
    if above and above[0] == "..":  # where that leads cannot be told from the text
        return path
    return "/".join([".."] * len(above) + below)


def relativise(path: str, workspace: str) -> str:
    """Say an absolute path inside the workspace as seen from it; leave every other path alone (K16)."""
    if not path.startswith("/"):
        return path
    relative = relative_path(path, workspace)
    return path if relative == ".." or relative.startswith("../") else relative


def join_target(path: str, pattern: str) -> str:
    """Join a search's place and pattern (K13)."""
    if path in ("", "."):
        return pattern
    return f"{path} :: {pattern}" if pattern else path
