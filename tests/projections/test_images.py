"""Which images a model would refuse, told from their first bytes."""

from __future__ import annotations

import pytest

from convlog.projections.stages.images_v1 import NOT_TAKEN, NOWHERE, Place, refused
from convlog.projections.stages.pieces_v1 import DROPPED, VERBATIM, Image, Piece, Result
from convlog.projections.stages.target_v1 import ImageFacts, MissingAttachment

SIZES = {
    "png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\x02\0\0\0\x03",
    "gif": b"GIF89a\x02\x01\x03\0",
    "jpeg": b"\xff\xd8\xff\xe0\0\x04ab\xff\xc4\0\x03c\xff\xc2\0\x11\x08\0\x03\x01\x02",
    "webp": b"RIFF\0\0\0\0WEBPVP8X\n\0\0\0\0\0\0\0\x01\x01\0\x02\0\0",
    "webp, lossy": b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x02\x01\x03\0",
    "webp, lossless": b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x01\x81\0\0",
}
"""Headers of images that are 258 wide and 3 high."""


def piece(name: str | None, url: str | None = None) -> Piece:
    return Piece(VERBATIM, "user", Image(None, name, url))


@pytest.mark.parametrize("name", SIZES)
def test_the_longer_side_is_read_from_the_header(name: str) -> None:
    fits, too_wide = ImageFacts(side_px_max=258), ImageFacts(side_px_max=257)
    assert refused([piece(name)], fits, SIZES) == {}
    assert refused([piece(name)], too_wide, SIZES) == {Place(0): "258 pixels on a side, more than 257"}


@pytest.mark.parametrize("length", range(30))
@pytest.mark.parametrize("name", SIZES)
def test_a_header_that_was_cut_is_read_without_error(name: str, length: int) -> None:
    data = {name: SIZES[name][:length]}
    assert len(refused([piece(name)], ImageFacts(side_px_max=1), data)) <= 1


def test_a_crowd_has_another_limit_and_judges_those_that_are_left() -> None:
    facts = ImageFacts(count_max=3, crowd_count=2, crowd_side_px_max=10)
    pieces = [piece("png") for _ in range(4)]
    found = refused(pieces, facts, SIZES)
    assert found[Place(0)] == "more than 3 images"
    assert all("beside so many" in found[Place(number)] for number in (1, 2, 3))
    assert refused(pieces[:2], facts, SIZES) == {}


def test_images_inside_results_count_and_dropped_ones_do_not() -> None:
    result = Piece(VERBATIM, "tool", Result("c", 1, "ok", (Image("image/png", "png"), Image())))
    dropped = Piece(DROPPED, "user", Image())
    assert refused([dropped, result], ImageFacts(), SIZES) == {Place(1, 1): NOWHERE}


def test_a_model_without_images_takes_none_not_even_by_their_place() -> None:
    assert refused([piece(None, "https://example.org/a.png")], None, {}) == {Place(0): NOT_TAKEN}


def test_size_and_kind_have_their_limits() -> None:
    assert "bytes of base64" in refused([piece("png")], ImageFacts(base64_bytes_max=10), SIZES)[Place(0)]
    assert refused([piece("gif")], ImageFacts(media_types=("image/png",)), SIZES)[Place(0)] == "image/gif is not taken"


def test_an_image_whose_bytes_are_gone_is_told() -> None:
    with pytest.raises(MissingAttachment):
        refused([piece("png")], ImageFacts(), {})
