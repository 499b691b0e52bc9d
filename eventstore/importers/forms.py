"""The foreign forms that are known, and how a file's form is told."""

from __future__ import annotations

from pathlib import Path

from ..errors import ImportFailed
from . import databases, opencode_sources
from .agents_sdk import AgentsSdk
from .atif import Atif
from .base import Importer
from .chatgpt import ChatGPT
from .claude_ai import ClaudeAI
from .claude_code import ClaudeCode
from .codex import Codex
from .gemini_cli import GeminiCli
from .keen import Keen
from .llm_logs import LlmLogs
from .mini_swe import MiniSwe
from .opencode import OpenCode
from .pi import Pi
from .request_bodies import RequestBody
from .shiro_neko import ShiroNeko
from .steps import Steps

IMPORTERS: tuple[Importer, ...] = (
    ClaudeCode(),
    Pi(),
    Codex(),
    GeminiCli(),
    ChatGPT(),
    ClaudeAI(),
    Keen(),
    ShiroNeko(),
    OpenCode(),
    AgentsSdk(),
    LlmLogs(),
    Steps(),
    MiniSwe(),
    Atif(),
    RequestBody("anthropic"),
    RequestBody("openai"),
)
"""All of them, in the order in which they are tried."""

HEAD_BYTES = 64 * 1024
"""How much of a file is looked at."""


def detect_format(head: bytes, path: Path | None = None) -> str | None:
    """Name the form of a file that begins so; None when no importer knows it."""
    found = detect(head, path)
    return None if found is None else found.name


def detect(head: bytes, path: Path | None = None) -> Importer | None:
    """Give the importer of a file that begins so."""
    return next((importer for importer in IMPORTERS if importer.detect(head, path)), None)


def importer_named(name: str) -> Importer:
    """Give the importer of this name.

    Raises:
        ImportFailed: there is none.
    """
    found = next((importer for importer in IMPORTERS if importer.name == name), None)
    if found is None:
        raise ImportFailed(f"no importer is called {name!r}", hint=f"there are: {names()}")
    return found


def is_member(path: Path) -> bool:
    """Whether a file is no source of its own, since the import of the one that it lies beside reads it."""
    return databases.is_log(path) or opencode_sources.is_member(path)


def names() -> str:
    """List the names for a message."""
    return ", ".join(importer.name for importer in IMPORTERS)
