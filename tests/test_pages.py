"""The rules by which pages are run: a page that lies must fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import Block, PageFailed, Runner, commands_of, compare


def block(text: str, language: str = "console", reason: str = "") -> Block:
    return Block("page.md", 1, language, reason, text)


def expect(expected: str, printed: str) -> None:
    compare(block(""), "command", expected.splitlines(), printed)


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Runner(folder)


def test_commands_carry_the_lines_below_them() -> None:
    found = list(commands_of(block("$ one\nfirst\nsecond\n$ two \\\n>   more\n$ three\n")))
    assert found == [("one", ["first", "second"]), ("two \\\n  more", []), ("three", [])]


def test_output_without_a_command_is_refused() -> None:
    with pytest.raises(PageFailed, match="before the first command"):
        list(commands_of(block("words\n$ one\n")))


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("a\nb", "a\nb\n"),
        ("a\n...\nd", "a\nb\nc\nd\n"),
        ("a\n...\nb", "a\nb\n"),
        ("...\nb\n...", "a\nb\nb\nc"),
        ("a ... c.", "a b, b c."),
        ("thread 0123456789ab took 3 ms", "thread fedcba9876543210 took 4.25 ms"),
        ("at 2026-01-02 03:04 in /tmp/x/demo.db", "at 2027-11-30T13:14:15Z in /tmp/y-1/z/other.db"),
        ("", "anything"),
    ],
)
def test_output_that_fits_passes(expected: str, printed: str) -> None:
    expect(expected, printed)


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("a\nb", "a\n"),
        ("a", "a\nb\n"),
        ("a\n...\nd", "a\nb\nc\n"),
        ("a ... c", "a b d"),
        ("a.c", "abc"),
        ("7 events", "8 events"),
        ("thread 0123456789ab", "thread none"),
        ("deadbeaf", "cafebabe"),
    ],
)
def test_output_that_differs_fails(expected: str, printed: str) -> None:
    with pytest.raises(PageFailed, match="something else"):
        expect(expected, printed)


def test_python_blocks_share_a_namespace_and_a_folder(runner: Runner) -> None:
    runner.run(block("x = 1\nopen('note', 'w').close()", "python"))
    runner.run(block("assert x == 1", "python"))
    runner.run(block("$ ls\nnote\n"))


def test_a_command_that_fails_fails_the_page(runner: Runner) -> None:
    with pytest.raises(PageFailed, match="ended with 3"):
        runner.run(block("$ exit 3\n"))
    runner.run(block("$ false; echo $?\n1\n"))


def test_a_block_with_a_reason_is_not_run(runner: Runner) -> None:
    runner.run(block("$ exit 3\n", reason="needs a network"))
    runner.run(block("raise SystemExit", "python", "sketch"))


def test_a_language_without_a_rule_is_refused(runner: Runner) -> None:
    with pytest.raises(PageFailed, match="no rule"):
        runner.run(block("IDENTIFICATION DIVISION.", "cobol"))


def test_data_blocks_are_parsed(runner: Runner) -> None:
    runner.run(block('{"a": 1}', "json"))
    with pytest.raises(ValueError, match="truncated"):
        runner.run(block("{", "json"))
