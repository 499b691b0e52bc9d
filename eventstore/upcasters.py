"""Older schema versions of a body to the current one: pure, one step a function, adding and never reinterpreting.

Frozen projections read through these, so that a step, once released, never changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Step = Callable[[dict[str, Any]], dict[str, Any]]

STEPS: dict[tuple[str, int], Step] = {}
"""(event type, version read) to the function that gives the next version."""


def upcast(type_: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
    """Carry a body from `version` to the current one."""
    while (step := STEPS.get((type_, version))) is not None:
        body = step(body)
        version += 1
    return body
