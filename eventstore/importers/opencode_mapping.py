"""What the records of an OpenCode session mean: threads, sub-agents, compactions, undone parts."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..events import ParentCall, RecordKept, SegmentAdded, Source, ToolCalled, ToolReturned, TurnState
from ..records import NAME_LENGTH_MAX
from .base import Compaction, Desk, Entry, Item, Place, Response, ThreadInfo, Title, is_name
from .known import Identity
from .lines import Record
from .opencode_parts import inputs_of, part_of, result_of, summary_text, usage_of
from .opencode_sources import Held, Session
from .opencode_steps import Step, kind_of, status_of
from .slices import Fields, fields_of, name_of

AGENT = "opencode"
ABORTED = "MessageAbortedError"

GOES_ON = "tool-calls"
ENDS: dict[str, TurnState] = {"length": "incomplete", "content-filter": "error"}
"""How a turn ends whose last step finished so; all others that do not go on are done."""


class OpenCodeMapping:
    """The meaning of one database or session."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._info = ThreadInfo(id="")

    def end(self) -> Iterator[Entry]:
        """Nothing is left to say."""
        return iter(())

    def map(self, record: Record) -> Entry | None:
        """Say what a record means."""
        if not isinstance(record, Step):
            return None
        if record.session.id != self._info.id:
            self._info = self._thread(record.session)
        match record.kind:
            case "session":
                return msgspec.structs.replace(self._kept(record, stands=False), last=True)
            case "title":
                return self._entry(record, b"", (), title=record.data.decode())
            case "input":
                items = inputs_of(record.parts, self._desk.attach)
                return self._entry(record, _stable(record.parts), items or (_verbatim(record),))
            case "part":
                return self._part(record, record.parts[0])
            case "result":
                item, stable = result_of(record.parts[0], self._desk.attach)
                return self._entry(record, stable, (item,))
            case "summary":
                return self._summary(record)
            case "message":
                return self._message(record)
            case "revert":
                return self._revert(record)
        return self._kept(record)

    # --- threads ---

    def _thread(self, session: Session) -> ThreadInfo:
        parent = None
        if session.parent is not None:
            parent = ParentCall(self._desk.thread_id(session.parent), self._call(session))
        return ThreadInfo(
            id=session.id,
            agent=AGENT,
            cwd=session.cwd,
            origin="subagent" if parent else "import",
            parent=parent,
            occurred_at=session.created,
        )

    def _call(self, session: Session) -> int | None:
        """Find the call of the parent's thread that names a sub-agent's session."""
        thread = self._desk.thread(session.parent or "")
        if thread is None or self._desk.thread(session.id) is not None:
            return None
        for event in thread.events(types=(ToolCalled.TYPE, ToolReturned.TYPE), outputs=False):
            if event.body is not None and f'"{session.id}"' in (event.body.extra or ""):
                return event.ref("answers") or event.position
        return None

    # --- records ---

    def _entry(
        self,
        step: Step,
        stable: bytes,
        items: tuple[Item, ...],
        *,
        response: Response | None = None,
        ends: TurnState | None = None,
        error: str | None = None,
        title: str | None = None,
        compaction: Compaction | None = None,
    ) -> Entry:
        return Entry(
            thread=self._info,
            record=step,
            identity=Identity(step.id, stable),
            parent=step.after or Place.ROOT,
            items=items,
            occurred_at=step.created,
            response=response,
            ends=ends,
            error=error,
            title=Title(text=title, by=AGENT) if title else None,
            compaction=compaction,
            counts=step.counts,
        )

    def _kept(self, step: Step, *, stands: bool = True) -> Entry:
        stable = _stable(step.parts) if step.parts else step.data
        return self._entry(step, stable, (_verbatim(step, stands=stands),))

    def _part(self, step: Step, part: Held) -> Entry:
        """Say what a part of a response means; one that may still change is kept until it does not."""
        kind, fields = kind_of(part), part.fields or {}
        if kind == "step-finish":
            stop = name_of(fields.get("reason"))
            ends = ENDS.get(stop or "")
            goes_on = ends is not None or stop == GOES_ON
            response = _response(step, usage=fields, stop=stop, whole=True, goes_on=goes_on)
            return self._entry(step, _stable(step.parts), (_verbatim(step),), response=response, ends=ends)
        time = fields_of(fields.get("time")) or {}
        is_growing = step.is_last and (
            (kind in {"text", "reasoning"} and "end" not in time) or (kind == "tool" and status_of(part) == "pending")
        )
        if is_growing:
            self._desk.report.warn(step.line, "unfinished_part", f"{part.id} may still grow")
            return self._kept(step)
        source = _source(step)
        read = part_of(part, step.response, source)
        if read is None:
            return self._kept(step)
        body, stable = read
        response = _response(step, usage=None, stop=None, whole=False)
        return self._entry(step, stable, (Item(body=body, source=source),), response=response)

    def _summary(self, step: Step) -> Entry:
        text, halves = summary_text(step.parts)
        items = (Item(body=SegmentAdded(text=text, halves=halves, response=step.id), source=_source(step)),)
        compaction = Compaction(text=text, halves=halves, keeps=step.keeps, maker=AGENT)
        fields = (step.message.fields if step.message else None) or {}
        response = Response(id=step.id, usage=usage_of(fields), model=name_of(fields.get("modelID")))
        return self._entry(step, _stable(step.parts), items, response=response, compaction=compaction)

    def _message(self, step: Step) -> Entry:
        """Keep a message's row; it also says how the response went."""
        message = step.message or Held("", b"", None)
        fields = message.fields or {}
        failure = fields_of(fields.get("error"))
        response: Response | None = None
        ends: TurnState | None = None
        error = None
        if failure is not None:
            name = name_of(failure.get("name")) or "error"
            words = name_of((fields_of(failure.get("data")) or {}).get("message"))
            ends = "interrupted" if name == ABORTED else "error"
            error = " ".join(f"{name}: {words}".split())[:NAME_LENGTH_MAX] if words else name
        if step.response:
            stop = name_of(fields.get("finish"))
            response = _response(
                step, usage=fields, stop=stop, whole=(stop or ends) is not None, goes_on=ends is not None
            )
        verbatim = RecordKept(format=AGENT, record=_with_row(message), line=step.line)
        item = Item(body=verbatim, stands=True)
        return self._entry(step, message.stable, (item,), response=response, ends=ends, error=error)

    def _revert(self, step: Step) -> Entry | None:
        if step.session.revert is None and not self._desk.holds(self._info.id, step.id):
            return None
        entry = self._entry(step, step.data + str(step.session.revert).encode(), ())
        return msgspec.structs.replace(entry, selects=step.data.decode() or Place.ROOT)


def _verbatim(step: Step, *, stands: bool = True) -> Item:
    record = step.data.decode(errors="replace")
    return Item(body=RecordKept(format=AGENT, record=record, line=step.line), stands=stands)


def _stable(parts: tuple[Held, ...]) -> bytes:
    return b"[" + b",".join(part.stable for part in parts) + b"]"


def _with_row(message: Held) -> str:
    """Give a message with the other columns of its row."""
    data = message.data.decode(errors="replace")
    return data if message.row is None or message.fields is None else f'{{"row":{message.row},"data":{data}}}'


def _model(step: Step) -> tuple[str | None, str | None]:
    fields = (step.message.fields if step.message else None) or {}
    return name_of(fields.get("providerID")), name_of(fields.get("modelID"))


def _source(step: Step) -> Source:
    provider, model = _model(step)
    return Source("model", provider=provider if is_name(provider) else None, model=model if is_name(model) else None)


def _response(step: Step, *, usage: Fields | None, stop: str | None, whole: bool, goes_on: bool = False) -> Response:
    provider, model = _model(step)
    stated = None if usage is None else usage_of(usage)
    return Response(
        id=step.response, provider=provider, model=model, usage=stated, stop=stop, whole=whole, goes_on=goes_on
    )
