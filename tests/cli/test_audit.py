"""`convlog audit` and `assemblers`: a whole store, by version and verdict."""

from __future__ import annotations

from pathlib import Path

import convlog
from tests.projections.authors import Author, author

from .conftest import Run
from .prepared import TALK, damage, lines, redact_in, talk

__all__ = ["author", "talk"]


def test_an_audit_sums_up_by_version_and_verdict(run: Run, talk: Path) -> None:
    result = run("-d", talk, "audit")
    assert result.exit_code == 0
    head, row, total = result.stdout.splitlines()
    assert head.split() == ["assembler", "encoder", "verdict", "calls"]
    assert row.split() == ["turn-memory@6", "anthropic@1", "exact", "4"]
    assert total.startswith("1 thread, 4 calls, ")
    assert total.endswith("; 0 damaged")
    assert str(talk) in result.stderr


def test_threads_can_be_named(run: Run, talk: Path) -> None:
    with convlog.open(talk) as store:
        store.create_thread(title="other").user("Hello.")
    assert "2 threads" in run("-d", talk, "audit").stdout
    assert "1 thread, 0 calls" in run("-d", talk, "audit", "other").stdout
    assert run("-d", talk, "audit", "nobody").exit_code == 2


def test_json_has_a_line_a_thread(run: Run, talk: Path) -> None:
    (line,) = lines(run("-d", talk, "audit", "--json").stdout)
    assert line["schema"] == "convlog.audit/1"
    assert line["verdicts"] == {"turn-memory@6 anthropic@1 exact": 4}
    assert (line["damaged"], line["findings"], line["stale"]) == (False, [], [])


def test_what_cannot_be_proved_exits_5_and_is_listed(run: Run, talk: Path) -> None:
    redact_in(talk, "francs")
    result = run("-d", talk, "audit")
    assert result.exit_code == 5
    assert "/3  unprovable  turn-memory@6 anthropic@1" in result.stdout
    assert "      redacted: something" in result.stdout


def test_what_differs_exits_1(run: Run, talk: Path, author: Author) -> None:
    with convlog.open(talk) as store:
        store.thread(TALK).prepare(assembler="mine@1")
    author.write("return assemble(material, parameters)")
    result = run("-d", talk, "audit")
    assert result.exit_code == 1
    assert "/5  differs  mine@1 anthropic@1" in result.stdout


def test_damage_exits_1_and_leaves_nothing_exact(run: Run, talk: Path) -> None:
    damage(talk)
    result = run("-d", talk, "audit")
    assert result.exit_code == 1
    assert ":2  damaged" in result.stdout
    assert " exact " not in result.stdout
    assert "1 damaged" in result.stdout


def test_a_summary_that_says_otherwise_exits_1_and_a_stale_one_is_said(run: Run, talk: Path) -> None:
    with convlog.open(talk) as store:
        thread = store.create_thread(title="sums")
        thread.user("Read.")
        thread.call("c", "Read", {})
        thread.end_turn("interrupted")
        thread.summarise(2, 3, "Something else.", maker="outline@1")
        thread.user("Go on.")
        thread.result("c", "late", parent=thread.head)
    result = run("-d", talk, "audit", "sums")
    assert result.exit_code == 1
    assert ":5  differs  outline@1" in result.stdout
    assert "summary differs: outline@1 says 2..3 otherwise today" in result.stdout
    assert "stale summary" in result.stderr


def test_a_report_holds_each_threads_audit(run: Run, talk: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.jsonl"
    assert run("-d", talk, "audit", "--report", report).exit_code == 0
    (line,) = lines(report.read_text())
    assert (line["schema"], line["verdicts"]) == ("convlog.audit/1", {"turn-memory@6 anthropic@1 exact": 4})
    result = run("-d", talk, "audit", "--report", tmp_path / "nowhere" / "report.jsonl")
    assert result.exit_code == 1
    assert "nowhere" in result.stderr
    assert run("-d", talk, "audit", "--report", tmp_path).exit_code == 2


def test_work_is_shared_by_processes(run: Run, talk: Path) -> None:
    assert run("-d", talk, "audit", "--workers", 2).stdout == run("-d", talk, "audit").stdout
    assert run("-d", talk, "audit", "--workers", 0).exit_code == 2


def test_an_empty_store_has_nothing_amiss(run: Run) -> None:
    run("init")
    result = run("audit")
    assert (result.exit_code, result.stdout) == (0, "0 threads, 0 calls, 0 bytes of prompts; 0 damaged\n")
    assert run("audit", "--json").stdout == ""


# --- assemblers ---


def test_every_version_is_listed_with_the_calls_it_made(run: Run, talk: Path) -> None:
    rows = [line.split() for line in run("-d", talk, "assemblers").stdout.splitlines()]
    assert rows[0] == ["version", "kind", "frozen", "fingerprint", "shipped", "by", "calls"]
    by_name = {row[0]: row for row in rows[1:]}
    assert by_name["turn-memory@6"][-1] == "4"
    assert by_name["anthropic@1"][-1] == "4"
    assert by_name["outline@1"][-1] == "0"


def test_versions_as_json(run: Run, talk: Path) -> None:
    found = {(line["name"], line["version"]): line for line in lines(run("-d", talk, "assemblers", "--json").stdout)}
    line = found["turn-memory", 6]
    assert (line["schema"], line["kind"], line["frozen"], line["calls"]) == (
        "convlog.assemblers/1",
        "assembler",
        True,
        4,
    )
    assert len(line["fingerprint"]) == 64


def test_a_version_that_is_not_installed_any_more_is_said(run: Run, talk: Path, author: Author) -> None:
    with convlog.open(talk) as store:
        store.thread(TALK).prepare(assembler="mine@1")
    assert "mine@1" in run("-d", talk, "assemblers").stdout
    author.take_away()
    result = run("-d", talk, "assemblers")
    assert "mine@1" not in result.stdout
    assert "mine@1 made 1 calls here and is not installed" in result.stderr


def test_versions_are_listed_without_a_store(run: Run) -> None:
    result = run("assemblers")
    assert result.exit_code == 0
    assert "turn-memory@6" in result.stdout
