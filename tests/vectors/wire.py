"""Runs examples of pruning and its repairs: kinds prune_for_wire, detach_orphans and drop_orphan_results."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

from convlog.projections.stages.prune_v1 import Message, Part, detach, drop, for_wire

Json = dict[str, Any]


def run(vector: Json) -> str | None:
    """Run one example; None when it holds, else the difference in words."""
    got = _KINDS[vector["kind"]](vector["input"])
    for name, expected in vector["expect"].items():
        if got.get(name) != expected:
            said = [json.dumps(value, ensure_ascii=False) for value in (expected, got.get(name))]
            return f"{vector['id']}: {name}: expected {said[0]}, got {said[1]}"
    return None


def _pruned(given: Json) -> Json:
    log = copy.deepcopy(given["messages"])
    messages = _messages(given["messages"])
    sent = for_wire(messages) if given.get("over_threshold") else messages
    return {"messages": _neutral(sent), "log_unchanged": given["messages"] == log and _neutral(messages) == log}


def _detached(given: Json) -> Json:
    return {"messages": _neutral(detach(_messages(given["before"]), _messages(given["after"])))}


def _dropped(given: Json) -> Json:
    return {"messages": _neutral(drop(_messages(given["messages"])))}


def _messages(given: Sequence[Json]) -> list[Message]:
    return [Message(message["role"], tuple(map(_part, message["parts"]))) for message in given]


def _part(given: Json) -> Part:
    return Part(given["type"], given.get("call_id"), given.get("item_id"), given)


def _neutral(messages: Sequence[Message]) -> list[Json]:
    return [{"role": message.role, "parts": [_given(part) for part in message.parts]} for message in messages]


def _given(part: Part) -> Json:
    assert isinstance(part.content, dict)
    return {name: value for name, value in part.content.items() if name != "item_id" or part.item is not None}


_KINDS = {"prune_for_wire": _pruned, "detach_orphans": _detached, "drop_orphan_results": _dropped}
