"""Whether a store still holds what was put into it: findings, all of them, each with its thread, position and kind.

Three levels, each holding the ones before it:
    quick  every log's last header has its hash, and the list names its thread
    chain  every header has its hash and is chained to the one before; no position is missing
    full   bodies and outputs are what the headers committed to and can be read; tree, head, references, results,
           ranges, prompts' keys, attachments and the list of threads agree with the events; the engine checks itself

A chain does not see a lost tail. Who keeps a tip's hash elsewhere gives it, and the log must contain it.
The kinds of findings are those of `checks`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

import msgspec
from blake3 import blake3

from . import tree_cache
from .backend import Backend, Problem, Record, ThreadRow
from .chain import Chain
from .checks import NOTES, LogCheck, Surroundings
from .errors import ConvlogError, NoSuchThread
from .events import Redacted
from .listed import check_cursors, check_listing
from .log import END, Span
from .store import STORE_THREAD, Store

Level = Literal["quick", "chain", "full"]

PAGE_RECORDS = 256
"""How far a damage is looked at record by record, before the fast way is tried again."""

ATTEMPTS_MAX = 4
"""How often a log with faults is looked at again when others wrote to it meanwhile."""

_DAMAGE = (ConvlogError, TypeError, ValueError, AttributeError, KeyError, IndexError, msgspec.MsgspecError)
"""What reading and judging damaged rows can raise: columns may hold anything."""


def is_fault(problem: Problem) -> bool:
    """Whether a finding is a fault, and no mere note."""
    return problem.kind not in NOTES


def verify_thread(store: Store, thread: str, level: Level = "full", *, tip: bytes | None = None) -> Iterator[Problem]:
    """Check one thread's whole log, what it shares with its origin included.

    Args:
        store: where it lies.
        thread: its id.
        level: how much to check.
        tip: hash of an event that the log must contain, kept elsewhere.

    Raises:
        NoSuchThread: there is none of this id.
    """
    backend = store.backend
    row = backend.thread(thread)
    if row is None:
        raise NoSuchThread(f"no thread {thread} in {store.place}")
    yield from _verify(backend, row, level, Attachments(backend), shared=True, tip=tip)


def verify_store(store: Store, level: Level = "full") -> Iterator[Problem]:
    """Check every thread's own rows and their link to what they share; then what is of no one thread."""
    backend = store.backend
    attachments = Attachments(backend)
    for row in _rows(backend):
        if isinstance(row, Problem):
            yield row
        else:
            yield from _verify(backend, row, level, attachments, shared=False)
    if level != "full":
        return
    try:
        yield from attachments.unmet()
        yield from backend.check()
    except _DAMAGE as error:
        yield Problem("engine", str(error))


def _rows(backend: Backend) -> Iterator[ThreadRow | Problem]:
    before = None
    seen: set[str] = set()
    try:
        own = backend.thread(STORE_THREAD)
        seen.add(STORE_THREAD)
        yield from [own] if own else []
        while page := backend.threads(before=before):
            yield from page
            seen.update(row.thread for row in page)
            before = page[-1].touched
    except _DAMAGE:
        yield from _rows_by_events(backend, seen)


def _rows_by_events(backend: Backend, seen: set[str]) -> Iterator[ThreadRow | Problem]:
    """Find the threads through their events, when the list of threads cannot be read."""
    cursor = 0
    while True:
        found, cursor = backend.changes(cursor, 1000)
        for thread in dict.fromkeys(thread for thread, _ in found):
            if thread in seen:
                continue
            seen.add(thread)
            try:
                row = backend.thread(thread)
            except _DAMAGE as error:
                yield Problem("unreadable", f"its row in the list of threads: {error}", thread)
            else:
                yield from [row] if row else []
        if not found:
            return


def _verify(
    backend: Backend,
    row: ThreadRow,
    level: Level,
    attachments: Attachments,
    *,
    shared: bool,
    tip: bytes | None = None,
) -> Iterator[Problem]:
    """Check one log; when others wrote meanwhile, what looks like a fault is looked at again."""
    found: list[Problem] = []
    for _ in range(ATTEMPTS_MAX):
        before = _state(backend, row)
        found = list(_verify_once(backend, row, level, attachments, shared=shared, tip=tip))
        if not any(map(is_fault, found)):
            break
        after = _state(backend, row)
        if not after and _is_deleted(backend, row.thread):
            return  # meanwhile
        if after == before or not after:
            break
        row, _ = after[0]
        attachments.look_again()
    yield from found


def _is_deleted(backend: Backend, thread: str) -> bool:
    try:
        return backend.is_deleted(thread)
    except _DAMAGE:
        return False


def _state(backend: Backend, row: ThreadRow) -> list[tuple[ThreadRow, bytes]]:
    """Give the row and the last hash of a thread and of those that it shares; none when it is not there."""
    found: list[tuple[ThreadRow, bytes]] = []
    name: str | None = row.thread
    try:
        while name is not None and (now := backend.thread(name)) is not None:
            last = backend.tip(name)
            found.append((now, b"" if last is None else last.hash))
            name = now.origin
    except _DAMAGE:
        return [(row, b"")]
    return found


def _verify_once(
    backend: Backend,
    row: ThreadRow,
    level: Level,
    attachments: Attachments,
    *,
    shared: bool,
    tip: bytes | None,
) -> Iterator[Problem]:
    try:
        spans = _spans(backend, row)
    except _DAMAGE as error:
        yield Problem("unreadable", f"its log cannot be found: {error}", row.thread)
        return
    match level:
        case "quick":
            yield from _verify_tip(backend, row, spans)
        case "chain":
            yield from _verify_chain(
                backend, spans if shared else spans[-1:], _hash_before(backend, spans, shared=shared)
            )
        case "full":
            yield from _verify_full(backend, row, spans, attachments, shared=shared)
    if tip is not None and not _contains(backend, spans, tip):
        yield Problem(
            "lost_tail", f"no event has the hash {tip.hex()[:16]}: the log was shortened or written again", row.thread
        )


def _spans(backend: Backend, row: ThreadRow) -> list[Span]:
    """Give the runs of rows that make up a log; the last is the thread's own."""
    last = backend.tip(row.thread)
    if last is None:
        raise NoSuchThread("it has no events")
    spans = [Span(row.thread, row.origin_position + 1, last.position)]
    while row.origin is not None:
        origin = backend.thread(row.origin)
        if origin is None:
            raise NoSuchThread(f"its origin {row.origin} is missing")
        end = min(row.origin_position, spans[0].first - 1)
        if end > origin.origin_position:
            spans.insert(0, Span(origin.thread, origin.origin_position + 1, end))
        row = origin
    return spans


def _hash_before(backend: Backend, spans: Sequence[Span], *, shared: bool) -> bytes | None:
    """Give the hash that the first header to be checked is chained to."""
    if shared or len(spans) == 1:
        return None
    before = spans[-2]
    record = next(backend.read(before.thread, before.last, before.last, bodies=False), None)
    return None if record is None else record.hash


def _contains(backend: Backend, spans: Sequence[Span], tip: bytes) -> bool:
    # Mostly it is the last one.
    last = backend.tip(spans[-1].thread)
    if last is not None and last.hash == tip:
        return True
    found = (record for span in spans for record in _readable(backend, span, bodies=False))
    return any(isinstance(record, Record) and record.hash == tip for record in found)


def _readable(backend: Backend, span: Span, *, bodies: bool) -> Iterator[Record | Problem]:
    """Iterate over records, and over a finding for each that cannot be read."""
    first = span.first
    while first <= span.last:
        try:
            for record in backend.read(span.thread, first, span.last, bodies=bodies):
                yield record
                first = record.position + 1
        except _DAMAGE:
            # Somewhere in this page; one by one, what can be read is.
            try:
                yield from backend.read(span.thread, first, first, bodies=bodies)
            except _DAMAGE as error:
                yield Problem("unreadable", str(error), span.thread, first)
            first += 1
        else:
            return


# --- levels ---


def _verify_tip(backend: Backend, row: ThreadRow, spans: Sequence[Span]) -> Iterator[Problem]:
    own = spans[-1]
    chain, readable = Chain(), True
    for span, position in _last_two(spans):
        found = next(_readable(backend, Span(span.thread, position, position), bodies=False), None)
        if isinstance(found, Record) and (position < own.last or not readable):
            chain.skip(found)
        elif isinstance(found, Record):
            yield from _compare(chain, own.thread, found)
        else:
            readable = False
            yield found or Problem("gap", f"position {position} is missing", span.thread, position)
    yield from check_cursors(backend, row, spoke_at=0)


def _last_two(spans: Sequence[Span]) -> list[tuple[Span, int]]:
    last = spans[-1].last
    return [(span, position) for span in spans for position in (last - 1, last) if span.first <= position <= span.last]


def _verify_chain(backend: Backend, spans: Sequence[Span], previous: bytes | None) -> Iterator[Problem]:
    chain = Chain(previous)
    for span in spans:
        walk = _Walk(backend, chain, span)
        while walk.expected <= span.last:
            walk.run()
            yield from walk.look()


class _Walk:
    """Along one run of headers: fast while all is right, record by record where it is not."""

    def __init__(self, backend: Backend, chain: Chain, span: Span) -> None:
        self.expected = span.first
        self._backend = backend
        self._chain = chain
        self._span = span
        self._lost = False
        """What the next header is chained to is not there."""

    def run(self) -> None:
        """Go as far as everything is right."""
        span, extend = self._span, self._chain.extend
        try:
            for page in self._backend.headers(span.thread, self.expected, span.last):
                if self._lost or not extend(span.thread, self.expected, page):
                    return
                self.expected += len(page)
        except _DAMAGE:
            return

    def look(self) -> Iterator[Problem]:
        """Go on record by record for a page, where something is wrong."""
        span = self._span
        if self.expected > span.last:
            return
        rest = Span(span.thread, self.expected, span.last)
        for record in islice(_readable(self._backend, rest, bodies=False), PAGE_RECORDS):
            try:
                yield from self._step(record)
            except _DAMAGE as error:
                yield _misfit(error, span.thread, self.expected - 1)
        if self.expected == rest.first:
            yield Problem("gap", "there are no more records", span.thread, self.expected)
            self.expected = span.last + 1

    def _step(self, record: Record | Problem) -> Iterator[Problem]:
        thread = self._span.thread
        if isinstance(record, Problem):
            yield record
            self.expected, self._lost = self.expected + 1, True
        elif record.position == self.expected and not self._lost:
            self.expected += 1
            if self._chain.add(thread, record) is not None:
                yield _mismatch(thread, record)
        else:
            if record.position != self.expected:
                yield Problem("gap", f"no record before position {record.position}", thread, self.expected)
            self._chain.skip(record)
            self.expected, self._lost = record.position + 1, False


def _misfit(error: Exception, thread: str, position: int) -> Problem:
    return Problem("unreadable", f"a column holds what it cannot: {error}", thread, position)


def _compare(chain: Chain, thread: str, record: Record) -> Iterator[Problem]:
    try:
        if chain.add(thread, record) is not None:
            yield _mismatch(thread, record)
    except _DAMAGE as error:
        yield _misfit(error, thread, record.position)


def _mismatch(thread: str, record: Record) -> Problem:
    return Problem("hash", f"{record.type}: the header does not have its hash", thread, record.position)


def _verify_full(
    backend: Backend, row: ThreadRow, spans: Sequence[Span], attachments: Attachments, *, shared: bool
) -> Iterator[Problem]:
    check = LogCheck(row, Surroundings(backend.redacted_by, attachments.fault))
    for span in spans:
        is_own = span is spans[-1]
        yield from _feed(backend, check, span, absorb=not (is_own or shared))
        if shared and not is_own:
            for note in backend.read(span.thread, span.last + 1, END, types=(Redacted.TYPE,)):
                check.take_redaction(span.thread, note.position, note.body or b"")
    check.finish()
    yield from check.drain()
    try:
        listed = None if check.has_erasures else check.listed
        yield from check_listing(backend, row.thread, listed, spans[-1].last)
        yield from _check_uses(backend, row, check)
        yield from _check_kept_tree(backend, row, check)
    except _DAMAGE as error:
        yield Problem("unreadable", f"its listing cannot be judged: {error}", row.thread)


def _feed(backend: Backend, check: LogCheck, span: Span, *, absorb: bool) -> Iterator[Problem]:
    thread, found, take = span.thread, check.found, check.absorb if absorb else check.feed
    for record in _readable(backend, span, bodies=not absorb):
        if isinstance(record, Problem):
            check.pass_over(record.position)
            yield record
            continue
        try:
            take(thread, record)
        except _DAMAGE as error:
            check.pass_over(record.position)
            yield _misfit(error, thread, record.position)
        if found:
            yield from check.drain()


# --- attachments ---


def _check_uses(backend: Backend, row: ThreadRow, check: LogCheck) -> Iterator[Problem]:
    own = [(name, position) for name, (thread, position) in check.used.items() if thread == row.thread]
    kept = set(backend.attachments(row.thread)) if own else set()
    for name, position in own:
        if name not in kept and backend.attachment_size(name) is not None:
            yield Problem("attachment", f"{name[:16]} is not kept for this thread", row.thread, position)


def _check_kept_tree(backend: Backend, row: ThreadRow, check: LogCheck) -> Iterator[Problem]:
    """Compare the tree, and the positions by type, that are kept for other processes with what the rows give."""
    value = backend.cached(tree_cache.name(row.thread))
    snapshot = None if value is None else tree_cache.unpacked(value)
    if snapshot is None:
        return
    ends = (
        (type_, positions[: bisect_right(positions, snapshot.position)]) for type_, positions in check.types.items()
    )
    types = {type_: positions for type_, positions in ends if positions}
    if types != snapshot.types or not snapshot.tree.begins_like(check.tree):
        yield Problem("cache", "the tree that is kept beside the events is not theirs", row.thread)


class Attachments:
    """The attachments of a place, each read once."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._faults: dict[str, str | None] = {}

    def look_again(self) -> None:
        """Forget the faults found so far."""
        self._faults = {name: fault for name, fault in self._faults.items() if fault is None}

    def fault(self, name: str) -> str | None:
        """Give what is wrong with an attachment; None for nothing."""
        if name not in self._faults:
            try:
                self._faults[name] = self._judge(name)
            except _DAMAGE as error:
                self._faults[name] = f"cannot be read: {error}"
        return self._faults[name]

    def _judge(self, name: str) -> str | None:
        size = self._backend.attachment_size(name)
        if size is None:
            return "is missing"
        hasher = blake3()
        for chunk in self._backend.attachment(name):
            hasher.update(chunk)
            size -= len(chunk)
        return None if hasher.hexdigest() == name and size == 0 else "does not hold the bytes of its name"

    def unmet(self) -> Iterator[Problem]:
        """Find what is wrong with those that no log spoke of."""
        for name in self._backend.attachments():
            if name not in self._faults and (fault := self.fault(name)) is not None:
                yield Problem("attachment", f"{name[:16]} {fault}")
