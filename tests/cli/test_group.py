"""What holds for every command: loading, global options, colours, exit codes, broken pipes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import click
import pytest

from convlog import __version__
from convlog.cli import ALIASES, COMMANDS, group
from convlog.cli.group import wants_color
from convlog.eventstore import places
from convlog.eventstore.errors import ConvlogError
from convlog.eventstore.lock import FileLock
from convlog.eventstore.store import open_store

from .conftest import TITLE, Run

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("msgspec", "sqlite3", "rich", "platformdirs", "importlib.metadata", "blake3", "sqlite_utils", "shutil")


def convlog(*args: object, **settings: object) -> subprocess.CompletedProcess[str]:
    """Run the program as a process."""
    command = [sys.executable, "-m", "convlog", *(str(arg) for arg in args)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False, **settings)  # type: ignore[call-overload, no-any-return] # passed on as they came


# --- loading ---


@pytest.mark.parametrize("args", [["--help"], ["--version"]])
def test_start_up_loads_nothing_heavier_than_click(args: list[str]) -> None:
    code = (
        "import sys; from convlog.cli import group; group(sys.argv[1:], standalone_mode=False);"
        " print(*sys.modules, file=sys.stderr)"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run([sys.executable, "-c", code, *args], env=environ, capture_output=True, text=True, check=True)
    assert "convlog.cli.group" in found.stderr.split()
    assert set(found.stderr.split()).isdisjoint(HEAVY)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_what_the_command_says_of_itself(name: str) -> None:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    assert command.help is not None
    assert command.help.split("\n")[0].strip() == COMMANDS[name][1]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_of_its_own(run: Run, name: str) -> None:
    result = run(name, "-h")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: convlog {name} ")
    assert "--db" not in result.stdout, "global options stand in the group's help alone"


def test_an_alias_is_the_command(run: Run, db: Path) -> None:
    assert ALIASES["ls"] == "threads"
    assert run("-d", db, "ls", "-q").stdout == run("-d", db, "threads", "-q").stdout


def test_an_unknown_command_is_met_with_the_nearest_one(run: Run) -> None:
    result = run("thread")
    assert result.exit_code == 2
    assert "Did you mean threads?" in result.stderr


def test_escapes_in_arguments_are_not_echoed_raw(run: Run) -> None:
    for args in (["\x1b[2J"], ["--\x1b[2J"], ["log", "--\x1b[2J"], ["-d", "\x1b[2J", "ls"]):
        result = run(*args)
        assert result.exit_code in {2, 3}
        assert "\x1b" not in result.output
        assert "\\x1b[2J" in result.output


def test_the_version_is_told_before_and_after_a_command(run: Run) -> None:
    assert run("--version").stdout == run("threads", "--version").stdout == f"convlog {__version__}\n"


# --- global options ---


def test_global_options_stand_before_or_after_the_command(run: Run, db: Path) -> None:
    before = run("-d", db, "--json", "-q", "--utc", "threads")
    after = run("threads", "-d", db, "--json", "-q", "--utc")
    assert before.exit_code == after.exit_code == 0
    assert before.stdout == after.stdout != ""


def test_the_later_of_two_wins(run: Run, db: Path) -> None:
    result = run("-d", "nowhere.db", "--utc", "log", "-d", db, "--local", TITLE)
    assert result.exit_code == 0
    assert "+0000" in result.stdout


def test_the_variable_names_the_store(run: Run, db: Path) -> None:
    assert run("threads", env={"CONVLOG_DB": str(db)}).stdout.count(TITLE) == 1


def test_verbose_says_which_store_and_why(run: Run, db: Path) -> None:
    assert f"store: {db} (given by --db)" in run("-v", "-d", db, "threads").stderr


@pytest.mark.parametrize(
    ("choice", "environ", "wanted"),
    [
        ("auto", {}, None),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ("auto", {"FORCE_COLOR": "1"}, True),
        ("auto", {"NO_COLOR": "", "FORCE_COLOR": ""}, None),
        ("always", {"NO_COLOR": "1"}, True),
        ("never", {"FORCE_COLOR": "1"}, False),
    ],
)
def test_the_option_then_no_color_then_force_color(choice: str, environ: dict[str, str], wanted: bool | None) -> None:
    assert wants_color(choice, environ) is wanted


def test_colours_are_where_they_are_asked_for(run: Run, db: Path) -> None:
    def colored(*args: str, **environ: str) -> bool:
        return "\x1b[" in run("-d", db, *args, env=environ).stdout

    assert not colored("log")
    assert colored("log", "--color", "always")
    assert colored("--color", "always", "log")
    assert colored("log", FORCE_COLOR="1")
    assert not colored("log", FORCE_COLOR="1", NO_COLOR="1")
    assert not colored("log", "--color", "never", FORCE_COLOR="1")


# --- stores that are not there, or not ours ---


def test_a_missing_store_is_3_and_named_with_the_reason_and_what_is_nearby(run: Run) -> None:
    assert run("init", "below").exit_code == 3, "a folder that is not there is no place for a store"
    Path("below").mkdir()
    assert run("init", "below").exit_code == 0
    result = run("threads")
    assert result.exit_code == 3
    assert "the user's data folder" in result.stderr
    assert str(Path("below/.convlog/convlog.db")) in result.stderr


def test_no_store_is_made_by_reading(run: Run) -> None:
    assert run("-d", "new.db", "threads").exit_code == 3
    assert not Path("new.db").exists()


def test_what_is_no_store_is_3(run: Run) -> None:
    Path("text.db").write_text("no database " * 100)
    assert run("-d", "text.db", "threads").exit_code == 3
    assert run("-d", ".", "threads").exit_code == 3
    assert run("-d", "file:x.db", "threads").exit_code == 3


def test_a_newer_store_is_3(run: Run, db: Path) -> None:
    import sqlite3

    connection = sqlite3.connect(db)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    result = run("-d", db, "threads")
    assert result.exit_code == 3
    assert "schema 99" in result.stderr
    assert "hint: upgrade convlog" in result.stderr


def test_no_right_to_write_is_3_for_writers_and_nothing_to_readers(
    run: Run, db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(FileLock, "__init__", refuse)
    assert run("-d", db, "threads").exit_code == 0
    result = run("-d", db, "append", TITLE, "--user", "hi")
    assert result.exit_code == 3
    assert "no right to write" in result.stderr


def test_a_store_held_by_another_is_4(run: Run, db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from convlog.projections import conversation

    impatient = partial(conversation.open, timeout_s=0.05)
    monkeypatch.setattr(conversation, "open", impatient)
    with open_store(db) as store, store.backend._lock:  # type: ignore[attr-defined] # held as another process would
        result = run("-d", db, "append", TITLE, "--user", "hi")
    assert result.exit_code == 4
    assert "held" in result.stderr


@pytest.mark.parametrize("code", [1, 2, 3, 4, 5])
def test_an_error_says_how_to_go_on_and_gives_its_exit_code(
    run: Run, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    class Wrong(ConvlogError):
        exit_code = code

    def fail(*_: object, **__: object) -> None:
        raise Wrong("this went \x1b[2J wrong", hint="do that")

    monkeypatch.setattr(places, "find", fail)
    result = run("threads")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr == "error: this went \\x1b[2J wrong\nhint: do that\n"


# --- as a process ---


def test_a_reader_that_stops_is_no_error(db: Path) -> None:
    with open_store(db) as store:
        thread = store.thread(TITLE)
        for number in range(300):
            thread.text(f"line {number} " + "x" * 2000)
    command = f"{sys.executable} -m convlog -d {db} show latest; echo $? >&2"
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run(
        ["bash", "-c", f"({command}) | head -1"], env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stderr == "141\n"
    assert found.stdout.count("\n") == 1


def test_an_interrupt_is_130(db: Path) -> None:
    command = [sys.executable, "-m", "convlog", "-d", str(db), "-v", "append", TITLE, "--stdin"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "reading the text from stdin\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in err


def test_a_terminal_that_cannot_show_a_character_gets_its_escape(db: Path) -> None:
    found = convlog("-d", db, "log", TITLE, "--graph")
    assert "●" in found.stdout
    os.environ["PYTHONIOENCODING"] = "ascii"
    try:
        found = convlog("-d", db, "log", TITLE, "--graph")
    finally:
        del os.environ["PYTHONIOENCODING"]
    assert found.returncode == 0
    assert "\\u25cf" in found.stdout


def test_bytes_that_are_no_text_in_an_argument_are_no_crash(db: Path) -> None:
    command = [sys.executable.encode(), b"-m", b"convlog", b"-d", str(db).encode(), b"show", b"\xff\xfe"]
    found = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, timeout=60, check=False
    )
    assert found.returncode == 2
    assert b"not UTF-8" in found.stderr
