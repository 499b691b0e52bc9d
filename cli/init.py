"""`convlog init`: a store for the folder one stands in."""

from __future__ import annotations

from pathlib import Path

import click

from .shell import Shell
from .text import visible_line


@click.command()
@click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.pass_obj
def command(shell: Shell, *, folder: Path | None) -> None:
    """Make a store for this folder.

    It lies in `.convlog/`, beside a file that keeps it out of version control. Commands run here or below will find it.
    Where the global options name a file, it is made there.
    """
    from convlog.eventstore.places import make_folder
    from convlog.eventstore.store import open_store

    if shell.db is not None:
        if folder is not None:
            raise click.UsageError("--db names the file; leave out the folder")
        shell.require_place(create=True)
        path = shell.place.path.absolute()
    else:
        path = make_folder((folder or Path()).resolve())
    is_new = not path.exists()
    open_store(path).close()
    if shell.as_json:
        shell.emit("init/1", path=visible_line(str(path)), made=is_new)
    else:
        shell.write(visible_line(str(path)))
        shell.say("made an empty store" if is_new else "the store was there already")
