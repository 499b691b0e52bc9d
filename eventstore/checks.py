"""The rules that every log must keep, checked record by record in position order: what `verify` and import stand on.

Kinds of findings, all faults but the first two:
    redacted: content was erased, and a `redacted` event says so
    redacted_elsewhere: the event that says so lies behind the part that this place has of a shared log
    gap: positions are missing
    hash: a header does not have the stored hash, or is not chained to the one before
    commitment: body or output are not what the header committed to
    missing: body or salt is absent, and no `redacted` event says why
    erasure_incomplete: a `redacted` event names an event whose content is still there
    redaction: the table of redactions says otherwise than the events
    body: the bytes are no body of their type and version
    tree: the parent is missing, is a note, or does not befit the type; a first event of the wrong type
    head: the head after an event is not what the head rule gives
    refs: a reference does not point back
    result: a result answers no call above it, or a second one answers the same call on its path
    node: a position that must be a node's is not
    origin: a fork is not chained to its origin
    range: a summary's range leaves the path or cuts a call from its result
    covered: a summary's hash, or count, of the nodes it covers is another
    manifest: a prompt's record contradicts the log: its key, or the hash of a stream that it read
    attachment: a used attachment is missing, or its bytes are not those of its name
    listing: the thread's row says otherwise than its events
    cache: the tree that is kept for other processes is not the one that the events give
    unreadable: the backend cannot give the record
    engine: the engine's own check failed
    lost_tail: the tip kept elsewhere is not in the log
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from blake3 import blake3

from . import records
from .backend import Problem, Record, ThreadRow
from .canonical import commitment
from .chain import Chain
from .erasures import Erasures, stays
from .errors import BrokenRecord, PayloadRejected
from .events import (
    BODIES,
    CallPrepared,
    CaptureDropped,
    HeadMoved,
    Redacted,
    SummaryAdded,
    ThreadCreated,
    ThreadForked,
    ToolCalled,
    ToolReturned,
    Unknown,
)
from .listed import Listed
from .placement import LISTED, NODE_FIELDS, listing_of
from .tree import Tree

NOTES = frozenset({"redacted", "redacted_elsewhere"})
"""Kinds of findings that are no fault."""

GAP_MAX = 1_000_000
"""A wider gap is a damaged position, and what follows it has no place in the tree."""

HASH_BYTES = 32

_OTHER, _CALL, _LOST = range(3)
"""What is known of a position besides its place in the tree."""


_IS_NODE = {type_: body.NODE for type_, body in BODIES.items() if type_ != ThreadCreated.TYPE}

_SETS_HEAD = frozenset({HeadMoved.TYPE, ThreadForked.TYPE})


class Surroundings(msgspec.Struct, frozen=True):
    """What a log's rules ask of the place that the log lies in."""

    redacted_by: Callable[[str, int], int | None]
    """(thread, position) to the position of the event that erased it, as the place keeps it."""
    attachment_fault: Callable[[str], str | None]
    """An attachment's name to what is wrong with it, None for nothing."""


class LogCheck:
    """One log, fed record by record. Findings gather in `found`; whoever feeds takes them from there."""

    def __init__(self, row: ThreadRow, surroundings: Surroundings) -> None:
        self.row = row
        self._first = row.origin_position + 1
        self.found: list[Problem] = []
        self.used: dict[str, tuple[str, int]] = {}
        """Attachment names to the (thread, position) that used them first."""
        self.listed = Listed()
        self._around = surroundings
        self._chain = Chain()
        self.tree = Tree()
        """The tree as far as the records give it."""
        self.types: dict[str, array[int]] = {}
        """Positions by type, likewise."""
        self._hashes = bytearray(HASH_BYTES)
        self._kinds = bytearray(1)
        self._head = 0
        self._follows_gap = False
        self._adrift = False
        """A damaged position left no tree to check against."""
        self._ends: dict[str, int] = {}
        """Threads to the last position that was taken of them."""
        self._erasures = Erasures(self.report)
        self._shares_erased = False
        """Something was erased in the shared part that is checked elsewhere."""
        self._checks = self._checks_by_type()
        self._secretless: list[tuple[str, int]] = []
        self._captured: dict[int, str] = {}
        """Calls to the attachments of their captures, those dropped left out."""
        self._captures: dict[str, set[int]] = {}
        """The same the other way."""
        self._lacking: dict[tuple[int, str], tuple[str, str]] = {}
        """(position, attachment) to (thread, fault)."""

    @property
    def position(self) -> int:
        """The last position taken."""
        return self.tree.position

    @property
    def head(self) -> int:
        """The head after the last event."""
        return self._head

    @property
    def hash(self) -> bytes | None:
        """The stored hash of the last event."""
        return self._chain.hash

    @property
    def has_erasures(self) -> bool:
        """Whether some content is not there."""
        return self._erasures.found

    def drain(self) -> Iterator[Problem]:
        """Hand over what was found."""
        found, self.found[:] = self.found[:], []
        return iter(found)

    def report(self, kind: str, message: str, thread: str, position: int | None) -> None:
        """Add a finding."""
        self.found.append(Problem(kind, message, thread, position))

    def _checks_by_type(self) -> dict[str, list[Callable[[str, Record, Any], None]]]:
        """Give what the body of a type is checked for, besides that it can be read."""
        checks: dict[str, list[Callable[[str, Record, Any], None]]] = {
            ThreadCreated.TYPE: [self._open],
            ThreadForked.TYPE: [self._open, self._check_origin],
            SummaryAdded.TYPE: [self._check_summary],
            CallPrepared.TYPE: [self._check_manifest],
            Redacted.TYPE: [self._take_redacted],
            CaptureDropped.TYPE: [self._drop_capture],
        }
        for type_ in NODE_FIELDS:
            checks.setdefault(type_, []).append(self._check_node)
        for type_ in LISTED:
            checks.setdefault(type_, []).append(self._list)
        return checks

    # --- feeding ---

    def pass_over(self, position: int | None) -> None:
        """Take note of a record that cannot be read, so that it is no gap too."""
        if position == self.position + 1:
            self._fill(position)
        self._follows_gap = True

    def _fill(self, position: int) -> None:
        self.tree.add(position, None)
        self._hashes += bytes(HASH_BYTES)
        self._kinds.append(_LOST)

    def absorb(self, thread: str, record: Record) -> None:
        """Take a record that is checked elsewhere: of a shared log, when only the thread's own rows are in question."""
        if record.position == self.tree.position + 1 or self._cross(thread, record):
            self._chain.skip(record)
            self._plant(thread, record, quiet=True)
            self._head = record.head
            self._shares_erased = self._shares_erased or record.salt is None

    def feed(self, thread: str, record: Record) -> None:
        """Take the next record, and check it."""
        if record.position != self.tree.position + 1 and not self._cross(thread, record):
            return
        if self._follows_gap:
            self._chain.skip(record)
        elif (computed := self._chain.add(thread, record)) is not None:
            self.report(
                "hash",
                f"{record.type}: stored {record.hash.hex()[:16]}, its header gives {computed.hex()[:16]}",
                thread,
                record.position,
            )
        body = self._content(thread, record)
        parent = self._plant(thread, record)
        self._check_head(thread, record, body, parent)
        self._follows_gap = False
        if body is not None and type(body) is not Unknown:
            for check in self._checks.get(record.type, ()):
                check(thread, record, body)

    def _cross(self, thread: str, record: Record) -> bool:
        """Take note of a gap before a record; say whether the record has a place in the tree."""
        expected = self.position + 1
        gap = record.position - expected
        if not self._adrift:
            last = record.position - 1
            what = f"position {last} is missing" if gap == 1 else f"positions {expected} to {last} are missing"
            self.report("gap", what, thread, expected)
            self._follows_gap = True
            self._adrift = not 0 < gap <= GAP_MAX
        if self._adrift:
            return False
        for position in range(expected, record.position):
            self._fill(position)
        return True

    # --- content ---

    def _content(self, thread: str, record: Record) -> Any:
        """Check the content against the commitment, and decode the body; None where there is none to be read."""
        salt, body = record.salt, record.body
        if salt is None or body is None:
            self._erasures.miss(thread, record)
            return None
        if commitment(salt, body, record.output) != record.commitment:
            self.report("commitment", f"{record.type}: body or output were changed", thread, record.position)
        try:
            return records.decode_body(record.type, record.version, body)
        except (BrokenRecord, RecursionError) as error:
            self.report("body", str(error), thread, record.position)
            return None

    # --- the tree ---

    def _plant(self, thread: str, record: Record, *, quiet: bool = False) -> int | None:
        """Take a record into the tree and give its parent, where it has one that can be."""
        position, parent, tree = record.position, record.parent, self.tree
        self._ends[thread] = position
        if parent is not None and not (parent < position and tree.is_node(parent)):
            if not quiet and not (0 < parent < position and self._kinds[parent] == _LOST):
                self.report("tree", f"{record.type}: its parent {parent} is no node before it", thread, position)
            parent = 1 if position > 1 else None
        tree.add(position, parent)
        self.types.setdefault(record.type, array("q")).append(position)
        hash_ = record.hash
        self._hashes += hash_ if len(hash_) == HASH_BYTES else bytes(HASH_BYTES)
        self._kinds.append(_CALL if record.type == ToolCalled.TYPE else _OTHER)
        if not quiet and (
            _IS_NODE.get(record.type) is not (record.parent is not None) or position == 1 or position == self._first
        ):
            self._check_type(thread, record)
        if record.refs is not None:
            self._take_refs(thread, record, parent, quiet=quiet)
        return parent

    def _check_type(self, thread: str, record: Record) -> None:
        position, type_ = record.position, record.type
        known = BODIES.get(type_)
        is_node = record.parent is not None or position == 1
        if known is not None and is_node != known.NODE and type_ != ThreadCreated.TYPE:
            what = "a note with a parent" if is_node else "a node without a parent"
            self.report("tree", f"{type_}: {what}", thread, position)
        if (type_ == ThreadCreated.TYPE) != (position == 1):
            self.report(
                "tree", f"{type_} at position {position}: a log has one root, its first event", thread, position
            )
        elif position == self._first > 1 and thread == self.row.thread and type_ != ThreadForked.TYPE:
            self.report("tree", f"{type_} as a fork's first event", thread, position)

    def _take_refs(self, thread: str, record: Record, parent: int | None, *, quiet: bool) -> None:
        position = record.position
        try:
            refs = records.decode_refs(record.refs)
        except BrokenRecord as error:
            self.report("refs", f"{record.type}: {error}", thread, position)
            return
        for word, about in refs:
            if not 0 < about < position:
                self.report("refs", f"{record.type} {word} position {about}, not before it", thread, position)
            elif word == "answers" and record.type == ToolReturned.TYPE and parent is not None:
                if not quiet:
                    self._check_answer(thread, position, parent, about)
                self.tree.add_result(position, about)

    def _check_answer(self, thread: str, position: int, parent: int, call: int) -> None:
        tree = self.tree
        if self._kinds[call] != _CALL or not tree.is_above(call, parent):
            self.report("result", f"it answers position {call}, which is no call above it", thread, position)
        elif (other := tree.result_on(call, parent)) is not None:
            self.report(
                "result", f"the call at {call} has its result on this path already, at {other}", thread, position
            )

    def _check_head(self, thread: str, record: Record, body: Any, parent: int | None) -> None:
        if parent == self._head and record.head == record.position and not self._follows_gap:
            self._head = record.position  # as it mostly is
            return
        expected = self._expected_head(record, body, parent)
        if record.head != expected:
            self.report(
                "head", f"{record.type}: the head after it is {record.head}, not {expected}", thread, record.position
            )
        self._head = expected

    def _expected_head(self, record: Record, body: Any, parent: int | None) -> int:
        """Apply the rule of `placement` again."""
        position, previous = record.position, self._head
        if position == 1 or self._follows_gap:
            return 1 if position == 1 else record.head
        if record.parent is None:
            moved = record.type in _SETS_HEAD and self.tree.is_node(record.head)
            return record.head if moved else previous
        if parent == previous:
            return position
        staying = stays(record.type, body)
        if staying is None and record.head in {previous, position}:
            self._erasures.leave_undecided(position, stayed=record.head == previous)
            return record.head
        return previous if staying else position

    # --- what bodies say ---

    def _check_node(self, thread: str, record: Record, body: Any) -> None:
        field = NODE_FIELDS[record.type]
        node = getattr(body, field)
        if node is not None and not (node < record.position and self.tree.is_node(node)):
            self.report("node", f"{record.type}: {field} {node} is no node before it", thread, record.position)

    def _open(self, thread: str, record: Record, body: Any) -> None:
        if thread == self.row.thread:
            self.listed.open(body, record)

    def _check_origin(self, thread: str, record: Record, body: ThreadForked) -> None:
        before = record.position - 1
        if body.position != before or body.hash != self._hash_at(before).hex():
            self.report("origin", f"position {body.position} of its origin has another hash", thread, record.position)

    def _drop_capture(self, thread: str, _record: Record, body: CaptureDropped) -> None:
        name = self._captured.pop(body.call, None)
        if name is None:
            return
        self._lacking.pop((body.call, name), None)
        others = self._captures[name]
        others.discard(body.call)
        if self.used.get(name) == (thread, body.call):
            del self.used[name]
            if others:
                # Another call captured the same bytes, and keeps them.
                self.used[name] = thread, next(iter(others))

    def _hash_at(self, position: int) -> bytes:
        return bytes(self._hashes[position * HASH_BYTES : (position + 1) * HASH_BYTES])

    def _list(self, thread: str, record: Record, body: Any) -> None:
        """Take what the event changes in the thread's row, and the attachments that it uses."""
        position = record.position
        try:
            listing = listing_of(body, record.output, records.decode_source(record.source), self.row)
        except (PayloadRejected, msgspec.MsgspecError) as error:
            self.report("body", f"{record.type}: {error}", thread, position)
            return
        if listing is None:
            return
        for name in listing.attachments:
            self.used.setdefault(name, (thread, position))
            if name == getattr(body, "capture", None):
                self._captured[position] = name
                self._captures.setdefault(name, set()).add(position)
                if thread != self.row.thread:
                    continue  # its own thread may have dropped it since
            if (fault := self._around.attachment_fault(name)) is not None:
                self._lacking[position, name] = (thread, fault)
        if thread == self.row.thread:
            self.listed.add(position, listing)

    def _check_summary(self, thread: str, record: Record, body: SummaryAdded) -> None:
        position, first, last, tree = record.position, body.first, body.last, self.tree
        nodes = 0 < first <= last < position and tree.is_node(first) and tree.is_node(last)
        if not nodes or not tree.is_above(first, last):
            self.report("range", f"{first}..{last} is no run of nodes on one path", thread, position)
            return
        covered = [node for node in tree.path(last) if node >= first]
        inside = set(covered)
        cut = next((call for call in covered if self._kinds[call] == _CALL and self._is_cut(call, inside)), None)
        if cut is None:
            # A result whose call was not taken in.
            cut = next((node for node in covered if (tree.answered(node) or node) not in inside), None)
        if cut is not None:
            self.report("range", f"{first}..{last} cuts a call from its result at {cut}", thread, position)
        digest = blake3(b"".join(map(self._hash_at, covered))).hexdigest()
        if body.covered and body.covered != digest:
            self.report("covered", f"the nodes of {first}..{last} have another hash", thread, position)
        elif body.nodes and body.nodes != len(covered):
            self.report("covered", f"{first}..{last} has {len(covered)} nodes, not {body.nodes}", thread, position)

    def _is_cut(self, call: int, inside: set[int]) -> bool:
        results = self.tree.results(call)
        return bool(results) and inside.isdisjoint(results)

    def _check_manifest(self, thread: str, record: Record, body: CallPrepared) -> None:
        position = record.position
        if record.secret is None:
            # It went with something erased, here or in another thread that it read.
            if all(stream == thread for stream, _, _ in body.inputs):
                self._secretless.append((thread, position))
        elif blake3(record.secret).hexdigest() != body.digest_key_hash:
            self.report("manifest", "its key is not the one that it names", thread, position)
        for stream, at, hash_ in body.inputs:
            if stream != thread or (0 < at < position and self._kinds[at] == _LOST):
                continue
            if not (0 < at < position and self._hash_at(at).hex() == hash_):
                self.report("manifest", f"position {at}, which it read, has another hash", thread, position)

    # --- erasure, and the end ---

    def _take_redacted(self, thread: str, record: Record, _body: Redacted) -> None:
        self.take_redaction(thread, record.position, record.body or b"")

    def take_redaction(self, thread: str, by: int, body: bytes) -> None:
        """Take what a `redacted` event of a thread says; it may lie behind the part of that thread that is shared."""
        self._erasures.take(thread, by, body, self.position)

    def finish(self) -> None:
        """Judge what only the whole log can say."""
        self._erasures.judge(self._ends, self._around.redacted_by)
        if not (self._erasures.named or self._erasures.elsewhere or self._shares_erased):
            for thread, position in self._secretless:
                self.report("manifest", "its key is missing, and nothing was redacted", thread, position)
        for (position, name), (thread, fault) in self._lacking.items():
            self.report("attachment", f"{name[:16]} {fault}", thread, position)
