"""Codex rollouts: JSON Lines whose order is all that ties them together.

Only the header says which thread the lines are of. What the model saw are the items; the events beside them say the
same again for the screen, and are kept. What the file does not hold (tools, settings of a request) stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from ..errors import PayloadRejected
from ..events import Event, InputAdded, InstructionsSet, Part, Source, ToolReturned, Usage
from ..records import NAME_LENGTH_MAX
from .base import Desk, Entry, Item, Place, Reader, Response, ThreadInfo, Title, is_name
from .codex_compaction import Compactions
from .codex_course import SPEAKERS, TYPES, Course
from .codex_identities import Identities
from .codex_lines import (
    AGENT,
    COMPACTED,
    CONTEXT,
    EVENT,
    ITEM,
    META,
    Line,
    begins_rollout,
    is_injected,
    read,
    read_line,
    verbatim,
)
from .codex_outputs import outcome
from .codex_threads import id_in, thread_of
from .headless import continued_thread, info_of
from .known import Identity, parse_key
from .lines import Progress, Record
from .openai_items import Said, in_response, kind_of, read_item
from .report import ImportReport
from .slices import Entries, clean_text, fields_of, name_of, object_text, text_of, value_of

HEAD_BYTES = 4096
COPIED_US = 1_000_000
"""A fork's copy of another thread's history is written within this time of its beginning, or bears older times."""

COMPLETED = "completed"
"""What a response stopped for whose tokens were counted."""

USER, HOST, TOOL, PARENT_AGENT = Source("user"), Source("host"), Source("tool"), Source("model")


class Codex:
    """The form of the rollouts below `~/.codex/sessions`."""

    name = AGENT
    headed = True

    def detect(self, head: bytes, path: Path | None) -> bool:  # noqa: ARG002 - the protocol's form
        """Whether a rollout begins so."""
        return begins_rollout(head)

    def read(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> Reader:
        """Read the records."""
        head = stream.read(HEAD_BYTES)
        stream.seek(0)
        return read(stream, head, report, progress)

    def mapping(self, desk: Desk, path: Path | None) -> CodexMapping:
        """Begin with one rollout."""
        return CodexMapping(desk, path)

    def last_user_time(self, stream: BinaryIO) -> int:
        """Give the time of the last input that a person typed; in older forms, of the header."""
        found = 0
        for record in self.read(stream, ImportReport(format=self.name), None):
            line = read_line(record, Identity("", b""))
            if line is not None and line.at is not None and (line.kind == META or _is_typed(line)):
                found = max(found, line.at)
        return found


def _is_typed(line: Line) -> bool:
    if line.kind != ITEM or kind_of(line.payload) != "message" or name_of(line.payload.get("role")) != "user":
        return False
    return not is_injected(line.payload.get("content"))


class CodexMapping:
    """The meaning of one rollout's lines."""

    def __init__(self, desk: Desk, path: Path | None) -> None:
        self._desk = desk
        self._path = path
        self._course = Course()
        self._compactions = Compactions()
        self._thread: ThreadInfo | None = None
        self._identities = Identities(desk)

    def map(self, record: Record) -> Entry | None:
        """Say what a line means."""
        if self._thread is None:
            self._begin(record)
        thread = self._thread
        assert thread is not None
        identity = self._identities.of(record.data, thread.id)
        line = read_line(record, identity) if record.fields is not None else None
        if line is None:
            if record.fields is None:
                self._desk.report.warn(record.line, "not_object", "JSON, but no object")
            return Entry(thread=thread, record=record, identity=identity, items=(verbatim(record),))
        entry = self._meaning(line, thread)
        if record.doubled:
            # The entries that were overruled are nowhere else.
            entry = msgspec.structs.replace(entry, items=(*entry.items, line.verbatim()))
        return entry

    def end(self) -> Iterator[Entry]:
        """Nothing is left to be said."""
        yield from ()

    # --- threads and records ---

    def _begin(self, record: Record) -> None:
        """Find the thread that the lines are of."""
        line = read_line(record, Identity(None, record.data)) if record.fields is not None else None
        if line is not None and line.kind == META:
            id_ = name_of(line.payload.get("id")) or id_in(self._path) or line.identity.id
            self._thread = thread_of(self._desk, line, id_)
            return
        own = Identity(None, record.data).id
        at = None if line is None else line.at
        known = id_in(self._path) or continued_thread(self._desk, None if line is None else own, at)
        id_ = known or (self._path.stem if self._path else own)
        self._desk.report.warn(record.line, "no_header", f"the lines are taken as ones of thread {id_}")
        stored = self._desk.thread(id_)
        if stored is None:
            self._thread = ThreadInfo(id=id_, agent=AGENT, occurred_at=at)
            return
        self._thread = info_of(stored, id_, AGENT)
        self._identities.goes_on = not self._desk.holds(id_, own)
        if self._identities.goes_on:
            self._course.resume(stored.events(types=TYPES))

    # --- meaning ---

    def _meaning(self, line: Line, thread: ThreadInfo) -> Entry:
        if line.kind == META:
            return self._meta(line, thread)
        if line.kind == ITEM:
            return self._item(line, thread)
        if line.kind == COMPACTED:
            self._course.compacted()
            return self._compactions.entry(line, thread, self._desk.report)
        if line.kind == EVENT:
            return self._event(line, thread)
        if line.kind == CONTEXT:
            self._course.turn_context(line.payload)
        return line.kept(thread)

    def _meta(self, line: Line, thread: ThreadInfo) -> Entry:
        """Take a header: the instructions in it are what the model was told; the rest of it is kept."""
        is_first = self._course.session_meta(line.payload)
        instructions = fields_of(line.payload.get("base_instructions"))
        text = clean_text(instructions.get("text")) if instructions else None
        if not is_first or instructions is None or text is None or text[1] or not text[0]:
            return line.kept(thread)
        rest: Entries = [entry for entry in line.payload.items() if entry[0] != "base_instructions"]
        over = object_text(entry for entry in instructions.items() if entry[0] != "text")
        rest.append(("base_instructions", (over or "{}").encode()))
        body = InstructionsSet(parts=(Part(name="base", text=text[0], origin=AGENT),), extra=line.over(rest))
        return line.entry(thread, [Item(body=body, source=HOST)])

    def _item(self, line: Line, thread: ThreadInfo) -> Entry:
        said = read_item(line.data, line.payload, self._desk.attach)
        if said is None:
            kind = kind_of(line.payload)
            self._desk.report.warn(line.record.line, "unknown_item", f"an item of type {kind or '?'} is kept as it is")
            return line.kept(thread)
        if said.kind == "response":
            return self._part(line, thread, said)
        if said.kind == "result":
            return self._result(line, thread, said)
        return self._input(line, thread, said)

    def _input(self, line: Line, thread: ThreadInfo, said: Said) -> Entry:
        self._compactions.remember(line)
        speaker = PARENT_AGENT if thread.origin == "subagent" else USER
        source = HOST if said.role != "user" or is_injected(line.payload.get("content")) else speaker
        steers = self._course.said_to(by_user=source.kind in SPEAKERS)
        ((body, _),) = said.parts
        steer = said.role == "user" and (source is HOST or steers)
        body = msgspec.structs.replace(body, steer=steer, extra=line.over(said.rest))
        return line.entry(thread, [Item(body=body, source=source)])

    def _result(self, line: Line, thread: ThreadInfo, said: Said) -> Entry:
        self._course.answered(line.at)
        ((body, output),) = said.parts
        assert isinstance(body, ToolReturned)
        if body.form == "text":
            ended = outcome((output or b"").decode(), body.status)
            body = msgspec.structs.replace(body, status=ended.status, facts=ended.facts, duration_us=ended.duration_us)
        body = msgspec.structs.replace(body, extra=line.over(said.rest))
        return line.entry(thread, [Item(body=body, source=TOOL, output=output)])

    def _part(self, line: Line, thread: ThreadInfo, said: Said) -> Entry:
        course, kind = self._course, kind_of(line.payload)
        response, usage = course.next_part(line.identity.id, line.at, is_call=kind.endswith("_call"))
        parts = in_response(said, response, course.reasoning, line.over(said.rest))
        if kind == "reasoning":
            course.reasoning = name_of(line.payload.get("id")) or course.reasoning
        model = course.model if is_name(course.model) else None
        source = Source("model", provider=course.provider, model=model)
        items = [Item(body=body, source=source, output=output) for body, output in parts]
        # Its tokens came before it, and all of its items are written at once: words end it, unless a call follows.
        stop = COMPLETED if course.counted and kind == "message" else None
        return line.entry(thread, items, response=self._response(line, thread, response, usage, stop))

    def _response(
        self, line: Line, thread: ThreadInfo, response: str, usage: Usage | None, stop: str | None
    ) -> Response:
        return Response(
            id=response,
            provider=self._course.provider,
            model=self._course.model,
            usage=usage,
            stop=stop,
            call=not self._is_copied(line, thread),
        )

    def _is_copied(self, line: Line, thread: ThreadInfo) -> bool:
        """Whether a line belongs to the history that a fork copied from another thread."""
        if self._course.origin is None or line.at is None or thread.occurred_at is None:
            return False
        return line.at <= thread.occurred_at + COPIED_US

    # --- events ---

    def _event(self, line: Line, thread: ThreadInfo) -> Entry:
        kind, course = line.said(), self._course
        if kind == "token_count":
            return self._tokens(line, thread)
        if kind == "thread_rolled_back":
            course.event(kind)
            return self._rolled_back(line, thread)
        if kind == "thread_name_updated":
            name = text_of(line.payload.get("thread_name"))
            title = Title(text=name, by=kind) if name else None
            return line.entry(thread, [line.verbatim()], title=title)
        state = course.event(kind)
        error = text_of(line.payload.get("message")) if state == "error" else None
        return line.entry(thread, [line.verbatim()], ends=state, error=error and error[:NAME_LENGTH_MAX])

    def _tokens(self, line: Line, thread: ThreadInfo) -> Entry:
        response = self._course.response
        try:
            usage = self._course.token_count(line.payload.get("info"))
        except PayloadRejected as error:
            self._desk.report.warn(line.record.line, "odd_usage", error.message)
            usage = None
        if usage is None or response is None:
            return line.kept(thread)
        stated = self._response(line, thread, response, usage, COMPLETED)
        return line.entry(thread, [line.verbatim()], response=stated)

    def _rolled_back(self, line: Line, thread: ThreadInfo) -> Entry:
        """Go back to before the last turns of the active path; what they hold becomes a branch that was left."""
        count = value_of(line.payload.get("num_turns"))
        stored = self._desk.thread(thread.id)
        if stored is None or not isinstance(count, int) or count <= 0:
            return line.kept(thread)
        path = list(stored.path())
        starts = [index for index, event in enumerate(path) if _starts_turn(event)]
        if not starts:
            return line.kept(thread)
        before = path[starts[max(0, len(starts) - count)] - 1]
        named = None if before.key is None else parse_key(before.key)
        if before.position > 1 and named is None:
            self._desk.report.warn(line.record.line, "rollback_unknown", "what it goes back to came otherwise")
            return line.kept(thread)
        return line.entry(thread, [line.verbatim()], selects=Place.ROOT if named is None else named[0])


def _starts_turn(event: Event) -> bool:
    body = event.body
    return isinstance(body, InputAdded) and body.role == "user" and not body.steer
