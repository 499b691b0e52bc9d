"""JSON Lines as they really are: read one by one in bounded memory, damage reported by line and survived."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec
from blake3 import blake3

from ..canonical import BODY_BYTES_MAX, parse_json
from ..errors import PayloadRejected
from .report import ImportReport
from .slices import Fields, fields_of, has_doubled_key, is_too_deep

LINE_BYTES_MAX = BODY_BYTES_MAX
LINES_LOOKED_AT = 20
"""How many of a file's first lines tell its form."""

_BEGINNINGS = frozenset({"{", "["})
_AFTER_VALUE = frozenset({"}", "]", ","})

PROGRESS_BYTES = 1024 * 1024
BOM = b"\xef\xbb\xbf"

Progress = Callable[[int], None]
"""Told the bytes read so far, about once a mebibyte."""


class Record(msgspec.Struct, frozen=True):
    """One record of a source, as it stands there."""

    line: int
    data: bytes
    fields: Fields | None
    """The entries of its object; None when it is JSON, but no object."""
    doubled: bool = False
    """The object names a key twice: `fields` has the last."""


class LineReader:
    """The records of a file of JSON values, one a line. `torn` and `stump` are what a cut through a line left."""

    def __init__(self, stream: BinaryIO, report: ImportReport, progress: Progress | None = None) -> None:
        self._stream = stream
        self._report = report
        self._progress = progress
        self._hasher = blake3()
        self._told = 0
        self.stump = b""
        """The first line, when it is no JSON: the end of a line that another file may begin."""
        self.torn = b""
        """The last line, when it is no JSON and has no end."""

    def __iter__(self) -> Iterator[Record]:
        number = 0
        while raw := self._stream.readline(LINE_BYTES_MAX + 1):
            number += 1
            self._take(raw)
            if len(raw) > LINE_BYTES_MAX:
                self._skip(number, len(raw), ended=raw.endswith(b"\n"))
                continue
            data = raw.removeprefix(BOM).strip() if number == 1 else raw.strip()
            if not data:
                continue
            whole = _utf8(data)
            if is_too_deep(whole):
                self._report.records += 1
                self._report.lose(number, "too_deep", "nested deeper than JSON is read here")
                continue
            try:
                record = read_record(number, whole)
            except PayloadRejected:
                yield from self._pieces(number, raw, whole.decode())
                continue
            yield self._look_at(record, repaired=whole is not data)
        self._report.digest = self._hasher.hexdigest()

    def _look_at(self, record: Record, *, repaired: bool) -> Record:
        report = self._report
        report.records += 1
        if repaired:
            report.warn(record.line, "invalid_utf8", "bytes that are no UTF-8 became U+FFFD")
            report.repaired += 1
        if record.doubled:
            report.warn(record.line, "doubled_key", "an object names a key twice; the last one counts")
        return record

    def _take(self, raw: bytes) -> None:
        report = self._report
        self._hasher.update(raw)
        report.size += len(raw)
        if self._progress is not None and report.size - self._told >= PROGRESS_BYTES:
            self._told = report.size
            self._progress(report.size)

    def _skip(self, number: int, size: int, *, ended: bool) -> None:
        """Read past the rest of a line that is too long to hold."""
        while not ended and (raw := self._stream.readline(PROGRESS_BYTES)):
            self._take(raw)
            size += len(raw)
            ended = raw.endswith(b"\n")
        self._report.records += 1
        self._report.lose(number, "line_too_long", f"{size:,} bytes; the limit is {LINE_BYTES_MAX:,}")

    def _pieces(self, number: int, raw: bytes, text: str) -> Iterator[Record]:
        """Read a line that is not one JSON value: several welded together, or none."""
        report = self._report
        values, end = _values(text)
        if number == 1 and text[end : end + 1] in _AFTER_VALUE:
            values, end = [], 0  # what looks like a record is the inside of one whose beginning is missing
        if values:
            report.warn(number, "welded_record", f"{len(values)} JSON values on one line")
            report.repaired += len(values)
        for value in values:
            try:
                yield self._look_at(read_record(number, value.encode()), repaired=False)
            except PayloadRejected as error:
                report.records += 1
                report.lose(number, "bad_line", error.message)
        if end == len(text):
            return
        report.records += 1
        is_torn = not raw.endswith(b"\n")
        report.lose(number, "torn_tail" if is_torn else "bad_line", _excerpt(text[end:]))
        if is_torn:
            self.torn = text[end:].encode() if values else raw
        elif number == 1 and not values:
            self.stump = raw


def read_record(number: int, data: bytes) -> Record:
    """Read one JSON value.

    Raises:
        PayloadRejected: it is none.
    """
    fields = fields_of(data)
    if fields is None:
        parse_json(data)  # what is no object must still be JSON
        return Record(number, data, None)
    return Record(number, data, fields, has_doubled_key(data, fields))


def first_objects(head: bytes) -> Iterator[Fields]:
    """Give the entries of the objects among a file's first lines; what is none is passed over."""
    for line in head.splitlines()[:LINES_LOOKED_AT]:
        try:
            fields = fields_of(line.strip())
        except (PayloadRejected, UnicodeDecodeError):
            continue
        if fields:
            yield fields


def _utf8(data: bytes) -> bytes:
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode(errors="replace").encode()
    return data


def _values(text: str) -> tuple[list[str], int]:
    """Give the JSON objects and arrays that a line begins with, and where they end."""
    decoder = json.JSONDecoder(parse_constant=_refuse)
    found: list[str] = []
    start = 0
    while text[start : start + 1] in _BEGINNINGS:
        try:
            _, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            break
        found.append(text[start:end])
        start = end
        while start < len(text) and text[start].isspace():
            start += 1
    return found, start


def _refuse(word: str) -> None:
    msg = f"{word} is no JSON"
    raise ValueError(msg)


def _excerpt(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def rejoined(torn: bytes, stump: bytes) -> Record | None:
    """Give the record that a cut through a line parted, when the two parts do make one."""
    data = (torn + stump).strip()
    if not torn or not stump or len(data) > LINE_BYTES_MAX or is_too_deep(data):
        return None
    try:
        data.decode()
        return read_record(1, data)
    except (UnicodeDecodeError, PayloadRejected):
        return None
