"""Gemini CLI sessions made for tests."""

from __future__ import annotations

import json
from typing import Any

from convlog.eventstore.events import Event, Usage
from convlog.eventstore.importers import ImportReport, import_file
from convlog.eventstore.store import Store
from convlog.eventstore.thread import Thread

TOKENS = {"input": 100, "output": 20, "cached": 40, "thoughts": 5, "tool": 3, "total": 128}
SPENT = Usage(input=63, cache_read=40, output=25, reasoning=5)


class Chat:
    """Writes one session, as lines or as a document."""

    def __init__(self, session: str = "s-1", **header: Any) -> None:
        self.header = {"sessionId": session, "projectHash": "p", "startTime": self.time(0)} | header
        self.records: list[Any] = []

    @staticmethod
    def time(seconds: int) -> str:
        return f"2026-01-02T10:00:{seconds:02d}.000Z"

    def add(self, record: Any) -> Any:
        self.records.append(record)
        return record

    def message(self, id_: str, type_: str, content: Any, **fields: Any) -> dict[str, Any]:
        time = self.time(len(self.records) + 1)
        message = {"id": id_, "timestamp": time, "type": type_, "content": content} | fields
        self.add(message)
        return message

    def user(self, id_: str, content: Any, **fields: Any) -> dict[str, Any]:
        return self.message(id_, "user", content, **fields)

    def gemini(self, id_: str, content: Any, **fields: Any) -> dict[str, Any]:
        return self.message(id_, "gemini", content, **{"model": "gemini-x", "tokens": TOKENS} | fields)

    @property
    def lines(self) -> bytes:
        return "".join(
            f"{json.dumps(record, ensure_ascii=False)}\n" for record in [self.header, *self.records]
        ).encode()

    @property
    def document(self) -> bytes:
        return json.dumps(self.header | {"messages": self.records, "summary": "behind"}, indent=2).encode()


def call(id_: str = "c1", name: str = "list_directory", output: Any = "a.txt", **fields: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"id": id_, "name": name, "args": {"path": "/w"}, "status": "success"} | fields
    if output is not None and "result" not in made:
        made["result"] = [{"functionResponse": {"id": id_, "name": name, "response": {"output": output}}}]
    return made


def failed(words: str) -> dict[str, Any]:
    return {"functionResponse": {"id": "c1", "name": "list_directory", "response": {"error": words}}}


def diff(shown: str, before: str | None, after: str, **fields: Any) -> dict[str, Any]:
    return {"fileDiff": shown, "originalContent": before, "newContent": after} | fields


def thought(subject: str, description: str) -> dict[str, Any]:
    return {"subject": subject, "description": description, "timestamp": Chat.time(9)}


def eventful(*, control: bool = True) -> Chat:
    """Give a session in which everything happens; without `control` only what a document can say."""
    chat = Chat()
    chat.user("u1", "Größe")
    chat.gemini(
        "g1", "", thoughts=[thought("A", "b")], toolCalls=[call("c1", status="executing", output=None)], tokens=None
    )
    if control:
        chat.gemini("g1", "", thoughts=[thought("A", "b")], toolCalls=[call("c1"), call("c2")])
        chat.add({"$set": {"lastUpdated": Chat.time(4)}})
    chat.gemini("g2", "fertig")
    chat.user("u2", "weiter")
    chat.gemini("g3", "ja", tokens=None)
    if control:
        chat.gemini("g3", "ja")
        chat.add({"$rewindTo": "u2"})
        chat.user("u3", "anders")
        chat.gemini("g4", "gut")
        chat.gemini("g4", "besser")
        chat.add({"$set": {"messages": [dict(chat.records[0])]}})
        chat.user("u4", "noch einmal")
    return chat


def bring_in(store: Store, source: Chat | bytes) -> tuple[ImportReport, Thread]:
    report = import_file(store, source if isinstance(source, bytes) else source.lines, format="gemini-cli")
    return report, store.thread(report.thread_ids[0])


def extra(event: Event) -> Any:
    """Give what of its record an event keeps besides."""
    return json.loads(event.body.extra or "{}")
