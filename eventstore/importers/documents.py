"""A JSON document taken apart at its top, in bounded memory: what its object says, and the items of its one long array.

Only the array's items and the entries around it are ever held, never the document. A document that breaks off gives
what came before the break.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from blake3 import blake3

from ..canonical import BODY_BYTES_MAX
from ..errors import PayloadRejected
from .lines import BOM, Progress, Record, read_record
from .report import ImportReport
from .slices import Entries, is_too_deep, object_text, text_of

CHUNK_BYTES = 256 * 1024
VALUE_BYTES_MAX = BODY_BYTES_MAX
WHOLE = 0
"""The number of a record that says something of the document itself; its items are numbered from 1."""

_SPACE = re.compile(rb"[ \t\r\n]*+")
_SCALAR = re.compile(rb"[^\s,:\[\]{}\"]*+")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_MARK = re.compile(rb'[\[\]{}"]')
_DEPTH = {b"[": 1, b"{": 1, b"]": -1, b"}": -1, b'"': 0}


class Broken(Exception):
    """The text is no JSON from here on; it says whether it ends, or goes on otherwise."""

    TORN = "torn_tail"
    BAD = "bad_document"


class TooLong(Exception):
    """A value was stepped over, since it is too large to hold."""


class Scanner:
    """Steps through JSON text value by value; what is stepped over is let go of."""

    def __init__(self, stream: BinaryIO, taken: Callable[[bytes], None]) -> None:
        self._stream = stream
        self._taken = taken
        self._buffer = b""
        self._at = 0
        self._is_read = False

    def peek(self) -> bytes:
        """Give the next character that is no space, empty at the end."""
        while True:
            found = _SPACE.match(self._buffer, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._buffer) or not self._more():
                return self._buffer[self._at : self._at + 1]

    def take(self, character: bytes) -> bool:
        """Step over a character, if it is the next."""
        if self.peek() != character:
            return False
        self._at += 1
        return True

    def expect(self, character: bytes) -> None:
        """Step over a character that must come next.

        Raises:
            Broken: another one does.
        """
        if not self.take(character):
            raise Broken(Broken.BAD if self.peek() else Broken.TORN)

    def value(self) -> bytes:
        """Step over a value and give its text, which is balanced, but not otherwise looked at.

        Raises:
            Broken: the text ends inside it, or no value comes next.
            TooLong: it is larger than a value may be.
        """
        first = self.peek()
        if first in {b"{", b"["}:
            return self._nested()
        found = self._matched(_STRING if first == b'"' else _SCALAR)
        if not found:
            raise Broken(Broken.BAD if self.peek() else Broken.TORN)
        return found

    def drain(self) -> None:
        """Read what is left, without looking at it."""
        while self._more():
            self._at = len(self._buffer)

    def _more(self) -> bool:
        chunk = b"" if self._is_read else self._stream.read(CHUNK_BYTES)
        if not chunk:
            self._is_read = True
            return False
        self._taken(chunk)
        self._buffer = self._buffer[self._at :] + chunk
        self._at = 0
        return True

    def _matched(self, pattern: re.Pattern[bytes]) -> bytes:
        while len(self._buffer) - self._at <= VALUE_BYTES_MAX:
            found = pattern.match(self._buffer, self._at)
            # A number may go on behind what is read; a string has its end.
            if found and (pattern is _STRING or found.end() < len(self._buffer) or self._is_read):
                self._at = found.end()
                return found[0]
            if not self._more() and pattern is _STRING:
                raise Broken(Broken.TORN)
        raise Broken(Broken.BAD)

    def _nested(self) -> bytes:
        """Step over an object or an array, by its brackets."""
        depth, in_string, looked, is_too_long = 0, False, 0, False
        while True:
            looked, depth, in_string = self._walk(looked, depth, in_string=in_string)
            if depth == 0:
                found = self._buffer[self._at : self._at + looked]
                self._at += looked
                if is_too_long or len(found) > VALUE_BYTES_MAX:
                    raise TooLong
                return found
            if looked > VALUE_BYTES_MAX:
                self._at, looked, is_too_long = self._at + looked, 0, True
            if not self._more():
                raise Broken(Broken.TORN)

    def _walk(self, looked: int, depth: int, *, in_string: bool) -> tuple[int, int, bool]:
        """Go on through brackets and strings, to the end of the value or of what is read."""
        buffer, at = self._buffer, self._at + looked
        while at < len(buffer):
            if in_string:
                found = _IN_STRING.match(buffer, at)
                at = found.end() if found else at
                if buffer[at : at + 1] != b'"':
                    break  # the end, perhaps in the middle of an escape
                at, in_string = at + 1, False
                continue
            found = _MARK.search(buffer, at)
            if found is None:
                at = len(buffer)
                break
            at, depth, in_string = found.end(), depth + _DEPTH[found[0]], found[0] == b'"'
            if depth == 0:
                break
        return at - self._at, depth, in_string


class ScanningReader:
    """What readers share that step through JSON text: the bytes are counted, and damage costs one value."""

    torn = stump = b""

    def __init__(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> None:
        self._report = report
        self._progress = progress
        self._hasher = blake3()
        self._scanner = Scanner(stream, self._take)

    def _take(self, chunk: bytes) -> None:
        self._hasher.update(chunk)
        self._report.size += len(chunk)
        if self._progress is not None:
            self._progress(self._report.size)

    def _finish(self) -> None:
        """Read what is left, so that the digest is that of the whole."""
        self._scanner.drain()
        self._report.digest = self._hasher.hexdigest()

    def _decoded(self, number: int, data: bytes) -> Record | None:
        """Read one value; None, with the reason reported, for what is no JSON."""
        report = self._report
        whole = data
        try:
            data.decode()
        except UnicodeDecodeError:
            whole = data.decode(errors="replace").encode()
        if is_too_deep(whole):
            report.lose(number, "too_deep", "nested deeper than JSON is read here")
            return None
        try:
            record = read_record(number, whole)
        except PayloadRejected as error:
            report.lose(number, "bad_record", error.message)
            return None
        if whole is not data:
            report.warn(number, "invalid_utf8", "bytes that are no UTF-8 became U+FFFD")
            report.repaired += 1
        if record.doubled:
            report.warn(number, "doubled_key", "an object names a key twice; the last one counts")
        return record


class DocumentReader(ScanningReader):
    """The records of a document: its object without the array, the array's items, and what stood behind the array."""

    def __init__(self, stream: BinaryIO, report: ImportReport, array: str, progress: Progress | None = None) -> None:
        super().__init__(stream, report, progress)
        self._array = array

    def __iter__(self) -> Iterator[Record]:
        try:
            yield from self._document()
        except Broken as broken:
            self._report.records += 1
            self._report.lose(WHOLE, str(broken), "the document breaks off")
        self._finish()

    def _document(self) -> Iterator[Record]:
        scanner = self._scanner
        for byte in BOM:
            scanner.take(bytes([byte]))
        scanner.expect(b"{")
        entries: Entries = []
        goes_on = scanner.peek() != b"}"
        while goes_on:
            name = text_of(scanner.value())
            scanner.expect(b":")
            if name is None:
                raise Broken(Broken.BAD)
            if name == self._array and scanner.peek() == b"[":
                yield from self._said(entries)
                entries = []
                yield from self._items()
            else:
                with self._skipping(WHOLE):
                    entries.append((name, scanner.value()))
            goes_on = scanner.take(b",")
        scanner.expect(b"}")
        yield from self._said(entries)

    def _items(self) -> Iterator[Record]:
        scanner = self._scanner
        scanner.expect(b"[")
        number = 0
        goes_on = scanner.peek() != b"]"
        while goes_on:
            number += 1
            data = None
            with self._skipping(number):
                data = scanner.value()
            if data is not None:
                yield from self._read(number, data)
            goes_on = scanner.take(b",")
        scanner.expect(b"]")

    @contextmanager
    def _skipping(self, number: int) -> Iterator[None]:
        """Report a value that is too large to hold, and go on behind it."""
        try:
            yield
        except TooLong:
            self._report.records += 1
            self._report.lose(number, "record_too_long", f"the limit is {VALUE_BYTES_MAX:,} bytes")

    def _said(self, entries: Entries) -> Iterator[Record]:
        text = object_text(entries)
        if text is not None:
            yield from self._read(WHOLE, text.encode())

    def _read(self, number: int, data: bytes) -> Iterator[Record]:
        self._report.records += 1
        record = self._decoded(number, data)
        if record is not None:
            yield record
