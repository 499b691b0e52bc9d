"""turn-memory@2: calls of an ended turn as tagged lines in its prose (K04)."""

from __future__ import annotations

import msgspec

from ..registry import projection
from ..stages.assembly_v1 import with_memory
from ..stages.frame_v1 import TAIL
from ..stages.material_v1 import Material
from ..stages.memory_v1 import Version
from ..stages.pieces_v1 import Piece
from ..turn_memory import v2

VERSION = Version(v2.memory, v2.steps, in_text=True)


class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may be chosen.

    Attributes:
        workspace: absolute path that targets are seen from; by default the thread's working directory.
        task_list: where the task list stands: `tail`, or `system` among the instructions.
        context: where the runtime context stands: the same.
    """

    workspace: str | None = None
    task_list: str = TAIL
    context: str = TAIL


@projection("turn-memory", 2, parameters=Parameters)
def assemble(material: Material, parameters: Parameters) -> list[Piece]:
    """Give the pieces of a path."""
    return with_memory(
        material,
        VERSION,
        workspace=parameters.workspace,
        task_list=parameters.task_list,
        context=parameters.context,
    )
