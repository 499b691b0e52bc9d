"""The examples of the rules hold, and the runner of example files says so truthfully."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.vectors.runner import KINDS, LATER, difference, main, vectors

FOLDER = Path(__file__).parents[1] / "vectors"
ALL = list(vectors([FOLDER]))
ONE_OF_EACH = list({vector["kind"]: vector for vector in ALL}.values())


@pytest.mark.parametrize("vector", ALL, ids=lambda vector: vector["id"])
def test_the_examples_of_the_rules_hold(vector: dict[str, Any]) -> None:
    assert difference(vector) is None


def test_every_kind_that_is_built_has_an_example() -> None:
    assert {vector["kind"] for vector in ALL} == set(KINDS)


@pytest.mark.parametrize("vector", ONE_OF_EACH, ids=lambda vector: vector["kind"])
def test_a_changed_expectation_fails(vector: dict[str, Any]) -> None:
    for name in vector["expect"]:
        changed = copy.deepcopy(vector)
        changed["expect"][name] = ["something else"]
        assert difference(changed), name


class TestRunner:
    def write(self, folder: Path, *found: dict[str, Any]) -> str:
        path = folder / "examples.json"
        path.write_text(json.dumps({"format": "vectors/1", "vectors": found}))
        return str(path)

    def test_what_passes_is_counted(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([self.write(tmp_path, *ONE_OF_EACH)]) == 0
        assert capsys.readouterr().out == f"{len(ONE_OF_EACH)} passed, 0 failed\n"

    def test_a_failure_is_named_and_ends_the_run_with_1(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        wrong = {**copy.deepcopy(ONE_OF_EACH[0]), "id": "X1"}
        wrong["expect"] = dict.fromkeys(wrong["expect"], "other")
        assert main([self.write(tmp_path, wrong, *ONE_OF_EACH)]) == 1
        said = capsys.readouterr().out
        assert said.startswith("FAILED X1: ")
        assert said.endswith(f"{len(ONE_OF_EACH)} passed, 1 failed\n")

    def test_an_example_that_cannot_be_run_fails_alone(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        broken = {**ONE_OF_EACH[0], "id": "X2", "input": {}}
        assert main([self.write(tmp_path, broken, ONE_OF_EACH[0])]) == 1
        assert "1 passed, 1 failed" in capsys.readouterr().out

    def test_kinds_of_later_are_counted_apart(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        later = [{"id": f"L{kind}", "kind": kind, "input": {}, "expect": {}} for kind in sorted(LATER)]
        assert main([self.write(tmp_path, *later, later[0])]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == f"not yet: {later[0]['kind']} (2)"
        assert lines[-1] == "0 passed, 0 failed"

    def test_an_unknown_kind_fails(self, tmp_path: Path) -> None:
        assert main([self.write(tmp_path, {"id": "X3", "kind": "horoscope", "input": {}, "expect": {}})]) == 1

    def test_nothing_to_run_is_no_success(self, tmp_path: Path) -> None:
        assert main([self.write(tmp_path)]) == 1
