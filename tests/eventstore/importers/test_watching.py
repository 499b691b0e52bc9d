"""Growing files and folders are brought in as they grow; a time keeps older ones out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from convlog.eventstore.importers import Found, import_path, watch
from convlog.eventstore.store import Store

from .imported import log_texts

DAY_US = 86_400_000_000
JANUARY_2_US = 1_767_312_000_000_000


def line(number: int, *, id_: str = "s1", day: int = 2) -> str:
    """Give one line of a Claude Code session."""
    fields = {
        "type": "user",
        "sessionId": id_,
        "uuid": f"{id_}-{number}",
        "parentUuid": f"{id_}-{number - 1}" if number else None,
        "timestamp": f"2026-01-{day:02}T00:00:{number:02}.000Z",
        "message": {"role": "user", "content": f"{id_} {number}"},
    }
    return json.dumps(fields) + "\n"


def looks(store: Store, path: Path, *between: Callable[[], object], **options: object) -> list[Found]:
    """Watch a path; do something after each look, and stop after the look that follows the last of them."""
    left: list[Callable[[], object]] = [*between, lambda: None]
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        between_looks = left[len(waited) - 1]
        between_looks()

    found = list(
        watch(store, [path], sleep=sleep, stop=lambda: len(waited) == len(left), interval_s=0.5, options=options)
    )
    assert waited == [0.5] * len(left)
    return found


def added(path: Path, text: str) -> Callable[[], object]:
    """Give what appends to a file."""

    def add() -> None:
        with path.open("a") as file:
            file.write(text)

    return add


def test_lines_come_in_as_they_are_written_and_quiet_looks_say_nothing(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(line(0))
    found = looks(store, path, lambda: None, added(path, line(1)), lambda: None, added(path, line(2) + line(3)))
    assert [row.report.user_messages for row in found if row.report] == [1, 2, 4]
    assert log_texts(store.latest()) == ["user s1 0", "user s1 1", "user s1 2", "user s1 3"]


def test_half_a_line_is_left_until_it_is_whole(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(line(0))
    found = looks(store, path, added(path, line(1)[:40]), added(path, line(1)[40:]))
    assert [row.report.lost for row in found if row.report] == [0, 0]
    assert log_texts(store.latest()) == ["user s1 0", "user s1 1"]


def test_what_ends_without_a_line_end_comes_in_when_it_grows_no_more(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(line(0).rstrip())
    assert looks(store, path) == []
    assert len(looks(store, path, lambda: None, lambda: None)) == 1


def test_files_that_come_later_and_folders_are_watched_too(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    later = folder / "b.jsonl"
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "p")
    (tmp_path / "notes.md").write_text("no session\n")
    found = looks(store, tmp_path, folder.mkdir, lambda: later.write_text(line(0)), later.unlink, lambda: None)
    assert [row.path for row in found] == [str(later)]


def test_a_deleted_thread_is_told_once(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(line(0))
    looks(store, path)
    store.delete_thread(store.latest().id)
    found = looks(store, path, lambda: None, lambda: None)
    assert [row.error.code for row in found if row.error] == ["thread_deleted"]
    assert len(looks(store, path, again=True)) == 1


def test_only_files_whose_user_spoke_since_then_are_taken(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    (folder / "old.jsonl").write_text(line(0, id_="old", day=1))
    (folder / "new.jsonl").write_text(line(0, id_="new", day=2))
    rows = import_path(store, folder, since_us=JANUARY_2_US)
    assert {Path(row.path).name: row.is_older for row in rows} == {"new.jsonl": False, "old.jsonl": True}
    assert [row.source_id for row in store.threads()] == ["new"]
    (alone,) = import_path(store, folder / "new.jsonl", since_us=JANUARY_2_US + DAY_US)
    assert alone.is_older


def test_where_no_user_speaks_the_time_of_change_counts(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "agent.jsonl"
    path.write_text(json.dumps(json.loads(line(0)) | {"isMeta": True}) + "\n")
    os.utime(path, (JANUARY_2_US / 1e6, JANUARY_2_US / 1e6))
    assert import_path(store, path, since_us=JANUARY_2_US + 1)[0].is_older
    assert not import_path(store, path, since_us=JANUARY_2_US)[0].is_older
