"""`convlog lint`: anyone's request from a file, or the prompt that an address names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from convlog.projections.conversation import open as open_store
from tests.projections.examples import DROP, EXAMPLES, TARGETS, changed

from .conftest import ESCAPES, Run

FORMATS = sorted(EXAMPLES)


def file(path: Path, request: Any) -> Path:
    path.write_text(json.dumps(request), encoding="utf-8")
    return path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "request.json"


@pytest.mark.parametrize("wire_format", FORMATS)
def test_a_request_that_is_fine_says_so(run: Run, place: Path, wire_format: str) -> None:
    result = run(
        "lint",
        file(place, EXAMPLES[wire_format]),
        "--encoder",
        f"{wire_format}@1",
        "--profile",
        TARGETS[wire_format],
    )
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"ok  {wire_format} for {TARGETS[wire_format]}\n"


def test_findings_are_written_with_rule_and_place_and_end_with_1(run: Run, place: Path) -> None:
    request = changed(EXAMPLES["anthropic"], {"/messages/2/content/0": DROP})
    result = run("lint", file(place, request), "--encoder", "anthropic@1")
    assert result.exit_code == 1
    assert [line.split()[:2] for line in result.stdout.splitlines()] == [
        ["X1", "/messages/1/content/2"],
        ["A8", "/messages/1/content/2"],
    ]
    assert "2 findings  anthropic for claude-sonnet-4-6" in result.stderr


def test_findings_as_json_lines(run: Run, place: Path) -> None:
    request = changed(EXAMPLES["openai-chat"], {"/messages/3": DROP})
    result = run("lint", file(place, request), "--encoder", "openai-chat@1", "--json")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 1
    assert {line["schema"] for line in found} == {"convlog.lint/1"}
    assert {"X1", "O1"} <= {line["rule"] for line in found}
    assert {(line["format"], line["profile"]) for line in found} == {("openai-chat", "gpt-5.4")}
    assert all(line["pointer"].startswith("/messages/") and line["message"] and line["says"] for line in found)


def test_a_request_comes_from_stdin_too(run: Run) -> None:
    given = json.dumps(EXAMPLES["bedrock"])
    assert run("lint", "-", "--encoder", "bedrock@1", input=given).exit_code == 0


def test_half_a_surrogate_pair_is_a_finding_not_a_failure(run: Run, place: Path) -> None:
    request = changed(EXAMPLES["anthropic"], {"/messages/0/content/0/text": "half \ud83d"})
    result = run("lint", file(place, request), "--encoder", "anthropic@1")
    assert result.exit_code == 1
    assert "A28" in result.stdout


def test_the_profile_decides(run: Run, place: Path) -> None:
    request = changed(EXAMPLES["anthropic"], {"/temperature": 0.5})
    path = file(place, request)
    assert run("lint", path, "--encoder", "anthropic@1").exit_code == 0
    judged = run("lint", path, "--encoder", "anthropic@1", "--profile", "claude-opus-5")
    assert judged.exit_code == 1
    assert judged.stdout.startswith("A31")


def test_terminals_are_safe_from_what_a_file_holds(run: Run, place: Path) -> None:
    request = changed(
        EXAMPLES["anthropic"], {"/messages/1/content/2/id": ESCAPES, "/messages/1/content/2/name": ESCAPES}
    )
    for extra in ([], ["--json"]):
        output = run("lint", file(place, request), "--encoder", "anthropic@1", *extra).output
        assert not {"\x1b", "\x9b", "\u202e", "\u2028", "\x7f"} & set(output)


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("{}", [], "a file needs --encoder"),
        ("{}", ["--encoder", "anthropic@1"], "names no model"),
        ('{"model":"m"}', ["--encoder", "openai-chat@1"], "the model 'm', which is not known"),
        ("{}", ["--encoder", "anthropic@99"], "no encoder 'anthropic@99'"),
        ("{}", ["--encoder", "anthropic@1", "--profile", "none"], "no profile 'none'"),
        ("{}", ["--encoder", "anthropic@1", "--profile", "gpt-5.4"], "not offered as anthropic"),
        ("{}", ["--encoder", "anthropic@1", "--as", "transcript@1"], "--as goes with an address"),
        ("[]", ["--encoder", "anthropic@1"], "holds a list"),
        ("{", ["--encoder", "anthropic@1"], "holds no JSON"),
    ],
)
def test_what_cannot_be_judged_is_refused(run: Run, place: Path, content: str, options: list[str], said: str) -> None:
    place.write_text(content)
    result = run("lint", place, *options)
    assert result.exit_code == 2
    assert said in result.stderr


# --- addresses ---


@pytest.mark.parametrize("encoder", [[], *(["--encoder", f"{wire_format}@1"] for wire_format in FORMATS)])
@pytest.mark.parametrize("address", ["latest", "latest/1", "latest:5", "latest@retry"])
def test_the_prompt_of_an_address_is_fine(run: Run, db: Path, address: str, encoder: list[str]) -> None:
    result = run("-d", db, "lint", address, *encoder)
    assert (result.exit_code, result.stdout) == (0, "")


def test_a_prompt_is_judged_for_its_own_model_unless_another_is_named(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "talk.db"
    with open_store(path) as store:
        thread = store.create_thread()
        thread.user("Is it wet?")
        thread.text("It ra")
        thread.prepare(model="claude-haiku-4-5", assembler="transcript@1")
    assert "for claude-haiku-4-5" in run("-d", path, "lint", "latest/1").stderr
    # This model goes on with an answer that was begun; newer ones do not.
    other = run("-d", path, "lint", "latest/1", "--profile", "claude-opus-5", "--as", "transcript@1")
    assert other.exit_code == 1
    assert "A3 " in other.stdout


def test_an_address_that_names_nothing_is_refused(run: Run, db: Path) -> None:
    assert run("-d", db, "lint", "nobody").exit_code == 2
