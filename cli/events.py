"""An event as people read it, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from convlog.eventstore.backend import Record
from convlog.eventstore.canonical import join_halves
from convlog.eventstore.events import (
    Content,
    Document,
    Event,
    Facts,
    Foreign,
    Image,
    InputAdded,
    SegmentAdded,
    SummaryAdded,
    Text,
    ThreadCreated,
    ToolCalled,
    ToolReturned,
    Unknown,
)
from convlog.eventstore.records import decode_blocks
from convlog.eventstore.thread import Thread

from .text import counted, gist

SCHEMA = "event/1"

PAGE = 256
"""Events that are held at once when a log is read backwards."""


def who(event: Event) -> str:
    """Give one word for who speaks, or what happens."""
    match event.body:
        case InputAdded(role=role, steer=steer):
            return f"{role} (steer)" if steer else role
        case SegmentAdded(kind=kind):
            return "assistant" if kind == "text" else kind
        case ToolCalled():
            return "call"
        case ToolReturned():
            return "result"
        case ThreadCreated():
            return "thread"
        case _:
            return event.type


def words(event: Event) -> str:
    """Give all that an event says, as it was stored: pass it through `visible` on its way to a terminal."""
    match event.body:
        case None:
            return f"(redacted by event {event.redacted_by})" if event.redacted_by else "(not there)"
        case Unknown(json=data):
            return data.decode()
        case InputAdded(content=content):
            return content_words(content)
        case SegmentAdded() as body:
            return body.original or body.opaque or ""
        case ToolCalled(name=name, server=server, input=data):
            return f"{f'{server}/' if server else ''}{name} {data}"
        case ToolReturned():
            return "\n".join(part for part in (_outcome(event.body), output_words(event)) if part)
        case ThreadCreated(title=title) if title:
            return title
        case SummaryAdded(first=first, last=last, maker=maker, text=text):
            return f"summary of {first}..{last} by {maker}\n{text}"
        case body:
            return _fields(body)


def gist_of(event: Event) -> str:
    """Give what an event says as one line; a result's output before its facts, which would push it off the line."""
    body = event.body
    if isinstance(body, ToolReturned) and (output := gist(output_words(event))):
        return output if body.status == "ok" else f"[{body.status}] {output}"
    return gist(words(event))


def content_words(content: Sequence[Content]) -> str:
    """Give content blocks as text, with a word in place of each that is none."""
    parts = []
    for block in content:
        match block:
            case Text():
                parts.append(block.original)
            case Image() | Document():
                name = block.name or block.url or (block.attachment or "")[:12]
                parts.append(f"[{type(block).__name__.lower()} {name} {block.media_type or ''}".rstrip() + "]")
            case Foreign(json=data):
                parts.append(data)
    return "\n".join(parts)


def _outcome(body: ToolReturned) -> str:
    """Give the status, where it is not ok, and the facts that the tool stated."""
    facts = body.facts or Facts()
    stated = [f"{name}: {getattr(facts, name)}" for name in Facts.__struct_fields__ if getattr(facts, name) is not None]
    if body.digest is not None:
        stated.append(f"output of {counted(body.bytes or 0, 'byte')} not kept, blake3 {body.digest}")
    status = [] if body.status == "ok" else [body.status]
    return f"[{', '.join(status + stated)}]" if status or stated else ""


def output_words(event: Event) -> str:
    """Give a result's output as text."""
    body, data = event.body, event.output
    if data is None or not isinstance(body, ToolReturned):
        return ""
    if body.form == "blocks":
        return content_words(decode_blocks(data))
    return join_halves(data.decode(), body.halves)


def _fields(body: Any) -> str:
    """Give the fields of a body that has no words of its own, without what is unset."""
    found = msgspec.to_builtins(body)
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
        for name, value in found.items()
    )


def raw(event: Event) -> bytes:
    """Give an event's own words as bytes, half surrogates restored: unsafe for terminals."""
    match event.body:
        case ToolReturned(form="text", halves=halves) if event.output is not None:
            return join_halves(event.output.decode(), halves).encode("utf-8", "surrogatepass")
        case ToolReturned() if event.output is not None:
            return event.output
        case ToolCalled(input=data):
            return data.encode()
        case InputAdded() | SegmentAdded():
            return words(event).encode("utf-8", "surrogatepass")
        case Unknown(json=data):
            return data
        case None:
            return b""
        case body:
            return msgspec.json.encode(body)


def fields(thread: str, record: Record, redacted_by: int | None = None) -> dict[str, Any]:
    """Give a stored event for JSON, with the body as it lies, unknown fields and all."""
    return {
        "thread": thread,
        "position": record.position,
        "parent": record.parent,
        "head": record.head,
        "type": record.type,
        "version": record.version,
        "recorded_at": record.recorded_at,
        "occurred_at": record.occurred_at,
        "source": msgspec.Raw(record.source),
        "key": record.key,
        "refs": [] if record.refs is None else msgspec.Raw(record.refs),
        "hash": record.hash.hex(),
        "body": None if record.body is None else msgspec.Raw(record.body),
        "output": None if record.output is None else record.output.decode(),
        "redacted_by": redacted_by,
    }


def newest_first(thread: Thread, positions: Sequence[int], *, outputs: bool = True) -> Iterator[tuple[Event, Record]]:
    """Iterate backwards over the events at some positions (ascending), a page at a time."""
    log = thread.store.log(thread.id)
    for end in range(len(positions), 0, -PAGE):
        page = positions[max(0, end - PAGE) : end]
        for record in reversed(list(log.read_positions(page, outputs=outputs))):
            yield log.event(record), record
