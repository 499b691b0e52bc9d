"""What holds for every importer: damage costs a record, importing again costs nothing, the store stays whole."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convlog.eventstore import errors
from convlog.eventstore.canonical import DEPTH_MAX
from convlog.eventstore.events import InputAdded, Text
from convlog.eventstore.importers import IMPORTERS, ImportReport, detect_format, import_file, import_path, lines, writer
from convlog.eventstore.importers import known as keys
from convlog.eventstore.importers.known import Identity, Known, compose_key, key_part, parse_key
from convlog.eventstore.importers.lines import LineReader, Record, rejoined
from convlog.eventstore.importers.slices import fields_of, has_doubled_key, is_too_deep, spelled
from convlog.eventstore.records import check_key
from convlog.eventstore.store import Store
from tests.conftest import Stores
from tests.eventstore.importers.imported import counts, nodes, texts
from tests.eventstore.importers.sessions import Session, call, text


def read(data: bytes) -> tuple[list[Record], ImportReport]:
    report = ImportReport(format="test")
    return list(LineReader(io.BytesIO(data), report)), report


def findings(report: ImportReport) -> list[tuple[int, str]]:
    return [(finding.line, finding.code) for finding in report.warnings]


def talk(count: int = 3, session: str = "s-1") -> Session:
    made = Session(session)
    for number in range(count):
        made.user(f"u{number}", f"input {number}")
        made.assistant(f"a{number}", text(f"answer {number}"), message=f"m-{number}", stop="end_turn")
    return made


# --- lines ---


def test_damage_costs_the_line_and_is_reported_with_its_number() -> None:
    records, report = read(b'{"a":1}\n{"b":\n\n  \n{"c":3}\n{"d"')
    assert [record.data for record in records] == [b'{"a":1}', b'{"c":3}']
    assert findings(report) == [(2, "bad_line"), (6, "torn_tail")]
    assert (report.records, report.lost) == (4, 2)


def test_a_last_line_without_an_end_is_read_when_it_is_whole() -> None:
    records, report = read(b'{"a":1}\n{"b":2}')
    assert (len(records), report.warnings) == (2, [])


def test_records_welded_on_one_line_are_both_read() -> None:
    records, report = read(b'{"a":1}\n{"b":"}{"} {"c":3}\n{"d":4}{"e"')
    assert [spelled(next(iter(record.fields.values()))) for record in records if record.fields] == [
        *("1", '"}{"', "3", "4")
    ]
    assert findings(report) == [(2, "welded_record"), (3, "welded_record"), (3, "torn_tail")]
    assert (report.repaired, report.lost, report.records) == (3, 1, 5)


def test_what_is_json_but_no_object_is_a_record() -> None:
    records, report = read(b'"x"\n42\n[1]\nnull\n"\\ud800"\n')
    assert [record.fields for record in records] == [None] * 5
    assert report.lost == 0


@pytest.mark.parametrize("word", [b'{"a":NaN}', b"-Infinity", b"1e", b"{'a':1}", b"\x00\x00"])
def test_what_is_no_json_is_lost(word: bytes) -> None:
    records, report = read(word + b"\n")
    assert (records, findings(report)) == ([], [(1, "bad_line")])


def test_nesting_is_bounded_before_anything_is_parsed() -> None:
    bomb = b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    records, report = read(bomb + b'\n{"a":1}\n')
    assert (len(records), findings(report)) == (1, [(1, "too_deep")])
    brackets_in_text = b'{"a":"' + b'[{\\"' * 10_000 + b'"}'
    assert not is_too_deep(brackets_in_text)
    assert not is_too_deep(b"[" * DEPTH_MAX + b"]" * DEPTH_MAX)
    assert is_too_deep(b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1))


def test_bytes_that_are_no_utf_8_are_repaired_and_reported() -> None:
    records, report = read(b'\xef\xbb\xbf{"a":"\xff"}\n')
    assert records[0].data == '{"a":"\ufffd"}'.encode()
    assert (findings(report), report.repaired, report.lost) == ([(1, "invalid_utf8")], 1, 0)


def test_a_line_that_is_too_long_is_lost_without_being_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", 1000)
    monkeypatch.setattr(lines, "PROGRESS_BYTES", 100)
    told: list[int] = []
    long = b'{"a":"' + b"x" * 5000 + b'"}'
    report = ImportReport(format="test")
    reader = LineReader(io.BytesIO(long + b'\n{"b":2}\n' + long), report, told.append)
    assert [record.line for record in reader] == [2]
    assert findings(report) == [(1, "line_too_long"), (3, "line_too_long")]
    assert report.size == 2 * len(long) + 9
    assert told == sorted(told)
    assert len(told) > 50


def test_a_number_of_thousands_of_digits_is_only_a_value() -> None:
    data = b'{"n":' + b"9" * 100_000 + b', "m":1 }'
    assert not has_doubled_key(data, fields_of(data) or {})


@pytest.mark.parametrize(
    ("data", "doubled"),
    [
        (b'{"a":1,"b":{"x":1,"x":2}}', False),
        (b'{"a": 1, "b": 2}', False),
        (b'{ "a" :1 ,"b":2}', False),
        (b'{"a":1,"b":2,"a":3}', True),
        (b'{"a": 1, "a": 2}', True),
        (b'{"type":"user","uuid":"u1","cwd":"/a","cwd":"/b","parent":null}', True),
        (b'{"\\u0061":1,"a":2}', True),
        ('{"ä":1,"b":2}'.encode(), False),
        (b"{}", False),
    ],
)
def test_a_doubled_key_is_seen(data: bytes, doubled: bool) -> None:
    assert has_doubled_key(data, fields_of(data) or {}) is doubled


@given(st.dictionaries(st.text(max_size=4), st.text(st.characters(), max_size=6), max_size=4))
def test_slices_are_the_values_as_they_are_spelled(values: dict[str, str]) -> None:
    import json

    data = json.dumps(values, ensure_ascii=True).encode()
    fields = fields_of(data)
    assert fields is not None
    assert list(fields) == list(values) or any(not name.isascii() for name in values)
    assert [json.loads(spelled(value)) for value in fields.values()] == list(values.values())


@given(st.binary(max_size=60), st.integers(0, 60))
def test_a_record_that_was_parted_is_the_record_it_was(noise: bytes, cut: int) -> None:
    whole = b'{"type":"x","text":"Gr\xc3\xb6\xc3\x9fe \\u00e4","more":[1,2]}'
    record = rejoined(whole[:cut], whole[cut:])
    assert record is None if cut in {0} or cut >= len(whole) else record is not None and record.data == whole
    found = rejoined(whole[:cut], noise)
    assert found is None or found.data == (whole[:cut] + noise).strip()


# --- keys ---


@given(st.text(max_size=150), st.binary(max_size=20), st.sampled_from(["", "1", "finished"]))
def test_a_records_id_and_digest_are_read_back_from_its_key(id_: str, data: bytes, suffix: str) -> None:
    identity = Identity(id_, data)
    key = compose_key(identity.named(suffix))
    assert check_key(key) == key
    assert parse_key(key) == (identity.id, identity.digest, suffix)
    assert identity.id == key_part(id_)


def test_known_records_are_told_by_id_and_content() -> None:
    known = Known()
    first, other = Identity("u1", b"one"), Identity("u1", b"two")
    known.add(first.id, first.digest, 5, met=False)
    assert (known.meet(first), known.meet(first), known.meet(other)) == (False, True, None)
    known.add(other.id, other.digest, 9, met=True)
    assert (known.meet(other), known.place("u1"), known.place("u2")) == (True, 9, None)


def test_known_records_are_found_however_many_came_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "RECENT_MAX", 10)
    known = Known()
    identities = [Identity(f"u{number}", b"x") for number in range(95)]
    for place, identity in enumerate(identities, 1):
        known.add(identity.id, identity.digest, place, met=place % 2 == 0)
    assert [known.place(identity.id) for identity in identities] == list(range(1, 96))
    assert [known.meet(identity) for identity in identities] == [place % 2 == 0 for place in range(1, 96)]
    assert (known.place("u95"), known.meet(Identity("u95", b"x"))) == (None, None)


# --- the store ---


def test_importing_again_appends_nothing_and_a_grown_file_adds_what_is_new(store: Store) -> None:
    session = talk()
    first = import_file(store, session.data)
    thread = store.thread("s-1")
    tip, position = thread.tip, thread.position
    again = import_file(store, session.data)
    assert (again.appended, thread.tip) == (0, tip)
    assert first.counts() == again.counts()
    session.user("u9", "more")
    grown = import_file(store, session.data)
    assert [event.type for event in thread.events(position + 1)] == ["input.added", "import.reported"]
    assert (grown.appended, grown.user_messages) == (2, 4)


def test_an_import_ends_with_its_report(store: Store) -> None:
    report = import_file(store, talk().data + b"{broken\n")
    event = store.thread("s-1").event(store.thread("s-1").position)
    assert event.type == "import.reported"
    assert (event.body.format, event.body.digest) == ("claude-code", report.digest)
    assert event.body.counts == report.counts()
    assert event.body.counts["lost"] == 1
    assert event.body.warnings == ((7, "bad_line", "{broken"),)


def test_many_batches_are_one_thread(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BATCH_EVENTS", 7)
    import_file(store, talk(20).data)
    assert len(nodes(store.thread("s-1"))) == 40


def test_a_dry_run_says_the_same_and_writes_nothing(open_store: Stores) -> None:
    session = talk()
    session.assistant("a9", call("t1", "Task", prompt="look"), message="m-9")
    session.user("s1", "look", parent=None, isSidechain=True)
    session.result("r9", "t1", parent="a9")
    session.add("system", "b1", parent=None, logicalParentUuid="a2", subtype="compact_boundary")
    session.user("u9", "Summary", isCompactSummary=True)
    dry, wet = open_store("dry.db"), open_store("wet.db")
    tried = import_file(dry, session.data, dry_run=True)
    done = import_file(wet, session.data)
    assert list(dry.threads()) == []
    assert (tried.counts(), tried.usage, tried.appended) == (done.counts(), done.usage, done.appended)
    assert (tried.dry_run, done.dry_run) == (True, False)
    import_file(dry, session.data)
    assert import_file(dry, session.data, dry_run=True).appended == 0
    session.add("system", "b2", parent=None, logicalParentUuid="u9", subtype="compact_boundary")
    session.user("v1", "more", parent="u9")
    session.user("v2", "Summary", isCompactSummary=True)
    assert import_file(dry, session.data, dry_run=True).appended == import_file(dry, session.data).appended


def test_strict_writes_nothing_when_something_would_be_lost(store: Store) -> None:
    report = import_file(store, talk().data + b"{broken\n", strict=True)
    assert (report.refused, report.lost, list(store.threads())) == (True, 1, [])
    assert import_file(store, talk().data, strict=True).refused is False
    assert len(list(store.threads())) == 1


def test_a_deleted_source_stays_deleted_unless_asked_for(store: Store) -> None:
    import_file(store, talk().data)
    store.delete_thread(store.thread("s-1").id)
    with pytest.raises(errors.ThreadDeleted, match="s-1"):
        import_file(store, talk().data)
    assert list(store.threads()) == []
    assert import_file(store, talk().data, again=True).appended > 0


def test_another_import_of_the_same_file_at_the_same_time_doubles_nothing(open_store: Stores) -> None:
    session = talk(30)
    ours, theirs = open_store(), open_store()
    met = False

    def meanwhile(_read: int, _size: int) -> None:
        nonlocal met
        if not met:
            met = True
            import_file(theirs, session.data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "PROGRESS_BYTES", 2000)
        patch.setattr(writer, "BATCH_EVENTS", 7)
        report = import_file(ours, session.data, progress=meanwhile)
    assert met
    assert report.user_messages == 30
    assert len(nodes(ours.thread("s-1"))) == 60
    assert import_file(theirs, session.data).appended == 0


def test_what_was_appended_by_hand_stays_and_the_file_goes_on_below_its_own(store: Store) -> None:
    session = talk(1)
    import_file(store, session.data)
    thread = store.thread("s-1")
    thread.append(InputAdded(content=(Text("by hand"),)))
    assert import_file(store, session.data).appended == 0
    assert texts(thread)[-1] == "user by hand"
    session.user("u9", "more")
    import_file(store, session.data)
    assert texts(thread) == ["user input 0", "text answer 0", "user more"]
    assert len(thread.tree.leaves()) == 2


def test_a_record_too_large_for_an_event_is_lost_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from convlog.eventstore import records

    monkeypatch.setattr(records, "BODY_BYTES_MAX", 3000)
    monkeypatch.setattr(writer, "LARGE_BYTES", 1000)
    session = talk(1)
    session.user("big", "x" * 5000)
    session.user("u9", "more")
    report = import_file(store, session.data)
    assert findings(report)[0] == (3, "too_large")
    assert (report.lost, report.mapped) == (1, 3)
    assert texts(store.thread("s-1"))[-1] == "user more"


def test_a_crash_between_batches_is_made_good_by_importing_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session = talk(4)
    session.assistant("a9", text("open"), message="m-9")
    monkeypatch.setattr(writer, "BATCH_EVENTS", 5)
    flush, left = writer.ThreadWriter.flush, 2

    def failing(self: writer.ThreadWriter) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise errors.StoreFull("no room")
        flush(self)

    monkeypatch.setattr(writer.ThreadWriter, "flush", failing)
    with pytest.raises(errors.StoreFull):
        import_file(store, session.data)
    monkeypatch.setattr(writer.ThreadWriter, "flush", flush)
    import_file(store, session.data)
    thread = store.thread("s-1")
    assert counts(thread)["call.finished"] == 5
    assert counts(thread)["turn.ended"] == 4
    assert import_file(store, session.data).appended == 0


def test_a_crash_before_the_report_leaves_the_last_call_to_the_next_import(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = talk(1)

    def stop(*_: object) -> None:
        raise errors.StoreFull("no room")

    with monkeypatch.context() as patch:
        patch.setattr(writer, "BATCH_EVENTS", 1)
        patch.setattr(writer.ThreadWriter, "close", stop)
        with pytest.raises(errors.StoreFull):
            import_file(store, session.data)
    assert "call.finished" not in counts(store.thread("s-1"))
    import_file(store, session.data)
    assert counts(store.thread("s-1"))["call.finished"] == 1


# --- files ---


def test_what_no_importer_knows_is_refused_with_the_forms_that_are(store: Store, tmp_path: Path) -> None:
    with pytest.raises(errors.ImportFailed, match=r"known are: claude-code, .*steps"):
        import_file(store, b"hello\n")
    with pytest.raises(errors.ImportFailed, match="is empty"):
        import_file(store, b"\n")
    with pytest.raises(errors.ImportFailed, match="ZIP archive"):
        import_file(store, b"PK\x03\x04rest")
    with pytest.raises(errors.ImportFailed, match="no importer is called 'x'"):
        import_file(store, b"{}", format="x")
    with pytest.raises(errors.ImportFailed, match="is a folder"):
        import_file(store, tmp_path)
    with pytest.raises(errors.ImportFailed, match="No such file"):
        import_path(store, tmp_path / "none")
    assert detect_format(b"hello") is None
    assert len({importer.name for importer in IMPORTERS}) == len(IMPORTERS)


def test_a_folder_comes_in_by_the_users_last_words(store: Store, tmp_path: Path) -> None:
    tmp_path = tmp_path / "projects"
    tmp_path.mkdir()
    for name, time in (("b", "2026-01-02T10:00:00.000Z"), ("a", "2026-01-02T11:00:00.000Z")):
        session = Session(f"s-{name}")
        session.user("u1", "hi")
        session.lines[0] = session.lines[0].replace("2026-01-02T10:00:00.000Z", time)
        (tmp_path / f"{name}.jsonl").write_bytes(session.data)
    agent = Session("s-a")
    agent.user("x1", "look", isSidechain=True, agentId="7")
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "agent-7.jsonl").write_bytes(agent.data)
    (tmp_path / "readme.txt").write_text("nothing")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = import_path(store, tmp_path)
    names = [row.path.removeprefix(f"{tmp_path}/") for row in found]
    assert names == ["b.jsonl", "a.jsonl", "agents/agent-7.jsonl", "readme.txt"]
    assert [row.format for row in found] == ["claude-code"] * 3 + [None]
    assert store.row(store.latest().id).source_id == "s-a"


def test_a_file_that_fails_does_not_stop_the_others(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / f"{name}.jsonl").write_bytes(talk(1, name).data)
    import_file(store, talk(1, "one").data)
    store.delete_thread(store.thread("one").id)
    one, two = import_path(store, folder)
    assert (one.error.code if one.error else None, one.report) == ("thread_deleted", None)
    assert two.report is not None
    assert two.report.user_messages == 1


def test_the_source_is_only_read(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(talk(1).data + b"{torn")
    path.chmod(0o400)
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    import_file(store, path)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
