"""Which thread a Gemini CLI session is, and which call a sub-agent's belongs to."""

from __future__ import annotations

import re
from pathlib import Path

from ..events import ParentCall, ToolCalled, ToolReturned
from .base import Desk, ThreadInfo
from .slices import Fields, fields_of, items_of, name_of, text_of
from .times import microseconds

AGENT = "gemini-cli"
FOLDER = "chats"
"""Sub-agents' files lie below it in a folder that their parent's session names."""

_NAME = re.compile(r"session-[\dT:-]+-([0-9a-zA-Z]{8})")


def thread_of(desk: Desk, fields: Fields, id_: str, path: Path | None) -> ThreadInfo:
    """Give the thread that a session's header makes."""
    project = name_of(fields.get("projectHash"))
    folders = [name_of(item) for item in items_of(fields.get("directories")) or []]
    is_agent = name_of(fields.get("kind")) == "subagent"
    parent = _parent(path) if is_agent else None
    return ThreadInfo(
        id=id_,
        agent=AGENT,
        cwd=next((folder for folder in folders if folder), None),
        labels={"project": project} if project else {},
        origin="subagent" if is_agent else "import",
        parent=None if parent is None else ParentCall(desk.thread_id(parent), _call(desk, parent, id_)),
        occurred_at=microseconds(text_of(fields.get("startTime"))),
    )


def session_in(desk: Desk, path: Path | None) -> str | None:
    """Find the session that a file's name speaks of, of which it holds but the beginning."""
    found = _NAME.match(path.stem) if path is not None else None
    return next(iter(desk.threads(found[1])), None) if found else None


def _parent(path: Path | None) -> str | None:
    if path is None or path.parent.name == FOLDER or path.parent.parent.name != FOLDER:
        return None
    return path.parent.name


def _call(desk: Desk, parent: str, id_: str) -> int | None:
    """Find the call that names a sub-agent's session."""
    thread = desk.thread(parent)
    if thread is None:
        return None
    for event in thread.events(types=(ToolCalled.TYPE, ToolReturned.TYPE), outputs=False):
        extra = fields_of((event.body.extra or "{}").encode()) or {}
        stated = fields_of(extra.get("toolCall")) or {}
        if name_of(stated.get("agentId")) == id_:
            return event.ref("answers") or event.position
    return None
