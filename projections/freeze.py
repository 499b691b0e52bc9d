"""Fingerprints of versions: over the source files and the data that a version is made of.

The lock holds, for each version of ours, the fingerprint of its source (was it touched?) and of its outputs over a
corpus of stored bytes (did results move?). A released version keeps both; what should come out otherwise is a new
version.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
from blake3 import blake3

from . import registry

ROOT = Path(__file__).resolve().parent
LOCK = ROOT / "data" / "versions.lock"

SIGNING_IN = f"{__package__}.registry"
"""Where versions register: it decides nothing about their results."""

_IMPORT = re.compile(r"^from (?P<dots>\.*)(?P<base>[\w.]*) import (?P<names>\([^)]*\)|[^\n]*)", re.MULTILINE)
_COMMENT = re.compile(r"#[^\n]*")


class Locked(msgspec.Struct, frozen=True):
    """What the lock says of one version, both blake3, hex."""

    source: str
    outputs: str


@cache
def fingerprint(address: str) -> str:
    """Give the blake3, hex, of all that a version is made of: files by name and bytes, the lengths before them.

    Args:
        address: `name@version`. A user's version counts its own package's modules too.

    Raises:
        NoSuchProjection: it is not installed.
    """
    hasher = blake3()
    for name, data in sorted(sources(registry.get(address).module).items()):
        for part in (name.encode(), data):
            hasher.update(len(part).to_bytes(8, "little") + part)
    return hasher.hexdigest()


@cache
def lock() -> dict[str, Locked]:
    """Read the lock: address to what is fixed of it."""
    return msgspec.json.decode(LOCK.read_bytes(), type=dict[str, Locked]) if LOCK.exists() else {}


def is_frozen(address: str) -> bool:
    """Whether the lock fixes a version."""
    return address in lock()


def sources(module: str) -> dict[str, bytes]:
    """Give the files that a loaded module is made of: name to bytes.

    Imports at the start of a line are followed through this layer and the module's own package. A module that reads
    data names the folder, beside itself, in its constant `DATA`.
    """
    own = (f"{__package__}.", f"{module.partition('.')[0]}.")
    found: dict[str, bytes] = {}
    waiting, seen = [module], {SIGNING_IN}
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        path = _file(name)
        if path is None:
            # Typed in, not written in a file: only its name can be told.
            found[name] = b""
            continue
        data = path.read_bytes()
        found[_name(path, name)] = data
        folder = getattr(sys.modules[name], "DATA", None)
        if isinstance(folder, str):
            found.update(_data(path.parent / folder, name))
        waiting.extend(target for target in _imports(name, data.decode()) if target.startswith(own))
    return found


def _file(module: str) -> Path | None:
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file).resolve() if file else None


def _imports(module: str, text: str) -> Iterator[str]:
    """Iterate over the modules that a module imports by `from`."""
    package = module.split(".")[:-1]
    for match in _IMPORT.finditer(text):
        dots, base = match["dots"], match["base"]
        above = package[: len(package) - len(dots) + 1] if dots else []
        whole = ".".join([*above, *([base] if base else [])])
        for each in _COMMENT.sub("", match["names"]).strip("() \n").split(","):
            name = f"{whole}.{each.split()[0]}" if each.strip() else whole
            yield name if name in sys.modules else whole


def _data(folder: Path, module: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield _name(path, f"{module}:{path.relative_to(folder.parent).as_posix()}"), path.read_bytes()


def _name(path: Path, module: str) -> str:
    """Give the name that a file counts under: the same wherever the package is installed."""
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else module
