"""What an import did: counts of what the source says, and everything that was odd about it, by line."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from ..events import InputAdded, SegmentAdded, Source, ToolCalled, ToolReturned, Usage

WARNINGS_MAX = 1000
"""Warnings kept in full; what comes after is only counted."""

DETAIL_LENGTH = 200
RESPONSES_MAX = 256
"""Responses remembered to tell a part of a known one from a new one."""


class Finding(msgspec.Struct, frozen=True):
    """One finding about a source."""

    line: int
    """Number of the line, or record, from 1; 0 for the source as a whole."""
    code: str
    detail: str = ""


class ImportReport(msgspec.Struct, kw_only=True):
    """What one source held and what became of it. Counts are of the source, whether new to the store or known."""

    format: str
    path: str | None = None
    digest: str = ""
    """blake3 of the source as far as it was read."""
    size: int = 0
    """Bytes read."""
    records: int = 0
    """Records read, damaged ones included."""
    mapped: int = 0
    """Records that became events of their own kind."""
    kept: int = 0
    """Records kept verbatim, since nothing is derived from them."""
    repeated: int = 0
    """Records met before in the same source."""
    repaired: int = 0
    """Records read in spite of damage."""
    lost: int = 0
    """Records that could not be read at all."""
    user_messages: int = 0
    harness_messages: int = 0
    """Inputs that the program put in by itself."""
    model_messages: int = 0
    """Responses of a model, however many records each lies on."""
    reasoning: int = 0
    tool_calls: int = 0
    tool_results: int = 0
    summaries: int = 0
    usage: Usage = Usage()
    """Tokens, once for each response."""
    warnings: list[Finding] = []
    warning_counts: dict[str, int] = {}
    """How many of each code, those beyond `WARNINGS_MAX` included."""
    thread_ids: list[str] = []
    """Ids of the threads that the source speaks of, in the order met."""
    appended: int = 0
    """Events added to the store."""
    dry_run: bool = False
    """Nothing was written: `appended` says what would have been."""
    refused: bool = False
    """Nothing was written, since under `strict` nothing may be lost."""

    @property
    def messages(self) -> int:
        """Messages of users and models."""
        return self.user_messages + self.model_messages

    @property
    def threads(self) -> int:
        """Threads that the source speaks of."""
        return len(self.thread_ids)

    def warn(self, line: int, code: str, detail: str = "") -> None:
        """Note a finding."""
        self.warning_counts[code] = self.warning_counts.get(code, 0) + 1
        if len(self.warnings) < WARNINGS_MAX:
            self.warnings.append(Finding(line, code, detail[:DETAIL_LENGTH]))

    def lose(self, line: int, code: str, detail: str = "") -> None:
        """Note a record that could not be read."""
        self.lost += 1
        self.warn(line, code, detail)

    def counts(self) -> dict[str, int]:
        """Give the counts that are not zero, for the event."""
        found = {name: getattr(self, name) for name in COUNTS}
        return {name: count for name, count in found.items() if count}


COUNTS = (
    "records",
    "mapped",
    "kept",
    "repeated",
    "repaired",
    "lost",
    "user_messages",
    "harness_messages",
    "model_messages",
    "reasoning",
    "tool_calls",
    "tool_results",
    "summaries",
    "threads",
)


class Tally:
    """Counts what is met, each response once, with the usage that was stated last."""

    def __init__(self, report: ImportReport) -> None:
        self._report = report
        self._usage: OrderedDict[str, Usage | None] = OrderedDict()

    def response(self, response: str, usage: Usage | None) -> None:
        """Take a record of a response."""
        report = self._report
        before = self._usage.get(response)
        if before is None and response not in self._usage:
            report.model_messages += 1
            self._usage[response] = None
        if usage is None or usage == before:
            return
        report.usage = _plus(_plus(report.usage, before, -1), usage, 1)
        self._usage[response] = usage
        if len(self._usage) > RESPONSES_MAX:
            self._usage.popitem(last=False)

    def body(self, body: object, source: Source) -> None:
        """Take what a record says."""
        report = self._report
        kind = type(body)
        if kind is ToolCalled:
            report.tool_calls += 1
        elif kind is ToolReturned:
            report.tool_results += 1
        elif isinstance(body, SegmentAdded):
            report.reasoning += body.kind == "reasoning"
        elif kind is InputAdded and source.kind == "user":
            report.user_messages += 1
        elif kind is InputAdded:
            report.harness_messages += 1


def _plus(usage: Usage, other: Usage | None, sign: int) -> Usage:
    if other is None:
        return usage
    return Usage(
        input=usage.input + sign * other.input,
        cache_read=usage.cache_read + sign * other.cache_read,
        cache_write=usage.cache_write + sign * other.cache_write,
        output=usage.output + sign * other.output,
        reasoning=usage.reasoning + sign * other.reasoning,
    )
