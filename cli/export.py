"""`convlog export`: a thread in a form that other programs, or another store, take."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import click

from .shell import Shell
from .text import size, visible_line

STDOUT = "-"

FORMATS = {"convlog": ("convlog.eventstore.native", "export_thread")}
"""Format to (module, function): the function takes a store and a thread's id, and gives the file's bytes in parts."""


@click.command()
@click.argument("thread", default="latest")
@click.option(
    "--format", "form", type=click.Choice(list(FORMATS)), default="convlog", show_default=True, help="Its form."
)
@click.option("-o", "--output", default=STDOUT, metavar="FILE", help="Where to (default: stdout).")
@click.pass_obj
def command(shell: Shell, *, thread: str, form: str, output: str) -> None:
    """Write a thread to a file or to stdout.

    The form `convlog` is everything that the store has of it, so that an import elsewhere has the same hashes. A file
    is written whole or not at all, and only its owner may read it.
    """
    from convlog.eventstore.addresses import resolve

    module, function = FORMATS[form]
    export = getattr(import_module(module), function)
    with shell.open() as store:
        id_ = resolve(store, thread).thread.id
        parts: Iterable[bytes] = export(store, id_)
        if output == STDOUT:
            for part in parts:
                shell.write_bytes(part)
            return
        count = _write_whole(Path(output), parts)
    if shell.as_json:
        shell.emit("export/1", thread=id_, format=form, path=visible_line(str(Path(output).absolute())), bytes=count)
    else:
        shell.say(f"wrote {size(count)} to {visible_line(output)}")


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
