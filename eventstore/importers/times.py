"""Times as sources write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec import Raw

from .slices import value_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TIME_MAX = 2**62
"""Microseconds: far beyond any date, far below what an event can hold."""

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


def seconds(data: Raw | None) -> int | None:
    """Read a JSON number of seconds since 1970 as microseconds UTC; None for anything else."""
    return _scaled(data, 1_000_000)


def milliseconds(data: Raw | None) -> int | None:
    """Read a JSON number of milliseconds since 1970 as microseconds UTC; None for anything else."""
    return _scaled(data, 1000)


def _scaled(data: Raw | None, factor: int) -> int | None:
    value = value_of(data)
    if not isinstance(value, int | float) or isinstance(value, bool) or not -_TIME_MAX < value * factor < _TIME_MAX:
        return None
    return round(value * factor)
