"""ChatGPT's form: a list with one conversation, its messages a mapping of nodes.

Nodes of an imported conversation are put together again; a thread that came otherwise gets a node for each of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Raw

from convlog.eventstore.canonical import parse_json
from convlog.eventstore.events import (
    Content,
    Event,
    Foreign,
    Image,
    InputAdded,
    InstructionsSet,
    RecordKept,
    SegmentAdded,
    Text,
    ToolCalled,
    ToolReturned,
)
from convlog.eventstore.importers.chatgpt_content import EVERYBODY, PROVIDER, SHOWN
from convlog.eventstore.importers.chatgpt_messages import AGENT
from convlog.eventstore.importers.conversations import OPENING
from convlog.eventstore.importers.slices import Fields, fields_of, name_of
from convlog.eventstore.thread import Thread

from .kept import Kept, is_from, on_path, records_of, source_id
from .messages import is_said, output_blocks, output_text
from .spelled import Json, extra_of, is_json, raw, spell, spell_line

NAMES = uuid.UUID("0d6f0d0e-9f3e-4f0b-8d57-3f1a2b4c5d6e")
"""The namespace of ids that are made here."""

ROOT = "client-created-root"
TEXT_KINDS = frozenset({"code", "execution_output", "tether_quote", "system_error"})
"""Kinds of content whose words lie under `text`; those of all others are `parts`."""


def export(thread: Thread, leaf: int | None) -> Iterator[bytes]:
    """Iterate over the parts of a document."""
    yield spell_line([_Conversation(thread).document(leaf)])


class _Conversation:
    """A thread on its way into a conversation."""

    def __init__(self, thread: Thread) -> None:
        self._thread = thread
        self._own = is_from(thread, AGENT)
        self._ids: dict[int, str] = {}
        """The conversation's node of a thread's node."""
        self._nodes: dict[str, Json] = {}
        self._parents: dict[str, str | None] = {}
        self._names = {
            event.position: event.body.name
            for event in thread.events(types=(ToolCalled.TYPE,), outputs=False)
            if isinstance(event.body, ToolCalled)
        }

    def document(self, leaf: int | None) -> Json:
        about = self._about()
        if not self._own:
            self._nodes[ROOT] = {"id": ROOT, "message": None}
            self._parents[ROOT] = None
            self._ids[1] = ROOT
        for record in records_of(on_path(self._thread, leaf), own=self._own):
            if record.id is not None:
                if not record.id.startswith(OPENING):
                    self._again(record)
            elif record.first.is_node and record.first.position > 1:
                self._new(record.first)
        children: dict[str | None, list[str]] = {}
        for id_, parent in self._parents.items():
            children.setdefault(parent, []).append(id_)
        for id_, node in self._nodes.items():
            node.setdefault("children", children.get(id_, []))
        active = self._id_on(self._thread.head if leaf is None else leaf)
        current = {"current_node": active} if active is not None and not self._is_stated(about, active) else {}
        return {**about, "mapping": self._nodes, **current}

    def _is_stated(self, about: Json, active: str) -> bool:
        """Whether the conversation itself names its active node, or names none and is gone on with nowhere."""
        if "current_node" not in about:
            return self._own and self._thread.head == max(self._ids, default=1)
        stated = about["current_node"]
        return isinstance(stated, Raw) and name_of(stated) == active

    def _about(self) -> Json:
        kept = self._thread.events(types=(RecordKept.TYPE,))
        told = [event.body.record for event in kept if self._own and (event.key or "").startswith(OPENING)]
        if told:
            return dict(fields_of(told[-1].encode()) or {})
        row, created = self._thread.store.row(self._thread.id), self._thread.event(1)
        moment = _seconds(created)
        id_ = source_id(self._thread)
        named = {"id": id_, "conversation_id": id_, "title": row.title or "", "create_time": moment}
        return {**named, "update_time": moment}

    def _id_on(self, node: int | None) -> str | None:
        """Find the conversation's node that stands for a node, or for the nearest one above that has one."""
        while node is not None:
            if node in self._ids:
                return self._ids[node]
            node = self._thread.tree.parent(node)
        return None

    # --- nodes of an imported conversation ---

    def _again(self, record: Kept) -> None:
        verbatim = record.verbatim
        if record.id is None or (verbatim is None and not record.nodes):
            return
        node: Json = dict(fields_of(verbatim) or {}) if verbatim is not None else self._node(record)
        id_, parent = (
            name_of(value) if isinstance(value := node.get(name), Raw) else value for name in ("id", "parent")
        )
        # An id that does not fit into a key is kept with the node.
        key = record.id if record.has_own_id or not id_ else id_
        for event in record.nodes:
            self._ids[event.position] = key
        self._nodes[key], self._parents[key] = node, parent

    def _node(self, record: Kept) -> Json:
        outer = extra_of(record.nodes[0].body)
        inner = fields_of(outer.pop("message", None)) or {}
        id_: Any = outer.get("id", record.id)
        message: Json = {"id": id_, **inner}
        over = fields_of(inner.get("content"))
        content = self._content(record.nodes, over)
        if content is not None and (over is not None or "content" not in inner):
            message["content"] = content
        return {"id": id_, **outer, "message": message}

    def _content(self, events: Sequence[Event], over: Fields | None) -> Any:
        body = events[0].body
        content: Json = dict(over or {})
        if isinstance(body, InstructionsSet):
            return {**content, **{part.name: part.text for part in body.parts}}
        parts = _parts(events)
        if over is None:
            # What has neither parts nor a text stands whole in the event.
            if len(parts) == 1 and isinstance(parts[0], Raw):
                return parts[0]
            return {"parts": parts} if any(parts) else None
        if not over:
            return content
        kind = name_of(over.get("content_type"))
        if isinstance(body, SegmentAdded) and body.kind == "reasoning":
            return content
        field = _field_of(over, kind)
        is_whole = (
            isinstance(body, ToolCalled) and is_json(body.input) and parse_json(body.input) == parse_json(spell(over))
        )
        if field is None or is_whole:
            return content  # it stands there as it was
        return {**content, field: parts if field == "parts" else "".join(p for p in parts if isinstance(p, str))}

    # --- nodes of anything else ---

    def _new(self, event: Event) -> None:
        message = self._message(event)
        if message is None:
            return
        id_ = str(uuid.uuid5(NAMES, f"{self._thread.id}/{event.position}"))
        parent = self._id_on(self._thread.tree.parent(event.position))
        self._ids[event.position] = id_
        self._parents[id_] = parent
        self._nodes[id_] = {"id": id_, "parent": parent, "message": {"id": id_, **message}}

    def _message(self, event: Event) -> Json | None:
        body = event.body
        if isinstance(body, InputAdded):
            parts = _parts([event])
            kind = "text" if all(isinstance(part, str) for part in parts) else "multimodal_text"
            hidden = {"is_visually_hidden_from_conversation": True} if body.steer else {}
            return _said(event, body.role, {"content_type": kind, "parts": parts}, metadata=hidden)
        if isinstance(body, ToolCalled):
            content = {"content_type": "code", "language": "unknown", "text": body.input}
            return _said(event, "assistant", content, recipient=body.name)
        if isinstance(body, ToolReturned):
            name = self._names.get(event.ref("answers") or 0, "unknown")
            text = output_text(event)
            said = text if text is not None else "".join(p for p in _parts([event]) if isinstance(p, str))
            return _said(event, "tool", {"content_type": "execution_output", "text": said}, name=name)
        if not isinstance(body, SegmentAdded) or not is_said(body) or body.opaque is not None:
            return None
        if body.kind == "reasoning":
            thought = {"summary": "", "content": body.original, "chunks": [], "finished": True}
            return _said(event, "assistant", {"content_type": "thoughts", "thoughts": [thought]})
        return _said(event, "assistant", {"content_type": "text", "parts": [body.original]})


def _field_of(over: Fields, kind: str | None) -> str | None:
    """Name the entry of a content that its event holds, by what is left of the content; None where it holds none."""
    parts, text = (bytes(memoryview(over.get(name, b""))[:1]) for name in ("parts", "text"))
    if parts == b"[" or text == b'"':
        return None
    if parts or text:
        return "parts" if text else "text"
    return "result" if kind == SHOWN else "text" if kind in TEXT_KINDS else "parts"


def _said(
    event: Event,
    role: str,
    content: Json,
    *,
    name: str | None = None,
    recipient: str = EVERYBODY,
    metadata: Json | None = None,
) -> Json:
    model = {"model_slug": event.source.model} if event.source.model else {}
    return {
        "author": {"role": role, "name": name, "metadata": {}},
        "create_time": _seconds(event),
        "update_time": None,
        "content": content,
        "status": "finished_successfully",
        "end_turn": None,
        "weight": 1.0,
        "metadata": {**model, **(metadata or {})},
        "recipient": recipient,
        "channel": None,
    }


def _parts(events: Sequence[Event]) -> list[str | Json | Raw]:
    """Give what events say as parts of a content: words, and whatever else as it is."""
    found: list[str | Json | Raw] = []
    for event in events:
        body = event.body
        if isinstance(body, InputAdded):
            found += [_part(part) for part in body.content]
        elif isinstance(body, SegmentAdded):
            found.append(body.original if body.opaque is None else raw(body.opaque))
        elif isinstance(body, ToolCalled):
            found.append(body.input)
        elif isinstance(body, ToolReturned):
            text = output_text(event)
            found += [text] if text is not None else [_part(part) for part in output_blocks(event)]
    return found


def _part(part: Content) -> str | Json | Raw:
    if isinstance(part, Text):
        return part.original
    if isinstance(part, Foreign):
        return raw(part.json) if part.provider == PROVIDER else part.json
    if isinstance(part, Image) and part.width is not None and part.height is not None:
        extra = {} if part.extra is None else fields_of(part.extra.encode()) or {}
        size = {"width": part.width, "height": part.height}
        return {"content_type": "image_asset_pointer", "asset_pointer": part.name or "", **size, **extra}
    return f"[{part.name or part.url or part.attachment or 'a document'} is not here]"


def _seconds(event: Event) -> float:
    moment = event.recorded_at if event.occurred_at is None else event.occurred_at
    return moment / 1_000_000
