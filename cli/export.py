"""`convlog export`: a thread in a form that other programs, or another store, take."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from convlog.projections.exports import EXPORTS, exporter, form_of

from .shell import Shell
from .text import counted, size, visible_line

if TYPE_CHECKING:
    from convlog.projections.conversation import Store

STDOUT = "-"
NATIVE = "convlog"
FORMS = [NATIVE, *EXPORTS]


@click.command()
@click.argument("thread", default="latest")
@click.option(
    "--format", "form", type=click.Choice(FORMS), help="Its form (default: by the file's name, else convlog)."
)
@click.option("-o", "--output", default=STDOUT, metavar="FILE", help="Where to (default: stdout).")
@click.pass_obj
def command(shell: Shell, *, thread: str, form: str | None, output: str) -> None:
    """Write a thread to a file or to stdout.

    The form `convlog` is everything that the store has of it, so that an import elsewhere has the same hashes. The
    others are for other programs: those that are trees hold the whole thread, or the path to THREAD@branch or THREAD:17
    alone; the rest hold one path, the active one when none is named. A file is written whole or not at all, and only
    its owner may read it. A damaged thread is written as it lies, with a warning.
    """
    if output != STDOUT and not Path(output).absolute().parent.is_dir():
        raise click.FileError(output, hint="there is no such folder")
    form = form or form_of(Path(output).name) or NATIVE
    with shell.open() as store:
        id_, parts = _parts(store, thread, form)
        if output == STDOUT:
            for part in parts:
                shell.write_bytes(part)
        else:
            count = _write_whole(Path(output), parts)
        _warn_of_damage(shell, store, id_)
    if output == STDOUT:
        return
    if shell.as_json:
        shell.emit("export/1", thread=id_, format=form, path=visible_line(str(Path(output).absolute())), bytes=count)
    else:
        shell.say(f"wrote {size(count)} to {visible_line(output)}")


def _warn_of_damage(shell: Shell, store: Store, thread: str) -> None:
    """Say that what was written is not as it was stored; whoever saves what is left is not refused."""
    from convlog.eventstore.verify import is_fault, verify_thread

    faults = sum(map(is_fault, verify_thread(store, thread)))
    if faults:
        shell.warn(f"warning: thread {thread[:8]} is damaged ({counted(faults, 'fault')}), and so is what was written")
        shell.warn(f"hint: convlog verify {thread[:8]} names what is damaged")


def _parts(store: Store, address: str, form: str) -> tuple[str, Iterable[bytes]]:
    """Give the id of the thread that is meant, and its file's bytes.

    Raises:
        BadAddress: a part of a thread that the form cannot be.
    """
    from convlog.eventstore.addresses import resolve
    from convlog.eventstore.errors import BadAddress
    from convlog.eventstore.native import export_thread

    target = resolve(store, address)
    named = target.address
    is_whole = named.branch is None and named.first is None and named.call is None
    if named.last is not None or named.call is not None or (form == NATIVE and not is_whole):
        hint = "name the thread alone" if form == NATIVE else "name the thread, a branch (THREAD@branch) or a node"
        raise BadAddress(f"{address} is no whole that the form {form} can be of", hint=hint)
    if form == NATIVE:
        return target.thread.id, export_thread(store, target.thread.id)
    return target.thread.id, exporter(form)(target.thread, None if is_whole else target.leaf)


def _write_whole(path: Path, parts: Iterable[bytes]) -> int:
    """Write beside the file first, and put it in its place when all is there."""
    count = 0
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as stream:
        try:
            for part in parts:
                count += stream.write(part)
            stream.flush()
            os.fsync(stream.fileno())
            Path(stream.name).replace(path)
        except BaseException:
            Path(stream.name).unlink(missing_ok=True)
            raise
    return count
