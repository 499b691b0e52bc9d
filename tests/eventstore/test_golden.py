"""What was published once holds for ever: headers, hashes, an export; and the stand-alone verifier agrees with ours."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convlog.eventstore import canonical, errors
from convlog.eventstore.memory import MemoryBackend
from convlog.eventstore.native import export_thread
from convlog.eventstore.native_import import import_native
from convlog.eventstore.store import Store
from convlog.eventstore.verify import verify_thread
from tests.eventstore.goldens import GOLDEN, fixed_store, small_thread
from tests.sources import ROOT


def load_verifier() -> ModuleType:
    spec = importlib.util.spec_from_file_location("export_verifier", ROOT / "docs" / "verify.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


VERIFIER = load_verifier()
HEADERS = json.loads((GOLDEN / "headers.json").read_text(encoding="utf-8"))
EXPORT = GOLDEN / "export.jsonl"
TIP = "f1e6a92db57e325dc8c5b94ff3c026242d5e437e0dd3f6d147c916364d0c31b7"


def header_of(entries: list[Any]) -> bytes:
    _, thread, position, previous, parent, head, refs, *rest = entries
    type_, version, recorded_at, occurred_at, source, key, commitment = rest
    return canonical.header(
        thread,
        position,
        None if previous is None else bytes.fromhex(previous),
        parent,
        head,
        None if refs is None else msgspec.json.encode(refs),
        type_,
        version,
        recorded_at,
        occurred_at,
        msgspec.json.encode(source),
        key,
        bytes.fromhex(commitment),
    )


# --- headers and commitments ---


@pytest.mark.parametrize("golden", HEADERS["headers"], ids=lambda golden: golden["what"])
def test_a_header_and_its_hash_are_the_published_ones(golden: dict[str, Any]) -> None:
    data = golden["header"].encode()
    assert header_of(golden["entries"]) == data
    assert VERIFIER.cj1(golden["entries"]) == data
    assert canonical.hash_header(data).hex() == VERIFIER.hash_of(data) == golden["hash"]


@pytest.mark.parametrize("golden", HEADERS["commitments"], ids=lambda golden: golden["commitment"][:8])
def test_a_commitment_is_the_published_one(golden: dict[str, Any]) -> None:
    salt, body = bytes.fromhex(golden["salt"]), golden["body"].encode()
    output = None if golden["output"] is None else golden["output"].encode()
    assert canonical.commitment(salt, body, output).hex() == golden["commitment"]
    assert VERIFIER.commitment_of(salt, body, output) == golden["commitment"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
)


@given(json_values)
def test_the_stand_alone_verifier_writes_canonical_json_as_we_do(value: Any) -> None:
    assert VERIFIER.cj1(value) == canonical.encode(value)


def test_without_blake3_the_stand_alone_verifier_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "blake3.py").write_text("raise ImportError", encoding="utf-8")
    script = str(ROOT / "docs" / "verify.py")
    done = subprocess.run(
        [sys.executable, script, str(EXPORT)],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "verify.py needs blake3: pip install blake3\n")


def test_the_stand_alone_verifier_counts_as_people_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert VERIFIER.main([str(EXPORT)]) == 0
    assert capsys.readouterr().out.endswith(", 0 faults\n")
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(golden_lines()[:-1]))
    assert VERIFIER.main([str(cut)]) == 1
    assert capsys.readouterr().out.endswith(", 1 fault\n")


# --- the export ---


def findings(lines: list[bytes], tip: str | None = None) -> list[str]:
    """Give the kinds of what the stand-alone verifier finds."""
    verifier = VERIFIER.Verifier(tip)
    verifier.read(lines)
    return [kind for kind, _, _ in verifier.findings]


def golden_lines() -> list[bytes]:
    return EXPORT.read_bytes().splitlines(keepends=True)


def test_the_published_export_is_accepted_and_given_out_again(any_store: Store) -> None:
    done = import_native(any_store, golden_lines())
    assert any_store.thread(done.thread).tip.hex() == TIP
    assert list(export_thread(any_store, done.thread)) == golden_lines()
    problems = list(verify_thread(any_store, done.thread, tip=bytes.fromhex(TIP)))
    assert [(problem.kind, problem.position) for problem in problems] == [
        ("redacted", 10),
        ("redacted", 11),
        ("redacted", 13),
    ]
    assert findings(golden_lines(), TIP) == ["redacted"] * 3


def test_the_same_thread_made_today_reads_the_same() -> None:
    store = fixed_store()
    thread = small_thread(store)
    made = [msgspec.json.decode(line) for line in export_thread(store, thread.id)]
    golden = [msgspec.json.decode(line) for line in golden_lines()]
    # What was published stays; a type's schema may have gone on since.
    drawn = {"hash", "commitment", "salt", "tip", "recorded_at", "body", "output", "version"}
    assert all(line["version"] >= old["version"] for line, old in zip(made, golden, strict=True) if "version" in old)
    assert [{name: line[name] for name in line.keys() - drawn} for line in made] == [
        {name: line[name] for name in line.keys() - drawn} for line in golden
    ]


def damaged_exports() -> Iterator[tuple[list[bytes], int, int]]:
    """Give the published export with a bit flipped in each byte in turn, where it then says something else."""
    lines = golden_lines()
    for number, original in enumerate(lines):
        for index in range(len(original) - 1):
            line = bytearray(original)
            line[index] ^= 1 << (index % 8)
            if not says_the_same(bytes(line), original):
                yield [*lines[:number], bytes(line), *lines[number + 1 :]], number, index


def says_the_same(a: bytes, b: bytes) -> bool:
    try:
        return bool(json.loads(a) == json.loads(b))
    except ValueError:
        return False


def test_every_flipped_byte_is_found_by_the_stand_alone_verifier() -> None:
    unseen = [place for lines, *place in damaged_exports() if set(findings(lines)) <= {"redacted"}]
    assert unseen == []


def test_every_flipped_byte_is_found_by_the_import() -> None:
    unseen = []
    for lines, *place in damaged_exports():
        try:
            import_native(Store(MemoryBackend()), lines)
        except errors.ImportFailed:
            continue
        unseen.append(place)
    assert unseen == []


@pytest.mark.parametrize("lost", [1, 3])
def test_a_lost_tail_is_found_by_a_tip_kept_elsewhere(lost: int) -> None:
    lines = golden_lines()
    cut = lines[: -1 - lost]
    last = msgspec.json.decode(cut[-1])
    cut.append(msgspec.json.encode({"tip": last["hash"], "events": last["position"]}) + b"\n")
    assert "lost_tail" not in findings(cut)
    assert "lost_tail" in findings(cut, TIP)


def test_the_script_prints_findings_and_ends_with_their_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert VERIFIER.main([str(EXPORT), "--tip", TIP]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"ok: 14 events, tip {TIP}, 0 faults"
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_bytes(EXPORT.read_bytes().replace(b"1 failed", b"0 failed"))
    assert VERIFIER.main([str(damaged)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("commitment  877388b171d8efc0929ddf732f30b28c:4  ")
    assert printed[-1].startswith("NOT OK: 14 events")


def test_the_script_needs_nothing_of_ours() -> None:
    text = (ROOT / "docs" / "verify.py").read_text(encoding="utf-8")
    assert "import convlog" not in text
    assert "msgspec" not in text
