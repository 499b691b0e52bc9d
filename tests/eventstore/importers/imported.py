"""What a store holds after an import, in few words; and what of it must not depend on how a source came in."""

from __future__ import annotations

from typing import Any

from convlog.eventstore.events import CallFinished, Event
from convlog.eventstore.importers import ImportReport, import_file
from convlog.eventstore.records import encode_content
from convlog.eventstore.store import Store, open_store
from convlog.eventstore.thread import Thread


def nodes(thread: Thread) -> list[Event]:
    """Give a thread's nodes but the root, in log order."""
    return [event for event in thread.events() if event.is_node and event.position > 1]


def texts(thread: Thread, leaf: int | None = None) -> list[str]:
    """Give what the nodes of a path say, each in a word or two."""
    return [said(event) for event in thread.path(leaf) if event.position > 1]


def said(event: Event) -> str:
    """Give a node in a word or two."""
    body = event.body
    match event.type:
        case "input.added":
            return f"user {' '.join(getattr(part, 'text', '?') for part in body.content)}"
        case "segment.added":
            return f"{body.kind} {body.text}"
        case "tool.called":
            return f"call {body.call}"
        case "tool.returned":
            return f"result {body.call} {body.status}"
    return event.type


def log_texts(thread: Thread) -> list[str]:
    """Give what all nodes say, in log order."""
    return [said(event) for event in nodes(thread)]


def ends(thread: Thread) -> list[tuple[str, str]]:
    """Give where turns ended, and how."""
    return [(said(thread.event(event.body.node)), event.body.state) for event in thread.events(types=("turn.ended",))]


def codes(report: ImportReport) -> list[tuple[int, str]]:
    """Give the warnings, by line."""
    return [(finding.line, finding.code) for finding in report.warnings]


def shape_of(data: bytes, form: str) -> dict[str | None, Any]:
    """Give the shape of a store into which a file came in at once."""
    with open_store(":memory:") as store:
        import_file(store, data, format=form)
        return shape(store)


def assert_parts_make_the_whole(content: bytes, cut: int, form: str) -> None:
    """Bring in a file in two parts: what is there is what the whole gives; the whole and the parts then add nothing."""
    parts = [part for part in (content[:cut], content[cut:]) if part.strip()]
    with open_store(":memory:") as store:
        for part in parts:
            import_file(store, part, format=form)
        assert shape(store) == shape_of(content, form)
        for again in (content, *parts):
            assert import_file(store, again, format=form).appended == 0


def assert_growth_makes_the_whole(content: bytes, cut: int, form: str) -> None:
    """Bring in the beginning of a file, then the file: what is there is what the whole gives."""
    with open_store(":memory:") as store:
        import_file(store, content[:cut], format=form)
        import_file(store, content, format=form)
        assert shape(store) == shape_of(content, form)


def shape(store: Store) -> dict[str | None, Any]:
    """Give what of a store counts, by source id: nodes by key with parents and links, the active node, usage."""
    return {row.source_id: _shape(store.thread(row.thread)) for row in store.threads()}


def _shape(thread: Thread) -> dict[str, Any]:
    key = {event.position: event.key or "" for event in thread.events(bodies=False)}
    found = {
        event.key: (
            key[event.parent or 0],
            encode_content(event.body, None).body,
            event.output,
            [(word, key[position]) for word, position in event.refs],
            event.source,
            event.occurred_at,
        )
        for event in nodes(thread)
    }
    finished = [event.body for event in thread.events(types=(CallFinished.TYPE,))]
    usage = {body.response: (body.usage, body.stop, body.model) for body in finished}
    kept = {body.record for event in thread.events(types=("record.kept",)) if (body := event.body)}
    return {"nodes": found, "head": key[thread.head], "usage": usage, "kept": kept}


def counts(thread: Thread) -> dict[str, int]:
    """Count a thread's events by type."""
    found: dict[str, int] = {}
    for event in thread.events(bodies=False):
        found[event.type] = found.get(event.type, 0) + 1
    return found
