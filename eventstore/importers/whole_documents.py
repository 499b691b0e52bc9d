"""JSON documents that are small enough to be held: an object with one list of messages, or that list alone."""

from __future__ import annotations

import io
from typing import BinaryIO

import msgspec
from blake3 import blake3

from ..canonical import BODY_BYTES_MAX
from ..errors import ImportFailed, PayloadRejected
from .documents import WHOLE, Broken, DocumentReader
from .lines import BOM, Progress, Record, read_record
from .report import ImportReport
from .slices import Fields, fields_of, items_of

DOCUMENT_BYTES_MAX = 4 * BODY_BYTES_MAX


class Document(msgspec.Struct, frozen=True):
    """A document taken apart."""

    entries: Fields
    """What its object says beside the list."""
    items: list[Record]
    """The list's items, numbered from 1."""
    array: str
    """The name of the list; of a list alone the first that was asked for."""


def read_document(stream: BinaryIO, report: ImportReport, progress: Progress | None, *arrays: str) -> Document:
    """Read a document with a list of one of these names; damage goes to the report.

    Raises:
        ImportFailed: it is too large.
    """
    data = stream.read(DOCUMENT_BYTES_MAX + 1)
    if progress is not None:
        progress(len(data))
    if len(data) > DOCUMENT_BYTES_MAX:
        raise ImportFailed(f"a document of over {DOCUMENT_BYTES_MAX:,} bytes", hint="its form is read as a whole")
    text = data.removeprefix(BOM).strip()
    found = Document({}, [], arrays[0])
    for array in arrays:
        # A list alone is read as the one entry of an object.
        whole = b'{"%s":%s}' % (array.encode(), text) if text[:1] == b"[" else text
        noted = ImportReport(format="")
        found = _apart(list(DocumentReader(io.BytesIO(whole), noted, array)), array)
        if found.items:
            break
    if not noted.warnings and not _is_one(text):
        noted.lose(WHOLE, Broken.BAD, "what stands behind the document is not read")
    report.size, report.digest = len(data), blake3(data).hexdigest()
    report.records += len(found.items) + bool(found.entries) + noted.lost
    report.lost += noted.lost
    report.repaired += noted.repaired
    for finding in noted.warnings:
        report.warn(finding.line, finding.code, finding.detail)
    return found


def _is_one(text: bytes) -> bool:
    """Whether a text is one JSON value and nothing else."""
    try:
        return (items_of(text) if text[:1] == b"[" else fields_of(text)) is not None
    except PayloadRejected:
        return False


def document_of(fields: Fields, report: ImportReport, line: int, *arrays: str) -> Document:
    """Give the document that an object on one line of a file is; its items are numbered by themselves."""
    array = next((name for name in arrays if items_of(fields.get(name))), arrays[0])
    records = []
    for number, item in enumerate(items_of(fields.get(array)) or [], 1):
        try:
            records.append(read_record(number, bytes(item)))
        except PayloadRejected as error:
            report.lose(line, "bad_record", error.message)
    report.records += len(records)
    return Document({name: value for name, value in fields.items() if name != array or not records}, records, array)


def _apart(records: list[Record], array: str) -> Document:
    entries: Fields = {}
    for record in records:
        if record.line == WHOLE:
            entries |= record.fields or {}
    return Document(entries, [record for record in records if record.line != WHOLE], array)
