"""A path as messages: what was put in, what each response of a model said, and what came back for its calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeVar

import msgspec

from convlog.eventstore.canonical import join_halves
from convlog.eventstore.events import (
    CallFinished,
    Content,
    Document,
    Event,
    Image,
    InputAdded,
    InstructionsSet,
    Part,
    SegmentAdded,
    SummaryAdded,
    Text,
    Tool,
    ToolCalled,
    ToolReturned,
    ToolsSet,
)
from convlog.eventstore.records import decode_blocks
from convlog.eventstore.thread import Thread

Role = Literal["system", "user", "assistant", "tool"]

SAID = frozenset({"text", "reasoning", "opaque"})
"""Kinds of segment that a model says; the others are the host's."""


class Message(msgspec.Struct, frozen=True):
    """Nodes that make up one message; `tool` holds results of one batch of calls."""

    role: Role
    events: tuple[Event, ...]

    @property
    def response(self) -> str | None:
        """The response's id, where it is known."""
        return next((id_ for event in self.events if (id_ := getattr(event.body, "response", None))), None)


def messages_of(path: Iterable[Event]) -> Iterator[Message]:
    """Iterate over the messages of a path; results that came between a response's parts stand behind it."""
    gathering = _Gathering()
    for event in path:
        yield from gathering.take(event)
    yield from gathering.flush()


class _Gathering:
    """The response at hand, and the results of its calls."""

    def __init__(self) -> None:
        self._said: list[Event] = []
        self._results: list[Event] = []
        self._response: str | None = None
        self._calls: set[int] = set()

    def take(self, event: Event) -> Iterator[Message]:
        """Take the next node."""
        body = event.body
        if isinstance(body, InputAdded):
            yield from self.flush()
            yield Message("system" if body.role == "system" else "user", (event,))
        elif isinstance(body, ToolReturned) and body.response is None:
            if event.ref("answers") in self._calls:
                self._results.append(event)
            else:
                yield from self.flush()
                yield Message("tool", (event,))
        elif is_said(body):
            response = getattr(body, "response", None)
            goes_on = response == self._response if response is not None else not self._results
            if self._said and not (goes_on and (response is not None or self._response is None)):
                yield from self.flush()
            self._said.append(event)
            self._response = response
            if isinstance(body, ToolCalled):
                self._calls.add(event.position)

    def flush(self) -> Iterator[Message]:
        """Give what was gathered."""
        if self._said:
            yield Message("assistant", tuple(self._said))
        if self._results:
            yield Message("tool", tuple(self._results))
        self._said, self._results, self._calls, self._response = [], [], set(), None


def is_said(body: object) -> bool:
    """Whether a model said it, or its provider's server within its response."""
    if isinstance(body, SegmentAdded):
        return body.kind in SAID
    return isinstance(body, ToolCalled) or (isinstance(body, ToolReturned) and body.response is not None)


# --- what events hold ---


def text_of(content: Iterable[Content]) -> str:
    """Give the text among content."""
    return "\n".join(part.original for part in content if isinstance(part, Text))


def output_text(event: Event) -> str | None:
    """Give a result's output where it is text, half surrogates restored; None for any other."""
    body = event.body
    if not isinstance(body, ToolReturned) or event.output is None or body.form != "text":
        return None
    return join_halves(event.output.decode(), body.halves)


def output_blocks(event: Event) -> tuple[Content, ...]:
    """Give a result's output as content."""
    body = event.body
    if event.output is None or not isinstance(body, ToolReturned):
        return ()
    if body.form == "blocks":
        return decode_blocks(event.output)
    return (Text(event.output.decode(), body.halves if body.form == "text" else ()),)


def attachment(thread: Thread, part: Image | Document) -> bytes | None:
    """Load a picture's or document's bytes; None when they lie elsewhere, or are gone."""
    name = part.attachment
    if name is None or thread.store.backend.attachment_size(name) is None:
        return None
    return thread.store.attachment(name)


def finished(thread: Thread) -> dict[str, CallFinished]:
    """Give what is known of each response, by its id."""
    found = {}
    for event in thread.events(types=(CallFinished.TYPE,), outputs=False):
        if isinstance(event.body, CallFinished) and event.body.response is not None:
            found[event.body.response] = event.body
    return found


def summaries(thread: Thread) -> list[tuple[int, SummaryAdded]]:
    """Give all summaries with their positions."""
    found = thread.events(types=(SummaryAdded.TYPE,), outputs=False)
    return [(event.position, event.body) for event in found if isinstance(event.body, SummaryAdded)]


# --- what is in force ---

Named = TypeVar("Named", Part, Tool)


def instructions_of(path: Iterable[Event]) -> tuple[Part, ...]:
    """Give the standing instructions at the end of a path."""
    return _in_force([(event.position, event.body.parts) for event in path if isinstance(event.body, InstructionsSet)])


def tools_of(path: Iterable[Event]) -> tuple[Tool, ...]:
    """Give the tools declared at the end of a path."""
    return _in_force([(event.position, event.body.tools) for event in path if isinstance(event.body, ToolsSet)])


def _in_force(values: Sequence[tuple[int, tuple[Named, ...]]]) -> tuple[Named, ...]:
    """Give the last whole value; a member that is cited is taken from where it stands, one that is gone left out."""
    held = {position: {member.name: member for member in members} for position, members in values}
    found = []
    for member in values[-1][1] if values else ():
        said: Named | None = member
        while said is not None and said.since is not None:
            said = held.get(said.since, {}).get(member.name)
        if said is not None:
            found.append(said)
    return tuple(found)
