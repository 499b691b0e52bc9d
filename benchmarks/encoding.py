"""Encoding: a long talk as each provider's request, how that grows, and how much of each request the next one keeps."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from convlog.eventstore.importers import import_path
from convlog.eventstore.memory import MemoryBackend
from convlog.projections import derive, registry
from convlog.projections.compare import common_prefix
from convlog.projections.conversation import Store, Thread
from convlog.projections.material import material
from convlog.projections.profiles import profile_bytes
from convlog.projections.stages.pieces_v1 import Call, Piece, Result
from convlog.projections.stages.request_v1 import body

from .harness import ROOT, Figure, Sizes, compared, repeated
from .importing import session
from .workload import fill

SAMPLE = ROOT / "cli" / "data" / "sample.jsonl"
RECORDED = "CONVLOG_RECORDED"
"""The variable that names a folder of recorded sessions, where there is one."""

PROFILES = {
    "anthropic@1": "claude-sonnet-4-6",
    "openai-chat@1": "gpt-5.4",
    "openai-responses@1": "gpt-5.4",
    "gemini@1": "gemini-3-flash-preview",
    "bedrock@1": "bedrock-claude",
}
LONGER = 4
"""How many times the turns of the shorter talk a longer one has."""


def run(sizes: Sizes, folder: Path) -> Iterator[Figure]:
    """Measure each encoder beside encoding the same value, and a damaged talk at two sizes; then compare requests."""
    whole = _pieces(sizes.turns_read)
    short = _pieces(max(1, sizes.turns_read // LONGER))
    for encoder in PROFILES:
        yield _encoded(sizes, encoder, whole)
        yield _mended(sizes, encoder, _damaged(whole), _damaged(short))
    for name, source in _sessions(sizes, folder):
        yield from _prefixes(name, source)


def _recipe(encoder: str, assembler: str = "transcript@1") -> derive.Recipe:
    return derive.Recipe(assembler=assembler, encoder=encoder, profile=profile_bytes(PROFILES[encoder]))


def _pieces(turns: int) -> list[Piece]:
    """Give the pieces of a talk with everything in it, as a transcript has them."""
    thread = Store(MemoryBackend()).create_thread()
    fill(thread, turns)
    return derive.assemble(material(thread), _recipe("anthropic@1"))


def _damaged(pieces: Sequence[Piece]) -> list[Piece]:
    """Give a talk in which all calls have one id, and every third result is lost or comes twice."""
    found: list[Piece] = []
    for number, piece in enumerate(pieces):
        element = piece.element
        if isinstance(element, Call):
            found.append(replace(piece, element=replace(element, id="the same")))
        elif isinstance(element, Result) and number % 3 < 2:
            found.extend([piece] * (2 * (number % 3)))
        else:
            found.append(piece)
    return found


def _encode(pieces: Sequence[Piece], recipe: derive.Recipe) -> bytes:
    return body(derive.encode(pieces, recipe, {}))


def _encoded(sizes: Sizes, encoder: str, pieces: Sequence[Piece]) -> Figure:
    recipe = _recipe(encoder)
    data = _encode(pieces, recipe)
    value: Any = msgspec.json.decode(data)
    ours, floor = repeated(2 * sizes.runs, lambda: _encode(pieces, recipe), lambda: msgspec.json.encode(value))
    note = f"{sizes.turns_read:,} turns, {len(pieces):,} pieces, {len(data) / 1e6:,.1f} MB"
    return compared(f"{encoder} : msgspec on the same value", [(ours, floor)], limit=2.0, note=note)


def _mended(sizes: Sizes, encoder: str, whole: Sequence[Piece], short: Sequence[Piece]) -> Figure:
    recipe = _recipe(encoder)
    ours, least = repeated(2 * sizes.runs, lambda: _encode(whole, recipe), lambda: _encode(short, recipe))
    note = f"{len(derive.encode(whole, recipe, {}).repairs):,} repairs"
    title = f"{encoder}, a damaged talk {LONGER} times as long, per piece"
    return compared(title, [(ours, least)], scale=len(whole) / len(short), limit=2.0, note=note)


# --- what stays from call to call ---


def _sessions(sizes: Sizes, folder: Path) -> Iterator[tuple[str, Path]]:
    """Iterate over what is imported: sessions made here, the sample, and recorded ones where they are to be found."""
    made = folder / "session.jsonl"
    made.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in session(sizes.turns_short)))
    yield f"{sizes.turns_short:,} turns", made
    yield "sample", SAMPLE
    if recorded := os.environ.get(RECORDED):
        yield "recorded", Path(recorded)


class _Kept(msgspec.Struct):
    """Bytes of requests' blocks, and how many of them the request before began with."""

    calls: int = 0
    total: int = 0
    talk: int = 0
    strict: int = 0
    """The same where what surrounds the talk is equal too; elsewhere nothing is kept."""


def _prefixes(name: str, source: Path) -> Iterator[Figure]:
    store = Store(MemoryBackend())
    for _ in import_path(store, source):
        pass
    threads = [store.thread(row.thread) for row in store.threads()]
    for assembler in (address for address in registry.OWN if registry.get(address).kind == "assembler"):
        kept = _Kept()
        for thread in threads:
            _count(thread, assembler, kept)
        total = max(kept.total, 1)
        # Recorded sessions do not say which tools were declared, so each is from its first call on.
        note = (
            f"{kept.calls:,} calls after the first, {kept.total / 1e6:,.1f} MB; {100 * kept.strict / total:.1f} %"
            " where tools and instructions count too"
        )
        title = f"{name}, {assembler}: the talk's bytes that the call before had"
        yield Figure(name=title, value=100 * kept.talk / total, unit="%", note=note)


def _count(thread: Thread, assembler: str, kept: _Kept) -> None:
    before: derive.Derived | None = None
    for replayed in thread.replay(assembler=assembler, encoder="anthropic@1"):
        now = replayed.prompt
        if now is None:
            continue
        if before is not None:
            size = common_prefix(before, now)[1]
            kept.calls += 1
            kept.total += sum(map(len, now.blocks))
            kept.talk += size
            kept.strict += size if before.rolling[0] == now.rolling[0] else 0
        before = now
