"""Writes what an importer says into one thread: places it, skips what is known, and closes what is complete.

Positions are foreseen: a batch is appended only where this writer left the log, so that ids of the source stand for
plain positions all along. When another writer was faster the run begins again, which costs time and doubles nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import msgspec

from .. import errors
from ..canonical import creation_id
from ..events import (
    Body,
    CallFinished,
    HeadMoved,
    ImportReported,
    RecordKept,
    SegmentAdded,
    Source,
    ThreadTitled,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnState,
)
from ..records import NAME_LENGTH_MAX, Draft, encode_content
from ..store import Store
from ..thread import Thread
from .base import IMPORTED, Compaction, Entry, Item, Place, Response, ThreadInfo, Title
from .known import Identity, Named, compose_key, key_part, parse_key
from .ranges import first_kept, range_above, summary_over
from .report import ImportReport
from .weave import ENDED, FINISHED, SELECTED, TITLED, Refs, Weave

BATCH_EVENTS = 512
BATCH_BYTES = 4 * 1024 * 1024
LARGE_BYTES = 1024 * 1024
"""Records over this are tried by themselves first: one that is too large must not take its batch along."""

ANSWERED_MAX = 1024

ROOT = 1

STATES: dict[str, TurnState] = {
    "max_tokens": "incomplete",
    "model_context_window_exceeded": "incomplete",
    "refusal": "error",
}
"""How a turn ends whose last response stopped so; all others are done."""

GOES_ON = frozenset({"tool_use", "pause_turn"})
"""What a response stops for that is not the last of its turn, even when no call is seen."""


class ThreadWriter:
    """One thread of the source on its way into the store."""

    def __init__(
        self, store: Store, scope: str, info: ThreadInfo, report: ImportReport, *, again: bool, dry_run: bool
    ) -> None:
        self.info = info
        self.thread_id = creation_id(scope, info.id)
        self.weave = Weave()
        self.appended = 0
        self.stored_count = 0
        """Events of this run that are in the store."""
        self.named = False
        """Whether the source speaks of it, or it was only looked into."""
        self._store = store
        self._scope = scope
        self._report = report
        self._dry_run = dry_run
        self._thread: Thread | None = None
        self._queue: list[Draft] = []
        self._bytes = 0
        self._stated_by: Named = ("", "", "")
        """The parts of the key under which that is recorded: of the record that stated it last."""
        self._answered: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """(call, result) of the last results of an exact tree, by call id."""
        self._stated: CallFinished | None = None
        """What the response at hand is known to be, as far as it is not recorded."""
        if store.backend.thread(self.thread_id) is not None:
            self._load()
        elif store.backend.is_deleted(self.thread_id) and not again:
            raise errors.ThreadDeleted(
                f"thread {self.thread_id[:12]} (source id {info.id}) was deleted from {store.place}",
                hint="import it anew with again=True, or --again",
            )
        else:
            self.weave.feed(None, ROOT, None, IMPORTED, None, (), met=False)

    def _load(self) -> None:
        """Learn what the store has of this thread."""
        thread = self._thread = self._store.thread(self.thread_id)
        thread.refresh()
        for event in thread.events(outputs=False):
            named = None if event.key is None else parse_key(event.key)
            self.weave.feed(event.parent, event.head, event.body, event.source, named, event.refs, met=False)

    @property
    def stored(self) -> Thread | None:
        """The thread with all that was taken so far; None while that is not stored, as on a dry run."""
        self.flush()
        return None if self._dry_run and self.appended else self._thread

    # --- records ---

    def take(self, entry: Entry) -> None:
        """Take a record that the thread does not have yet."""
        if len(entry.record.data) > LARGE_BYTES and not self._fits(entry):
            return
        self._turn_to(entry)
        parent = self._parent(entry)
        if entry.compaction is not None:
            self._compact(entry, entry.compaction, parent)
        else:
            self._say(entry, entry.items, parent)
        if entry.response is not None:
            self._state(entry.response, entry.identity)
        if entry.ends is not None:
            body = TurnEnded(node=self.weave.leaf or ROOT, state=entry.ends, error=entry.error)
            # A record that says nothing else is known by this note; beside others it goes under a key of its own.
            self._note(entry, body, entry.identity.named(ENDED if entry.items else ""))
        if entry.title is not None:
            self._entitle(entry, entry.title)
        if entry.selects is not None:
            self._select(entry, entry.selects)
        self._bytes += len(entry.record.data)
        if len(self._queue) >= BATCH_EVENTS or self._bytes >= BATCH_BYTES:
            self.flush()

    def remember(self, entry: Entry) -> None:
        """Take a record that the thread has: an earlier run may have stopped before it recorded the response."""
        if entry.response is not None:
            strand = self.weave.strands.get(entry.response.id)
            if strand is not None and not strand.finished:
                self._turn_to(entry)
                self.weave.current = strand
                self._state(entry.response, entry.identity)

    def _fits(self, entry: Entry) -> bool:
        try:
            for item in entry.items:
                if not callable(item.body):
                    encode_content(item.body, item.output)
        except errors.TooLarge as error:
            self._report.lose(entry.record.line, "too_large", error.message)
            return False
        return True

    def _parent(self, entry: Entry) -> int:
        """Find the node that a record follows."""
        before = self.weave.leaf or ROOT
        if entry.parent is Place.ROOT:
            return ROOT
        if entry.parent is Place.BEFORE:
            return before
        place = self.weave.known.place(key_part(entry.parent))
        if place is None:
            self._report.warn(entry.record.line, "missing_parent", f"{entry.parent} is not in the source")
        if not place:
            return before
        if entry.beside:
            return self.weave.tree.parent(place) or ROOT
        return place if entry.exact else self.weave.line_end(place)

    def _say(self, entry: Entry, items: tuple[Item, ...], parent: int, first: int = 0) -> None:
        for number, item in enumerate(items, first):
            body = item.body(self.resolve) if callable(item.body) else item.body
            refs: Refs = tuple((word, self.resolve(id_)) for word, id_ in item.refs)
            named = entry.identity.named(str(number) if number else "")
            if not body.NODE:
                refs = (*refs, ("about", parent)) if item.stands else refs
                self._append(entry, body, None, named, item.source, refs)
                continue
            if not entry.exact:
                body, parent, refs = self._in_line(entry, body, parent, refs)
            elif isinstance(body, ToolReturned):
                refs = (*refs, *self._pair(entry, body.call, parent))
            parent = self._append(entry, body, parent, named, item.source, refs, item.output)

    def _in_line(self, entry: Entry, body: Body, parent: int, refs: Refs) -> tuple[Body, int, Refs]:
        """Put parts of one response, and the results of its calls, below each other whatever the source says."""
        weave = self.weave
        if isinstance(body, ToolReturned):
            call = weave.calls.get(body.call)
            if call is None:
                self._report.warn(entry.record.line, "stray_result", f"no open call {body.call}")
            else:
                refs, parent = (*refs, ("answers", call)), self._end_of(call)
        if isinstance(body, SegmentAdded | ToolCalled | ToolReturned) and body.response is not None:
            strand = weave.strands.get(body.response)
            if strand is not None:
                parent = self._end_of(strand.last)
            body = msgspec.structs.replace(body, part=strand.parts if strand else 0)
        return body, parent, refs

    def _pair(self, entry: Entry, call: str, parent: int) -> Refs:
        """Give the call that a result of an exact tree answers; one without is reported, and left to the store."""
        weave, answered = self.weave, self._answered
        asked = weave.calls.get(call)
        if asked is None or not weave.tree.is_above(asked, parent):
            # A call may have a result on each of several branches.
            asked, answer = answered.get(call, (ROOT, ROOT))
            if weave.tree.is_above(answer, parent) or not weave.tree.is_above(asked, parent):
                self._report.warn(entry.record.line, "stray_result", f"no open call {call}")
                return ()
        answered[call] = (asked, weave.position + 1)
        if len(answered) > ANSWERED_MAX:
            answered.popitem(last=False)
        return (("answers", asked),)

    def _end_of(self, node: int) -> int:
        weave = self.weave
        return weave.leaf if weave.tree.is_above(node, weave.leaf) else weave.line_end(node)

    def resolve(self, id_: str) -> int:
        """Give the position of the node, or the summary, that came of a record.

        Raises:
            ImportFailed: the source has no such record before this one.
        """
        name = key_part(id_)
        found = self.weave.summaries.get(name) or self.weave.known.place(name)
        if not found:
            raise errors.ImportFailed(f"{id_} is not in the source, or names no node")
        return found

    # --- responses and turns ---

    def _turn_to(self, entry: Entry) -> None:
        """Close the response at hand when this record shows that nothing more of it comes."""
        current = self.weave.current
        if current is None or (entry.response is not None and entry.response.id == current.id):
            return
        bodies = [item.body for item in entry.items if not callable(item.body)]
        if any(body.NODE and not isinstance(body, ToolReturned) for body in bodies) or entry.compaction is not None:
            self.finish(complete=True)

    def _state(self, response: Response, identity: Identity) -> None:
        """Note what a record says of the response at hand; what is stated last counts."""
        current = self.weave.current
        if current is None or current.id != response.id or not response.call:
            return
        before = self._stated or current.stated or CallFinished()
        self._stated_by = identity.named(FINISHED)
        self._stated = CallFinished(
            response=response.id,
            provider=response.provider or before.provider,
            model=response.model or before.model,
            usage=response.usage or before.usage,
            stop=response.stop or before.stop,
            error=response.error or before.error,
        )
        if response.whole:
            self.finish(complete=True, ends=not response.goes_on)

    def finish(self, *, complete: bool, ends: bool = True) -> None:
        """Record the response at hand: what it cost and, when it is complete and calls nothing, the turn's end.

        With `ends` False no turn is taken to end with it.
        """
        strand, stated = self.weave.current, self._stated
        if strand is None:
            return
        if stated is not None and stated != strand.stated:
            about = strand.finished or strand.first
            self._append(None, stated, None, self._stated_by, IMPORTED, (("about", about),))
        known = strand.stated or stated
        stop = known.stop if known is not None else None
        is_last = not strand.has_calls and stop not in GOES_ON and (complete or stop is not None)
        if ends and is_last and strand.ended != strand.last:
            ended = TurnEnded(node=strand.last, state=STATES.get(stop or "", "done"))
            self._append(None, ended, None, (*strand.named[:2], ENDED), IMPORTED, ())
        if complete:
            self.weave.current = self._stated = None

    # --- notes ---

    def _note(self, entry: Entry | None, body: Body, named: Named, *, source: Source = IMPORTED) -> None:
        self._append(entry, body, None, named, source, ())

    def _entitle(self, entry: Entry, title: Title) -> None:
        text = "".join(char if char.isprintable() else " " for char in title.text)
        text = " ".join(text.split())[:NAME_LENGTH_MAX].rstrip()
        weave = self.weave
        if not text or text == weave.title or weave.titled_by in title.yields_to:
            return
        if entry.identity.id not in weave.entitled:
            self._note(entry, ThreadTitled(title=text), entry.identity.named(TITLED), source=Source("import", title.by))

    def _select(self, entry: Entry, chosen: str | Place) -> None:
        node = self.resolve(chosen) if isinstance(chosen, str) else ROOT
        named = entry.identity.named(SELECTED if entry.items else "")
        self._append(entry, HeadMoved(), None, named, IMPORTED, (), head=node)

    def _compact(self, entry: Entry, compaction: Compaction, parent: int) -> None:
        """Record a summary over the range that it covers, or what else a record of one can be."""
        weave = self.weave
        if compaction.first is not None and compaction.last is not None:
            run: tuple[int, int] | None = (self.resolve(compaction.first), self.resolve(compaction.last))
        else:
            keeps = first_kept(weave, self.stored, parent, compaction)
            if compaction.tail and keeps is None and not self._dry_run:
                self._report.warn(entry.record.line, "tail_not_found", "what is said again is not at the path's end")
            run = range_above(weave, parent, keeps, whole=compaction.whole)
        if run is None:
            self._report.warn(entry.record.line, "summary_of_nothing", "nothing of what it sums up is here")
            self._say(entry, entry.items, parent)
            return
        body: Body | None = summary_over(self.stored, *run, compaction)
        if body is None:
            self._report.warn(entry.record.line, "summary_not_closed", "its range would part a call from its result")
            body = RecordKept(format=self._scope, record=entry.record.data.decode(), line=entry.record.line)
        else:
            self._report.summaries += 1
        self._append(entry, body, None, entry.identity.named(), IMPORTED, (("about", parent),))
        self._say(entry, compaction.follows, parent, first=1)

    def close(self, reported: ImportReported | None) -> None:
        """End the thread's part of the import: the active node, and the report when anything was appended."""
        if reported is None:
            self.finish(complete=False)
            if self.appended and self.weave.leaf not in {0, self.weave.head}:
                self._append(None, HeadMoved(), None, None, IMPORTED, (), head=self.weave.leaf)
        elif self.appended:
            self._append(None, reported, None, None, IMPORTED, ())
        self.flush()

    # --- the store ---

    def _append(
        self,
        entry: Entry | None,
        body: Body,
        parent: int | None,
        named: Named | None,
        source: Source,
        refs: Refs,
        output: bytes | None = None,
        head: int | None = None,
    ) -> int:
        """Queue an event and foresee its position."""
        weave = self.weave
        draft = Draft(
            body=body,
            parent=parent,
            head=head,
            key=None if named is None else compose_key(named),
            source=source,
            occurred_at=None if entry is None else entry.occurred_at,
            refs=refs,
            output=output,
            stray=True,
        )
        self._queue.append(draft)
        self.appended += 1
        if parent is None:
            after = weave.head if head is None else head
        elif parent != weave.head and (isinstance(body, ToolReturned) or getattr(body, "response", None) is not None):
            after = weave.head
        else:
            after = weave.position + 1
        return weave.feed(parent, after, body, source, named, refs, met=True)

    def flush(self) -> None:
        """Append what is queued.

        Raises:
            Conflict: another writer appended to the thread meanwhile.
        """
        queue, self._queue, self._bytes = self._queue, [], 0
        if not queue or self._dry_run:
            return
        if self._thread is None:
            self._thread = self._create()
        before = self.weave.position - len(queue)
        appended = self._thread.append_many(queue, expected_position=before)
        if appended[0].position != before + 1:
            raise errors.Conflict(
                f"thread {self.thread_id[:12]}: another import was faster",
                actual=self._thread.position,
                hint="import again",
            )
        self.stored_count += len(queue)

    def _create(self) -> Thread:
        info = self.info
        names = ("title", "cwd", "labels", "origin", "kind", "parent")
        values: dict[str, Any] = {name: getattr(info, name) for name in names}
        return self._store.create_thread(
            **values,
            agent=info.agent,
            source_id=info.source_id or info.id,
            key=(self._scope, info.id),
            source=Source("import", self._scope),
            occurred_at=info.occurred_at,
        )
