"""Derived values as they are kept: behind their digest, so that a damaged one is known and left out."""

from __future__ import annotations

from blake3 import blake3

DIGEST_BYTES = 32


def seal(data: bytes) -> bytes:
    """Give a value to keep: the blake3 of some data, then the data."""
    return blake3(data).digest() + data


def unseal(value: bytes) -> bytes | None:
    """Give the data of a kept value; None for one that is damaged."""
    digest, data = value[:DIGEST_BYTES], value[DIGEST_BYTES:]
    return data if blake3(data).digest() == digest else None
