"""Tool maps: targets of real agents' calls, and what the recorded sessions hold."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from convlog.projections.stages.segments_v1 import Activity, Segment
from convlog.projections.tool_maps import AGENTS, tool_map
from convlog.projections.turn_memory import v6
from tests.recorded import recorded


def activity(agent: str | None, tool: str, given: Any) -> Activity:
    raw = given if isinstance(given, str) else json.dumps(given)
    segment = Segment(kind="tool", tool=tool, input=raw, completed=True, node=7)
    [kept] = v6.memory([segment], "/srv/app", tool_map(agent)).activities
    return kept


PATCH = "*** Begin Patch\n*** Update File: /srv/app/a.py\n@@\n-x\n+y\n*** Add File: b.py\n+z\n*** End Patch"


@pytest.mark.parametrize(
    ("agent", "tool", "given", "target"),
    [
        ("claude-code", "Read", {"file_path": "/srv/app/x.py"}, "x.py"),
        ("claude-code", "NotebookEdit", {"notebook_path": "/srv/app/x.ipynb"}, "x.ipynb"),
        ("claude-code", "Grep", {"path": "/srv/app/src", "pattern": "def f"}, "src :: def f"),
        ("claude-code", "Glob", {"pattern": "**/*.py"}, "**/*.py"),
        ("claude-code", "Bash", {"command": "make  check"}, "make check"),
        ("claude-code", "WebFetch", {"url": "https://h/a?q=1", "prompt": "x"}, "https://h/a"),
        ("claude-code", "Task", {"subagent_type": "reviewer", "description": "d", "prompt": "p"}, "reviewer"),
        ("claude-code", "Task", {"description": "review it", "prompt": "p"}, "review it"),
        ("claude-code", "TodoWrite", {"todos": []}, ""),
        ("claude-code", "mcp__kb__look_up", {"path": "/srv/app/x"}, ""),
        ("codex", "shell", {"command": ["bash", "-lc", "ls -a"], "workdir": "."}, "ls -a"),
        ("codex", "shell", {"command": ["git", "commit", "-m", "a 'b'"]}, "git commit -m 'a '\\''b'\\'''"),
        ("codex", "shell", {"command": ["ls"]}, "ls"),
        ("codex", "exec_command", {"cmd": "/bin/bash -lc 'ls -a'"}, "ls -a"),
        ("codex", "exec_command", {"cmd": "bash -lc 'a' && rm 'b'"}, "bash -lc 'a' && rm 'b'"),
        ("codex", "apply_patch", {"input": PATCH}, "a.py, b.py"),
        ("codex", "apply_patch", json.dumps(PATCH), "a.py, b.py"),
        ("codex", "apply_patch", PATCH, "a.py, b.py"),
        ("gemini-cli", "read_file", {"absolute_path": "/srv/app/x.py"}, "x.py"),
        ("gemini-cli", "read_file", {"file_path": "/srv/app/x.py"}, "x.py"),
        ("gemini-cli", "read_many_files", {"paths": ["/srv/app/a", 3, "b"]}, "a, b"),
        ("gemini-cli", "replace", {"file_path": "/srv/app/x.py", "old_string": "a"}, "x.py"),
        ("gemini-cli", "search_file_content", {"pattern": "x", "path": "."}, "x"),
        ("gemini-cli", "list_directory", {"path": "/srv/app"}, "."),
        ("gemini-cli", "run_shell_command", {"command": "ls", "description": "d"}, "ls"),
        ("gemini-cli", "web_fetch", {"prompt": "Sum up https://h/a?x=1 please"}, "https://h/a"),
        ("pi", "edit", {"path": "/srv/app/x.py", "oldText": "a", "newText": "b"}, "x.py"),
        ("pi", "find", {"path": "src", "pattern": "*.ts"}, "src :: *.ts"),
        ("pi", "ls", {"path": "src"}, "src"),
        (None, "delegate_task", {"agent": "reviewer", "task": "t"}, "reviewer"),
        ("some-agent", "read_file", {"path": "/srv/app/x.py"}, "x.py"),
        (None, "Read", {"file_path": "/srv/app/x.py"}, ""),
    ],
)
def test_an_agents_own_tool_leads_to_its_target_and_keeps_its_name(
    agent: str | None, tool: str, given: Any, target: str
) -> None:
    kept = activity(agent, tool, given)
    assert (kept.tool, kept.target) == (tool, target)


def test_every_agent_has_a_dated_map_of_its_own() -> None:
    for agent in AGENTS:
        found = tool_map(agent)
        assert found.agent == agent
        assert found.as_of.startswith("20")
        assert found.tools
    assert tool_map(None) is tool_map("keen") is tool_map("unheard-of")


def test_a_server_in_a_tools_name_is_told_and_its_arguments_are_not() -> None:
    kept = activity("claude-code", "mcp__kb__look_up", {"q": "private"})
    assert (kept.tool, kept.server, kept.wrapper) == ("mcp__kb__look_up", "kb", "")


def recorded_tools(name: str) -> Iterator[tuple[str, Any]]:
    """Yield the name and input of every call in a recorded session, whatever its format."""
    text = recorded(name).read_text()
    values = [json.loads(text)] if name.endswith(".json") else [json.loads(line) for line in text.splitlines()]
    while values:
        value = values.pop()
        if isinstance(value, list):
            values += value
        elif isinstance(value, dict):
            values += value.values()
            given = next((value[field] for field in ("input", "args", "arguments") if field in value), None)
            if isinstance(value.get("name"), str) and given is not None:
                yield value["name"], given


@pytest.mark.parametrize(
    ("agent", "name", "without_target"),
    [
        ("claude-code", "claude-code-real.jsonl", {"TodoWrite", "mcp__happy__change_title"}),
        ("codex", "codex-real.jsonl", set()),
        ("gemini-cli", "gemini-cli-real.json", {"google_web_search"}),
        ("pi", "pi-real.jsonl", set()),
    ],
)
def test_the_maps_find_a_target_for_every_call_of_the_recorded_sessions(
    agent: str | None, name: str, without_target: set[str]
) -> None:
    calls = list(recorded_tools(name))
    assert calls
    missing = {tool for tool, given in calls if not activity(agent, tool, given).target}
    assert missing == without_target
