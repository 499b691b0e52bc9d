"""outline@1: what a range says of itself: goals, files changed, decisions, commands and outcomes, what remains (S24).

Made from the events of the range alone, so that it can be derived again. Nothing in it is inferred from a call's
arguments but what the call was about; files count as changed when their tool said so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from ..registry import projection
from ..stages.history_v1 import SUCCESS
from ..stages.material_v1 import Material
from ..stages.memory_v1 import completed_call
from ..stages.secrets_v1 import withhold
from ..stages.segments_v1 import Activity, Segment
from ..stages.tool_map_v1 import ToolMap
from ..stages.turn_text_v1 import bound, collapse
from ..stages.turns_v1 import DONE, starts_turn
from ..stages.view_v1 import (
    Answered,
    Asked,
    Call,
    Input,
    Node,
    Noted,
    Result,
    Root,
    TextBlock,
    Todos,
    TurnEnd,
    read_all,
)
from ..stages.view_v1 import Segment as SegmentView
from ..stages.wording_v1 import todo
from ..tool_maps import tool_map
from ..turn_memory import v6

NOTHING = "Nothing was asked or done here."
FILE_TOOLS = ("write_file", "edit_file")


class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may be chosen.

    Attributes:
        agent: whose tool names the calls use; by default what the root says, when the range holds it.
        workspace: absolute path that targets are seen from; by default the root's working directory, the same way.
        text_bytes: bytes of a goal, a decision or the last words; at least 16.
        commands_max: so many commands and failed calls, the latest, are listed.
    """

    agent: str | None = None
    workspace: str | None = None
    text_bytes: int = 400
    commands_max: int = 60


@projection("outline", 1, "summariser", parameters=Parameters)
def outline(material: Material, parameters: Parameters) -> str:
    """Give the outline of a range: `material.path` holds its nodes and nothing else."""
    nodes = read_all(material.path)
    notes = read_all(material.notes)
    root = next((node.body for node in nodes if isinstance(node.body, Root)), Root())
    tools = tool_map(parameters.agent or root.agent)
    workspace = (root.cwd or "") if parameters.workspace is None else parameters.workspace
    kept = v6.memory(list(_segments(nodes, tools)), workspace, tools).activities
    limit = max(parameters.text_bytes, 16)
    sections = (
        ("Goals", _goals(nodes, limit)),
        ("Files changed", _unique(activity.file_changed for activity in kept)),
        ("Files written, whether they changed was not stated", _written(kept, tools)),
        ("Decisions", _decisions(nodes, notes, limit)),
        ("Commands and outcomes", _latest(list(_commands(kept, tools)), parameters.commands_max)),
        ("What remains", list(_remaining(nodes, notes, limit))),
        ("Last said", _last_words(nodes, limit)),
    )
    said = ["\n".join([f"{title}:", *(f"- {line}" for line in lines)]) for title, lines in sections if lines]
    return "\n\n".join(said) or NOTHING


def _segments(nodes: Sequence[Node], tools: ToolMap) -> Iterator[Segment]:
    calls = {node.position: node for node in nodes if isinstance(node.body, Call)}
    for node in nodes:
        call = calls.pop(node.answers, None) if isinstance(node.body, Result) and node.answers else None
        if call is not None:
            yield completed_call(call, node, tools)


def _goals(nodes: Sequence[Node], limit: int) -> list[str]:
    return _unique(_words(node.body, limit) for node in nodes if isinstance(node.body, Input) and starts_turn(node))


def _words(said: Input, limit: int) -> str:
    return _bounded(" ".join(block.text for block in said.content if isinstance(block, TextBlock)), limit)


def _bounded(text: str, limit: int) -> str:
    """Make one line of a text; its secrets are withheld before the cut, which could hide their shape."""
    return bound(collapse(withhold(text)), limit)


def _written(kept: Sequence[Activity], tools: ToolMap) -> list[str]:
    changed = {activity.file_changed for activity in kept}
    return [
        target
        for target in _unique(
            activity.target
            for activity in kept
            if activity.status == SUCCESS and not activity.file_changed and _kind(activity, tools) in FILE_TOOLS
        )
        if target not in changed
    ]


def _decisions(nodes: Sequence[Node], notes: Sequence[Node], limit: int) -> list[str]:
    """Give the memory notes of kind decision, then the answered approvals."""
    found = [
        _bounded(node.body.text, limit)
        for node in (*nodes, *notes)
        if isinstance(node.body, Noted) and node.body.kind == "decision"
    ]
    asked = ""
    names = {node.body.call: node.body.name for node in nodes if isinstance(node.body, Call)}
    for node in nodes:
        body = node.body
        if isinstance(body, Asked):
            asked = _bounded(body.text or names.get(body.call or "", ""), limit)
        elif isinstance(body, Answered):
            found.append(_answer(body, asked, limit))
            asked = ""
    return _unique(found)


def _answer(body: Answered, asked: str, limit: int) -> str:
    verdict = {"once": "allowed once", "always": "allowed always", "deny": "denied"}.get(body.decision, body.decision)
    who = f"rule {body.rule}" if body.by == "rule" and body.rule else f"the {body.by}"
    reason = f" ({_bounded(body.reason, limit)})" if body.reason else ""
    return f"{verdict} by {who}{f': {asked}' if asked else ''}{reason}"


def _commands(kept: Sequence[Activity], tools: ToolMap) -> Iterator[str]:
    """Give every command with its outcome, and every other call that failed."""
    for activity in kept:
        if _kind(activity, tools) == "bash":
            yield f"{activity.target or activity.tool}: {_outcome(activity)}"
        elif activity.status != SUCCESS:
            yield f"{' '.join(part for part in (activity.tool, activity.target) if part)}: {_outcome(activity)}"


def _outcome(activity: Activity) -> str:
    if activity.exit_code is not None:
        return f"exit {activity.exit_code}"
    return "ok" if activity.status == SUCCESS else activity.status


def _kind(activity: Activity, tools: ToolMap) -> str:
    rule = tools.rule(activity.tool)
    return rule.kind if rule else "bash" if activity.tool == "bash" else ""


def _latest(lines: list[str], most: int) -> list[str]:
    """Give the last lines, said once where one follows itself, and how many came before."""
    counted: list[tuple[str, int]] = []
    for line in lines:
        if counted and counted[-1][0] == line:
            counted[-1] = line, counted[-1][1] + 1
        else:
            counted.append((line, 1))
    shown = [line if times == 1 else f"{line} ({times} times)" for line, times in counted]
    hidden = max(0, len(shown) - most)
    return [*([f"({hidden} earlier ones are left out)"] if hidden else []), *shown[hidden:]]


def _remaining(nodes: Sequence[Node], notes: Sequence[Node], limit: int) -> Iterator[str]:
    """Give open tasks, calls without a result, and how the last turn ended when it was not done."""
    lists = [node.body for node in nodes if isinstance(node.body, Todos)]
    for item in lists[-1].todos if lists else ():
        if item.status != "done":
            yield _bounded(todo(item.content, item.status, item.note), limit)
    answered = {node.answers for node in nodes if isinstance(node.body, Result)}
    for node in nodes:
        if isinstance(node.body, Call) and node.position not in answered:
            yield f"no result of {_bounded(node.body.name, limit)}"
    here = {node.position for node in nodes}
    ends = [note.body for note in notes if isinstance(note.body, TurnEnd) and note.body.node in here]
    if ends and ends[-1].state != DONE:
        yield f"the last turn ended: {ends[-1].state}"


def _last_words(nodes: Sequence[Node], limit: int) -> list[str]:
    for node in reversed(nodes):
        body = node.body
        if isinstance(body, SegmentView) and body.kind == "text" and (words := _bounded(body.text, limit)):
            return [words]
    return []


def _unique(lines: Iterable[str]) -> list[str]:
    return [line for line in dict.fromkeys(lines) if line]
