"""Times as foreign forms write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso(moment_us: int, *, timespec: str = "milliseconds") -> str:
    """Write a moment (microseconds UTC) as ISO 8601 with `Z`; one that no calendar has, as the epoch."""
    return moment_of(moment_us).isoformat(timespec=timespec).replace("+00:00", "Z")


def moment_of(moment_us: int) -> datetime:
    """Give a moment; one that no calendar has is the epoch."""
    try:
        return _EPOCH + timedelta(microseconds=moment_us)
    except OverflowError:
        return _EPOCH
