"""Making the words of a summary: by a frozen summariser, or for somebody else to make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from . import registry
from .material import material
from .stages.material_v1 import Material

if TYPE_CHECKING:
    from .conversation import Thread


def part(thread: Thread, nodes: Sequence[int]) -> Material:
    """Give the material of some nodes of one path alone."""
    whole = material(thread, nodes[-1])
    inside = set(nodes)
    return msgspec.structs.replace(whole, path=tuple(stored for stored in whole.path if stored.position in inside))


def derive_summary(thread: Thread, nodes: Sequence[int], maker: str) -> str:
    """Let a frozen summariser say a range."""
    found = registry.get(maker, "summariser")
    text: str = found.function(part(thread, nodes), registry.parameters_of(found, None))
    return text


def derived_again(thread: Thread, nodes: Sequence[int], maker: str, text: str) -> bool:
    """Whether a summariser still says a range in the words that were stored."""
    return derive_summary(thread, nodes, maker) == text


def originals(thread: Thread, nodes: Sequence[int]) -> str:
    """Give the nodes of a range as text, for a summariser outside."""
    from .replay import imported_recipe
    from .stages.pieces_v1 import Call, Piece, Reasoning, Result, Text

    def line(piece: Piece) -> str:
        match piece.element:
            case Text():
                return f"{piece.role}: {piece.element.text}"
            case Reasoning():
                return f"reasoning: {piece.element.text}"
            case Call():
                return f"call {piece.element.name}: {piece.element.input}"
            case Result():
                inner = "".join(each.text for each in piece.element.content if isinstance(each, Text))
                return f"result ({piece.element.status}): {inner}"
            case _:
                return piece.role

    from .derive import assemble

    return "\n".join(line(piece) for piece in assemble(part(thread, nodes), imported_recipe())) + "\n"


def tokens(thread: Thread, nodes: Sequence[int]) -> int:
    """Estimate the tokens of a range's originals (`est:bytes4/1`)."""
    return -(-len(originals(thread, nodes).encode()) // 4)


def unmentioned(thread: Thread, nodes: Sequence[int], words: str) -> list[str]:
    """Name the files, commands and outcomes of a range that some words do not mention."""
    from convlog.eventstore.events import ToolReturned

    found: list[str] = []
    for record in thread.records(nodes, outputs=False):
        body = thread.event(record.position, output=False).body
        if not isinstance(body, ToolReturned) or body.facts is None:
            continue
        facts = body.facts
        for what, value in (
            ("changed file", facts.file_changed),
            ("failed command", facts.failed_command),
        ):
            if value and value not in words and value.rsplit("/", 1)[-1] not in words:
                found.append(f"{what} {value}")
        if facts.exit_code and str(facts.exit_code) not in words and facts.failed_command is None:
            found.append(f"exit code {facts.exit_code} at {record.position}")
    return list(dict.fromkeys(found))
