"""pruned@1: everything verbatim until it grows too large; then without reasoning and older tool parts (S27 to S31)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ..registry import projection
from ..stages import prune_v1 as pruning
from ..stages.frame_v1 import TAIL, framed
from ..stages.material_v1 import Material
from ..stages.pieces_v1 import DROPPED, REPAIR, Call, Foreign, Piece, Reasoning, Result, Text
from ..stages.prune_v1 import CALL, KEEP_MESSAGES, REASONING, RESULTS, THRESHOLD, Message, Part
from ..stages.selection_v1 import select
from ..stages.talk_v1 import verbatim
from ..stages.view_v1 import read_all

REASONING_PRUNED = "S28: reasoning is pruned"
TOOL_PRUNED = "S28: an older tool part is pruned"
RESULT_DROPPED = "S31: its call is not in the prompt"
DETACHED = "S30: without the id that tied it to pruned reasoning"


class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may be chosen.

    Attributes:
        threshold: tokens over which a talk is pruned: a quarter of the length of its JSON (S27).
        keep_messages: tool parts in so many last messages stay (S28).
        task_list: where the task list stands: `tail`, or `system` among the instructions.
        context: where the runtime context stands: the same.
    """

    threshold: int = THRESHOLD
    keep_messages: int = KEEP_MESSAGES
    task_list: str = TAIL
    context: str = TAIL


@projection("pruned", 1, parameters=Parameters)
def assemble(material: Material, parameters: Parameters) -> list[Piece]:
    """Give the pieces of a path, pruned where it is too large."""
    path = read_all(material.path)
    selection = select(path, read_all(material.notes))
    talk = verbatim(selection.slots, selection.late)
    if pruning.tokens(_json(talk)) > parameters.threshold:
        talk = _pruned(talk, parameters.keep_messages)
    return framed(path, talk, parameters.task_list, parameters.context)


def _pruned(talk: Sequence[Piece], keep: int) -> list[Piece]:
    before = [message for message, _ in _messages(talk)]
    pruned = pruning.prune(before, keep)
    left = pruning.drop(pruning.detach(before, pruned))
    after_pruning = {part.content for message in pruned for part in message.parts}
    parts = {part.content: part for message in left for part in message.parts}
    return [
        _piece(piece, parts.get(index), survived_pruning=index in after_pruning) for index, piece in enumerate(talk)
    ]


def _piece(piece: Piece, part: Part | None, *, survived_pruning: bool) -> Piece:
    if piece.provenance == DROPPED:
        return piece
    if part is None:
        pruned = REASONING_PRUNED if isinstance(piece.element, Reasoning) else TOOL_PRUNED
        return msgspec.structs.replace(piece, provenance=DROPPED, rule=RESULT_DROPPED if survived_pruning else pruned)
    element = piece.element
    if part.item is None and isinstance(element, Text | Call | Foreign) and element.item is not None:
        element = msgspec.structs.replace(element, item=None, needs=None)
        return msgspec.structs.replace(piece, provenance=REPAIR, element=element, rule=DETACHED)
    return piece


def _messages(talk: Sequence[Piece]) -> Iterator[tuple[Message, list[Piece]]]:
    """Iterate over the messages of a talk; a part's content is the index of its piece."""
    role, of = "", ""
    found: list[tuple[int, Piece]] = []
    for index, piece in enumerate(talk):
        if piece.provenance == DROPPED:
            continue
        key = piece.group or ",".join(map(str, piece.sources))
        if found and (piece.role, key) != (role, of):
            yield _message(role, found)
            found = []
        role, of = piece.role, key
        found.append((index, piece))
    if found:
        yield _message(role, found)


def _message(role: str, found: Sequence[tuple[int, Piece]]) -> tuple[Message, list[Piece]]:
    return Message(role, tuple(_part(index, piece) for index, piece in found)), [piece for _, piece in found]


def _part(index: int, piece: Piece) -> Part:
    element = piece.element
    match element:
        case Reasoning():
            return Part(REASONING, None, element.item, index)
        case Call():
            return Part(CALL, str(element.node), element.item, index)
        case Result():
            return Part(RESULTS[0], str(element.node), None, index)
        case Text() | Foreign():
            return Part("content", None, element.item, index)
        case _:
            return Part("content", None, None, index)


def _json(talk: Sequence[Piece]) -> bytes:
    """Give the JSON of the talk's messages, whose length is what counts."""
    return msgspec.json.encode(
        [{"role": message.role, "content": [piece.element for piece in said]} for message, said in _messages(talk)]
    )
