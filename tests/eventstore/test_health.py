"""What is told of a store without reading its bodies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from convlog.eventstore import health
from convlog.eventstore.backend import Record
from convlog.eventstore.events import Source
from convlog.eventstore.schema import USER_VERSION
from convlog.eventstore.store import Store, open_store


@pytest.mark.parametrize(
    ("version", "lossy"),
    [((3, 6, 23), False), ((3, 7, 0), True), ((3, 40, 1), True), ((3, 51, 2), True), ((3, 51, 3), False)],
)
def test_the_versions_that_lose_data_are_known(version: tuple[int, ...], lossy: bool) -> None:
    assert health.is_lossy(version) is lossy


def test_the_schema_is_read_from_the_files_header(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    open_store(path).close()
    found = health.file_health(path)
    assert (found.schema, found.size, found.lock_present) == (USER_VERSION, path.stat().st_size, True)
    (tmp_path / "other").write_bytes(b"x" * 200)
    assert health.file_health(tmp_path / "other").schema is None


def test_events_without_a_key_are_counted_by_source() -> None:
    with open_store(":memory:") as store:
        thread = store.create_thread()
        thread.user("a", key="k1")
        thread.user("b")
        thread.text("c", source=Source("model", name="m"))
        fork = thread.fork()
        found = health.writers(store)
    assert found.keyless == {"host": (2, 2), "user": (1, 2), "model m": (1, 1)}
    assert (found.threads, found.events) == (2, 5), "what a fork shares is counted once"
    assert fork.id != thread.id


def test_types_of_a_newer_program_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(":memory:") as store:
        thread = store.create_thread()
        thread.user("a")
        read = store.backend.read

        def newer(*args: object, **options: object) -> list[Record]:
            import msgspec

            records = list(read(*args, **options))  # type: ignore[arg-type] # passed on as they came
            return [*records[:-1], msgspec.structs.replace(records[-1], type="input.added", version=9)]

        monkeypatch.setattr(store.backend, "read", newer)
        assert health.writers(store).unknown == {"input.added@9": 1}


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="the system does not tell who has a file open")
def test_another_process_with_the_store_open_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    store = open_store(path)
    assert isinstance(store, Store)
    assert health.holders(path) == []
    code = (
        "import fcntl, sys; from convlog.eventstore.store import open_store; s = open_store(sys.argv[1]);"
        " f = open(sys.argv[1] + '-lock'); fcntl.flock(f, fcntl.LOCK_EX); print('open', flush=True); sys.stdin.read();"
        " fcntl.flock(f, fcntl.LOCK_UN)"
    )
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (holder,) = health.holders(path) or []
        assert (holder.pid, holder.locks, holder.other_lock) == (process.pid, True, False)
        Path(f"{path}-lock").unlink()
        (holder,) = health.holders(path) or []
        assert holder.other_lock
        process.communicate(b"")
    store.close()


def test_without_proc_nobody_is_told(tmp_path: Path) -> None:
    assert health.holders(tmp_path / "a.db", proc=tmp_path) is None
