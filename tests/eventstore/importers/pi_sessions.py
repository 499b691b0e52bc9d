"""pi sessions made for tests, in every form."""

from __future__ import annotations

import json
from typing import Any

TIME = "2026-01-02T10:00:00.000Z"
MS = 1_767_348_000_000
USAGE = {"input": 10, "output": 5, "cacheRead": 3, "cacheWrite": 2, "totalTokens": 20, "cost": {"total": 0.5}}


class Session:
    """Writes the lines of one session of a form; each entry hangs below the one before unless told otherwise."""

    def __init__(self, version: int = 3, session: str = "s-1") -> None:
        self.version = version
        self.lines: list[str] = []
        self._last: str | None = None
        self._seq = 0
        if version == 4:
            self.write({"kind": "header", "version": 4, "id": session, "createdAt": MS, "cwd": "/w"})
        else:
            header = {"type": "session", "id": session, "timestamp": TIME, "cwd": "/w"}
            self.write(header | ({"version": version} if version > 1 else {}))

    def write(self, line: dict[str, Any]) -> None:
        self.lines.append(json.dumps(line, ensure_ascii=False))

    def add(self, type_: str, id_: str = "", **fields: Any) -> str:
        """Add an entry; `parent` names another parent, None the root, and ... leaves it out."""
        parent = fields.pop("parent", self._last)
        entry: dict[str, Any] = {"type": type_}
        if self.version > 1:
            self._last = entry["id"] = id_
            if parent is not ...:
                entry["parentId"] = parent
        if self.version < 4:
            self.write(entry | {"timestamp": TIME} | fields)
        else:
            lane = fields.pop("lane", "main")
            self.mutation("entry", lane=lane, entry=entry | {"seq": self._seq + 1, "timestamp": MS} | fields)
        return id_

    def mutation(self, kind: str, **fields: Any) -> None:
        """Add a line of form 4."""
        self._seq += 1
        self.write({"kind": kind} | ({"seq": self._seq} if kind in {"lane", "fact"} else {}) | fields)

    def user(self, id_: str, content: Any, **fields: Any) -> str:
        return self.add("message", id_, message={"role": "user", "content": content, "timestamp": MS}, **fields)

    def assistant(self, id_: str, *blocks: Any, stop: str = "stop", error: str | None = None, **fields: Any) -> str:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": list(blocks),
            "api": "x-api",
            "provider": "p",
            "model": "m",
        }
        message |= {"usage": fields.pop("usage", USAGE), "stopReason": stop, "timestamp": MS}
        message |= {} if error is None else {"errorMessage": error}
        return self.add("message", id_, message=message, **fields)

    def result(self, id_: str, call_id: str, content: Any = "done", **fields: Any) -> str:
        blocks = [text(content)] if isinstance(content, str) else content
        message: dict[str, Any] = {"role": "toolResult", "toolCallId": call_id, "toolName": "bash", "content": blocks}
        message |= {"isError": False, "timestamp": MS} | fields.pop("message", {})
        return self.add("message", id_, message=message, **fields)

    @property
    def data(self) -> bytes:
        return "".join(f"{line}\n" for line in self.lines).encode()


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def call(call_id: str, tool: str = "bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": tool, "arguments": arguments}


def compacted(version: int = 3, **fields: Any) -> Session:
    session = Session(version)
    session.user("u1", "start")
    session.assistant("a1", text("ready"), call("c1"), stop="toolUse")
    session.result("r1", "c1")
    session.assistant("a2", text("done"), text("really"))
    session.add("compaction", "k1", summary="Started.", tokensBefore=50_000, **fields)
    session.user("u2", "go on")
    return session
