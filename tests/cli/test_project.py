"""`convlog project`: any projection's result as JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

import convlog

from .conftest import Run
from .prepared import TALK, lines, position_of, talk

__all__ = ["talk"]


def test_any_projections_result_is_printed(run: Run, talk: Path) -> None:
    (line,) = lines(run("-d", talk, "project", "turn-memory@6", TALK).stdout)
    assert (line["schema"], line["projection"]) == ("convlog.project/1", "turn-memory@6")
    assert any(piece["provenance"] == "turn-memory" for piece in line["result"])
    (line,) = lines(run("-d", talk, "project", "outline@1", TALK, "--param", "text_bytes=16").stdout)
    assert line["result"].startswith("Goals:")


def test_a_projection_runs_over_the_path_to_a_node(run: Run, talk: Path) -> None:
    question = position_of(talk, "sum wrong")
    (line,) = lines(run("-d", talk, "project", "transcript@1", f"{TALK}:{question}").stdout)
    assert [piece["element"]["text"] for piece in line["result"] if piece["role"] == "user"] == [
        "Why is the sum wrong?"
    ]


@pytest.mark.parametrize(
    "args",
    [
        ["nobody@1", TALK],
        ["anthropic@1", TALK],
        ["outline@1", TALK, "--param", "colour=red"],
        ["outline@1", TALK, "--param", "colour"],
        ["outline@1", "nobody"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_projected_is_refused(run: Run, talk: Path, args: list[str]) -> None:
    assert run("-d", talk, "project", *args).exit_code == 2


def test_what_was_not_kept_cannot_be_projected(run: Run, tmp_path: Path) -> None:
    with convlog.open(tmp_path / "s.db", record_outputs="facts") as store:
        thread = store.create_thread(title="f")
        thread.user("Read.")
        thread.call("c", "Read", {})
        thread.result("c", "secret")
    result = run("-d", tmp_path / "s.db", "project", "transcript@1", "f")
    assert result.exit_code == 5
    assert "not kept" in result.stderr
