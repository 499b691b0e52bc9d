"""The TurnMemory that a Keen log stores with a turn: looked at before it is believed (K22), and read for its facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from ..events import Facts
from .slices import Fields, fields_of, items_of, name_of, value_of

Warn = Callable[[str, str], None]
"""Told a code and a detail."""

NUMBER_MAX = 2**53

FIRST_BYTES_OF_CHARACTERS = frozenset(range(0x80)) | frozenset(range(0xC0, 0x100))


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """One call that the memory speaks of."""

    offset: int
    """Bytes of prose before it."""
    tool: str
    status: str
    input: str | None = None
    """The bounded input that some versions keep, as JSON text."""
    facts: Facts | None = None


def activities(memory: Fields | None, prose: str, warn: Warn) -> list[Activity]:
    """Give the stored activities that could be replayed (K22); the others are reported. The prose is well formed."""
    found: list[Activity] = []
    data = prose.encode()
    cursor = 0
    for number, item in enumerate(items_of((memory or {}).get("tool_activity")) or []):
        fields = fields_of(item) or {}
        offset, tool = value_of(fields.get("text_offset")), name_of(fields.get("tool"))
        fault = _fault(offset, tool, cursor, data)
        if fault is not None or not isinstance(offset, int) or not tool:
            warn("bad_memory", f"stored activity {number}: {fault}")
            continue
        cursor = offset
        found.append(_activity(fields, offset, tool))
    return found


def _fault(offset: object, tool: str | None, cursor: int, prose: bytes) -> str | None:
    if not tool:
        return "it names no tool"
    if not isinstance(offset, int) or isinstance(offset, bool):
        return "its offset is no number"
    if offset < cursor or offset > len(prose):
        return f"offset {offset} is not between {cursor} and {len(prose)}"
    if 0 < offset < len(prose) and prose[offset] not in FIRST_BYTES_OF_CHARACTERS:
        return f"offset {offset} is inside a character"
    return None


def _activity(fields: Fields, offset: int, tool: str) -> Activity:
    server = name_of(fields.get("server"))
    kept = fields.get("input")
    facts = Facts(
        file_changed=name_of(fields.get("file_changed")),
        failed_command=name_of(fields.get("failed_command")),
        exit_code=_number(value_of(fields.get("exit_code"))),
        server=server or None,
        tool=tool if server else None,
    )
    return Activity(
        offset=offset,
        tool=tool,
        status=name_of(fields.get("status")) or "",
        input=bytes(kept).decode() if kept is not None and fields_of(kept) is not None else None,
        facts=facts if facts != Facts() else None,
    )


def failed_commands(memory: Fields | None) -> Iterator[tuple[str, int | float]]:
    """Give the commands that failed, as the first version kept them (K02)."""
    for item in items_of((memory or {}).get("failed_bash")) or []:
        fields = fields_of(item) or {}
        command, code = name_of(fields.get("command")), _number(value_of(fields.get("exit_code")))
        if command and code is not None:
            yield command, code


class Matching:
    """Finds the activity that belongs to a finished call: both stand in the order in which calls ended (K09)."""

    def __init__(self, found: list[Activity], failed: list[tuple[str, int | float]]) -> None:
        self._found = found
        self._failed = failed
        self._next = 0

    def facts(self, offset: int, tool: str, command: str | None) -> Facts:
        """Give what the memory states of a call that ended behind `offset` bytes of prose."""
        if self._next < len(self._found):
            activity = self._found[self._next]
            is_wrapped = activity.facts is not None and activity.facts.server is not None
            if activity.offset == offset and (activity.tool == tool or is_wrapped):
                self._next += 1
                return activity.facts or Facts()
        if self._failed and self._failed[0][0] == command:
            return Facts(exit_code=self._failed.pop(0)[1])
        return Facts()

    @property
    def left(self) -> int:
        """How many activities no call was found for."""
        return len(self._found) - self._next


def stated(output: object) -> Facts:
    """Read the facts out of a tool's output: the fields that have the right type (K02, K15, K19, K21)."""
    fields = output if isinstance(output, dict) else {}
    names = ("path", "file_changed", "command", "failed_command", "server", "tool")
    texts = {name: value for name in names if isinstance(value := fields.get(name), str) and value}
    return Facts(**texts, exit_code=_number(fields.get("exit_code")))


def merged(first: Facts, second: Facts) -> Facts | None:
    """Give the facts of both; what the first states counts."""
    values = {
        name: value if (value := getattr(first, name)) is not None else getattr(second, name)
        for name in Facts.__struct_fields__
    }
    facts = Facts(**values)
    return facts if facts != Facts() else None


def _number(value: object) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < NUMBER_MAX else None
