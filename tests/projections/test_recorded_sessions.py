"""Sessions that agents really wrote, as requests of every format: no provider refuses one, whatever the assembler."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from convlog.eventstore.importers import detect_format, import_file
from convlog.eventstore.importers.forms import HEAD_BYTES
from convlog.eventstore.memory import MemoryBackend
from convlog.projections import derive, registry
from convlog.projections.conversation import Store, Thread
from convlog.projections.material import attachments, material
from convlog.projections.profiles import bundled_profiles, load_profile, profile_bytes
from convlog.projections.stages.pieces_v1 import Piece
from convlog.projections.stages.target_v1 import Options, target
from tests.recorded import recorded

from .encoding import ADDRESSES, assert_pointers, profile_for, refusals

FILES = (
    "claude-code-small.jsonl",
    "claude-code-edge.jsonl",
    "claude-code-real.jsonl",
    "codex-real.jsonl",
    "gemini-cli-real.json",
    "pi-real.jsonl",
    "chatgpt-tree.json",
)
ASSEMBLERS = [address for address in registry.OWN if registry.get(address).kind == "assembler"]
LEAVES = 2
"""Prompts of a thread: at its head and at nodes spread over it, in the middle of turns as they fall."""


@cache
def threads(file: str) -> list[Thread]:
    """Import a file, and give its threads."""
    path = recorded(file)
    with path.open("rb") as opened:
        if detect_format(opened.read(HEAD_BYTES), path) is None:
            pytest.skip(f"no importer knows the form of {file}")
    store = Store(MemoryBackend())
    import_file(store, path)
    return [store.thread(row.thread) for row in store.threads()]


def leaves(thread: Thread) -> list[int]:
    nodes = [position for position in range(2, thread.position + 1) if thread.tree.is_node(position)]
    return sorted({thread.head, *nodes[:: max(1, len(nodes) // LEAVES)]})


def targets() -> Iterator[tuple[str, str]]:
    """Iterate over all formats with the profiles that are offered in them."""
    for wire_format in ADDRESSES:
        for profile_id in bundled_profiles():
            if wire_format in load_profile(profile_id).formats:
                yield wire_format, profile_id


def prompts(file: str, assembler: str) -> Iterator[tuple[Thread, list[Piece]]]:
    recipe = derive.Recipe(assembler=assembler, encoder="anthropic@1", profile=profile_bytes("claude-sonnet-4-6"))
    for thread in threads(file):
        for leaf in leaves(thread):
            yield thread, derive.assemble(material(thread, leaf), recipe)


@pytest.mark.oracle
@pytest.mark.parametrize("assembler", ASSEMBLERS)
@pytest.mark.parametrize("file", FILES)
def test_no_prompt_of_a_recorded_session_is_refused(file: str, assembler: str) -> None:
    tried = 0
    for thread, pieces in prompts(file, assembler):
        carried = attachments(thread, derive.attachments_needed(pieces))
        for wire_format, profile_id in targets():
            build = registry.get(ADDRESSES[wire_format], "encoder").function
            request = build(pieces, target(profile_bytes(profile_id)), Options(), carried)
            assert refusals(request, profile_for(profile_id, wire_format)) == []
            assert_pointers(request)
            tried += 1
    assert tried
