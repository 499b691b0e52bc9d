"""What authors of projections get: an impure version is found out, a pure one passes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from convlog.eventstore.store import Store
from convlog.projections import freeze, registry
from convlog.projections.material import material
from convlog.projections.stages.material_v1 import Material
from convlog.projections.testing import assert_pure, digest, forbidden

HEAD = """
from convlog.projections.registry import projection
from convlog.projections.stages.pieces_v1 import Piece, Text
"""

Make = Callable[[str], str]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Write an assembler in a module of its own, and give its address."""
    monkeypatch.syspath_prepend(tmp_path)
    names: list[str] = []

    def make(source: str) -> str:
        name = f"assembler_{len(names)}_{tmp_path.name.replace('-', '_')}"
        address = f"try-{len(names)}@1"
        names.append(name)
        text = HEAD + dedent(source).replace("@projection", f'@projection("try-{len(names) - 1}", 1)')
        (tmp_path / f"{name}.py").write_text(text)
        importlib.import_module(name)
        return address

    yield make
    for number, name in enumerate(names):
        sys.modules.pop(name, None)
        registry._registered.pop(f"try-{number}@1", None)
    freeze.fingerprint.cache_clear()


@pytest.fixture
def materials(store: Store) -> list[Material]:
    thread = store.create_thread()
    thread.user("one")
    thread.text("two")
    return [material(thread)]


PURE = """
@projection
def assemble(material, parameters):
    return [Piece("verbatim", "user", Text(str(len(material.path))))]
"""


def test_a_pure_version_passes(made: Make, materials: list[Material]) -> None:
    assert_pure(made(PURE), materials)


IMPURE = {
    "the clock": "import time\n@projection\ndef f(m, p): return [Piece('verbatim', 'user', Text(str(time.time())))]",
    "randomness": "import random\n@projection\ndef f(m, p): return random.sample([], 0)",
    "the environment": "import os\n@projection\ndef f(m, p): return [Piece('verbatim', 'user', Text(os.getcwd()))]",
    "a file": "@projection\ndef f(m, p): return [Piece('verbatim', 'user', Text(open('/dev/null').read()))]",
    "the front door": "from convlog import open\n@projection\ndef f(m, p): return []",
    "the store": "from convlog.eventstore.store import open_store\n@projection\ndef f(m, p): return []",
    "what is not frozen": "from convlog.projections.derive import assemble\n@projection\ndef f(m, p): return []",
    "a late import": "@projection\ndef f(m, p):\n    import socket\n    return []",
    "hash()": "@projection\ndef f(m, p): return [Piece('verbatim', 'user', Text(str(hash('a'))))]",
    "a drifting pattern": "import re\nW = re.compile(r'\\s+')\n@projection\ndef f(m, p): return []",
    "case of all scripts": "import re\nW = re.compile('a', re.IGNORECASE)\n@projection\ndef f(m, p): return []",
}


@pytest.mark.parametrize("what", IMPURE)
def test_its_source_is_read_for(what: str, made: Make, materials: list[Material]) -> None:
    address = made(IMPURE[what])
    assert forbidden(address)[0].startswith(registry.get(address).module)
    with pytest.raises(AssertionError, match="is not pure"):
        assert_pure(address, materials)


def test_the_public_names_of_a_projection_are_fine(made: Make) -> None:
    assert forbidden(made("from convlog import Material, projection\n@projection\ndef f(m, p): return []")) == []


def test_patterns_of_ascii_alone_are_fine(made: Make) -> None:
    source = "import re\nW = re.compile(r'\\w+', re.IGNORECASE | re.ASCII)\n@projection\ndef f(m, p): return []"
    assert forbidden(made(source)) == []


def test_a_result_that_hangs_on_what_came_before_is_found(made: Make, materials: list[Material]) -> None:
    source = """
    SEEN = []
    @projection
    def assemble(material, parameters):
        SEEN.append(1)
        return [Piece("verbatim", "user", Text(str(len(SEEN))))]
    """
    with pytest.raises(AssertionError, match="in a second run"):
        assert_pure(made(source), materials)


def test_a_result_that_hangs_on_the_order_of_a_set_is_found(made: Make, materials: list[Material]) -> None:
    source = """
    @projection
    def assemble(material, parameters):
        return [Piece("verbatim", "user", Text("".join({"one", "two", "three", "four", "five", "six", "seven"})))]
    """
    with pytest.raises(AssertionError, match="in another process"):
        assert_pure(made(source), materials)


def test_something_must_be_tried(made: Make) -> None:
    with pytest.raises(AssertionError, match="no material"):
        assert_pure(made(PURE), [])


def test_the_digest_is_that_of_the_results(made: Make, materials: list[Material]) -> None:
    one, same, other = made(PURE), made(PURE + "\n# said otherwise\n"), made(PURE.replace("user", "system"))
    assert digest(one, materials) == digest(same, materials) != digest(other, materials)
    assert freeze.fingerprint(one) != freeze.fingerprint(same)


def test_the_fingerprint_of_a_users_version_counts_the_stages_it_stands_on(made: Make) -> None:
    module = registry.get(made(PURE)).module
    assert set(freeze.sources(module)) == {module, "stages/pieces_v1.py"}


def test_a_version_that_was_typed_in_counts_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._registered, "typed@1", registry.Projection("typed", 1, "assembler", print, "nowhere"))
    assert len(freeze.fingerprint("typed@1")) == 64
    assert freeze.sources("nowhere") == {"nowhere": b""}
    freeze.fingerprint.cache_clear()
