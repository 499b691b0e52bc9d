"""Content that is not there: erased on purpose, with an event that says so, or missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from . import records
from .backend import Record
from .errors import BrokenRecord
from .events import BODIES, Redacted, ToolReturned, Unknown
from .replacements import targets_of

Report = Callable[[str, str, str, int], None]
"""Takes a finding: kind, message, thread, position."""


class _Response(msgspec.Struct):
    response: Any = None


_decode_response = msgspec.json.Decoder(_Response).decode


class _Absent(msgspec.Struct):
    """An event whose content, or a part of it, is not there."""

    thread: str
    whole: bool
    """Body, output and salt are gone, all of them."""
    type: str
    version: int


class Erasures:
    """What one log lacks, held against its `redacted` events."""

    def __init__(self, report: Report) -> None:
        self.named: dict[int, int] = {}
        """Erased positions to the `redacted` event that names them."""
        self.elsewhere = False
        """Something was erased by an event that lies behind the part that is here; known once it was judged."""
        self._report = report
        self._absent: dict[int, _Absent] = {}
        self._undecided: dict[int, bool] = {}

    @property
    def found(self) -> bool:
        """Whether anything is absent."""
        return bool(self._absent)

    def miss(self, thread: str, record: Record) -> None:
        """Take note of a record without body or salt."""
        whole = record.salt is None and record.body is None and record.output is None
        self._absent[record.position] = _Absent(thread, whole, record.type, record.version)

    def leave_undecided(self, position: int, *, stayed: bool) -> None:
        """Take note of how the head went at an erased node, whose content alone could say whether it had to."""
        self._undecided[position] = stayed

    def take(self, thread: str, by: int, body: bytes, position: int) -> None:
        """Take what a `redacted` event says; `position` is the last one that was read."""
        for target, redaction in targets_of(body).items():
            absent = self._absent.get(target)
            if absent is not None and absent.whole:
                self.named[target] = by
                if redaction.body is not None:
                    self._check_replacement(absent, target, redaction.body.encode())
            elif target <= position:
                self._absent.pop(target, None)
                self._report("erasure_incomplete", f"event {by} says that it was erased", thread, target)

    def _check_replacement(self, absent: _Absent, position: int, data: bytes) -> None:
        try:
            body = records.decode_body(absent.type, absent.version, data)
            nested = targets_of(data) if absent.type == Redacted.TYPE else {}
        except BrokenRecord as error:
            self._report("body", f"what stands in its place: {error}", absent.thread, position)
            return
        stayed = self._undecided.get(position)
        if stayed is not None and stayed != stays(absent.type, body):
            self._report("head", "the head rule gives another head after it", absent.thread, position)
        for other in nested:
            self.named.setdefault(other, position)

    def judge(self, ends: Mapping[str, int], redacted_by: Callable[[str, int], int | None]) -> None:
        """Tell erased from missing, when the whole log was read; `ends` is the last position of each thread's part."""
        for position, absent in sorted(self._absent.items()):
            type_, thread = absent.type, absent.thread
            by, kept = self.named.get(position), redacted_by(thread, position)
            if by is None and absent.whole and kept is not None and kept > ends.get(thread, 0):
                self.elsewhere = True
                self._report(
                    "redacted_elsewhere", f"{type_}: content erased by event {kept}, not here", thread, position
                )
            elif by is None or not absent.whole:
                self._report("missing", f"{type_}: content, or its salt, is absent unredacted", thread, position)
            else:
                if by != kept:
                    self._report("redaction", f"{type_}: erased by event {by}, kept is {kept}", thread, position)
                self._report("redacted", f"{type_}: content erased by event {by}", thread, position)


def stays(type_: str, body: Any) -> bool | None:
    """Whether the head stays when a node of this kind goes elsewhere than below it; None when nobody can say."""
    if type_ == ToolReturned.TYPE:
        return True
    if body is None:
        known = BODIES.get(type_)
        return None if known is None or "response" in known.__struct_fields__ else False
    if isinstance(body, Unknown):
        try:
            return _decode_response(body.json).response is not None
        except msgspec.MsgspecError:
            return False
    return getattr(body, "response", None) is not None
