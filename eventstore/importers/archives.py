"""Exports that come as a ZIP: the conversation lists in it, read as one stream, never unpacked to disk.

An archive is a stranger's: what it says of itself is checked before anything is read, and what is read is counted.
"""

from __future__ import annotations

import io
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from typing import IO, BinaryIO

from ..errors import ImportFailed

MAGIC = b"PK\x03\x04"

ENTRIES_MAX = 10_000
TOTAL_BYTES_MAX = 4 * 1024**3
"""Bytes that the lists may have in all, unpacked."""

RATIO_MAX = 100
"""How many times its packed size a list may have: JSON packs five to twentyfold, a bomb a thousandfold."""

DIRECTORY_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of the archive that are held at once; its directory of contents is read in one go."""

CHUNK_BYTES = 256 * 1024

_LIST = re.compile(r"(?:[^/]+/)*conversations(?:-\d+)?\.json")
_IGNORED = "__MACOSX/"
_DRIVE = re.compile(r"[A-Za-z]:")
_FAULTS = (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError, ValueError, UnicodeError)
"""What the standard library raises over archives that are damaged, encrypted, or packed in an unknown way."""


def unpacked(
    opened: Callable[[], BinaryIO], size: int, what: str = "this content"
) -> tuple[Callable[[], BinaryIO], int]:
    """Give what opens a source, and its size; for a ZIP, what opens the conversation lists in it.

    Raises:
        ImportFailed: a ZIP that holds no such list, that is damaged, or that is a danger.
    """
    with opened() as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            return opened, size
        total = sum(info.file_size for info in _lists(_open(stream, what), what))
    return (lambda: io.BufferedReader(_Lists(opened(), what), CHUNK_BYTES)), total


def _open(stream: BinaryIO, what: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(_Bounded(stream))
    except _FAULTS as error:
        raise ImportFailed(f"{what}: not a ZIP archive that can be read: {error}") from None


def _lists(archive: zipfile.ZipFile, what: str) -> list[zipfile.ZipInfo]:
    """Give the archive's conversation lists in the order of their names, after a look at everything that it names.

    Raises:
        ImportFailed: there is none, or the archive is a danger.
    """
    entries = archive.infolist()
    if len(entries) > ENTRIES_MAX:
        raise _refused(what, f"{len(entries):,} entries; the limit is {ENTRIES_MAX:,}")
    for info in entries:
        if fault := _trick(info):
            raise _refused(what, f"the entry {info.orig_filename[:80]!r} {fault}")
    found = sorted((info for info in entries if _is_list(info)), key=lambda info: info.filename)
    if not found:
        raise ImportFailed(
            f"{what} is a ZIP archive without conversations.json", hint="unpack it and import what is inside"
        )
    total = sum(info.file_size for info in found)
    if total > TOTAL_BYTES_MAX:
        raise _refused(what, f"{total:,} bytes unpacked; the limit is {TOTAL_BYTES_MAX:,}")
    for info in found:
        if info.file_size > RATIO_MAX * max(info.compress_size, 1):
            raise _refused(what, f"{info.filename} unpacks to over {RATIO_MAX} times its size")
    return found


def _is_list(info: zipfile.ZipInfo) -> bool:
    return _LIST.fullmatch(info.filename) is not None and not info.filename.startswith(_IGNORED)


def _trick(info: zipfile.ZipInfo) -> str | None:
    """Say what is wrong with an entry that wants to lie elsewhere, or to be something else than a file."""
    name = info.orig_filename
    if "\0" in name or "\\" in name or name.startswith("/") or _DRIVE.match(name) or ".." in name.split("/"):
        return "points out of the archive"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "is a link"
    return "is encrypted" if info.flag_bits & 1 and _is_list(info) else None


def _refused(what: str, why: str) -> ImportFailed:
    return ImportFailed(f"{what} is refused: {why}", hint="unpack what you trust and import that")


class _Bounded(io.RawIOBase):
    """A file of which no more is read at once than an honest archive needs."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(DIRECTORY_BYTES_MAX + 1 if size < 0 else min(size, DIRECTORY_BYTES_MAX + 1))
        if len(data) > DIRECTORY_BYTES_MAX:
            msg = f"a directory of contents over {DIRECTORY_BYTES_MAX:,} bytes"
            raise ValueError(msg)
        return data

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()


class _Lists(io.RawIOBase):
    """The conversation lists of an archive, one behind the other, with all bytes counted."""

    def __init__(self, stream: BinaryIO, what: str) -> None:
        self._stream = stream
        self._what = what
        self._chunks = self._read_all()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # the two that a reader gives
        chunk = next(self._chunks, b"")
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _read_all(self) -> Iterator[bytes]:
        archive = _open(self._stream, self._what)
        for info in _lists(archive, self._what):
            try:
                with archive.open(info) as member:
                    yield from self._read(member, info)
            except _FAULTS as error:
                raise ImportFailed(f"{self._what}: {info.filename} cannot be read: {error}") from None
            yield b"\n"

    def _read(self, member: IO[bytes], info: zipfile.ZipInfo) -> Iterator[bytes]:
        left = info.file_size
        while chunk := member.read(CHUNK_BYTES):
            left -= len(chunk)
            if left < 0:
                raise _refused(self._what, f"{info.filename} is longer than the archive says")
            yield chunk
