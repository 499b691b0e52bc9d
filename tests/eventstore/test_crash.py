"""A writer that is killed loses nothing that it was answered for, and leaves nothing half done."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from convlog.eventstore.importers import import_file
from convlog.eventstore.store import Store, open_store
from convlog.eventstore.verify import is_fault, verify_store
from tests.conftest import Stores
from tests.eventstore import worker
from tests.recorded import recorded


def killed(role: Callable[..., None], path: Path, seed: int, lines: int) -> list[Any]:
    """Kill a worker somewhere behind some acknowledgements; give them all."""
    process = worker.start(role, path, seed)
    worker.go(process)
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    answers = [process.stdout.readline() for _ in range(lines)]
    process.kill()
    rest, err = process.communicate()
    assert err == ""
    # The last line may have been cut: the process died while it wrote it.
    whole = rest[: rest.rfind("\n") + 1].splitlines()
    return [json.loads(line) for line in (*answers, *whole)]


def check_acknowledged(store: Store, answers: list[Any]) -> None:
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
        answers = killed(worker.floods, path, seed, chance.randrange(1, 60))
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


# --- in the middle of other things ---


def bytes_of(path: Path) -> bytes:
    found = b""
    for suffix in ("", "-wal"):
        with suppress(FileNotFoundError):
            found += Path(f"{path}{suffix}").read_bytes()
    return found


def kill_erasers(stores: Stores, kills: int) -> None:
    chance = random.Random(11)
    path = stores.path()
    for seed in range(kills):
        answers = killed(worker.erases, path, seed, chance.randrange(1, 8))
        with open_store(path, create=False) as store:
            assert list(filter(is_fault, verify_store(store))) == []
            *_, (word, id_, secret) = answers
            if word == "stored":
                # What was cut short is there as it was, or has begun to go, fork first.
                texts = [repr(event.body) for event in store.thread(id_).events()] if store.backend.thread(id_) else []
                erased_anyway = not any(secret in text for text in texts)
            else:
                erased_anyway = True
        found = bytes_of(path)
        assert [told for told in answers if told[0] == "erased" and told[2].encode() in found] == []
        assert not (erased_anyway and secret.encode() in found)


def test_what_was_erased_before_a_kill_is_in_no_file(open_store: Stores) -> None:
    kill_erasers(open_store, 6)


@pytest.mark.long
def test_what_was_erased_before_many_kills_is_in_no_file(open_store: Stores) -> None:
    kill_erasers(open_store, 60)


def kill_attachers(stores: Stores, kills: int) -> None:
    chance = random.Random(13)
    path = stores.path()
    for seed in range(kills):
        answers = killed(worker.attaches, path, seed, chance.randrange(1, 20))
        with open_store(path, create=False) as store:
            assert [len(store.attachment(name)) > 0 for name in answers] == [True] * len(answers)
            assert list(verify_store(store)) == []


def test_an_attachment_is_whole_or_absent_after_a_kill(open_store: Stores) -> None:
    kill_attachers(open_store, 4)


@pytest.mark.long
def test_attachments_are_whole_or_absent_after_many_kills(open_store: Stores) -> None:
    kill_attachers(open_store, 40)


def kill_importers(stores: Stores, kills: int) -> None:
    chance = random.Random(17)
    source = recorded("codex-real.jsonl")
    whole = stores("whole.db")
    import_file(whole, source)
    for number in range(kills):
        path = stores.path(f"{number}.db")
        process = worker.start(worker.imports, path, source)
        worker.go(process)
        enough = chance.randrange(1, 1_000_000)
        while process.poll() is None and len(bytes_of(path)) < enough:
            pass
        process.kill()
        _, err = process.communicate()
        assert err == ""
        store = stores(f"{number}.db")
        assert list(verify_store(store)) == []
        import_file(store, source)
        assert imported(store) == imported(whole)


def imported(store: Store) -> dict[str, list[str]]:
    """Give the types of all events by thread; how often an import was reported does not count."""
    return {
        row.thread: [event.type for event in store.thread(row.thread).events() if event.type != "import.reported"]
        for row in store.threads()
    }


def test_an_import_that_was_killed_goes_on_where_it_was(open_store: Stores) -> None:
    kill_importers(open_store, 4)


@pytest.mark.long
def test_imports_that_were_killed_go_on_where_they_were(open_store: Stores) -> None:
    kill_importers(open_store, 40)
