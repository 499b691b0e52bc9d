"""What an importer is: it knows a foreign form, reads its records one by one, and says of each what it means.

An importer decides nothing about the store: ids of the source stand for positions, and the writer finds parents, pairs
results with calls, keeps a response in one line and skips what is known. So a new form is one file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import BinaryIO, ClassVar, Literal, Protocol

import msgspec

from ..events import Body, Halves, ParentCall, Source, TurnState, Usage
from ..records import NAME_LENGTH_MAX
from ..thread import Thread
from .known import Identity
from .lines import Progress, Record
from .report import ImportReport

IMPORTED = Source("import")


def is_name(text: str | None) -> bool:
    """Whether a text can name a model or provider in an event's source."""
    return text is not None and 0 < len(text) <= NAME_LENGTH_MAX and text.isprintable()


Resolve = Callable[[str], int]
"""Gives the position of the node, or the summary, that came of a record of the source."""


class Place(Enum):
    """A parent that is not named by its id."""

    ROOT = "root"
    BEFORE = "before"
    """The record before, in the same thread of the source."""


class ThreadInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A thread of the source, as it is to be made when the store has it not."""

    id: str
    """The source's own id: the thread's creation key, and its source id unless that is another one."""
    source_id: str | None = None
    """The name that the source knows it by, where that is not enough to tell it from others."""
    agent: str | None = None
    title: str | None = None
    cwd: str | None = None
    labels: dict[str, str] = {}
    origin: Literal["import", "subagent"] = "import"
    kind: Literal["conversation", "memory"] = "conversation"
    parent: ParentCall | None = None
    continues: tuple[str, str] | None = None
    """(thread, record) of the source that this thread goes on from: it is made as a fork there."""
    occurred_at: int | None = None


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One event that a record makes. The writer fills in a response's part numbers."""

    body: Body | Callable[[Resolve], Body]
    source: Source = IMPORTED
    output: bytes | None = None
    refs: tuple[tuple[str, str], ...] = ()
    """(word, id of a record)."""
    stands: bool = True
    """For notes: whether the record is a link of the source's chain, so that others may hang below it."""


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """What a record states of the response that it belongs to; what is stated last counts."""

    id: str
    provider: str | None = None
    model: str | None = None
    usage: Usage | None = None
    stop: str | None = None
    error: str | None = None
    whole: bool = False
    """The record holds all of it: nothing can follow."""
    goes_on: bool = False
    """No turn is taken to end with it: it goes on, or the entry says how it ends."""
    message: str | None = None
    """What the report counts as one message, where that is not the response: several may come of one message."""
    call: bool = True
    """Whether it is a call of its own; False for a copy of one that another thread has."""


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """A record's text is a summary over its parent's path, back to the summary before.

    Where nothing lies above, the record's items are taken instead; where the range is not closed, the record is kept.
    """

    text: str
    halves: Halves = ()
    keeps: str | None = None
    """Id of the first record at the end of the path that the summary leaves out."""
    whole: bool = False
    """It covers the path from its root on, earlier summaries and all."""
    follows: tuple[Item, ...] = ()
    """What the source puts behind the summary."""
    tail: tuple[Item, ...] = ()
    """What the summary leaves out, where the source says it again: it is found at the end of the path."""
    first: str | None = None
    last: str | None = None
    """The range's ends, where the source names them."""
    maker: str = "host"
    extra: str | None = None


class Title(msgspec.Struct, frozen=True, kw_only=True):
    """A title for the thread."""

    text: str
    by: str
    """The kind of record that gives it."""
    yields_to: frozenset[str] = frozenset()
    """Kinds of record whose title stays."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What one record of a source means."""

    thread: ThreadInfo
    record: Record
    identity: Identity
    parent: str | Place = Place.BEFORE
    """Id of the record it follows."""
    beside: bool = False
    """It stands beside `parent`, not below it."""
    exact: bool = False
    """Parents are meant as given, and results pair as on any append: nothing is put into one line."""
    items: tuple[Item, ...] = ()
    occurred_at: int | None = None
    response: Response | None = None
    ends: TurnState | None = None
    """A turn ends with this record."""
    error: str | None = None
    title: Title | None = None
    compaction: Compaction | None = None
    selects: str | Place | None = None
    """Id of the record that becomes the active one, or the root."""
    counts: bool = True
    """Whether it is a record of the source; False for what comes of one besides."""
    last: bool = False
    """Nothing more of its thread comes from this source, so that nothing of it need be kept in mind."""


class ThreadedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a session that names its thread and the record it follows."""

    EXACT: ClassVar[bool] = False
    """Its form means parents as they are given."""

    record: Record
    identity: Identity
    thread: ThreadInfo
    parent: str | Place
    occurred_at: int | None

    def entry(
        self,
        items: Iterable[Item],
        *,
        response: Response | None = None,
        ends: TurnState | None = None,
        error: str | None = None,
        title: Title | None = None,
        compaction: Compaction | None = None,
    ) -> Entry:
        """Say what the line means."""
        return Entry(
            thread=self.thread,
            record=self.record,
            identity=self.identity,
            parent=self.parent,
            exact=self.EXACT,
            items=tuple(items),
            occurred_at=self.occurred_at,
            response=response,
            ends=ends,
            error=error,
            title=title,
            compaction=compaction,
        )


class Desk(Protocol):
    """What a mapping may ask of the run that it works for."""

    report: ImportReport

    def attach(self, data: bytes) -> str:
        """Store bytes as an attachment and give their name."""

    def holds(self, thread: str, id_: str) -> bool:
        """Whether a thread of the source has a record of this id."""

    def threads(self, prefix: str) -> Iterable[str]:
        """Give the ids of the threads that this run or the store knows, and that start so."""

    def continued(self) -> Iterator[tuple[str, bool]]:
        """Give the threads, last touched first, that a source may go on with which does not say whose it is.

        With each: whether it was left just where a record ends, or with the beginning of this source's first one.
        """

    def thread(self, id_: str) -> Thread | None:
        """Give a thread of the source as far as it is stored, what is read so far included; None on a dry run."""

    def thread_id(self, id_: str) -> str:
        """Give the id that a thread of the source has in the store."""


class Reader(Protocol):
    """The records of one source."""

    @property
    def stump(self) -> bytes:
        """The end of a record that a cut parted, with which the source begins."""

    @property
    def torn(self) -> bytes:
        """The beginning of a record that a cut parted, with which the source ends."""

    def __iter__(self) -> Iterator[Record]:
        """Read them one by one."""


class ReaderAbove:
    """What a reader has that changes or adds to the records of another one: the ends that a cut left are the same."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    @property
    def stump(self) -> bytes:
        """The end of a line that another file may begin."""
        return self._reader.stump

    @property
    def torn(self) -> bytes:
        """The last line, when it has no end."""
        return self._reader.torn


class Mapping(Protocol):
    """One source's meaning, record by record; it may remember what it has seen."""

    def map(self, record: Record) -> Entry | None:
        """Say what a record means; None to hear of it again at the end."""

    def end(self) -> Iterator[Entry]:
        """Say what only the whole source tells."""


class Importer(Protocol):
    """A foreign form."""

    name: str
    """Its name in commands and reports; also the scope of its threads' creation keys.

    One that also has a true `headed` says that only the first record tells whose the others are, and that they mean
    something by their order: a part without it goes on with the thread that the last import left.
    """

    def detect(self, head: bytes, path: Path | None) -> bool:
        """Whether a file that begins so is of this form."""

    def read(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> Reader:
        """Read the records, streaming; damage goes to the report."""

    def mapping(self, desk: Desk, path: Path | None) -> Mapping:
        """Begin with one source."""

    def last_user_time(self, stream: BinaryIO) -> int:
        """Give the time of the last input of a user, microseconds UTC, 0 when there is none."""
