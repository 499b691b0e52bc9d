"""Several processes, and several threads of one, write to one store at once; strangers open and close its file."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from convlog.eventstore.events import SegmentAdded
from convlog.eventstore.records import Draft
from convlog.eventstore.store import Store
from convlog.eventstore.store import open_store as open_at
from convlog.eventstore.thread import Thread
from convlog.eventstore.verify import verify_store
from tests.conftest import Stores
from tests.eventstore import worker
from tests.stores import Place


def texts_of(thread: Thread) -> list[str]:
    return [event.body.text for event in thread.events(types=("segment.added",))]


def write_from_processes(stores: Stores, writers: int, count: int) -> None:
    path = stores.path()
    answers = worker.run_together(*(worker.start(worker.appends, path, f"w{i}", count) for i in range(writers)))
    store = stores()
    shared = store.create_thread(key=worker.SHARED)
    stored = texts_of(shared)
    for number, lines in enumerate(answers):
        assert [text for text in stored if text.startswith(f"w{number} ")] == [f"w{number} {i}" for i in range(count)]
        for i, (position, own_position) in enumerate(lines):
            assert shared.event(position).body.text == f"w{number} {i}"
            assert own_position == i + 2
    assert shared.position == writers * count + 1
    assert len(list(store.threads())) == writers + 1


def test_processes_that_make_one_store_together_lose_nothing(open_store: Stores) -> None:
    write_from_processes(open_store, 8, 100)


@pytest.mark.long
def test_processes_that_write_a_lot_together_lose_nothing(open_store: Stores) -> None:
    write_from_processes(open_store, 8, 500)


def test_of_processes_that_expect_one_head_one_appends_and_the_others_are_told_the_actual(open_store: Stores) -> None:
    store = open_store()
    thread = store.create_thread()
    for _ in range(3):
        head = thread.head
        contenders = [worker.start(worker.contends, store.place, thread.id, head) for _ in range(4)]
        answers = sorted(line for lines in worker.run_together(*contenders) for line in lines)
        thread.refresh()
        assert answers == [["conflict", thread.head]] * 3 + [["stored", thread.head]]
        assert thread.position == head + 1


def checkpoint_without_pause(path: Path, count: int) -> list[list[Any]]:
    """Let three processes append while two do nothing but checkpoint; give what the three said."""
    open_at(path).close()
    tenders = [worker.start(worker.tends, path) for _ in range(2)]
    for tender in tenders:
        worker.go(tender)
    try:
        return worker.run_together(*(worker.start(worker.hurries, path, f"w{i}", count) for i in range(3)))
    finally:
        for tender in tenders:
            tender.kill()
            _, err = tender.communicate()
            assert err == ""


def check_hurried(path: Path, answers: list[list[Any]]) -> None:
    with open_at(path, create=False) as store:
        assert list(verify_store(store)) == []
        for ((id_, acknowledged, last),) in answers:
            thread = store.thread(id_)
            assert (thread.position, thread.tip.hex()) == (acknowledged + 1, last)


def test_processes_that_checkpoint_without_pause_make_writers_lose_nothing(open_store: Stores) -> None:
    check_hurried(open_store.path(), checkpoint_without_pause(open_store.path(), 500))


@pytest.mark.long
def test_processes_that_checkpoint_for_long_make_writers_lose_nothing(open_store: Stores) -> None:
    check_hurried(open_store.path(), checkpoint_without_pause(open_store.path(), 25_000))


# --- strangers ---


def test_another_process_may_open_and_close_the_file_meanwhile(open_store: Stores) -> None:
    path = open_store.path()
    open_store().create_thread(key=worker.SHARED)
    open_store.close()
    visitors = [worker.start(worker.visits, path, 150) for _ in range(2)]
    writers = [worker.start(worker.appends, path, f"w{i}", 60) for i in range(2)]
    answers = worker.run_together(*visitors, *writers)
    shared = open_store().create_thread(key=worker.SHARED)
    stored = texts_of(shared)
    assert len(stored) == sum(len(lines) for lines in answers[2:]) == 120
    assert len(set(stored)) == 120


def test_the_same_process_may_open_and_close_the_file_meanwhile(store: Store) -> None:
    thread = store.create_thread()
    for number in range(60):
        thread.text(str(number))
        connection = sqlite3.connect(store.place)
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (number + 2,)
        connection.close()
    assert texts_of(thread) == [str(number) for number in range(60)]


def test_a_stranger_that_takes_the_wal_away_takes_nothing_that_was_acknowledged(open_store: Stores) -> None:
    """Reading the file's bytes drops this process's locks on it: who closes it next seems to be the last."""
    store = open_store()
    thread = store.create_thread()
    wal = Path(f"{store.place}-wal")
    taken = 0
    for number in range(8):
        thread.text(str(number))
        assert Path(store.place).read_bytes()
        inode = wal.stat().st_ino
        process = worker.start(worker.visits, store.place, 1)
        worker.go(process)
        process.communicate()
        taken += not wal.exists() or wal.stat().st_ino != inode
    assert taken > 0, "the fault did not occur: nothing was tried"
    again = open_store().thread(thread.id)
    assert texts_of(again) == [str(number) for number in range(8)]


def test_a_wal_that_is_deleted_under_a_writer_takes_nothing_along(open_store: Stores) -> None:
    store = open_store()
    thread = store.create_thread()
    for number in range(5):
        thread.text(str(number))
        Path(f"{store.place}-wal").unlink()
    thread.user("more")
    open_store.close()
    again = open_store().thread(thread.id)
    assert texts_of(again) == [str(number) for number in range(5)]
    assert again.position == 7


# --- threads of one process ---


def run_in_threads(*works: Callable[[], object]) -> None:
    """Run functions at once, each in a thread; raise what any raised."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> None:
        barrier.wait()
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for failure in failures:
        raise failure


def test_threads_of_one_process_share_a_store(any_store: Store) -> None:
    shared = any_store.create_thread()
    own = [any_store.create_thread() for _ in range(6)]

    def writes(number: int) -> None:
        for i in range(40):
            shared.text(f"{number} {i}")
            own[number].user(str(i))
            own[number].tree.path(own[number].head)

    def reads() -> None:
        for _ in range(40):
            positions = [event.position for event in shared.events()]
            assert positions == list(range(1, len(positions) + 1))
            path = shared.tree.path(shared.head)
            assert path == list(range(1, len(path) + 1))

    run_in_threads(*(lambda number=number: writes(number) for number in range(6)), reads, reads)
    stored = texts_of(shared)
    for number in range(6):
        assert [text for text in stored if text.startswith(f"{number} ")] == [f"{number} {i}" for i in range(40)]
        assert own[number].position == 41


def test_threads_that_learn_the_tree_while_others_append_learn_it_whole(any_place: Place) -> None:
    thread = any_place.open().create_thread()
    thread.append_many([Draft(body=SegmentAdded(text=str(number))) for number in range(500)])
    for _ in range(10):
        fresh = any_place.open().thread(thread.id)

        def learns(fresh: Thread = fresh) -> None:
            assert fresh.tree.path(fresh.head)[:501] == list(range(1, 502))

        def appends(fresh: Thread = fresh) -> None:
            for _ in range(5):
                fresh.text("more")

        run_in_threads(learns, appends, learns, appends)
        assert len(fresh.tree.path(fresh.head)) == fresh.position
