"""`turn-memory@4`: calls as native blocks at byte offsets, with bounded targets and stated outcomes (K06 to K29)."""

from collections.abc import Sequence

from ..stages.history_v1 import SUCCESS, WRAPPER, outcome_json, synthetic_id, validate
from ..stages.history_v1 import steps as cut_into_steps
from ..stages.keen_targets_v1 import behind_wrapper, target
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
from ..stages.turn_text_v1 import exit_code, fields, kept, relativise, string


def memory(segments: Sequence[Segment], workspace: str, _tool_map: ToolMap | None = None, /) -> Memory:
    """Keep an activity for each completed call; never an output, an argument beyond its target, or an error's text."""
    activities = (_activity(offset, segment, workspace) for offset, segment in completed_calls(segments))
    return Memory(prose(segments), activities=tuple(activities))


def _activity(offset: int, segment: Segment, workspace: str) -> Activity:
    status = SUCCESS if segment.status == "ok" else "error"
    values = fields(segment.input)
    if segment.tool == WRAPPER:
        server, tool = behind_wrapper(segment, values)
        return Activity(offset, tool, status, server=server, node=segment.node)
    file_changed, failed_command, code = _outcome(segment, workspace)
    return Activity(
        offset,
        segment.tool,
        status,
        target(segment, values, string(values, "path"), workspace),
        file_changed=file_changed,
        failed_command=failed_command,
        exit_code=code,
        node=segment.node,
    )


def _outcome(segment: Segment, workspace: str) -> tuple[str, str, int | None]:
    """Read the stated outcome of a call without error (K19): file changed, failed command, exit code (Q6, Q9)."""
    if segment.status != "ok":
        return "", "", None
    if segment.tool in ("write_file", "edit_file"):
        return kept(relativise(segment.facts.file_changed, workspace)), "", None
    code = exit_code(segment.facts) if segment.tool == "bash" else None
    return "", kept(segment.facts.failed_command) if code else "", code


def render_text(memory: Memory) -> str:
    """Give the prose as it is: memory never alters it (K27)."""
    return memory.prose


def steps(memory: Memory, index: int, /) -> list[Step]:
    """Replay the calls at their places, without arguments.

    Args:
        memory: What is kept of the turn.
        index: Place of the turn's message in the whole list, from 0 (K11).
    """

    def call(number: int, activity: Activity) -> HistoricalCall:
        return HistoricalCall(
            synthetic_id(index, number),
            WRAPPER if activity.server else activity.tool,
            "{}",
            outcome_json(activity.status, activity.file_changed, activity.failed_command, activity.exit_code),
            is_error=activity.status != SUCCESS,
            node=activity.node,
        )

    return cut_into_steps(memory.prose, validate(memory)[0], call)
