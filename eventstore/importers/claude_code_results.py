"""What a Claude Code session states of a tool's work, in `toolUseResult`: facts are taken from there, never guessed."""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw

from ..events import Facts
from .slices import fields_of, items_of, name_of, text_of, value_of

REJECTED = ("The user doesn't want to proceed with this tool use", "User rejected tool use")
INTERRUPTED = "[Request interrupted by user"

_EXIT_CODE = re.compile(r"(?:Error: )?Exit code (-?\d{1,9})\b")


class Outcome(msgspec.Struct, frozen=True):
    """How a call ended, and what was stated of it."""

    status: str = "ok"
    facts: Facts | None = None
    duration_us: int | None = None


def outcome(is_error: Raw | None, text: str | None, stated: Raw | None) -> Outcome:
    """Read a result's status and facts.

    Args:
        is_error: the block's own flag.
        text: the output, where it is text.
        stated: the record's `toolUseResult`, where it belongs to this result alone.
    """
    fields = fields_of(stated)
    failed = is_error is not None and bytes(is_error) == b"true"
    words = text_of(stated) if fields is None else None
    if failed:
        exit_code = _EXIT_CODE.match(words or text or "")
        return Outcome(_failure(text or "", words or ""), Facts(exit_code=int(exit_code[1])) if exit_code else None)
    if fields is None:
        return Outcome()
    cut = bytes(fields.get("interrupted", b"")) == b"true"
    duration = value_of(fields.get("totalDurationMs") or fields.get("durationMs"))
    is_time = isinstance(duration, int | float) and not isinstance(duration, bool) and 0 <= duration < 2**40
    return Outcome("cancelled" if cut else "ok", _facts(fields), round(duration * 1000) if is_time else None)


def _failure(text: str, words: str) -> str:
    if text.startswith(REJECTED) or words.startswith(REJECTED):
        return "denied"
    return "cancelled" if text.startswith(INTERRUPTED) else "error"


def _facts(fields: dict[str, Raw]) -> Facts | None:
    path = name_of(fields.get("filePath")) or name_of(fields.get("notebook_path"))
    if path is not None:
        # A patch with hunks, or a file that was not there before: its content really changed.
        changed = bool(items_of(fields.get("structuredPatch"))) or name_of(fields.get("type")) == "create"
        return Facts(path=path, file_changed=path if changed else None)
    read = fields_of(fields.get("file"))
    path = name_of(read.get("filePath")) if read else None
    return Facts(path=path) if path else None
