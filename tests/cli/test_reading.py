"""The commands that read: threads, log, show, verify, doctor, schema; and what they never let through."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from convlog.eventstore.schema import USER_VERSION
from convlog.eventstore.store import open_store

from .conftest import ESCAPES, TITLE, Run

RAW = ("\x1b", "\x9b", "\x07", "\u202e", "\u2028", "\x7f", "\0")

READING = [
    ["threads"],
    ["log"],
    ["log", "--oneline"],
    ["log", "--graph"],
    ["log", "--events"],
    ["show"],
    ["show", "hostile:2"],
    ["show", "hostile:4"],
    ["show", "hostile:2..5"],
    ["branch"],
    ["verify"],
    ["doctor"],
    ["delete", "hostile"],
    ["show", "hostile@\x1b[2J"],
    ["show", "\x1b[2J:7"],
]


def lines(text: str) -> list[dict[str, Any]]:
    """Parse JSON Lines."""
    return [json.loads(line) for line in text.splitlines()]


# --- what never passes ---


@pytest.mark.parametrize("args", READING, ids=lambda args: " ".join(args).replace("\x1b", ""))
@pytest.mark.parametrize("extra", [[], ["--json"]], ids=["text", "json"])
def test_control_characters_of_stored_text_never_pass(
    run: Run, hostile: Path, args: list[str], extra: list[str]
) -> None:
    result = run("-d", hostile, *args, *extra)
    assert result.exit_code in {0, 2}
    assert [char for char in RAW if char in result.output] == []
    if extra:
        assert all(line["schema"].startswith("convlog.") for line in lines(result.stdout))


def test_markup_in_stored_text_is_only_text(run: Run, hostile: Path) -> None:
    assert "[bold]markup[/bold]" in run("-d", hostile, "show", "hostile:2", "--color", "always").stdout


def test_raw_gives_the_stored_characters(run: Run, hostile: Path) -> None:
    assert run("-d", hostile, "show", "hostile:2", "--raw").stdout == ESCAPES
    assert run("-d", hostile, "show", "hostile:4", "--raw").stdout == ESCAPES
    assert run("-d", hostile, "show", "hostile:5", "--raw").stdout == ESCAPES + "\0"


def test_json_holds_the_stored_characters_escaped(run: Run, hostile: Path) -> None:
    (event,) = lines(run("-d", hostile, "show", "hostile:2", "--json").stdout)
    assert event["body"]["content"][0]["text"] == ESCAPES


# --- threads ---


def test_threads_are_listed_with_name_id_branches_turns_and_age(run: Run, db: Path) -> None:
    head, row = run("-d", db, "threads").stdout.splitlines()
    assert head.split() == ["id", "name", "agent", "branches", "turns", "age"]
    with open_store(db, mode="r") as store:
        id_ = store.thread(TITLE).id
    assert row.split() == [id_[:8], *TITLE.split(), "claude-code", "2", "1", "now"]


def test_lines_fit_into_80_columns_and_into_those_asked_for(run: Run, db: Path) -> None:
    with open_store(db) as store:
        for number in range(3):
            store.create_thread(title="日本 " * 40 + str(number), agent="a" * 30).user("x " * 500)
    for args in (["threads"], ["log", "--oneline"], ["log", "--graph"], ["branch"]):
        for columns in (80, 60):
            output = run("-d", db, *args, env={"COLUMNS": str(columns)}).stdout
            assert max(_width(line) for line in output.splitlines()) <= columns


def _width(line: str) -> int:
    return sum(2 if "\u2e80" <= char <= "\ud7a3" else 1 for char in line)


def test_only_so_many_threads_are_shown_and_it_is_said(run: Run, db: Path) -> None:
    with open_store(db) as store:
        for number in range(4):
            store.create_thread(title=f"t{number}")
    result = run("-d", db, "threads", "-n", 2)
    assert len(result.stdout.splitlines()) == 3
    assert "--all" in result.stderr
    assert len(run("-d", db, "threads", "--all").stdout.splitlines()) == 6
    assert run("-d", db, "threads", "-n", 0).exit_code == 2


def test_sub_agents_threads_are_shown_when_asked_for(run: Run, db: Path) -> None:
    with open_store(db) as store:
        store.create_thread(title="helper", origin="subagent")
    assert "helper" not in run("-d", db, "threads").stdout
    assert "helper" in run("-d", db, "threads", "--all").stdout


def test_no_threads_names_the_store_and_why(run: Run) -> None:
    run("init")
    result = run("threads")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no threads" in result.stderr
    assert "the nearest .convlog folder" in result.stderr


def test_threads_as_json_name_their_schema_and_tip(run: Run, db: Path) -> None:
    (row,) = lines(run("-d", db, "threads", "--json").stdout)
    with open_store(db, mode="r") as store:
        thread = store.thread(TITLE)
        assert (row["schema"], row["thread"], row["tip"]) == ("convlog.threads/1", thread.id, thread.tip.hex())
    assert (row["branches"], row["turns"], row["events"], row["head"]) == (2, 1, 14, 13)


# --- log ---


def positions(output: str) -> list[int]:
    """Give the positions that one-line output starts with."""
    found = [[word for word in line.split() if word.isdecimal()] for line in output.splitlines()]
    return [int(words[0]) for words in found if words]


def test_the_log_is_the_path_to_the_active_node_newest_first(run: Run, db: Path) -> None:
    result = run("-d", db, "log", "--oneline")
    assert positions(result.stdout) == [13, 6, 5, 4, 3, 2, 1]
    assert "(active)" in result.stdout.splitlines()[0]


def test_the_log_of_a_branch_ends_at_its_last_node(run: Run, db: Path) -> None:
    result = run("-d", db, "log", "latest@retry", "--oneline")
    assert positions(result.stdout) == [9, 8, 1]
    assert "(retry)" in result.stdout


def test_the_log_can_be_limited_filtered_and_widened(run: Run, db: Path) -> None:
    assert positions(run("-d", db, "log", "--oneline", "-n", 2).stdout) == [13, 6]
    assert positions(run("-d", db, "log", "--oneline", "--kind", "tool").stdout) == [5, 4]
    assert positions(run("-d", db, "log", "--oneline", "--kind", "tool.called").stdout) == [4]
    assert positions(run("-d", db, "log", "--oneline", "--all").stdout) == [13, 9, 8, 6, 5, 4, 3, 2, 1]
    assert positions(run("-d", db, "log", "--oneline", "--events").stdout) == list(range(14, 0, -1))
    assert positions(run("-d", db, "log", "latest:2..5", "--oneline").stdout) == [5, 4, 3, 2]


def test_the_long_log_tells_times_and_cuts_long_texts(run: Run, db: Path) -> None:
    with open_store(db) as store:
        store.thread(TITLE).text("\n".join(f"line {number}" for number in range(20)))
    output = run("-d", db, "log", "--utc", "-n", 1).stdout
    assert "Z\n    line 0\n" in output
    assert "12 more lines" in output
    assert "line 8" not in output


def test_a_result_tells_its_status_and_the_stated_facts(run: Run, db: Path) -> None:
    assert "[error, command: pytest -q, exit_code: 1]" in run("-d", db, "log").stdout


@pytest.mark.parametrize("form", ["--oneline", "--graph"])
def test_a_results_line_shows_how_its_output_begins(run: Run, db: Path, form: str) -> None:
    assert "result      [error] 1 failed\n" in run("-d", db, "log", form).stdout


def test_the_graph_draws_every_node_with_its_glyph(run: Run, db: Path) -> None:
    output = run("-d", db, "log", "--graph").stdout.splitlines()
    drawing = [re.split(r" +\d", line)[0].rstrip() for line in output]
    assert drawing == ["●", "│ ◆", "│ │ ○", "│ │ ✎", "● │ │", "├─╯ │", *["●   │"] * 4, "├───╯", "●"]
    assert positions("\n".join(output)) == [13, 11, 9, 8, 6, 5, 4, 3, 2, 1]


def test_a_filtered_graph_hangs_each_node_from_the_nearest_drawn_one(run: Run, db: Path) -> None:
    output = run("-d", db, "log", "--graph", "--kind", "input").stdout.splitlines()
    assert positions("\n".join(output)) == [13, 8, 2]
    assert [line[:3].rstrip() for line in output] == ["●", "│ ✎", "●"]


def test_events_and_graph_exclude_each_other(run: Run, db: Path) -> None:
    assert run("-d", db, "log", "--graph", "--events").exit_code == 2


def test_the_log_as_json_is_events(run: Run, db: Path) -> None:
    found = lines(run("-d", db, "log", "--json", "--events").stdout)
    assert {event["schema"] for event in found} == {"convlog.event/1"}
    assert [event["position"] for event in found] == list(range(14, 0, -1))
    assert found[-4]["body"]["input"] == '{"command":"pytest -q"}'
    assert lines(run("-d", db, "log", "--json", "--graph").stdout)[0]["position"] == 13


# --- show ---


def test_an_event_is_shown_in_full(run: Run, db: Path) -> None:
    output = run("-d", db, "show", "latest:5", "--utc").stdout
    for words in ("tool.returned", "parent    4", "answers 4", "[error, command: pytest -q, exit_code: 1]\n1 failed"):
        assert words in output
    assert "key       k1" in run("-d", db, "show", "latest:6").stdout


def test_a_range_a_branch_and_a_thread_show_their_nodes(run: Run, db: Path) -> None:
    def shown(address: str) -> list[int]:
        return [event["position"] for event in lines(run("-d", db, "show", address, "--json").stdout)]

    assert shown("latest:2..4") == [2, 3, 4]
    assert shown("latest@retry") == [1, 8, 9]
    assert shown(TITLE) == [1, 2, 3, 4, 5, 6, 13]
    assert run("-d", db, "show", "latest:2..4").stdout.count("\n\n") == 3


def test_a_call_and_a_note_show_their_event(run: Run, db: Path) -> None:
    assert "call.finished" in run("-d", db, "show", "latest/1").stdout
    assert "name: retry" in run("-d", db, "show", "latest:10").stdout
    assert "summary of 2..5 by host" in run("-d", db, "show", "latest:11").stdout


def test_raw_words_of_several_events_stand_on_lines(run: Run, db: Path) -> None:
    assert run("-d", db, "show", "latest:3..5", "--raw").stdout == ('Let me look.\n{"command":"pytest -q"}\n1 failed\n')


@pytest.mark.parametrize(
    "address", ["nobody", "latest:99", "latest/9", "latest@none", "latest:3..2", "latest:3..9", "", ":3", "latest:x"]
)
@pytest.mark.parametrize("name", ["show", "log"])
def test_what_an_address_does_not_find_is_2_with_the_place_that_was_searched(
    run: Run, db: Path, name: str, address: str
) -> None:
    result = run("-d", db, name, address)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert "\nhint: " in result.stderr


def test_an_unknown_thread_names_the_store_and_stores_nearby(run: Run, db: Path) -> None:
    run("init", "-q")
    result = run("-d", db, "show", "nobody")
    assert f"store: {db} (given by --db)" in result.stderr
    assert ".convlog/convlog.db" in result.stderr


def test_an_ambiguous_address_lists_its_candidates(run: Run, db: Path) -> None:
    with open_store(db) as store:
        other = store.create_thread(title=TITLE).id
        first = next(row.thread for row in store.threads() if row.thread != other)
    result = run("-d", db, "log", TITLE)
    assert result.exit_code == 2
    assert f"\n  {first[:12]} {TITLE}\n" in result.stderr
    assert f"\n  {other[:12]} {TITLE}\n" in result.stderr


# --- verify ---


def test_a_whole_store_is_ok(run: Run, db: Path) -> None:
    result = run("-d", db, "verify")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "ok  level full: 0 faults, 0 notes" in result.stderr


def test_a_named_thread_prints_its_tip_which_is_then_proof(run: Run, db: Path) -> None:
    (row,) = [row for row in lines(run("-d", db, "verify", TITLE, "--json").stdout) if "tip" in row]
    assert row["schema"] == "convlog.verify-thread/1"
    assert run("-d", db, "verify", TITLE, "--tip", row["tip"]).exit_code == 0
    lost = run("-d", db, "verify", TITLE, "--tip", "00" * 32)
    assert lost.exit_code == 1
    assert "lost_tail" in lost.stdout


@pytest.mark.parametrize("args", [["--tip", "00" * 32], [TITLE, "--tip", "xyz"], ["--level", "deep"]])
def test_verify_refuses_what_it_cannot_check(run: Run, db: Path, args: list[str]) -> None:
    assert run("-d", db, "verify", *args).exit_code == 2


def test_an_altered_body_is_1_and_named(run: Run, db: Path) -> None:
    connection = sqlite3.connect(db)
    sql = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'events_are_immutable'").fetchone()[0]
    connection.execute("DROP TRIGGER events_are_immutable")
    connection.execute("UPDATE events SET body = replace(body, 'sleeps', 'sleept') WHERE position = 6")
    connection.execute(sql)
    connection.commit()
    connection.close()
    result = run("-d", db, "verify")
    assert result.exit_code == 1
    assert "fault  commitment" in result.stdout
    assert ":6 " in result.stdout
    *faults, end = lines(run("-d", db, "verify", "--json").stdout)
    assert {fault["schema"] for fault in faults} == {"convlog.verify/1"}
    assert (end["schema"], end["ok"], end["faults"]) == ("convlog.verify-result/1", False, len(faults))
    assert run("-d", db, "verify", "--level", "chain").exit_code == 0


def test_a_kind_that_no_event_has_is_told(run: Run, db: Path) -> None:
    result = run("-d", db, "log", "--kind", "tol")
    assert result.exit_code == 2
    assert "tool" in result.stderr
    assert run("-d", db, "log", "--kind", "summary").exit_code == 0, "none is there, but there could be"


# --- doctor, schema ---


def test_doctor_tells_the_place_the_library_and_the_share_without_keys(run: Run, db: Path) -> None:
    output = run("-d", db, "doctor").stdout
    assert f"{db} (given by --db)" in output
    assert sqlite3.sqlite_version in output
    assert f"schema    {USER_VERSION} (this program writes {USER_VERSION})" in output
    assert "without idempotency key: 75 % of 4 events from model" in output


def test_doctor_as_json(run: Run, db: Path) -> None:
    (found,) = lines(run("-d", db, "doctor", "--json").stdout)
    assert (found["schema"], found["path"], found["attention"]) == ("convlog.doctor/1", str(db), [])
    assert found["writers"]["keyless"]["model"] == [3, 4]


def test_doctor_drops_derived_values_when_asked(run: Run, db: Path) -> None:
    with open_store(db) as store:
        thread = next(store.threads()).thread
        store.backend.cache("a", b"123", thread)
    assert "cache     3 B of derived values\n" in run("-d", db, "doctor").stdout
    assert "3 B of derived values, dropped now" in run("-d", db, "doctor", "--drop-cache").stdout
    (found,) = lines(run("-d", db, "doctor", "--json").stdout)
    assert (found["cache_size"], found["cache_dropped"]) == (0, False)


def test_doctor_without_a_store_still_tells_where_it_looked(run: Run) -> None:
    result = run("doctor")
    assert result.exit_code == 3
    assert "the user's data folder" in result.stdout
    assert "no store at" in result.stderr


def test_doctor_asks_for_attention_with_1(run: Run, db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from convlog.eventstore import health

    monkeypatch.setattr(health, "WAL_BYTES_LARGE", -1)
    result = run("-d", db, "doctor")
    assert result.exit_code == 1
    assert "attention: the -wal has " in result.stderr


def test_the_schema_is_one_document(run: Run) -> None:
    assert json.loads(run("schema").stdout)["title"] == "convlog event"
    (line,) = lines(run("schema", "todo.written", "--json").stdout)
    assert (line["schema"], sorted(line["json_schema"]["$defs"])) == ("convlog.schema/1", ["Todo", "TodoWritten"])
    assert run("schema", "nothing.known").exit_code == 2
