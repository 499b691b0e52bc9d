"""Dependencies point down: cli -> projections -> eventstore; the core of the store knows neither importers nor SQL."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.sources import LAYERS, ROOT, imports_of, module_of, name_of, python_files, tree_of

ALLOWED = {
    "eventstore": {"blake3", "msgspec", "platformdirs", "sqlite_utils"},
    "projections": {"blake3", "msgspec"},
    "cli": {"blake3", "click", "msgspec", "platformdirs", "rich", "sqlite_utils"},
}
"""What each layer may import beside the standard library and the layers below."""

SQL_CALLS = {"execute", "executemany", "executescript"}
"""Methods that take SQL. Importers are left out: some foreign stores are databases."""


def layer_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "convlog" and parts[1] in LAYERS else None


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_only_layers_below_and_the_packages_it_was_given(layer: str) -> None:
    below = LAYERS[: LAYERS.index(layer) + 1]
    wrong = []
    for path in python_files(layer):
        for line, module in imports_of(path):
            top = module.split(".")[0]
            if top == "convlog":
                # The public face lies above all layers; the shell may ask it for the version.
                fine = layer_of(module) in below or (layer == "cli" and module in {"convlog", "convlog.__version__"})
            else:
                fine = top in sys.stdlib_module_names or top in ALLOWED[layer]
            if not fine:
                wrong.append(f"{name_of(path)}:{line}: {module}")
    assert wrong == []


def test_nobody_imports_a_layer_by_its_bare_name() -> None:
    wrong = [
        f"{name_of(path)}:{line}: {module}"
        for path in python_files(*LAYERS, "convlog", "tests", "benchmarks", "docs")
        for line, module in imports_of(path)
        if module.split(".")[0] in LAYERS
    ]
    assert wrong == []


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_are_relative_inside_a_layer_and_absolute_across(layer: str) -> None:
    wrong = []
    for path in python_files(layer):
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.ImportFrom):
                continue
            depth = len(path.relative_to(ROOT).parts) - 1
            if node.level > depth:
                wrong.append(f"{name_of(path)}:{node.lineno}: a relative import leaves the layer")
            if node.level == 0 and layer_of(node.module or "") == layer:
                wrong.append(f"{name_of(path)}:{node.lineno}: an absolute import of the own layer")
    assert wrong == []


def test_the_core_of_the_store_knows_no_importer() -> None:
    wrong = [
        f"{name_of(path)}:{line}: {module}"
        for path in python_files("eventstore")
        if "importers" not in path.parts
        for line, module in imports_of(path)
        if module.startswith("convlog.eventstore.importers")
    ]
    assert wrong == []


def test_only_the_sqlite_backend_and_its_migrations_speak_sql() -> None:
    speaking = {
        name_of(path)
        for path in python_files(*LAYERS)
        if "importers" not in path.parts
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and node.attr in SQL_CALLS
    }
    assert speaking == {"eventstore/sqlite.py", "eventstore/migrations.py"}


def test_no_module_needs_itself_to_load() -> None:
    files = {module_of(path): path for path in python_files(*LAYERS)}
    graph = {
        # A package that a module lies in is loaded before it in any case.
        module: {
            target
            for _, target in imports_of(path, at_load=True)
            if target in files and not f"{module}.".startswith(f"{target}.")
        }
        for module, path in files.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"modules that load each other: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize("module", ["convlog", "convlog.cli"])
def test_starting_up_loads_nothing_heavier_than_click(module: str) -> None:
    heavy = {"msgspec", "blake3", "sqlite3", "sqlite_utils", "rich", "jinja2", "asyncio", "dataclasses"}
    code = f"import {module}, sys; print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(ran.stdout.split())
    bare = subprocess.run(
        [sys.executable, "-c", "import click, sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    assert loaded & heavy - set(bare.stdout.split()) == set()
