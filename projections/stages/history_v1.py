"""Replay of activities at their places in the prose: validation, batches and result text (K10, K11, K22, K24)."""

from collections.abc import Callable, Sequence
from itertools import groupby

import msgspec

from .segments_v1 import Activity, HistoricalCall, Invalid, Memory, Step

SUCCESS = "success"
WRAPPER = "call_mcp_tool"
"""The tool through which the source calls the tools of MCP servers (K21)."""


class _Outcome(msgspec.Struct, omit_defaults=True):
    """Fields in the order in which they are sent."""

    status: str
    file_changed: str = ""
    failed_command: str = ""
    exit_code: int | None = None


def synthetic_id(index: int, number: int) -> str:
    """Name a call by the place of its message in the whole list and its own among the valid ones (K11, Q5)."""
    return f"historical_{index}_{number}"


def outcome_json(status: str, file_changed: str = "", failed_command: str = "", exit_code: int | None = None) -> str:
    """Write a result: compact, in fixed order, empty fields left out; whatever is no success is an error (K24)."""
    replayed = SUCCESS if status == SUCCESS else "error"
    return json_text(_Outcome(replayed, file_changed, failed_command, exit_code))


def json_text(value: object, *, html: bool = False) -> str:
    """Write JSON as the source's encoder did: object keys sorted, line separators escaped, `<`, `>` and `&` when asked.

    The four characters occur in strings alone, so escaping them in the finished text is safe.
    """
    text = msgspec.json.encode(value, order="deterministic").decode()
    text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026") if html else text


def validate(memory: Memory) -> tuple[list[Activity], list[Invalid]]:
    """Part the activities that can be replayed from those that cannot (K22); both keep their order."""
    data = memory.prose.encode()
    valid: list[Activity] = []
    invalid: list[Invalid] = []
    cursor = 0
    for activity in memory.activities:
        if reason := _fault(activity, data, cursor):
            invalid.append(Invalid(activity.text_offset, activity.tool, reason, activity.node))
        else:
            valid.append(activity)
            cursor = activity.text_offset
    return valid, invalid


def _fault(activity: Activity, data: bytes, cursor: int) -> str:
    offset = activity.text_offset
    if not activity.tool:
        return "no tool name"
    if offset < cursor:
        return "negative offset" if offset < 0 else "offset before the activity above it"
    if offset > len(data):
        return "offset beyond the text"
    if 0 < offset < len(data) and data[offset] & 0xC0 == 0x80:
        return "offset inside a character"
    return ""


def steps(prose: str, activities: Sequence[Activity], call: Callable[[int, Activity], HistoricalCall]) -> list[Step]:
    """Cut the prose at valid activities; those at one offset form one batch (K10).

    Args:
        prose: The turn's prose.
        activities: Valid activities in order.
        call: Makes the replayed call from an activity and its number among the valid ones, from 0.

    Returns:
        A step for each batch, then one with the rest of the prose, which may be empty.
    """
    data = prose.encode()
    made: list[Step] = []
    cursor = 0
    for offset, batch in groupby(enumerate(activities), key=lambda numbered: numbered[1].text_offset):
        made.append(Step(data[cursor:offset].decode(), tuple(call(number, activity) for number, activity in batch)))
        cursor = offset
    return [*made, Step(data[cursor:].decode())]
