"""`convlog demo`: a bundled session through the normal importer, its prompts replayed, its chain verified."""

from __future__ import annotations

import sys
import tempfile
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .shell import Shell
from .text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convlog.projections.conversation import Store, Thread

SAMPLE = "sample.jsonl"


@click.command()
@click.option("--keep", metavar="PATH", type=click.Path(path_type=Path), help="Make the store there, and leave it.")
@click.pass_obj
def command(shell: Shell, *, keep: Path | None) -> None:
    """Import a sample session, replay it, prepare a prompt and verify everything.

    The store is one of its own. The session is a coding session with an edited question, a parallel batch of calls, a failed command, a
    result that comes late and a compaction. Nothing of yours is read or written.
    """
    from convlog.projections.conversation import open as open_store

    with _place(keep) as path:
        with open_store(path) as store:
            thread = _import(shell, store)
            _replay(shell, thread)
            _prepare(shell, thread)
            exact = _prove(shell, store, thread)
        _next_steps(shell, path if keep else None)
    if not exact:
        raise click.exceptions.Exit(1)


@contextmanager
def _place(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="convlog-demo-") as folder:
        yield Path(folder) / "demo.db"


def _heading(shell: Shell, command_line: str) -> None:
    shell.write(shell.paint(f"$ {command_line}", bold=True))


def _import(shell: Shell, store: Store) -> Thread:
    from convlog.eventstore.importers import import_file

    _heading(shell, f"convlog import {SAMPLE}")
    with as_file(files(__package__).joinpath("data", SAMPLE)) as sample:
        report = import_file(store, sample)
    shell.write(
        f"{counted(report.records, 'record')} of a Claude Code session: "
        f"{counted(report.user_messages, 'user message')}, "
        f"{counted(report.model_messages, 'model message')}, "
        f"{counted(report.tool_calls, 'call')}, {counted(report.tool_results, 'result')}, "
        f"{report.lost} lost\n"
    )
    return store.thread(report.thread_ids[0])


def _replay(shell: Shell, thread: Thread) -> None:
    from .replay import _line, _piece

    _heading(shell, "convlog replay latest")
    found = list(thread.replay())
    for replayed in found:
        shell.write(_line(shell, replayed))
    shell.write("")
    last = found[-1]
    _heading(shell, f"convlog replay latest/{last.call}")
    assert last.prompt is not None
    for number, piece in enumerate(last.prompt.pieces, 1):
        shell.write(_piece(shell, number, piece, full=False))
    shell.write("")


def _prepare(shell: Shell, thread: Thread) -> None:
    _heading(shell, "a next prompt, prepared here: recorded with its versions and the digest of its bytes")
    thread.user("And for Swiss francs?")
    prompt = thread.prepare()
    manifest = thread.calls()[-1].manifest
    assert manifest is not None
    shell.write(
        f"{manifest.assembler} {manifest.encoder}: {counted(len(prompt.pieces), 'piece')}, "
        f"{len(prompt.body):,} bytes, ~{prompt.estimate:,} tokens, digest {manifest.digest[:16]}\n"
    )


def _prove(shell: Shell, store: Store, thread: Thread) -> bool:
    from convlog.eventstore.verify import verify_store

    _heading(shell, "convlog verify && convlog replay latest --verify")
    problems = list(verify_store(store))
    replayed = list(thread.replay())[-1]
    exact = not problems and replayed.verdict == "exact"
    shell.write(
        f"{counted(thread.position, 'event')}, chain and bodies {'whole' if not problems else 'DAMAGED'}, "
        f"tip {thread.tip.hex()[:16]}\n"
        f"call {replayed.call}: {replayed.verdict}, derived again from the events alone\n"
    )
    return exact


def _next_steps(shell: Shell, kept: Path | None) -> None:
    prefix = str(Path(sys.argv[0]).name or "convlog")
    db = f" --db {kept}" if kept else " --db demo.db"
    shell.write("Go on:")
    if kept is None:
        shell.write(f"  {prefix} demo --keep demo.db                 keep this store")
    shell.write(f"  {prefix} log latest --graph{db}       draw its tree")
    shell.write(f"  {prefix} show latest:2{db}            read one event")
    shell.write(f"  {prefix} import ~/.claude/projects --dry-run    look at your own sessions, writing nothing")
