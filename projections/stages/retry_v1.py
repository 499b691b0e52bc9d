"""What a retry leaves of a turn (K40)."""

from collections.abc import Sequence


def surviving(kinds: Sequence[str]) -> int:
    """Count the segments that a retry keeps: all up to the last that is neither `text` nor `reasoning`.

    Whatever else stands in a turn is sealed: calls, results, approvals, diffs. Activities are collected from what
    survives (K41), and so is the prose.

    Args:
        kinds: Kind of each segment, in order.
    """
    count = len(kinds)
    while count and kinds[count - 1] in ("text", "reasoning"):
        count -= 1
    return count
