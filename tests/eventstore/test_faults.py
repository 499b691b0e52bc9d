"""What goes wrong below the store: full disks, lost and cut files, rights, hostile files, forks of the process."""

from __future__ import annotations

import os
import pickle
import resource
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from convlog.eventstore import errors, schema, sqlite
from convlog.eventstore.events import SegmentAdded
from convlog.eventstore.lock import FileLock
from convlog.eventstore.records import Draft
from convlog.eventstore.sqlite import SqliteBackend
from convlog.eventstore.store import Store
from convlog.eventstore.store import open_store as open_at
from convlog.eventstore.thread import Thread
from convlog.eventstore.verify import verify_thread
from tests.conftest import Stores
from tests.eventstore import worker

NOBODY = 65534
MODES: tuple[Literal["rw", "r"], ...] = ("rw", "r")
is_posix = pytest.mark.skipif(os.name != "posix", reason="needs fork and POSIX rights")
is_root = pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root gives files to others")


def engine_of(store: Store) -> sqlite3.Connection:
    assert isinstance(store.backend, SqliteBackend)
    return store.backend._db


def wal_bytes(store: Store) -> int:
    assert isinstance(store.backend, SqliteBackend)
    return store.backend.wal_size()


def filled(store: Store, count: int = 20) -> Thread:
    thread = store.create_thread(title="t")
    for number in range(count):
        thread.user(f"{number} {'x' * 400}")
    return thread


def texts_of(thread: Thread) -> list[str]:
    return [event.body.content[0].text.split()[0] for event in thread.events(types=("input.added",))]


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def fill(thread: Thread) -> errors.ConvlogError:
    """Append until there is no more room; give the error that says so."""
    for number in range(10_000):
        try:
            thread.user(f"{number} {'x' * 4_000}")
        except errors.ConvlogError as error:
            return error
    pytest.fail("there was no limit")


def in_child(work: Callable[[], object], *, uid: int | None = None) -> Any:
    """Run a function in a forked child, as another user if asked; give what it returned, or raise what it raised."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if uid is not None:
                os.setuid(uid)
            os.write(writing, pickle.dumps((True, work())))
        except BaseException as error:  # noqa: BLE001 - handed to the parent process
            os.write(writing, pickle.dumps((False, error)))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        done, value = pickle.loads(pipe.read())
    os.waitpid(pid, 0)
    if done:
        return value
    raise value


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Give a folder that every user can enter; the tests' own cannot."""
    with tempfile.TemporaryDirectory(prefix="convlog-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


# --- no room ---


@is_posix
def test_a_file_size_limit_is_a_typed_error_and_what_was_acknowledged_stays(open_store: Stores) -> None:
    path = open_store.path()

    def fills() -> tuple[int, str, list[str]]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (900_000, 900_000))
        store = open_at(path)
        thread = store.create_thread(key=worker.SHARED)
        error = fill(thread)
        return thread.position, type(error).__name__, texts_of(thread)

    position, error, read = in_child(fills)
    assert error in {"AppendUnknown", "StoreFull"}
    assert position > 20
    assert read == numbers(position - 1)
    thread = open_store().create_thread(key=worker.SHARED)
    # The one whose outcome was not known may be there.
    assert texts_of(thread)[: position - 1] == numbers(position - 1)
    assert thread.text("more").position == thread.position


@is_posix
def test_a_store_that_met_a_write_error_is_not_written_until_it_is_opened_again(open_store: Stores) -> None:
    path = open_store.path()

    def fills() -> str:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
        store = open_at(path)
        thread = store.create_thread()
        assert isinstance(fill(thread), errors.AppendUnknown)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        with pytest.raises(errors.StoreDamaged):
            thread.user("again")
        store.close()
        thread = open_at(path).thread(thread.id)
        return str(thread.user("again").position == thread.position)

    assert in_child(fills) == "True"


def test_a_full_disk_is_a_typed_error_and_reading_and_writing_go_on(store: Store) -> None:
    thread = filled(store)
    pages = engine_of(store).execute("PRAGMA page_count").fetchone()[0]
    engine_of(store).execute(f"PRAGMA max_page_count={pages + 5}")
    assert isinstance(fill(thread), errors.StoreFull)
    stored = thread.position
    with pytest.raises(errors.StoreFull):
        store.attach(b"x" * 100_000)
    assert [event.position for event in thread.events()] == list(range(1, stored + 1))
    engine_of(store).execute("PRAGMA max_page_count=1000000")
    assert thread.user("more").position == stored + 1


# --- rights and places ---


@is_posix
def test_files_are_the_owners_alone_whatever_the_umask(open_store: Stores) -> None:
    before = os.umask(0)
    try:
        store = open_store()
        filled(store)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in Path(store.place).parent.glob("store.db*")}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("store.db", "store.db-wal", "store.db-shm", "store.db-lock"), 0o600)


def test_a_closed_store_is_one_file_and_its_lock(open_store: Stores) -> None:
    store = open_store()
    thread = filled(store)
    thread.append_many([Draft(body=SegmentAdded(text=text)) for text in "abc"])
    store.attach(b"x")
    assert list(thread.events())
    store.close()
    assert {path.name for path in Path(store.place).parent.glob("store.db*")} == {"store.db", "store.db-lock"}


@is_posix
def test_a_read_only_folder_is_read_and_refuses_to_write(open_folder: Path) -> None:
    path = open_folder / "store.db"
    with open_at(path) as store:
        thread = filled(store).id
    path.chmod(0o444)
    open_folder.chmod(0o555)
    uid = NOBODY if os.getuid() == 0 else None

    def reads() -> list[str]:
        with open_at(path, mode="r") as store:
            with pytest.raises(errors.StoreReadOnly):
                store.thread(thread).text("a")
            return texts_of(store.thread(thread))

    assert in_child(reads, uid=uid) == numbers(20)
    with pytest.raises(errors.StoreReadOnly):
        in_child(lambda: open_at(path), uid=uid)
    with pytest.raises(errors.StoreReadOnly):
        in_child(lambda: open_at(open_folder / "new.db"), uid=uid)


@is_root
def test_a_file_of_somebody_else_is_refused_with_a_word(open_folder: Path) -> None:
    path = open_folder / "store.db"
    with open_at(path) as store:
        filled(store)
    open_folder.chmod(0o777)
    for mode in MODES:
        with pytest.raises(errors.OpeningError):
            in_child(partial(open_at, path, mode=mode), uid=NOBODY)


def test_a_store_opened_to_read_is_not_written(open_store: Stores) -> None:
    store = open_store()
    thread = filled(store)
    reader = open_store(mode="r")
    seen = reader.thread(thread.id)
    assert texts_of(seen) == numbers(20)
    for write in (
        lambda: seen.text("a"),
        lambda: seen.append_many([]) or seen.user("b"),
        reader.create_thread,
        lambda: reader.attach(b"x"),
        lambda: reader.delete_thread(thread.id),
        lambda: reader.backend.redact(thread.id, [], None),  # type: ignore[arg-type] # refused before it is looked at
    ):
        with pytest.raises(errors.StoreReadOnly):
            write()
    reader.backend.cache("a", b"1", thread.id)
    assert reader.backend.cached("a") is None
    thread.user("20 more")
    seen.refresh()
    assert texts_of(seen) == numbers(21)


def test_what_is_no_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "folder", tmp_path / "pipe", "file:x.db", "file:/x?mode=memory"):
        for mode in MODES:
            with pytest.raises(errors.NotAStore):
                open_at(place, mode=mode)
    with pytest.raises(errors.StoreMissing):
        open_at(tmp_path / "none" / "store.db")
    with pytest.raises(errors.StoreMissing):
        open_at(tmp_path / "store.db", create=False)
    with pytest.raises(errors.StoreMissing):
        open_at(tmp_path / "store.db", mode="r")
    (tmp_path / "text").write_text("no store")
    with pytest.raises(errors.StoreMissing):
        open_at(tmp_path / "text" / "store.db")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe", "text"]


def test_a_file_of_another_kind_is_no_store_and_stays_as_it_is(tmp_path: Path) -> None:
    text, other, marked = (tmp_path / name for name in ("text.db", "other.db", "marked.db"))
    text.write_text("no store at all " * 500)
    for path, marker in ((other, 0), (marked, 7)):
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE notes (x)")
            connection.execute(f"PRAGMA application_id={marker}")
        connection.close()
    for path in (text, other, marked):
        before = path.read_bytes()
        for mode in MODES:
            with pytest.raises(errors.NotAStore):
                open_at(path, mode=mode)
        assert path.read_bytes() == before


def test_an_empty_file_becomes_a_store(open_store: Stores) -> None:
    open_store.path().touch()
    assert filled(open_store()).position == 21


@is_posix
def test_a_link_is_followed_to_the_store_it_names(open_store: Stores, tmp_path: Path) -> None:
    thread = filled(open_store())
    (tmp_path / "link.db").symlink_to("store.db")
    linked = open_at(tmp_path / "link.db")
    assert Path(linked.place).name == "store.db"
    assert linked.thread(thread.id).text("a").position == 22
    linked.close()
    assert not (tmp_path / "link.db-wal").exists()
    assert not (tmp_path / "link.db-lock").exists()


@is_root
def test_a_link_of_somebody_else_is_not_followed(open_store: Stores, tmp_path: Path) -> None:
    filled(open_store())
    link = tmp_path / "link.db"
    link.symlink_to("store.db")
    os.lchown(link, NOBODY, NOBODY)
    with pytest.raises(errors.NotAStore):
        open_at(link)


# --- lost and cut files ---


def copied(store: Store, *suffixes: str) -> Path:
    """Copy some of a store's files as they lie to another place."""
    copy = Path(store.place).with_name("copy.db")
    for suffix in suffixes:
        shutil.copy(f"{store.place}{suffix}", f"{copy}{suffix}")
    return copy


def test_a_store_without_its_shm_is_whole(open_store: Stores) -> None:
    store = open_store()
    thread = filled(store)
    with open_at(copied(store, "", "-wal"), create=False) as copy:
        assert texts_of(copy.thread(thread.id)) == numbers(20)


def test_a_lost_wal_is_a_shorter_history_that_a_tip_kept_elsewhere_gives_away(open_store: Stores) -> None:
    store = open_store()
    thread = filled(store, 3)
    store.close()
    store = open_store()
    thread = store.thread(thread.id)
    for number in range(3, 8):
        thread.user(str(number))
    tip = thread.tip
    with open_at(copied(store, ""), create=False) as copy:
        shorter = copy.thread(thread.id)
        assert texts_of(shorter) == numbers(3)
        assert list(verify_thread(copy, thread.id)) == []
        assert [problem.kind for problem in verify_thread(copy, thread.id, tip=tip)] == ["lost_tail"]
        assert shorter.text("goes on").position == 5


def test_a_cut_wal_is_the_beginning_of_the_history(open_store: Stores) -> None:
    store = open_store()
    thread = filled(store, 8)
    whole = Path(f"{store.place}-wal").read_bytes()
    lengths = set()
    for cut in (1, 100, 4_000, 20_000, 100_000, len(whole)):
        path = copied(store, "")
        Path(f"{path}-wal").write_bytes(whole[: max(len(whole) - cut, 0)])
        with open_at(path) as copy:
            found = list(copy.threads())
            count = 0
            if found:
                stored = texts_of(copy.thread(thread.id))
                count = len(stored)
                assert stored == numbers(count)
                assert list(verify_thread(copy, thread.id)) == []
            lengths.add(count)
        for left in path.parent.glob("copy.db*"):
            left.unlink()
    assert 7 in lengths
    assert len(lengths) > 2


def test_a_copy_made_by_the_engine_while_others_write_is_a_whole_store(open_store: Stores) -> None:
    path = open_store.path()
    open_store().create_thread(key=worker.SHARED)
    writer = worker.start(worker.appends, path, "w", 150)
    worker.go(writer)
    assert writer.stdout
    for _ in range(30):
        writer.stdout.readline()
    source = sqlite3.connect(path)
    target = sqlite3.connect(open_store.path("copy.db"))
    source.backup(target)
    target.close()
    source.close()
    worker.ended(writer)
    copy = open_store("copy.db", create=False).create_thread(key=worker.SHARED)
    stored = [event.body.text for event in copy.events(types=("segment.added",))]
    assert len(stored) >= 28
    assert stored == [f"w {number}" for number in range(len(stored))]


def test_a_slow_reader_does_not_make_the_wal_grow_without_end(
    open_store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "WAL_BYTES_SOFT", 200_000)
    monkeypatch.setattr(sqlite, "WAL_BYTES_HARD", 400_000)
    store = open_store(durability="process")
    thread = filled(store, 600)
    reader = open_store(mode="r").thread(thread.id)
    largest = 0
    for event in reader.events():
        if event.position % 2:
            thread.user("x" * 8_000)
            largest = max(largest, wal_bytes(store))
    written = thread.position - 601
    assert written == 301
    assert largest < 600_000 < written * 8_000
    assert thread.position == len(list(thread.events()))


def test_a_reader_of_a_foreign_program_delays_the_checkpoint_and_loses_nothing(
    open_store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "WAL_BYTES_HARD", 100_000)
    store = open_store(durability="process")
    thread = filled(store)
    stranger = sqlite3.connect(store.place, isolation_level=None)
    stranger.execute("BEGIN")
    seen = stranger.execute("SELECT count(*) FROM events").fetchone()
    for number in range(20, 80):
        thread.user(f"{number} {'x' * 4_000}")
    assert stranger.execute("SELECT count(*) FROM events").fetchone() == seen == (21,)
    grown = wal_bytes(store)
    assert grown > 300_000
    stranger.close()
    for number in range(80, 82):
        thread.user(str(number))
    settled = wal_bytes(store)
    for number in range(82, 90):
        thread.user(str(number))
    assert wal_bytes(store) == settled
    assert texts_of(thread) == numbers(90)


def test_a_store_that_another_process_holds_is_refused_after_the_timeout(open_store: Stores) -> None:
    store = open_store(timeout_s=0.02)
    thread = filled(store)
    with FileLock(Path(f"{store.place}-lock"), 1.0):
        with pytest.raises(errors.StoreLocked):
            thread.text("a")
        with pytest.raises(errors.StoreLocked):
            open_store(timeout_s=0.02)
        assert texts_of(thread) == numbers(20)
    assert thread.text("a").position == 22


# --- forks of the process ---


@is_posix
def test_a_forked_child_is_refused_and_the_parent_goes_on(open_store: Stores) -> None:
    store = open_store()
    thread = filled(store)

    def uses() -> list[str]:
        refused = []
        for use in (
            lambda: thread.text("a"),
            lambda: list(thread.events()),
            store.create_thread,
            lambda: list(store.threads()),
            lambda: store.attach(b"x"),
        ):
            try:
                use()
            except errors.ForkedStore:
                refused.append("refused")
        store.close()
        return refused

    assert in_child(uses) == ["refused"] * 5
    assert thread.text("b").position == 22
    assert texts_of(thread) == numbers(20)


@is_posix
def test_a_forked_child_does_not_give_back_the_lock_of_its_parent(open_store: Stores) -> None:
    store = open_store(timeout_s=0.02)
    thread = filled(store)
    other = open_store(timeout_s=0.02).thread(thread.id)
    assert isinstance(store.backend, SqliteBackend)
    with store.backend._mutex, store.backend._lock:

        def uses() -> None:
            with pytest.raises(errors.ForkedStore):
                thread.text("a")
            store.close()

        in_child(uses)
        with pytest.raises(errors.StoreLocked):
            other.text("b")
    assert other.text("b").position == 22


@is_posix
def test_a_child_may_open_the_store_for_itself(open_store: Stores) -> None:
    store = open_store()
    thread = filled(store)

    def uses() -> int:
        with open_at(store.place, create=False) as own:
            return own.thread(thread.id).text("a").position

    assert in_child(uses) == 22
    assert thread.text("b").position == 23


# --- hostile files ---


def altered(stores: Stores, *statements: str) -> Path:
    """Make a store, and let a stranger run statements on its file."""
    filled(stores())
    stores.close()
    path = stores.path()
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()
    return path


@pytest.mark.usefixtures("allow_damage")
@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TRIGGER spy AFTER INSERT ON events BEGIN DELETE FROM cache; END"],
        ["CREATE TRIGGER spy AFTER UPDATE ON threads BEGIN DELETE FROM cache; END"],
        ["DROP TRIGGER events_stay"],
        ["DROP TRIGGER events_stay", "CREATE TRIGGER events_stay BEFORE DELETE ON events WHEN 0 BEGIN SELECT 1; END"],
        ["DROP TABLE cache", "CREATE VIEW cache AS SELECT 1 AS name, 2 AS thread, 3 AS value"],
        ["DROP TABLE uses"],
        ["ALTER TABLE threads ADD COLUMN more TEXT"],
        ["DROP INDEX events_key"],
        ["CREATE TABLE more (x)", "CREATE TRIGGER spy AFTER INSERT ON more BEGIN SELECT 1; END"],
    ],
    ids=lambda statements: statements[-1][:40],
)
def test_a_file_with_foreign_parts_under_our_names_is_refused(statements: list[str], open_store: Stores) -> None:
    path = altered(open_store, *statements)
    for mode in MODES:
        with pytest.raises(errors.StoreForeign):
            open_at(path, mode=mode)


def test_tables_of_others_beside_ours_are_let_be(open_store: Stores) -> None:
    altered(open_store, "CREATE TABLE notes (x)", "CREATE VIEW titles AS SELECT title FROM threads")
    assert filled(open_store()).position == 21


@pytest.mark.usefixtures("allow_damage")
def test_a_file_of_a_newer_program_is_refused(open_store: Stores) -> None:
    path = altered(open_store, f"PRAGMA user_version={schema.USER_VERSION + 1}")
    before = path.read_bytes()
    for mode in MODES:
        with pytest.raises(errors.StoreNewer):
            open_at(path, mode=mode)
    assert path.read_bytes() == before


CHANGES = {
    "update": "UPDATE events SET type = 'x' WHERE position = 2",
    "update of the body": "UPDATE events SET body = '{}' WHERE position = 2",
    "body gone without a note": "UPDATE events SET body = NULL, output = NULL, salt = NULL WHERE position = 2",
    "delete": "DELETE FROM events WHERE position = 2",
    "delete of all": "DELETE FROM events",
    "replace": "INSERT OR REPLACE INTO events SELECT * FROM events WHERE position = 2",
    "replace by place": (
        "INSERT OR REPLACE INTO events (thread, position, head, type, version, recorded_at, source, hash, commitment)"
        " SELECT thread, 2, 2, 'x', 1, 1, source, hash, commitment FROM events WHERE position = 1"
    ),
    "thread gone": "DELETE FROM threads",
    "thread renamed": "UPDATE threads SET thread = 'x'",
}


@pytest.mark.parametrize("statement", CHANGES.values(), ids=CHANGES)
def test_the_file_itself_refuses_to_change_what_was_recorded(statement: str, store: Store) -> None:
    filled(store)
    with pytest.raises(sqlite3.IntegrityError):
        engine_of(store).execute(statement)
