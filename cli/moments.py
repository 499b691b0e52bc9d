"""Moments as a user names them: a date, a time, or how long ago."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

import click

_AGO = re.compile(r"(\d{1,9})(y|mo|d|h|min|s)")
_SECONDS = {"y": 31_557_600, "mo": 2_629_800, "d": 86_400, "h": 3_600, "min": 60, "s": 1}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment_us(text: str, now_us: int | None = None) -> int:
    """Give a moment in microseconds UTC: an ISO 8601 date or time (local without a zone), or an age such as 180d.

    Raises:
        click.UsageError: it is neither.
    """
    ago = _AGO.fullmatch(text)
    if ago is not None:
        now = time.time_ns() // 1000 if now_us is None else now_us
        return now - int(ago[1]) * _SECONDS[ago[2]] * 1_000_000
    try:
        return (datetime.fromisoformat(text).astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError, OSError):
        what = "a date or time is written 2026-03-14 or 2026-03-14T09:30, an age 180d, 2h or 30min (also y, mo, s)"
        raise click.UsageError(f"{text!r} is no moment; {what}") from None
