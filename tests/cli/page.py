"""Makes docs/cli.md from the commands themselves: `python -m tests.cli.page` writes it, a test compares it."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from types import ModuleType
from typing import Any

import click

from convlog.cli import ALIASES, COMMANDS, events, group
from convlog.cli.group import global_options
from tests.sources import ROOT

PAGE = ROOT / "docs" / "cli.md"

HEAD = """\
# The commands

This page is made from the commands: `python -m tests.cli.page` writes it.

Data goes to stdout, words go to stderr. Control characters of stored text (escapes, direction marks, half surrogates)
are shown as `\\xNN` or `\\uNNNN` and never reach a terminal. `show --raw`, and `replay --format` into a pipe or a file,
give bytes as they are.

## Which store

The first of: `--db PATH`, the variable `CONVLOG_DB`, `.convlog/convlog.db` in this folder or the nearest one above, the
user's data folder. `convlog doctor` says which and why; so does every message that nothing was found.

## Addresses

| address | names |
|---|---|
| `THREAD` | a thread: its name, source id, or the start of its id |
| `latest` or `-` | the thread whose user spoke last, by the order of recording (an import records when it runs) |
| `THREAD:17` | the event at position 17 |
| `THREAD:2..15` | the nodes from 2 to 15, both included, on one path |
| `THREAD/5` | the fifth call |
| `THREAD@branch` | the last node of a branch, by name or number |
| `THREAD:` | a thread whose own name ends like one of these |

An address with several meanings is refused with its candidates.

## Exit codes

| code | means |
|---|---|
| 0 | ok |
| 1 | a check failed, or an append was refused |
| 2 | usage; an unknown, ill-formed or ambiguous address; content that cannot be stored |
| 3 | the store is missing, newer than this program, no store, or not writable |
| 4 | another process held the store for too long |
| 5 | a prompt cannot be proved |
| 130, 141 | interrupted; the reader of the output went away |

## Options of every command

They stand before or after the command; the later one wins. Colours: `--color`, then NO_COLOR, then FORCE_COLOR, then
whether stdout is a terminal.
"""

JSON = """
## JSON

With `--json` every line of stdout is one JSON object whose `schema` says what it is. Times are microseconds UTC. The
number behind the slash changes when a field is renamed or taken away, not when one is added.
"""


def page() -> str:
    """Give the page's text."""
    parts = [HEAD, _options(global_options())]
    for name in COMMANDS:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        parts.append(_section(name, command))
    parts.append(JSON)
    parts.append("\n".join(f"- `convlog {name}`: " + ", ".join(f"`{s}`" for s in _schemas(name)) for name in COMMANDS))
    return "\n".join(parts) + "\n"


def _section(name: str, command: click.Command) -> str:
    arguments = " ".join(_argument(param) for param in command.params if isinstance(param, click.Argument))
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    aliases = [f"`{alias}`" for alias, target in ALIASES.items() if target == name]
    text = inspect.cleandoc(command.help or "")
    first, _, rest = text.partition("\n\n")
    also = f" Also {' '.join(aliases)}." if aliases else ""
    lines = [f"## convlog {name}\n", f"{first}{also}\n", f"```text\nconvlog {name} {arguments}".rstrip() + "\n```\n"]
    if rest:
        lines.append(_prose(rest) + "\n")
    if options:
        lines.append(_options(options))
    return "\n".join(lines)


def _prose(text: str) -> str:
    """Give paragraphs, those that click must not wrap as blocks."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(f"```text\n{part[2:].strip()}\n```" if part.startswith("\b\n") else part for part in paragraphs)


def _argument(param: click.Argument) -> str:
    name = param.metavar or (param.name or "").upper()
    if param.metavar:
        return name
    return name if param.required else f"[{name}]"


def _options(options: list[click.Option]) -> str:
    lines = ["| option | what it does |", "|---|---|"]
    for option in options:
        names = ", ".join([*option.opts, *option.secondary_opts])
        value = "" if option.is_flag else f" {option.metavar or _values(option.type)}"
        default = f" (default: {option.default})" if option.show_default else ""
        lines.append(f"| `{names}{value}` | {option.help}{default} |")
    return "\n".join(lines) + "\n"


def _values(type_: Any) -> str:
    return ",".join(str(choice) for choice in type_.choices) if isinstance(type_, click.Choice) else type_.name.upper()


def _schemas(name: str) -> list[str]:
    """Give the schemas that a command's module writes, or the one that reports for it."""
    module = import_module(f"convlog.cli.{COMMANDS[name][0]}")
    found = _emitted(module)
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and node.level == 1 and (node.module or "").endswith("_reports"):
            found += _emitted(import_module(f"convlog.cli.{node.module}"))
    return [f"convlog.{schema}" for schema in dict.fromkeys(found)]


def _emitted(module: ModuleType) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "emit":
            schema = node.args[0]
            # A name is the module's own, or that of events.
            is_name = isinstance(schema, ast.Name)
            found.append(getattr(module, "SCHEMA", events.SCHEMA) if is_name else ast.literal_eval(schema))
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
