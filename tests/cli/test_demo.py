"""`convlog demo`: everything once, on a bundled session, and nothing of the user's touched."""

from __future__ import annotations

from pathlib import Path

import pytest

import convlog
from convlog.cli.text import width

from .conftest import Run
from .prepared import lines


def test_the_demo_imports_replays_prepares_and_proves(run: Run, tmp_path: Path) -> None:
    result = run("demo")
    assert result.exit_code == 0
    for words in (
        "convlog import sample.jsonl",
        "~ derived",
        "summary",
        "call 10: exact",
        "everything verifies",
        "Go on:",
    ):
        assert words in result.stdout
    assert [path.name for path in (tmp_path / "here").iterdir()] == []
    assert not (tmp_path / "data").exists()


def test_the_demo_fits_80_columns(run: Run) -> None:
    assert [line for line in run("demo").stdout.splitlines() if width(line) > 80] == []


def test_the_demo_as_json_says_what_it_proved(run: Run) -> None:
    (line,) = lines(run("demo", "--json").stdout)
    assert line["schema"] == "convlog.demo/1"
    assert (line["verdict"], line["proved"]) == ("exact", True)
    assert len(line["tip"]) == 64


def test_the_demos_store_can_be_kept_and_its_next_commands_work(run: Run) -> None:
    result = run("demo", "--keep", "demo.db")
    assert result.exit_code == 0
    steps = result.stdout.split("Go on:\n")[1].splitlines()
    commands = [line.split("  ")[1].split()[1:] for line in steps]
    assert len(commands) == 3
    for command in commands[:2]:
        assert run(*command).exit_code == 0, command
    with convlog.open("demo.db", mode="r") as store:
        assert [each.verdict for each in store.latest().replay()].count("exact") == 1


def test_the_last_hint_names_a_folder_that_is_there_or_none(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "import FOLDER --dry-run" in run("demo").stdout
    (tmp_path / ".claude" / "projects").mkdir(parents=True)
    assert "import ~/.claude/projects --dry-run" in run("demo").stdout


@pytest.mark.parametrize("there", ["file", "folder"])
def test_the_demo_overwrites_nothing(run: Run, there: str) -> None:
    place = Path("demo.db")
    if there == "file":
        place.write_text("mine")
    else:
        place.mkdir()
    result = run("demo", "--keep", place)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "exists" in result.stderr
    assert place.is_dir() or place.read_text() == "mine"


def test_a_folder_that_is_not_there_is_said(run: Run) -> None:
    assert run("demo", "--keep", "nowhere/demo.db").exit_code == 3
