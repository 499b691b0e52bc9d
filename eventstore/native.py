"""The native export: one thread as JSON Lines, with every byte that its hashes stand on.

    {"format":"convlog-export/1","thread":ID,"threads":[{"thread":ID,"origin":null,"origin_position":0}, ...]}
    {"attachment":HASH,"size":N,"number":0,"bytes":BASE64}         before the first event that uses it
    {"thread":ID,"position":1,"parent":..., ...,"hash":HEX,"body":"{...}"}           one line for each event
    {"tip":HEX,"events":N}

`threads` is the lineage, the root's thread first, each with the thread that its log goes on from, and up to where. An
event is its row: absent fields are null ones, `refs` and `source` the stored JSON, `body` a string of the stored JSON
text, `redacted_by` the event that erased its content. The way back is `native_import`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator

import msgspec

from .backend import Backend, Record
from .canonical import BODY_BYTES_MAX
from .errors import BrokenRecord
from .listed import body_of
from .log import Span
from .placement import attachments_of
from .store import Store

FORMAT = "convlog-export/1"

LINE_BYTES_MAX = 7 * BODY_BYTES_MAX
"""JSON spells a byte in six at most."""


class Lineage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A thread whose own rows make up a part of the log."""

    thread: str
    origin: str | None = None
    origin_position: int = 0


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line."""

    format: str
    thread: str
    threads: tuple[Lineage, ...]


class Chunk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of an attachment."""

    attachment: str
    size: int
    number: int
    bytes: str


NO_REFS = msgspec.Raw(b"null")


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An event."""

    thread: str
    position: int
    parent: int | None = None
    head: int
    type: str
    version: int
    recorded_at: int
    occurred_at: int | None = None
    source: msgspec.Raw
    key: str | None = None
    refs: msgspec.Raw = NO_REFS
    hash: str
    commitment: str
    salt: str | None = None
    secret: str | None = None
    body: str | None = None
    output: str | None = None
    redacted_by: int | None = None


class End(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last line."""

    tip: str
    events: int


_encode = msgspec.json.Encoder().encode


# --- out ---


def export_thread(store: Store, thread: str) -> Iterator[bytes]:
    """Iterate over the lines of a thread's native export.

    Raises:
        NoSuchThread: there is none of this id.
        BrokenRecord: a body or output is not text any more.
    """
    log = store.log(thread)
    log.refresh()
    spans, tip, events = log.spans, log.hash, log.position
    yield _encode(Header(FORMAT, thread, tuple(_lineage(spans)))) + b"\n"
    seen: set[str] = set()
    for span in spans:
        for record in store.backend.read(span.thread, span.first, span.last):
            yield from _attachments(store.backend, record, seen)
            yield _encode(_line(store.backend, span.thread, record)) + b"\n"
    yield _encode(End(tip.hex(), events)) + b"\n"


def _lineage(spans: Iterable[Span]) -> Iterator[Lineage]:
    origin = None
    for span in spans:
        yield Lineage(span.thread, origin, span.first - 1)
        origin = span.thread


def _attachments(backend: Backend, record: Record, seen: set[str]) -> Iterator[bytes]:
    for name in used_by(record):
        size = None if name in seen else backend.attachment_size(name)
        seen.add(name)
        if size is not None:
            for number, chunk in enumerate(backend.attachment(name)):
                yield _encode(Chunk(name, size, number, base64.b64encode(chunk).decode())) + b"\n"


def used_by(record: Record) -> tuple[str, ...]:
    """Give the names of the attachments that a record uses, as far as this program knows its type."""
    body = body_of(record)
    return () if body is None else attachments_of(body, record.output)


def _line(backend: Backend, thread: str, record: Record) -> Line:
    try:
        return Line(
            thread=thread,
            position=record.position,
            parent=record.parent,
            head=record.head,
            type=record.type,
            version=record.version,
            recorded_at=record.recorded_at,
            occurred_at=record.occurred_at,
            source=msgspec.Raw(record.source),
            key=record.key,
            refs=NO_REFS if record.refs is None else msgspec.Raw(record.refs),
            hash=record.hash.hex(),
            commitment=record.commitment.hex(),
            salt=None if record.salt is None else record.salt.hex(),
            secret=None if record.secret is None else record.secret.hex(),
            body=None if record.body is None else record.body.decode(),
            output=None if record.output is None else record.output.decode(),
            redacted_by=backend.redacted_by(thread, record.position) if record.salt is None else None,
        )
    except UnicodeDecodeError as error:
        raise BrokenRecord(
            f"event {record.position} of {thread[:12]} holds no text: {error}", hint="run `convlog verify`"
        ) from None


def record_of(line: Line) -> Record:
    """Give the record that an event's line holds.

    Raises:
        ValueError: a hash, salt or secret that is not lower-case hex; a text that is not well formed.
    """
    return Record(
        line.position,
        line.parent,
        line.head,
        line.type,
        line.version,
        line.recorded_at,
        line.occurred_at,
        bytes(line.source),
        line.key,
        None if line.refs == NO_REFS else bytes(line.refs),
        _unhex(line.hash),
        _unhex(line.commitment),
        None if line.salt is None else _unhex(line.salt),
        None if line.secret is None else _unhex(line.secret),
        None if line.body is None else line.body.encode(),
        None if line.output is None else line.output.encode(),
    )


def _unhex(text: str) -> bytes:
    data = bytes.fromhex(text)
    if data.hex() != text:
        msg = f"{text[:20]!r} is not lower-case hex"
        raise ValueError(msg)
    return data
