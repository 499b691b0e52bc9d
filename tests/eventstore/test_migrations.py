"""Files of older schemas: carried to the current one whole or not at all; newer ones refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from convlog.eventstore import errors, migrations, schema
from convlog.eventstore.store import open_store
from convlog.eventstore.verify import verify_store
from tests.conftest import Stores
from tests.eventstore.goldens import GOLDEN
from tests.eventstore.test_upcasters import golden_rows, record_of


def old_file(path: Path) -> Path:
    """Make the golden file of schema 1."""
    connection = sqlite3.connect(path)
    connection.executescript((GOLDEN / "schema_1.sql").read_text(encoding="utf-8"))
    connection.close()
    return path


def version_of(path: Path) -> int:
    return int(query(path, "PRAGMA user_version")[0][0])


def query(path: Path, sql: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def test_an_old_file_is_carried_over_and_keeps_every_row(open_store: Stores) -> None:
    path = old_file(open_store.path())
    store = open_store()
    thread = store.latest()
    assert list(store.backend.read(thread.id, 1, 99)) == [record_of(row) for row in golden_rows()]
    thread.text("and on")
    store.close()
    assert version_of(path) == schema.USER_VERSION
    held = {(kind, name): sql for kind, name, sql in query(path, "SELECT type, name, sql FROM sqlite_schema")}
    assert {place: held[place] for place in schema.expected()} == schema.expected()


def test_a_new_file_holds_what_a_carried_one_holds(open_store: Stores) -> None:
    old_file(open_store.path("old.db"))
    names = []
    for name in ("old.db", "new.db"):
        open_store(name).close()
        rows = query(open_store.path(name), "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE '%sqlite_%'")
        names.append(sorted((str(kind), str(name), sql) for kind, name, sql in rows if "sqlite" not in str(name)))
    assert names[0] == names[1]


def test_an_old_file_is_read_as_it_is_where_nothing_may_be_written(tmp_path: Path) -> None:
    path = old_file(tmp_path / "old.db")
    query(path, "PRAGMA journal_mode=WAL")
    with open_store(path, mode="r") as store:
        assert store.latest().title == "from before"
        assert list(verify_store(store)) == []
    assert version_of(path) == 1


def test_a_step_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = old_file(tmp_path / "old.db")
    before = query(path, "SELECT type, name, sql FROM sqlite_schema")

    def half(database: object) -> None:
        migrations.add_views(database)  # type: ignore[arg-type] # what the step is given
        raise errors.StoreFull("no room")

    monkeypatch.setitem(migrations.STEPS, 2, half)
    with pytest.raises(errors.StoreFull):
        open_store(path)
    assert query(path, "SELECT type, name, sql FROM sqlite_schema") == before
    assert version_of(path) == 1
    monkeypatch.undo()
    with open_store(path) as store:
        assert list(verify_store(store)) == []


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    path = old_file(tmp_path / "newer.db")
    query(path, f"PRAGMA user_version={schema.USER_VERSION + 1}")
    with pytest.raises(errors.StoreNewer):
        open_store(path)
    assert version_of(path) == schema.USER_VERSION + 1


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW v_nodes AS SELECT 1",
        "CREATE TRIGGER mine AFTER INSERT ON events BEGIN SELECT 1; END",
        "DROP TRIGGER events_stay",
    ],
)
def test_an_old_file_that_was_altered_is_refused_before_anything_is_carried_over(
    tmp_path: Path, statement: str
) -> None:
    path = old_file(tmp_path / "old.db")
    query(path, statement)
    with pytest.raises(errors.StoreForeign):
        open_store(path)
    assert version_of(path) == 1


def test_the_views_tell_a_thread_s_story(open_store: Stores) -> None:
    path = old_file(open_store.path())
    open_store().close()
    assert query(path, "SELECT title, turns, tip FROM v_threads") == [("from before", 2, 8)]
    assert query(path, "SELECT position, source, text, redacted FROM v_nodes WHERE position > 1") == [
        (2, "user", "first question", 0),
        (3, "model", "first answer", 0),
        (5, "user", "second question", 0),
        (6, "model", 'bash {"cmd":"make"}', 0),
        (7, "tool", "no rule to make target", 0),
    ]
    assert query(path, "SELECT * FROM v_calls") == []
