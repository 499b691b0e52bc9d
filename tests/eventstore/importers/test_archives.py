"""ZIP archives of exports: what is in them is read, what is a danger is refused, and nothing lands on the disk."""

from __future__ import annotations

import io
import json
import stat
import struct
import zipfile
from pathlib import Path

import pytest

from convlog.eventstore.errors import ImportFailed
from convlog.eventstore.importers import archives, import_file, import_path
from convlog.eventstore.store import Store
from tests.eventstore.importers.conversations import as_json, chatgpt_talk, claude_conversation, claude_message

TALK = as_json(chatgpt_talk())


def archive_of(*entries: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, data in entries:
            archive.writestr(name, data, compress_type=method)
    return target.getvalue()


def test_all_lists_are_read_in_the_order_of_their_names(store: Store) -> None:
    data = archive_of(
        ("export/conversations-001.json", as_json(chatgpt_talk("c-2"))),
        ("export/conversations-000.json", as_json(chatgpt_talk("c-1"))),
        ("__MACOSX/export/conversations-000.json", b"\0\5\x16"),
        ("export/shared_conversations.json", b"[]"),
        ("export/file-1.png", b"\x89PNG"),
    )
    report = import_file(store, data)
    assert [store.row(thread).source_id for thread in report.thread_ids] == ["c-1", "c-2"]
    assert (report.lost, report.warnings) == (0, [])


def test_a_zip_in_a_folder_is_found_and_left_as_it_is(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "downloads"
    folder.mkdir()
    path = folder / "data.zip"
    path.write_bytes(
        archive_of(("conversations.json", as_json(claude_conversation(claude_message("m", "human", "a")))))
    )
    (found,) = import_path(store, folder)
    assert (found.format, found.error) == ("claude-ai", None)
    assert [entry.name for entry in folder.iterdir()] == ["data.zip"]


@pytest.mark.parametrize(
    "name",
    ["../conversations.json", "a/../../b.txt", "/etc/x", "C:\\x", "a\\..\\b", "c:/x", ".."],
)
def test_an_entry_that_points_out_of_the_archive_is_refused(store: Store, name: str) -> None:
    info = zipfile.ZipInfo("x")
    info.filename = name
    with pytest.raises(ImportFailed, match="points out of the archive"):
        import_file(store, archive_of(("conversations.json", TALK), (info, b"x")))
    assert list(store.threads()) == []


def test_a_link_is_refused(store: Store) -> None:
    info = zipfile.ZipInfo("conversations.json")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(ImportFailed, match="is a link"):
        import_file(store, archive_of((info, b"/etc/passwd")))


def test_a_bomb_is_refused_by_its_ratio(store: Store) -> None:
    with pytest.raises(ImportFailed, match="100 times"):
        import_file(store, archive_of(("conversations.json", b"[" + b" " * 1_000_000 + b"]")))


def test_a_list_that_is_longer_than_the_archive_says_is_refused(store: Store) -> None:
    data = bytearray(archive_of(("conversations.json", TALK)))
    for at, offset in ((data.index(b"PK\x03\x04"), 22), (data.index(b"PK\x01\x02"), 24)):
        struct.pack_into("<I", data, at + offset, 100)
    with pytest.raises(ImportFailed, match=r"conversations\.json"):
        import_file(store, bytes(data))


def test_a_total_over_the_limit_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "TOTAL_BYTES_MAX", len(TALK))
    import_file(store, archive_of(("conversations.json", TALK)))
    with pytest.raises(ImportFailed, match="the limit is"):
        import_file(store, archive_of(("conversations-0.json", TALK), ("conversations-1.json", TALK)))


def test_too_many_entries_are_refused(store: Store) -> None:
    entries = [(f"{number}", b"") for number in range(archives.ENTRIES_MAX)]
    with pytest.raises(ImportFailed, match=r"10,001 entries"):
        import_file(store, archive_of(("conversations.json", TALK), *entries, method=zipfile.ZIP_STORED))


def test_a_directory_of_contents_that_is_too_long_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "DIRECTORY_BYTES_MAX", 1000)
    entries = [(f"{number:050}", b"") for number in range(20)]
    with pytest.raises(ImportFailed, match="directory of contents"):
        import_file(store, archive_of(("conversations.json", b"[]"), *entries))


def test_an_encrypted_list_is_refused(store: Store) -> None:
    data = bytearray(archive_of(("conversations.json", TALK)))
    for at, offset in ((data.index(b"PK\x03\x04"), 6), (data.index(b"PK\x01\x02"), 8)):
        struct.pack_into("<H", data, at + offset, 1)
    with pytest.raises(ImportFailed, match="is encrypted"):
        import_file(store, bytes(data))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_all_ways_of_packing_are_read(store: Store, method: int) -> None:
    assert import_file(store, archive_of(("conversations.json", TALK), method=method)).threads == 1


@pytest.mark.parametrize("cut", [10, 200, -30])
def test_a_damaged_archive_says_so(store: Store, cut: int) -> None:
    with pytest.raises(ImportFailed, match="ZIP"):
        import_file(store, archive_of(("conversations.json", TALK))[:cut])


def test_damaged_bytes_inside_are_found_by_their_checksum(store: Store) -> None:
    data = archive_of(("conversations.json", TALK), method=zipfile.ZIP_STORED)
    damaged = data.replace(b"What is new", b"What is old", 1)
    with pytest.raises(ImportFailed, match="cannot be read"):
        import_file(store, damaged)


def test_an_archive_without_a_list_says_so(store: Store) -> None:
    with pytest.raises(ImportFailed, match=r"ZIP archive without conversations\.json"):
        import_file(store, archive_of(("notes.json", json.dumps([]).encode())))
