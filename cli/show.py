"""`convlog show`: what an address names, in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from .shell import Shell
from .text import visible, visible_line, when

if TYPE_CHECKING:
    from convlog.eventstore.addresses import Target
    from convlog.eventstore.events import Event


@click.command()
@click.argument("address", default="latest")
@click.option("--raw", is_flag=True, help="The words as they were stored, control characters and all.")
@click.pass_obj
def command(shell: Shell, *, address: str, raw: bool) -> None:
    """Show what an address names.

    An event in full, the nodes of a range, a call, or a thread's nodes from the root to the active one.
    """
    from convlog.eventstore.addresses import resolve

    from .events import SCHEMA, fields
    from .events import raw as raw_words

    with shell.open() as store:
        target = resolve(store, address)
        thread = target.thread
        log = store.log(thread.id)
        positions = _positions(target)
        for record in log.read_positions(positions):
            event = log.event(record)
            if shell.as_json:
                shell.emit(SCHEMA, **fields(event.thread, record, event.redacted_by))
            elif raw:
                shell.write_bytes(raw_words(event) + (b"\n" if len(positions) > 1 else b""))
            elif len(positions) == 1:
                _whole(shell, event)
            else:
                _brief(shell, event)


def _positions(target: Target) -> Sequence[int]:
    """Give the positions to show: one event, or the nodes of a path."""
    if target.position is not None and target.first is None and target.address.branch is None:
        return [target.position]
    return [position for position in target.thread.tree.path(target.leaf) if position >= (target.first or 1)]


def _whole(shell: Shell, event: Event) -> None:
    from .events import who, words

    lines = [
        ("event", f"{event.thread}:{event.position}"),
        ("type", event.type if event.version == 1 else f"{event.type} (version {event.version})"),
        ("parent", str(event.parent) if event.parent is not None else None),
        ("active", str(event.head) if event.head != event.position else None),
        ("recorded", when(event.recorded_at, utc=shell.utc)),
        ("occurred", None if event.occurred_at is None else when(event.occurred_at, utc=shell.utc)),
        ("source", " ".join(part for part in _source(event) if part)),
        ("key", event.key),
        ("refs", ", ".join(f"{word} {position}" for word, position in event.refs) or None),
        ("redacted", None if event.redacted_by is None else f"by event {event.redacted_by}; this stands in its place"),
        ("hash", event.hash.hex()),
    ]
    for name, value in lines:
        if value is not None:
            shell.write(f"{shell.paint(f'{name:<9}', dim=True)} {visible_line(value)}")
    shell.write(f"\n{shell.paint(visible_line(who(event)), bold=True)}\n{visible(words(event))}")


def _source(event: Event) -> tuple[str | None, ...]:
    source = event.source
    return source.kind, source.name, source.provider, source.model, source.actor


def _brief(shell: Shell, event: Event) -> None:
    from .events import who, words

    shell.write(f"{event.position}  {shell.paint(visible_line(who(event)), bold=True)}\n{visible(words(event))}\n")
