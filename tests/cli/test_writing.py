"""The commands that write: init, append, branch, delete."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from convlog.eventstore.store import open_store

from .conftest import TITLE, Run

# --- init ---


def test_init_makes_a_store_that_is_found_from_below(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run("init")
    path = Path.cwd() / ".convlog" / "convlog.db"
    assert (result.exit_code, result.stdout) == (0, f"{path}\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.with_name(".gitignore").exists()
    Path("below").mkdir()
    monkeypatch.chdir("below")
    assert run("append", "--new", "hello", "--user", "hi").exit_code == 0
    assert "hello" in run("threads").stdout


def test_init_again_keeps_the_store(run: Run) -> None:
    assert json.loads(run("init", "--json").stdout)["made"] is True
    run("append", "--new", "kept", "--user", "hi")
    again = run("init", "--json")
    assert json.loads(again.stdout) == {
        "schema": "convlog.init/1",
        "path": str(Path.cwd() / ".convlog" / "convlog.db"),
        "made": False,
    }
    assert "kept" in run("threads").stdout


def test_init_with_a_named_file_makes_that_one(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    assert run("-d", path, "init").stdout == f"{path}\n"
    assert path.exists()
    assert not Path(".convlog").exists()
    assert "already" in run("-d", path, "init").stderr
    assert run("-d", path, "init", "below").exit_code == 2
    assert run("-d", tmp_path / "none" / "own.db", "init").exit_code == 3


def test_init_where_a_file_has_the_name_is_3(run: Run) -> None:
    Path(".convlog").touch()
    assert run("init").exit_code == 3


# --- append ---


def test_each_kind_of_event_can_be_appended(run: Run, db: Path) -> None:
    for args in (
        ["--user", "now fix it"],
        ["--assistant", "reading"],
        ["--call", "c2", "Read", '{"path": "a.py"}'],
        ["--result", "c2", "text", "--status", "denied"],
        ["--system", "be brief"],
        ["--event", "todo.written", '{"todos": [{"content": "fix"}]}'],
        ["--event", "turn.ended", '{"node": 20}'],
    ):
        result = run("-d", db, "append", TITLE, *args)
        assert result.exit_code == 0, result.stderr
    with open_store(db, mode="r") as store:
        thread = store.thread(TITLE)
        assert [event.type for event in thread.events(15)] == [
            "input.added",
            "segment.added",
            "tool.called",
            "tool.returned",
            "input.added",
            "todo.written",
            "turn.ended",
        ]
        assert thread.event(18).body.status == "denied"
        assert thread.event(18).ref("answers") == 17


def test_the_address_of_what_was_appended_is_printed(run: Run, db: Path) -> None:
    address = run("-d", db, "append", TITLE, "--user", "hi").stdout.strip()
    assert run("-d", db, "show", address, "--raw").stdout == "hi"
    found = json.loads(run("-d", db, "append", TITLE, "--user", "ho", "--json").stdout)
    assert (found["schema"], found["position"], found["head"], found["replayed"]) == ("convlog.append/1", 16, 16, False)


def test_text_comes_from_stdin_as_it_is(run: Run, db: Path) -> None:
    for args in (["--stdin"], ["--user", "-"], ["--assistant", "-"]):
        address = run("-d", db, "append", TITLE, *args, input=b"a\0b\n\x1b[2J \xe2\x82\xac\n").stdout.strip()
        assert run("-d", db, "show", address, "--raw").stdout == "a\0b\n\x1b[2J €\n"


def test_stdin_that_is_no_utf_8_is_2(run: Run, db: Path) -> None:
    result = run("-d", db, "append", TITLE, "--stdin", input=b"ab\xff")
    assert result.exit_code == 2
    assert "byte 2" in result.stderr


def test_an_address_or_an_option_says_where_it_goes(run: Run, db: Path) -> None:
    run("-d", db, "append", f"{TITLE}:3", "--assistant", "one")
    run("-d", db, "append", TITLE, "--parent", 4, "--assistant", "two")
    run("-d", db, "append", f"{TITLE}@retry", "--assistant", "three")
    with open_store(db, mode="r") as store:
        assert [event.parent for event in store.thread(TITLE).events(15)] == [3, 4, 9]


def test_the_same_key_is_stored_once(run: Run, db: Path) -> None:
    first = run("-d", db, "append", TITLE, "--user", "hi", "--key", "k9")
    again = run("-d", db, "append", TITLE, "--user", "hi", "--key", "k9")
    assert first.stdout == again.stdout
    other = run("-d", db, "append", TITLE, "--user", "ho", "--key", "k9")
    assert other.exit_code == 1
    assert "other content" in other.stderr


def test_a_new_thread_with_a_key_is_made_once(run: Run, db: Path) -> None:
    made = [run("-d", db, "append", "--new", "n", "--user", "hi", "--key", "k").stdout for _ in range(2)]
    assert made[0] == made[1]
    assert run("-d", db, "append", "--user", "no title", "--new").exit_code == 0


def test_a_head_that_moved_on_is_1_and_named(run: Run, db: Path) -> None:
    result = run("-d", db, "append", TITLE, "--user", "hi", "--expect-head", 2)
    assert result.exit_code == 1
    assert "expected head 2, it is 13" in result.stderr
    assert run("-d", db, "append", TITLE, "--user", "hi", "--expect-head", 13).exit_code == 0


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ([TITLE], 2),
        ([TITLE, "--user", "a", "--system", "b"], 2),
        ([TITLE, "--user", "a", "--stdin"], 2),
        ([TITLE, "--user", "a", "--status", "ok"], 2),
        (["--user", "a"], 2),
        ([TITLE, "--new", "x", "--user", "a"], 2),
        (["nobody", "--user", "a"], 2),
        ([f"{TITLE}:99", "--user", "a"], 2),
        ([f"{TITLE}:2..3", "--user", "a"], 2),
        ([f"{TITLE}:2", "--parent", 3, "--user", "a"], 2),
        ([TITLE, "--parent", 99, "--user", "a"], 2),
        ([TITLE, "--parent", 14, "--user", "a"], 2),
        ([TITLE, "--result", "nobody", "a"], 1),
        ([TITLE, "--result", "c1", "again"], 1),
        ([TITLE, "--call", "c", "Read", "{"], 2),
        ([TITLE, "--call", "c", "Read", '{"a": NaN}'], 2),
        ([TITLE, "--call", "c", "Read", "[" * 300 + "]" * 300], 2),
        ([TITLE, "--event", "thread.created", "{}"], 2),
        ([TITLE, "--event", "todo.written", '{"todos": 7}'], 2),
        ([TITLE, "--user", "a", "--key", "not a key"], 2),
        (["--new", "a\x1bb", "--user", "a"], 2),
        (["--new", "a", "--call", "c", "Read", "{"], 2),
        (["--new", "a", "--parent", 7, "--user", "a"], 2),
        (["--new", "a", "--user", "a", "--expect-head", 7], 1),
    ],
)
def test_what_is_refused_writes_nothing(run: Run, db: Path, args: list[str], code: int) -> None:
    result = run("-d", db, "append", *args)
    assert (result.exit_code, result.stdout) == (code, "")
    assert "\x1b" not in result.stderr
    with open_store(db, mode="r") as store:
        assert store.thread(TITLE).position == 14
        assert len(list(store.threads())) == 1


def test_a_body_over_the_limit_is_2(run: Run, db: Path) -> None:
    result = run("-d", db, "append", TITLE, "--stdin", input=b"x" * (17 * 1024 * 1024))
    assert result.exit_code == 2
    assert "limit" in result.stderr


def test_nothing_is_made_when_appending_to_a_store_that_is_not_there(run: Run) -> None:
    assert run("-d", "new.db", "append", "latest", "--user", "hi").exit_code == 3
    assert not Path("new.db").exists()
    assert run("-d", "no/folder/new.db", "append", "--new", "--user", "hi").exit_code == 3


def test_the_users_data_folder_is_made_for_the_first_thread(run: Run, tmp_path: Path) -> None:
    assert run("append", "--new", "first", "--user", "hi").exit_code == 0
    assert list((tmp_path / "data").rglob("convlog.db"))
    assert "first" in run("threads").stdout


# --- branch ---


def test_branches_are_listed_with_their_names_and_the_active_one(run: Run, db: Path) -> None:
    output = run("-d", db, "branch").stdout.splitlines()
    assert [line.split() for line in output[1:]] == [["*", "1", "13"], ["8", "retry", "1", "9"]]
    found = [json.loads(line) for line in run("-d", db, "branch", TITLE, "--json").stdout.splitlines()]
    assert [(row["number"], row["names"], row["last"], row["active"]) for row in found] == [
        (1, [], 13, True),
        (8, ["retry"], 9, False),
    ]


def test_a_branch_is_named_switched_to_and_dropped(run: Run, db: Path) -> None:
    assert run("-d", db, "branch", TITLE, "main").exit_code == 0
    assert run("-d", db, "branch", TITLE, "second", f"{TITLE}:9", "--switch").exit_code == 0
    assert run("-d", db, "log", "--oneline", "-n", 1).stdout.startswith("   9")
    changed = json.loads(run("-d", db, "branch", TITLE, "main", "--switch", "--json").stdout)
    assert (changed["schema"], changed["head"]) == ("convlog.branch-change/1", 13)
    assert run("-d", db, "branch", TITLE, "8", "--switch").exit_code == 0
    assert run("-d", db, "branch", TITLE, "retry", "--drop").exit_code == 0
    assert "retry" not in run("-d", db, "branch").stdout


@pytest.mark.parametrize(
    "args",
    [
        [TITLE, "--drop"],
        [TITLE, "--switch"],
        [TITLE, "retry", "--drop", "--switch"],
        [TITLE, "none", "--switch"],
        [TITLE, "none", "--drop"],
        [TITLE, "8", "--drop"],
        [TITLE, "x", f"{TITLE}:99"],
        [TITLE, "x\x1b", f"{TITLE}:9"],
        ["nobody"],
    ],
)
def test_a_branch_that_is_not_there_is_2(run: Run, db: Path, args: list[str]) -> None:
    assert run("-d", db, "branch", *args).exit_code == 2
    assert "retry" in run("-d", db, "branch").stdout


def test_a_branch_is_not_named_after_another_threads_node(run: Run, db: Path) -> None:
    run("-d", db, "append", "--new", "other", "--user", "hi")
    result = run("-d", db, "branch", TITLE, "x", "other:2")
    assert result.exit_code == 2
    assert "lies in thread" in result.stderr


# --- delete ---


def test_nothing_is_deleted_without_yes(run: Run, db: Path) -> None:
    result = run("-d", db, "delete", TITLE)
    assert result.exit_code == 0
    assert result.stdout.startswith("would delete ")
    assert "--yes" in result.stderr
    assert TITLE in run("-d", db, "threads").stdout


def test_a_deleted_thread_is_gone_with_its_words_and_leaves_a_note(run: Run, db: Path) -> None:
    result = run("-d", db, "delete", TITLE, "--yes", "--reason", "asked for", "--json")
    assert json.loads(result.stdout)["deleted"] is True
    assert run("-d", db, "show", TITLE).exit_code == 2
    assert b"sleeps" not in db.read_bytes()
    with open_store(db, mode="r") as store:
        (note,) = store.thread("0" * 32).events(types=("thread.deleted",))
        assert note.body.reason == "asked for"


def test_a_thread_that_others_share_is_deleted_with_them_or_not_at_all(run: Run, db: Path) -> None:
    with open_store(db) as store:
        store.thread(TITLE).fork(title="fork")
    refused = run("-d", db, "delete", TITLE, "--yes")
    assert refused.exit_code == 1
    assert "--cascade" in refused.stderr
    assert run("-d", db, "delete", TITLE, "--cascade").stdout.count("would delete") == 2
    assert run("-d", db, "delete", TITLE, "--cascade", "--yes").exit_code == 0
    assert run("-d", db, "threads").stdout == ""


def test_a_part_of_a_thread_is_not_deleted(run: Run, db: Path) -> None:
    assert run("-d", db, "delete", f"{TITLE}:2", "--yes").exit_code == 2
    assert run("-d", db, "delete", "nobody", "--yes").exit_code == 2
