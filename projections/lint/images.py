"""Reading the kind and size of an image from its first bytes, for rule A30.

Header layouts: PNG (RFC 2083), GIF89a, JPEG (ITU T.81 start-of-frame segments), WebP (RFC 9649).
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from typing import NamedTuple

from ..profiles import ImageRules

HEAD_CHARS = 400_000
"""How much base64 is decoded: JPEG may carry a preview and colour tables before its size."""


class Header(NamedTuple):
    """What the bytes say of themselves; sides are 0 when the header does not hold them."""

    media_type: str
    width: int
    height: int


def faults(media_type: str, data: str, rules: ImageRules, count: int) -> Iterator[str]:
    """Give a sentence for each limit that one base64 image of a request with `count` images breaks."""
    if media_type not in rules.media_types:
        yield f"media type {media_type!r} is not taken"
    if rules.base64_bytes_max is not None and len(data) > rules.base64_bytes_max:
        yield f"{len(data)} bytes of base64, more than {rules.base64_bytes_max}"
    try:
        header = read_header(binascii.a2b_base64(data[:HEAD_CHARS]))
    except ValueError:  # not base64, or not ASCII
        yield "the data is no base64 text"
        return
    if header is None:
        return  # bytes without a known header: nothing to hold the media type against
    if header.media_type != media_type:
        yield f"media type {media_type!r}, but the bytes are {header.media_type}"
    crowded = rules.crowd_count is not None and count > rules.crowd_count
    side_max = rules.crowd_side_px_max if crowded else rules.side_px_max
    if side_max is not None and max(header.width, header.height) > side_max:
        yield f"{header.width} x {header.height} pixels, more than {side_max} on a side"


def read_header(data: bytes) -> Header | None:
    """Give media type and sides of a PNG, GIF, JPEG or WebP; None for anything else."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return Header("image/png", int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big"))
    if data.startswith((b"GIF87a", b"GIF89a")):
        return Header("image/gif", int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little"))
    if data.startswith(b"\xff\xd8\xff"):
        return Header("image/jpeg", *_jpeg_sides(data))
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return Header("image/webp", *_webp_sides(data))
    return None


def _jpeg_sides(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        # Start-of-frame segments are C0 to CF save the three that define tables: C4, C8 and CC.
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            return int.from_bytes(data[at + 7 : at + 9], "big"), int.from_bytes(data[at + 5 : at + 7], "big")
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return 0, 0


def _webp_sides(data: bytes) -> tuple[int, int]:
    chunk = data[12:16]
    if chunk == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if chunk == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if chunk == b"VP8 ":
        return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF
    return 0, 0
