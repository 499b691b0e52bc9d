"""`convlog project`: any projection's result as JSON."""

from __future__ import annotations

import click

from .shell import Shell

SCHEMA = "project/1"


@click.command()
@click.argument("projection", metavar="NAME@V")
@click.argument("address", default="latest")
@click.option("--param", "parameters", metavar="NAME=JSON", multiple=True, help="A parameter of the projection.")
@click.pass_obj
def command(shell: Shell, *, projection: str, address: str, parameters: tuple[str, ...]) -> None:
    """Run a projection over a thread and print what it gives.

    THREAD:17 names the path to a node.
    """
    from convlog.eventstore.addresses import resolve
    from convlog.projections.views import view

    with shell.open() as store:
        target = resolve(store, address)
        thread = store.thread(target.thread.id)
        result = view(thread, projection, leaf=target.leaf, parameters=_parameters(parameters))
        shell.emit(SCHEMA, projection=projection, result=result)


def _parameters(given: tuple[str, ...]) -> dict[str, object]:
    import msgspec

    found: dict[str, object] = {}
    for each in given:
        name, sign, value = each.partition("=")
        if not sign:
            raise click.UsageError(f"{each!r} is not NAME=JSON")
        try:
            found[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            found[name] = value
    return found
