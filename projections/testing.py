"""For authors of projections: checks that a version is pure, and the digest that freezes its results.

Use them from a test. They run the version twice here and once in a fresh process with another hash seed, time zone,
locale and working folder, and read its source for what a pure function has no use for.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from blake3 import blake3

from . import freeze, registry
from .stages.material_v1 import Material

STANDARD = frozenset(
    (
        *("__future__", "abc", "base64", "binascii", "bisect", "collections", "copy", "dataclasses", "decimal", "enum"),
        *("fractions", "functools", "hashlib", "heapq", "itertools", "json", "math", "operator", "re", "string"),
        *("struct", "types", "typing", "zlib"),
    )
)
"""Modules of the standard library that give the same everywhere, under every Python version."""

PACKAGES = frozenset({"blake3", "msgspec"})

LAYER = __package__
VERSIONED = ("assemblers", "encoders", "stages", "summaries", "turn_memory")
"""Folders of this layer whose modules are versions themselves, or frozen with them."""

SHARED = frozenset(
    (
        *(f"{LAYER}.registry", f"{LAYER}.tool_maps"),
        *("convlog.projection", "convlog.Material", "convlog.Piece"),
    )
)
"""What a version may import besides: where it registers, and data that is frozen with it."""

IMPURE = frozenset({"__import__", "breakpoint", "compile", "eval", "exec", "hash", "input", "open", "vars"})
"""Built-in functions that reach the world, or answer otherwise in another process."""

_DRIFTING = ("\\s", "\\S", "\\w", "\\W", "\\d", "\\D", "\\b", "\\B")
_IGNORE_CASE = {"IGNORECASE", "I"}
_ASCII = {"ASCII", "A"}

_FRESH = """
import sys, msgspec
from importlib import import_module
import_module(sys.argv[1])
from convlog.projections.testing import run
from convlog.projections.stages.material_v1 import Material
materials = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=list[Material])
sys.stdout.buffer.write(msgspec.msgpack.encode(run(sys.argv[2], materials, sys.argv[3])))
"""


def assert_pure(address: str, materials: Sequence[Material], parameters: dict[str, Any] | None = None) -> None:
    """Check that an assembler or a summariser is a pure function of what it is handed.

    Args:
        address: `name@version`.
        materials: what to try it with; `convlog.projections.material.material(thread)` gives one.
        parameters: its parameters, where not the defaults.

    Raises:
        AssertionError: its source uses what a pure function has no use for, or its results differ between runs.
        NoSuchProjection: it is not installed.
    """
    assert materials, "no material: nothing would be tried"
    found = forbidden(address)
    assert not found, f"{address} is not pure: {'; '.join(found)}"
    given = msgspec.json.encode(parameters or {}).decode()
    here = run(address, materials, given)
    _same(address, here, run(address, materials, given), "a second run")
    _same(address, here, _run_afresh(address, materials, given), "another process, hash seed, time zone and locale")


def digest(address: str, materials: Sequence[Material], parameters: dict[str, Any] | None = None) -> str:
    """Give the blake3, hex, of a version's results: keep it in a test, and the version is frozen."""
    hasher = blake3()
    for result in run(address, materials, msgspec.json.encode(parameters or {}).decode()):
        hasher.update(len(result).to_bytes(8, "little") + result)
    return hasher.hexdigest()


def run(address: str, materials: Sequence[Material], parameters: str = "{}") -> list[bytes]:
    """Give a version's result for each material, as JSON."""
    found = registry.get(address)
    chosen = registry.parameters_of(found, parameters)
    return [msgspec.json.encode(found.function(material, chosen)) for material in materials]


def _same(address: str, one: Sequence[bytes], other: Sequence[bytes], how: str) -> None:
    for number, (first, second) in enumerate(zip(one, other, strict=True), 1):
        assert first == second, f"{address} gives another result for material {number} in {how}"


def _run_afresh(address: str, materials: Sequence[Material], parameters: str) -> list[bytes]:
    module = registry.get(address).module
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "4711",
        "TZ": "Pacific/Kiritimati",
        "LC_ALL": "C",
        "LANGUAGE": "tr",
        "PYTHONPATH": os.pathsep.join(os.path.realpath(path) for path in sys.path),
    }
    with TemporaryDirectory() as folder:
        ran = subprocess.run(  # noqa: S603 - the same interpreter, our own words
            [sys.executable, "-c", _FRESH, module, address, parameters],
            input=msgspec.msgpack.encode(list(materials)),
            env=environment,
            cwd=folder,
            capture_output=True,
            check=False,
        )
    assert ran.returncode == 0, f"{address} fails in a fresh process: {ran.stderr.decode()}"
    return msgspec.msgpack.decode(ran.stdout, type=list[bytes])


# --- reading the source ---


def forbidden(address: str) -> list[str]:
    """Give what a version's source uses that a pure function has no use for, each with file and line."""
    module = registry.get(address).module
    found = []
    for name, data in sorted(freeze.sources(module).items()):
        if name.endswith(".json"):
            continue
        inside = f"{LAYER}.{name.removesuffix('.py').replace('/', '.')}" if name.endswith(".py") else name
        found += [f"{name}:{fault}" for fault in _faults(ast.parse(data), inside.split(".")[:-1], module)]
    return found


def _faults(tree: ast.Module, package: Sequence[str], version: str) -> Iterator[str]:
    reads_data = any(isinstance(node, ast.Assign) and "DATA" in map(_name, node.targets) for node in tree.body)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name in _imported(node, package):
                if not _may_import(name, version) and not (reads_data and name == "pathlib"):
                    yield f"{node.lineno}: imports {name}"
        elif isinstance(node, ast.Call) and _name(node.func) in IMPURE:
            yield f"{node.lineno}: calls {_name(node.func)}"
        elif isinstance(node, ast.Call) and _is_pattern(node) and (fault := _pattern_fault(node)):
            yield f"{node.lineno}: {fault}"


def _imported(node: ast.Import | ast.ImportFrom, package: Sequence[str]) -> list[str]:
    """Give the full names of the modules that a statement names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    above = package[: len(package) - node.level + 1] if node.level else ()
    base = ".".join([*above, *([node.module] if node.module else [])])
    if node.module and base != "convlog":
        return [base]
    return [f"{base}.{alias.name}" for alias in node.names]


def _may_import(name: str, version: str) -> bool:
    top = name.partition(".")[0]
    if top == "convlog":
        return name in SHARED or f"{name}.".startswith(tuple(f"{LAYER}.{folder}." for folder in VERSIONED))
    return top in STANDARD or top in PACKAGES or top == version.partition(".")[0]


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _is_pattern(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and _name(node.func.value) == "re"


def _pattern_fault(node: ast.Call) -> str:
    """Say what in a pattern changes with the Unicode tables of a Python version."""
    flags = {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
    if flags & _ASCII:
        return ""
    texts = [
        inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
    ]
    if any(drifting in text for text in texts for drifting in _DRIFTING):
        return "a pattern with \\s, \\w, \\d or \\b without re.ASCII"
    if flags & _IGNORE_CASE or any("(?i" in text for text in texts):
        return "a pattern that ignores case without re.ASCII"
    return ""
