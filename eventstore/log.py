"""One thread's log: placement, keys, retries, reads. All policy of appending is here; backends only keep rows.

Appending is optimistic: policy runs on what is known of the log, then one insert whose unique (thread, position) is the
lock. Who loses the race reads what is new and decides again.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress

import msgspec

from . import errors, records, tree_cache
from .backend import Backend, Clock, Entropy, KeyTaken, PositionTaken, Record, ThreadRow
from .canonical import attachment_hash
from .events import (
    Body,
    Event,
    ToolCalled,
    ToolReturned,
)
from .placement import Appended, Batch
from .records import Draft, Encoded
from .replacements import as_it_reads
from .tree import Tree

END = 2**62
"""A position behind every tip."""

SPARSE = 8
"""Of so many rows at most one wanted: they are cheaper to seek than to find by reading all."""

SPAN_GAP_MAX = 64
"""Rows between two wanted ones that are cheaper to read and drop than to seek over."""


TREE_EVENTS_MIN = 1024
"""So many events are read in some milliseconds; fewer are not worth a write."""

TREE_GROWTH = 8
"""The tree is kept anew when it grew by this part: all writes together stay in proportion to it."""


class Span(msgspec.Struct, frozen=True):
    """A closed run of positions that one thread's own rows hold."""

    thread: str
    first: int
    last: int


class Settings(msgspec.Struct, frozen=True):
    """What the edges hand in."""

    clock: Clock
    entropy: Entropy
    keep_outputs: bool = True


class Log:
    """The live state of one thread: its tip and, once needed, its tree. Shared by all handles on the thread."""

    def __init__(
        self,
        backend: Backend,
        row: ThreadRow,
        shared: tuple[Span, ...],
        settings: Settings,
        mutex: AbstractContextManager[object],
    ) -> None:
        self.row = row
        self.shared = shared
        self._backend = backend
        self._mutex = mutex
        self.settings = settings
        self.new_salt = records.Salts(settings.entropy)
        self._tree: Tree | None = None
        self._by_type: dict[str, array[int]] = {}
        """Positions by type, kept with the tree."""
        self._has_calls = False
        self._tree_kept_at = 0
        """As of which position the store keeps the tree."""
        self._take_tip()

    # --- state ---

    def _take_tip(self) -> None:
        tip = self._backend.tip(self.row.thread)
        if tip is None:
            raise errors.NoSuchThread(f"thread {self.row.thread} has no events")
        self.position, self.head, self.hash = tip.position, tip.head, tip.hash

    def refresh(self) -> None:
        """Learn what other writers appended."""
        with self._mutex:
            if self._tree is None:
                self._take_tip()
                return
            for record in self._backend.read(self.row.thread, self.position + 1, END, outputs=False):
                self._absorb(record)

    def _absorb(self, record: Record) -> None:
        if self._tree is not None:
            self._feed(self._tree, record)
            if self._has_calls and record.type == ToolCalled.TYPE and record.body is not None:
                self._tree.add_call(record.position, _call_id(record))
        self.position, self.head, self.hash = record.position, record.head, record.hash

    @property
    def spans(self) -> tuple[Span, ...]:
        """The runs of rows, of this thread and of those it shares, that make up the log."""
        return (*self.shared, Span(self.row.thread, self.row.origin_position + 1, self.position))

    def owner(self, position: int) -> str:
        """Give the thread whose rows hold a position."""
        return next((span.thread for span in self.shared if position <= span.last), self.row.thread)

    @property
    def tree(self) -> Tree:
        """The tree, without the calls' ids."""
        if self._tree is None:
            with self._mutex:
                self._tree = self._tree or self._grown()
        return self._tree

    def _grown(self) -> Tree:
        tree = self._kept_tree() or Tree()
        first = tree.position + 1
        for span in self.spans:
            for record in self._backend.read(span.thread, max(first, span.first), span.last, bodies=False):
                self._feed(tree, record)
        return tree

    def _kept_tree(self) -> Tree | None:
        """Give the tree that was kept in the store, where it is of this log."""
        value = self._backend.cached(tree_cache.name(self.row.thread))
        snapshot = None if value is None else tree_cache.unpacked(value)
        if snapshot is None or not 0 < snapshot.position <= self.position:
            return None
        at = next(self.read(snapshot.position, snapshot.position, bodies=False), None)
        if at is None or at.hash != snapshot.hash:
            return None
        self._by_type = snapshot.types
        self._tree_kept_at = snapshot.position
        return snapshot.tree

    def keep_tree(self, given: tuple[str, bytes]) -> None:
        """Keep the tree in the store for other processes, where much was grown since it last was.

        Args:
            given: name and content of the derived value without which nothing is kept any more.
        """
        with self._mutex:
            grown = self.position - self._tree_kept_at
            if self._tree is None or grown < max(TREE_EVENTS_MIN, self._tree_kept_at // TREE_GROWTH):
                return
            value = tree_cache.packed(tree_cache.Snapshot(self.position, self.hash, self._tree, self._by_type))
            self._tree_kept_at = self.position
            with suppress(errors.ConvlogError):  # it can be grown again
                self._backend.cache(tree_cache.name(self.row.thread), value, self.row.thread, given=given)

    def _feed(self, tree: Tree, record: Record) -> None:
        tree.add(record.position, record.parent)
        self._by_type.setdefault(record.type, array("q")).append(record.position)
        if record.type == ToolReturned.TYPE and record.refs is not None:
            for word, position in records.decode_refs(record.refs):
                if word == "answers":
                    tree.add_result(record.position, position)

    @property
    def tree_with_calls(self) -> Tree:
        """The tree, with the calls' ids."""
        tree = self.tree
        if not self._has_calls:
            with self._mutex:
                if not self._has_calls:
                    self._add_calls(tree)
        return tree

    def _add_calls(self, tree: Tree) -> None:
        for record in self.read(types=(ToolCalled.TYPE,), outputs=False):
            if record.body is not None:
                tree.add_call(record.position, _call_id(record))
        self._has_calls = True

    # --- appending ---

    def append(
        self, drafts: Sequence[Draft], *, expected_head: int | None = None, expected_position: int | None = None
    ) -> list[Appended]:
        """Append a batch, all or nothing.

        Raises:
            Conflict: head or position are not the expected ones.
            AppendError: a member was refused; nothing was written.
            BrokenRecord: the log's end cannot be read.
        """
        _check_keys(drafts)
        # A key is looked up only when something is wrong: the unique rule below finds a retry as surely. Only what a
        # fork shares with its origin no rule of its own rows guards.
        known = self._known(drafts) if self.shared else {}
        settled = False
        while len(known) < len(drafts):
            try:
                self._check_expected(expected_head, expected_position)
                batch = self.place(drafts, known)
                self._backend.append(self.row.thread, batch.records, batch.listing)
            except PositionTaken:
                self.learn(batch)
            except KeyTaken:
                self.refresh()
            except (errors.AppendError, errors.NotFound):
                # What was refused may be a retry, or rest on a state that another writer has moved on from.
                if settled:
                    raise
                settled = not self._is_behind()
            else:
                for record in batch.records:
                    self._absorb(record)
                return batch.answers
            known = self._known(drafts)
        return [known[index] for index in range(len(drafts))]

    def learn(self, batch: Batch) -> None:
        """Learn of the events that took a batch's place.

        Raises:
            BrokenRecord: what took it cannot be read; trying again would never end.
        """
        self.refresh()
        if self.position < batch.records[0].position:
            raise errors.BrokenRecord(
                f"position {self.position + 1} of thread {self.row.thread[:12]} is taken, but cannot be read",
                hint="run `convlog verify`",
            )

    def _is_behind(self) -> bool:
        before = self.position
        self.refresh()
        return self.position != before

    def _check_expected(self, expected_head: int | None, expected_position: int | None) -> None:
        if expected_head is not None and expected_head != self.head:
            raise errors.Conflict(
                f"thread {self.row.thread[:12]}: expected head {expected_head}, it is {self.head}",
                actual=self.head,
                hint="read what is new and decide again",
            )
        if expected_position is not None and expected_position != self.position:
            raise errors.Conflict(
                f"thread {self.row.thread[:12]}: expected position {expected_position}, it is {self.position}",
                actual=self.position,
                hint="read what is new and decide again",
            )

    def _known(self, drafts: Sequence[Draft]) -> dict[int, Appended]:
        """Answer the members whose keys are known, by index."""
        found: dict[int, Appended] = {}
        for index, draft in enumerate(drafts):
            record = None if draft.key is None else self._by_key(draft.key)
            if record is not None:
                self._check_same(draft, record, [answer.position for answer in found.values()])
                found[index] = Appended(self.row.thread, record.position, record.head, record.hash, replayed=True)
        return found

    def _by_key(self, key: str) -> Record | None:
        for span in (*self.shared, Span(self.row.thread, 1, END)):
            position = self._backend.position_of_key(span.thread, key)
            if position is not None and position <= span.last:
                for record in self._backend.read(span.thread, position, position):
                    return record
                raise errors.BrokenRecord(
                    f"position {position} of thread {span.thread[:12]} cannot be read", hint="run `convlog verify`"
                )
        return None

    def _check_same(self, draft: Draft, record: Record, positions: Sequence[int]) -> None:
        """Compare type, body and explicitly given parent; after a redaction the first event answers."""
        body = draft.body(positions) if callable(draft.body) else draft.body
        content = self.content(body, draft.output)
        same = content.type == record.type and (record.body is None or _is_same(content, record))
        if isinstance(draft.parent, int) and draft.parent != record.parent:
            same = False
        if not same:
            raise errors.KeyMismatch(
                f"key {draft.key} is taken by event {record.position} ({record.type}) with other content",
                hint="use a new key for new content",
            )

    def content(self, body: Body, output: bytes | None) -> Encoded:
        """Encode a body as this store keeps it."""
        if output is not None and not self.settings.keep_outputs and isinstance(body, ToolReturned):
            body = msgspec.structs.replace(body, bytes=len(output), digest=attachment_hash(output))
            output = None
        return records.encode_content(body, output)

    def check_attachments(self, names: Sequence[str]) -> None:
        """Refuse what speaks of attachments that the store has not.

        Raises:
            NoSuchAttachment: one is not there.
        """
        for name in names:
            if self._backend.attachment_size(name) is None:
                raise errors.NoSuchAttachment(f"no attachment {name[:80]!r}", hint="store its bytes first")

    def place(self, drafts: Sequence[Draft], known: Mapping[int, Appended] | None = None) -> Batch:
        """Give the records that these drafts make on top of the present state; nothing is written."""
        batch = Batch(self)
        for index, draft in enumerate(drafts):
            if known and index in known:
                batch.answer(known[index])
            else:
                batch.add(draft)
        return batch

    # --- reading ---

    def read(
        self,
        first: int = 1,
        last: int | None = None,
        *,
        types: Collection[str] | None = None,
        bodies: bool = True,
        outputs: bool = True,
    ) -> Iterator[Record]:
        """Iterate over the records of a closed run of positions, shared ones included.

        Content that was erased reads as what stands in its place.
        """
        last = self.position if last is None else min(last, self.position)
        if types is not None and self._tree is not None:
            positions = self.positions_of(types, first, last)
            if len(positions) * SPARSE < last - first:
                yield from self.read_positions(positions, bodies=bodies, outputs=outputs)
                return
        for span in self.spans:
            found = self._backend.read(
                span.thread,
                max(first, span.first),
                min(last, span.last),
                types=types,
                bodies=bodies,
                outputs=outputs,
            )
            if not bodies:
                yield from found
                continue
            for record in found:
                yield self._as_it_reads(span.thread, record, outputs=outputs) if record.salt is None else record

    def positions_of(self, types: Collection[str], first: int = 1, last: int | None = None) -> list[int]:
        """Give the positions of all events of some types in a closed run, ascending."""
        self.tree  # noqa: B018 - the positions come with it
        last = self.position if last is None else last
        found: list[int] = []
        for type_ in types:
            held = self._by_type.get(type_, array("q"))
            found.extend(held[bisect_left(held, first) : bisect_right(held, last)])
        return sorted(found)

    def _as_it_reads(self, owner: str, record: Record, *, outputs: bool) -> Record:
        record, _ = as_it_reads(self._backend, owner, record)
        return record if outputs else msgspec.structs.replace(record, output=None)

    def read_positions(
        self, positions: Sequence[int], *, bodies: bool = True, outputs: bool = True
    ) -> Iterator[Record]:
        """Iterate over the records at some positions (ascending), reading past what lies between."""
        start = 0
        while start < len(positions):
            end = start + 1
            while end < len(positions) and positions[end] - positions[end - 1] <= SPAN_GAP_MAX:
                end += 1
            wanted = iter(positions[start:end])
            next_wanted = next(wanted)
            for record in self.read(next_wanted, positions[end - 1], bodies=bodies, outputs=outputs):
                if record.position == next_wanted:
                    yield record
                    next_wanted = next(wanted, END)
            start = end

    def event(self, record: Record, *, bodies: bool = True) -> Event:
        """Give the event that a record of this log holds."""
        redacted_by = None
        owner = self.owner(record.position)
        if record.salt is None:
            redacted_by = self._backend.redacted_by(owner, record.position)
        return records.decode(owner, record, redacted_by, body=bodies)


def _is_same(content: Encoded, record: Record) -> bool:
    body = record.body
    if body is not None and record.version < content.version:
        # What an older program stored is the same content, whatever its schema version.
        body = records.encode_content(records.decode_body(record.type, record.version, body), None).body
    return content.body == body and content.output == record.output


def _check_keys(drafts: Sequence[Draft]) -> None:
    """Refuse ill-formed keys, and a key that two members of a batch have."""
    keys = [records.check_key(draft.key) for draft in drafts if draft.key is not None]
    if len(keys) > 1 and len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise errors.KeyMismatch(f"key {twice} twice in one batch")


class _CallId(msgspec.Struct):
    call: str


_decode_call = msgspec.json.Decoder(_CallId)


def _call_id(record: Record) -> str:
    return _decode_call.decode(record.body or b"{}").call
