"""The whole way from material to pieces for the versions of TurnMemory."""

from __future__ import annotations

from collections.abc import Sequence

from ..tool_maps import tool_map
from .frame_v1 import SYSTEM, around
from .material_v1 import Material
from .memory_v1 import Setting, Version, promotions, talk
from .pieces_v1 import Piece, Text
from .selection_v1 import select
from .talk_v1 import dropped
from .turns_v1 import turns
from .view_v1 import Root, read_all


def with_memory(
    material: Material,
    version: Version,
    *,
    workspace: str | None,
    task_list: str,
    context: str,
    notices: Sequence[str] = (),
) -> list[Piece]:
    """Give the pieces of a path whose ended turns are kept by a version of TurnMemory.

    Args:
        material: the path and its notes.
        version: the version.
        workspace: absolute path that targets are seen from; None for the thread's working directory, "" for none.
        task_list: where the task list stands.
        context: where the runtime context stands.
        notices: instructions of the assembler itself.
    """
    path = read_all(material.path)
    notes = read_all(material.notes)
    selection = select(path, notes)
    head, tail = around(path, task_list, context, notices)
    root = path[0].body if path and isinstance(path[0].body, Root) else Root()
    setting = Setting(
        workspace=(root.cwd or "") if workspace is None else workspace,
        tool_map=tool_map(root.agent),
        promoted=promotions(notes),
        first_index=int(any(piece.role == SYSTEM and isinstance(piece.element, Text) for piece in head)),
    )
    return [
        *head,
        *talk(turns(selection.slots, notes), version, setting),
        *(dropped(node, "a summary covers its call") for node in selection.late),
        *tail,
    ]
