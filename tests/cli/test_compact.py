"""`convlog compact`: a summary in place of a range, by hand, by a program, by a frozen summariser."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import convlog
from convlog.eventstore.events import Facts

from .conftest import Run
from .prepared import TALK, lines, position_of, talk

__all__ = ["talk"]


@pytest.fixture
def turn(talk: Path) -> str:
    """Give the address of the first turn's range."""
    return f"{TALK}:{position_of(talk, 'sum wrong')}..{position_of(talk, 'rounds twice')}"


def summaries(path: Path) -> list[convlog.Event]:
    with convlog.open(path, mode="r") as store:
        return list(store.thread(TALK).events(types=("summary.added",)))


def notes(path: Path) -> list[str]:
    with convlog.open(path, mode="r") as store:
        return [event.type for event in store.thread(TALK).events() if event.type.startswith("summary.")]


def test_words_stand_for_a_range(run: Run, talk: Path, turn: str) -> None:
    result = run("-d", talk, "compact", turn, "--text", "We looked.")
    assert result.exit_code == 0
    (event,) = summaries(talk)
    assert f":{event.position} stands for " in result.stdout
    assert "tokens" in result.stderr
    assert (event.body.text, event.body.maker) == ("We looked.", "hand")
    assert "We looked." in run("-d", talk, "why", f"{TALK}:{position_of(talk, 'for dollars')}").stdout


def test_words_come_from_stdin(run: Run, talk: Path, turn: str) -> None:
    assert run("-d", talk, "compact", turn, "--stdin", input="From stdin.").exit_code == 0
    assert summaries(talk)[0].body.text == "From stdin."


def test_a_frozen_summariser_makes_the_words(run: Run, talk: Path, turn: str) -> None:
    result = run("-d", talk, "compact", turn, "--with", "outline@1", "--json")
    (line,) = lines(result.stdout)
    (event,) = summaries(talk)
    assert (line["schema"], line["summary"], line["nodes"]) == ("convlog.compact/1", event.position, event.body.nodes)
    assert {"thread", "first", "last", "tokens_saved"} <= set(line)
    assert event.body.maker == "outline@1"
    assert event.body.text.startswith("Goals:\n- Why is the sum wrong?")
    assert run("-d", talk, "audit").exit_code == 0


def test_a_program_gets_the_originals_and_prints_the_words(run: Run, talk: Path, turn: str) -> None:
    program = f"{sys.executable} -c 'import sys; print(len(sys.stdin.read().splitlines()), chr(0xfc))'"
    assert run("-d", talk, "compact", turn, "--cmd", program, env={"PYTHONIOENCODING": "utf-8"}).exit_code == 0
    (event,) = summaries(talk)
    assert (event.body.text, event.body.maker) == ("6 ü", "command")
    assert notes(talk) == ["summary.started", "summary.added"]


@pytest.mark.parametrize(
    ("program", "words"), [("echo no good >&2; exit 3", "ended with 3: no good"), ("true", "nothing")]
)
def test_a_program_that_fails_is_noted_and_nothing_stands(
    run: Run, talk: Path, turn: str, program: str, words: str
) -> None:
    result = run("-d", talk, "compact", turn, "--cmd", program)
    assert result.exit_code == 1
    assert words in result.stderr
    assert notes(talk) == ["summary.started", "summary.failed"]


def test_a_dry_run_says_what_it_would_save_and_writes_nothing(run: Run, talk: Path, turn: str) -> None:
    result = run("-d", talk, "compact", turn, "--with", "outline@1", "--dry-run")
    assert result.exit_code == 0
    assert result.stdout.startswith("Goals:")
    assert "would stand for" in result.stderr
    assert run("-d", talk, "compact", turn, "--cmd", "echo words", "--dry-run").stdout == "words\n"
    (line,) = lines(run("-d", talk, "compact", turn, "--text", "We looked.", "--dry-run", "--json").stdout)
    assert (line["text"], "summary" in line) == ("We looked.", False)
    assert notes(talk) == []


def test_what_the_words_leave_out_is_named(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with convlog.open(path) as store:
        thread = store.create_thread(title=TALK)
        thread.user("Mend it.")
        thread.call("c", "Edit", {})
        thread.result("c", "ok", facts=Facts(file_changed="src/sum.py"))
    result = run("-d", path, "compact", f"{TALK}:2..4", "--text", "Mended.", "--check", "--dry-run")
    assert "not mentioned: changed file src/sum.py" in result.stderr
    result = run("-d", path, "compact", f"{TALK}:2..4", "--text", "Mended sum.py.", "--check", "--dry-run")
    assert "not mentioned" not in result.stderr


def test_a_summary_is_made_again_and_names_the_call_that_asked_for_it(run: Run, talk: Path, turn: str) -> None:
    run("-d", talk, "compact", turn, "--text", "Old.")
    old = summaries(talk)[0].position
    result = run("-d", talk, "compact", turn, "--text", "New.", "--replaces", old, "--call", f"{TALK}/4")
    assert result.exit_code == 0
    new = summaries(talk)[1]
    assert new.body.replaces == old
    assert new.body.call is not None
    assert run("-d", talk, "compact", turn, "--text", "New.", "--replaces", 2).exit_code == 2
    assert run("-d", talk, "compact", turn, "--text", "New.", "--call", f"{TALK}:2").exit_code == 2


def test_a_range_of_another_branch_is_named_with_its_leaf(run: Run, talk: Path) -> None:
    francs = position_of(talk, "for francs")
    assert run("-d", talk, "compact", f"{TALK}:{francs}..{francs}", "--text", "Francs.").exit_code == 1
    assert (
        run(
            "-d", talk, "compact", f"{TALK}:{francs}..{francs}", "--text", "Francs.", "--on", f"{TALK}@francs"
        ).exit_code
        == 0
    )


def test_a_range_that_cuts_a_call_from_its_result_is_refused_with_the_one_that_does_not(run: Run, talk: Path) -> None:
    call = position_of(talk, "sum.py")
    result = run("-d", talk, "compact", f"{TALK}:2..{call}", "--text", "Part.")
    assert result.exit_code == 1
    assert f"the smallest closed range around it is 2..{call + 2}" in result.stderr
    assert notes(talk) == []


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--text", "a", "--stdin"],
        ["--text", "a", "--with", "outline@1"],
        ["--with", "outline@9"],
        ["--with", "transcript@1"],
        ["--with", "outline@1", "--call", f"{TALK}/1"],
        ["--text", "  "],
        ["--text", "a", "--on", "nobody"],
    ],
    ids=" ".join,
)
def test_words_come_one_way(run: Run, talk: Path, turn: str, args: list[str]) -> None:
    assert run("-d", talk, "compact", turn, *args).exit_code == 2
    assert summaries(talk) == []


@pytest.mark.parametrize("address", [TALK, f"{TALK}:3", f"{TALK}/1", f"{TALK}:999..1000"])
def test_only_a_range_can_be_summarised(run: Run, talk: Path, address: str) -> None:
    assert run("-d", talk, "compact", address, "--text", "a").exit_code == 2


def test_addresses_name_the_same_thread(run: Run, talk: Path, turn: str) -> None:
    with convlog.open(talk) as store:
        store.create_thread(title="other").user("Hello.")
    assert run("-d", talk, "compact", turn, "--text", "a", "--on", "other:2").exit_code == 2
