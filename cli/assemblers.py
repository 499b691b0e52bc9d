"""`convlog assemblers`: which versions are installed, and how many calls each made."""

from __future__ import annotations

from collections import Counter

import click

from .shell import Shell
from .text import table, visible_line

SCHEMA = "assemblers/1"


@click.command()
@click.pass_obj
def command(shell: Shell) -> None:
    """List every installed projection by version.

    With the fingerprint of its code and the calls that it made in this store.
    """
    from convlog.projections import freeze, registry

    made = _made(shell)
    rows = []
    for found in registry.all_projections():
        fingerprint = freeze.fingerprint(found.address)
        frozen = freeze.is_frozen(found.address)
        calls = made.pop(found.address, 0)
        if shell.as_json:
            shell.emit(
                SCHEMA,
                name=found.name,
                version=found.version,
                kind=found.kind,
                frozen=frozen,
                fingerprint=fingerprint,
                distribution=found.distribution,
                calls=calls,
            )
        rows.append(
            (
                found.address,
                found.kind,
                "yes" if frozen else "no",
                fingerprint[:12],
                visible_line(found.distribution or "convlog"),
                f"{calls:,}",
            )
        )
    for address, calls in sorted(made.items()):
        shell.warn(f"{visible_line(address)} made {calls:,} calls here and is not installed")
    if not shell.as_json:
        head = ("version", "kind", "frozen", "fingerprint", "shipped by", "calls")
        shell.write(table(rows, head=head, columns=shell.columns, elastic=4, right=("calls",)))


def _made(shell: Shell) -> Counter[str]:
    """Count the calls that each version made, where there is a store."""
    from convlog.eventstore.events import CallPrepared

    made: Counter[str] = Counter()
    if not shell.place.path.exists():
        return made
    with shell.open() as store:
        for row in store.threads():
            log = store.log(row.thread)
            for record in log.read(first=row.origin_position + 1, types=(CallPrepared.TYPE,)):
                body = log.event(record).body
                if isinstance(body, CallPrepared):
                    made.update((body.assembler, body.encoder))
    return made
