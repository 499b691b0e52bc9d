"""The foreign forms that are known, and how a file's form is told."""

from __future__ import annotations

from pathlib import Path

from ..errors import ImportFailed
from .base import Importer
from .claude_code import ClaudeCode
from .steps import Steps

IMPORTERS: tuple[Importer, ...] = (ClaudeCode(), Steps())
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


def names() -> str:
    """List the names for a message."""
    return ", ".join(importer.name for importer in IMPORTERS)
