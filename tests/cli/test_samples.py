"""The demo's session in three forms: what was said and done is the same whichever of them is imported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

import convlog
from convlog.eventstore.importers import import_file
from convlog.projections.conversation import Thread
from convlog.projections.views import view
from tests.sources import ROOT

FOLDER = ROOT / "cli" / "data"
CLAUDE_CODE = "sample.jsonl"
OTHERS = {"sample.codex.jsonl": "codex", "sample.pi.jsonl": "pi"}


@contextmanager
def imported(name: str) -> Iterator[Thread]:
    """Import a sample into a store of its own."""
    with convlog.open(":memory:") as store:
        report = import_file(store, FOLDER / name)
        assert (report.lost, report.warnings, report.threads) == (0, [], 1)
        yield store.thread(report.thread_ids[0])


def transcript(thread: Thread) -> list[tuple[Any, ...]]:
    """Give what was said and done on the active path, in order, with calls by their own ids."""
    said = [_said(thread, position) for position in [event.position for event in thread.path()]]
    return [each for each in said if each is not None]


def _said(thread: Thread, position: int) -> tuple[Any, ...] | None:
    event = thread.event(position)
    body = event.body
    match event.type:
        case "input.added":
            return "user", [part.text for part in body.content]
        case "segment.added":
            return body.kind, body.text
        case "tool.called":
            return "call", body.call, body.name, msgspec.json.decode(body.input)
        case "tool.returned":
            return "result", body.call, body.status, (event.output or b"").decode()
    return None


def memory(thread: Thread, at: int | None = None) -> list[tuple[Any, ...]]:
    """Give the pieces of turn-memory@6 without what names a place in the log or a provider's seal."""
    numbers: dict[int, int] = {}
    found = []
    for piece in view(thread, "turn-memory@6", at=at):
        element = piece.element
        node = getattr(element, "node", None)
        place = None if node is None else numbers.setdefault(node, len(numbers))
        content = [part.text for part in getattr(element, "content", ())]
        found.append(
            (piece.role, piece.provenance, type(element).__name__, place, getattr(element, "text", ""), content)
        )
    return found


@pytest.mark.parametrize(("name", "form"), OTHERS.items())
def test_a_sample_tells_the_same_talk(name: str, form: str) -> None:
    with imported(CLAUDE_CODE) as first, imported(name) as other:
        assert other.event(1).body.agent == form
        assert len(transcript(first)) == 29
        assert transcript(other) == transcript(first)


@pytest.mark.parametrize("name", OTHERS)
def test_a_sample_gives_the_same_turn_memory(name: str) -> None:
    with imported(CLAUDE_CODE) as first, imported(name) as other:
        kept = [piece[3] for piece in memory(first) if piece[1] == "turn-memory"]
        assert kept == [0, 0, None]  # a call, how it ended, the answer
        assert memory(other) == memory(first)


@pytest.mark.parametrize("name", OTHERS)
def test_the_turns_before_the_compaction_differ_in_what_only_one_form_states(name: str) -> None:
    with imported(CLAUDE_CODE) as first, imported(name) as other:
        expected, got = (memory(thread, _before_compaction(thread)) for thread in (first, other))
    stated = {"file_changed": "till/receipt.py"}
    differing = [(one[5], two[5]) for one, two in zip(expected, got, strict=True) if one != two]
    assert [(msgspec.json.decode(a[0]), msgspec.json.decode(b[0])) for a, b in differing] == [
        ({"status": "success"} | stated, {"status": "success"})
    ]


def _before_compaction(thread: Thread) -> int:
    ends = (
        event.position for event in thread.path() if event.type == "segment.added" and "tax line" in event.body.text
    )
    return next(ends)


def test_the_pi_sample_keeps_the_branch_that_the_rollout_cannot_hold() -> None:
    counts = []
    for name in (CLAUDE_CODE, *OTHERS):
        with imported(name) as thread:
            counts.append(sum(event.type == "input.added" for event in thread.events()))
    assert counts == [5, 4, 5]
