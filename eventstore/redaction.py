"""Redaction: words, or whole contents, taken out of a thread for good.

Each thread that owns an erased event gets a `redacted` event (several, when replacements are large), which names the
erased events and holds what stands in their place. In the same transaction their bodies, outputs and salts go, the keys
of the prompts that showed them, kept captures of those prompts, attachments that hold the words, and all caches. What
stays verifies: the chain is over commitments, not contents.

What repeats the words goes with them: summaries over an erased node, promoted results, copies of source records, titles
and previews in the list of threads, and the same in forks. So does what would let somebody guess them again: plain
hashes of prompts and of source files.

Not reached: ids, keys, sources and types of events (headers are hashed), other threads that say the same, exports,
backups and copies of the file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from . import records
from .backend import Erasure, PositionTaken, ThreadRow
from .canonical import BODY_BYTES_MAX
from .errors import NoSuchNode, NothingMatches, PayloadRejected
from .events import Redacted, Redaction, Source
from .log import END, Log
from .placement import Appended
from .records import HOST, Draft
from .redaction_plan import Plan, Words

if TYPE_CHECKING:
    from .store import Store

EVENT_BYTES_SOFT = BODY_BYTES_MAX // 2
"""Replacements over this go into another `redacted` event."""


def redact(
    store: Store,
    thread: str,
    positions: Sequence[int] = (),
    *,
    match: str | None = None,
    replacement: str = "[redacted]",
    whole: bool = False,
    reason: str,
    source: Source = HOST,
) -> list[Appended]:
    """Take words, or whole contents, out of a thread.

    Args:
        store: where the thread lies.
        thread: its id.
        positions: the events meant; none: every occurrence in the whole log.
        match: the words, as they read, not as JSON spells them.
        replacement: what stands in their place.
        whole: erase everything that the events at `positions` say.
        reason: a short code, kept; no personal data.
        source: who asks for it.

    Returns:
        The `redacted` events: of each thread that owned something erased, forks first.

    Raises:
        NothingMatches: no event holds the words.
        NoSuchNode: a position is not in the thread.
        PayloadRejected: nothing, or both, of `match` and `whole`; a replacement that holds the words.
        StoreLocked: it is done, but a reader keeps the -wal alive, and the erased bytes in it.
    """
    _check_arguments(positions, match, replacement, reason, whole=whole)
    done: list[Appended] = []
    with store.mutex:
        log = store.log(thread)
        log.refresh()
        _check_positions(log, positions)
        words = Words(store.backend, match, replacement)
        for span in reversed(log.spans):
            # What is appended meanwhile is meant too.
            wanted = range(span.first, END if span.thread == thread else span.last + 1)
            asked = frozenset(position for position in positions if position in wanted) if positions else wanted
            if asked:
                done += _Redactor(store, words, reason, source).run(span.thread, asked)
    if not done:
        raise NothingMatches(
            f"nothing in thread {thread[:12]} holds these words", hint="they may be spelled otherwise, or be in a key"
        )
    store.backend.finish_erasing()
    return done


def _check_arguments(
    positions: Sequence[int], match: str | None, replacement: str, reason: str, *, whole: bool
) -> None:
    records.check_name(reason, "reason")
    if bool(match) == whole:
        raise PayloadRejected("either words to take out, or whole contents", hint="--match TEXT or --whole")
    if whole and not positions:
        raise PayloadRejected("whole contents of which events?", hint="name them; a whole thread is deleted instead")
    if match and (match in replacement or match in reason):
        raise PayloadRejected("the replacement, or the reason, holds the words that are to go")


def _check_positions(log: Log, positions: Sequence[int]) -> None:
    for position in positions:
        if not 0 < position <= log.position:
            raise NoSuchNode(f"position {position} is not in the thread", hint=f"the tip is {log.position}")


class _Redactor:
    """Erases in one thread's own rows, and in what repeats them elsewhere."""

    def __init__(self, store: Store, words: Words, reason: str, source: Source) -> None:
        self._store = store
        self._words = words
        self._reason = reason
        self._source = source

    def run(self, thread: str, wanted: Collection[int]) -> list[Appended]:
        """Redact; forks first, so that what was cut short is found again by what their origin still says."""
        done: list[Appended] = []
        # Alone: a prompt that another process makes between the forks and their origin would keep what goes.
        with self._store.alone():
            plan = self._plan(thread, wanted, {}, {})
            if plan.replaced:
                rows, secrets = self._redact_readers(plan, done)
                self._apply(plan, [plan.row, *rows], plan.secrets + secrets, done)
        return done

    def _plan(
        self,
        thread: str,
        wanted: Collection[int],
        shared: Mapping[int, str],
        foreign: Mapping[str, Mapping[int, str]],
    ) -> Plan:
        log = self._store.log(thread)
        log.refresh()
        plan = Plan(log, self._words, wanted, shared, foreign)
        plan.find(self._store.backend, self._store.row(thread))
        return plan

    def _redact_readers(self, plan: Plan, done: list[Appended]) -> tuple[list[ThreadRow], list[tuple[str, int]]]:
        """Redact in threads that repeat what goes; give what the erasure itself has to do for them."""
        thread = plan.log.row.thread
        old = self._store.row(thread)
        rows, secrets = [], []
        for reader, shared in self._readers(thread, plan.targets):
            other = self._plan(reader, (), shared, {} if shared else {thread: plan.targets})
            if shared:
                other.follow(old, plan.row)
            if other.replaced:
                self._apply(other, [other.row], other.secrets, done)
            else:
                rows.append(other.row)
                secrets += other.secrets
        return rows, secrets

    def _readers(self, thread: str, targets: Mapping[int, str]) -> Iterator[tuple[str, dict[int, str]]]:
        """Iterate over threads that may repeat what goes in this one, with that part of it that they share."""
        waiting = [(thread, max(targets))]
        while waiting:
            origin, last = waiting.pop()
            for row in self._store.backend.forks(origin):
                end = min(last, row.origin_position)
                shared = {position: type_ for position, type_ in targets.items() if position <= end}
                if shared:
                    yield row.thread, shared
                    waiting.append((row.thread, end))
        if self._store.row(thread).kind == "memory":
            yield from ((row.thread, {}) for row in self._store.threads() if row.thread != thread)

    def _apply(
        self, plan: Plan, rows: Sequence[ThreadRow], secrets: Sequence[tuple[str, int]], done: list[Appended]
    ) -> None:
        """Append the `redacted` events and erase, one transaction for each."""
        log = plan.log
        changed = tuple(row for row in rows if row != self._store.row(row.thread))
        for targets in _shares(plan.replaced):
            body = Redacted(targets=targets, reason=self._reason)
            batch = log.place([Draft(body=body, source=self._source)])
            erasure = Erasure(
                positions=tuple(target.position for target in targets),
                secrets=tuple(secrets),
                attachments=tuple(sorted(plan.unused)),
                rows=changed,
            )
            try:
                self._store.backend.redact(log.row.thread, batch.records, erasure)
            except PositionTaken:
                # Nobody else writes: what is there cannot be read.
                log.learn(batch)
                raise
            finally:
                log.refresh()
            done += batch.answers
        for row in changed:
            self._store.log(row.thread).row = row


def _shares(replaced: Mapping[int, Redaction]) -> Iterator[tuple[Redaction, ...]]:
    """Share out what stands in erased events' places, so that it fits into events."""
    share: list[Redaction] = []
    size = 0
    for _, target in sorted(replaced.items()):
        more = len(msgspec.json.encode(target))
        if share and size + more > EVENT_BYTES_SOFT:
            yield tuple(share)
            share, size = [], 0
        share.append(target)
        size += more
    if share:
        yield tuple(share)
