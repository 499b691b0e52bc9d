"""Which thread a Codex rollout is of, and which one it belongs to."""

from __future__ import annotations

import re
from pathlib import Path

from ..events import Event, ParentCall, ToolReturned
from ..thread import Thread
from .base import Desk, ThreadInfo
from .codex_lines import AGENT, Line
from .slices import Fields, fields_of, name_of, text_of
from .times import microseconds

_ROLLOUT = re.compile(r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-([0-9A-Za-z-]{8,})(?:_[0-9A-Za-z-]+)?")


def id_in(path: Path | None) -> str | None:
    """Read the thread's id out of a file's name."""
    found = _ROLLOUT.fullmatch(path.name.split(".")[0]) if path is not None else None
    return None if found is None else found[1]


def thread_of(desk: Desk, line: Line, id_: str) -> ThreadInfo:
    """Give the thread that a header makes."""
    payload = line.payload
    labels = {"form": line.form} if line.form else {}
    origin = name_of(payload.get("forked_from_id"))
    if origin:
        labels["forked_from"] = origin
    is_agent, parent = _parent(payload)
    cwd = name_of(payload.get("cwd")) or name_of((line.record.fields or {}).get("cwd"))
    return ThreadInfo(
        id=id_,
        agent=AGENT,
        cwd=cwd or None,
        labels=labels,
        origin="subagent" if is_agent else "import",
        parent=None if parent is None else ParentCall(desk.thread_id(parent), _call(desk, parent, id_)),
        occurred_at=microseconds(text_of(payload.get("timestamp"))) or line.at,
    )


def _parent(payload: Fields) -> tuple[bool, str | None]:
    """Say whether a thread is a sub-agent's, and whose."""
    source = fields_of(payload.get("source")) or {}
    agent = source.get("subagent")
    spawn = fields_of((fields_of(agent) or {}).get("thread_spawn")) or {}
    parent = name_of(payload.get("parent_thread_id")) or name_of(spawn.get("parent_thread_id"))
    return agent is not None or parent is not None, parent or None


def _call(desk: Desk, parent: str, id_: str) -> int | None:
    """Find the call that a sub-agent works for: the one whose output names its thread."""
    thread = desk.thread(parent)
    return (
        None if thread is None else next((_answered(event) for event in _results(thread) if _names(event, id_)), None)
    )


def _results(thread: Thread) -> list[Event]:
    return list(thread.events(types=(ToolReturned.TYPE,)))


def _names(event: Event, id_: str) -> bool:
    return event.output is not None and f'"{id_}"'.encode() in event.output.replace(b"\\", b"")


def _answered(event: Event) -> int | None:
    return event.ref("answers")
