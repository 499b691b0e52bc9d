"""Times as sources write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec import Raw

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PLAIN_LENGTH = len('"2026-01-02T10:00:00.000Z"')


def microseconds(text: str | None) -> int | None:
    """Read an ISO 8601 time with its zone as microseconds UTC; None for anything else."""
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return None if time.tzinfo is None else (time - _EPOCH) // _MICROSECOND


def is_plain(data: Raw) -> bool:
    """Whether a readable time is written with milliseconds and `Z`, so that its microseconds give its text again."""
    return len(data) == _PLAIN_LENGTH and bytes(data)[-6::4] == b".Z"
