"""What names a call's target in the source's own nine tools, as its versions 2 to 4 did it (K12, K15, K21)."""

from collections.abc import Mapping

from .segments_v1 import Segment
from .turn_text_v1 import join_target, kept, relativise, string
from .urls_v1 import clean


def target(segment: Segment, values: Mapping[str, object], path: str, workspace: str) -> str:
    """Say what a call was about, bounded; "" for tools outside the allow list and when the filter hits.

    Args:
        segment: The completed call.
        values: Its input fields.
        path: The path of a tool that works on one file.
        workspace: Absolute path to relativise against, "" for none.
    """
    match segment.tool:
        case "read_file" | "write_file" | "edit_file":
            said = relativise(path, workspace)
        case "glob" | "grep":
            said = join_target(relativise(string(values, "path"), workspace), string(values, "pattern"))
        case "bash":
            said = segment.command or segment.facts.command or string(values, "command")
        case "web_fetch":
            said = clean(string(values, "url"))
        case "delegate_task":
            said = string(values, "agent")
        case _:
            said = ""
    return kept(said)


def behind_wrapper(segment: Segment, values: Mapping[str, object]) -> tuple[str, str]:
    """Name the server and the tool that `call_mcp_tool` called: as the result states them, else as was asked (K21).

    A name that the filter drops is "", which is how the source loses the wrapper's name (Q3).
    """
    server = kept(segment.facts.server or string(values, "server"))
    tool = kept(segment.facts.tool or string(values, "tool"))
    return server, tool or segment.tool
