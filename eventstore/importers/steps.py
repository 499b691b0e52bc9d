"""The `steps` form: a conversation written by hand, for scripts, demonstrations and bug reports.

A JSON document with a list of steps: `{"id": ..., "steps": [...]}`, a case file with an `input`, or the list alone.
Steps that record something are taken as they are and nothing is checked; any other step is refused, named by its index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from blake3 import blake3

from ..canonical import BODY_BYTES_MAX, split_halves
from ..errors import ImportFailed, PayloadRejected
from ..events import ParentCall
from .base import Compaction, Desk, Entry, Item, Place, ThreadInfo
from .known import Identity
from .lines import Progress, Record
from .report import ImportReport
from .slices import Fields, fields_of, is_too_deep, items_of, spelled, text_of, value_of
from .steps_bodies import HOST, STATES, again, body_of, failed_summary, invalidated
from .times import microseconds

CASE_FORMAT = "convlog-case/1"
DOCUMENT_BYTES_MAX = 4 * BODY_BYTES_MAX
THREAD = "t1"
"""The thread that a step means which names none."""

NEEDED: dict[str, tuple[str, ...]] = {
    "thread": (),
    "user": (),
    "assistant": (),
    "system": (),
    "reasoning": (),
    "tool_call": ("call", "name"),
    "tool_result": ("call",),
    "edit": ("target",),
    "regenerate": ("target",),
    "select": ("target",),
    "fork": ("from", "into"),
    "compact": ("first", "last"),
    "invalidate": ("target", "reason"),
    "turn_end": ("status",),
}
"""The steps that record something, and the texts that each must have."""

_DOCUMENT = re.compile(rb"\s*(?:\[\s*)?\{")
_A_STEP = re.compile(rb'"op"\s*:\s*"')


class Steps:
    """The form of hand-written steps."""

    name = "steps"

    def detect(self, head: bytes, path: Path | None) -> bool:  # noqa: ARG002 - the protocol's form
        """Whether a document begins here whose steps have operations."""
        return _DOCUMENT.match(head) is not None and _A_STEP.search(head) is not None

    def read(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> StepsReader:
        """Read the document."""
        return StepsReader(stream, report, progress)

    def mapping(self, desk: Desk, path: Path | None) -> StepsMapping:  # noqa: ARG002 - the protocol's form
        """Begin with one document."""
        return StepsMapping(desk)

    def last_user_time(self, stream: BinaryIO) -> int:
        """Give the time of the last user's step."""
        records = StepsReader(stream, ImportReport(format=self.name), None)
        times = (
            microseconds(text_of(record.fields.get("at")))
            for record in records
            if record.fields and text_of(record.fields.get("op")) == "user"
        )
        return max((time for time in times if time is not None), default=0)


class StepsReader:
    """The steps of a document, all looked at before the first is given; before them one record that names the file."""

    torn = stump = b""

    def __init__(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> None:
        self._stream = stream
        self._report = report
        self._progress = progress

    def __iter__(self) -> Iterator[Record]:
        data = self._stream.read(DOCUMENT_BYTES_MAX + 1)
        report = self._report
        report.size, report.digest = len(data), blake3(data).hexdigest()
        if self._progress is not None:
            self._progress(len(data))
        name, steps = _document(data)
        read = [_step(index, bytes(step)) for index, step in enumerate(steps)]
        yield Record(0, b"", {"id": msgspec.Raw(msgspec.json.encode(name or report.digest))})
        for record in read:
            report.records += 1
            yield record


def _document(data: bytes) -> tuple[str | None, list[msgspec.Raw]]:
    """Give a document's id and its steps.

    Raises:
        ImportFailed: it is no such document.
    """
    if len(data) > DOCUMENT_BYTES_MAX:
        raise ImportFailed(f"steps of over {DOCUMENT_BYTES_MAX:,} bytes", hint="write them into several files")
    data = data.strip()
    if is_too_deep(data):
        raise ImportFailed("steps nested deeper than JSON is read here")
    try:
        fields = fields_of(data)
        found = data if fields is None else fields.get("steps") or (fields_of(fields.get("input")) or {}).get("steps")
        steps = items_of(found)
    except (PayloadRejected, UnicodeDecodeError) as error:
        raise ImportFailed(f"steps: not JSON: {error}") from None
    if steps is None:
        raise ImportFailed("no list of steps in this document", hint='write {"steps": [...]}')
    return text_of(fields.get("id")) if fields else None, steps


def _step(index: int, data: bytes) -> Record:
    """Look at a step.

    Raises:
        ImportFailed: it records nothing, or lacks what it needs.
    """
    fields = fields_of(data)
    operation = text_of(fields.get("op")) if fields else None
    if fields is None or operation is None:
        raise ImportFailed(f"step {index} is no object with an operation (op)")
    if operation not in NEEDED:
        raise ImportFailed(
            f"step {index} ({operation}) records nothing that an import takes", hint=f"these do: {', '.join(NEEDED)}"
        )
    for name in NEEDED[operation]:
        if not text_of(fields.get(name)):
            raise ImportFailed(f"step {index} ({operation}): {name} is missing, or no text")
    return Record(index, data, fields)


class StepsMapping:
    """The meaning of one document's steps."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._file = ""
        self._infos: dict[str, ThreadInfo] = {}
        self._items: dict[tuple[str, str], Item] = {}
        """What was said, by thread and label: edits say it again."""
        self._labels: dict[tuple[str, str], str] = {}
        """The label under which a key was first used."""
        self._same: dict[tuple[str, str], str] = {}
        """Labels of appends that were repeated, and the label of the first."""

    def end(self) -> Iterator[Entry]:
        """Nothing is left to say."""
        return iter(())

    def map(self, record: Record) -> Entry | None:
        """Say what a step means."""
        fields = record.fields or {}
        operation = text_of(fields.get("op"))
        if operation is None:
            self._file = text_of(fields.get("id")) or ""
            return None
        thread = text_of(fields.get("thread")) or THREAD
        label = text_of(fields.get("as")) or f"step:{record.line}"
        key = text_of(fields.get("key"))
        first = self._labels.setdefault((thread, key), label) if key else label
        if first != label:
            self._same[thread, label] = first
            return None
        return self._map(record, fields, operation, thread, label)

    def _map(self, record: Record, fields: Fields, operation: str, thread: str, label: str) -> Entry:
        step = {name: value_of(value) for name, value in fields.items()}
        if operation == "fork":
            into = step["into"]
            self._infos[into] = self._info(
                into, step, continues=(self._info(thread, {}).id, self._label(thread, step["from"]))
            )
            thread = into
        info = self._info(thread, step if operation == "thread" else {})
        items: tuple[Item, ...] = ()
        if operation in {"edit", "regenerate"}:
            items = (self._again(record, operation, thread, step),)
        elif operation in {"user", "assistant", "system", "reasoning", "tool_call", "tool_result"}:
            items = (body_of(operation, step, spelled(fields["args"]) if "args" in fields else "{}"),)
        elif operation == "invalidate":
            items = (invalidated(self._label(thread, step["target"]), step["reason"]),)
        elif operation == "compact" and step.get("fails"):
            items = (
                failed_summary(self._label(thread, step["first"]), self._label(thread, step["last"]), step["fails"]),
            )
        if items and not callable(items[0].body) and items[0].body.NODE:
            self._items[thread, label] = items[0]
        parent = step.get("target") if operation in {"edit", "regenerate"} else step.get("parent")
        return Entry(
            thread=info,
            record=record,
            identity=Identity(label, record.data),
            parent=self._label(thread, parent) if isinstance(parent, str) else Place.BEFORE,
            beside=operation in {"edit", "regenerate"},
            exact=True,
            items=items,
            occurred_at=microseconds(step["at"]) if isinstance(step.get("at"), str) else None,
            ends=STATES.get(step["status"], "done") if operation == "turn_end" else None,
            selects=self._label(thread, step["target"]) if operation == "select" else None,
            compaction=self._compaction(thread, step) if operation == "compact" and not items else None,
        )

    def _info(self, thread: str, step: dict[str, Any], continues: tuple[str, str] | None = None) -> ThreadInfo:
        """Give a thread; what its own step says of it counts."""
        info = self._infos.get(thread)
        if info is None or continues is not None:
            above = step.get("parent_thread")
            info = self._infos[thread] = ThreadInfo(
                id=f"{self._file}/{thread}",
                origin="subagent" if step.get("role") == "helper" else "import",
                parent=ParentCall(self._desk.thread_id(f"{self._file}/{above}")) if isinstance(above, str) else None,
                continues=continues,
            )
        return info

    def _label(self, thread: str, label: str) -> str:
        return self._same.get((thread, label), label)

    def _again(self, record: Record, operation: str, thread: str, step: dict[str, Any]) -> Item:
        target = self._label(thread, step["target"])
        said = self._items.get((thread, target)) or next(
            (item for (_, label), item in self._items.items() if label == target), None
        )
        if said is None:
            raise ImportFailed(f"step {record.line} ({operation}): no step before it is labelled {target}")
        return again(operation, target, said, step)

    def _compaction(self, thread: str, step: dict[str, Any]) -> Compaction:
        text, halves = split_halves(str(step.get("summary") or ""))
        return Compaction(
            text=text,
            halves=halves,
            first=self._label(thread, step["first"]),
            last=self._label(thread, step["last"]),
            maker=HOST.kind,
        )
