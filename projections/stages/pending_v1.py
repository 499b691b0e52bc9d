"""Native state of an unfinished turn: how a turn ends, what stays pending and where it goes (K50 to K52)."""

from collections.abc import Sequence
from typing import Literal, TypeVar

Item = TypeVar("Item")
Terminal = Literal["done", "incomplete", "error"]


def terminal(end: str, *, injected: bool, added: bool) -> Terminal:
    """Say in which state a turn ended (K51).

    Args:
        end: `done` for a normal end; any other word (interrupted, failure, loop limit) is an abnormal one.
        injected: The turn started with native state of an earlier one.
        added: The turn produced native state of its own.
    """
    if end == "done":
        return "done"
    return "incomplete" if injected or added else "error"


def still_pending(state: Terminal, injected: Sequence[Item], added: Sequence[Item]) -> list[Item]:
    """Say what is pending after a turn: all of an incomplete one, injected state included; else nothing (K50, K51)."""
    return [*injected, *added] if state == "incomplete" else []


def place(messages: Sequence[Item], pending: Sequence[Item]) -> list[Item]:
    """Put pending native state just before the newest message (K50)."""
    return [*messages[:-1], *pending, *messages[-1:]]
