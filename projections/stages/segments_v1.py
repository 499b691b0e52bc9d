"""The neutral read model of one ended turn: its segments, and what TurnMemory makes of them.

Every version of TurnMemory reads `Segment` and answers with `Memory`; it never sees an event, a store or a provider.
One `tool` segment stands for a call and its result together, at the place of the result (K08), paired by call id.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec


class Facts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a tool, or the importer that read its result, stated about the call; never inferred (K02, K15, K19, K21)."""

    path: str = ""
    file_changed: str = ""
    command: str = ""
    failed_command: str = ""
    exit_code: int | float | None = None
    server: str = ""
    tool: str = ""


class Promoted(msgspec.Struct, frozen=True, gc=False):
    """A result chosen to outlive its turn (C01): its text, why (costly, unrepeatable, gone, quoted) and its node."""

    text: str
    reason: str
    node: int


class Segment(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One ordered piece of what the agent produced in a turn.

    Attributes:
        kind: `text` is prose, `tool` a call with its result; `other` (reasoning, diffs, notices) leaves no trace (K09).
        text: The prose of a `text` segment.
        node: Position of the event, of the call for a `tool` segment; 0 when unknown.
        tool: Name of the tool, as the agent calls it.
        call: Call id, unique within the thread's open calls.
        server: Server of the tool as the call was recorded, "" when it has none.
        input: The tool's input as raw JSON text; may be anything, even no JSON.
        command: The host's own command of a shell segment, "" when there is none.
        completed: A result exists.
        shell: The call ran a shell command, whatever the tool's name.
        status: `ok`, `error`, `denied`, `cancelled` or any other word; all but `ok` replay as an error.
        facts: What was stated about the result.
        promoted: Results of this call that later prompts carry.
    """

    kind: Literal["text", "tool", "other"]
    text: str = ""
    node: int = 0
    tool: str = ""
    call: str = ""
    server: str = ""
    input: str = ""
    command: str = ""
    completed: bool = False
    shell: bool = False
    status: str = "ok"
    facts: Facts = Facts()
    promoted: tuple[Promoted, ...] = ()


class Activity(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One completed call as later turns see it (K07); empty fields are left out of its JSON.

    Attributes:
        text_offset: UTF-8 bytes of prose before the call (K08).
        tool: Name of the tool; for a wrapper (K21) the name of the tool behind it.
        status: `success`, or what else became of the call.
        target: What the call was about: a path, pattern, command, address or agent name (K12).
        server: Server of a tool behind a wrapper.
        file_changed: The file whose content the call changed (K19).
        failed_command: The command that failed, as the tool stated it (K19).
        exit_code: Exit code of a command, only when it is not zero.
        input: Bounded input as JSON text with sorted keys, "" when none is kept (version 5).
        wrapper: The tool that was really called, when `tool` names the one behind it (version 6).
        promoted: Results carried along (version 6).
        node: Position of the call's event, 0 when unknown.
    """

    text_offset: int
    tool: str
    status: str
    target: str = ""
    server: str = ""
    file_changed: str = ""
    failed_command: str = ""
    exit_code: int | None = None
    input: str = ""
    wrapper: str = ""
    promoted: tuple[Promoted, ...] = ()
    node: int = 0


class FailedCommand(msgspec.Struct, frozen=True, gc=False):
    """A shell command that ran and exited with another code than zero (K02)."""

    command: str
    exit_code: int


class Memory(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What later turns keep of one ended turn: its prose and, by version, files, failed commands and activities."""

    prose: str
    files_changed: tuple[str, ...] = ()
    failed_bash: tuple[FailedCommand, ...] = ()
    activities: tuple[Activity, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Nothing is kept beside the prose (the source stores no memory then, K02)."""
        return not (self.files_changed or self.failed_bash or self.activities)


class HistoricalCall(msgspec.Struct, frozen=True, gc=False):
    """A call replayed from memory, together with its result.

    Attributes:
        id: Wire id, the same on call and result.
        tool: Name to replay the call under.
        arguments: JSON text of an object.
        result: Text of the result.
        is_error: The result counts as an error (K24).
        node: Position of the call's event, 0 when unknown.
    """

    id: str
    tool: str
    arguments: str
    result: str
    is_error: bool
    node: int = 0


class Step(msgspec.Struct, frozen=True, gc=False):
    """A slice of the prose, then one parallel batch: all its calls, then all their results in the same order (K25).

    Both may be empty. An empty text makes no block, and a step without either makes no message (K26).
    """

    text: str
    calls: tuple[HistoricalCall, ...] = ()


class Invalid(msgspec.Struct, frozen=True, gc=False):
    """An activity that cannot be replayed (K22), and the reason in a few words."""

    text_offset: int
    tool: str
    reason: str
    node: int = 0


def prose(segments: Sequence[Segment]) -> str:
    """Join the text segments as they are (K08)."""
    return "".join(segment.text for segment in segments if segment.kind == "text")


def completed_calls(segments: Sequence[Segment]) -> Iterator[tuple[int, Segment]]:
    """Yield each completed tool segment with the UTF-8 bytes of prose before it (K08, K09)."""
    offset = 0
    for segment in segments:
        if segment.kind == "text":
            offset += len(segment.text.encode())
        elif segment.kind == "tool" and segment.completed:
            yield offset, segment
