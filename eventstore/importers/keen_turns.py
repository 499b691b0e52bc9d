"""One turn of a Keen log, taken apart: prose, reasoning, calls with what came back, diffs, in the order shown (K60)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Raw

from ..canonical import split_halves
from ..events import Body, CallFinished, Facts, PendingCleared, SegmentAdded, Source, ToolCalled, ToolReturned
from .base import Item
from .keen_memory import Activity, Matching, Warn, activities, failed_commands, merged, stated
from .slices import Entries, Fields, fields_of, is_true, items_of, name_of, object_text, spelled, text_of, value_of

MODEL, HOST, TOOL = Source("model"), Source("host"), Source("tool")

BASH, WRAPPER = "bash", "call_mcp_tool"
DIFF_MARKS: Mapping[object, str] = {0: " ", 1: "+", 2: "-"}
"""What stands before a line of a diff, by its kind; hunk headers (3) stand alone."""

_PAYLOADS = ("tool_start", "tool_end", "bash", "diff")


class _Open(msgspec.Struct, frozen=True):
    """A call that has not come back."""

    call: str
    name: str
    input: object


class Turn:
    """The items of one turn."""

    def __init__(self, id_: str, matching: Matching) -> None:
        self._id = id_
        self._matching = matching
        self._items: list[Item] = []
        self._open: list[_Open] = []
        self._calls = 0
        self._offset = 0
        self.mapped: set[str] = {"transcript"}
        """Fields of the turn that its items say."""
        self.is_unfinished = False

    def items(self, extra: str) -> tuple[Item, ...]:
        """Give the items; the first holds what of the record has no place."""
        if not self._items:
            return ()
        first = self._items[0]
        body = first.body
        assert isinstance(body, SegmentAdded | ToolCalled)
        merged_extra = extra if body.extra is None else f'{extra[:-1]},"item":{body.extra}}}'
        first = msgspec.structs.replace(first, body=msgspec.structs.replace(body, extra=merged_extra))
        found = [first, Item(body=CallFinished()), *self._items[1:]]
        if self.is_unfinished:
            # Native state lived in memory only: a turn of a log is an ordinary one (K53, K54).
            found.append(Item(body=lambda at: PendingCleared(node=at(self._id), reason="loaded"), stands=False))
        return tuple(found)

    def _add(self, body: Body, source: Source, output: bytes | None = None) -> None:
        self._items.append(Item(body=body, source=source, output=output))

    def text(self, text: str, extra: str | None = None) -> None:
        """Take prose."""
        words, halves = split_halves(text)
        self._offset += len(words.encode())
        self._add(SegmentAdded(text=words, halves=halves, extra=extra), MODEL)

    def item(self, data: Raw) -> None:
        """Take an item of the transcript."""
        fields = fields_of(data) or {}
        kind = name_of(fields.get("kind")) or ""
        said = fields_of(fields.get(kind)) if kind in _PAYLOADS else None
        text = text_of(fields.get("content"))
        if kind == "text" and text is not None:
            self.text(text, _rest_text(fields, "kind", "content"))
        elif kind == "reasoning" and text is not None:
            words, halves = split_halves(text)
            rest = _rest_text(fields, "kind", "content")
            self._add(SegmentAdded(kind="reasoning", text=words, halves=halves, extra=rest), MODEL)
        elif said is None:
            self._add(SegmentAdded(kind="notice", extra=object_text([("item", data)])), HOST)
        elif kind == "diff":
            words, halves = split_halves(diff_text(said))
            self._add(SegmentAdded(kind="diff", text=words, halves=halves, extra=object_text([("item", data)])), HOST)
        elif kind == "bash":
            self._bash(said, _rest(fields, "kind", "bash"))
        elif kind == "tool_start":
            self._start(said, _rest(fields, "kind", "tool_start"))
        else:
            self._end(said, _rest(fields, "kind", "tool_end"))

    # --- calls ---

    def _called(self, name: str, input_: str, rest: Entries, *, server: str | None = None) -> str:
        self._calls += 1
        call = f"{self._id.replace(':', '_')}_{self._calls}"
        self._add(ToolCalled(call=call, name=name, input=input_, server=server, extra=object_text(rest)), MODEL)
        return call

    def _start(self, said: Fields, rest: Entries) -> None:
        name, data = name_of(said.get("name")) or "", said.get("input")
        call = self._called(name, _json(data), [*rest, *_rest(said, "name", "input")])
        self._open.append(_Open(call, name, value_of(data) or {}))

    def _end(self, said: Fields, rest: Entries) -> None:
        name, data = name_of(said.get("name")) or "", said.get("input")
        call = self._answered(name, value_of(data) or {}) or self._called(name, _json(data), [])
        output = said.get("output")
        value = value_of(output)
        facts = merged(stated(value), self._matching.facts(self._offset, name, stated(value).command))
        self._returned(call, said, facts, output, [*rest, *_rest(said, "name", "input", "output", "duration_ns")])

    def _answered(self, name: str, input_: object) -> str | None:
        """Find the call that an end belongs to: the oldest open one of its name and input, else of its name."""
        named = [call for call in self._open if call.name == name]
        found = next((call for call in named if call.input == input_), named[0] if named else None)
        if found is None:
            return None
        self._open.remove(found)
        return found.call

    def _bash(self, said: Fields, rest: Entries) -> None:
        command = name_of(said.get("command"))
        entries: Entries = [(name, said[name]) for name in ("command", "summary") if name in said]
        call = self._called(BASH, object_text(entries) or "{}", [])
        if {"output", "error", "duration_ns"}.isdisjoint(said):
            return
        found = self._matching.facts(self._offset, BASH, command)
        facts = merged(Facts(command=command or None), found)
        rest = [*rest, *_rest(said, "command", "summary", "output", "duration_ns")]
        self._returned(call, said, facts, said.get("output"), rest)

    def _returned(self, call: str, said: Fields, facts: Facts | None, output: Raw | None, rest: Entries) -> None:
        error = text_of(said.get("error"))
        text = text_of(output) if output is not None and value_of(output) is not None else error or None
        words, halves = (None, ()) if text is None else split_halves(text)
        is_json = output is not None and text is None and value_of(output) is not None
        data = spelled(output) if is_json and output is not None else words
        nanoseconds = value_of(said.get("duration_ns"))
        is_time = isinstance(nanoseconds, int) and not isinstance(nanoseconds, bool) and 0 <= nanoseconds < 2**62
        if "duration_ns" in said and (not is_time or nanoseconds % 1000):
            rest = [*rest, ("duration_ns", said["duration_ns"])]
        body = ToolReturned(
            call=call,
            status="error" if error else "ok",
            facts=facts,
            form="json" if is_json else "text",
            halves=halves,
            duration_us=nanoseconds // 1000 if is_time else None,
            extra=object_text(rest),
        )
        self._add(body, TOOL, None if data is None else data.encode())

    # --- from memory alone ---

    def remembered(self, message: str, found: Iterable[Activity]) -> None:
        """Take a turn of which only prose and memory are left: its calls stand where the memory says."""
        data, cursor = message.encode(), 0
        for activity in found:
            if activity.offset > cursor:
                self.text(data[cursor : activity.offset].decode())
                cursor = activity.offset
            facts = activity.facts
            is_wrapped = facts is not None and facts.server is not None
            call = self._called(
                WRAPPER if is_wrapped else activity.tool,
                activity.input or "{}",
                [],
                server=facts.server if facts is not None and is_wrapped else None,
            )
            status = "ok" if activity.status == "success" else "error"
            self._add(ToolReturned(call=call, status=status, facts=facts), TOOL)
        if cursor < len(data):
            self.text(data[cursor:].decode())


def read_turn(said: Fields, id_: str, warn: Warn) -> Turn:
    """Take a turn apart; what is odd about it is told."""
    message = text_of(said.get("message")) or ""
    words, halves = split_halves(message)
    memory = fields_of(said.get("turn_memory"))
    found = activities(memory, words, warn)
    matching = Matching(found, list(failed_commands(memory)))
    turn = Turn(id_, matching)
    turn.is_unfinished = is_true(said, "interrupted") or bool(text_of(said.get("error")))
    transcript = items_of(said.get("transcript")) or []
    if not transcript:
        turn.remembered(words, found)
        if not halves:
            turn.mapped.add("message")
        return turn
    for item in transcript:
        turn.item(item)
    prose = "".join(text_of(fields.get("content")) or "" for fields in map(_fields, transcript) if _is_text(fields))
    if not prose and message:
        turn.text(message)
        turn.mapped.add("message")
    elif prose == message:
        turn.mapped.add("message")
    else:
        warn("message_differs", "the turn's message is not the text of its transcript; the transcript counts")
    if matching.left:
        warn("memory_differs", f"{matching.left} stored activities belong to no call of the transcript")
    return turn


def diff_text(said: Fields) -> str:
    """Write a diff's lines with their marks."""
    lines = [fields_of(line) or {} for line in items_of(said.get("lines")) or []]
    marks = (DIFF_MARKS.get(_hashable(value_of(line.get("Kind"))), "") for line in lines)
    return "\n".join(mark + (text_of(line.get("Content")) or "") for mark, line in zip(marks, lines, strict=True))


def _hashable(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _fields(data: Raw) -> Fields:
    return fields_of(data) or {}


def _is_text(fields: Fields) -> bool:
    return name_of(fields.get("kind")) == "text"


def _json(data: Raw | None) -> str:
    return "{}" if data is None else spelled(data)


def _rest(fields: Fields, *mapped: str) -> Entries:
    return [entry for entry in fields.items() if entry[0] not in mapped]


def _rest_text(fields: Fields, *mapped: str) -> str | None:
    return object_text(_rest(fields, *mapped))
