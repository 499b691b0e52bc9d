"""Where a new event goes: its parent, the head after it, and the call that a result answers.

The head rule. Every appended node becomes the head, except a result, or a node of a response, whose parent is not the
current head: that leaves the head where it is. Notes copy the head, and `head.moved` sets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from . import records
from .backend import Listing, Record, ThreadRow
from .errors import BadRange, DuplicateResult, NoSuchNode, PayloadRejected, UnknownCall
from .events import (
    AttemptAbandoned,
    Body,
    BranchNamed,
    CallObserved,
    CallPrepared,
    Content,
    Document,
    HeadMoved,
    Image,
    InputAdded,
    PendingCleared,
    Source,
    SummaryAdded,
    Text,
    ThreadCreated,
    ThreadForked,
    ThreadTitled,
    ToolCalled,
    ToolReturned,
    TurnEnded,
)
from .records import Draft, Member, decode_blocks

if TYPE_CHECKING:
    from .log import Log

PREVIEW_LENGTH = 120

LISTED = frozenset(
    body.TYPE for body in (InputAdded, ToolReturned, CallPrepared, CallObserved, TurnEnded, ThreadTitled)
)
"""Types that may change what listing shows, or use attachments."""

NODE_FIELDS = {
    TurnEnded.TYPE: "node",
    BranchNamed.TYPE: "node",
    AttemptAbandoned.TYPE: "node",
    PendingCleared.TYPE: "node",
    CallPrepared.TYPE: "leaf",
    CallObserved.TYPE: "leaf",
}
"""Fields of notes that hold a node's position."""

REF_WORDS = frozenset({"answers", "edits", "regenerates", "about"})

Refs = tuple[tuple[str, int], ...]


class Appended(msgspec.Struct, frozen=True):
    """Where an event was stored."""

    thread: str
    position: int
    head: int
    hash: bytes
    replayed: bool = False
    """The key was known: this is the event stored first."""


class Batch:
    """The records of one append, placed one after the other on top of a log's state."""

    def __init__(self, log: Log) -> None:
        self.records: list[Record] = []
        self.answers: list[Appended] = []
        self.listing: Listing | None = None
        self._log = log
        self._position, self._head, self._hash = log.position, log.head, log.hash
        self._positions: list[int] = []
        self._parents: dict[int, int] = {}
        self._bases: dict[int, int] = {}
        """For each pending node the last node above it that is stored already."""
        self._calls: dict[str, list[int]] = {}
        self._results: dict[int, list[int]] = {}

    def answer(self, known: Appended) -> None:
        """Take a member that is stored already."""
        self.answers.append(known)
        self._positions.append(known.position)

    def add(self, draft: Draft) -> None:
        """Place a member and seal it."""
        log = self._log
        body = draft.body(self._positions) if callable(draft.body) else draft.body
        content = log.content(body, draft.output)
        refs = self._resolve_refs(draft)
        position = self._position + 1
        parent = None
        if body.NODE:
            if body.TYPE == ThreadCreated.TYPE:
                raise PayloadRejected("a thread has one root", hint="make another thread")
            parent = self._head if draft.parent is None else self._require(self._resolve(draft.parent))
            if isinstance(body, ToolReturned):
                refs = self._answering(body, parent, refs, stray=draft.stray)
            head = self._next_head(body, parent, position)
        else:
            head = self._head_after_note(body, draft)
        if body.TYPE in LISTED:
            self._list(body, draft)
        settings = log.settings
        record = records.seal(
            log.row.thread,
            position,
            self._hash,
            parent,
            head,
            content,
            draft,
            refs,
            settings.clock(),
            log.new_salt(),
        )
        self._take(record, body, refs)

    def _head_after_note(self, body: Body, draft: Draft) -> int:
        if body.TYPE == ThreadForked.TYPE:
            raise PayloadRejected("a thread is forked where it begins", hint="fork it to get another")
        if draft.parent is not None:
            raise PayloadRejected(f"{body.TYPE} is a note and has no parent")
        field = NODE_FIELDS.get(body.TYPE)
        node = None if field is None else getattr(body, field)
        if node is not None:
            self._require(node)
        if isinstance(body, SummaryAdded):
            self._check_range(self._require(body.first), self._require(body.last))
        if draft.head is None:
            return self._head
        if body.TYPE != HeadMoved.TYPE:
            raise PayloadRejected(f"{body.TYPE} does not move the head", hint=f"append {HeadMoved.TYPE}")
        return self._require(self._resolve(draft.head))

    def _check_range(self, first: int, last: int) -> None:
        """Refuse what is no run of nodes; whether one is closed is judged where its path is known (`ranges`)."""
        base = self._base(last)
        if not (self._is_above(first, last) or (first <= base and self._log.tree.is_above(first, base))):
            raise BadRange(f"{first}..{last} is no run of nodes on one path")

    def _list(self, body: Body, draft: Draft) -> None:
        listing = listing_of(body, draft.output, draft.source, self._log.row)
        if listing is not None:
            self._log.check_attachments(listing.attachments)
            self.listing = merge(self.listing, listing)

    def _take(self, record: Record, body: Body, refs: Refs) -> None:
        position = record.position
        self.records.append(record)
        self._positions.append(position)
        self._position, self._head, self._hash = position, record.head, record.hash
        self.answers.append(Appended(self._log.row.thread, position, record.head, record.hash))
        if record.parent is not None:
            self._parents[position] = record.parent
            self._bases[position] = self._base(record.parent)
        if isinstance(body, ToolCalled):
            self._calls.setdefault(body.call, []).append(position)
        for word, call in refs:
            if word == "answers":
                self._results.setdefault(call, []).append(position)

    def _resolve(self, position: int | Member) -> int:
        if not isinstance(position, Member):
            return position
        if not 0 <= position.index < len(self._positions):
            raise PayloadRejected(
                f"member {position.index} is not before member {len(self._positions)} of the batch",
                hint="members refer to earlier ones, counted from 0",
            )
        return self._positions[position.index]

    def _resolve_refs(self, draft: Draft) -> Refs:
        if not draft.refs:
            return ()
        refs = tuple((word, self._resolve(position)) for word, position in draft.refs)
        for word, position in refs:
            if word not in REF_WORDS:
                raise PayloadRejected(f"reference {word!r:.40} is none of {', '.join(sorted(REF_WORDS))}")
            if not 0 < position <= self._position:
                raise NoSuchNode(f"position {position} is not in the thread", hint=f"the tip is {self._position}")
        return refs

    def _require(self, node: int) -> int:
        """Give a node back that the log, or this batch, has."""
        if node == self._head or node in self._parents:
            return node
        return self._log.tree.require(node)

    def _next_head(self, body: Body, parent: int, position: int) -> int:
        if parent == self._head:
            return position
        stays = isinstance(body, ToolReturned) or getattr(body, "response", None) is not None
        return self._head if stays else position

    # --- results ---

    def _answering(self, body: ToolReturned, parent: int, refs: Refs, *, stray: bool) -> Refs:
        """Add the nearest call of the result's id above `parent` that has no result on that path."""
        asked = next((position for word, position in refs if word == "answers"), None)
        if asked is not None and stray:
            return refs  # an importer has paired it already
        nearest = None
        for call in self._calls_above(body.call, parent):
            if asked is not None and call != asked:
                continue
            nearest = nearest or call
            if not self._is_answered(call, parent):
                return refs if asked else (*refs, ("answers", call))
        if stray:
            return refs
        if nearest is not None:
            raise DuplicateResult(
                f"call {body.call!r:.80} (position {nearest}) has its result already",
                hint="append it below the call (parent=...) to make a branch",
            )
        raise UnknownCall(f"no call {body.call!r:.80} on the path to {parent}", hint="record the call first")

    def _calls_above(self, call: str, leaf: int) -> Sequence[int]:
        pending = [node for node in reversed(self._calls.get(call, ())) if self._is_above(node, leaf)]
        return [*pending, *self._log.tree_with_calls.calls_named(call, self._base(leaf))]

    def _is_answered(self, call: int, leaf: int) -> bool:
        if any(self._is_above(result, leaf) for result in self._results.get(call, ())):
            return True
        return call <= self._log.position and self._log.tree.result_on(call, self._base(leaf)) is not None

    def _base(self, node: int) -> int:
        """Give the last node above `node`, or itself, that is stored already."""
        return self._bases.get(node, node)

    def _is_above(self, node: int, leaf: int) -> bool:
        """Whether a pending node lies on the path to `leaf`."""
        while leaf > node and leaf in self._parents:
            leaf = self._parents[leaf]
        return leaf == node


def listing_of(body: Body, output: bytes | None, source: Source, row: ThreadRow) -> Listing | None:
    """Give what an event changes in its thread's row."""
    used = attachments_of(body, output)
    if isinstance(body, InputAdded) and body.role == "user" and source.kind == "user" and not row.helper:
        preview = " ".join(" ".join(part.text for part in body.content if isinstance(part, Text)).split())
        return Listing(spoke=True, preview=preview[:PREVIEW_LENGTH] or None, attachments=used)
    if used:
        return Listing(attachments=used)
    if isinstance(body, TurnEnded):
        return Listing(turns_ended=1)
    if isinstance(body, ThreadTitled):
        return Listing(title=body.title)
    return None


def merge(a: Listing | None, b: Listing | None) -> Listing | None:
    """Give what two events change, one after the other."""
    if a is None or b is None:
        return a or b
    return Listing(
        a.spoke or b.spoke,
        a.turns_ended + b.turns_ended,
        b.title or a.title,
        b.preview or a.preview,
        a.attachments + b.attachments,
    )


def attachments_of(body: Body, output: bytes | None) -> tuple[str, ...]:
    """Give the names of the attachments that an event uses."""
    match body:
        case InputAdded():
            blocks: Sequence[Content] = body.content
        case ToolReturned(form="blocks") if output is not None:
            blocks = decode_blocks(output)
        case CallPrepared():
            return tuple(name for name in (body.profile, body.capture) if name)
        case CallObserved():
            return (body.capture,) if body.capture else ()
        case _:
            return ()
    return tuple(block.attachment for block in blocks if isinstance(block, Image | Document) and block.attachment)
