"""What a retry leaves, how a turn ends and what stays pending."""

import pytest

from convlog.projections.stages.pending_v1 import place, still_pending, terminal
from convlog.projections.stages.retry_v1 import surviving


@pytest.mark.parametrize(
    ("kinds", "count"),
    [
        *(([], 0), (["text"], 0), (["reasoning", "text", "reasoning"], 0), (["tool_start"], 1)),
        *((["text", "diff", "text"], 2), (["text", "subagent"], 2), (["bash", "text", "bash", "reasoning"], 3)),
    ],
)
def test_a_retry_drops_trailing_text_and_reasoning_only(kinds: list[str], count: int) -> None:
    assert surviving(kinds) == count


@pytest.mark.parametrize(
    ("end", "injected", "added", "state"),
    [
        *(("done", True, True, "done"), ("done", False, False, "done"), ("failure", False, False, "error")),
        *(("failure", True, False, "incomplete"), ("interrupted", False, True, "incomplete")),
        *(("loop_limit", False, True, "incomplete"), ("loop_limit", False, False, "error")),
    ],
)
def test_an_abnormal_end_is_incomplete_when_there_is_native_state(
    end: str, injected: bool, added: bool, state: str
) -> None:
    assert terminal(end, injected=injected, added=added) == state


def test_a_failed_recovery_keeps_the_injected_state_and_success_clears_it() -> None:
    assert still_pending("incomplete", ["a", "b"], ["c"]) == ["a", "b", "c"]
    assert still_pending("done", ["a"], ["c"]) == []
    assert still_pending("error", [], []) == []


def test_pending_state_stands_just_before_the_newest_message() -> None:
    assert place(["u1", "u2"], ["a", "t"]) == ["u1", "a", "t", "u2"]
    assert place([], ["a"]) == ["a"]
    assert place(["u1"], []) == ["u1"]
