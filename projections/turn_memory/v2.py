"""`turn-memory@2`: version 1, and each call as a tagged JSON line in the prose (K04, first form)."""

from collections.abc import Sequence

from ..stages.history_v1 import SUCCESS, WRAPPER, json_text, validate
from ..stages.keen_targets_v1 import behind_wrapper, target
from ..stages.segments_v1 import Activity, Memory, Segment, Step, completed_calls, prose
from ..stages.tool_map_v1 import ToolMap
from ..stages.turn_text_v1 import fields, relativise, string, trim
from .v1 import FILE_TOOLS, failed_commands, with_block


def memory(segments: Sequence[Segment], workspace: str, _tool_map: ToolMap | None = None, /) -> Memory:
    """Keep an activity for each completed call, beside the files and commands of version 1.

    From here on a path outside the workspace stays absolute, and a result that states no path leaves the asked one.
    """
    calls = [segment for _, segment in completed_calls(segments) if segment.status == "ok"]
    changed = (
        relativise(segment.facts.path, workspace) or string(fields(segment.input), "path")
        for segment in calls
        if segment.tool in FILE_TOOLS
    )
    return Memory(
        prose(segments),
        tuple(dict.fromkeys(path for path in changed if path)),
        tuple(failed_commands(calls)),
        tuple(_activity(offset, segment, workspace) for offset, segment in completed_calls(segments)),
    )


def _activity(offset: int, segment: Segment, workspace: str) -> Activity:
    status = SUCCESS if segment.status == "ok" else "error"
    values = fields(segment.input)
    if segment.tool == WRAPPER:
        server, tool = behind_wrapper(segment, values)
        return Activity(offset, tool, status, server=server, node=segment.node)
    path = segment.facts.path or string(values, "path")
    return Activity(offset, segment.tool, status, target(segment, values, path, workspace), node=segment.node)


def render_text(memory: Memory) -> str:
    """Write the annotated prose and the block of version 1 (K04)."""
    return with_block(_annotated(memory), memory)


def _annotated(memory: Memory) -> str:
    """Put a tagged line between blank lines at each valid place; the whole is trimmed, also when no place is valid."""
    if not memory.activities:
        return memory.prose
    data = memory.prose.encode()
    text, cursor = "", 0
    for activity in validate(memory)[0]:
        text += data[cursor : activity.text_offset].decode()
        cursor = activity.text_offset
        if text and not text.endswith("\n\n"):
            text += "\n" if text.endswith("\n") else "\n\n"
        text += f"<historical_tool_activity>\n{_line(activity)}\n</historical_tool_activity>\n\n"
    return trim(text + data[cursor:].decode())


def _line(activity: Activity) -> str:
    line = {
        "server": activity.server,
        "status": activity.status,
        "target": activity.target,
        "tool": activity.tool,
    }
    return json_text({name: value for name, value in line.items() if value or name in ("status", "tool")}, html=True)


def steps(memory: Memory, _index: int, /) -> list[Step]:
    """Replay the turn as one text."""
    return [Step(render_text(memory))]
