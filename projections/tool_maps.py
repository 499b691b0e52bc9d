"""Dated data about agents: which of their tools correspond to the nine that TurnMemory knows (decision 1h).

The files in `data/tool_maps/` are frozen together with the versions that read them.
"""

from functools import cache
from pathlib import Path

import msgspec

from .stages.tool_map_v1 import ToolMap

AGENTS = ("claude-code", "codex", "gemini-cli", "keen", "opencode", "pi")
"""Agents that have a map."""

DEFAULT_AGENT = "keen"

DATA = "data/tool_maps"
"""The folder that is part of every version which reads a map."""


def tool_map(agent: str | None = None) -> ToolMap:
    """Choose the map by a thread's `agent`; one without a map, or none, gets the source's own nine names."""
    return _load(agent if agent in AGENTS else DEFAULT_AGENT)


@cache
def _load(agent: str) -> ToolMap:
    return msgspec.json.decode((Path(__file__).parent / DATA / f"{agent}.json").read_bytes(), type=ToolMap)
