"""A writer that is killed loses nothing that it was answered for, and leaves nothing half done."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path

import pytest

from convlog.eventstore.store import Store, open_store
from convlog.eventstore.verify import verify_store
from tests.conftest import Stores
from tests.eventstore import worker


def killed_writer(path: Path, seed: int, lines: int) -> list[tuple[int, str]]:
    """Kill a writer somewhere behind some acknowledgements; give them all."""
    process = worker.start(worker.floods, path, seed)
    worker.go(process)
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    answers = [process.stdout.readline() for _ in range(lines)]
    process.kill()
    rest, err = process.communicate()
    assert err == ""
    # The last line may have been cut: the process died while it wrote it.
    whole = rest[: rest.rfind("\n") + 1].splitlines()
    return [tuple(json.loads(line)) for line in (*answers, *whole)]


def check_acknowledged(store: Store, answers: list[tuple[int, str]]) -> None:
    thread = store.create_thread(key=worker.SHARED)
    for position, hash_ in answers:
        assert thread.event(position, output=False).hash.hex() == hash_


def check_batches(store: Store) -> None:
    """Assert that of each batch all members are there, next to each other."""
    positions = defaultdict(list)
    for event in store.create_thread(key=worker.SHARED).events(types=("segment.added",)):
        assert event.key
        positions[event.key.rpartition(".")[0]].append(event.position)
    for found in positions.values():
        assert len(found) in {1, worker.BATCH}
        assert found == list(range(found[0], found[0] + len(found)))


def kill_writers(stores: Stores, kills: int) -> None:
    chance = random.Random(7)
    path = stores.path()
    for seed in range(kills):
        answers = killed_writer(path, seed, chance.randrange(1, 60))
        with open_store(path, create=False) as store:
            check_acknowledged(store, answers)
            if seed % 10 == 0:
                assert list(verify_store(store, level="chain")) == []
    with open_store(path, create=False) as store:
        check_batches(store)


def test_a_killed_writer_keeps_its_promises(open_store: Stores) -> None:
    kill_writers(open_store, 25)


@pytest.mark.long
def test_many_killed_writers_keep_their_promises(open_store: Stores) -> None:
    kill_writers(open_store, 200)


def test_a_writer_that_dies_while_it_holds_the_lock_gives_it_back(open_store: Stores) -> None:
    store = open_store(timeout_s=60.0)
    thread = store.create_thread()
    holder = worker.start(worker.holds, store.place)
    worker.go(holder)
    assert holder.stdout
    assert [holder.stdout.readline() for _ in range(2)] == ["ready\n", '"held"\n']
    holder.kill()
    holder.communicate()
    assert thread.text("a").position == 2


def test_a_writer_that_ends_without_closing_loses_nothing(open_store: Stores) -> None:
    first = open_store()
    thread = first.create_thread()
    for number in range(50):
        thread.text(str(number))
    left = open_store.place().crash(first)
    again = left.thread(thread.id)
    assert again.position == 51
    assert again.text("more").position == 52
