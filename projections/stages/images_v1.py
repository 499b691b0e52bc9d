"""Which images of a prompt a model would refuse (A30): kind, size, sides and number.

Header layouts: PNG (RFC 2083), GIF89a, JPEG (ITU T.81, start of frame), WebP (RFC 9649).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from .media_v1 import type_of
from .pieces_v1 import DROPPED, Image, Piece, Result
from .target_v1 import Attachments, ImageFacts, MissingAttachment

NOT_TAKEN = "this model takes no images"
NOWHERE = "neither bytes nor a place"

_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


class Place(msgspec.Struct, frozen=True):
    """An image by its piece and, inside a result, its place in the content."""

    piece: int
    part: int = -1


Refused = Mapping[Place, str]


def refused(pieces: Sequence[Piece], facts: ImageFacts | None, attachments: Attachments) -> Refused:
    """Give the reason for every image that cannot go out.

    Of too many images the oldest stay behind. A side that only a crowd forbids is judged by the number that is left.

    Raises:
        MissingAttachment: the bytes of one are gone.
    """
    found = list(_images(pieces))
    if facts is None:
        return {place: NOT_TAKEN for place, _ in found}
    faults = {place: why for place, image in found if (why := _fault(image, facts, attachments))}
    left = [(place, image) for place, image in found if place not in faults]
    if facts.count_max is not None and len(left) > facts.count_max:
        faults.update({place: f"more than {facts.count_max} images" for place, _ in left[: -facts.count_max]})
        left = left[-facts.count_max :]
    if facts.crowd_count is not None and len(left) > facts.crowd_count:
        for place, image in left:
            if why := _too_wide(image, facts.crowd_side_px_max, attachments):
                faults[place] = f"{why} beside so many"
    return faults


def _images(pieces: Sequence[Piece]) -> Iterator[tuple[Place, Image]]:
    for index, piece in enumerate(pieces):
        element = piece.element
        if piece.provenance == DROPPED:
            continue
        if isinstance(element, Image):
            yield Place(index), element
        elif isinstance(element, Result):
            for number, part in enumerate(element.content):
                if isinstance(part, Image):
                    yield Place(index, number), part


def _bytes(image: Image, attachments: Attachments) -> bytes:
    if image.attachment is None:
        return b""
    if image.attachment not in attachments:
        raise MissingAttachment(image.attachment)
    return attachments[image.attachment]


def _fault(image: Image, facts: ImageFacts, attachments: Attachments) -> str:
    data = _bytes(image, attachments)
    if not data:
        return "" if image.attachment is None and image.url else NOWHERE
    media_type = type_of(data) or image.media_type or "image/png"
    if media_type not in facts.media_types:
        return f"{media_type} is not taken"
    size = (len(data) + 2) // 3 * 4
    if facts.base64_bytes_max is not None and size > facts.base64_bytes_max:
        return f"{size} bytes of base64, more than {facts.base64_bytes_max}"
    return _too_wide(image, facts.side_px_max, attachments)


def _too_wide(image: Image, side_max: int | None, attachments: Attachments) -> str:
    longest = max(_sides(_bytes(image, attachments))) if side_max is not None else 0
    return f"{longest} pixels on a side, more than {side_max}" if side_max is not None and longest > side_max else ""


def _sides(data: bytes) -> tuple[int, int]:
    """Give width and height in pixels; zeros where the header does not say."""
    match type_of(data):
        case "image/png":
            return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
        case "image/gif":
            return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
        case "image/jpeg":
            return _jpeg(data)
        case "image/webp":
            return _webp(data)
    return 0, 0


def _jpeg(data: bytes) -> tuple[int, int]:
    place = 2
    while data[place : place + 1] == b"\xff" and place + 9 <= len(data):
        if data[place + 1] in _FRAMES:
            return int.from_bytes(data[place + 7 : place + 9], "big"), int.from_bytes(
                data[place + 5 : place + 7], "big"
            )
        place += 2 + int.from_bytes(data[place + 2 : place + 4], "big")
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8X":
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        case b"VP8L":
            packed = int.from_bytes(data[21:25], "little")
            return packed % 2**14 + 1, (packed >> 14) % 2**14 + 1
        case b"VP8 ":
            return int.from_bytes(data[26:28], "little") % 2**14, int.from_bytes(data[28:30], "little") % 2**14
    return 0, 0
