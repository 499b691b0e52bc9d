"""The project's own files, for tests that look at the text of the code and the pages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("eventstore", "projections", "cli")
"""From the bottom up; each may import those before it."""
CODE = (*LAYERS, "convlog", "tests", "benchmarks", "docs")


def python_files(*folders: str) -> list[Path]:
    """Give the Python files below some folders; the links in `convlog/` are not followed."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py") if not _is_linked(path))


def _is_linked(path: Path) -> bool:
    return any(parent.is_symlink() for parent in path.parents if parent.is_relative_to(ROOT))


def pages() -> list[Path]:
    """Give the Markdown pages."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def texts() -> list[Path]:
    """Give all files that people write; recorded data, which names its own machine, is not among them."""
    return [*python_files(*CODE), *pages(), ROOT / "pyproject.toml", ROOT / ".ci" / "run"]


def name_of(path: Path) -> str:
    """Give a path as shown: from the root of the project."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    """Give the syntax tree of a Python file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def module_of(path: Path) -> str:
    """Give the name under which a file of a layer is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts if parts[0] in {"convlog", "tests", "benchmarks", "docs"} else ("convlog", *parts))


def imports_of(path: Path, *, at_load: bool = False) -> Iterator[tuple[int, str]]:
    """Iterate over (line, full module name) of what a file imports; with `at_load`, only what loading it runs."""
    module = module_of(path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in _loaded(tree_of(path)) if at_load else ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(package, node)
            yield node.lineno, base
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def _absolute(package: str, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    base = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])


def _loaded(tree: ast.Module) -> Iterator[ast.AST]:
    """Iterate over the nodes that run when the module is loaded: no function bodies, nothing for type checkers only."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
            continue
        pending.extend(ast.iter_child_nodes(node))


def functions_of(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Iterate over all functions of a file."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def strings_of(path: Path) -> Iterator[str]:
    """Iterate over the string constants of a file."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def comments_of(path: Path) -> Iterator[tuple[int, str]]:
    """Iterate over (line, text) of a Python file's comments."""
    import tokenize

    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def matches(pattern: re.Pattern[str], path: Path) -> Iterator[str]:
    """Iterate over `file:line: text` of what a pattern finds in a file."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if found := pattern.search(line):
            yield f"{name_of(path)}:{number}: {found[0]}"
