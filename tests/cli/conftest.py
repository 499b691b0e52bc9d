"""A store with one believable thread, and a way to run commands on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from convlog.cli import group
from convlog.eventstore.events import CallFinished, Facts, SummaryAdded
from convlog.eventstore.store import open_store

Run = Callable[..., Result]

TITLE = "fix the flaky test"
ESCAPES = "\x1b]52;c;c2VjcmV0\x07 \x1b[2J \x9b31m \u202e \u2028 \x7f [bold]markup[/bold]"
"""Sets the clipboard, clears the screen, colours by C1, turns the line round; and markup that is only text."""


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in an empty folder, without settings or stores of whoever runs the tests."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("CONVLOG_DB", "NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("TZ", "UTC")


@pytest.fixture
def run() -> Run:
    """Give a function that runs `convlog` with arguments, in this process."""

    def run(*args: object, **settings: Any) -> Result:
        result = CliRunner().invoke(group, [str(arg) for arg in args], prog_name="convlog", **settings)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return run


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """Give the path of a store with one thread: 2 user, 3 text, 4 call, 5 result, 6 text (call 1), 7 edit of 2, ..."""
    path = tmp_path / "agent.db"
    with open_store(path) as store:
        thread = store.create_thread(title=TITLE, agent="claude-code", source_id="session-1")
        thread.user("Why does test_retry fail?")
        thread.text("Let me look.")
        thread.call("c1", "Bash", {"command": "pytest -q"})
        thread.result("c1", "1 failed", status="error", facts=Facts(command="pytest -q", exit_code=1))
        last = thread.text("It sleeps.", key="k1")
        thread.append(CallFinished(model="m"), refs=(("about", 3),))
        thread.edit(2, "Why does test_retry fail on CI?")
        thread.text("Because of clocks.")
        thread.name_branch("retry")
        thread.append(SummaryAdded(first=2, last=5, text="looked at the test"))
        thread.select(last.position)
        thread.user("go on")
        thread.end_turn()
    return path


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Give the path of a store whose texts attack terminals."""
    path = tmp_path / "hostile.db"
    with open_store(path) as store:
        thread = store.create_thread(title="hostile", source_id="s\x1b[2J")
        thread.user(ESCAPES)
        thread.call("c\x1b[2J", f"Read{ESCAPES[:3]}", {"path": ESCAPES})
        thread.result("c\x1b[2J", ESCAPES, status="error", facts=Facts(path=ESCAPES))
        thread.text(ESCAPES + "\0")
    return path
