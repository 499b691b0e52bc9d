"""The pages are true: their blocks run, their links lead somewhere, their words and files are those of the code."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

from tests.pages import Runner, blocks_of
from tests.sources import LAYERS, ROOT, imports_of, module_of, name_of, pages, python_files, strings_of

LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?!https?://|mailto:|#)([^)#\s]+)(?:#[^)\s]*)?\)")
TERM = re.compile(r"^\*\*([^*]+)\*\*", re.MULTILINE)
HOP = re.compile(r"^(\d)\. (.+(?:\n   .+)*)", re.MULTILINE)
NAMED_FILE = re.compile(r"`((?:eventstore|projections|cli)/[\w/]+\.py)`")


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in [name for name in os.environ if name.startswith("CONVLOG_")]:
        monkeypatch.delenv(name)
    runner = Runner(folder)
    for block in blocks_of(page):
        runner.run(block)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_word_of_the_glossary_is_used_in_the_code() -> None:
    terms = TERM.findall((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))
    assert len(terms) > 20
    code = "\n".join(path.read_text(encoding="utf-8") for path in python_files(*LAYERS))
    unused = [term for term in terms if not re.search(rf"(?<![a-z]){term}(?:s|es)?(?![a-z])", code, re.IGNORECASE)]
    assert unused == []


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(name for extra in extras.values() for name in extra)]
    text = (ROOT / "docs" / "decisions" / "0002-dependencies.md").read_text(encoding="utf-8")
    names = {re.split(r"[<>=!~;\[ ]", requirement)[0] for requirement in wanted}
    assert {name for name in names if not re.search(rf"[|,] {re.escape(name)}\b", text)} == set()


def test_a_replay_is_followed_in_five_hops() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    hops = [NAMED_FILE.findall(hop) for _, hop in HOP.findall(text)]
    assert len(hops) == 5
    assert hops[0] == ["cli/replay.py"]
    assert hops[1][0] == "projections/replay.py"
    assert {name.split("/")[1] for name in hops[2]} >= {"assemblers", "encoders"}
    assert hops[4] == ["eventstore/sqlite.py"]
    reached = {"cli/replay.py"}
    for hop in hops:
        for name in hop:
            # Each file is imported by one that the reader has come through already.
            assert name in reached or module_of(ROOT / name) in _imported(reached), name
            reached.add(name)


def _imported(names: set[str]) -> set[str]:
    """Give what files import, and what they name by a module's path below their own package, as the registry does."""
    found = set()
    for path in (ROOT / name for name in names):
        found |= {module for _, module in imports_of(path)}
        package = module_of(path).rpartition(".")[0]
        found |= {f"{package}.{text}" for text in strings_of(path) if text.replace(".", "").isidentifier()}
    return found
