"""What the steps of an ATIF trajectory mean."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..events import (
    InputAdded,
    InstructionsSet,
    ParentCall,
    Part,
    RecordKept,
    SegmentAdded,
    SegmentKind,
    Source,
    Text,
    Tool,
    ToolReturned,
    ToolsSet,
)
from .atif_steps import (
    FORMAT,
    HOST,
    SYSTEM,
    USER,
    Step,
    Trajectory,
    called,
    contents_of,
    observed,
    rest_of,
    result_of,
    usage_of,
    with_rest,
)
from .base import Desk, Entry, Item, Response, ThreadInfo, is_name
from .known import Identity
from .lines import Record
from .request_heads import tools_of
from .slices import (
    Entries,
    Fields,
    clean_text,
    fields_of,
    is_true,
    items_of,
    name_of,
    object_text,
    spelled,
    text_of,
    value_of,
)
from .times import microseconds


class AtifMapping:
    """The meaning of one document."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._info = ThreadInfo(id="")
        self._agent: Fields = {}
        self._standing: tuple[Part, ...] = ()
        self._is_begun = False

    def end(self) -> Iterator[Entry]:
        """Nothing is left to say."""
        return iter(())

    def map(self, record: Record) -> Entry | None:
        """Say what a record means."""
        if not isinstance(record, Step):
            return None
        if record.kind == "head":
            return self._head(record)
        if record.kind == "rest":
            return self._rest(record)
        fields = record.fields
        source = name_of((fields or {}).get("source"))
        if fields is None or source not in {"user", "system", "agent"}:
            self._desk.report.warn(record.line, "not_object" if fields is None else "no_content", "no step")
            kept = RecordKept(format=FORMAT, record=record.data.decode(), line=record.line)
            return self._entry(record, (Item(body=kept),))
        return self._agent_step(record, fields) if source == "agent" else self._input_step(record, fields, source)

    # --- the trajectory ---

    def _head(self, step: Step) -> Entry | None:
        trajectory = step.trajectory
        self._agent = fields_of(trajectory.entries.get("agent")) or {}
        self._standing, self._is_begun = (), False
        parent = None
        if trajectory.above is not None:
            parent = ParentCall(self._desk.thread_id(trajectory.above), self._call(trajectory))
        agent = name_of(self._agent.get("name"))
        self._info = ThreadInfo(
            id=trajectory.id,
            agent=agent if is_name(agent) else None,
            origin="subagent" if parent else "import",
            parent=parent,
        )
        tools = self._tools()
        return self._entry(step, (Item(body=ToolsSet(tools=tools)),)) if tools else None

    def _tools(self) -> tuple[Tool, ...] | None:
        said = self._agent.get("tool_definitions")
        return None if said is None else tools_of({"tools": said})

    def _call(self, trajectory: Trajectory) -> int | None:
        """Find the call of the thread above whose result names this trajectory."""
        thread = self._desk.thread(trajectory.above or "")
        if thread is None or self._desk.thread(trajectory.id) is not None:
            return None
        for event in thread.events(types=(ToolReturned.TYPE,), outputs=False):
            if event.body is not None and f'"{trajectory.name}"' in (event.body.extra or ""):
                return event.ref("answers")
        return None

    def _rest(self, step: Step) -> Entry:
        """Keep what a trajectory says beside its steps, tools and sub-agents."""
        entries: Entries = []
        for name, value in step.trajectory.entries.items():
            if name == "agent" and self._tools():
                over = object_text(entry for entry in self._agent.items() if entry[0] != "tool_definitions")
                entries.append((name, (over or "{}").encode()))
            elif name not in {"steps", "subagent_trajectories"}:
                entries.append((name, value))
        text = object_text(entries) or "{}"
        kept = Item(body=RecordKept(format=FORMAT, record=text), stands=False)
        entry = self._entry(msgspec.structs.replace(step, data=text.encode()), (kept,))
        return msgspec.structs.replace(entry, last=True)

    def _entry(self, step: Step, items: tuple[Item, ...], response: Response | None = None) -> Entry:
        name = f"step:{step.line}" if step.kind == "step" else step.kind
        time = (step.fields or {}).get("timestamp")
        return Entry(
            thread=self._info,
            record=step,
            identity=Identity(name, step.data),
            items=items,
            occurred_at=microseconds(text_of(time)),
            response=response,
            counts=step.kind != "head",
        )

    # --- steps ---

    def _input_step(self, step: Step, fields: Fields, source: str) -> Entry:
        content, over = contents_of(fields.get("message"))
        rest = rest_of(step, fields) + over
        results = observed(fields)
        text = content[0] if len(content) == 1 and not over else None
        items: list[Item] = []
        if source == "system" and not self._is_begun and isinstance(text, Text) and not text.halves:
            names = len(self._standing)
            part = Part("system" if not names else f"system-{names + 1}", text.text, FORMAT)
            self._standing = (*self._standing, part)
            items.append(Item(body=InstructionsSet(parts=self._standing, extra=object_text(rest))))
        else:
            self._is_begun = True
            body = InputAdded(role="user" if source == "user" else "system", content=content, extra=object_text(rest))
            items.append(Item(body=body, source=USER if source == "user" else SYSTEM))
        items += (result_of(result) for result in results)
        return self._entry(step, tuple(items))

    def _agent_step(self, step: Step, fields: Fields) -> Entry:
        """Give a response, its calls, and what came back for them."""
        self._is_begun = True
        is_model = value_of(fields.get("llm_call_count")) != 0
        id_ = f"step:{step.line}" if is_model else None
        model = name_of(fields.get("model_name")) or name_of(self._agent.get("model_name"))
        source = Source("model", model=model if is_name(model) else None) if is_model else HOST
        rest = rest_of(step, fields)
        if "model_name" in fields:
            rest.append(("model_name", fields["model_name"]))
        items = [
            *self._words(fields, id_, source, rest),
            *(called(call, id_, source) for call in items_of(fields.get("tool_calls")) or []),
        ]
        if not items:
            items.append(Item(body=SegmentAdded(response=id_), source=source))
        if rest:
            items[0] = with_rest(items[0], rest)
        items += (result_of(result) for result in observed(fields))
        response = None
        if id_ is not None:
            call = not is_true(fields, "is_copied_context")
            usage = usage_of(fields_of(fields.get("metrics")))
            response = Response(id=id_, model=model, usage=usage, whole=True, call=call)
        return self._entry(step, tuple(items), response)

    def _words(self, fields: Fields, response: str | None, source: Source, rest: Entries) -> Iterator[Item]:
        thought = clean_text(fields.get("reasoning_content"))
        if thought is not None:
            body = SegmentAdded(kind="reasoning", text=thought[0], halves=thought[1], response=response)
            yield Item(body=body, source=source)
        elif "reasoning_content" in fields:
            rest.append(("reasoning_content", fields["reasoning_content"]))
        content, over = contents_of(fields.get("message"))
        rest += over
        kind: SegmentKind = "text" if response is not None else "notice"
        raws = items_of(fields.get("message")) or [fields["message"]] if "message" in fields else []
        for part, raw in zip(content, raws, strict=False):
            if isinstance(part, Text) and (part.text or over):
                body = SegmentAdded(kind=kind, text=part.text, halves=part.halves, response=response)
                yield Item(body=body, source=source)
            elif not isinstance(part, Text):
                body = SegmentAdded(kind="opaque", opaque=spelled(raw), response=response)
                yield Item(body=body, source=source)
