"""Fingerprints of versions: over the source files and data that a version is made of."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

from blake3 import blake3

from . import registry

_IMPORT = re.compile(r"^from (\.+)([a-z_0-9.]*) import", re.MULTILINE)
ROOT = Path(__file__).resolve().parent


@cache
def fingerprint(address: str) -> str:
    """Give the blake3, hex, of all source files below this layer that a version is made of."""
    module = sys.modules[registry.get(address).module]
    start = Path(module.__file__ or "").resolve()
    hasher = blake3()
    for path in sorted(_files(start)):
        name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
        data = path.read_bytes()
        hasher.update(len(name).to_bytes(8, "little") + name.encode() + len(data).to_bytes(8, "little") + data)
    return hasher.hexdigest()


def _files(start: Path) -> set[Path]:
    """Follow the relative imports of frozen files; the registry is only where they sign in."""
    found: set[Path] = set()
    waiting = [start]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        for dots, name in _IMPORT.findall(path.read_text()):
            folder = path.parents[len(dots) - 1]
            target = folder.joinpath(*name.split(".")).with_suffix(".py") if name else None
            if target is not None and target.exists() and target.name != "registry.py":
                waiting.append(target)
    return found
