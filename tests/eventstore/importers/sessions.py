"""Claude Code sessions made for tests."""

from __future__ import annotations

import json
from typing import Any

USAGE = {"input_tokens": 10, "output_tokens": 7}


class Session:
    """Writes the lines of one session; each hangs below the one before unless told otherwise."""

    def __init__(self, session: str = "s-1") -> None:
        self.session = session
        self.lines: list[str] = []
        self._last: str | None = None

    def add(self, kind: str, uuid: str | None, **fields: Any) -> str:
        """Add a line. `parent` names another parent (None: the root), `parent=...` leaves the field out."""
        line: dict[str, Any] = {"type": kind, "sessionId": self.session, "timestamp": "2026-01-02T10:00:00.000Z"}
        parent = fields.pop("parent", self._last)
        if uuid is not None:
            line["uuid"] = self._last = uuid
            if parent is not ...:
                line["parentUuid"] = parent
        self.lines.append(json.dumps(line | fields, ensure_ascii=False))
        return uuid or ""

    def user(self, uuid: str, content: Any, **fields: Any) -> str:
        """Add a line of type user."""
        return self.add("user", uuid, message={"role": "user", "content": content}, **fields)

    def assistant(
        self, uuid: str, *blocks: Any, message: str | None = "m-1", stop: str | None = None, **fields: Any
    ) -> str:
        """Add a line of type assistant."""
        response: dict[str, Any] = {"role": "assistant", "model": "claude-x", "content": list(blocks)}
        response |= {"stop_reason": stop, "usage": fields.pop("usage", USAGE)}
        if message is not None:
            response["id"] = message
        return self.add("assistant", uuid, message=response, **fields)

    def result(self, uuid: str, call: str, output: Any = "done", **fields: Any) -> str:
        """Add a line with a result."""
        block = {"type": "tool_result", "tool_use_id": call, "content": output} | fields.pop("block", {})
        return self.user(uuid, [block], **fields)

    @property
    def data(self) -> bytes:
        """The file."""
        return "".join(f"{line}\n" for line in self.lines).encode()


def text(words: str) -> dict[str, Any]:
    """Give a text block."""
    return {"type": "text", "text": words}


def call(call_id: str, tool: str = "Bash", **arguments: Any) -> dict[str, Any]:
    """Give a call."""
    return {"type": "tool_use", "id": call_id, "name": tool, "input": arguments}


def compacted(**metadata: Any) -> Session:
    """Give a session that was compacted once and went on."""
    session = Session()
    session.user("u1", "start")
    session.assistant("a1", call("c1"))
    session.result("u2", "c1")
    session.assistant("a2", text("ready"), message="m-2", stop="end_turn")
    session.add(
        "system", "b1", parent=None, logicalParentUuid="a2", subtype="compact_boundary", compactMetadata=metadata
    )
    session.user("u3", "Summary: started.", isCompactSummary=True, isVisibleInTranscriptOnly=True)
    session.user("u4", "go on")
    return session
