"""The page on providers has a row for every rule, and what a row names exists."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from convlog.projections.lint import RULES
from tests.sources import ROOT, python_files, tree_of

PAGE = ROOT / "docs" / "providers.md"
ROW = re.compile(r"^\| ([XAORGB]\d+) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
NAME = re.compile(r"`([^`]+)`")
ROWS = {rule: cells for rule, *cells in ROW.findall(PAGE.read_text(encoding="utf-8"))}


def _defined(tree: ast.Module) -> set[str]:
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


@cache
def _code() -> dict[str, set[str]]:
    return {path.stem: _defined(tree_of(path)) for path in python_files("projections")}


@cache
def _tests() -> set[str]:
    return {name for path in python_files("tests/projections") for name in _defined(tree_of(path))}


def test_there_is_a_row_for_every_rule_in_their_order() -> None:
    assert list(ROWS) == list(RULES)


@pytest.mark.parametrize("rule", ROWS)
def test_a_row_says_what_the_linter_says(rule: str) -> None:
    assert ROWS[rule][0] == RULES[rule]


@pytest.mark.parametrize("rule", ROWS)
def test_what_a_row_names_exists(rule: str) -> None:
    _, kept, shown = ROWS[rule]
    places = [name.partition(".") for name in NAME.findall(kept) if "_v" in name.partition(".")[0]]
    assert [f"{module}.{name}" for module, _, name in places if name not in _code().get(module, ())] == []
    assert places or kept.startswith("not by the encoder")
    tests = NAME.findall(shown)
    assert tests
    assert [name for name in tests if name not in _tests()] == []
