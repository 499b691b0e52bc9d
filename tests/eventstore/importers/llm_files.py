"""Log databases of `llm` made for tests, of either generation or both."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

SHARED = """
CREATE TABLE _llm_migrations (name TEXT PRIMARY KEY, applied_at TEXT);
CREATE TABLE attachments (id TEXT PRIMARY KEY, type TEXT, path TEXT, url TEXT, content BLOB);
CREATE TABLE fragments (id INTEGER PRIMARY KEY, hash TEXT, content TEXT, datetime_utc TEXT, source TEXT);
CREATE TABLE schemas (id TEXT PRIMARY KEY, content TEXT);
CREATE TABLE tools (id INTEGER PRIMARY KEY, hash TEXT, name TEXT, description TEXT, input_schema TEXT, plugin TEXT);
CREATE TABLE tool_instances (id INTEGER PRIMARY KEY, plugin TEXT, name TEXT, arguments TEXT);
"""
CLASSIC = """
CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT);
CREATE TABLE responses (
  id TEXT PRIMARY KEY, model TEXT, prompt TEXT, system TEXT, prompt_json TEXT, options_json TEXT, response TEXT,
  response_json TEXT, conversation_id TEXT, duration_ms INTEGER, datetime_utc TEXT, input_tokens INTEGER,
  output_tokens INTEGER, token_details TEXT, schema_id TEXT, resolved_model TEXT, reasoning TEXT
);
CREATE TABLE prompt_attachments (response_id TEXT, attachment_id TEXT, "order" INTEGER);
CREATE TABLE prompt_fragments (response_id TEXT, fragment_id INTEGER, "order" INTEGER);
CREATE TABLE system_fragments (response_id TEXT, fragment_id INTEGER, "order" INTEGER);
CREATE TABLE tool_responses (tool_id INTEGER, response_id TEXT);
CREATE TABLE tool_calls (
  id INTEGER PRIMARY KEY, response_id TEXT, tool_id INTEGER, name TEXT, arguments TEXT, tool_call_id TEXT
);
CREATE TABLE tool_results (
  id INTEGER PRIMARY KEY, response_id TEXT, tool_id INTEGER, name TEXT, output TEXT, tool_call_id TEXT,
  instance_id INTEGER, exception TEXT
);
CREATE TABLE tool_results_attachments (tool_result_id INTEGER, attachment_id TEXT, "order" INTEGER);
"""
STORE = """
CREATE TABLE messages (hash TEXT PRIMARY KEY, parent_hash TEXT, role TEXT, provider_metadata TEXT);
CREATE TABLE parts (
  id INTEGER PRIMARY KEY, message_hash TEXT, position INTEGER, type TEXT, tool_name TEXT, text TEXT, payload TEXT
);
CREATE TABLE threads (id TEXT PRIMARY KEY, name TEXT, tip_message_hash TEXT, forked_from TEXT, datetime_utc TEXT);
CREATE TABLE turns (
  id TEXT PRIMARY KEY, thread_id TEXT, parent_message_hash TEXT, tip_message_hash TEXT, model TEXT,
  resolved_model TEXT, options_json TEXT, schema_id TEXT, input_tokens INTEGER, output_tokens INTEGER,
  token_details TEXT, duration_ms INTEGER, datetime_utc TEXT, response_json TEXT
);
CREATE TABLE turn_tools (turn_id TEXT, tool_id INTEGER, instance_id INTEGER);
CREATE TABLE turn_fragments (turn_id TEXT, fragment_id INTEGER, "order" INTEGER, kind TEXT);
CREATE TABLE tool_instantiations (turn_id TEXT, tool_call_id TEXT, instance_id INTEGER);
"""
TIME = "2026-01-02 10:00:00.000000+00:00"


def name_of(role: str, parts: list[dict[str, Any]], parent: str | None = None, **message: Any) -> str:
    """Name a message as `llm` does."""
    said = {"parent": parent, "message": {"role": role, "parts": parts} | message}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "b2:" + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class Log:
    """A log; rows of missing columns are null."""

    def __init__(self, path: Path, *, classic: bool = True, store: bool = True) -> None:
        self.path = path
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.executescript(SHARED + (CLASSIC if classic else "") + (STORE if store else ""))

    def add(self, table: str, **row: Any) -> int:
        """Add a row and give its number."""
        names = ",".join(f'"{name}"' for name in row)
        sql = f"INSERT INTO {table} ({names}) VALUES ({','.join('?' * len(row))})"
        return self.db.execute(sql, [*row.values()]).lastrowid or 0

    # --- classic ---

    def response(self, id_: str, prompt: str | None, response: str | None, **row: Any) -> str:
        """Add a response to the conversation `c1`."""
        said: dict[str, Any] = {"model": "gpt-x", "options_json": "{}", "datetime_utc": "2023-05-01T10:00:00"}
        said |= {"conversation_id": "c1", "input_tokens": 10, "output_tokens": 5}
        self.add("responses", id=id_, prompt=prompt, response=response, **(said | row))
        return id_

    # --- message store ---

    def message(self, role: str, *parts: Any, parent: str | None = None, **message: Any) -> str:
        """Add a message and give its hash; a part that is a string is text, others are as on the wire."""
        wire = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
        hash_ = name_of(role, wire, parent, **message)
        if not self.db.execute("SELECT 1 FROM messages WHERE hash = ?", [hash_]).fetchone():
            metadata = json.dumps(message["provider_metadata"]) if message else None
            self.add("messages", hash=hash_, parent_hash=parent, role=role, provider_metadata=metadata)
            for position, part in enumerate(wire):
                self.part(hash_, position, part)
        return hash_

    def part(self, hash_: str, position: int, wire: dict[str, Any]) -> None:
        """Add a part: type and text in columns, the rest as payload, attachments by id."""
        payload = {name: value for name, value in wire.items() if name not in {"type", "text"}}
        if "attachment" in payload:
            payload["attachment"] = {"id": payload["attachment"]["id"]}
        if "attachments" in payload:
            payload["attachments"] = [{"id": one["id"]} for one in payload["attachments"]]
        text, tool = wire.get("text"), wire.get("name")
        said = json.dumps(payload) if payload else None
        self.add(
            "parts", message_hash=hash_, position=position, type=wire["type"], tool_name=tool, text=text, payload=said
        )

    def turn(self, id_: str, parent: str | None, tip: str | None, thread: str | None = "t1", **row: Any) -> str:
        """Add a turn and move its thread there."""
        said: dict[str, Any] = {"model": "gpt-x", "input_tokens": 10, "output_tokens": 5, "datetime_utc": TIME}
        said |= {"token_details": json.dumps({"prompt_tokens_details": {"cached_tokens": 2}})}
        self.add("turns", id=id_, thread_id=thread, parent_message_hash=parent, tip_message_hash=tip, **(said | row))
        self.db.execute("UPDATE threads SET tip_message_hash = ? WHERE id = ?", [tip, thread])
        return id_
