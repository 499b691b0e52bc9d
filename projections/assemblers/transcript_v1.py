"""transcript@1: everything verbatim, summaries in the place of what they cover."""

from __future__ import annotations

import msgspec

from ..registry import projection
from ..stages.frame_v1 import TAIL, framed
from ..stages.material_v1 import Material
from ..stages.pieces_v1 import Piece
from ..stages.selection_v1 import select
from ..stages.talk_v1 import verbatim
from ..stages.view_v1 import read_all


class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the volatile parts stand: `tail` or `system`."""

    task_list: str = TAIL
    context: str = TAIL


@projection("transcript", 1, parameters=Parameters, turnwise=True)
def assemble(material: Material, parameters: Parameters) -> list[Piece]:
    """Give the pieces of a whole path."""
    path = read_all(material.path)
    selection = select(path, read_all(material.notes))
    talk = verbatim(selection.slots, selection.late)
    return framed(path, talk, parameters.task_list, parameters.context)
