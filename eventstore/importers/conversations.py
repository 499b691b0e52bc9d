"""Exports of chat sites: lists of conversations, each a tree of messages, in one JSON document of any size.

A conversation is read as a whole and then told message by message, parents first. What it says of itself, without its
messages, is kept as a record that comes before them; which message is the active one is told behind them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Protocol

import msgspec
from msgspec import Raw

from ..events import RecordKept, TurnState
from .base import Desk, Entry, Item, Place, Response, ThreadInfo, Title
from .documents import Broken, ScanningReader, TooLong
from .known import Identity
from .lines import BOM, Progress, Record
from .report import ImportReport
from .slices import Fields, fields_of, value_of

OPENING, CURRENT = "conversation:", "current:"
"""Begin the ids of the records that come before and behind a conversation's messages."""


class Node(msgspec.Struct, kw_only=True):
    """A message of a conversation, or a part of one that is a response of its own."""

    id: str
    parent: str | None
    data: bytes
    """Its JSON text, as it stands in the export."""
    fields: Fields
    time: int | None = None
    children: Sequence[str] = ()
    """What the source lists as following it; nothing where its order says no more than the nodes' parents do."""
    goes_on: str | None = None
    """The message that it goes on with, when it is not the first part of one."""


class State(msgspec.Struct, frozen=True):
    """What a conversation says of itself that may be another thing in the next export."""

    title: str | None = None
    changed: int = 0
    """When it changed last, in microseconds UTC, 0 when it does not say."""


class Conversation(msgspec.Struct, kw_only=True):
    """One conversation, its nodes in the order in which they are told."""

    number: int
    """Its place in the file, from 1."""
    id: str
    state: State = State()
    created: int | None = None
    about: str = "{}"
    """JSON text of everything but its messages."""
    nodes: list[Node] = []
    active: str | None = None
    """Id of the node that the site would go on from."""


class Part(Record, frozen=True):
    """A record of a conversation: what it says of itself, a node, or its end."""

    conversation: Conversation | None = None
    node: Node | None = None
    ends: bool = False


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a node means."""

    stable: bytes
    """What of it stays the same from one export to the next."""
    items: tuple[Item, ...]
    response: Response | None = None
    ends: TurnState | None = None


class Meaning(Protocol):
    """What a form knows of its messages."""

    agent: str

    def state(self, fields: Fields) -> State:
        """Read a conversation's state from what it says of itself."""

    def said(self, conversation: Conversation, node: Node) -> Said | None:
        """Say what a node means; None for one that says nothing, yet is a link of the tree."""


Parse = Callable[[Fields, int, ImportReport], Conversation]
"""Reads a conversation: its entries, its number, and where oddities go."""


class ConversationReader(ScanningReader):
    """The records of an export, conversation by conversation; several lists may follow each other."""

    def __init__(self, stream: BinaryIO, report: ImportReport, progress: Progress | None, parse: Parse) -> None:
        super().__init__(stream, report, progress)
        self._parse = parse

    def __iter__(self) -> Iterator[Record]:
        for conversation in self.conversations():
            line = conversation.number
            yield Part(line, conversation.about.encode(), None, conversation=conversation)
            for node in conversation.nodes:
                self._report.records += node.goes_on is None
                yield Part(line, node.data, node.fields, conversation=conversation, node=node)
            yield Part(line, b"", None, conversation=conversation, ends=True)

    def conversations(self) -> Iterator[Conversation]:
        """Read them one by one."""
        report = self._report
        for number, data in enumerate(self._values(), start=1):
            record = self._record(number, data)
            if record is not None and record.fields is not None:
                yield self._parse(record.fields, number, report)
        self._finish()

    def _values(self) -> Iterator[bytes]:
        """Give the text of each conversation; what is none costs itself, and a break what comes behind it."""
        scanner, number, depth = self._scanner, 0, 0
        for byte in BOM:
            scanner.take(bytes([byte]))
        while mark := scanner.peek():
            if mark == b"," or (mark == b"[" and depth == 0) or mark == b"]":
                depth += {b"[": 1, b"]": -1}.get(mark, 0)
                scanner.take(mark)
                continue
            number += 1
            try:
                yield scanner.value()
            except TooLong as error:
                self._lose(number, "record_too_long", str(error) or "too large to hold")
            except Broken as broken:
                self._lose(number, str(broken), "the export breaks off")
                return
        if depth > 0:
            self._report.warn(number, Broken.TORN, "the list has no end")

    def _lose(self, number: int, code: str, detail: str) -> None:
        self._report.records += 1
        self._report.lose(number, code, detail)

    def _record(self, number: int, data: bytes) -> Record | None:
        """Read a conversation's JSON; None, with the reason reported, for what is none."""
        record = self._decoded(number, data)
        if record is None:
            self._report.records += 1
        elif record.fields is None:
            self._lose(number, "not_object", f"no conversation: {data[:80].decode(errors='replace')}")
        return record


class ConversationMapping:
    """The meaning of an export's records: trees as they are given, and the active node as the site has it."""

    def __init__(self, desk: Desk, meaning: Meaning) -> None:
        self._desk = desk
        self._meaning = meaning
        self._info = ThreadInfo(id="")
        self._is_older = False
        """An export that was imported before holds a later state of this conversation."""

    def end(self) -> Iterator[Entry]:
        """Nothing is left to say."""
        return iter(())

    def map(self, record: Record) -> Entry | None:
        """Say what a record means."""
        conversation = record.conversation if isinstance(record, Part) else None
        if conversation is None or not isinstance(record, Part):
            return None
        if record.node is not None:
            return self._node(record, conversation, record.node)
        return self._close(record, conversation) if record.ends else self._open(record, conversation)

    def _open(self, record: Part, conversation: Conversation) -> Entry:
        """Keep what a conversation says of itself, and its title when the source gave it a new one."""
        self._info = ThreadInfo(id=conversation.id, agent=self._meaning.agent, occurred_at=conversation.created)
        known, title = self._stored(conversation.id), conversation.state.title
        self._is_older = known is not None and conversation.state.changed < known.changed
        is_new = title is not None and not self._is_older and (known is None or title != known.title)
        told = canonical(record.data)
        return Entry(
            thread=self._info,
            record=record,
            identity=Identity(OPENING + Identity(None, told).digest, told),
            parent=Place.ROOT,
            exact=True,
            items=(Item(body=_kept(self._meaning.agent, record), stands=False),),
            title=Title(text=title, by="title") if title is not None and is_new else None,
            counts=False,
        )

    def _stored(self, id_: str) -> State | None:
        """Give the newest state of a conversation that earlier imports kept."""
        thread = self._desk.thread(id_)
        if thread is None:
            return None
        kept = (event for event in thread.events(types=(RecordKept.TYPE,)) if (event.key or "").startswith(OPENING))
        told = (fields_of(event.body.record.encode()) for event in kept if isinstance(event.body, RecordKept))
        states = [self._meaning.state(fields) for fields in told if fields is not None]
        return max(reversed(states), key=lambda state: state.changed, default=None)

    def _node(self, record: Part, conversation: Conversation, node: Node) -> Entry:
        said = self._meaning.said(conversation, node)
        parent: str | Place = Place.ROOT if node.parent is None else node.parent
        if said is None:
            stable, items = b"", (Item(body=_kept(self._meaning.agent, record)),)
            said = Said(stable=stable, items=items)
        return Entry(
            thread=self._info,
            record=record,
            identity=Identity(node.id, said.stable),
            parent=parent,
            exact=True,
            items=said.items,
            occurred_at=node.time,
            response=said.response,
            ends=said.ends,
            counts=node.goes_on is None,
        )

    def _close(self, record: Part, conversation: Conversation) -> Entry:
        active = None if self._is_older else conversation.active
        return Entry(
            thread=self._info,
            record=record,
            identity=Identity(f"{CURRENT}{active}", str(conversation.state.changed).encode()),
            exact=True,
            selects=active,
            counts=False,
            last=True,
        )


def _kept(agent: str, record: Record) -> RecordKept:
    return RecordKept(format=agent, record=record.data.decode(), line=record.line)


def canonical(data: bytes | Raw) -> bytes:
    """Give JSON text that is the same however an exporter spells the value."""
    return json.dumps(value_of(Raw(data)), sort_keys=True, separators=(",", ":")).encode()
