"""What a redaction has to erase in one thread's own rows: the events meant, and what repeats or betrays them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import msgspec

from . import masking, records
from .backend import Backend, Record, ThreadRow
from .canonical import BODY_BYTES_MAX
from .errors import BrokenRecord
from .events import (
    BODIES,
    CallFinished,
    CallObserved,
    CallPrepared,
    ImportReported,
    InputAdded,
    RecordKept,
    Redacted,
    Redaction,
    ResultPromoted,
    SummaryAdded,
    ThreadCreated,
    ThreadForked,
    ThreadTitled,
)
from .listed import body_of
from .masking import Mask
from .placement import attachments_of, listing_of
from .replacements import as_it_reads, encoded

if TYPE_CHECKING:
    from .log import Log

TARGET_BYTES_MAX = BODY_BYTES_MAX * 3 // 4
"""A replacement over this does not fit into a `redacted` event, where its JSON is spelled as a string: the event goes
whole."""

_TITLED = frozenset({ThreadCreated.TYPE, ThreadForked.TYPE, ThreadTitled.TYPE})

_SHOWN_NOTES = frozenset({SummaryAdded.TYPE, ResultPromoted.TYPE})
"""Notes whose text can stand in a prompt."""

_BETRAYING = {
    CallPrepared.TYPE: ("capture",),
    CallObserved.TYPE: ("capture", "digest"),
    CallFinished.TYPE: ("sent",),
    ImportReported.TYPE: ("digest",),
}
"""Fields that hold plain hashes of bytes in which the words stood: a short text could be guessed by them."""


class Words:
    """What is to go: the words that a mask knows, or, without one, whatever is said."""

    def __init__(self, backend: Backend, match: str | None, replacement: str) -> None:
        self.mask = Mask(match, replacement) if match else None
        self.replacement = replacement
        self._backend = backend
        self._holding: dict[str, bool] = {}

    def redaction(self, record: Record, attachments: Collection[str]) -> Redaction | None:
        """Give what stands in a record's place; None when it holds none of the words."""
        if record.body is None:
            return None
        if self.mask is None:
            return masking.erased(record, self.replacement)
        gone = [name for name in attachments if self.are_in(name)]
        found = masking.masked(record, self.mask, gone)
        if found is None or _can_be_read(record, found):
            return found
        return masking.erased(record, self.replacement)

    def are_in(self, attachment: str) -> bool:
        """Whether the words stand in an attachment's bytes; without words, they do."""
        if self.mask is None:
            return True
        if attachment not in self._holding:
            self._holding[attachment] = self._search(attachment, self.mask.match)
        return self._holding[attachment]

    def _search(self, attachment: str, match: str) -> bool:
        forms = {match.encode(), msgspec.json.encode(match)[1:-1]}
        longest = max(map(len, forms))
        rest = b""
        for chunk in self._backend.attachment(attachment):
            data = rest + chunk
            if any(form in data for form in forms):
                return True
            rest = data[-longest:]
        return False


def _can_be_read(record: Record, found: Redaction) -> bool:
    if len(found.body or "") + len(found.output or "") > TARGET_BYTES_MAX:
        return False
    try:
        records.decode_body(record.type, record.version, (found.body or "").encode())
    except BrokenRecord:
        return False
    return True


class Plan:
    """What goes in one thread's own rows, found record by record."""

    def __init__(
        self,
        log: Log,
        words: Words,
        wanted: Collection[int],
        shared: Mapping[int, str],
        foreign: Mapping[str, Mapping[int, str]],
    ) -> None:
        """Begin with nothing found.

        Args:
            log: the thread's log, up to date.
            words: what is to go.
            wanted: the positions asked for.
            shared: position to type of what goes in the part that is shared with the origin.
            foreign: thread to the same, of what goes in other threads that this one reads.
        """
        self.log = log
        self.replaced: dict[int, Redaction] = {}
        self.targets: dict[int, str] = dict(shared)
        """Position to type of all that goes, in own and in shared rows."""
        self.secrets: list[tuple[str, int]] = []
        self.unused: set[str] = set()
        """Attachments that the thread uses no more."""
        self.row: ThreadRow
        self._words = words
        self._wanted = wanted
        self._foreign = foreign
        self._used: set[str] = set()
        self._stale: dict[int, set[int]] = {}
        """Earlier `redacted` events to the positions whose replacements in them go."""

    def find(self, backend: Backend, row: ThreadRow) -> None:
        """Read the thread's own rows and find what goes."""
        thread = row.thread
        for raw in backend.read(thread, row.origin_position + 1, self.log.position):
            record, by = as_it_reads(backend, thread, raw)
            found = self._redaction(record)
            if found is not None:
                self.replaced[record.position] = found
                self.targets[record.position] = _type_to_prompts(record, found)
                if by is not None:
                    self._stale.setdefault(by, set()).add(record.position)
                record = msgspec.structs.replace(record, body=encoded(found.body), output=encoded(found.output))
            row = self._take(row, record)
        self.unused -= self._used
        self.row = self._masked(row)

    def _redaction(self, record: Record) -> Redaction | None:
        """Give what stands in a record's place; None when it stays."""
        if record.type == Redacted.TYPE:
            return self._restated(record)
        betraying = None
        if record.type in _BETRAYING and self._showed(record):
            if record.type == CallPrepared.TYPE:
                self.secrets.append((self.log.row.thread, record.position))
            betraying = masking.without(record, *_BETRAYING[record.type])
            if betraying is not None:
                self.unused.update(_attachments(record))
                record = msgspec.structs.replace(record, body=encoded(betraying.body))
        if record.position not in self._wanted and not self._repeats(record):
            return betraying
        used = _attachments(record)
        found = self._words.redaction(record, used)
        if found is not None:
            self.unused.update(name for name in used if self._words.are_in(name))
            if record.type == CallPrepared.TYPE:
                self.secrets.append((self.log.row.thread, record.position))
        return found or betraying

    def _restated(self, record: Record) -> Redaction | None:
        """Give a `redacted` event without replacements that another event holds from now on."""
        stale = self._stale.get(record.position)
        if not stale or record.body is None:
            return None
        body = msgspec.json.decode(record.body)
        body["targets"] = [
            {"position": target["position"]} if target["position"] in stale else target for target in body["targets"]
        ]
        return Redaction(record.position, msgspec.json.encode(body).decode())

    # --- what repeats it ---

    def _repeats(self, record: Record) -> bool:
        """Whether an event that was not asked for may say again what goes."""
        if record.type in _TITLED or record.type == RecordKept.TYPE:
            return self._words.mask is not None
        if record.type not in _SHOWN_NOTES or record.body is None:
            return False
        body = records.decode_body(record.type, record.version, record.body)
        tree = self.log.tree
        if isinstance(body, SummaryAdded):
            return any(body.first <= t <= body.last and tree.is_above(t, body.last) for t in self.targets)
        if isinstance(body, ResultPromoted):
            return any(body.call in {target, tree.answered(target)} for target in self.targets)
        return True

    # --- what betrays it ---

    def _showed(self, record: Record) -> bool:
        """Whether a prompt, or a source file, whose hash an event holds, had in it what goes."""
        if record.body is None or not (self.targets or self._foreign):
            return False
        body = records.decode_body(record.type, record.version, record.body)
        if isinstance(body, CallPrepared):
            return self._stood_in(body) or self._was_read(body)
        if isinstance(body, CallObserved):
            return self._is_on_path(body.leaf)
        if isinstance(body, CallFinished):
            about = next((position for word, position in records.decode_refs(record.refs) if word == "about"), 0)
            return self._is_on_path(about)
        return True

    def _stood_in(self, body: CallPrepared) -> bool:
        # All that lies above: what does not stand in a prompt itself can stand in the memory of its turn.
        return any(
            target <= body.at and self._is_shown(target, type_, body.leaf) for target, type_ in self.targets.items()
        )

    def _was_read(self, body: CallPrepared) -> bool:
        return any(any(target <= at for target in self._foreign.get(thread, ())) for thread, at, _ in body.inputs)

    def _is_on_path(self, node: int) -> bool:
        return any(self._is_shown(target, type_, node) for target, type_ in self.targets.items())

    def _is_shown(self, target: int, type_: str, leaf: int) -> bool:
        tree = self.log.tree
        if type_ == ThreadTitled.TYPE:
            return False
        if not tree.is_node(target):
            return type_ in _SHOWN_NOTES or type_ not in BODIES
        return not tree.is_node(leaf) or tree.is_above(target, leaf)

    # --- the thread's row ---

    def _take(self, row: ThreadRow, record: Record) -> ThreadRow:
        """Take what an event, as it reads from now on, makes of the row, and which attachments it uses."""
        self._used.update(_attachments(record))
        body = body_of(record)
        if isinstance(body, ThreadCreated):
            return msgspec.structs.replace(row, title=body.title, cwd=body.cwd, source_id=body.source_id)
        if isinstance(body, ThreadForked | ThreadTitled):
            return msgspec.structs.replace(row, title=body.title or row.title)
        if isinstance(body, InputAdded):
            listing = listing_of(body, None, records.decode_source(record.source), row)
            if listing is not None and listing.preview is not None:
                return msgspec.structs.replace(row, preview=listing.preview)
        return row

    def _masked(self, row: ThreadRow) -> ThreadRow:
        mask = self._words.mask
        if mask is None:
            return row
        values = {name: getattr(row, name) for name in ("title", "cwd", "source_id", "preview")}
        return msgspec.structs.replace(
            row, **{name: None if value is None else mask.text(value) for name, value in values.items()}
        )

    def follow(self, old: ThreadRow, new: ThreadRow) -> None:
        """Take over for a fork's row what it had copied from its origin's."""
        for name in ("title", "cwd"):
            if getattr(self.row, name) == getattr(old, name):
                self.row = msgspec.structs.replace(self.row, **{name: getattr(new, name)})


def _type_to_prompts(record: Record, found: Redaction) -> str:
    """Give the type of an erased event, as far as prompts are concerned: to them a root says where it ran, no more."""
    if record.type == ThreadCreated.TYPE and found.body is not None:
        old, new = (msgspec.json.decode(body or b"{}") for body in (record.body, found.body))
        if old.get("cwd") == new.get("cwd") and old.get("agent") == new.get("agent"):
            return ThreadTitled.TYPE
    return record.type


def _attachments(record: Record) -> tuple[str, ...]:
    body = body_of(record)
    return () if body is None else attachments_of(body, record.output)
