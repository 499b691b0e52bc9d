"""How a Codex tool call ended, as its output states it: in the words that the program itself puts around outputs."""

from __future__ import annotations

import re

import msgspec

from ..errors import PayloadRejected
from ..events import Facts
from .slices import fields_of, text_of, value_of

DENIED = frozenset({"exec command rejected by user", "patch rejected by user", "rejected by user"})

_ABORTED = re.compile(r"(?:Wall time: [\d.]+ seconds\n)?aborted(?: by user(?: after [\d.]+s)?)?\.?")
_FAILED = re.compile(
    r"(?:unsupported (?:custom tool )?call: |failed to parse function arguments|execution error: "
    r"|apply_patch verification failed|unknown process id|tool call error: )"
)
_SHELL = re.compile(
    r"(?:Chunk ID: .*\n)?(?:Exit code: (?P<code>-?\d{1,9})\n)?Wall time: (?P<time>\d{1,7}(?:\.\d{1,9})?) seconds\n"
    r"(?:Process exited with code (?P<exited>-?\d{1,9})\n)?(?:.*\n){0,3}?Output:\n"
)
_PATCHED = re.compile(r"Success\. Updated the following files:\n((?:[AMD] [^\n]+(?:\n|\Z))+)")


class Outcome(msgspec.Struct, frozen=True):
    """How a call ended, and what was stated of it."""

    status: str = "ok"
    facts: Facts | None = None
    duration_us: int | None = None


def outcome(text: str, status: str = "ok") -> Outcome:
    """Read an output's status and facts.

    Args:
        text: the output.
        status: what the item itself says.
    """
    if text in DENIED:
        return Outcome("denied")
    if _ABORTED.fullmatch(text):
        return Outcome("cancelled")
    if status == "ok" and _FAILED.match(text):
        return Outcome("error")
    said, exit_code, seconds = _measured(text)
    changed = _PATCHED.match(said)
    files = ", ".join(line[2:] for line in changed[1].splitlines()) if changed else None
    facts = Facts(path=files, file_changed=files, exit_code=exit_code)
    return Outcome(
        status,
        None if facts == Facts() else facts,
        None if seconds is None else round(seconds * 1_000_000),
    )


def _measured(text: str) -> tuple[str, int | None, float | None]:
    """Give what a command said, its exit code and its seconds, out of either wrapping."""
    if text.startswith('{"output":'):
        try:
            fields = fields_of(text.encode(errors="replace")) or {}
            metadata = fields_of(fields.get("metadata")) or {}
            code, seconds = value_of(metadata.get("exit_code")), value_of(metadata.get("duration_seconds"))
        except PayloadRejected:
            return text, None, None
        said = text_of(fields.get("output"))
        return said or "", code if _is_number(code) else None, float(seconds) if _is_time(seconds) else None
    found = _SHELL.match(text)
    if found is None:
        return text, None, None
    code = found["code"] or found["exited"]
    return text[found.end() :], None if code is None else int(code), float(found["time"])


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**32
