"""Text for terminals: one filter for what was stored, widths, tables, times. Pure."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convlog.eventstore.backend import ThreadRow

_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 (but tab and newline), DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that turn the direction of writing
    "\u2028\u2029"  # line ends that terminals and grep disagree on
    "\ud800-\udfff"  # half surrogates, which no terminal can be sent
)
_HIDDEN_IN_TEXT = re.compile(f"[{_HIDDEN}]")
_HIDDEN_IN_LINE = re.compile(f"[\t\n{_HIDDEN}]")
_HIDDEN_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029]")
"""JSON's own escapes cover the rest."""


def visible(text: str) -> str:
    r"""Write characters that act on a terminal, or hide, as `\xNN` or `\uNNNN`; tabs and newlines stay."""
    return text if text.isascii() and text.isprintable() else _HIDDEN_IN_TEXT.sub(_spell, text)


def visible_line(text: str) -> str:
    """Do the same for what must stay on one line: names, ids, paths."""
    return text if text.isascii() and text.isprintable() else _HIDDEN_IN_LINE.sub(_spell, text)


def visible_json(text: str) -> str:
    """Escape, within JSON text, what its encoder leaves raw; it still means the same."""
    return text if text.isascii() and text.isprintable() else _HIDDEN_IN_JSON.sub(_escape, text)


def _spell(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"


def gist(text: str) -> str:
    """Give a text as one line: runs of white space become one space."""
    return visible_line(" ".join(text[:4000].split()))


# --- widths ---


def width(text: str) -> int:
    """Give the columns that a terminal takes for a line."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def fit(text: str, columns: int) -> str:
    """Cut a line to some columns, with an ellipsis where something is left out."""
    if width(text) <= columns:
        return text
    used, kept = 0, []
    for char in text:
        used += _columns(char)
        if used > columns - 1:
            break
        kept.append(char)
    return "".join(kept) + "…" if columns > 0 else ""


def fit_end(text: str, columns: int) -> str:
    """Cut a line to some columns at its beginning."""
    return fit(text[::-1], columns)[::-1]


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """Fill a line with spaces up to some columns."""
    space = " " * (columns - width(text))
    return space + text if right else text + space


def table(
    rows: Sequence[Sequence[str]], *, head: Sequence[str], columns: int, elastic: int, right: Collection[str] = ()
) -> str:
    """Align cells under their heads; the `elastic` column gives way when the lines would not fit.

    Args:
        rows: cells, already made visible.
        head: one word a column.
        columns: width of the whole.
        elastic: index of the column that is cut.
        right: heads of the columns to align right.
    """
    widths = [max(width(row[index]) for row in (head, *rows)) for index in range(len(head))]
    over = sum(widths) + 2 * (len(head) - 1) - columns
    if over > 0:
        widths[elastic] = max(widths[elastic] - over, 8)
    lines = []
    for row in (head, *rows):
        cells = [
            pad(fit(cell, size), size, right=name in right) for cell, size, name in zip(row, widths, head, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def called(row: ThreadRow, columns: int) -> str:
    """Give what a thread goes by: its title or its source's id, which name it; else what its user said last, quoted.

    What is quoted names no thread.
    """
    if row.title:
        return fit(gist(row.title), columns)
    if row.preview:
        return f'"{fit(gist(row.preview), columns - 2)}"'
    return fit(gist(row.source_id or "(untitled)"), columns)


# --- times and sizes ---

_STEPS = (("y", 31_557_600), ("mo", 2_629_800), ("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def when(moment_us: int, *, utc: bool) -> str:
    """Give a moment (microseconds UTC) to the second, in UTC with a Z or in local time with its offset."""
    seconds = moment_us // 1_000_000
    try:
        parts = time.gmtime(seconds) if utc else time.localtime(seconds)
        return time.strftime("%Y-%m-%d %H:%M:%S" + ("Z" if utc else " %z"), parts)
    except (OverflowError, OSError, ValueError):
        return f"{moment_us} us"


def age(moment_us: int, now_us: int) -> str:
    """Give how long ago a moment was, in its largest whole unit."""
    seconds = (now_us - moment_us) // 1_000_000
    for unit, size in _STEPS:
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return "now"


def size(count: int) -> str:
    """Give a number of bytes in the largest unit that leaves at least one."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            break
        amount /= 1024
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def indent(text: str, by: str) -> str:
    """Put a prefix before every line that is not empty."""
    return "\n".join(by + line if line else "" for line in text.split("\n"))


def counted(count: int, one: str, many: str | None = None) -> str:
    """Give a number with its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
