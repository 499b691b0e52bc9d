"""`turn-memory@3`: calls as native blocks with fixed sentences for results, and the text block of version 1 (K05)."""

from ..stages.history_v1 import SUCCESS, WRAPPER, synthetic_id, validate
from ..stages.history_v1 import steps as cut_into_steps
from ..stages.segments_v1 import Activity, HistoricalCall, Memory, Step
from .v1 import render_text, with_block
from .v2 import memory

__all__ = ["memory", "render_text", "steps"]

COMPLETED = (
    "This call completed in an earlier turn and its output was not kept. To see current data, call the tool again."
)
FAILED = "This call failed in an earlier turn and its error was not kept. If it is still needed, call the tool again."


def steps(memory: Memory, index: int, /) -> list[Step]:
    """Replay the calls at their places; the text block stands below the rest of the prose.

    Args:
        memory: What is kept of the turn.
        index: Place of the turn's message in the whole list, from 0 (K11).
    """

    def call(number: int, activity: Activity) -> HistoricalCall:
        succeeded = activity.status == SUCCESS
        return HistoricalCall(
            synthetic_id(index, number),
            WRAPPER if activity.server else activity.tool,
            "{}",
            COMPLETED if succeeded else FAILED,
            is_error=not succeeded,
            node=activity.node,
        )

    *batches, rest = cut_into_steps(memory.prose, validate(memory)[0], call)
    return [*batches, Step(with_block(rest.text, memory))]
