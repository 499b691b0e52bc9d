"""OpenCode's sessions made for tests: as a database, or as the folder of older versions."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

SCHEMA = """
CREATE TABLE project (id TEXT PRIMARY KEY, worktree TEXT, vcs TEXT, name TEXT);
CREATE TABLE session (
  id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, slug TEXT, directory TEXT, title TEXT, version TEXT,
  revert TEXT, time_created INTEGER, time_updated INTEGER
);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
CREATE TABLE part (
  id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT
);
CREATE INDEX message_session_idx ON message (session_id);
CREATE INDEX part_message_idx ON part (message_id);
CREATE TABLE todo (session_id TEXT, content TEXT, status TEXT, priority TEXT, position INTEGER);
"""

START = 1_767_348_000_000
TOKENS = {"input": 10, "output": 5, "reasoning": 2, "cache": {"read": 3, "write": 1}}


class Sessions:
    """Sessions, message by message; `save` writes the database, `save_folder` the older files."""

    def __init__(self) -> None:
        self.sessions: dict[str, dict[str, Any]] = {}
        self.messages: dict[str, tuple[str, Any]] = {}
        self.parts: dict[str, tuple[str, Any]] = {}
        """(message, part), each part as an object, or as text that is stored as it is."""
        self.rows: list[tuple[str, tuple[Any, ...]]] = []
        """Further SQL."""
        self.time = START

    def session(self, id_: str = "ses_1", **columns: Any) -> str:
        """Add a session."""
        self.time += 1000
        self.sessions[id_] = {"title": "Water", "directory": "/w", "time_created": self.time} | columns
        return id_

    def user(self, id_: str, *parts: Any, session: str = "ses_1", **fields: Any) -> str:
        """Add a user's message; a part that is a string is text."""
        self.time += 1000
        data = {"role": "user", "time": {"created": self.time}, "agent": "build"} | fields
        return self._message(session, id_, data, parts)

    def assistant(
        self, id_: str, *parts: Any, session: str = "ses_1", steps: bool = True, done: bool = True, **fields: Any
    ) -> str:
        """Add a response; with `steps` its parts stand between the marks of one step."""
        self.time += 1000
        calls = any(isinstance(part, dict) and part["type"] == "tool" for part in parts)
        time = {"created": self.time} | ({"completed": self.time + 500} if done else {})
        data = {"role": "assistant", "time": time, "modelID": "claude-x", "providerID": "anthropic", "cost": 0.01}
        if steps:
            finish = {
                "type": "step-finish",
                "reason": "tool-calls" if calls else "stop",
                "tokens": TOKENS,
                "cost": 0.01,
            }
            parts = ({"type": "step-start"}, *parts, finish)
        return self._message(session, id_, data | {"tokens": TOKENS} | fields, parts)

    def _message(self, session: str, id_: str, data: dict[str, Any], parts: tuple[Any, ...]) -> str:
        self.messages[id_] = (session, data)
        for number, part in enumerate(parts):
            said = {"type": "text", "text": part, "time": {"start": 1, "end": 2}} if isinstance(part, str) else part
            self.parts[f"prt_{id_.removeprefix('msg_')}{number}"] = (id_, said)
        return id_

    def save(self, path: Path) -> Path:
        """Write the database anew."""
        path.unlink(missing_ok=True)
        db = sqlite3.connect(path)
        db.executescript(SCHEMA)
        db.execute("INSERT INTO project VALUES ('prj', '/w', 'git', 'w')")
        for id_, columns in self.sessions.items():
            row = {"id": id_, "project_id": "prj"} | columns
            row = {name: json.dumps(value) if isinstance(value, dict) else value for name, value in row.items()}
            db.execute(f"INSERT INTO session ({','.join(row)}) VALUES ({','.join('?' * len(row))})", [*row.values()])
        for id_, (session, data) in self.messages.items():
            created = data["time"]["created"] if "time" in data else None
            db.execute("INSERT INTO message VALUES (?,?,?,?,?)", (id_, session, created, created, _text(data)))
        for id_, (message, part) in self.parts.items():
            session, data = self.messages.get(message, ("ses_1", {}))
            db.execute("INSERT INTO part VALUES (?,?,?,NULL,NULL,?)", (id_, message, session, _text(part)))
        for sql, values in self.rows:
            db.execute(sql, values)
        db.commit()
        db.close()
        return path

    def exported(self, id_: str) -> dict[str, Any]:
        """Give a session as `opencode export` writes it."""
        own = [(name, data) for name, (session, data) in self.messages.items() if session == id_]
        info = {"id": id_, "title": self.sessions[id_]["title"], "directory": "/w", "time": {"created": START}}
        messages = [
            {
                "info": {"id": name, "sessionID": id_} | data,
                "parts": [
                    {"id": part, "sessionID": id_, "messageID": name} | said
                    for part, (message, said) in self.parts.items()
                    if message == name
                ],
            }
            for name, data in own
        ]
        return {"info": info, "messages": messages}

    def save_folder(self, folder: Path) -> Path:
        """Write the files of an older version below a folder."""
        for id_, columns in self.sessions.items():
            said = {"id": id_, "projectID": "prj", "version": "0.9", "directory": columns["directory"]}
            said |= {"title": columns["title"], "time": {"created": columns["time_created"]}}
            said |= {"parentID": columns["parent_id"]} if "parent_id" in columns else {}
            _write(folder / "session" / "prj" / f"{id_}.json", said)
        for id_, (session, data) in self.messages.items():
            _write(folder / "message" / session / f"{id_}.json", {"id": id_, "sessionID": session} | data)
        for id_, (message, part) in self.parts.items():
            session = self.messages[message][0]
            _write(
                folder / "part" / message / f"{id_}.json",
                {"id": id_, "sessionID": session, "messageID": message} | part,
            )
        return folder


def tool(call: str, name: str = "bash", state: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    """Give a tool's part; by default one that is completed."""
    said = {"status": "completed", "input": arguments, "output": "done", "title": "t", "metadata": {}}
    said |= {"time": {"start": 1000, "end": 1250}}
    return {"type": "tool", "callID": call, "tool": name, "state": said | (state or {})}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2))
