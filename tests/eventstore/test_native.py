"""The native export and its way back: equal bytes, nothing half-written, nothing that does not verify."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convlog.eventstore import errors, records
from convlog.eventstore.backend import Record, ThreadRow
from convlog.eventstore.events import Image, Source, Text
from convlog.eventstore.memory import MemoryBackend
from convlog.eventstore.native import export_thread
from convlog.eventstore.native_import import import_native, is_native
from convlog.eventstore.records import Draft, Encoded
from convlog.eventstore.redaction import redact
from convlog.eventstore.store import Store
from convlog.eventstore.thread import Thread
from convlog.eventstore.verify import is_fault, verify_store
from tests.conftest import Stores


def talk(store: Store, **options: Any) -> Thread:
    thread = store.create_thread(title="talk", cwd="/src", agent="codex", source_id="s-1", **options)
    picture = store.attach(bytes(range(256)) * 10)
    thread.user([Text("look \u2028 \x7f \x1b \U0001f600"), Image(attachment=picture)], key="k1", occurred_at=-5)
    thread.call("c1", "bash", '{ "cmd": "ls" , "n": 1.0 }')
    thread.result("c1", "a\x00b")
    thread.text("half \ud83d")
    thread.end_turn()
    thread.edit(2, "look again")
    thread.name_branch("second")
    return thread


def lines_of(thread: Thread) -> list[bytes]:
    return list(export_thread(thread.store, thread.id))


def memory() -> Store:
    return Store(MemoryBackend())


def faults(store: Store) -> list[Any]:
    return [problem for problem in verify_store(store) if is_fault(problem)]


def rows_of(store: Store, thread: Thread) -> list[Record]:
    return list(store.backend.read(thread.id, 1, 999))


# --- there and back ---


def test_an_import_has_the_same_bytes(any_store: Store) -> None:
    source = memory()
    thread = talk(source)
    done = import_native(any_store, lines_of(thread))
    assert (done.thread, done.events, done.stored) == (thread.id, thread.position, thread.position)
    assert rows_of(any_store, thread) == rows_of(source, thread)
    assert lines_of(any_store.thread(thread.id)) == lines_of(thread)
    for name in ("title", "cwd", "agent", "source_id", "kind", "turns", "preview", "created_at"):
        assert getattr(any_store.row(thread.id), name) == getattr(source.row(thread.id), name)
    assert any_store.latest().id == thread.id


def test_an_import_goes_on_like_the_original(any_store: Store) -> None:
    thread = talk(memory())
    import_native(any_store, lines_of(thread))
    copy = any_store.thread(thread.id)
    assert copy.user([Text("look \u2028 \x7f \x1b \U0001f600"), *copy.event(2).body.content[1:]], key="k1").replayed
    copy.text("and on")
    assert copy.position == thread.position + 1


def test_a_fork_comes_with_what_it_shares(any_store: Store) -> None:
    source = memory()
    origin = talk(source)
    fork = origin.fork(at=5, title="other")
    fork.text("on its own")
    deeper = fork.fork(at=3)
    deeper.text("deeper")
    origin.text("later")
    for thread in (deeper, fork):
        import_native(any_store, lines_of(thread))
        copy = any_store.thread(thread.id)
        assert [event.hash for event in copy.events()] == [event.hash for event in thread.events()]
        assert lines_of(copy) == lines_of(thread)
    assert any_store.thread(origin.id).position == 5
    assert import_native(any_store, lines_of(origin)).stored == origin.position - 5
    assert any_store.row(fork.id).origin == origin.id
    assert any_store.row(fork.id).title == "other"


def test_a_longer_file_goes_on_and_a_shorter_one_does_nothing(any_store: Store) -> None:
    thread = talk(memory())
    short = lines_of(thread)
    thread.user("more")
    thread.text("and more")
    assert import_native(any_store, short).stored == thread.position - 2
    assert import_native(any_store, lines_of(thread)).stored == 2
    assert import_native(any_store, short).stored == 0
    assert import_native(any_store, lines_of(thread)).stored == 0


def test_another_history_is_refused_by_its_first_position(any_store: Store) -> None:
    source = memory()
    thread = talk(source)
    import_native(any_store, lines_of(thread))
    thread.text("here")
    any_store.thread(thread.id).text("there")
    with pytest.raises(errors.Diverged, match=f"position {thread.position} "):
        import_native(any_store, lines_of(thread))
    assert any_store.thread(thread.id).position == thread.position


def test_events_of_a_newer_program_survive_to_the_byte(any_store: Store) -> None:
    source = memory()
    thread = talk(source)
    log = source.log(thread.id)
    newer = [
        ("goal.set", 1, b'{"goal": "ship" , "weight":1.50,"x":{"y":[]}}', True),
        ("input.added", 99, b'{"said":"otherwise"}', True),
        ("goal.met", 3, b'{"at":2}', False),
        ("segment.added", 1, b'{"kind":"text","text":"hi","mood":"fine"}', True),
    ]
    for type_, version, body, is_node in newer:
        position = log.position + 1
        record = records.seal(
            *(thread.id, position, log.hash, log.head if is_node else None, position if is_node else log.head),
            Encoded(type_, version, body, None),
            *(Draft(body=None, source=Source("host")), (), 7, b"s" * 16),  # type: ignore[arg-type] # sealed as it is
        )
        source.backend.append(thread.id, [record], None)
        log.refresh()
    assert faults(source) == []
    import_native(any_store, lines_of(thread))
    assert rows_of(any_store, thread) == rows_of(source, thread)
    assert [event.position for event in any_store.thread(thread.id).path()][-3:] == [9, 10, 12]


def test_a_file_is_read_by_lines_without_its_newlines(any_store: Store) -> None:
    thread = talk(memory())
    import_native(any_store, (line.rstrip(b"\n") for line in lines_of(thread)))
    assert any_store.thread(thread.id).tip == thread.tip


def test_an_open_file_is_read(any_store: Store) -> None:
    thread = talk(memory())
    import_native(any_store, io.BytesIO(b"".join(lines_of(thread))))
    assert any_store.thread(thread.id).tip == thread.tip


def test_many_events_go_in_batches(any_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convlog.eventstore.native_import.BATCH_EVENTS", 7)
    source = memory()
    thread = source.create_thread()
    for number in range(20):
        thread.user(f"question {number}")
        thread.text("answer")
        thread.end_turn()
    import_native(any_store, lines_of(thread))
    assert any_store.row(thread.id).turns == 20
    assert any_store.row(thread.id).preview == "question 19"


# --- erased content ---


def test_a_redaction_comes_along(any_store: Store) -> None:
    source = memory()
    thread = talk(source)
    redact(source, thread.id, match="look", reason="test")
    redact(source, thread.id, match="again", reason="test")
    redact(source, thread.id, [1], whole=True, reason="test")
    import_native(any_store, lines_of(thread))
    copy = any_store.thread(thread.id)
    assert [event.body for event in copy.events()] == [event.body for event in thread.events()]
    assert lines_of(copy) == lines_of(thread)
    assert any_store.row(thread.id).title is None
    assert any_store.row(thread.id).preview == source.row(thread.id).preview


def test_a_redaction_reaches_what_was_imported_before(any_store: Store) -> None:
    source = memory()
    thread = talk(source)
    picture = thread.event(2).body.content[1].attachment
    import_native(any_store, lines_of(thread))
    redact(source, thread.id, match="talk", reason="test")
    redact(source, thread.id, [2], whole=True, reason="test")
    import_native(any_store, lines_of(thread))
    assert any_store.row(thread.id).title == "[redacted]"
    assert any_store.backend.attachment_size(picture) is None
    assert rows_of(any_store, thread) == rows_of(source, thread)


def test_what_was_erased_here_does_not_come_back(any_store: Store) -> None:
    thread = talk(memory())
    import_native(any_store, lines_of(thread))
    redact(any_store, thread.id, [4], whole=True, reason="test")
    import_native(any_store, lines_of(thread))
    assert any_store.thread(thread.id).event(4).output == b"[redacted]"


def test_an_origin_s_later_redaction_is_known_of_a_fork_alone(any_store: Store) -> None:
    source = memory()
    origin = talk(source)
    fork = origin.fork(at=5)
    redact(source, origin.id, [4], whole=True, reason="test")
    import_native(any_store, lines_of(fork))
    assert {problem.kind for problem in verify_store(any_store)} == {"redacted_elsewhere"}
    assert any_store.thread(fork.id).event(4).redacted_by == 9
    import_native(any_store, lines_of(origin))
    assert any_store.thread(fork.id).event(4).output == b"[redacted]"
    assert {problem.kind for problem in verify_store(any_store)} == {"redacted"}


def test_a_deleted_thread_comes_back_only_when_asked_for(any_store: Store) -> None:
    thread = talk(memory())
    import_native(any_store, lines_of(thread))
    any_store.delete_thread(thread.id)
    with pytest.raises(errors.ThreadDeleted):
        import_native(any_store, lines_of(thread))
    assert import_native(any_store, lines_of(thread), again=True).stored == thread.position


# --- files that are not as they were written ---


def edited(lines: list[bytes], number: int, **fields: Any) -> list[bytes]:
    """Give a file whose line of this number (from 0) says something else."""
    line = {**msgspec.json.decode(lines[number]), **fields}
    return [*lines[:number], msgspec.json.encode(line) + b"\n", *lines[number + 1 :]]


def event_line(lines: list[bytes], position: int) -> int:
    return next(i for i, line in enumerate(lines) if msgspec.json.decode(line).get("position") == position)


DAMAGES: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "no header": lambda lines: lines[1:],
    "empty": lambda lines: [],
    "another format": lambda lines: edited(lines, 0, format="convlog-export/2"),
    "another thread": lambda lines: edited(lines, 0, thread="0" * 32),
    "cut": lambda lines: lines[:-1],
    "cut inside a line": lambda lines: [*lines[:-2], lines[-2][:30]],
    "a line lost": lambda lines: [*lines[:4], *lines[5:]],
    "two lines changed over": lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]],
    "a line twice": lambda lines: [*lines[:4], lines[3], *lines[4:]],
    "something behind the end": lambda lines: [*lines, lines[-1]],
    "another tip": lambda lines: edited(lines, -1, tip="0" * 64),
    "another count": lambda lines: edited(lines, -1, events=3),
    "an attachment gone": lambda lines: [line for line in lines if b'"attachment":' not in line[:15]],
    "an unknown field": lambda lines: edited(lines, event_line(lines, 3), mood="fine"),
    "hex in capitals": lambda lines: edited(
        lines, event_line(lines, 3), salt=msgspec.json.decode(lines[event_line(lines, 3)])["salt"].upper() + ""
    ),
    "a body without salt": lambda lines: edited(lines, event_line(lines, 3), salt=None),
    "an erased body unsaid": lambda lines: edited(lines, event_line(lines, 3), body=None, salt=None),
    "an erased body said by another": lambda lines: edited(
        lines, event_line(lines, 3), body=None, salt=None, redacted_by=5
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_and_nothing_stored(store: Store, damage: str) -> None:
    thread = talk(memory())
    with pytest.raises(errors.ImportFailed):
        import_native(store, DAMAGES[damage](lines_of(thread)))
    assert list(store.threads()) == []
    assert list(store.backend.attachments()) == []


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_is_changed_in_a_file_is_found_or_says_the_same(seed: int) -> None:
    source = Store(MemoryBackend(), clock=lambda: 1, entropy=lambda count: b"e" * count)
    thread = talk(source, key=("test", "x"))
    lines = lines_of(thread)
    rng = random.Random(seed)
    number = rng.randrange(len(lines))
    line = bytearray(lines[number])
    line[rng.randrange(len(line) - 1)] ^= 1 << rng.randrange(8)
    changed = [*lines[:number], bytes(line), *lines[number + 1 :]]
    target = memory()
    try:
        import_native(target, changed)
    except errors.ImportFailed:
        assert list(target.threads()) == []
    else:
        assert msgspec.json.decode(bytes(line)) == msgspec.json.decode(lines[number])


def test_a_chained_file_that_breaks_a_rule_is_refused(store: Store) -> None:
    source = memory()
    thread = talk(source)
    log = source.log(thread.id)
    record = records.seal(
        *(thread.id, log.position + 1, log.hash, 4, 4),
        Encoded("input.added", 1, b'{"content":[]}', None),
        *(Draft(body=None), (), 7, b"s" * 16),  # type: ignore[arg-type] # sealed as it is
    )
    source.backend.append(thread.id, [record], None)
    with pytest.raises(errors.ImportFailed, match="head"):
        import_native(store, lines_of(thread))


def test_a_writer_in_between_makes_a_conflict(open_store: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store()
    source = memory()
    thread = talk(source)
    import_native(store, lines_of(thread))
    thread.text("more")
    append = store.backend.append

    def appending(*arguments: Any) -> None:
        monkeypatch.setattr(store.backend, "append", append)
        open_store().thread(thread.id).text("faster")
        append(*arguments)

    monkeypatch.setattr(store.backend, "append", appending)
    with pytest.raises(errors.Conflict):
        import_native(store, lines_of(thread))
    with pytest.raises(errors.Diverged):
        import_native(store, lines_of(thread))


def test_a_run_cut_short_is_continued(any_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convlog.eventstore.native_import.BATCH_EVENTS", 3)
    thread = talk(memory())
    append, calls = any_store.backend.append, []

    def failing(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise errors.StoreFull("no room")
        append(*arguments)

    monkeypatch.setattr(any_store.backend, "append", failing)
    with pytest.raises(errors.StoreFull):
        import_native(any_store, lines_of(thread))
    assert faults(any_store) == []
    assert import_native(any_store, lines_of(thread)).stored == thread.position - 4
    assert any_store.thread(thread.id).tip == thread.tip


def test_a_first_line_tells_a_native_export() -> None:
    assert is_native(lines_of(talk(memory()))[0])
    assert not is_native(b'{"type":"user"}\n')
    assert not is_native(b"\xff\xfe not JSON")


def test_a_thread_of_an_unknown_kind_of_beginning_is_listed(store: Store) -> None:
    source = memory()
    record = records.seal(
        *("ab" * 16, 1, None, None, 1),
        Encoded("thread.created", 9, b'{"named":"x"}', None),
        *(Draft(body=None), (), 7, b"s" * 16),  # type: ignore[arg-type] # sealed as it is
    )
    source.backend.create(ThreadRow(thread="ab" * 16, created_at=7), [record])
    import_native(store, export_thread(source, "ab" * 16))
    assert store.row("ab" * 16).created_at == 7
