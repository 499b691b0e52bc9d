"""Reading what a prompt is derived from: one path and its notes, as of one position, at current schema versions."""

from __future__ import annotations

from collections.abc import Iterator

from convlog.eventstore.backend import Record
from convlog.eventstore.records import current_json
from convlog.eventstore.thread import Thread

from . import derive
from .stages.material_v1 import Material
from .stages.view_v1 import Stored

NOTES = (
    "turn.ended",
    "pending.cleared",
    "summary.added",
    "summary.invalidated",
    "result.promoted",
    "redacted",
)
"""The notes that derivation reads."""


def material(thread: Thread, leaf: int | None = None, at: int | None = None) -> Material:
    """Read the path to `leaf` (default: the head as of `at`) and the notes up to `at` (default: the tip)."""
    at = thread.position if at is None else at
    leaf = thread.head_at(at) if leaf is None else leaf
    path = thread.tree.path(leaf)
    return Material(
        path=tuple(stored(record) for record in thread.records(path)),
        notes=tuple(stored(record) for record in thread.notes(NOTES, last=at)),
        at=at,
    )


def stored(record: Record) -> Stored:
    """Give a record as projections read it."""
    return Stored(
        position=record.position,
        type=record.type,
        source=record.source,
        refs=record.refs,
        body=current_json(record),
        output=record.output,
        missing=_is_missing(record),
    )


def _is_missing(record: Record) -> bool:
    """Whether a result's output was never kept: its body then says how large it was."""
    return record.output is None and record.type == "tool.returned" and b'"digest":"' in (record.body or b"")


def attachments(thread: Thread, names: Iterator[str] | set[str]) -> dict[str, bytes]:
    """Load attachments by hash; those that are gone are left out."""
    found = {}
    for name in sorted(names):
        if thread.store.backend.attachment_size(name) is not None:
            found[name] = thread.store.attachment(name)
    return found


def derived(thread: Thread, recipe: derive.Recipe, leaf: int, at: int) -> derive.Derived:
    """Derive a prompt from a thread as of a position."""
    pieces = derive.assemble(material(thread, leaf, at), recipe)
    needed = derive.attachments_needed(pieces)
    request = derive.encode(pieces, recipe, attachments(thread, needed))
    return derive.Derived(recipe, pieces, request)
