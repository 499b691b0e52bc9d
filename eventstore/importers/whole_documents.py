"""JSON documents that are small enough to be held: an object with one list of messages, or that list alone."""

from __future__ import annotations

import io
from typing import BinaryIO

import msgspec
from blake3 import blake3

from ..canonical import BODY_BYTES_MAX
from ..errors import ImportFailed
from .documents import WHOLE, DocumentReader
from .lines import BOM, Progress, Record
from .report import ImportReport
from .slices import Fields

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
    report.size, report.digest = len(data), blake3(data).hexdigest()
    report.records += len(found.items) + bool(found.entries) + noted.lost
    report.lost += noted.lost
    report.repaired += noted.repaired
    for finding in noted.warnings:
        report.warn(finding.line, finding.code, finding.detail)
    return found


def _apart(records: list[Record], array: str) -> Document:
    entries: Fields = {}
    for record in records:
        if record.line == WHOLE:
            entries |= record.fields or {}
    return Document(entries, [record for record in records if record.line != WHOLE], array)
