"""Runs examples on real threads in memory: kinds tree, assemble, pending_state and conversation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from convlog.eventstore.errors import ConvlogError
from convlog.eventstore.events import (
    PendingCleared,
    SegmentAdded,
    SummaryAdded,
    SummaryInvalidated,
    TurnEnded,
    TurnState,
)
from convlog.eventstore.records import Draft
from convlog.eventstore.store import open_store
from convlog.eventstore.thread import Thread
from convlog.projections.assemblers import transcript_v1, turn_memory_v4
from convlog.projections.material import material
from convlog.projections.stages import pending_v1
from convlog.projections.stages.memory_v1 import Setting, talk
from convlog.projections.stages.pieces_v1 import SUMMARY, TURN_MEMORY, VERBATIM, Text
from convlog.projections.stages.segments_v1 import Memory
from convlog.projections.stages.selection_v1 import Covered, select
from convlog.projections.stages.turns_v1 import Turn, turns
from convlog.projections.stages.view_v1 import Input, Node, TextBlock, read_all
from convlog.projections.tool_maps import tool_map

Json = dict[str, Any]
ROOT = 1


def run(vector: Json) -> str | None:
    """Run one example; None when it holds, else the difference in words."""
    with open_store(":memory:") as store:
        got = _KINDS[vector["kind"]](store.create_thread(), vector["input"])
        for name, expected in vector["expect"].items():
            found = got(name) if callable(got) else got.get(name)
            if found != expected:
                said = [json.dumps(value, ensure_ascii=False) for value in (expected, found)]
                return f"{vector['id']}: {name}: expected {said[0]}, got {said[1]}"
    return None


class Names:
    """Names of an example's nodes and their positions."""

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self.positions: dict[str, int] = {}
        self.names: dict[int, str] = {}

    def add(self, name: str, position: int) -> None:
        """Name a node."""
        self.positions[name] = position
        self.names[position] = name

    def said(self, positions: Sequence[int]) -> list[str]:
        """Give the names of positions; the root has none."""
        return [self.names[position] for position in positions if position in self.names]

    def say(self, name: str, parent: int | None = None) -> None:
        """Append a node by its name: `u...` is a user's input, anything else prose of the agent."""
        say = self.thread.user if name.startswith("u") else self.thread.text
        self.add(name, say(name, parent=parent).position)


# --- tree ---


def _tree(thread: Thread, given: Json) -> Any:
    names = Names(thread)
    refused: list[str] = []
    for word, *arguments in given["ops"]:
        try:
            _OPS[word](names, *arguments)
        except (ConvlogError, KeyError):
            refused.append(word)

    def answer(question: str) -> object:
        tree = thread.tree
        if question == "parents":
            return {name: names.names.get(tree.parent(at) or 0) for name, at in names.positions.items()}
        if question == "active_leaf":
            return names.names.get(thread.head)
        if question == "active_path":
            return names.said(tree.path(thread.head))
        if question == "leaves":
            return names.said(tree.leaves())
        if question == "roots":
            return names.said(tree.children(ROOT))
        if question in {"errors", "refused"}:
            return refused
        relation, _, name = question.partition("_of_")
        at = names.positions[name]
        return names.said(tree.children(at if relation == "children" else tree.parent(at) or ROOT))

    return answer


def _append(names: Names, name: str, parent: str | None, role: str) -> None:
    at = ROOT if parent is None else names.positions[parent]
    say = names.thread.user if role == "user" else names.thread.text
    names.add(name, say(name, parent=at).position)


def _edit(names: Names, name: str, target: str) -> None:
    names.add(name, names.thread.edit(names.positions[target], name).position)


def _regenerate(names: Names, name: str, target: str) -> None:
    names.add(name, names.thread.regenerate(names.positions[target], name).position)


def _set_active(names: Names, name: str) -> None:
    names.thread.select(names.positions[name])


_OPS: dict[str, Any] = {"append": _append, "edit": _edit, "regenerate": _regenerate, "set_active": _set_active}


# --- assemble ---


def _assemble(thread: Thread, given: Json) -> Json:
    names = Names(thread)
    for line in [*(summary.get("covers", []) for summary in given["summaries"]), given["path"]]:
        parent = ROOT
        for name in line:
            if name not in names.positions:
                names.say(name, parent)
            parent = names.positions[name]
    summaries: dict[int, str] = {}
    for summary in given["summaries"]:
        first, last = names.positions[summary["from"]], names.positions[summary["to"]]
        added = thread.append(SummaryAdded(first=first, last=last, text=summary["text"]))
        summaries[added.position] = summary["id"]
        if summary.get("invalidated"):
            thread.append(SummaryInvalidated(summary=added.position, reason="changed"))
    leaf = names.positions[given["path"][-1]]
    pieces = transcript_v1.assemble(material(thread, leaf), transcript_v1.Parameters())
    return {
        "input": [
            ["summary", summaries[piece.sources[0]]]
            if piece.provenance == SUMMARY
            else ["msg", names.names[piece.sources[0]]]
            for piece in pieces
        ],
        "export": names.said([event.position for event in thread.path(leaf)]),
    }


# --- pending_state ---


def _pending_state(thread: Thread, given: Json) -> Json:
    """Play model calls: what is sent, how the turn ends, and what is pending after it (decision 15)."""
    names = Names(thread)
    got: dict[str, list[Any]] = {"sent": [], "terminal": [], "pending_after": []}
    for call in given["calls"]:
        if call.get("reset"):
            thread.append(PendingCleared(node=thread.head, reason="reset"))
            got["sent"].append(None)
            got["terminal"].append(None)
        else:
            for name in call["history"]:
                if name not in names.positions:
                    names.say(name)
            injected = bool(_pending(thread, names))
            got["sent"].append(_sent(thread, names))
            _accumulate(names, call["accumulated"])
            state = pending_v1.terminal(call["end"], injected=injected, added=bool(call["accumulated"]))
            thread.append(TurnEnded(node=thread.head, state=state))
            got["terminal"].append(state)
        got["pending_after"].append(_pending(thread, names))
    return got


def _accumulate(names: Names, accumulated: Sequence[str]) -> None:
    """Append native state: `a:...` is a call when a result `t:...` follows it."""
    for index, name in enumerate(accumulated):
        if name.startswith("t:"):
            names.add(name, names.thread.result(accumulated[index - 1], name).position)
        elif accumulated[index + 1 : index + 2] and accumulated[index + 1].startswith("t:"):
            names.add(name, names.thread.call(name, "f", {}).position)
        else:
            names.add(name, names.thread.append(SegmentAdded(text=name)).position)


def _sent(thread: Thread, names: Names) -> list[str]:
    """Give the messages and the native state of a prompt; historical blocks of a turn are neither."""
    pieces = turn_memory_v4.assemble(material(thread), turn_memory_v4.Parameters())
    found = [
        piece
        for piece in pieces
        if piece.provenance == VERBATIM or (piece.provenance == TURN_MEMORY and isinstance(piece.element, Text))
    ]
    return [name for piece in found for name in names.said(piece.sources)]


def _turns(thread: Thread) -> list[Turn]:
    given = material(thread)
    notes = read_all(given.notes)
    return turns(select(read_all(given.path), notes).slots, notes)


def _pending(thread: Thread, names: Names) -> list[str]:
    """Give the native state of unfinished turns, their inputs not counted."""
    found = [slot for turn in _turns(thread) if turn.native for slot in turn.slots]
    return names.said([slot.position for slot in found if isinstance(slot, Node) and not isinstance(slot.body, Input)])


# --- conversation ---


def _conversation(thread: Thread, given: Json) -> Json:
    """Load a log of the source, and give the messages that a new session starts with (K60, K61)."""
    kept = 0
    for event in given["events"]:
        before = thread.position
        _LOADERS[event["type"]](thread, event)
        kept += thread.position > before
    # Native state lived in memory only: a turn of a log is an ordinary one (K53, K54).
    thread.append(PendingCleared(node=thread.head, reason="loaded"))
    return {"messages": _messages(thread), "log_length": kept}


def _load_turn(thread: Thread, event: Json) -> None:
    prose = event.get("prose", "").encode()
    cursor = 0
    for number, activity in enumerate(event.get("activities") or ()):
        offset = activity["text_offset"]
        _load_text(thread, prose[cursor:offset])
        cursor = offset
        call = f"call{number}"
        thread.call(call, activity["tool"], {})
        thread.result(call, None, status="ok" if activity["status"] == "success" else "error")
    _load_text(thread, prose[cursor:])
    state: TurnState = "interrupted" if event.get("interrupted") else "error" if event.get("error") else "done"
    thread.append_many([Draft(body=TurnEnded(node=thread.head, state=state))])


def _load_text(thread: Thread, text: bytes) -> None:
    if text:
        thread.text(text.decode())


def _load_user(thread: Thread, event: Json) -> None:
    thread.user(event["text"])


def _load_compaction(thread: Thread, event: Json) -> None:
    """Take the first message as a summary of all before it; others follow it."""
    first, *others = event["messages"]
    start = thread.tree.path(thread.head)[1]
    thread.append(SummaryAdded(first=start, last=thread.head, text=first["text"]))
    for message in others:
        (thread.user if message["role"] == "user" else thread.text)(message["text"])


_LOADERS = {"user": _load_user, "assistant_turn": _load_turn, "compaction": _load_compaction}


def _messages(thread: Thread) -> list[Json]:
    found: list[Json] = []

    def remember(*arguments: Any) -> Memory:
        memory = turn_memory_v4.VERSION.memory(*arguments)
        activities = [msgspec.to_builtins(activity) for activity in memory.activities]
        said = [{name: value for name, value in activity.items() if name != "node"} for activity in activities]
        found.append({"role": "assistant", "text": memory.prose, **({"activities": said} if said else {})})
        return memory

    version = msgspec.structs.replace(turn_memory_v4.VERSION, memory=remember)
    for turn in _turns(thread):
        for slot in turn.slots:
            if isinstance(slot, Covered):
                found.append({"role": "user", "text": slot.text})
            elif isinstance(slot.body, Input):
                text = "".join(block.text for block in slot.body.content if isinstance(block, TextBlock))
                found.append({"role": "user", "text": text})
        talk([turn], version, Setting("", tool_map()))
    return found


_KINDS: dict[str, Any] = {
    "tree": _tree,
    "assemble": _assemble,
    "pending_state": _pending_state,
    "conversation": _conversation,
}
