"""The lines of a Codex rollout in one shape, whichever of the three outer forms they come in.

Now each line is an envelope (`timestamp`, `type`, `payload`). Before, a line was the item itself, below a header
without a type; and before that the whole rollout was one document, `{"session": ..., "items": [...]}`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import BinaryIO

import msgspec
from msgspec import Raw

from ..events import RecordKept, TurnState
from .base import Compaction, Entry, Item, Place, Reader, ReaderAbove, Response, ThreadInfo, Title
from .documents import DocumentReader
from .known import Identity
from .lines import LineReader, Progress, Record, first_objects
from .openai_content import text_content
from .report import ImportReport
from .slices import Entries, Fields, fields_of, name_of, object_text, text_of
from .times import is_plain, microseconds

AGENT = "codex"

META, ITEM, EVENT, COMPACTED, CONTEXT = "session_meta", "response_item", "event_msg", "compacted", "turn_context"
KINDS = frozenset({META, ITEM, EVENT, COMPACTED, CONTEXT})

BARE, DOCUMENT = "bare", "document"
"""The two older outer forms, as a thread's label `form` names them."""

LOOKED_AHEAD = 8
"""Records behind a bare header among which the first input names the folder."""

_DOCUMENT = re.compile(rb'\s*\{\s*"(?:session|items)"\s*:\s*[\[{]')
_ITEM_TYPES = frozenset({"message", "reasoning", "function_call", "function_call_output", "local_shell_call"})
_FOLDER = re.compile(r"<cwd>([^<]*)</cwd>|^Current working directory: (.*)$", re.MULTILINE)

INJECTED = (
    *("<environment_context>", "<user_instructions>", "# agents.md instructions", "<instructions>", "<agents_md>"),
    *("<skill>", "<skills", "<turn_aborted>", "<user_shell_command>", "<subagent_notification>", "<hook_prompt"),
    *("<user_action>", "<context_update>", "<permissions instructions>", "<collaboration_mode>", "<model_switch>"),
    *("<personality", "<apps_instructions>", "<plugins_instructions>", "<goal_context>", "<recommended_plugins>"),
    "another language model started to solve this problem",
)
"""How inputs begin, in small letters, that the program puts in by itself under the user's role."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line in the shape of an envelope."""

    record: Record
    kind: str
    payload: Fields
    data: Raw
    """The payload as it stands."""
    form: str = ""
    """The older outer form, when it is one."""
    identity: Identity
    at: int | None

    def said(self) -> str:
        """Name the payload's own type."""
        return name_of(self.payload.get("type")) or ""

    def verbatim(self) -> Item:
        """Keep the line as it is."""
        return verbatim(self.record)

    def kept(self, thread: ThreadInfo) -> Entry:
        """Say that the line is only kept."""
        return self.entry(thread, [self.verbatim()])

    def entry(
        self,
        thread: ThreadInfo,
        items: Sequence[Item],
        *,
        response: Response | None = None,
        ends: TurnState | None = None,
        error: str | None = None,
        title: Title | None = None,
        compaction: Compaction | None = None,
        selects: str | Place | None = None,
    ) -> Entry:
        """Say what the line means."""
        return Entry(
            thread=thread,
            record=self.record,
            identity=self.identity,
            items=tuple(items),
            occurred_at=self.at,
            response=response,
            ends=ends,
            error=error,
            title=title,
            compaction=compaction,
            selects=selects,
        )

    def over(self, rest: Entries) -> str | None:
        """Give what of the line has no place, with `rest` of its payload."""
        over: Entries = []
        if not self.form:
            fields = self.record.fields or {}
            is_timed = self.at is not None and is_plain(fields["timestamp"])
            dropped = {"type", "payload", "timestamp"} if is_timed else {"type", "payload"}
            over = [entry for entry in fields.items() if entry[0] not in dropped]
        text = object_text(rest)
        return object_text(over if text is None else [*over, ("payload", text.encode())])


def verbatim(record: Record) -> Item:
    """Keep a record as it is."""
    return Item(body=RecordKept(format=AGENT, record=record.data.decode(), line=record.line))


def read_line(record: Record, identity: Identity) -> Line | None:
    """Give a record in the shape of an envelope; None for one that has none of the three forms."""
    fields = record.fields or {}
    kind, at = name_of(fields.get("type")), microseconds(text_of(fields.get("timestamp")))
    payload = fields_of(fields.get("payload")) if kind else None
    if kind and payload is not None:
        return Line(record=record, kind=kind, payload=payload, data=fields["payload"], identity=identity, at=at)
    whole = Raw(record.data)
    session = fields_of(fields.get("session")) if kind is None else None
    if session is not None:
        at = microseconds(text_of(session.get("timestamp")))
        return Line(
            record=record, kind=META, payload=session, data=fields["session"], form=DOCUMENT, identity=identity, at=at
        )
    if kind is None and "id" in fields and "timestamp" in fields:
        return Line(record=record, kind=META, payload=fields, data=whole, form=BARE, identity=identity, at=at)
    if kind is not None and "payload" not in fields:
        return Line(record=record, kind=ITEM, payload=fields, data=whole, form=BARE, identity=identity, at=at)
    return None


def is_injected(content: Raw | None) -> bool:
    """Whether an input under the user's role was put in by the program."""
    return text_content(content).lstrip().lower().startswith(INJECTED)


# --- reading ---


def begins_rollout(head: bytes) -> bool:
    """Whether a file that begins so is a rollout."""
    if is_document(head):
        return b'"items"' in head and b'"session"' in head
    if any(_tells(fields) for fields in first_objects(head)):
        return True
    # A first line that is longer than what was looked at.
    return b"\n" not in head and b'"session_meta"' in head and b'"payload"' in head


def _tells(fields: Fields) -> bool:
    kind = name_of(fields.get("type"))
    if kind in KINDS:
        return "payload" in fields and "timestamp" in fields
    if kind is None:
        is_header = {"id", "timestamp", "instructions"} <= fields.keys()
        return is_header or name_of(fields.get("record_type")) == "state"
    return kind in _ITEM_TYPES and not {"uuid", "sessionId", "parentId"} & fields.keys() and _is_item(fields)


def _is_item(fields: Fields) -> bool:
    return bool({"call_id", "summary", "encrypted_content"} & fields.keys()) or (
        name_of(fields.get("role")) in {"user", "assistant"} and b'put_text"' in bytes(fields.get("content", b""))
    )


def is_document(head: bytes) -> bool:
    """Whether a file that begins so is one document."""
    return _DOCUMENT.match(head) is not None


def read(stream: BinaryIO, head: bytes, report: ImportReport, progress: Progress | None) -> Reader:
    """Read a rollout's records.

    Args:
        stream: what is read, from its beginning.
        head: how it begins.
        report: takes damage.
        progress: told the bytes read.
    """
    if is_document(head):
        return RolloutReader(DocumentReader(stream, report, "items", progress))
    return RolloutReader(LineReader(stream, report, progress))


class RolloutReader(ReaderAbove):
    """A rollout's records. A header of an older form gets the folder that the first input names, as its `cwd`."""

    def __iter__(self) -> Iterator[Record]:
        records = iter(self._reader)
        first = next(records, None)
        if first is None:
            return
        fields = first.fields or {}
        if "type" in fields or not {"id", "session"} & fields.keys():
            yield first
            yield from records
            return
        near = deque(islice(records, LOOKED_AHEAD))
        folder = _folder(near)
        if folder is not None and "cwd" not in fields:
            first = msgspec.structs.replace(first, fields={**fields, "cwd": Raw(msgspec.json.encode(folder))})
        yield first
        while near:
            yield near.popleft()
        yield from records


def _folder(records: Iterable[Record]) -> str | None:
    for record in records:
        fields = record.fields or {}
        if name_of(fields.get("role")) == "user":
            found = _FOLDER.search(text_content(fields.get("content")))
            folder = found and (found[1] or found[2] or "").strip()
            if folder:
                return folder
    return None
