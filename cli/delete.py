"""`convlog delete`: a thread goes for good; a note stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .shell import Shell
from .text import counted, gist

if TYPE_CHECKING:
    from convlog.eventstore.store import Store


@click.command()
@click.argument("thread")
@click.option("--yes", is_flag=True, help="Do it; without this only what would go is shown.")
@click.option("--cascade", is_flag=True, help="The threads that share its log, too.")
@click.option("--reason", metavar="TEXT", help="Kept in the note that stays.")
@click.pass_obj
def command(shell: Shell, *, thread: str, yes: bool, cascade: bool, reason: str | None) -> None:
    """Erase a thread.

    Its events, attachments and caches go from the file; a note in the store says that it was here. Without --yes
    nothing is written.
    """
    with shell.open(write=yes) as store:
        target = _whole_thread(store, thread)
        rows = store.deletion_set(target, cascade=cascade)
        found = [(row.thread, gist(row.title or row.preview or ""), store.log(row.thread).position) for row in rows]
        if yes:
            store.delete_thread(target, cascade=cascade, reason=reason)
    for id_, name, events in found:
        if shell.as_json:
            shell.emit("delete/1", thread=id_, name=name, events=events, deleted=yes)
        else:
            shell.write(f"{'deleted' if yes else 'would delete'} {id_} {name} ({counted(events, 'event')})")
    if not yes:
        shell.say("nothing was deleted; --yes does it")


def _whole_thread(store: Store, text: str) -> str:
    from convlog.eventstore.addresses import resolve
    from convlog.eventstore.errors import BadAddress

    target = resolve(store, text)
    if target.position is not None:
        raise BadAddress(
            f"{text!r} is a part of a thread; a part is not deleted", hint="convlog redact takes words out"
        )
    return target.thread.id
