"""What the messages of a mini-swe-agent trajectory mean: instructions, task, answers with commands, observations."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec import Raw

from ..canonical import split_halves
from ..events import (
    InputAdded,
    InstructionsSet,
    Part,
    RecordKept,
    SegmentAdded,
    Source,
    Text,
    ToolCalled,
    ToolReturned,
    TurnState,
)
from ..records import encode_blocks
from .base import Desk, Entry, Item, Response, ThreadInfo
from .chat_messages import read_message, text_of_message
from .conversations import canonical
from .known import Identity
from .lines import Record
from .mini_swe_outcomes import finished, return_code, settings_of, source_of, with_outcome
from .openai_items import Said, in_response, read_item
from .request_bodies import said_items
from .slices import Entries, Fields, fields_of, items_of, name_of, object_text, text_of
from .times import seconds

AGENT = "mini-swe-agent"
TOOL_NAME = "bash"
SUBMITS = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"

USER, HOST, TOOL = Source("user"), Source("host"), Source("tool")

_FENCE = re.compile(r"```(?:mswea_bash_command|bash)[ \t]*\n(.*?)\n```", re.DOTALL)

STATES: dict[str, TurnState] = {
    "Submitted": "done",
    "LimitsExceeded": "incomplete",
    "TimeExceeded": "incomplete",
    "UserInterruption": "interrupted",
}
"""How a run ends by its exit status; all others are errors."""


class Piece(Record, frozen=True):
    """A message of a trajectory (with the number 0, what the trajectory says of its run)."""

    thread: str = ""
    info: Fields = msgspec.field(default_factory=dict)
    entries: Fields = msgspec.field(default_factory=dict)


class MiniSweMapping:
    """The meaning of one trajectory."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._open: list[tuple[str, str]] = []
        """(call, command) of fenced commands that have no output yet."""
        self._commands: dict[str, str] = {}
        """The commands of the last answer, by call."""
        self._is_ended = False

    def end(self) -> Iterator[Entry]:
        """Nothing is left to say."""
        return iter(())

    def map(self, record: Record) -> Entry | None:
        """Say what a record means."""
        if not isinstance(record, Piece):
            return None
        if record.line == 0:
            return self._run(record)
        fields = record.fields
        if fields is None:
            return self._kept(record, "not_object")
        extra = fields_of(fields.get("extra")) or {}
        role = name_of(fields.get("role"))
        if name_of(fields.get("object")) == "response":
            return self._response(record, fields, extra)
        if role == "assistant":
            return self._answer(record, fields, extra)
        if role == "exit":
            return self._exit(record, fields, extra)
        if role == "tool" or name_of(fields.get("type")) == "function_call_output":
            return self._observation(record, fields, extra)
        if role == "user" and self._open and "interrupt_type" not in extra:
            return self._fenced_observation(record, fields, extra)
        return self._input(record, fields, extra)

    def _entry(
        self,
        piece: Piece,
        items: tuple[Item, ...],
        *,
        response: Response | None = None,
        ends: TurnState | None = None,
        error: str | None = None,
    ) -> Entry:
        extra = fields_of((piece.fields or {}).get("extra")) or {}
        environment = settings_of(piece.info, "config", "environment") or {}
        info = ThreadInfo(id=piece.thread, agent=AGENT, cwd=name_of(environment.get("cwd")) or None)
        return Entry(
            thread=info,
            record=piece,
            identity=Identity(f"message:{piece.line}" if piece.line else "run", canonical(piece.data)),
            items=items,
            occurred_at=seconds(extra.get("timestamp")),
            response=response,
            ends=ends,
            error=error,
        )

    def _kept(self, piece: Piece, code: str) -> Entry:
        self._desk.report.warn(piece.line, code, "no message that is known here")
        return self._entry(piece, (Item(body=RecordKept(format=AGENT, record=piece.data.decode(), line=piece.line)),))

    def _run(self, piece: Piece) -> Entry | None:
        """Keep what a trajectory says of its run, and end it as the exit status says."""
        text = object_text(piece.entries.items())
        if text is None:
            return None
        status = name_of(piece.info.get("exit_status"))
        ends = None if self._is_ended or not status else STATES.get(status, "error")
        kept = Item(body=RecordKept(format=AGENT, record=text), stands=False)
        error = status if ends == "error" else None
        return self._entry(msgspec.structs.replace(piece, data=text.encode()), (kept,), ends=ends, error=error)

    # --- inputs and observations ---

    def _input(self, piece: Piece, fields: Fields, extra: Fields) -> Entry:
        said = (
            read_item(Raw(piece.data), fields, self._desk.attach)
            if name_of(fields.get("type")) == "message"
            else read_message(fields, "", self._desk.attach)
        )
        if said is None or said.kind != "input":
            return self._kept(piece, "no_content")
        text = text_of(fields.get("content"))
        if said.role == "system" and piece.line == 1 and text is not None:
            part = Part("system", split_halves(text)[0], AGENT)
            return self._entry(piece, (Item(body=InstructionsSet(parts=(part,), extra=object_text(said.rest))),))
        (item,) = said_items(said, Source("model"))
        kind = name_of(extra.get("interrupt_type"))
        if kind is not None and isinstance(item.body, InputAdded):
            # What the agent told the model of a mistake, or a user who broke in.
            source = HOST if kind == "FormatError" else USER
            item = Item(body=msgspec.structs.replace(item.body, steer=True), source=source)
        self._open = []
        return self._entry(piece, (item,))

    def _observation(self, piece: Piece, fields: Fields, extra: Fields) -> Entry:
        said = (
            read_item(Raw(piece.data), fields, self._desk.attach)
            if name_of(fields.get("type")) == "function_call_output"
            else read_message(fields, "", self._desk.attach)
        )
        if said is None or said.kind != "result":
            return self._kept(piece, "no_content")
        (item,) = said_items(said, Source("model"))
        text = text_of_message(fields.get("content") or fields.get("output"))
        assert isinstance(item.body, ToolReturned)
        body = with_outcome(item.body, text, extra, self._commands.get(item.body.call))
        return self._entry(piece, (Item(body=body, source=TOOL, output=item.output),))

    def _fenced_observation(self, piece: Piece, fields: Fields, extra: Fields) -> Entry:
        """Take the message behind a fenced command as its output: that is how this agent tells it."""
        call, command = self._open.pop(0)
        said = read_message(fields, "", self._desk.attach)
        if said is None or not isinstance(said.parts[0][0], InputAdded):
            return self._kept(piece, "no_content")
        content = said.parts[0][0].content
        rest: Entries = [*said.rest, ("role", b'"user"')]
        text = text_of_message(fields.get("content"))
        is_text = len(content) == 1 and isinstance(content[0], Text) and text_of(fields.get("content")) is not None
        halves = content[0].halves if is_text and isinstance(content[0], Text) else ()
        body = ToolReturned(call=call, form="text" if is_text else "blocks", halves=halves, extra=object_text(rest))
        body = with_outcome(body, text, extra, self._commands.get(call))
        output = text.encode() if is_text else encode_blocks(content)
        # What the command that submits brings back is told without a code.
        is_submission = SUBMITS in command and return_code(text) is None
        self._is_ended = self._is_ended or is_submission
        item = Item(body=body, source=TOOL, output=output)
        return self._entry(piece, (item,), ends="done" if is_submission else None)

    # --- answers ---

    def _answer(self, piece: Piece, fields: Fields, extra: Fields) -> Entry:
        id_ = f"message:{piece.line}"
        said = read_message(fields, id_, self._desk.attach)
        raw = fields_of(extra.get("response")) or {}
        source = source_of(piece.info, raw)
        items = list(said_items(said, source)) if said is not None else []
        calls = [item.body for item in items if isinstance(item.body, ToolCalled)]
        self._commands, self._open = {}, []
        if calls:
            self._note_commands([call.call for call in calls], extra)
        else:
            items += self._fenced(piece, fields, extra, source)
        choices = items_of(raw.get("choices"))
        stop = name_of((fields_of(choices[0]) or {}).get("finish_reason")) if choices else None
        return self._entry(piece, tuple(items), response=finished(id_, source, raw, stop))

    def _note_commands(self, calls: list[str], extra: Fields) -> None:
        """Remember what the agent says that it ran for each call."""
        for number, action in enumerate(items_of(extra.get("actions")) or []):
            said = fields_of(action) or {}
            command = name_of(said.get("command"))
            call = name_of(said.get("tool_call_id")) or (calls[number] if number < len(calls) else None)
            if call and command is not None:
                self._commands[call] = command

    def _fenced(self, piece: Piece, fields: Fields, extra: Fields, source: Source) -> Iterator[Item]:
        """Give the commands of an answer in words: those that the agent noted, else the one in its fenced block."""
        noted = [name_of((fields_of(action) or {}).get("command")) for action in items_of(extra.get("actions")) or []]
        found = [command.strip() for command in _FENCE.findall(text_of_message(fields.get("content")))]
        commands = [command for command in noted if command is not None] or (found if len(found) == 1 else [])
        for number, command in enumerate(commands):
            call = f"message:{piece.line}/{number}"
            self._open.append((call, command))
            if noted:
                self._commands[call] = command
            asked = msgspec.json.encode({"command": split_halves(command)[0]}).decode()
            body = ToolCalled(call=call, name=TOOL_NAME, input=asked, response=f"message:{piece.line}")
            yield Item(body=body, source=source)

    def _response(self, piece: Piece, fields: Fields, extra: Fields) -> Entry:
        """Say what an answer in OpenAI's Responses form means."""
        id_, needs = f"message:{piece.line}", None
        source = source_of(piece.info, fields)
        rest = object_text(entry for entry in fields.items() if entry[0] != "output")
        items: list[Item] = []
        for raw in items_of(fields.get("output")) or []:
            said = read_item(raw, fields_of(raw) or {}, self._desk.attach)
            if said is None or said.kind != "response":
                said = Said("response", ((SegmentAdded(kind="opaque", opaque=bytes(raw).decode()), None),), [])
            over: Entries = [*said.rest]
            if not items and rest is not None:
                over.append(("message", rest.encode()))
            parts = in_response(said, id_, needs, object_text(over))
            items += [Item(body=body, source=source, output=output) for body, output in parts]
            if name_of((fields_of(raw) or {}).get("type")) == "reasoning":
                needs = name_of((fields_of(raw) or {}).get("id"))
        self._open = []
        self._commands = {}
        self._note_commands([item.body.call for item in items if isinstance(item.body, ToolCalled)], extra)
        if not items:
            items = [Item(body=SegmentAdded(response=id_, extra=object_text([("message", (rest or "{}").encode())])))]
        return self._entry(piece, tuple(items), response=finished(id_, source, fields, name_of(fields.get("status"))))

    def _exit(self, piece: Piece, fields: Fields, extra: Fields) -> Entry:
        """Keep what a run ended with, as a word of the program."""
        status = name_of(extra.get("exit_status")) or ""
        text, halves = split_halves(text_of_message(fields.get("content")))
        rest = object_text(entry for entry in fields.items() if entry[0] != "content")
        body = SegmentAdded(kind="notice", text=text, halves=halves, extra=rest)
        self._is_ended = True
        ends = STATES.get(status, "error")
        error = (status or "error") if ends == "error" else None
        return self._entry(piece, (Item(body=body, source=HOST),), ends=ends, error=error)
