"""The house rules that a reader relies on: short functions, docstrings, a reason behind every exception."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from tests.sources import (
    CODE,
    LAYERS,
    ROOT,
    comments_of,
    functions_of,
    matches,
    name_of,
    python_files,
    texts,
    tree_of,
)

FUNCTION_LINES_MAX = 60
MODULE_LINES_MAX = 600
LONGER_MODULES = {
    "eventstore/events.py": (800, "a catalogue: one short struct for each event type"),
    "eventstore/sqlite.py": (920, "all SQL of the store lies in one file"),
}
"""Modules over the limit: their own limit, and why."""

DRAWER_NAMES = {"utils", "util", "helpers", "misc"}

LINT_EXCEPTION = re.compile(
    r"#\s*(?:noqa(?::\s*[A-Z]+[0-9]+(?:\s*,\s*[A-Z]+[0-9]+)*)?|type:\s*ignore(?:\[[^]]*\])?|pragma:\s*no \w+|"
    r"mypy:\s*\S+|fmt:\s*(?:off|skip))"
)
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
REGISTRY_HOST = re.compile(r"\b(?:pypi|pythonhosted|npmjs|debian)\.(?:org|com|net)\b", re.IGNORECASE)
MACHINE_PATH = re.compile(r"(?<![\w.~])/(?:work|root)/|\.\./shared\b")
WORK_WORDS = re.compile(
    r"\bco-authored-by\b|\b(?:generated|written) (?:by|with) (?:an? )?(?:AI|LLM|Claude|Codex|Copilot|ChatGPT)\b"
    r"|\bthe (?:brief|lead|CEO)\b|\bworkplace\b|\bissue #?\d+\b|\bas an AI\b",
    re.IGNORECASE,
)
CHANGE_GROUPS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
CONCERNS = {"stored data", "canonical bytes", "assembler", "nothing stored"}


@pytest.mark.parametrize("path", python_files(*CODE), ids=name_of)
def test_a_file_says_what_it_is_for(path: Path) -> None:
    assert path.stat().st_size == 0 or ast.get_docstring(tree_of(path))


@pytest.mark.parametrize("path", python_files(*CODE), ids=name_of)
def test_functions_fit_on_a_screen(path: Path) -> None:
    long = {
        f"{name_of(path)}:{function.lineno} {function.name}": lines
        for function in functions_of(path)
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES_MAX
    }
    assert long == {}


@pytest.mark.parametrize("path", python_files(*CODE), ids=name_of)
def test_modules_stay_readable(path: Path) -> None:
    limit, _ = LONGER_MODULES.get(name_of(path), (MODULE_LINES_MAX, ""))
    assert len(path.read_text(encoding="utf-8").splitlines()) <= limit


def test_modules_allowed_to_be_longer_still_need_it() -> None:
    for name in LONGER_MODULES:
        assert len((ROOT / name).read_text(encoding="utf-8").splitlines()) > MODULE_LINES_MAX, name


def test_no_module_is_a_drawer_for_everything() -> None:
    assert [name_of(path) for path in python_files(*CODE) if path.stem in DRAWER_NAMES] == []


def test_no_code_lies_loose_at_the_top() -> None:
    assert [path.name for path in ROOT.glob("*.py")] == []


def test_every_exception_from_a_check_has_its_reason_on_its_line() -> None:
    bare = []
    for path in python_files(*CODE):
        for line, comment in comments_of(path):
            found = LINT_EXCEPTION.search(comment)
            if found and len(re.findall(r"[A-Za-z]{2,}", comment[: found.start()] + comment[found.end() :])) < 2:
                bare.append(f"{name_of(path)}:{line}: {comment}")
    assert bare == []


def test_every_rule_switched_off_in_the_settings_has_its_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    ignored = re.search(r"^ignore = \[\n(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    per_file = re.search(r"^\[tool\.ruff\.lint\.per-file-ignores\]\n(.*?)^\[", text, re.DOTALL | re.MULTILINE)
    assert ignored
    assert per_file
    lines = [line for part in (ignored[1], per_file[1]) for line in part.splitlines() if line.strip()]
    assert [line for line in lines if not re.search(r"#\s*\w+", line)] == []


def test_complexity_is_limited_by_the_linter() -> None:
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    assert "C90" in lint["select"]
    assert lint["mccabe"]["max-complexity"] <= 12


def test_nothing_is_left_unfinished() -> None:
    found = [
        f"{name_of(path)}:{line}: {comment}"
        for path in python_files(*CODE)
        for line, comment in comments_of(path)
        if UNFINISHED.search(comment)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("what", "pattern"),
    [("registry host", REGISTRY_HOST), ("path of one machine", MACHINE_PATH), ("word about the work", WORK_WORDS)],
)
def test_the_project_speaks_of_itself_alone(what: str, pattern: re.Pattern[str]) -> None:
    assert [hit for path in texts() if path.exists() for hit in matches(pattern, path)] == [], what


@pytest.mark.parametrize("layer", LAYERS)
def test_the_package_reaches_its_layers_by_relative_links(layer: str) -> None:
    link = ROOT / "convlog" / layer
    assert link.is_symlink(), "a checkout without symbolic links: switch them on (git config core.symlinks true)"
    assert link.readlink() == Path("..") / layer


def test_a_change_says_what_it_concerns() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert text.startswith("# Changelog\n")
    releases = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert releases[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}", release) for release in releases[1:])
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= CHANGE_GROUPS
    entries = re.findall(r"^- (.+(?:\n  .+)*)", text, re.MULTILINE)
    assert entries
    for entry in entries:
        found = re.search(r"\(concerns: ([a-z, ]+)\)$", entry)
        assert found, entry
        assert set(found[1].split(", ")) <= CONCERNS, entry
