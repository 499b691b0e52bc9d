"""`turn-memory@5`: calls as native blocks with their real, bounded inputs and exit codes (K30, K31).

It replays what a tool was given, without any filter; so it can repeat a secret, and is never a default.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal

import msgspec

from ..stages.history_v1 import SUCCESS, json_text, outcome_json, synthetic_id, validate
from ..stages.history_v1 import steps as cut_into_steps
from ..stages.segments_v1 import (
    Activity,
    HistoricalCall,
    Memory,
    Segment,
    Step,
    completed_calls,
    prose,
)
from ..stages.tool_map_v1 import ToolMap
from ..stages.turn_text_v1 import cut, exit_code, fields, relativise

FIELD_LIMIT = 4096
"""Bytes of one top-level input field (K31)."""

_FILE_TOOLS = ("write_file", "edit_file")
_PATH_TOOLS = ("read_file", "grep", "glob", *_FILE_TOOLS)
_KEPT_TOOLS = (*_PATH_TOOLS, "web_fetch", "bash", "delegate_task", "call_mcp_tool")

_EXACT_WHOLE = 2**53
_PLAIN_FROM, _PLAIN_BELOW = 1e-6, 1e21


def memory(segments: Sequence[Segment], workspace: str, _tool_map: ToolMap | None = None, /) -> Memory:
    """Keep an activity with bounded input for each completed call."""
    activities = (_activity(offset, segment, workspace) for offset, segment in completed_calls(segments))
    return Memory(prose(segments), activities=tuple(activities))


def _activity(offset: int, segment: Segment, workspace: str) -> Activity:
    return Activity(
        offset,
        segment.tool,
        SUCCESS if segment.status == "ok" else "error",
        exit_code=exit_code(segment.facts) if segment.tool == "bash" else None,
        input=_input(segment, workspace) if segment.tool in _KEPT_TOOLS else "",
        node=segment.node,
    )


def _input(segment: Segment, workspace: str) -> str:
    values = fields(segment.input)
    path = values.get("path")
    if segment.tool in _PATH_TOOLS and isinstance(path, str):
        values["path"] = relativise(path, workspace)
    if segment.tool == "bash" and segment.command:
        values["command"] = segment.command
    return arguments(_bounded(values, cut_strings=segment.tool in _FILE_TOOLS))


def _bounded(values: Mapping[str, object], *, cut_strings: bool) -> dict[str, object]:
    """Cut the strings of file tools, drop every other field whose JSON is too long (K31).

    The source measured JSON with `<`, `>` and `&` escaped, six bytes each.
    """
    bounded: dict[str, object] = {}
    for name, value in values.items():
        if cut_strings and isinstance(value, str):
            bounded[name] = cut(value, FIELD_LIMIT)
        elif len(json_text(_numbers_as_sent(value), html=True).encode()) <= FIELD_LIMIT:
            bounded[name] = value
    return bounded


def arguments(values: Mapping[str, object]) -> str:
    """Write input fields as the JSON text of arguments, keys sorted at every level; "" when there are none (K30)."""
    return json_text(_numbers_as_sent(values)) if values else ""


def _numbers_as_sent(value: object) -> object:
    """Spell numbers as the source did, for which every JSON number was a 64-bit float."""
    if isinstance(value, Mapping):
        return {name: _numbers_as_sent(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_numbers_as_sent(item) for item in value]
    if isinstance(value, float) or (isinstance(value, int) and abs(value) > _EXACT_WHOLE):
        return msgspec.Raw(_spelled(float(value)).encode())
    return value


def _spelled(number: float) -> str:
    """Write the shortest digits that read back the same: plain from 1e-6 to below 1e21, else with an exponent."""
    text = repr(number).removesuffix(".0")
    if "e" in text and _PLAIN_FROM <= abs(number) < _PLAIN_BELOW:
        text = format(Decimal(text), "f")
    return text.replace("e-0", "e-")


def render_text(memory: Memory) -> str:
    """Give the prose as it is: memory never alters it (K27)."""
    return memory.prose


def steps(memory: Memory, index: int, /) -> list[Step]:
    """Replay the calls at their places, with their kept input as arguments.

    Args:
        memory: What is kept of the turn.
        index: Place of the turn's message in the whole list, from 0 (K11).
    """

    def call(number: int, activity: Activity) -> HistoricalCall:
        return HistoricalCall(
            synthetic_id(index, number),
            activity.tool,
            activity.input or "{}",
            outcome_json(activity.status, exit_code=activity.exit_code),
            is_error=activity.status != SUCCESS,
            node=activity.node,
        )

    return cut_into_steps(memory.prose, validate(memory)[0], call)
