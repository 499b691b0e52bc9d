"""What an agent's own tool names mean: data that leads from a tool's input to its target (decision 1h)."""

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from .turn_text_v1 import join_target, parsed, relativise
from .urls_v1 import clean_wholly, first_web_address

CanonicalTool = Literal[
    "read_file",
    "grep",
    "glob",
    "web_fetch",
    "bash",
    "delegate_task",
    "call_mcp_tool",
    "write_file",
    "edit_file",
]
"""The nine tools whose target or outcome TurnMemory knows how to tell (K12, K30)."""


class ToolRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How to read one tool's input; each entry lists input fields, of which the first that holds something counts.

    Attributes:
        kind: The canonical tool it corresponds to.
        path: Fields with a path, or a list of paths.
        pattern: Fields with what is searched for.
        command: Fields with a command line, or its words as a list.
        url: Fields with an address, or a text that holds one.
        agent: Fields with the name of the agent that gets the task.
        patch: Fields with a patch whose headers name its files.
    """

    kind: CanonicalTool
    path: tuple[str, ...] = ()
    pattern: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    url: tuple[str, ...] = ()
    agent: tuple[str, ...] = ()
    patch: tuple[str, ...] = ()


class ToolMap(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The tools of one agent.

    Attributes:
        agent: The agent's name, as a thread's `agent` says it.
        as_of: Date of the knowledge, `YYYY-MM-DD`.
        tools: A rule for each tool name that has one.
        server_prefix: Tools of a server are called by this prefix, the server, `__` and the tool; "" when they are not.
    """

    agent: str
    as_of: str
    tools: dict[str, ToolRule]
    server_prefix: str = ""

    def rule(self, tool: str) -> ToolRule | None:
        """Look up a tool by the agent's name for it; None when it is none of the nine."""
        return self.tools.get(tool)

    def server(self, tool: str) -> str:
        """Read the server out of a tool's name, "" when it names none."""
        if not self.server_prefix or not tool.startswith(self.server_prefix):
            return ""
        server, separator, name = tool.removeprefix(self.server_prefix).partition("__")
        return server if separator and name else ""


_PATCHED = re.compile(r"^\*\*\* (?:Add|Delete|Update) File: ([^\r\n]+)", re.MULTILINE)
_SHELL = re.compile(r"(?:[^ ]*/)?(?:ba|da|k|z)?sh")
_SHELL_LINE = re.compile(rf"""{_SHELL.pattern} -l?c (?:'([^']*)'|"([^"\\$`]*)")""")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


def read_input(raw: str) -> Mapping[str, object]:
    """Read a tool's input; free text, bare or as a JSON string, as free-form tools take it, is its field `input`."""
    value = parsed(raw)
    if isinstance(value, dict):
        return value
    return {"input": value if isinstance(value, str) else raw}


def text_of(values: Mapping[str, object], names: tuple[str, ...]) -> str:
    """Read the first of the named fields that holds a string."""
    return next((value for name in names if isinstance(value := values.get(name), str) and value), "")


def _texts(values: Mapping[str, object], names: tuple[str, ...]) -> list[str]:
    for name in names:
        value = values.get(name)
        items = value if isinstance(value, list) else [value]
        if texts := [item for item in items if isinstance(item, str) and item]:
            return texts
    return []


def place(values: Mapping[str, object], rule: ToolRule, workspace: str) -> str:
    """Say what a call worked on: its paths as seen from the workspace, and the pattern of a search (K12, K13, K16)."""
    paths = _texts(values, rule.path) or _PATCHED.findall(text_of(values, rule.patch))
    said = ", ".join(relativise(path, workspace) for path in paths)
    return join_target(said, text_of(values, rule.pattern)) if rule.pattern else said


def address(values: Mapping[str, object], rule: ToolRule) -> str:
    """Read the address a call went to, wholly cleaned; "" when there is none (K14, decision 1d)."""
    text = text_of(values, rule.url)
    return clean_wholly(text) or clean_wholly(first_web_address(text))


def command_line(values: Mapping[str, object], rule: ToolRule) -> str:
    """Read a shell command, out of the shell that an agent wraps it in (`bash -lc`)."""
    words = _texts(values, rule.command)
    if len(words) == 1:
        return shell_command(words[0])
    if len(words) == 3 and _SHELL.fullmatch(words[0]) and words[1] in ("-c", "-lc"):
        return words[2]
    return " ".join(word if _PLAIN_WORD.fullmatch(word) else _quoted(word) for word in words)


def shell_command(line: str) -> str:
    """Take a command line out of a shell that does nothing but run it, when its quotes leave no doubt."""
    wrapped = _SHELL_LINE.fullmatch(line)
    return (wrapped[1] or wrapped[2] or "") if wrapped else line


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
