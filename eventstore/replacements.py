"""What stands in place of erased content: how a record reads after a redaction."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from .backend import Backend, Record
from .errors import BrokenRecord
from .events import Redacted, Redaction

_decode = msgspec.json.Decoder(Redacted).decode


def as_it_reads(backend: Backend, thread: str, record: Record) -> tuple[Record, int | None]:
    """Give a record with what stands in place of its erased content, and the position of the event that erased it.

    Args:
        backend: where the record lies.
        thread: the thread whose own rows hold it; so do they hold the event that erased it.
        record: any record; one that was not erased comes back as it is.
    """
    if record.salt is not None:
        return record, None
    by = backend.redacted_by(thread, record.position)
    if by is None:
        return record, None
    body, output = _replacement(backend, thread, record.position, by)
    return msgspec.structs.replace(record, body=body, output=output), by


def _replacement(backend: Backend, thread: str, position: int, by: int) -> tuple[bytes | None, bytes | None]:
    note = next(backend.read(thread, by, by), None)
    if note is None:
        return None, None  # of a shared log only a part was imported, and the note lies behind it
    # A replacement can hold words that were erased later: then the note itself has one.
    note, _ = as_it_reads(backend, thread, note)
    target = targets_of(note.body).get(position) if note.body is not None else None
    if target is None:
        return None, None
    return encoded(target.body), encoded(target.output)


def encoded(text: str | None) -> bytes | None:
    """Give a replacement's text as bytes."""
    return None if text is None else text.encode()


@lru_cache(maxsize=8)
def targets_of(body: bytes) -> dict[int, Redaction]:
    """Give what a `redacted` event's body says of each position it erased.

    Raises:
        BrokenRecord: the bytes are no such body.
    """
    try:
        return {target.position: target for target in _decode(body).targets}
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise BrokenRecord(f"a body of {Redacted.TYPE} cannot be read: {error}") from None
