"""Out of a store and in again: what must come back the same."""

from __future__ import annotations

import json
from typing import Any

from convlog.eventstore.events import CallFinished, Event
from convlog.eventstore.importers import import_file
from convlog.eventstore.store import Store
from convlog.eventstore.store import open_store as open_any
from convlog.eventstore.thread import Thread
from convlog.projections.exports import exporter


def exported(thread: Thread, form: str, leaf: int | None = None) -> bytes:
    """Give a thread's export."""
    return b"".join(exporter(form)(thread, leaf))


def rows(data: bytes) -> list[Any]:
    """Read the values of JSON Lines."""
    return [json.loads(line) for line in data.splitlines() if line.strip()]


def in_any_order(values: list[Any]) -> list[str]:
    """Give JSON values so that they compare whatever their order is."""
    return sorted(json.dumps(value, sort_keys=True) for value in values)


def said(event: Event) -> tuple[Any, ...]:
    """Give what a node says, without what each form keeps beside it."""
    body = event.body
    match event.type:
        case "input.added":
            return "input", body.role, tuple(_part(part) for part in body.content)
        case "segment.added":
            return body.kind, body.original, body.signature, body.opaque
        case "tool.called":
            return "call", body.call, body.name, _value(body.input)
        case "tool.returned":
            return "result", body.call, body.status, event.output
    return (event.type,)


def _part(part: Any) -> Any:
    return getattr(part, "original", None) or getattr(part, "attachment", None) or getattr(part, "json", None)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def tree(thread: Thread) -> list[Any]:
    """Give all paths by what they say, summaries with theirs, and usage by response, in an order of their own."""
    paths = [[said(event) for event in thread.path(leaf) if event.position > 1] for leaf in thread.tree.leaves()]
    summaries = [
        [said(event) for event in thread.path(summary.body.last) if event.position >= summary.body.first]
        + [summary.body.text]
        for summary in thread.events(types=("summary.added",))
    ]
    return [sorted(map(repr, paths)), sorted(map(repr, summaries))]


def active(thread: Thread) -> list[Any]:
    """Give the active path by what it says."""
    return [said(event) for event in thread.path() if event.position > 1]


def costs(thread: Thread) -> list[str]:
    """Give what each response cost."""
    found = [event.body for event in thread.events(types=(CallFinished.TYPE,))]
    return sorted(repr((body.usage, body.stop)) for body in found)


def again(data: bytes, form: str) -> tuple[Store, Thread]:
    """Import an export into a store of its own, which the caller closes."""
    store = open_any(":memory:")
    report = import_file(store, data, format=form)
    assert report.lost == 0
    return store, store.thread(report.thread_ids[0])
