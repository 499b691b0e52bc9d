"""Importing files and folders, exporting threads, and redacting."""

from __future__ import annotations

import json
import os
import pty
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from convlog.cli.moments import moment_us
from convlog.cli.text import width
from convlog.eventstore.store import open_store
from convlog.projections.exports import EXPORTS

from .conftest import TITLE, Run
from .prepared import TALK, damage, talk

__all__ = ["talk"]

ROOT = Path(__file__).resolve().parents[2]


def session(*texts: str, id_: str = "s1", at: int = 0) -> str:
    """Give the lines of a Claude Code session in which a user says some texts."""
    return "".join(
        json.dumps(
            {
                "type": "user",
                "sessionId": id_,
                "uuid": f"{id_}-{number}",
                "parentUuid": f"{id_}-{number - 1}" if number else None,
                "timestamp": f"2026-01-{at + 1:02}T00:00:{number:02}.000Z",
                "message": {"role": "user", "content": text},
            }
        )
        + "\n"
        for number, text in enumerate(texts)
    )


def lines(text: str) -> list[dict[str, Any]]:
    """Parse JSON Lines."""
    return [json.loads(line) for line in text.splitlines()]


# --- import ---


def test_a_session_becomes_a_thread_once(run: Run) -> None:
    Path("a.jsonl").write_text(session("hello", "again"))
    result = run("-d", "a.db", "import", "a.jsonl")
    assert result.exit_code == 0
    assert "claude-code: 2 messages" in result.stdout
    assert run("-d", "a.db", "log", "s1", "--oneline", "-n", 1).stdout.endswith("again\n")
    assert "added 0 events" in run("-d", "a.db", "import", "a.jsonl").stdout


def test_a_dry_run_writes_nothing_and_needs_no_store(run: Run) -> None:
    Path("a.jsonl").write_text(session("hello"))
    result = run("-d", "a.db", "import", "a.jsonl", "--dry-run")
    assert result.exit_code == 0
    assert "would add" in result.stdout
    assert not Path("a.db").exists()
    run("-d", "a.db", "append", "--new", "x", "--user", "hi")
    assert run("-d", "a.db", "import", "a.jsonl", "--dry-run").exit_code == 0
    assert len(run("-d", "a.db", "threads").stdout.splitlines()) == 2


def test_stdin_is_a_file_too(run: Run) -> None:
    assert run("-d", "a.db", "import", "-", input=session("from a pipe")).exit_code == 0
    assert "from a pipe" in run("-d", "a.db", "show", "latest").stdout


def test_a_folder_is_taken_in_by_the_time_its_users_spoke_last(run: Run) -> None:
    folder = Path("sessions")
    folder.mkdir()
    (folder / "a.jsonl").write_text(session("newest", id_="s9", at=9))
    (folder / "b.jsonl").write_text(session("oldest", id_="s1", at=1))
    (folder / "notes.md").write_text("# no session")
    result = run("-d", "a.db", "import", folder)
    assert result.exit_code == 0
    assert "1 file of no known form left alone" in result.stderr
    assert "notes.md" in run("-d", "a.db", "-v", "import", folder).stderr
    assert "newest" in run("-d", "a.db", "show", "latest").stdout


def test_a_folder_gives_a_table_with_a_sum_that_fits_80_columns(run: Run) -> None:
    folder = Path("sessions", "a-long-name-of-a-project-folder-as-programs-make-them")
    folder.mkdir(parents=True)
    (folder / "0b3a9d2e-5f5c-4c7d-9a51-2f6a8e1b4c90.jsonl").write_text(session("one", "two", at=1))
    (folder / "b.jsonl").write_text("{not json\n" + session("three", id_="s2"))
    result = run("-d", "a.db", "import", "sessions")
    head, second, first, total = [line.split() for line in result.stdout.splitlines()]
    assert head == ["file", "form", "messages", "calls", "added", "warnings"]
    assert first[0].startswith("…")
    assert first[0].endswith("4c90.jsonl")
    assert (first[1:4], first[5:]) == (["claude-code", "2", "0"], ["0"])
    assert (second[1:4], second[5:]) == (["claude-code", "1", "0"], ["1"])
    assert (total[:4], total[5:]) == (["2", "files", "3", "0"], ["1"])
    assert [line for line in result.stdout.splitlines() if width(line) > 80] == []
    assert "1 record lost; -v names them" in result.stderr
    assert "b.jsonl:1: " in run("-d", "a.db", "-v", "import", "sessions").stderr
    assert [row["schema"] for row in lines(run("-d", "a.db", "import", "sessions", "--json").stdout)] == [
        "convlog.import/1",
        "convlog.import/1",
    ]


def test_since_leaves_older_files_alone(run: Run) -> None:
    Path("old.jsonl").write_text(session("old", id_="old", at=1))
    Path("new.jsonl").write_text(session("new", id_="new", at=9))
    result = run("-d", "a.db", "--utc", "import", "old.jsonl", "new.jsonl", "--since", "2026-01-05")
    assert "1 file older than 2026-01-05 00:00:00Z left alone" in result.stderr
    assert [row["source_id"] for row in lines(run("-d", "a.db", "threads", "--json").stdout)] == ["new"]
    assert run("-d", "a.db", "import", "old.jsonl", "--since", "2000000d").exit_code == 0
    assert len(lines(run("-d", "a.db", "threads", "--json").stdout)) == 2
    assert run("-d", "a.db", "import", "old.jsonl", "--since", "yesterday").exit_code == 2


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-03-14T09:30:00+01:00", 1_773_477_000_000_000),
        ("2026-03-14T08:30:00Z", 1_773_477_000_000_000),
        ("180d", 1_773_477_000_000_000 - 180 * 86_400_000_000),
        ("2h", 1_773_477_000_000_000 - 7_200_000_000),
        ("30min", 1_773_477_000_000_000 - 1_800_000_000),
    ],
)
def test_a_moment_is_a_time_or_an_age(text: str, moment: int) -> None:
    assert moment_us(text, now_us=1_773_477_000_000_000) == moment


@pytest.mark.parametrize("args", [["-"], ["a.jsonl", "--dry-run"], ["a.jsonl", "--thread", "x"]])
def test_what_cannot_be_watched_is_a_usage_error(run: Run, args: list[str]) -> None:
    Path("a.jsonl").write_text(session("one"))
    assert run("-d", "a.db", "import", "--watch", *args).exit_code == 2


def test_a_watched_file_comes_in_as_it_grows_until_ctrl_c() -> None:
    growing = Path("a.jsonl")
    growing.write_text(session("one"))
    command = [sys.executable, "-m", "convlog", "-d", "a.db", "import", "a.jsonl", "--watch", "--interval", "0.05"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert "claude-code: 1 message," in process.stdout.readline()
        growing.write_text(session("one", "two"))
        assert "claude-code: 2 messages," in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, words = process.communicate()
    assert (process.returncode, rest) == (0, "")
    assert words.endswith("ended\n")
    with open_store("a.db", mode="r") as store:
        said = [event.body.content[0].text for event in store.latest().path() if event.type == "input.added"]
    assert said == ["one", "two"]


def test_a_bad_line_costs_that_line_and_is_named(run: Run) -> None:
    Path("a.jsonl").write_text(
        session("one") + "{not json \x1b[2J\n" + session("two", id_="s1").replace("s1-0", "s1-7")
    )
    result = run("-d", "a.db", "import", "a.jsonl")
    assert result.exit_code == 0
    assert "1 record lost" in result.stdout
    assert "a.jsonl:2: " in result.stderr
    assert "\x1b" not in result.output


def test_strict_takes_all_or_nothing(run: Run) -> None:
    Path("a.jsonl").write_text(session("one") + "{not json\n")
    result = run("-d", "a.db", "import", "a.jsonl", "--strict")
    assert result.exit_code == 1
    assert "1 record would be lost; nothing was written" in result.stderr
    assert run("-d", "a.db", "threads").stdout == ""


def test_a_deleted_session_comes_back_only_when_asked_for(run: Run) -> None:
    Path("a.jsonl").write_text(session("one"))
    run("-d", "a.db", "import", "a.jsonl")
    run("-d", "a.db", "delete", "s1", "--yes")
    refused = run("-d", "a.db", "import", "a.jsonl")
    assert refused.exit_code == 1
    assert "deleted" in refused.stderr
    assert run("-d", "a.db", "import", "a.jsonl", "--again").exit_code == 0


def test_a_thread_can_be_named_and_is_named_once(run: Run) -> None:
    Path("a.jsonl").write_text(session("one"))
    for _ in range(2):
        assert run("-d", "a.db", "import", "a.jsonl", "--thread", "my talk").exit_code == 0
    assert len(lines(run("-d", "a.db", "log", "my talk", "--events", "--kind", "thread.titled", "--json").stdout)) == 1
    assert run("-d", "a.db", "import", "a.jsonl", "a.jsonl", "--thread", "x").exit_code == 2


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_what_is_said_of_a_file_fits_the_terminal(run: Run, columns: int) -> None:
    folder = Path("a-folder-with-a-long-name" * 3)
    folder.mkdir()
    (folder / "日本.jsonl").write_text(session("hello"))
    Path("a.jsonl").write_text(session("hello", id_="s2"))
    result = run("-d", "a.db", "import", folder / "日本.jsonl", "a.jsonl", env={"COLUMNS": str(columns)})
    lines = result.stdout.splitlines()
    assert [line for line in lines if width(line) > columns] == []
    assert any(line.endswith("日本.jsonl") for line in lines)
    assert result.stdout.count("1 message, 0 tool calls;") == 2
    assert run("-d", "a.db", "export", "s2", "-o", "x.convlog").exit_code == 0
    native = run("-d", "b.db", "import", "x.convlog", env={"COLUMNS": str(columns)}).stdout
    assert [line for line in native.splitlines() if width(line) > columns] == []


def test_calls_without_a_result_are_counted(run: Run) -> None:
    call = {
        "type": "assistant",
        "sessionId": "s1",
        "uuid": "s1-1",
        "parentUuid": "s1-0",
        "timestamp": "2026-01-01T00:01:00.000Z",
        "message": {
            "id": "m1",
            "role": "assistant",
            "content": [{"type": "tool_use", "id": f"c{number}", "name": "Read", "input": {}} for number in range(2)],
        },
    }
    Path("a.jsonl").write_text(session("hello") + json.dumps(call) + "\n")
    assert "2 tool calls (2 without a result);" in " ".join(run("-d", "a.db", "import", "a.jsonl").stdout.split())
    Path("b.jsonl").write_text(session("hello", id_="s2"))
    assert "without a result" not in run("-d", "a.db", "import", "b.jsonl").stdout


def test_what_is_no_session_is_1_and_the_others_go_on(run: Run) -> None:
    Path("a.jsonl").write_text(session("one"))
    Path("b.txt").write_text("no session at all\n")
    result = run("-d", "a.db", "import", "b.txt", "a.jsonl")
    assert result.exit_code == 1
    assert "b.txt" in result.stderr
    assert "a.jsonl  claude-code" in result.stdout


@pytest.mark.parametrize(
    ("args", "code"), [(["gone.jsonl"], 2), ([], 2), (["a.jsonl", "--from", "unheard-of"], 2), (["empty.jsonl"], 1)]
)
def test_what_cannot_be_read_is_told(run: Run, args: list[str], code: int) -> None:
    Path("a.jsonl").write_text(session("one"))
    Path("empty.jsonl").touch()
    assert run("-d", "a.db", "import", *args).exit_code == code


def test_an_import_as_json_is_one_line_a_file(run: Run) -> None:
    Path("a.jsonl").write_text(session("one"))
    (found,) = lines(run("-d", "a.db", "import", "a.jsonl", "--json").stdout)
    assert (found["schema"], found["format"], found["error"]) == ("convlog.import/1", "claude-code", None)
    assert found["report"]["user_messages"] == 1


def test_a_long_file_has_a_progress_bar_on_a_terminal_and_none_elsewhere() -> None:
    Path("long.jsonl").write_text(session(*["x" * 300_000] * 8))
    command = [sys.executable, "-m", "convlog", "-d", "a.db", "import", "long.jsonl", "--dry-run"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "80"}
    quiet = subprocess.run(command, env=environ, capture_output=True, timeout=60, check=True)
    assert quiet.stderr == b""
    parent, child = pty.openpty()
    subprocess.run(command, env=environ, stdout=subprocess.DEVNULL, stderr=child, timeout=60, check=True)
    os.close(child)
    seen = os.read(parent, 65536)
    os.close(parent)
    assert b"long.jsonl" in seen
    assert b"MB" in seen


# --- export ---


def test_an_export_to_stdout_is_json_lines(run: Run, db: Path) -> None:
    result = run("-d", db, "export", TITLE)
    assert result.exit_code == 0
    assert len(lines(result.stdout)) >= 14


def test_an_exported_file_is_whole_and_its_owners_alone(run: Run, db: Path) -> None:
    result = run("-d", db, "export", TITLE, "-o", "out.jsonl", "--json")
    (found,) = lines(result.stdout)
    path = Path("out.jsonl")
    assert (found["schema"], found["bytes"]) == ("convlog.export/1", path.stat().st_size)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == run("-d", db, "export", TITLE, "--format", "convlog").stdout
    assert [entry.name for entry in Path.cwd().iterdir()] == ["out.jsonl"]


def test_an_export_that_fails_leaves_the_file_as_it_was(run: Run, db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from convlog.eventstore import native

    def breaking(*_: object) -> Any:
        yield b"half"
        raise OSError(28, "No space left on device")

    Path("out.jsonl").write_text("before")
    monkeypatch.setattr(native, "export_thread", breaking)
    result = run("-d", db, "export", TITLE, "-o", "out.jsonl")
    assert result.exit_code == 1
    assert "No space left" in result.stderr
    assert [entry.read_text() for entry in Path.cwd().iterdir()] == ["before"]


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("out.md", "# "),
        ("out.atif.json", '{"schema_version":'),
        ("OUT.OPENAI.JSON", "{"),
        ("out.claude-code.jsonl", "{"),
    ],
)
def test_a_files_name_asks_for_its_form(run: Run, db: Path, name: str, begins: str) -> None:
    assert run("-d", db, "export", TITLE, "-o", name).exit_code == 0
    assert Path(name).read_text().startswith(begins)


@pytest.mark.parametrize("form", EXPORTS)
def test_every_form_goes_to_stdout(run: Run, db: Path, form: str) -> None:
    result = run("-d", db, "export", TITLE, "--format", form)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout


def test_a_session_comes_back_as_it_was(run: Run) -> None:
    Path("a.jsonl").write_text(session("hello", "again"))
    run("-d", "a.db", "import", "a.jsonl")
    result = run("-d", "a.db", "export", "s1", "--format", "claude-code")
    assert lines(result.stdout) == lines(session("hello", "again"))


def test_a_branch_or_a_node_is_exported_alone_where_the_form_allows_it(run: Run) -> None:
    Path("a.jsonl").write_text(session("hello", "again"))
    run("-d", "a.db", "import", "a.jsonl")
    assert len(run("-d", "a.db", "export", "s1:2", "--format", "claude-code").stdout.splitlines()) == 1
    for address, form in (("s1:2", "convlog"), ("s1:2..3", "markdown"), ("s1/1", "atif")):
        assert run("-d", "a.db", "export", address, "--format", form).exit_code == 2


@pytest.mark.parametrize(
    ("args", "code"), [(["nobody"], 2), ([TITLE, "--format", "tape"], 2), ([TITLE, "-o", "no/folder/x"], 1)]
)
def test_what_cannot_be_exported_is_told(run: Run, db: Path, args: list[str], code: int) -> None:
    result = run("-d", db, "export", *args)
    assert result.exit_code == code
    assert "no/folder/.x" not in result.stderr, "a file that nobody named"


@pytest.mark.parametrize("by_stdin", [False, True])
def test_an_export_comes_into_another_store_with_the_same_tip(run: Run, db: Path, *, by_stdin: bool) -> None:
    run("-d", db, "export", TITLE, "-o", "out.jsonl")
    source, data = ("-", Path("out.jsonl").read_bytes()) if by_stdin else ("out.jsonl", None)
    dry = run("-d", "b.db", "import", source, "--dry-run", input=data)
    assert "14 events of 14" in dry.stdout
    assert not Path("b.db").exists()
    assert "added 14 events of 14" in run("-d", "b.db", "import", source, input=data).stdout
    (again,) = lines(run("-d", "b.db", "import", source, "--json", input=data).stdout)
    assert (again["schema"], again["stored"]) == ("convlog.import-native/1", 0)
    assert run("-d", "b.db", "import", source, "--thread", "x", input=data).exit_code == 2
    tips = [lines(run("-d", path, "threads", "--json").stdout)[0]["tip"] for path in (db, "b.db")]
    assert tips[0] == tips[1]
    assert run("-d", "b.db", "verify").exit_code == 0


def test_an_export_that_was_altered_or_says_otherwise_is_refused(run: Run, db: Path) -> None:
    run("-d", db, "export", TITLE, "-o", "out.jsonl")
    text = Path("out.jsonl").read_text()
    Path("altered.jsonl").write_text(text.replace("sleeps", "sleept"))
    assert run("-d", "b.db", "import", "altered.jsonl").exit_code == 1
    assert run("-d", "b.db", "threads").stdout == ""
    run("-d", "b.db", "import", "out.jsonl")
    run("-d", "b.db", "append", TITLE, "--user", "here")
    run("-d", db, "append", TITLE, "--user", "there")
    run("-d", db, "export", TITLE, "-o", "out.jsonl")
    refused = run("-d", "b.db", "import", "out.jsonl")
    assert refused.exit_code == 1
    assert "15" in refused.stderr


# --- redact ---


def test_nothing_is_redacted_without_yes(run: Run, db: Path) -> None:
    result = run("-d", db, "redact", TITLE, "--match", "sleeps", "--reason", "secret")
    assert result.exit_code == 0
    assert result.stdout.count("would redact") == 1
    assert ":6 " in result.stdout
    assert "--yes" in result.stderr
    assert b"sleeps" in db.read_bytes()


def test_words_are_taken_out_everywhere_and_the_chain_still_verifies(run: Run, db: Path) -> None:
    result = run("-d", db, "redact", TITLE, "--match", "sleeps", "--with", "#", "--reason", "secret", "--yes")
    assert result.exit_code == 0
    assert b"sleeps" not in db.read_bytes()
    assert run("-d", db, "show", f"{TITLE}:6", "--raw").stdout == "It #."
    assert "redacted  by event" in run("-d", db, "show", f"{TITLE}:6").stdout
    assert "(redacted)" in run("-d", db, "log", TITLE, "--oneline").stdout
    assert run("-d", db, "verify").exit_code == 0


def test_an_event_is_taken_out_whole(run: Run, db: Path) -> None:
    result = run("-d", db, "redact", f"{TITLE}:5..6", "--whole", "--reason", "secret", "--yes", "--json")
    assert {line["schema"] for line in lines(result.stdout)} == {"convlog.redacted/1"}
    assert b"1 failed" not in db.read_bytes()
    assert run("-d", db, "show", f"{TITLE}:6", "--raw").stdout == "[redacted]"


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ([TITLE, "--match", "not there", "--reason", "x"], 2),
        ([TITLE, "--match", "not there", "--reason", "x", "--yes"], 2),
        ([TITLE, "--whole", "--reason", "x"], 2),
        ([f"{TITLE}:6", "--reason", "x"], 2),
        ([f"{TITLE}:6", "--whole", "--match", "a", "--reason", "x"], 2),
        ([f"{TITLE}:6", "--whole"], 2),
        ([f"{TITLE}:99", "--whole", "--reason", "x"], 2),
        ([f"{TITLE}:6", "--match", "sleeps", "--with", "sleeps!", "--reason", "x", "--yes"], 2),
    ],
)
def test_a_redaction_that_says_too_little_writes_nothing(run: Run, db: Path, args: list[str], code: int) -> None:
    before = db.read_bytes()
    assert run("-d", db, "redact", *args).exit_code == code
    assert run("-d", db, "show", f"{TITLE}:6", "--raw").stdout == "It sleeps."
    assert len(before) == len(db.read_bytes())


@pytest.mark.parametrize("form", ["convlog", "markdown"])
@pytest.mark.parametrize("output", [[], ["-o", "out"]], ids=["stdout", "file"])
def test_a_damaged_thread_is_written_with_a_warning(run: Run, talk: Path, form: str, output: list[str]) -> None:
    sound = run("-d", talk, "-q", "export", TALK, "--format", form, *output)
    assert (sound.exit_code, sound.stderr) == (0, "")
    damage(talk)
    result = run("-d", talk, "-q", "export", TALK, "--format", form, *output)
    assert result.exit_code == 0
    assert "is damaged (1 fault), and so is what was written" in result.stderr
    assert "hint: convlog verify " in result.stderr
    assert "sum right" in (Path("out").read_text(encoding="utf-8") if output else result.stdout)
