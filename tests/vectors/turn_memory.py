"""Runs examples of TurnMemory's rules: kinds turn_memory, history_steps, text_render and retry_rewind."""

import json
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from convlog.projections.stages.retry_v1 import surviving
from convlog.projections.stages.segments_v1 import Activity, Facts, FailedCommand, Memory, Segment, Step
from convlog.projections.stages.tool_map_v1 import ToolMap
from convlog.projections.tool_maps import tool_map
from convlog.projections.turn_memory import v1, v2, v3, v4, v5, v6


class Version(Protocol):
    """A version of TurnMemory, a module: what it keeps of a turn and how it replays that."""

    def memory(self, segments: Sequence[Segment], workspace: str, tool_map: ToolMap, /) -> Memory: ...

    def steps(self, memory: Memory, index: int, /) -> list[Step]: ...

    def render_text(self, memory: Memory, /) -> str: ...


VERSIONS: dict[str, Version] = {
    f"turn_memory/{number}": module for number, module in enumerate((v1, v2, v3, v4, v5, v6), start=1)
}

_BARE = {"node", "wrapper", "promoted"}  # what the neutral form of an activity does not know


def run(vector: dict[str, Any]) -> str | None:
    """Run one example; None when it holds, else the difference in words."""
    got = _KINDS[vector["kind"]](vector["input"])
    for name, expected in vector["expect"].items():
        if got.get(name) != expected:
            return f"{vector['id']}: {name}: expected {_text(expected)}, got {_text(got.get(name))}"
    return None


def segment(given: dict[str, Any]) -> Segment:
    """Make a segment from the neutral form; a result's output fields are its facts."""
    kind = given["type"]
    if kind == "text":
        return Segment(kind="text", text=given["text"])
    if kind not in ("tool_end", "bash"):
        return Segment(kind="other")
    return Segment(
        kind="tool",
        tool=given.get("tool", "bash" if kind == "bash" else ""),
        input=json.dumps(given["input"]) if given.get("input") is not None else "",
        command=given.get("command", ""),
        completed=kind == "tool_end" or bool(given.get("completed")),
        shell=kind == "bash",
        status="error" if given.get("error") else "ok",
        facts=facts(given.get("output")),
    )


def facts(output: object) -> Facts:
    """Read the facts out of a result's output: the fields that have the right type."""
    stated = output if isinstance(output, dict) else {}
    texts = {
        name: value
        for name, value in stated.items()
        if name in Facts.__struct_fields__ and name != "exit_code" and isinstance(value, str)
    }
    code = stated.get("exit_code")
    return Facts(**texts, exit_code=code if isinstance(code, int | float) and not isinstance(code, bool) else None)


def activity(given: dict[str, Any]) -> Activity:
    """Make an activity from the neutral form; a server tells that the call went through the wrapper."""
    values = dict(given)
    if "input" in values:
        values["input"] = v5.arguments(values["input"])
    if values.get("server"):
        values["wrapper"] = "call_mcp_tool"
    return Activity(**values)


def _kept(version: Version, given: dict[str, Any]) -> Memory:
    segments = [segment(item) for item in given["segments"]]
    return version.memory(segments, given.get("workspace", ""), tool_map())


def _turn_memory(given: dict[str, Any]) -> dict[str, Any]:
    kept = _kept(VERSIONS[given["projection"]], given)
    activities = [_neutral(item) for item in kept.activities]
    memory = {
        "files_changed": list(kept.files_changed),
        "failed_bash": [msgspec.to_builtins(failed) for failed in kept.failed_bash],
        "tool_activity": activities,
    }
    stored = {name: value for name, value in memory.items() if value}
    return {"prose": kept.prose, "activities": activities, "memory": stored or None}


def _neutral(kept: Activity) -> dict[str, Any]:
    values = {name: value for name, value in msgspec.to_builtins(kept).items() if name not in _BARE}
    if "input" in values:
        values["input"] = json.loads(values["input"])
    return values


def memory_of(given: dict[str, Any]) -> Memory:
    """Make what is kept of a turn from the neutral form of its message."""
    stored = given.get("memory") or {}
    return Memory(
        given["prose"],
        tuple(stored.get("files_changed", ())),
        tuple(FailedCommand(**failed) for failed in stored.get("failed_bash", ())),
        tuple(activity(item) for item in stored.get("tool_activity", given.get("activities") or ())),
    )


def _history_steps(given: dict[str, Any]) -> dict[str, Any]:
    memory = memory_of(given) if given.get("role", "assistant") == "assistant" else Memory(given["prose"])
    steps = VERSIONS[given["projection"]].steps(memory, given.get("message_index", 0))
    return {"steps": [_step(step, arguments=given["projection"] == "turn_memory/5") for step in steps]}


def _step(step: Step, *, arguments: bool) -> dict[str, Any]:
    hidden = {"node"} if arguments else {"node", "arguments"}
    calls = [msgspec.to_builtins(call) for call in step.calls]
    return {"text": step.text, "calls": [{k: v for k, v in call.items() if k not in hidden} for call in calls]}


def _text_render(given: dict[str, Any]) -> dict[str, Any]:
    if given.get("role", "assistant") != "assistant":
        return {"text": given["prose"]}
    return {"text": VERSIONS[given["projection"]].render_text(memory_of(given))}


def _retry_rewind(given: dict[str, Any]) -> dict[str, Any]:
    segments = given["segments"]
    kept = segments[: surviving([item["type"] for item in segments])]
    return {"segments": kept, "prose": "".join(item["text"] for item in kept if item["type"] == "text")}


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


_KINDS = {
    "turn_memory": _turn_memory,
    "history_steps": _history_steps,
    "text_render": _text_render,
    "retry_rewind": _retry_rewind,
}
