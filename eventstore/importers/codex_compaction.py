"""What the lines of a Codex rollout mean that replace the model's history.

They hold the whole new history, and most of it stood in the file before, pictures included; what did is named by its
record. The text that sums up the rest is the summary; where only the provider can read it, there is none.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from blake3 import blake3
from msgspec import Raw

from ..canonical import split_halves
from .base import Compaction, Entry, ThreadInfo
from .codex_lines import AGENT, Line
from .openai_content import text_content
from .openai_items import SEALED, kind_of
from .report import ImportReport
from .slices import Entries, fields_of, items_of, text_of

SHORT_BYTES = 96
"""Items no longer than a reference would be are not worth one."""


class Compactions:
    """The replacements of one rollout, and the inputs that stood before them."""

    def __init__(self) -> None:
        self._inputs: dict[bytes, str] = {}
        """Id of the record that holds an input, by the digest of the item."""

    def remember(self, line: Line) -> None:
        """Take an input, which a later history may repeat."""
        self._inputs[_digest(line.data)] = line.identity.id

    def entry(self, line: Line, thread: ThreadInfo, report: ImportReport) -> Entry:
        """Say what a replacement means."""
        items = items_of(line.payload.get("replacement_history")) or []
        text = text_of(line.payload.get("message")) or _last_words(items)
        if not text:
            report.warn(line.record.line, "sealed_summary", "its summary can be read by the provider alone")
            return line.kept(thread)
        words, halves = split_halves(text)
        compaction = Compaction(text=words, halves=halves, maker=AGENT, extra=line.over(self._rest(line, items)))
        return line.entry(thread, [line.verbatim()], compaction=compaction)

    def _rest(self, line: Line, items: Sequence[Raw]) -> Entries:
        """Give what is over: items that stood before as `{"record": ID}`, a message that is the text as `true`."""
        over: Entries = []
        for name, value in line.payload.items():
            if name == "message" and text_of(value):
                over.append((name, b"true"))
            elif name == "replacement_history" and bytes(memoryview(value)[:1]) == b"[":
                over.append((name, b"[" + b",".join(self._named(item) for item in items) + b"]"))
            else:
                over.append((name, value))
        return over

    def _named(self, item: Raw) -> bytes:
        id_ = self._inputs.get(_digest(item)) if len(item) > SHORT_BYTES else None
        return bytes(item) if id_ is None else msgspec.json.encode({"record": id_})


def _last_words(items: Sequence[Raw]) -> str:
    """Give the text of the history's last item, which is the summary; none when that is sealed."""
    fields = fields_of(items[-1]) if items else None
    if fields is None or kind_of(fields) in SEALED or kind_of(fields) != "message":
        return ""
    return text_content(fields.get("content"))


def _digest(data: Raw) -> bytes:
    return blake3(data).digest(length=16)
