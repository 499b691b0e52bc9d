"""A native export into a store: the same ids, positions, times, salts and hashes, or nothing.

The file is read twice. First everything is checked that `verify` checks, and compared with what the store has: an
equal prefix is continued, an equal whole left alone, anything else refused. Only then is it stored, in batches; a run
that was cut short is continued by the next one.
"""

from __future__ import annotations

import base64
import binascii
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO

import msgspec
from blake3 import blake3

from . import canonical, records
from .backend import Backend, Erasure, KeyTaken, Listing, PositionTaken, Record, ThreadRow, ThreadTaken
from .canonical import BODY_BYTES_MAX
from .checks import NOTES, LogCheck, Surroundings
from .errors import BrokenRecord, Conflict, Diverged, ImportFailed, PayloadRejected, ThreadDeleted
from .events import BODIES, Redacted
from .listed import TYPES, body_of, listed_again, row_of
from .log import END
from .native import FORMAT, LINE_BYTES_MAX, Chunk, End, Header, Line, record_of, used_by
from .placement import listing_of, merge
from .replacements import targets_of
from .store import ATTACHMENT_BYTES_MAX, Store

SPOOL_BYTES = 16 * 1024 * 1024
"""A larger file waits on disk between the two readings."""

BATCH_EVENTS = 500
BATCH_BYTES = 8 * 1024 * 1024
"""How much goes into one transaction."""

INTEGER_MAX = 2**63

Item = Header | Chunk | Line | End


class NativeImport(msgspec.Struct, frozen=True):
    """What an import did."""

    thread: str
    events: int
    """Events in the file."""
    stored: int
    """Of them, those that the store did not have."""


class _Kind(msgspec.Struct):
    format: str | None = None
    attachment: str | None = None
    position: int | None = None


_decode_kind = msgspec.json.Decoder(_Kind).decode
_decoders: dict[type[Item], msgspec.json.Decoder[Item]] = {
    kind: msgspec.json.Decoder(kind) for kind in (Header, Chunk, Line, End)
}


def is_native(line: bytes) -> bool:
    """Whether a file's first line begins a native export, of whatever version."""
    try:
        return (_decode_kind(line).format or "").startswith("convlog-export/")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def import_native(store: Store, lines: Iterable[bytes], *, again: bool = False) -> NativeImport:
    """Store a native export.

    Args:
        store: where to.
        lines: of the file, each with its newline; a file opened to read bytes is one.
        again: take in threads, too, that were deleted here.

    Raises:
        ImportFailed: the file is damaged, cut or no native export; the message names line, thread and position.
        Diverged: the store has other events; the message names the first differing position.
        ThreadDeleted: one of its threads was deleted here on purpose.
        Conflict: another writer changed one of its threads meanwhile; nothing wrong was stored.
    """
    with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as spool, store.mutex:
        for line in _bounded(lines):
            spool.write(line)
        survey = _Survey(store.backend, again=again)
        spool.seek(0)
        survey.read(_items(_bounded(spool)))
        spool.seek(0)
        try:
            stored = _Writer(store, survey).write(item for _, item in _items(_bounded(spool)))
        except (PositionTaken, KeyTaken, ThreadTaken) as error:
            raise Conflict(
                f"another writer changed the thread during the import: {error}", actual=0, hint="import again"
            ) from None
    return NativeImport(survey.header.thread, survey.events, stored)


def _bounded(lines: Iterable[bytes] | IO[bytes]) -> Iterator[bytes]:
    """Iterate over lines, none of them longer than a line can be."""
    read = getattr(lines, "readline", None)
    for number, line in enumerate(iter(lambda: read(LINE_BYTES_MAX + 1), b"") if read else lines, 1):
        if len(line) > LINE_BYTES_MAX:
            raise ImportFailed(f"line {number} is longer than {LINE_BYTES_MAX:,} bytes")
        yield line if line.endswith(b"\n") else line + b"\n"


def _items(lines: Iterable[bytes]) -> Iterator[tuple[int, Item]]:
    for number, line in enumerate(lines, 1):
        try:
            kind = _decode_kind(line)
            type_: type[Item] = End
            if kind.format is not None:
                type_ = Header
            elif kind.attachment is not None:
                type_ = Chunk
            elif kind.position is not None:
                type_ = Line
            yield number, _decoders[type_].decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ImportFailed(f"line {number}: {error}") from None


# --- the first reading ---


class _Own:
    """What the file says of one thread's own rows, held against what the store has."""

    def __init__(self, backend: Backend, thread: str, origin_position: int) -> None:
        self.thread = thread
        self.origin_position = origin_position
        self.known = 0
        """The last position that store and file both have."""
        self.last = 0
        """The last position that the file has."""
        self.row = backend.thread(thread)
        self.used: set[str] = set()
        self.erased: dict[int, int] = {}
        """Positions to the `redacted` event that erased them."""
        self.replacements: dict[int, bytes] = {}
        """Positions to what stands in place of a body, where the list of threads shows something of it."""
        self.secretless: list[int] = []
        """Manifests whose keys the file lacks and the store has."""
        self._listed: set[int] = set()
        self._notes: set[int] = set()
        self._stored = iter(()) if self.row is None else backend.read(thread, origin_position + 1, END, bodies=False)

    def compare(self, record: Record) -> None:
        """Hold a record against the stored one, where there is one."""
        stored = next(self._stored, None)
        if stored is None:
            if self.row is not None and self.known == 0:
                raise Diverged(f"thread {self.thread} goes on from another place in this store")
            return
        if stored.position != record.position or stored.hash != record.hash:
            at = min(stored.position, record.position)
            raise Diverged(
                f"thread {self.thread} has another event at position {at} in this store",
                hint="import into another store",
            )
        self.known = stored.position
        if stored.secret is not None and record.secret is None:
            self.secretless.append(stored.position)

    def note(self, record: Record, redacted_by: int | None) -> None:
        """Take note of what the second reading needs to know before it comes to an event."""
        self.last = record.position
        self.used.update(used_by(record))
        if record.body is None and redacted_by is not None:
            self.erased[record.position] = redacted_by
            if record.type in TYPES:
                self._listed.add(record.position)
            elif record.type == Redacted.TYPE:
                self._notes.add(record.position)
        elif record.type == Redacted.TYPE and record.body is not None:
            self._take_replacements(record.body)

    def _take_replacements(self, body: bytes) -> None:
        for position, target in targets_of(body).items():
            if target.body is None:
                continue
            if position in self._notes:
                self._take_replacements(target.body.encode())
            elif position in self._listed:
                self.replacements[position] = target.body.encode()


class _Survey:
    """The first reading: everything is checked, nothing stored."""

    def __init__(self, backend: Backend, *, again: bool) -> None:
        self.header = Header("", "", ())
        self.events = 0
        self.own: list[_Own] = []
        """The lineage, the root's thread first."""
        self._backend = backend
        self._again = again
        self._attachments: set[str] = set()
        self._line = 0

    def owner(self, position: int) -> _Own:
        """Give the thread whose own row a position is."""
        return next(own for own in reversed(self.own) if own.origin_position < position)

    def read(self, items: Iterator[tuple[int, Item]]) -> None:
        """Check a whole file.

        Raises:
            ImportFailed, Diverged, ThreadDeleted: it is not to be stored.
        """
        try:
            self._read(items)
        except (ValueError, msgspec.MsgspecError, PayloadRejected, BrokenRecord) as error:
            raise ImportFailed(f"line {self._line}: {error}") from None

    def _read(self, items: Iterator[tuple[int, Item]]) -> None:
        self._line, first = next(items, (1, None))
        if not isinstance(first, Header):
            raise ImportFailed("no native export: the first line is no header")
        self._open(first)
        row = ThreadRow(thread=first.thread, origin_position=self.own[-1].origin_position)
        check = LogCheck(row, Surroundings(self._redacted_by, self._attachment_fault))
        digest: _Digest | None = None
        for self._line, item in items:
            if digest is not None and not (isinstance(item, Chunk) and digest.follows(item)):
                self._attachments.add(digest.close())
                digest = None
            if isinstance(item, Chunk):
                digest = digest or _Digest(item)
                digest.add(item)
            elif isinstance(item, Line):
                self._check(check, item)
            elif isinstance(item, End):
                self._close(check, item, items)
                return
            else:
                raise ImportFailed(f"line {self._line}: a second header")
        raise ImportFailed(f"the file is cut: it ends at line {self._line} without a last line")

    def _open(self, header: Header) -> None:
        lineage = header.threads
        if header.format != FORMAT:
            raise ImportFailed(f"format {header.format!r:.40}; this program knows {FORMAT}", hint="upgrade convlog")
        if not lineage or lineage[-1].thread != header.thread or len({step.thread for step in lineage}) != len(lineage):
            raise ImportFailed("the header's lineage does not end in its thread, or names one twice")
        origin, before = None, -1
        for step in lineage:
            if not _is_id(step.thread) or step.origin != origin or not before < step.origin_position < INTEGER_MAX:
                raise ImportFailed(f"the header's lineage is broken at {step.thread[:40]!r}")
            if self._backend.is_deleted(step.thread) and not self._again:
                raise ThreadDeleted(f"thread {step.thread} was deleted here", hint="take it in again: --again")
            self.own.append(_Own(self._backend, step.thread, step.origin_position))
            origin, before = step.thread, step.origin_position
        if lineage[0].origin_position != 0:
            raise ImportFailed("the header's lineage does not begin at a root")
        self.header = header

    def _check(self, check: LogCheck, line: Line) -> None:
        own = self.owner(line.position) if line.position > 0 else self.own[0]
        if line.thread != own.thread:
            raise ImportFailed(f"line {self._line}: position {line.position} belongs to thread {own.thread[:12]}")
        record = record_of(line)
        _check_fields(record)
        own.note(record, line.redacted_by)
        check.feed(own.thread, record)
        self._refuse(check)
        own.compare(record)
        self.events += 1

    def _close(self, check: LogCheck, end: End, items: Iterator[tuple[int, Item]]) -> None:
        check.finish()
        self._refuse(check)
        if check.hash is None or end.tip != check.hash.hex() or end.events != self.events:
            raise ImportFailed(f"line {self._line}: the last line names another tip, or count of events")
        if self.own[-1].origin_position >= check.position:
            raise ImportFailed("the thread has no events of its own")
        if next(items, None) is not None:
            raise ImportFailed(f"line {self._line + 1}: something stands behind the last line")

    def _refuse(self, check: LogCheck) -> None:
        for problem in check.drain():
            if problem.kind not in NOTES:
                raise ImportFailed(
                    f"line {self._line}: thread {problem.thread} position {problem.position}, {problem.kind}:"
                    f" {problem.message}"
                )

    def _redacted_by(self, thread: str, position: int) -> int | None:
        return next((own.erased.get(position) for own in self.own if own.thread == thread), None)

    def _attachment_fault(self, name: str) -> str | None:
        known = name in self._attachments or self._backend.attachment_size(name) is not None
        return None if known else "is missing"


class _Digest:
    """One attachment's chunks, as they come."""

    def __init__(self, first: Chunk) -> None:
        self._first = first
        self._hasher = blake3()
        self._size = self._number = 0

    def follows(self, chunk: Chunk) -> bool:
        """Whether a chunk goes on with this attachment."""
        return chunk.attachment == self._first.attachment and chunk.number > 0

    def add(self, chunk: Chunk) -> None:
        """Take the next chunk."""
        data = _unbase64(chunk)
        self._size += len(data)
        if chunk.number != self._number or chunk.size != self._first.size or self._size > ATTACHMENT_BYTES_MAX:
            raise ImportFailed(f"attachment {chunk.attachment[:16]}: chunk {chunk.number} is out of order")
        self._number += 1
        self._hasher.update(data)

    def close(self) -> str:
        """Give the name, when all of it came."""
        name = self._first.attachment
        if self._hasher.hexdigest() != name or self._size != self._first.size:
            raise ImportFailed(f"attachment {name[:16]} does not hold the bytes of its name")
        return name


def _unbase64(chunk: Chunk) -> bytes:
    try:
        data = base64.b64decode(chunk.bytes, validate=True)
    except binascii.Error as error:
        raise ImportFailed(f"attachment {chunk.attachment[:16]}: {error}") from None
    if base64.b64encode(data).decode() != chunk.bytes:
        raise ImportFailed(f"attachment {chunk.attachment[:16]}: its base64 has bits left over")
    return data


def _is_id(text: str) -> bool:
    return len(text) == 32 and all(char in "0123456789abcdef" for char in text)


def _check_fields(record: Record) -> None:
    """Check what no hash does: that the columns can hold and give back what stands in the header."""
    records.check_name(record.type, "type")
    if record.key is not None:
        records.check_key(record.key)
    records.decode_source(record.source)
    for number in (record.version, record.recorded_at, record.occurred_at or 0):
        if not -INTEGER_MAX <= number < INTEGER_MAX:
            raise PayloadRejected(f"{number} is no 64-bit integer")
    if len(record.body or b"") + len(record.output or b"") > BODY_BYTES_MAX:
        raise PayloadRejected(f"body and output are over {BODY_BYTES_MAX:,} bytes")
    known = BODIES.get(record.type)
    if record.body is not None and (known is None or record.version > known.VERSION):
        canonical.check_json_text(record.body)


# --- the second reading ---


class _Writer:
    """Stores what the first reading found to be right."""

    def __init__(self, store: Store, survey: _Survey) -> None:
        self._store = store
        self._backend = store.backend
        self._survey = survey
        self._batch: list[Record] = []
        self._bytes = 0
        self._listing: Listing | None = None
        self._redacted: set[str] = set()
        """Threads that got a `redacted` event about content that the store had."""

    def write(self, items: Iterator[Item]) -> int:
        """Store a file's attachments and events; give how many events were new."""
        stored = 0
        items = _Attached(self._backend).kept(items)
        own: _Own | None = None
        for item in items:
            if not isinstance(item, Line):
                continue
            owner = self._survey.owner(item.position)
            if own is not None and owner is not own:
                self._flush(own)
            own = owner
            if item.position > own.known:
                self._add(own, record_of(item))
                stored += 1
        if own is not None:
            self._flush(own)
        for own in self._survey.own:
            self._tidy(own)
        return stored

    def _add(self, own: _Own, record: Record) -> None:
        stands = own.replacements.get(record.position)
        effective = record if stands is None else msgspec.structs.replace(record, body=stands)
        body = body_of(effective)
        if own.row is None:
            own.row = row_of(own.thread, body, record.position, record.recorded_at, self._origin(own))
            self._backend.create(own.row, [record])
            return
        erased = tuple(position for position, by in own.erased.items() if by == record.position)
        if erased:
            self._flush(own)
            self._backend.redact(own.thread, [record], Erasure(positions=erased))
            self._redacted.add(own.thread)
            return
        self._batch.append(record)
        self._bytes += len(record.body or b"") + len(record.output or b"")
        if body is not None:
            source = records.decode_source(record.source)
            self._listing = merge(self._listing, listing_of(body, record.output, source, own.row))
        if len(self._batch) >= BATCH_EVENTS or self._bytes >= BATCH_BYTES:
            self._flush(own)

    def _origin(self, own: _Own) -> ThreadRow | None:
        before = self._survey.own[self._survey.own.index(own) - 1]
        return before.row if own.origin_position else None

    def _flush(self, own: _Own) -> None:
        if self._batch:
            self._backend.append(own.thread, self._batch, self._listing)
        self._batch, self._bytes, self._listing = [], 0, None

    def _tidy(self, own: _Own) -> None:
        """Erase what the list of threads, and tables beside the events, still hold of erased content."""
        last = max((position for position in own.erased.values()), default=0)
        behind = [position for position, by in own.erased.items() if by > own.last]
        for position in behind:
            erasure = Erasure(positions=(position,), by=own.erased[position])
            self._backend.redact(own.thread, [], erasure)
        row = self._store.row(own.thread)
        if own.thread in self._redacted and own.known:
            listed = listed_again(self._backend, row)
            new = msgspec.structs.replace(
                row,
                title=listed.title or (row.title if row.origin else None),
                cwd=getattr(listed.opened, "cwd", row.cwd),
                source_id=getattr(listed.opened, "source_id", row.source_id),
                preview=listed.listing.preview,
            )
            unused = tuple(name for name in self._backend.attachments(own.thread) if name not in own.used)
            secrets = tuple((own.thread, position) for position in own.secretless)
            erasure = Erasure(positions=(), by=last, secrets=secrets, attachments=unused, rows=(new,))
            self._backend.redact(own.thread, [], erasure)
            row = new
        log = self._store.log(own.thread)
        log.refresh()
        log.row = row


class _Attached:
    """Puts attachments into the store as a file's items pass by."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._next: Item | None = None

    def kept(self, items: Iterator[Item]) -> Iterator[Item]:
        """Iterate over the items that are no chunks."""
        for item in items:
            self._next = item
            while isinstance(self._next, Chunk):
                first = self._next
                chunks = self._chunks(first, items)
                if self._backend.attachment_size(first.attachment) is None:
                    self._backend.put_attachment(first.attachment, chunks, first.size)
                for _ in chunks:
                    pass
            if self._next is not None:
                yield self._next

    def _chunks(self, first: Chunk, items: Iterator[Item]) -> Iterator[bytes]:
        item: Item | None = first
        while isinstance(item, Chunk) and item.attachment == first.attachment:
            yield _unbase64(item)
            item = next(items, None)
        self._next = item
