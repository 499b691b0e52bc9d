"""What comes out of each version over a corpus of stored bytes: the contract that a frozen version keeps.

A file of the corpus is one thread: a line that says which prompts are derived from it (leaf and position), then its
rows as they lie in a store, whatever their schema version. Rows are only ever added, by hand: today's code cannot write
what an older one wrote. `tests/golden/targets/` holds the models that encoders are tried for.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from blake3 import blake3

from convlog.eventstore.backend import Record
from convlog.eventstore.records import current_json
from convlog.projections import registry
from convlog.projections.material import NOTES
from convlog.projections.stages import request_v1
from convlog.projections.stages.material_v1 import Material
from convlog.projections.stages.talk_v1 import MissingOutput
from convlog.projections.stages.target_v1 import MissingAttachment, Options, target
from convlog.projections.stages.view_v1 import Stored

GOLDEN = Path(__file__).parent / "golden"
ASSEMBLERS = ("transcript@1", "turn-memory@6")
"""Whose pieces encoders are tried with."""


class Head(msgspec.Struct):
    """The first line of a corpus file."""

    about: str
    prompts: list[tuple[int, int]]
    attachments: dict[str, str] = {}


class Row(msgspec.Struct, kw_only=True):
    """One stored event."""

    position: int
    parent: int | None
    type: str
    version: int
    source: str
    refs: str | None = None
    body: str | None = None
    output: str | None = None
    missing: bool = False


class Prompt(msgspec.Struct):
    """What one prompt of the corpus is derived from."""

    name: str
    material: Material
    attachments: dict[str, bytes]


@cache
def corpus() -> list[Prompt]:
    """Read the corpus."""
    return [prompt for path in sorted((GOLDEN / "corpus").glob("*.jsonl")) for prompt in _prompts(path)]


def rows(path: Path) -> tuple[Head, list[Row]]:
    """Read one file."""
    first, *others = path.read_bytes().splitlines()
    return msgspec.json.decode(first, type=Head), [msgspec.json.decode(line, type=Row) for line in others]


def _prompts(path: Path) -> Iterator[Prompt]:
    head, found = rows(path)
    by_position = {row.position: row for row in found}
    attachments = {name: base64.b64decode(data) for name, data in head.attachments.items()}
    for leaf, at in head.prompts:
        line = []
        node: int | None = leaf
        while node is not None:
            line.append(by_position[node])
            node = by_position[node].parent
        notes = [row for row in found if row.parent is None and row.position <= at and row.type in NOTES]
        material = Material(tuple(map(stored, reversed(line))), tuple(map(stored, notes)), at)
        yield Prompt(f"{path.stem}:{leaf}@{at}", material, attachments)


def stored(row: Row) -> Stored:
    """Give a row as projections read it."""
    body = None if row.body is None else row.body.encode()
    refs = None if row.refs is None else row.refs.encode()
    output = None if row.output is None else row.output.encode()
    source = row.source.encode()
    record = Record(
        row.position,
        row.parent,
        0,
        row.type,
        row.version,
        0,
        None,
        source,
        None,
        refs,
        b"",
        b"",
        None,
        body=body,
    )
    return Stored(row.position, row.type, source, refs, current_json(record), output, row.missing)


def results(address: str) -> Iterator[tuple[str, bytes]]:
    """Iterate over (what for, bytes) of all that a version gives over the corpus."""
    found = registry.get(address)
    kinds = {"assembler": _assembled, "encoder": _encoded, "summariser": _summarised}
    for prompt in corpus():
        yield from kinds[found.kind](found, prompt)


def outputs(address: str) -> str:
    """Give the blake3, hex, of all that a version gives over the corpus."""
    hasher = blake3()
    for name, data in results(address):
        for part in (name.encode(), data):
            hasher.update(len(part).to_bytes(8, "little") + part)
    return hasher.hexdigest()


def _assembled(found: registry.Projection, prompt: Prompt) -> Iterator[tuple[str, bytes]]:
    yield prompt.name, _json(_pieces(found, prompt.material))


def _pieces(found: registry.Projection, material: Material) -> Any:
    try:
        return found.function(material, registry.parameters_of(found, None))
    except MissingOutput as error:
        return f"missing output: {error.position}"


def _encoded(found: registry.Projection, prompt: Prompt) -> Iterator[tuple[str, bytes]]:
    aim = target((GOLDEN / "targets" / f"{found.name}.json").read_bytes())
    for assembler in ASSEMBLERS:
        pieces = _pieces(registry.get(assembler), prompt.material)
        if isinstance(pieces, str):
            continue
        try:
            data = request_v1.body(found.function(pieces, aim, Options(max_tokens=1024), prompt.attachments))
        except MissingAttachment as error:
            data = f"missing attachment: {error}".encode()
        yield f"{prompt.name} {assembler}", data


def _summarised(found: registry.Projection, prompt: Prompt) -> Iterator[tuple[str, bytes]]:
    path, notes = prompt.material.path, prompt.material.notes
    for start in (0, len(path) // 2):
        part = Material(path[start:], notes, prompt.material.at)
        yield f"{prompt.name} from {start}", _json(found.function(part, registry.parameters_of(found, None)))


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)
