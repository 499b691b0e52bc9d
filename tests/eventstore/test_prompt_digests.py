"""The slots of a manifest's digests: as many whatever the prompt's length, each of a known number of blocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convlog.eventstore import records
from convlog.eventstore.errors import BrokenRecord
from convlog.eventstore.events import CallPrepared
from convlog.eventstore.prompt_digests import DIGEST_BYTES, counts, packed, unpacked
from convlog.eventstore.upcasters import upcast

SLOTS = 32


def filled(blocks: int) -> list[int]:
    return [count for count in counts(blocks) if count is not None]


def test_they_are_of_doubling_counts_and_of_the_last_blocks() -> None:
    assert filled(0) == [0]
    assert filled(3) == [0, 1, 2, 3]
    assert filled(40) == [0, 1, 2, 4, 8, 16, 32, 33, 34, 35, 36, 37, 38, 39, 40]
    assert filled(10_000)[:16] == [0, *(1 << power for power in range(14)), 9992]


@given(st.integers(0, 10**9))
def test_every_prompt_has_the_same_number_of_slots(blocks: int) -> None:
    assert len(counts(blocks)) == SLOTS
    assert filled(blocks) == sorted(set(filled(blocks)))
    assert filled(blocks)[-1] == blocks
    digests = {count: (count + 1).to_bytes(DIGEST_BYTES, "big") for count in filled(blocks)}
    assert len(packed(digests, blocks)) == len(packed({}, 0))
    assert unpacked(packed(digests, blocks), blocks) == sorted(digests.items())


@pytest.mark.parametrize("text", ["", "no base64!", "AAAA", "A" * 1000])
def test_what_holds_no_digests_gives_none(text: str) -> None:
    assert unpacked(text, 5) == []


def test_the_pairs_of_version_1_find_their_slots() -> None:
    pairs = [[count, f"{count + 1:016x}"] for count in filled(40)]
    body = upcast("call.prepared", 1, {"blocks": 40, "digests": pairs, "unknown": 1})
    assert unpacked(body["digests"], 40) == [(count, (count + 1).to_bytes(8, "big")) for count in filled(40)]
    assert body["unknown"] == 1
    assert CallPrepared.VERSION == 2


@pytest.mark.parametrize("body", [b"{}", b'{"blocks":1,"digests":7}', b'{"blocks":1,"digests":[[1,"no hex"]]}'])
def test_a_body_of_version_1_that_is_none_is_broken(body: bytes) -> None:
    with pytest.raises(BrokenRecord):
        records.decode_body("call.prepared", 1, body)
