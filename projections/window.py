"""The newest part of a talk, as a prompt of its own: what may be parted from it, and what was put before it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from . import derive
from .stages import pieces_v1 as kinds
from .stages.declared_v1 import GONE
from .stages.pieces_v1 import Piece, Text, Tool, Tools
from .stages.request_v1 import Item, Request, WireBlock

MODEL_ROLES = frozenset({"assistant", "model"})
FRAME = frozenset({kinds.TOOLS, kinds.INSTRUCTIONS})
TAIL = frozenset({kinds.CONTEXT, kinds.TASK_LIST})
CALLED_SO_DECLARED = "X7: called, so declared"
"""The rule of an encoder's repair that declares a tool which nobody did; its text is the tool's name."""

MARKS_IN_WINDOW = 2
"""The marks on the newest block and before the newest answer; where one is missing, its place is in what is kept."""

STEPS_IN_WINDOW = 2
"""Steps of an open turn that stay in the window: a cache mark stands before the newest answer."""


class Window:
    """The newest turns, or steps, and what stands around the talk.

    Some pieces stand before the talk only so that the encoder does here what it would do behind what is kept: the
    newest kept summary, which gets a cache mark, and the input that opened the turn of which the first steps are kept.
    What they became is taken out again.
    """

    def __init__(self, prompt: derive.Derived, stand_ins: range, summary: int | None) -> None:
        self.prompt = prompt
        self.talk_first = stand_ins.stop
        """The index of the first piece of the talk."""
        self.lead, talk = _parted(prompt)
        taken, self.talk = _without(talk, stand_ins)
        self.summary = next((block for block in taken if block.pieces == (summary,)), None)
        """The block of the kept summary."""
        others = (block for block in taken if block is not self.summary)
        marks = sum(map(_is_marked, _blocks(self.talk)))
        self.is_marked = marks > 0 or any(map(_is_marked, taken))
        """Whether requests of this recipe get cache marks."""
        self.is_clean = (
            (summary is None or self.summary is not None)
            and not any(map(_is_marked, others))
            and (not self.is_marked or marks >= MARKS_IN_WINDOW)
        )
        """Whether the stand-ins could be told apart from the rest, and no mark stands on one that belongs elsewhere."""

    def goes_on_from(self, position: int, *, blocks_min: int, steps_min: int) -> bool:
        """Whether the talk can stand behind what is kept.

        It begins with the node at a position (else the encoder mended the beginning), and cache marks reach no further
        back: it has so many answers and blocks.
        """
        pieces = self.prompt.pieces
        made_of = self.talk[0].blocks[0].pieces[:1] if self.talk and self.talk[0].blocks else ()
        begins = bool(made_of) and pieces[made_of[0]].sources[:1] == (position,)
        return begins and steps(self.talk) >= steps_min and len(_blocks(self.talk)) >= blocks_min


class Split(msgspec.Struct, frozen=True):
    """Where a window is parted."""

    position: int
    """The first node that stays."""
    piece: int
    """The index of its first piece."""
    items: tuple[Item, ...]
    """What goes."""


def keeps_marks(window: Window, split: Split) -> bool:
    """Whether what goes takes no cache mark with it but that of a summary, which alone can be put back."""
    pieces = window.prompt.pieces
    marked = [block for block in _blocks(split.items) if _is_marked(block)]
    return all(any(pieces[index].provenance == kinds.SUMMARY for index in block.pieces) for block in marked)


def split_at(window: Window, position: int) -> Split | None:
    """Part a window before the turn that begins at a position; None where that cannot be.

    Only between a message of the model and one of the user: elsewhere encoders may mend what stands side by side.
    """
    pieces, items = window.prompt.pieces, window.talk
    piece = next((index for index, each in enumerate(pieces) if each.sources[:1] == (position,)), None)
    index = 0 if piece is None else next((i for i, item in enumerate(items) if _begins_at(item, piece)), 0)
    if piece is None or not index or items[index - 1].role not in MODEL_ROLES or items[index].role != "user":
        return None
    # A cache mark stands before the newest answer: one with what it answers must stay.
    return Split(position, piece, items[:index]) if steps(items[index:]) else None


def split_in_turn(window: Window, opening: int, blocks_min: int) -> Split | None:
    """Part a window within its last turn, as late as its newest steps and so many blocks allow.

    Between what was put to the model and its next answer, and only where everything before is made of earlier nodes
    and everything behind of later ones.

    Args:
        window: the window.
        opening: the position of the input that opened the turn.
        blocks_min: so many blocks stay.
    """
    items, pieces = window.talk, window.prompt.pieces
    blocks = after = 0
    for index in range(len(items) - 1, 0, -1):
        blocks += len(items[index].blocks)
        if not _is_step(items, index):
            continue
        after += 1
        made_of = items[index].blocks[0].pieces[:1]
        if after < STEPS_IN_WINDOW or blocks < blocks_min or not made_of:
            continue
        position = pieces[made_of[0]].sources[0] if pieces[made_of[0]].sources else 0
        if position > opening and _is_between(pieces, made_of[0], position):
            return Split(position, made_of[0], items[:index])
        return None
    return None


def steps(items: Sequence[Item]) -> int:
    """Count the answers of the model that something was put to it before, the first item counted."""
    return sum(_is_step(items, index) for index in range(len(items)))


def _is_step(items: Sequence[Item], index: int) -> bool:
    return items[index].role in MODEL_ROLES and (not index or items[index - 1].role not in MODEL_ROLES)


def _blocks(items: Sequence[Item]) -> list[WireBlock]:
    return [block for item in items for block in item.blocks]


def _is_marked(block: WireBlock) -> bool:
    return bool(block.mark or block.after)


def _is_between(pieces: Sequence[Piece], index: int, position: int) -> bool:
    """Whether a piece parts all others by the positions of what they were made of."""
    before = (source for piece in pieces[:index] for source in piece.sources)
    behind = (source for piece in pieces[index:] if piece.provenance not in TAIL for source in piece.sources)
    return all(source < position for source in before) and all(source >= position for source in behind)


def _begins_at(item: Item, piece: int) -> bool:
    return bool(item.blocks) and item.blocks[0].pieces[:1] == (piece,)


def _parted(prompt: derive.Derived) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """Give the items before the talk (made of what stands around it) and those of the talk."""
    items, frame = prompt.request.items, frame_length(prompt.pieces)
    count = 0
    for item in items:
        if not all(block.pieces and max(block.pieces) < frame for block in item.blocks):
            break
        count += 1
    return items[:count], items[count:]


def _without(talk: tuple[Item, ...], pieces: range) -> tuple[list[WireBlock], tuple[Item, ...]]:
    """Give the first blocks, as far as they were made of some pieces alone, and the talk without them."""
    taken: list[WireBlock] = []
    for index, item in enumerate(talk):
        for count, block in enumerate(item.blocks):
            if not block.pieces or any(piece not in pieces for piece in block.pieces):
                rest = msgspec.structs.replace(item, blocks=item.blocks[count:])
                return taken, (rest, *talk[index + 1 :])
            taken.append(block)
    return taken, ()


# --- pieces ---


def frame_length(pieces: Sequence[Piece]) -> int:
    """Give how many pieces stand before the talk."""
    count = 0
    for piece in pieces:
        if piece.provenance not in FRAME and not (piece.role == "system" and piece.provenance in TAIL):
            break
        count += 1
    return count


def made_of(pieces: Sequence[Piece], first: int, position: int | None) -> int:
    """Count the pieces from an index on that were made of the node at a position."""
    count = 0
    while first + count < len(pieces) and pieces[first + count].sources == (position,):
        count += 1
    return count


def undeclared(request: Request) -> set[str]:
    """Give the names of the tools that an encoder declared since they are called."""
    found = (
        each.element.text
        for each in request.repairs
        if each.rule == CALLED_SO_DECLARED and isinstance(each.element, Text)
    )
    return set(found)


def declaring(pieces: Sequence[Piece], names: Collection[str]) -> list[Piece]:
    """Declare, in a window, what kept turns call and nobody declared, in the words of the encoder's own stand-ins."""
    if not names:
        return list(pieces)
    stand_ins = tuple(Tool(name, GONE) for name in names)
    last = max((index for index, piece in enumerate(pieces) if piece.provenance == kinds.TOOLS), default=None)
    if last is None:
        return [Piece(kinds.TOOLS, "system", Tools(stand_ins)), *pieces]
    found = list(pieces)
    element = found[last].element
    assert isinstance(element, Tools)
    found[last] = msgspec.structs.replace(found[last], element=Tools((*element.tools, *stand_ins)))
    return found
