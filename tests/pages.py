"""Runs the code blocks of a Markdown page, so that no page can say what is not so.

What a fenced block is follows from its first word:

- `python`: executed; all blocks of a page share one namespace.
- `console`: lines after `$ ` are commands (`> ` goes on with the one above), each run by bash and expected to exit 0;
  the lines below a command, if any, are what it prints. A line `...` stands for any lines, and `...` in a line for
  any characters.
- `sh`: a script, run by bash.
- `json`, `jsonl`, `toml`: parsed.
- `text`, `sql`: not looked at.

All blocks of a page run in order in one empty folder; the home of its commands holds a recorded Claude Code session, as
a reader's would. Words after the first one are the reason why a block is not run (for example `sh setup`). Before
printed and expected lines are compared, what differs from run to run is made equal: see `NORMAL`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.sources import ROOT, name_of

FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```\s*$", re.DOTALL | re.MULTILINE)

NORMAL = (
    (re.compile(r"(?:/private)?/(?:tmp|var/folders)(?:/[\w.+-]+)+"), "<temporary path>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?\b"), "<time>"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:us|ms|s|seconds?)\b"), "<duration>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,64}\b"), "<hex>"),
)
"""Patterns of temporary paths, times, durations, and ids or hashes in hex, and what stands for each."""

COMMAND_TIMEOUT_S = 120
SAMPLE = ROOT / "cli" / "data" / "sample.jsonl"


class Block(msgspec.Struct, frozen=True):
    """A fenced block: where it starts, its language, why it is not run, and its text."""

    page: str
    line: int
    language: str
    reason: str
    text: str

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self.page}:{self.line}"


class PageFailed(AssertionError):
    """A block does not do what its page says."""


def blocks_of(page: Path) -> Iterator[Block]:
    """Iterate over the fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        language, _, reason = found["info"].strip().partition(" ")
        indent = len(found["indent"])
        body = "".join(line[indent:] for line in found["text"].splitlines(keepends=True))
        yield Block(name_of(page), text.count("\n", 0, found.start()) + 1, language, reason.strip(), body)


class Runner:
    """Runs the blocks of one page in an empty folder; the working folder must be that one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._namespace: dict[str, Any] = {"__name__": "__page__"}
        self._environment = _environment(folder)

    def run(self, block: Block) -> None:
        """Do what the block's language asks for.

        Raises:
            PageFailed: it does not do what the page says.
        """
        if block.reason:
            return
        match block.language:
            case "python":
                exec(compile(block.text, block.place, "exec"), self._namespace)
            case "console":
                for command, expected in commands_of(block):
                    compare(block, command, expected, self._bash(block, command))
            case "sh":
                self._bash(block, block.text)
            case "json":
                msgspec.json.decode(block.text)
            case "jsonl":
                for line in block.text.splitlines():
                    msgspec.json.decode(line)
            case "toml":
                tomllib.loads(block.text)
            case "text" | "sql":
                pass
            case _:
                raise PageFailed(f"{block.place}: no rule for a block of {block.language!r}")

    def _bash(self, block: Block, command: str) -> str:
        ran = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        if ran.returncode != 0:
            raise PageFailed(f"{block.place}: `{command}` ended with {ran.returncode}:\n{ran.stdout}")
        return ran.stdout


def _environment(folder: Path) -> dict[str, str]:
    """Give an environment of its own to the commands: this checkout's `convlog` first, no store or home of the user."""
    bin_folder = folder.with_name(f"{folder.name}-bin")
    bin_folder.mkdir()
    program = bin_folder / "convlog"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m convlog "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    home = folder.with_name(f"{folder.name}-home")
    sessions = home / ".claude" / "projects" / "-home-dev-till"
    sessions.mkdir(parents=True)
    shutil.copy(SAMPLE, sessions / SAMPLE.name)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CONVLOG_", "XDG_", "PYTEST_"))}
    return {
        **kept,
        "PATH": os.pathsep.join([str(bin_folder), str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PYTHONPATH": str(ROOT),
        "HOME": str(home),
        "TMPDIR": str(home),
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "COLUMNS": "100",
        "TERM": "dumb",
    }


def commands_of(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Iterate over (command, expected lines) of a console block."""
    command: list[str] = []
    expected: list[str] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            if command:
                yield "\n".join(command), expected
            command, expected = [line[2:]], []
        elif line.startswith("> ") and command and not expected:
            command.append(line[2:])
        elif command:
            expected.append(line)
        elif line.strip():
            raise PageFailed(f"{block.place}: output before the first command: {line}")
    if command:
        yield "\n".join(command), expected


def compare(block: Block, command: str, expected: list[str], printed: str) -> None:
    """Compare what a command printed with what its page says, where it says something.

    Raises:
        PageFailed: they differ, after normalisation.
    """
    wanted = _normal("\n".join(expected))
    found = _normal(printed)
    if wanted and not _fits(wanted, found):
        shown = "\n".join(found)
        raise PageFailed(f"{block.place}: `{command}` printed something else than the page says:\n{shown}")


def _normal(text: str) -> list[str]:
    for pattern, name in NORMAL:
        text = pattern.sub(name, text)
    return [line.rstrip() for line in text.strip("\n").splitlines()] if text.strip() else []


def _fits(wanted: list[str], found: list[str]) -> bool:
    """Whether lines are those wanted, a line `...` standing for any number of lines."""
    # possible[i]: the first i wanted lines can account for the found lines so far.
    possible = _skip_wildcards({0}, wanted)
    for line in found:
        stay = {index for index in possible if index < len(wanted) and wanted[index] == "..."}
        step = {index + 1 for index in possible if index < len(wanted) and _line_fits(wanted[index], line)}
        possible = _skip_wildcards(stay | step, wanted)
    return len(wanted) in possible


def _line_fits(wanted: str, line: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, wanted.split("..."))), line) is not None


def _skip_wildcards(possible: set[int], wanted: list[str]) -> set[int]:
    reached = set(possible)
    for index in sorted(possible):
        while index < len(wanted) and wanted[index] == "...":
            index += 1
            reached.add(index)
    return reached
