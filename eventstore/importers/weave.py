"""What an importer must know of a thread to go on with it: a fold over its events, stored and planned alike.

Because everything that decides where a record goes is folded from events, a source that comes in two parts ends up as
if it had come in one.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict

import msgspec

from ..events import (
    Body,
    CallFinished,
    HeadMoved,
    ImportReported,
    SegmentAdded,
    Source,
    SummaryAdded,
    ThreadForked,
    ThreadTitled,
    ToolCalled,
    ToolReturned,
    TurnEnded,
)
from ..tree import Tree
from .known import Known, Named

Refs = tuple[tuple[str, int], ...]

RESPONSES_MAX = 64
"""Responses to which further records may still come."""

FINISHED, ENDED, TITLED, SELECTED = "finished", "ended", "titled", "selected"
"""Suffixes of the keys of notes that the writer adds to what a record says."""

ADDED = frozenset({FINISHED, ENDED, TITLED, SELECTED})


class Strand:
    """One response's nodes: a line in the tree."""

    __slots__ = ("ended", "finished", "first", "has_calls", "id", "last", "named", "parts", "stated")

    def __init__(self, id_: str, first: int) -> None:
        self.id = id_
        self.named: Named = ("", "", "")
        """The parts of the key of its last event."""
        self.first = self.last = first
        self.parts = 0
        self.has_calls = False
        self.stated: CallFinished | None = None
        """What was recorded of it last."""
        self.finished = 0
        """Position of the first note that recorded it."""
        self.ended = 0
        """The node at which a turn was noted to end with it."""


class Weave:
    """A thread as its importer sees it."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.known = Known()
        self.leaf = 0
        """The node that the source's last record came to."""
        self.head = 1
        self.calls: dict[str, int] = {}
        """Calls without a result, by id."""
        self.strands: OrderedDict[str, Strand] = OrderedDict()
        self.current: Strand | None = None
        """The response that the source was last at, until something else follows it."""
        self.summaries: dict[str, int] = {}
        self.covered = 0
        """The last node that a summary covers."""
        self.title: str | None = None
        self.titled_by: str | None = None
        self.entitled: set[str] = set()
        """Records that gave the thread a title: what somebody called it later stays."""
        self.torn = b""
        """The cut line at the end of what was read last."""
        self._next = array("q", [0])
        """The node that goes on with a node's line, by position: another part of the response, or a result."""

    @property
    def position(self) -> int:
        """The last event's position."""
        return self.tree.position

    def line_end(self, node: int) -> int:
        """Follow a response and its results down to the last of them."""
        while self._next[node]:
            node = self._next[node]
        return node

    def feed(
        self,
        parent: int | None,
        head: int,
        body: Body | None,
        source: Source,
        named: Named | None,
        refs: Refs,
        *,
        met: bool,
    ) -> int:
        """Take the next event and give its position; `named` are the parts of its key, when an importer made it."""
        position = self.tree.position + 1
        self.tree.add(position, parent)
        self._next.append(0)
        self.head = head
        is_node = parent is not None
        if named is not None and named[2] not in ADDED:
            place = position if is_node else next((node for word, node in refs if word == "about"), 0)
            self.known.add(named[0], named[1], place, met=met)
            if is_node:
                self.leaf = position
        if parent is not None:
            self._weave(position, parent, body, refs)
            if named is not None and self.current is not None and self.current.last == position:
                self.current.named = named
        else:
            self._note(position, body, source, "" if named is None else named[0])
        return position

    def _weave(self, position: int, parent: int, body: Body | None, refs: Refs) -> None:
        if isinstance(body, ToolCalled):
            self.calls[body.call] = position
        elif isinstance(body, ToolReturned):
            if any(word == "answers" and self.calls.get(body.call) == node for word, node in refs):
                del self.calls[body.call]
            self._next[parent] = position
        if isinstance(body, SegmentAdded | ToolCalled | ToolReturned) and body.response is not None:
            self._lengthen(position, parent, body, body.response)

    def _lengthen(self, position: int, parent: int, body: Body, response: str) -> None:
        strand = self.strands.get(response)
        if strand is None:
            strand = self.strands[response] = Strand(response, position)
            if len(self.strands) > RESPONSES_MAX:
                self.strands.popitem(last=False)
        else:
            self._next[parent] = position
        strand.last = position
        strand.parts += 1
        strand.has_calls = strand.has_calls or (isinstance(body, ToolCalled) and body.kind != "server")
        self.current = strand

    def _note(self, position: int, body: Body | None, source: Source, id_: str) -> None:
        if isinstance(body, CallFinished):
            strand = self.strands.get(body.response or "")
            if strand is not None:
                strand.stated = body
                strand.finished = strand.finished or position
        elif isinstance(body, TurnEnded):
            for strand in reversed(self.strands.values()):
                if strand.last == body.node:
                    strand.ended = body.node
        elif isinstance(body, ThreadTitled):
            self.title, self.titled_by = body.title, source.name
            self.entitled.add(id_)
        elif isinstance(body, ThreadForked):
            self.leaf = body.node
        elif isinstance(body, HeadMoved) and id_:
            self.leaf = self.head
        elif isinstance(body, ImportReported):
            self.torn = torn_line(body)
        elif isinstance(body, SummaryAdded) and id_:
            self.summaries[id_] = position
            self.covered = body.last


def torn_line(body: ImportReported) -> bytes:
    """Give the cut line at the end of what an import read."""
    extra = {} if body.extra is None else msgspec.json.decode(body.extra)
    return str(extra.get("torn", "")).encode("latin-1")


def with_torn_line(body: ImportReported, line: bytes) -> ImportReported:
    """Keep a cut line with a report: the rest of it may come in another file."""
    extra = msgspec.json.encode({"torn": line.decode("latin-1")}).decode()
    return msgspec.structs.replace(body, extra=extra)
