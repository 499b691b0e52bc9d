"""`turn-memory@1`: changed files and failed commands, as a text block below the prose (K02, K03)."""

from collections.abc import Iterator, Sequence

from ..stages.segments_v1 import FailedCommand, Memory, Segment, Step, completed_calls, prose
from ..stages.tool_map_v1 import ToolMap
from ..stages.turn_text_v1 import exit_code, fields, relative_path, string

FILE_TOOLS = ("write_file", "edit_file")


def memory(segments: Sequence[Segment], workspace: str, _tool_map: ToolMap | None = None, /) -> Memory:
    """Keep the files that the turn changed, each once, and its failed commands, each time."""
    calls = [segment for _, segment in completed_calls(segments) if segment.status == "ok"]
    paths = (
        relative_path(segment.facts.path, workspace)
        for segment in calls
        if segment.tool in FILE_TOOLS and segment.facts.path
    )
    return Memory(prose(segments), tuple(dict.fromkeys(paths)), tuple(failed_commands(calls)))


def failed_commands(calls: Sequence[Segment]) -> Iterator[FailedCommand]:
    """Yield the shell commands among error-free calls that exited with another code than zero (K02)."""
    for segment in calls:
        if segment.tool == "bash" and (code := exit_code(segment.facts)):
            command = segment.facts.command or string(fields(segment.input), "command")
            if command:
                yield FailedCommand(command, code)


def render_text(memory: Memory) -> str:
    """Write the prose, a blank line and the block; the prose alone when nothing is kept (K03)."""
    return with_block(memory.prose, memory)


def with_block(text: str, memory: Memory) -> str:
    """Put the block of files and failed commands below a text."""
    lines = [f"- Files changed: {', '.join(memory.files_changed)}"] if memory.files_changed else []
    lines += [f"- Failed bash: {failed.command} (exit {failed.exit_code})" for failed in memory.failed_bash]
    if not lines:
        return text
    block = "\n".join(["Tool memory:", *lines])
    return f"{text}\n\n{block}" if text else block


def steps(memory: Memory, _index: int, /) -> list[Step]:
    """Replay the turn as one text."""
    return [Step(render_text(memory))]
