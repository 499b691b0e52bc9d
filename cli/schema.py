"""`convlog schema`: what an event's body may hold."""

from __future__ import annotations

import click

from .shell import Shell
from .text import visible_json


@click.command()
@click.argument("event_type", metavar="[TYPE]", required=False)
@click.pass_obj
def command(shell: Shell, *, event_type: str | None) -> None:
    """Print the JSON Schema of the events.

    Of all types, or of TYPE alone, as `show --json` and `log --json` write them.
    """
    import msgspec

    from convlog.eventstore.event_json import json_schema

    document = json_schema(event_type)
    if shell.as_json:
        shell.emit("schema/1", json_schema=document)
    else:
        shell.write(visible_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode()))
