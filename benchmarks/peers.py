"""Other stores under one small interface, and the program that measures one of them. Standard library only.

It runs by the interpreter of the peer's own environment: `PYTHON benchmarks/peers.py NAME MESSAGES FOLDER RUNS`, where
MESSAGES is a JSON Lines file of chat messages. It prints one JSON object. `side_by_side.py` calls it for each peer.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
import time
import uuid
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

Message = dict[str, Any]
INSERT = "INSERT INTO bodies (thread, position, body) VALUES (1, ?, ?)"


def encode(message: Message) -> bytes:
    """Give a message's compact JSON."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


class Peer:
    """One store, opened on a new file, with one conversation in it."""

    durability: ClassVar[str] = ""
    """What the store does by itself at a commit."""
    append_max: ClassVar[int] = 10_000
    """Messages after which the measurement of appends stops: for stores whose cost grows with the conversation."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, message: Message) -> None:
        """Store one message, as durable as the store makes it."""
        raise NotImplementedError

    def load(self) -> int:
        """Read the conversation back and give the count of messages."""
        raise NotImplementedError

    def fork(self) -> None:
        """Make another conversation that has this one's messages so far."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the store."""


class RawTable(Peer):
    """The floor: JSON bytes in a table, keyed by thread and position."""

    synchronous = "FULL"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA wal_autocheckpoint=0")
        self.connection.execute(f"PRAGMA synchronous={self.synchronous}")
        self.connection.execute(
            "CREATE TABLE bodies (id INTEGER PRIMARY KEY, thread INTEGER NOT NULL, position INTEGER NOT NULL,"
            " body BLOB NOT NULL, UNIQUE (thread, position))"
        )
        self.position = 0

    def append(self, message: Message) -> None:
        """Insert its JSON."""
        self.position += 1
        self.connection.execute(INSERT, (self.position, encode(message)))

    def load(self) -> int:
        """Select and decode."""
        rows = self.connection.execute("SELECT body FROM bodies WHERE thread = 1 ORDER BY position")
        return len([json.loads(body) for (body,) in rows])

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class RawTableNormal(RawTable):
    """The floor without a sync at each commit."""

    synchronous = "NORMAL"


class Convlog(Peer):
    """This project, through its public handle."""

    durability = "WAL, FULL"
    level = "full"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        # Imported when it is measured, as each store is: the others' environments do not have it.
        self._store = import_module("convlog.eventstore.store").open_store(path, durability=self.level)
        self._thread = self._store.create_thread()

    def append(self, message: Message) -> None:
        """Append the event that the message stands for."""
        if message["role"] == "user":
            self._thread.user(message["content"])
        elif message["role"] == "tool":
            self._thread.result(message["tool_call_id"], message["content"])
        elif "tool_calls" in message:
            call = message["tool_calls"][0]
            self._thread.call(call["id"], call["function"]["name"], call["function"]["arguments"])
        else:
            self._thread.text(message["content"])

    def load(self) -> int:
        """Read the path, typed."""
        return sum(1 for _ in self._thread.path()) - 1

    def fork(self) -> None:
        """Fork into a new thread."""
        self._thread.fork()

    def close(self) -> None:
        """Close the store."""
        self._store.close()


class ConvlogProcess(Convlog):
    """This project without a sync at each commit."""

    durability = "WAL, NORMAL"
    level = "process"


class JsonLines(Peer):
    """A transcript file: open, write a line, close."""

    durability = "none"
    syncs = False

    def append(self, message: Message) -> None:
        """Write a line."""
        with self.path.open("ab") as file:
            file.write(encode(message) + b"\n")
            if self.syncs:
                file.flush()
                os.fsync(file.fileno())

    def load(self) -> int:
        """Read all lines."""
        with self.path.open("rb") as file:
            return len([json.loads(line) for line in file])

    def fork(self) -> None:
        """Copy the file."""
        self.path.with_suffix(".fork").write_bytes(self.path.read_bytes())


class JsonLinesSynced(JsonLines):
    """A transcript file that is synced after each line."""

    durability = "fsync"
    syncs = True


class Llm(Peer):
    """llm's LogStore: messages by content hash in sqlite-utils tables."""

    durability = "rollback journal, FULL"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._parts = import_module("llm.parts")
        self._database = import_module("sqlite_utils").Database(str(path))
        self._store = import_module("llm.logs").LogStore(self._database)
        self._thread = self._store.create_thread()

    def append(self, message: Message) -> None:
        """Append one message of one part."""
        self._store.append(self._thread, [self._parts.Message(role=message["role"], parts=[self._part(message)])])

    def _part(self, message: Message) -> Any:
        if message["role"] == "tool":
            return self._parts.ToolResultPart(output=message["content"], tool_call_id=message["tool_call_id"])
        if "tool_calls" in message:
            call = message["tool_calls"][0]
            arguments = json.loads(call["function"]["arguments"])
            return self._parts.ToolCallPart(name=call["function"]["name"], arguments=arguments, tool_call_id=call["id"])
        return self._parts.TextPart(text=message["content"])

    def load(self) -> int:
        """Follow the chain from the tip."""
        return len(self._store.thread_messages(self._thread))

    def fork(self) -> None:
        """Point another thread at the tip."""
        self._store.fork(self._store.thread_tip(self._thread), forked_from=self._thread)

    def close(self) -> None:
        """Close the connection."""
        self._database.conn.close()


class OpenAiAgents(Peer):
    """SQLiteSession of openai-agents: items as JSON, no branches."""

    durability = "WAL, FULL"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._loop = asyncio.new_event_loop()
        self._session = import_module("agents").SQLiteSession("measured", str(path))

    def append(self, message: Message) -> None:
        """Add one item."""
        self._loop.run_until_complete(self._session.add_items([self._item(message)]))

    def _item(self, message: Message) -> Message:
        if message["role"] == "tool":
            return {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
        if "tool_calls" in message:
            call = message["tool_calls"][0]
            return {"type": "function_call", "call_id": call["id"], **call["function"]}
        return message

    def load(self) -> int:
        """Get all items."""
        return len(self._loop.run_until_complete(self._session.get_items()))

    def close(self) -> None:
        """Close session and loop."""
        self._session.close()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


class LangGraph(Peer):
    """SqliteSaver of langgraph-checkpoint-sqlite: the whole state again at every checkpoint, one a message here."""

    durability = "WAL, FULL"
    append_max = 200

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._new = import_module("langgraph.checkpoint.base").empty_checkpoint
        self._connection = sqlite3.connect(path, check_same_thread=False)
        self._saver = import_module("langgraph.checkpoint.sqlite").SqliteSaver(self._connection)
        self._saver.setup()
        self._start = {"configurable": {"thread_id": "measured", "checkpoint_ns": ""}}
        self._config: Any = self._start
        self._messages: list[Message] = []

    def append(self, message: Message) -> None:
        """Put a checkpoint with one more message."""
        self._messages.append(message)
        version = {"messages": len(self._messages)}
        checkpoint = self._new() | {"channel_values": {"messages": self._messages}, "channel_versions": version}
        metadata = {"source": "loop", "step": len(self._messages), "parents": {}}
        self._config = self._saver.put(self._config, checkpoint, metadata, version)

    def load(self) -> int:
        """Get the newest checkpoint."""
        return len(self._saver.get_tuple(self._start).checkpoint["channel_values"]["messages"])

    def fork(self) -> None:
        """Put the newest checkpoint once more, under it."""
        found = self._saver.get_tuple(self._config)
        checkpoint = dict(found.checkpoint) | {"id": self._new()["id"]}
        self._saver.put(found.config, checkpoint, {"source": "fork", "step": 0, "parents": {}}, {})

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class EventSourcing(Peer):
    """SQLiteAggregateRecorder of eventsourcing: the recorder alone, without its mapper."""

    durability = "WAL, FULL"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        module = import_module("eventsourcing.sqlite")
        self._event = import_module("eventsourcing.persistence").StoredEvent
        self._datastore = module.SQLiteDatastore(str(path))
        self._recorder = module.SQLiteAggregateRecorder(self._datastore)
        self._recorder.create_table()
        self._aggregate, self._version = uuid.UUID(int=1), 0

    def append(self, message: Message) -> None:
        """Insert one event."""
        self._version += 1
        self._recorder.insert_events([self._event(self._aggregate, self._version, "message", encode(message))])

    def load(self) -> int:
        """Select and decode."""
        return len([json.loads(event.state) for event in self._recorder.select_events(self._aggregate)])

    def close(self) -> None:
        """Close the pool."""
        self._datastore.close()


class ActiveGraph(Peer):
    """SQLiteEventStore of activegraph."""

    durability = "WAL, NORMAL"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._event = import_module("activegraph.core.event").Event
        self._class = import_module("activegraph.store.sqlite").SQLiteEventStore
        self._store = self._class(str(path), "measured")
        self._count = self._forks = 0

    def append(self, message: Message) -> None:
        """Append one event."""
        self._count += 1
        event = self._event(
            id=f"e{self._count}",
            type="message",
            payload=message,
            actor=message["role"],
            timestamp="2026-01-01T00:00:00Z",
        )
        self._store.append(event)

    def load(self) -> int:
        """Iterate over all events."""
        return sum(1 for _ in self._store.iter_events())

    def fork(self) -> None:
        """Copy the run."""
        self._forks += 1
        self._class.fork_run(
            str(self.path),
            parent_run_id="measured",
            new_run_id=f"fork{self._forks}",
            at_event_id=f"e{self._count}",
            label=None,
            created_at="2026-01-01T00:00:00Z",
        )

    def close(self) -> None:
        """Close the connection."""
        self._store.close()


PEERS: dict[str, type[Peer]] = {
    "convlog": Convlog,
    "convlog-process": ConvlogProcess,
    "jsonl": JsonLines,
    "jsonl-fsync": JsonLinesSynced,
    "eventsourcing": EventSourcing,
    "activegraph": ActiveGraph,
    "openai-agents": OpenAiAgents,
    "langgraph": LangGraph,
    "llm": Llm,
}


def measure(name: str, messages: list[Message], folder: Path, runs: int) -> dict[str, Any]:
    """Measure appends event by event beside both floors, then load and fork of what was appended."""
    peer_class = PEERS[name]
    messages = messages[: peer_class.append_max]
    medians: list[list[float]] = []
    loads: list[float] = []
    floors: list[float] = []
    forks: list[float] = []
    size = 0
    for _ in range(runs):
        with TemporaryDirectory(dir=folder) as place:
            peer = peer_class(Path(place) / "peer.db")
            full, normal = RawTable(Path(place) / "full.db"), RawTableNormal(Path(place) / "normal.db")
            medians.append(_appends(messages, peer, full, normal))
            assert peer.load() == len(messages)
            loads.append(_timed(peer.load))
            floors.append(_timed(normal.load))
            if peer_class.fork is not Peer.fork:
                forks.append(_timed(peer.fork))
                Path(place, "peer.fork").unlink(missing_ok=True)
            for each in (peer, full, normal):
                each.close()
            size = sum(file.stat().st_size for file in Path(place).glob("peer.db*"))
    return {
        "name": name,
        "durability": peer_class.durability,
        "messages": len(messages),
        "append_us": median(run[0] for run in medians) * 1e6,
        "of_full": median(run[0] / run[1] for run in medians),
        "of_normal": median(run[0] / run[2] for run in medians),
        "load_ms": median(loads) * 1e3,
        "of_load": median(ours / floor for ours, floor in zip(loads, floors, strict=True)),
        "fork_ms": median(forks) * 1e3 if forks else None,
        "bytes_per_byte": size / sum(len(encode(message)) for message in messages),
    }


def _appends(messages: list[Message], *stores: Peer) -> list[float]:
    seconds: list[list[float]] = [[] for _ in stores]
    for step, message in enumerate(messages):
        for turn in range(len(stores)):
            index = (step + turn) % len(stores)
            seconds[index].append(_timed(partial(stores[index].append, message)))
    return [median(each) for each in seconds]


def _timed(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main(name: str, messages: str, folder: str, runs: str) -> None:
    """Measure one peer and print the figures."""
    with Path(messages).open(encoding="utf-8") as file:
        found = [json.loads(line) for line in file]
    print(json.dumps(measure(name, found, Path(folder), int(runs))))


if __name__ == "__main__":
    # The folder of this file must not be searched: its `read.py` or `append.py` are nobody's modules.
    sys.path.pop(0)
    main(*sys.argv[1:])
