"""The records that are kept of a thread's finished turns, as `turn-memory@4` keeps them."""

from __future__ import annotations

from typing import Any

import msgspec

import convlog
from convlog.projections.material import material
from convlog.projections.stages.memory_v1 import completed_call
from convlog.projections.stages.segments_v1 import Memory, Segment
from convlog.projections.stages.selection_v1 import select
from convlog.projections.stages.turns_v1 import DONE, Turn, turns
from convlog.projections.stages.view_v1 import Call, Node, Result, read_all
from convlog.projections.stages.view_v1 import Segment as SegmentView
from convlog.projections.tool_maps import tool_map
from convlog.projections.turn_memory import v4


def memories(thread: convlog.Thread) -> list[dict[str, Any]]:
    """Give the record of each finished turn that has one."""
    read = material(thread)
    notes = read_all(read.notes)
    found = []
    for turn in turns(select(read_all(read.path), notes).slots, notes):
        if turn.state == DONE:
            memory = _memory(turn)
            if memory.prose or not memory.is_empty:
                found.append(msgspec.to_builtins(memory))
    return found


def first_memory(thread: convlog.Thread) -> tuple[str, list[dict[str, Any]]]:
    """Give prose and entries of the first finished turn."""
    found = memories(thread)
    return (found[0]["prose"], found[0].get("activities", [])) if found else ("", [])


def _memory(turn: Turn) -> Memory:
    calls: dict[int, Node] = {}
    segments: list[Segment] = []
    for slot in turn.slots:
        if not isinstance(slot, Node):
            continue
        body = slot.body
        if isinstance(body, Call):
            calls[slot.position] = slot
        elif isinstance(body, SegmentView) and body.kind == "text":
            segments.append(Segment(kind="text", text=body.text, node=slot.position))
        elif isinstance(body, Result) and slot.answers in calls:
            segments.append(completed_call(calls[slot.answers], slot, tool_map(None)))
    return v4.memory(segments, "", tool_map(None))
