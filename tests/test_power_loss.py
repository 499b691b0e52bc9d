"""Power cuts: the player of them, and what the store keeps under them."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.faults.power_loss import Step, cut_power, judge, trace

needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None and "CI" not in os.environ, reason="strace is not installed"
)


def left(steps: Sequence[Step]) -> set[bytes]:
    """Give all that a file can hold after some steps."""
    return {bytes(cut_power(steps, random.Random(seed))[0].get("f", b"-")) for seed in range(200)}


def test_what_was_synced_stays_and_what_was_not_may_be_there_or_not() -> None:
    synced = [Step("write", "f", 0, b"abc"), Step("sync", "f")]
    assert left(synced) == {b"abc"}
    assert left([*synced, Step("write", "f", 3, b"d"), Step("write", "f", 1, b"x")]) == {
        b"abc",
        b"abcd",
        b"axc",
        b"axcd",
    }
    assert left([*synced, Step("cut", "f", 1)]) == {b"abc", b"a"}
    assert left([*synced, Step("unlink", "f")]) == {b"-"}


def test_a_large_write_can_reach_the_disk_in_part() -> None:
    found = left([Step("write", "f", 0, b"a" * 512 + b"b" * 512)])
    assert {b"-", b"a" * 512, bytes(512) + b"b" * 512, b"a" * 512 + b"b" * 512} <= found


def test_the_last_acknowledgement_before_the_cut_counts() -> None:
    steps = [Step("told", data=b"told 1 aa"), Step("told", data=b"told 2 bb"), Step("told", data=b"told 3 cc")]
    assert cut_power(steps[:2], random.Random(1)) == ({}, b"told 2 bb")


def play(folder: Path, durability: str, points: int) -> Counter[str]:
    steps = trace(folder, durability)
    chance = random.Random(3)
    first = next(index for index, step in enumerate(steps) if step.kind == "told") + 1
    return Counter(judge(*cut_power(steps[: chance.randrange(first, len(steps) + 1)], chance)) for _ in range(points))


@needs_strace
@pytest.mark.parametrize("durability", ["full", "turn"])
def test_a_power_cut_takes_nothing_that_was_promised(tmp_path: Path, durability: str) -> None:
    assert set(play(tmp_path, durability, 40)) == {"whole"}


@needs_strace
def test_a_power_cut_takes_the_last_events_where_only_the_process_is_guarded_and_damages_nothing(
    tmp_path: Path,
) -> None:
    assert set(play(tmp_path, "process", 60)) == {"whole", "lost"}
