"""Assemblers of users, in modules of their own: written, changed, broken and taken away as people do."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from convlog.projections import freeze, registry

SOURCE = '''
"""An assembler of a user's own."""

from convlog import projection
from convlog.projections.assemblers.transcript_v1 import Parameters, assemble
from convlog.projections.stages.pieces_v1 import INSTRUCTIONS, Piece, Text


@projection("mine", 1, parameters=Parameters)
def mine(material, parameters):
    """Give all, and one instruction of its own."""
    {body}
'''
FIRST = 'Piece(INSTRUCTIONS, "system", Text("Be brief."))'
AS_WRITTEN = f"return [{FIRST}, *assemble(material, parameters)]"
"""What `mine@1` does."""


def with_pieces(change: str) -> str:
    """Give an assembler that does the same after a change of `pieces`, the talk."""
    return f"pieces = assemble(material, parameters)\n    {change}\n    return [{FIRST}, *pieces]"


class Author:
    """Writes the module of `mine@1`, again and again."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "assembler_of_a_user.py"
        self._module: ModuleType | None = None
        sys.path.insert(0, str(folder))

    def write(self, body: str = AS_WRITTEN) -> None:
        """Write the assembler, as a new process would find it."""
        self._path.write_text(SOURCE.replace("{body}", body), encoding="utf-8")
        importlib.invalidate_caches()
        sys.modules.pop(self._path.stem, None)
        self._module = importlib.import_module(self._path.stem)
        freeze.fingerprint.cache_clear()

    def take_away(self) -> None:
        """Uninstall the assembler."""
        registry._registered.pop("mine@1", None)
        sys.modules.pop(self._path.stem, None)
        freeze.fingerprint.cache_clear()

    def leave(self) -> None:
        """Leave no trace."""
        self.take_away()
        sys.path.remove(str(self._path.parent))


@pytest.fixture
def author(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Author]:
    """Give an author whose assembler is written."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    folder = tmp_path / "author"
    folder.mkdir()
    found = Author(folder)
    found.write()
    yield found
    found.leave()
