"""The cases hold; what is not built is counted apart; a changed expectation is noticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cases.__main__ import main
from tests.cases.runner import NotYet, run_case

DATA = Path(__file__).parent / "cases" / "data"
CASES = sorted(DATA.glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_holds(path: Path) -> None:
    assert run_case(json.loads(path.read_text())) == []


def changed(name: str, key: str, value: Any) -> dict[str, Any]:
    """Give a case with one expectation changed."""
    case: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text())
    case["expect"][key] = value
    return case


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("s-edit-sibling-1", "path", ["u1", "a1", "u2", "a2"]),
        ("s-edit-sibling-1", "children", {"a1": ["u2"]}),
        ("s-key-other-body-1", "errors", []),
        ("s-parallel-interrupted-1", "prompt", []),
        ("s-parallel-interrupted-1", "synthetic", ["r1"]),
        ("s-second-compaction-1", "prompt", [["user", "c?"]]),
        ("s-past-prompt-1", "prompt_of", {"r1": []}),
        ("s-resume-latest-1", "resume", {"thread": "t2", "leaf": "v1"}),
        ("s-import-damaged-lines-1", "import", {"lost": 0}),
        ("s-turn-memory-1", "turn_memory", {"prose": "", "entries": []}),
        ("s-secret-1", "must_not_contain", {"text": "welcome", "in": ["prompt"]}),
        ("s-long-thread-1", "count", {"nodes": 1}),
        ("s-long-thread-1", "bounds", {"open_rss_mb": 1}),
    ],
)
def test_a_changed_expectation_fails(name: str, key: str, value: Any) -> None:
    case = changed(name, key, value)
    for step in case["input"]["steps"]:
        step["times"] = min(step.get("times", 0), 3)
    assert run_case(case)


def test_a_refusal_that_was_not_expected_fails() -> None:
    case = json.loads((DATA / "s-stray-result-1.json").read_text())
    del case["expect"]["errors"]
    assert any("errors" in failure for failure in run_case(case))


def test_what_is_not_built_is_said_and_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = changed("s-edit-sibling-1", "an_expectation_of_tomorrow", True)
    with pytest.raises(NotYet):
        run_case(case)
    path = tmp_path / "case.json"
    path.write_text(json.dumps(case))
    assert main([str(path)]) == 0
    assert "not yet: s-edit-sibling-1" in capsys.readouterr().out


def test_the_runner_counts_and_exits_by_the_failures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(changed("s-same-text-twice-1", "count", {"nodes": 4})))
    bad.write_text(json.dumps(changed("s-same-text-twice-1", "count", {"nodes": 5})))
    assert main([str(good)]) == 0
    assert "1 passed, 0 failed" in capsys.readouterr().out
    assert main([str(good), str(bad)]) == 1
    assert "1 passed, 1 failed" in capsys.readouterr().out
