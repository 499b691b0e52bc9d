"""Characters that act on a terminal or hide, written so that a reader sees them."""

from __future__ import annotations

import re

_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 (but tab and newline), DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that turn the direction of writing
    "\u2028\u2029\ud800-\udfff"  # other line ends, half surrogates
)
_in_text = re.compile(f"[{_HIDDEN}]")
_in_line = re.compile(f"[\t\n{_HIDDEN}]")


def visible(text: str) -> str:
    r"""Write hidden characters as `\xNN` or `\uNNNN`; tabs and newlines stay."""
    return _in_text.sub(_spell, text)


def visible_line(text: str) -> str:
    """Do the same for what must stay on one line."""
    return _in_line.sub(_spell, text)


def _spell(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
