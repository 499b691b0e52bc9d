"""Which thread a line of a Claude Code session belongs to: the session's own, or a sub-agent's."""

from __future__ import annotations

from collections.abc import Iterator

from ..events import Event, ParentCall, ToolCalled, ToolReturned
from ..thread import Thread
from .base import Desk, Place, ThreadInfo
from .known import Identity
from .slices import Fields, fields_of, items_of, name_of, text_of

AGENT = "claude-code"
AGENT_TOOLS = frozenset({"Task", "Agent"})
COPY = "acompact"
"""Begins the id of the agent that writes summaries: its transcript repeats the session's."""

COPY_LABELS = {"copy": "compaction"}
"""Labels of its thread: the responses in it are no calls of their own."""


class Threads:
    """The threads of one file's sessions."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._infos: dict[str, ThreadInfo] = {}
        self._last_side: dict[str, str] = {}
        """The side chain that each session was last in."""
        self._linked: set[tuple[str, int]] = set()
        """Calls that have their sub-agent's thread."""

    def main(self, session: str, fields: Fields, parent: str | Place, occurred_at: int | None) -> ThreadInfo:
        """Give a session's own thread."""
        info = self._infos.get(session)
        if info is None:
            info = self._infos[session] = ThreadInfo(
                id=session,
                agent=AGENT,
                cwd=name_of(fields.get("cwd")),
                continues=self._origin(parent),
                occurred_at=occurred_at,
            )
        return info

    def _origin(self, parent: str | Place) -> tuple[str, str] | None:
        """Find the session in this file that another one goes on from."""
        if isinstance(parent, Place):
            return None
        mains = (info.id for info in self._infos.values() if info.origin == "import")
        return next(((id_, parent) for id_ in mains if self._desk.holds(id_, parent)), None)

    def side(
        self, session: str, fields: Fields, parent: str | Place, identity: Identity, occurred_at: int | None
    ) -> ThreadInfo:
        """Give the thread of a sub-agent's line: by the agent's id, else by the side chain that it goes on with."""
        agent = name_of(fields.get("agentId"))
        id_ = f"{session}/{agent}" if agent else self._chain(session, parent) or f"{session}/{identity.id}"
        self._last_side[session] = id_
        info = self._infos.get(id_)
        if info is None:
            info = self._infos[id_] = ThreadInfo(
                id=id_,
                agent=AGENT,
                cwd=name_of(fields.get("cwd")),
                labels=COPY_LABELS if agent and agent.startswith(COPY) else {},
                origin="subagent",
                parent=ParentCall(self._desk.thread_id(session), self._call(id_, session, agent, fields)),
                occurred_at=occurred_at,
            )
        return info

    def _chain(self, session: str, parent: str | Place) -> str | None:
        """Find the side chain that a line without an agent's id goes on with; None when it begins one."""
        if parent is Place.ROOT:
            return None
        if parent is Place.BEFORE:
            return self._last_side.get(session)
        threads = self._desk.threads(f"{session}/")
        return next((id_ for id_ in threads if self._desk.holds(id_, str(parent))), None)

    def _call(self, id_: str, session: str, agent: str | None, fields: Fields) -> int | None:
        """Find the call that a sub-agent works for: by its id, by the agent that its result names, by its prompt."""
        thread = self._desk.thread(session)
        if thread is None or self._desk.thread(id_) is not None:
            return None
        named = name_of(fields.get("sourceToolUseID")) or name_of(fields.get("parentToolUseID"))
        prompt = _first_text(fields)
        found = None
        for event in _exchanges(thread):
            body = event.body
            if isinstance(body, ToolReturned):
                if agent is not None and _names_agent(body, agent):
                    found = event.ref("answers")
                    break
            elif isinstance(body, ToolCalled) and (session, event.position) not in self._linked:
                if body.call == named:
                    found = event.position
                    break
                if found is None and prompt and body.name in AGENT_TOOLS and _prompt(body) == prompt:
                    found = event.position
        if found is not None:
            self._linked.add((session, found))
        return found


def _exchanges(thread: Thread) -> Iterator[Event]:
    return thread.events(types=(ToolCalled.TYPE, ToolReturned.TYPE), outputs=False)


def _names_agent(body: ToolReturned, agent: str) -> bool:
    if body.extra is None or agent not in body.extra:
        return False
    fields = fields_of(body.extra.encode()) or {}
    stated = fields_of(fields.get("toolUseResult"))
    return stated is not None and name_of(stated.get("agentId")) == agent


def _prompt(body: ToolCalled) -> str | None:
    fields = fields_of(body.input.encode())
    return text_of(fields.get("prompt")) if fields else None


def _first_text(fields: Fields) -> str | None:
    message = fields_of(fields.get("message")) or {}
    content = message.get("content")
    text = text_of(content)
    if text is not None:
        return text
    blocks = items_of(content)
    first = fields_of(blocks[0]) if blocks else None
    return text_of(first.get("text")) if first else None
