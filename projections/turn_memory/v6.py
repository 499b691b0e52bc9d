"""`turn-memory@6`, the default: version 4 with what this store knows better (decision 1).

Ids come from the call's node (a), the secret filter is exact (b), a filtered server leaves the tool's name alone (c),
addresses are cleaned wholly (d), promoted results are carried (e), denied and cancelled are told apart (f), a filtered
command says so (g), targets come from the agent's own tools by a map (h), and what is invalid is reported (i).
"""

from collections.abc import Mapping, Sequence

import msgspec

from ..stages.history_v1 import SUCCESS, json_text, validate
from ..stages.history_v1 import steps as cut_into_steps
from ..stages.secrets_v1 import WITHHELD, has_secret, withhold
from ..stages.segments_v1 import (
    Activity,
    HistoricalCall,
    Invalid,
    Memory,
    Promoted,
    Segment,
    Step,
    completed_calls,
    prose,
)
from ..stages.tool_map_v1 import (
    ToolMap,
    ToolRule,
    address,
    command_line,
    place,
    read_input,
    shell_command,
    text_of,
)
from ..stages.turn_text_v1 import bound, collapse, exit_code, relativise, string

PROMOTED_LIMIT = 4096
"""Bytes of a promoted result, the mark of a cut included."""

_SHELL_RULE = ToolRule("bash", command=("command",))


class _Result(msgspec.Struct, omit_defaults=True):
    """A replayed result, fields in the order in which they are sent (K24)."""

    status: str
    file_changed: str = ""
    failed_command: str = ""
    exit_code: int | None = None
    promoted: tuple[Promoted, ...] = ()


def memory(segments: Sequence[Segment], workspace: str, tool_map: ToolMap, /) -> Memory:
    """Keep an activity for each completed call; never an output that nobody promoted, an argument or an error's text.

    Args:
        segments: The turn, in order.
        workspace: Absolute path to relativise against, "" for none.
        tool_map: What the agent's tool names mean.
    """
    activities = (_activity(offset, segment, workspace, tool_map) for offset, segment in completed_calls(segments))
    return Memory(prose(segments), activities=tuple(activities))


def _activity(offset: int, segment: Segment, workspace: str, tool_map: ToolMap) -> Activity:
    rule = tool_map.rule(segment.tool) or (_SHELL_RULE if segment.shell else None)
    values = read_input(segment.input) if rule else {}
    activity = Activity(
        offset,
        segment.tool,
        SUCCESS if segment.status == "ok" else segment.status,
        promoted=tuple(_carried(result) for result in segment.promoted),
        node=segment.node,
    )
    if rule and rule.kind == "call_mcp_tool":
        return _behind_wrapper(activity, segment, values)
    if server := segment.server or tool_map.server(segment.tool):
        return msgspec.structs.replace(activity, server=_kept(server))
    if rule is None:
        return activity
    file_changed, failed_command, code = _outcome(segment, rule, workspace)
    return msgspec.structs.replace(
        activity,
        target=_target(segment, rule, values, workspace),
        file_changed=file_changed,
        failed_command=failed_command,
        exit_code=code,
    )


def _behind_wrapper(activity: Activity, segment: Segment, values: Mapping[str, object]) -> Activity:
    """Name server and tool as K21 does, and keep the wrapper's name whatever the filter takes (decision 1c)."""
    server = segment.facts.server or string(values, "server") or segment.server
    tool = segment.facts.tool or string(values, "tool")
    return msgspec.structs.replace(
        activity, tool=_kept(tool) or segment.tool, server=_kept(server), wrapper=segment.tool
    )


def _target(segment: Segment, rule: ToolRule, values: Mapping[str, object], workspace: str) -> str:
    match rule.kind:
        case "bash":
            stated = shell_command(segment.command or segment.facts.command)
            return _kept_command(stated or command_line(values, rule))
        case "web_fetch":
            return _kept(address(values, rule))
        case "delegate_task":
            return _kept(text_of(values, rule.agent))
        case _:
            return _kept(place(values, rule, workspace) or relativise(segment.facts.path, workspace))


def _outcome(segment: Segment, rule: ToolRule, workspace: str) -> tuple[str, str, int | None]:
    """Read the stated outcome of a call without error (K19): file changed, failed command, exit code."""
    if segment.status != "ok":
        return "", "", None
    if rule.kind in ("write_file", "edit_file"):
        return _kept(relativise(segment.facts.file_changed, workspace)), "", None
    code = exit_code(segment.facts) if rule.kind == "bash" else None
    return "", _kept_command(segment.facts.failed_command) if code else "", code


def _kept(text: str) -> str:
    text = collapse(text)
    return "" if has_secret(text) else bound(text)


def _kept_command(text: str) -> str:
    text = collapse(text)
    return WITHHELD if has_secret(text) else bound(text)


def _carried(result: Promoted) -> Promoted:
    """Bound a promoted result; its secrets are withheld before the cut, which could hide their shape."""
    return msgspec.structs.replace(
        result, text=bound(withhold(result.text), PROMOTED_LIMIT), reason=_kept(result.reason)
    )


def render_text(memory: Memory) -> str:
    """Give the prose as it is: memory never alters it (K27)."""
    return memory.prose


def steps(memory: Memory, _index: int, /) -> list[Step]:
    """Replay the valid calls at their places, without arguments, under ids that nothing inserted earlier changes."""
    return cut_into_steps(memory.prose, validate(memory)[0], _call)


def _call(number: int, activity: Activity) -> HistoricalCall:
    succeeded = activity.status == SUCCESS
    result = _Result(
        SUCCESS if succeeded else "error",
        activity.file_changed,
        activity.failed_command,
        activity.exit_code,
        activity.promoted,
    )
    return HistoricalCall(
        f"call_node{activity.node}" if activity.node else f"call_unplaced{number}",
        activity.wrapper or activity.tool,
        "{}",
        json_text(result),
        is_error=not succeeded,
        node=activity.node,
    )


def invalid(memory: Memory) -> list[Invalid]:
    """Report what `steps` leaves out and why, for repair pieces (decision 1i)."""
    return validate(memory)[1]
