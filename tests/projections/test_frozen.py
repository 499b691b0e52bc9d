"""Versions stay as the lock has them: nobody touched their source, and their results over the corpus did not move."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from convlog.eventstore.events import BODIES
from convlog.projections import freeze, registry
from convlog.projections.testing import assert_pure, forbidden
from tests.frozen import GOLDEN, corpus, outputs, rows
from tests.renew_lock import changes, current, written
from tests.sources import ROOT, imports_of

VERSIONS = sorted(registry.OWN)
RENEW = "python -m tests.renew_lock renews the lock before a release; after it, make a new version"


def test_the_lock_holds_every_version_of_ours_and_nothing_else() -> None:
    assert sorted(freeze.lock()) == VERSIONS, RENEW
    assert all(freeze.is_frozen(address) for address in VERSIONS)
    assert not freeze.is_frozen("my-assembler@1")


@pytest.mark.parametrize("address", VERSIONS)
def test_the_source_of_a_version_is_untouched(address: str) -> None:
    assert freeze.fingerprint(address) == freeze.lock()[address].source, RENEW


@pytest.mark.parametrize("address", VERSIONS)
def test_the_results_of_a_version_have_not_moved(address: str) -> None:
    assert outputs(address) == freeze.lock()[address].outputs, RENEW


@pytest.mark.parametrize("address", VERSIONS)
def test_a_version_uses_nothing_that_is_not_the_same_everywhere(address: str) -> None:
    assert forbidden(address) == []


@pytest.mark.parametrize("address", VERSIONS)
def test_the_fingerprint_reaches_all_that_a_version_imports(address: str) -> None:
    start = registry.get(address).module
    reached, waiting = set(), [start]
    while waiting:
        module = waiting.pop()
        path = ROOT.joinpath(*module.split(".")[1:]).with_suffix(".py")
        if module in reached or not path.exists() or not module.startswith("convlog.projections."):
            continue
        if module != freeze.SIGNING_IN:
            reached.add(module)
            waiting.extend(target for _, target in imports_of(path))
    names = {name for name in freeze.sources(start) if name.endswith(".py")}
    assert names == {f"{module.removeprefix('convlog.projections.').replace('.', '/')}.py" for module in reached}


def test_data_counts_too() -> None:
    names = freeze.sources(registry.get("turn-memory@6").module)
    assert {f"data/tool_maps/{path.name}" for path in (ROOT / "projections/data/tool_maps").iterdir()} <= set(names)


@pytest.mark.parametrize(
    "address", [address for address in VERSIONS if registry.get(address).kind in {"assembler", "summariser"}]
)
def test_a_version_is_pure(address: str) -> None:
    # Two prompts need an output that was not kept, which most assemblers refuse.
    whole = [prompt.material for prompt in corpus() if prompt.name not in {"older:13@13", "older:15@15"}]
    assert_pure(address, whole)


class TestCorpus:
    def test_every_schema_version_of_every_type_that_is_derived_from_occurs(self) -> None:
        from convlog.projections.stages.view_v1 import _DECODERS

        found = {(row.type, row.version) for path in (GOLDEN / "corpus").glob("*.jsonl") for row in rows(path)[1]}
        wanted = {
            (name, version) for name in _DECODERS if name in BODIES for version in range(1, BODIES[name].VERSION + 1)
        }
        assert wanted - found == set()

    def test_what_has_a_rule_of_its_own_occurs(self) -> None:
        from convlog.projections.assemblers import transcript_v1, turn_memory_v6
        from convlog.projections.stages.talk_v1 import MissingOutput

        found = set()
        for prompt in corpus():
            for module in (transcript_v1, turn_memory_v6):
                try:
                    found |= {piece.provenance for piece in module.assemble(prompt.material, module.Parameters())}
                except MissingOutput:
                    found.add("missing output")
        wanted = {"verbatim", "turn-memory", "summary", "context", "task list", "retrieved", "instructions", "tools"}
        assert wanted | {"repair", "dropped", "missing output"} <= found


# --- on a copy, since the files themselves must not be touched ---

ALL = set(VERSIONS)
ON_TALK = {address for address in VERSIONS if address.startswith(("transcript", "turn-memory", "pruned", "outline"))}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    skipped = shutil.ignore_patterns("__pycache__")
    for name in ("convlog", "eventstore", "projections", "tests/golden"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=skipped)
    for name in ("frozen.py", "renew_lock.py", "__init__.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests" / name)
    # Whatever the lock says: here it is about what a change does to one that is current.
    (tmp_path / "projections" / "data" / "versions.lock").write_bytes(written(current()))
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "__init__.py").touch()
    return tmp_path


def changed_in(copy: Path, **environment: str) -> dict[str, str]:
    """Give what `renew_lock --check` says of each version, in a process that runs the copy."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.renew_lock", "--check"],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.split(": ") for line in ran.stdout.splitlines() if ": " in line]
    assert ran.returncode == bool(lines), ran.stderr
    return {line[0]: line[1] for line in lines}


def edit(name: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    def apply(copy: Path) -> None:
        before = (copy / name).read_text()
        after = change(before)
        assert after != before
        (copy / name).write_text(after)

    return apply


TOUCHED = "its source was touched, its results are the same"
MOVED = "its results moved"


def test_an_untouched_copy_says_the_same_in_another_world(copy: Path) -> None:
    assert changed_in(copy, PYTHONHASHSEED="7", TZ="Asia/Tokyo", LC_ALL="C") == {}


def test_a_touched_comment_trips_the_wire_and_breaks_no_contract(copy: Path) -> None:
    edit("projections/stages/talk_v1.py", lambda text: text + "# touched\n")(copy)
    found = changed_in(copy)
    assert set(found) == ON_TALK
    assert set(found.values()) == {TOUCHED}


def test_one_changed_result_breaks_the_contract_of_that_version_alone(copy: Path) -> None:
    edit("projections/turn_memory/v3.py", lambda text: text.replace("completed in an earlier", "ended in an earlier"))(
        copy
    )
    assert changed_in(copy) == {"turn-memory@3": MOVED}


def test_touched_data_is_seen_in_the_versions_that_read_it(copy: Path) -> None:
    edit("projections/data/tool_maps/pi.json", lambda text: text + "\n")(copy)
    found = changed_in(copy)
    assert set(found) == {address for address in VERSIONS if address.startswith(("turn-memory", "outline"))}
    assert set(found.values()) == {TOUCHED}


def test_an_upcaster_that_reads_otherwise_breaks_contracts(copy: Path) -> None:
    edit("eventstore/upcasters.py", lambda text: text.replace('else "error"', 'else "done"'))(copy)
    assert changed_in(copy)["turn-memory@6"] == MOVED


def test_code_that_no_version_is_made_of_may_change(copy: Path) -> None:
    edit("projections/derive.py", lambda text: text + "# touched\n")(copy)
    edit("projections/registry.py", lambda text: text + "# touched\n")(copy)
    assert changed_in(copy) == {}


def test_the_lock_is_renewed_in_words() -> None:
    now = current()
    without = {address: locked for address, locked in now.items() if address != "pruned@1"}
    assert changes(now, now) == []
    assert changes(without, now) == ["pruned@1: new"]
    assert changes(now, without) == ["pruned@1: gone"]
