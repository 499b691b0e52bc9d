"""What no one should give: odd places for a store, endless files, damaged stores. Words and an exit code come of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from convlog.cli import group
from convlog.eventstore.canonical import BODY_BYTES_MAX
from convlog.eventstore.store import open_store
from tests.eventstore.test_verify import alter

from .conftest import TITLE, Run

ODD_PLACES: dict[str, Callable[[Path], str]] = {
    "in memory": lambda _folder: ":memory:",
    "a folder": str,
    "the root": lambda _folder: "/",
    "a device": lambda _folder: "/dev/zero",
    "a URI": lambda _folder: "file:x.db",
    "too long": lambda folder: str(folder / ("x" * 300)),
    "below a file": lambda folder: str(folder / "text" / "x.db"),
    "a lock": lambda folder: str(folder / "store.db-lock"),
    "a pipe": lambda folder: str(folder / "pipe"),
    "text": lambda folder: str(folder / "text"),
}


@pytest.mark.parametrize("place", ODD_PLACES.values(), ids=ODD_PLACES)
@pytest.mark.parametrize(
    "args",
    [["threads"], ["verify"], ["doctor"], ["append", "--new", "--user", "hi"], ["import", "text"], ["delete", "x"]],
    ids=lambda args: args[0],
)
def test_an_odd_place_for_a_store_is_3_and_makes_nothing(
    run: Run, tmp_path: Path, place: Callable[[Path], str], args: list[str]
) -> None:
    open_store(tmp_path / "store.db").close()
    (tmp_path / "text").write_text("no store")
    Path("text").write_text("no session")
    os.mkfifo(tmp_path / "pipe")
    before = sorted(path for path in tmp_path.rglob("*"))
    result = run("--db", place(tmp_path), *args)
    assert (result.exit_code, result.stdout if args != ["doctor"] else "") == (3, "")
    assert result.stderr.startswith("error: ")
    assert sorted(path for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("source", ["pipe", "/dev/zero"])
def test_what_is_no_regular_file_is_not_even_opened_to_import_it(run: Run, source: str) -> None:
    os.mkfifo("pipe")
    result = run("--db", "a.db", "import", source)
    assert (result.exit_code, "no regular file" in result.stderr) == (1, True)


def test_a_name_for_an_imported_thread_is_looked_at_before_anything_is_taken_in(run: Run) -> None:
    Path("a.jsonl").write_text('{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","content":"hi"}}\n')
    assert run("--db", "a.db", "import", "a.jsonl", "--thread", "a\nb").exit_code == 2
    assert not Path("a.db").exists()


def test_a_depth_bomb_is_of_no_known_form(run: Run) -> None:
    Path("bomb.json").write_bytes(b'{"a":' * 100_000)
    assert run("--db", "a.db", "import", "bomb.json").exit_code == 1


def test_more_on_stdin_than_an_event_holds_is_refused(run: Run, db: Path) -> None:
    result = run("--db", db, "append", TITLE, "--stdin", input=b"x" * (BODY_BYTES_MAX + 100))
    assert (result.exit_code, "limit" in result.stderr) == (2, True)


def test_a_summary_of_no_run_of_nodes_is_refused(run: Run, db: Path) -> None:
    for first, last in ((-1, 99_999), (5, 2), (2, 7), (2, 999)):
        body = f'{{"first": {first}, "last": {last}, "text": "x"}}'
        assert run("--db", db, "append", TITLE, "--event", "summary.added", body).exit_code in {1, 2}
    assert run("--db", db, "verify").exit_code == 0


@pytest.mark.parametrize("command", ["show", "audit", "verify", "log", "export", "delete", "replay"])
def test_a_name_that_is_no_unicode_is_2(run: Run, db: Path, command: str) -> None:
    assert run("--db", db, command, "\udcff").exit_code == 2


# --- damaged stores ---

DAMAGES = {
    "no source": "UPDATE sources SET json = '7' WHERE id = 1",
    "source gone": "UPDATE events SET source = 99 WHERE position = 2",
    "references": "UPDATE events SET refs = '' WHERE position = 5",
    "gap": "DELETE FROM events WHERE position = 3",
    "last position": f"UPDATE events SET position = {2**63 - 1} WHERE position = 13",
    "parent": "UPDATE events SET parent = -1 WHERE position = 6",
    "head": "UPDATE events SET head = 77 WHERE position = 13",
    "body": "UPDATE events SET body = '[1]' WHERE position = 2",
    "output": "UPDATE events SET output = CAST(x'fffe' AS TEXT) WHERE position = 5",
    "halves": """UPDATE events SET body = replace(body, '}', ',"halves":[[-9,70000]]}') WHERE position = 3""",
    "time": f"UPDATE events SET recorded_at = {2**63 - 1}",
}

READING = (
    ["threads"],
    ["threads", "--json"],
    ["log", TITLE],
    ["log", TITLE, "--graph"],
    ["log", TITLE, "--events", "--json"],
    ["show", TITLE],
    ["show", f"{TITLE}:5"],
    ["replay", TITLE, "--json", "--full"],
    ["why", TITLE],
    ["project", "turn-memory@6", TITLE],
    ["audit"],
    ["branch", TITLE],
    ["doctor"],
    ["export", TITLE],
    ["export", TITLE, "--format", "markdown"],
    ["export", TITLE, "--format", "openai-chat"],
    ["redact", TITLE, "--match", "fail", "--reason", "test"],
    ["delete", TITLE],
    ["append", TITLE, "--user", "more"],
    ["compact", f"{TITLE}:2..3", "--text", "x"],
)


@pytest.mark.parametrize("statement", DAMAGES.values(), ids=DAMAGES)
def test_no_command_on_a_damaged_store_ends_in_a_traceback_or_calls_anything_exact(
    run: Run, db: Path, statement: str
) -> None:
    alter(db, statement)
    for args in READING:
        result = run("--db", db, *args)  # anything but an exit fails there
        assert result.exit_code in {0, 1, 2, 3, 5}, args
        assert '"verdict":"exact"' not in result.stdout
    assert run("--db", db, "verify").exit_code == 1


def test_a_defect_of_the_program_is_not_put_down_to_a_whole_store(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise KeyError("defect")

    monkeypatch.setattr("convlog.eventstore.health.writers", fails)
    result = CliRunner().invoke(group, ["--db", str(db), "doctor"])
    assert isinstance(result.exception, KeyError)


def test_an_error_that_a_damage_explains_names_the_damage(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise KeyError("because of it")

    alter(db, "UPDATE events SET body = '[1]' WHERE position = 2")
    monkeypatch.setattr("convlog.eventstore.health.writers", fails)
    result = CliRunner().invoke(group, ["--db", str(db), "doctor"])
    assert result.exit_code == 1
    assert "the store is damaged" in result.stderr
    assert ":2 commitment" in result.stderr


def test_a_command_s_own_errors_and_exits_stay_what_they_are_on_a_damaged_store(run: Run, db: Path) -> None:
    alter(db, "UPDATE events SET body = '[1]' WHERE position = 2")
    assert run("--db", db, "verify").stderr.startswith("NOT OK")
    assert "Usage" in run("--db", db, "append", TITLE).stderr
