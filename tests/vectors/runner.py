"""Runs examples of the rules: each an input in neutral form and the expected outcome, by kind."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests import vectors_provider_input

from . import path, turn_memory, wire

Vector = dict[str, Any]

KINDS: dict[str, Callable[[Vector], str | None]] = {
    "assemble": path.run,
    "conversation": path.run,
    "detach_orphans": wire.run,
    "drop_orphan_results": wire.run,
    "history_steps": turn_memory.run,
    "pending_state": path.run,
    "provider_input": vectors_provider_input.run,
    "prune_for_wire": wire.run,
    "retry_rewind": turn_memory.run,
    "text_render": turn_memory.run,
    "tree": path.run,
    "turn_memory": turn_memory.run,
}
"""Kind to what runs one example of it: None when it holds, else the difference in words."""

LATER = frozenset(
    (
        *("checkpoint_draft", "compaction_range", "compression_bypass", "node_edit", "project_memory", "recovery_scan"),
        *("segments", "session_kind", "todo_write", "tool_pairing"),
    )
)
"""Kinds of what is not built yet."""


def vectors(files: Sequence[Path]) -> Iterator[Vector]:
    """Iterate over the examples of files: a list, or an object with `vectors`; of a folder, those of its files."""
    for file in files:
        for each in sorted(file.glob("*.json")) if file.is_dir() else [file]:
            found = json.loads(each.read_text(encoding="utf-8"))
            yield from found["vectors"] if isinstance(found, dict) else found


def difference(vector: Vector) -> str | None:
    """Run one example; an error of the code under test is a difference too."""
    try:
        return KINDS[vector["kind"]](vector)
    except Exception as error:  # noqa: BLE001 - one broken example must not hide the others
        return f"{vector['id']}: {type(error).__name__}: {error}"


def main(arguments: Sequence[str]) -> int:
    """Run all, and give the exit code: 1 when one failed, its kind is unknown, or there was none."""
    passed = failed = 0
    waiting: Counter[str] = Counter()
    for vector in vectors([Path(name) for name in arguments]):
        kind = vector["kind"]
        if kind in LATER:
            waiting[kind] += 1
            continue
        found = difference(vector) if kind in KINDS else f"{vector['id']}: unknown kind {kind}"
        passed += found is None
        failed += found is not None
        if found is not None:
            print(f"FAILED {found}")
    for kind, count in sorted(waiting.items()):
        print(f"not yet: {kind} ({count})")
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0 or not (passed or waiting))
