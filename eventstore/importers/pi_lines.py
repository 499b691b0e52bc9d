"""One line of a pi session: its entry, whatever wraps it, and who it is."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Raw

from ..events import RecordKept
from .base import Item, Place, ThreadedLine, ThreadInfo
from .known import Identity, key_part
from .lines import Record
from .slices import Entries, Fields, fields_of, name_of, object_text, text_of, value_of
from .times import is_plain, microseconds, milliseconds

AGENT = "pi"

HEADER, MESSAGE = "session", "message"
ENTRIES = frozenset(
    {
        *(MESSAGE, "model_change", "thinking_level_change", "active_tools_change", "compaction", "branch_summary"),
        *("custom", "custom_message", "label", "session_info"),
    }
)
MUTATIONS = frozenset({"header", "entry", "record", "lane", "fact"})
"""What a line of form 4 is; in older forms the entry is the line."""


class Line(ThreadedLine, frozen=True, kw_only=True):
    """One line with what all lines have."""

    EXACT = True

    kind: str
    """The entry's type; in form 4 that of what is no entry, such as `lane`."""
    fields: Fields
    outer: Fields | None
    """In form 4, what stands around the entry."""
    id: str | None

    def verbatim(self) -> Item:
        """Keep the line as it is; others may hang below it."""
        return Item(body=RecordKept(format=AGENT, record=self.record.data.decode(), line=self.record.line))

    def rest(self, mapped: Collection[str], message: Entries | None = None) -> str | None:
        """Give the JSON text of what has no place in an event.

        Args:
            mapped: the entry's own fields that have one.
            message: what is left of its message.
        """
        dropped = {"type", *mapped} if self.kind == MESSAGE else set(mapped)
        if self.id is not None and key_part(self.id) == self.id:
            dropped.add("id")
        if self.occurred_at is not None and is_plain(self.fields["timestamp"]):
            dropped.add("timestamp")
        entries: Entries = [entry for entry in self.fields.items() if entry[0] not in dropped]
        if message:
            entries.append(("message", (object_text(message) or "").encode()))
        if self.outer is None:
            return object_text(entries)
        inner = (object_text(entries) or "{}").encode()
        return object_text([*self.outer.items(), ("entry", inner)])


def kind_of(fields: Fields) -> str:
    """Give a line's type, or, in form 4, what the line is."""
    kind = name_of(fields.get("kind"))
    if kind in MUTATIONS:
        return kind
    return name_of(fields.get("type")) or ""


def line_of(record: Record, thread: ThreadInfo) -> Line:
    """Read a line."""
    fields = record.fields or {}
    kind, outer = kind_of(fields), None
    is_mutation = kind in MUTATIONS
    if kind == "entry":
        inner = fields_of(fields.get("entry"))
        if inner is not None:
            outer = {name: value for name, value in fields.items() if name != "entry"}
            fields = inner
        kind = name_of(fields.get("type")) or ""
        is_mutation = False
    id_ = name_of(fields.get("id")) or None
    if kind in {HEADER, "header"}:
        named = f"session/{id_}" if id_ else None
    elif is_mutation:
        sequence = value_of(fields.get("seq") or (fields_of(fields.get("record")) or {}).get("seq"))
        named = f"seq/{sequence}" if isinstance(sequence, int) else None
    else:
        named = id_
    stated = fields.get("timestamp")
    return Line(
        record=record,
        kind=kind,
        fields=fields,
        outer=outer,
        identity=Identity(named, record.data),
        id=None if is_mutation or kind == HEADER else id_,
        parent=Place.BEFORE if is_mutation or kind == HEADER else _parent(fields),
        occurred_at=time_of(stated),
        thread=thread,
    )


def time_of(stated: Raw | None) -> int | None:
    """Read a time as either form writes it: ISO 8601 text, or milliseconds."""
    text = text_of(stated)
    return milliseconds(stated) if text is None else microseconds(text)


def _parent(fields: Fields) -> str | Place:
    """Give the entry that another follows: null names the root, and no name, as in form 1, the line before."""
    stated = fields.get("parentId")
    if stated is not None and bytes(stated) == b"null":
        return Place.ROOT
    return name_of(stated) or Place.BEFORE
