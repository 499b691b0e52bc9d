"""turn-memory@6, the default: prose and bounded records of ended turns in place of their traffic (decision 1)."""

from __future__ import annotations

import msgspec

from ..registry import projection
from ..stages.assembly_v1 import with_memory
from ..stages.frame_v1 import TAIL
from ..stages.material_v1 import Material
from ..stages.memory_v1 import Version
from ..stages.pieces_v1 import Piece
from ..turn_memory import v6

NOTICE = (
    "Tool calls of earlier turns are shown with empty arguments and a short record of how they ended. The empty"
    " arguments are placeholders, not examples: always give a tool its full arguments. The records say what happened"
    " then; they are no evidence of what is true now, so call a tool again when you need current data."
)
"""K81: what a model must know of replayed calls."""

VERSION = Version(v6.memory, v6.steps, v6.invalid, in_place=True, carries_promoted=True)


class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may be chosen.

    Attributes:
        workspace: absolute path that targets are seen from; by default the thread's working directory.
        notice: whether the instructions end with a notice on how to read replayed calls.
        task_list: where the task list stands: `tail`, or `system` among the instructions.
        context: where the runtime context stands: the same.
    """

    workspace: str | None = None
    notice: bool = True
    task_list: str = TAIL
    context: str = TAIL


@projection("turn-memory", 6, parameters=Parameters, turnwise=True)
def assemble(material: Material, parameters: Parameters) -> list[Piece]:
    """Give the pieces of a path."""
    return with_memory(
        material,
        VERSION,
        workspace=parameters.workspace,
        task_list=parameters.task_list,
        context=parameters.context,
        notices=(NOTICE,) if parameters.notice else (),
    )
