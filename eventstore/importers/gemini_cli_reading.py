"""Gemini CLI sessions as they lie in files: one document in older versions, JSON Lines in newer ones.

A line may set the whole list of messages anew. What it lists is given message by message behind it, since most of it
came before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import BinaryIO

import msgspec
from msgspec import Raw

from .base import ReaderAbove
from .documents import DocumentReader
from .gemini_cli_seen import plain_text
from .known import Identity
from .lines import LineReader, Progress, Record, first_objects
from .report import ImportReport
from .slices import Fields, fields_of, items_of, name_of, object_text

HEAD_BYTES = 16 * 1024
TYPES = frozenset({"user", "gemini", "info", "error", "warning"})

_BEGINNING = re.compile(
    rb'\s*\{\s*"(?:sessionId|projectHash|startTime|lastUpdated|messages|kind|summary|directories)"\s*:'
)
_HEADER = frozenset({"projectHash", "startTime", "lastUpdated", "messages"})


class Listed(Record, frozen=True):
    """A message that a line lists which sets all of them."""


def begins_session(head: bytes) -> bool:
    """Whether a file that begins so is such a session."""
    if is_document(head):
        return b'"sessionId"' in head and any(f'"{name}"'.encode() in head for name in _HEADER)
    return any(_tells(fields) for fields in first_objects(head))


def _tells(fields: Fields) -> bool:
    if "$rewindTo" in fields or "$set" in fields:
        return True
    if {"sessionId", "projectHash"} <= fields.keys() and "uuid" not in fields:
        return True
    return name_of(fields.get("type")) == "gemini" and "id" in fields and "content" in fields


def is_document(head: bytes) -> bool:
    """Whether a file that begins so is one document, and no line by itself."""
    if _BEGINNING.match(head) is None:
        return False
    first, is_ended, _ = head.lstrip().partition(b"\n")
    text = first.decode(errors="replace")
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return True  # it goes on behind this line, or behind what was looked at
    # A line that begins with a whole value is one by itself, or the end of one that a cut parted.
    return not is_ended and bool(value.get("messages"))


class SessionReader(ReaderAbove):
    """A session's records, each message that a line lists among them."""

    def __init__(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> None:
        head = stream.read(HEAD_BYTES)
        stream.seek(0)
        if is_document(head):
            super().__init__(DocumentReader(stream, report, "messages", progress))
        else:
            super().__init__(LineReader(stream, report, progress))

    def __iter__(self) -> Iterator[Record]:
        for record in self._reader:
            yield record
            for message in listed_in(record.fields or {}):
                yield Listed(record.line, bytes(message), fields_of(message))


def listed_in(fields: Fields) -> list[bytes]:
    """Give the messages that a line lists which sets all of them, or that a header holds."""
    said = fields_of(fields.get("$set")) if "$set" in fields else fields if "sessionId" in fields else None
    return [bytes(item) for item in items_of((said or {}).get("messages")) or [] if is_message(fields_of(item))]


def is_message(fields: Fields | None) -> bool:
    """Whether a record is a message."""
    return fields is not None and name_of(fields.get("id")) is not None


def with_names(record: Record, whole: Collection[str]) -> str:
    """Give a line in which messages that came before are named: `{"record": ID, "digest": DIGEST}`.

    Args:
        record: a line that sets all messages.
        whole: ids of messages that stay as they are, since nothing else holds them.
    """
    fields = record.fields or {}
    is_set = "$set" in fields
    said = (fields_of(fields.get("$set")) if is_set else fields) or {}
    shown = [_named(item, whole) for item in items_of(said.get("messages")) or []]
    messages = b"[" + b",".join(shown) + b"]"
    text = object_text((name, messages if name == "messages" else value) for name, value in said.items()) or "{}"
    if not is_set:
        return text
    return object_text((name, text.encode() if name == "$set" else value) for name, value in fields.items()) or "{}"


def _named(item: Raw, whole: Collection[str]) -> bytes:
    fields = fields_of(item)
    if not is_message(fields):
        return bytes(item)
    identity = Identity(name_of((fields or {}).get("id")), bytes(item))
    if identity.id in whole:
        return bytes(item)
    return msgspec.json.encode({"record": identity.id, "digest": identity.digest})


def summary_in(record: Record) -> str:
    """Give the words that stand for what came before: those of the first message that a line lists."""
    listed = listed_in(record.fields or {})
    return plain_text(fields_of(listed[0]) or {}) if listed else ""
