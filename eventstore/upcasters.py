"""Older schema versions of a body to the current one: pure, one step a function, adding and never reinterpreting.

Frozen projections read through these, so that a step, once released, never changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import prompt_digests

Step = Callable[[dict[str, Any]], dict[str, Any]]


def turn_ended_1(body: dict[str, Any]) -> dict[str, Any]:
    """Say in `state` what version 1 left to whether there was an `error`."""
    return {**body, "state": "done" if body.get("error") is None else "error"}


def call_prepared_1(body: dict[str, Any]) -> dict[str, Any]:
    """Put the digests, which version 1 has as pairs of a number of blocks and hex, into slots."""
    digests = {count: bytes.fromhex(digest) for count, digest in body["digests"]}
    return {**body, "digests": prompt_digests.packed(digests, body["blocks"])}


STEPS: dict[tuple[str, int], Step] = {
    ("call.prepared", 1): call_prepared_1,
    ("turn.ended", 1): turn_ended_1,
}
"""(event type, version read) to the function that gives the next version."""


def upcast(type_: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
    """Carry a body from `version` to the current one; fields that no step knows stay."""
    while (step := STEPS.get((type_, version))) is not None:
        body = step(body)
        version += 1
    return body
