"""The benchmarks' own arithmetic, and a workload that is the same everywhere."""

from __future__ import annotations

import hashlib

import msgspec
import pytest

from benchmarks.harness import Figure, compared, in_turn, table
from benchmarks.workload import messages, steps, turns


@pytest.mark.parametrize(
    ("value", "limit", "at_least", "verdict"),
    [
        (1.2, 1.2, False, "met"),
        (1.21, 1.2, False, "missed"),
        (0.5, 0.5, True, "met"),
        (0.49, 0.5, True, "missed"),
        (9.0, None, False, ""),
    ],
)
def test_a_limit_is_met_up_to_itself(value: float, limit: float | None, at_least: bool, verdict: str) -> None:
    assert Figure(name="x", value=value, limit=limit, at_least=at_least).verdict == verdict


def test_a_figure_is_the_median_run_s_ratio_of_medians() -> None:
    runs = [([2.0, 2.0, 90.0], [1.0, 1.0, 1.0]), ([6.0], [2.0]), ([10.0], [1.0])]
    assert compared("x", runs).value == 3.0
    assert compared("x", runs, scale=10).value == pytest.approx(0.3)


def test_variants_take_turns_at_going_first() -> None:
    calls: list[tuple[str, int]] = []
    seconds = in_turn(3, lambda step: calls.append(("a", step)), lambda step: calls.append(("b", step)))
    assert calls == [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2)]
    assert [len(each) for each in seconds] == [3, 3]


def test_a_table_without_judgement_says_neither_met_nor_missed() -> None:
    figures = [("g", Figure(name="n", value=2.0, limit=1.0))]
    assert "missed" in "".join(table(figures, judged=True))
    assert "missed" not in "".join(table(figures, judged=False))


def test_the_workload_is_the_same_on_every_machine() -> None:
    data = msgspec.json.encode(steps(400))
    assert hashlib.sha256(data).hexdigest()[:16] == "78c24d683f470b87"


def test_a_turn_starts_with_an_input_ends_and_answers_each_call() -> None:
    for turn in turns(30):
        assert turn[0].kind == "input"
        assert turn[-1].kind == "end"
        called = [step.call for step in turn if step.kind == "call"]
        assert called == [step.call for step in turn if step.kind == "result"]


def test_everything_but_a_turn_s_end_is_a_message() -> None:
    found = next(turns(1))
    assert len(messages(found)) == len(found) - 1
