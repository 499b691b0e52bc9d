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

    from convlog.eventstore.importers.report import ImportReport
    from convlog.projections.conversation import Store, Thread
    from convlog.projections.prepare import Prompt
    from convlog.projections.replay import Replayed

SCHEMA = "demo/1"
SAMPLE = "sample.jsonl"


@click.command()
@click.option("--keep", metavar="PATH", type=click.Path(path_type=Path), help="Make the store there, and leave it.")
@click.pass_obj
def command(shell: Shell, *, keep: Path | None) -> None:
    """Import a sample session, replay it, prepare a prompt and verify everything.

    The session is one of a coding agent, with an edited question, a parallel batch of calls, a failed command, a result
    that comes late and a compaction. It goes into a store of its own; nothing of yours is read or written.
    """
    from convlog.projections.conversation import open as open_store

    if keep is not None and keep.exists():
        raise click.UsageError(f"{keep} exists; --keep makes a new store")
    with _place(keep) as path:
        with open_store(path) as store:
            report, thread = _import(store)
            replayed = list(thread.replay())
            thread.user("And for Swiss francs?")
            prompt = thread.prepare()
            exact, last = _prove(store, thread)
            if shell.as_json:
                _emit(shell, thread, last, exact=exact)
            else:
                _show(shell, report, replayed, prompt)
                _show_proof(shell, thread, last, exact=exact)
        if not shell.as_json:
            _next_steps(shell, keep)
    if not exact:
        raise click.exceptions.Exit(1)


@contextmanager
def _place(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="convlog-demo-") as folder:
        yield Path(folder) / "demo.db"


def _import(store: Store) -> tuple[ImportReport, Thread]:
    from convlog.eventstore.importers import import_file

    with as_file(files(__package__).joinpath("data", SAMPLE)) as sample:
        report = import_file(store, sample)
    return report, store.thread(report.thread_ids[0])


def _prove(store: Store, thread: Thread) -> tuple[bool, Replayed]:
    """Say whether the whole store verifies and the prompt that was just prepared is exact."""
    from convlog.eventstore.verify import is_fault, verify_store

    whole = not any(map(is_fault, verify_store(store)))
    last = next(thread.replay(numbers=(len(thread.calls()),)))
    return whole and last.verdict == "exact", last


def _emit(shell: Shell, thread: Thread, last: Replayed, *, exact: bool) -> None:
    shell.emit(
        SCHEMA,
        thread=thread.id,
        events=thread.position,
        tip=thread.tip.hex(),
        call=last.call,
        verdict=last.verdict,
        proved=exact,
    )


# --- as text ---


def _heading(shell: Shell, command_line: str) -> None:
    shell.write(shell.paint(f"$ {command_line}", bold=True))


def _show(shell: Shell, report: ImportReport, replayed: list[Replayed], prompt: Prompt) -> None:
    from .replay import write_call, write_piece

    _heading(shell, f"convlog import {SAMPLE}")
    shell.write(
        f"{counted(report.records, 'record')} of a Claude Code session: "
        f"{counted(report.user_messages, 'user message')}, {counted(report.model_messages, 'model message')},\n"
        f"{counted(report.tool_calls, 'call')}, {counted(report.tool_results, 'result')}, {report.lost} lost\n"
    )
    _heading(shell, "convlog replay latest")
    for each in replayed:
        write_call(shell, each)
    last = replayed[-1]
    shell.write("")
    _heading(shell, f"convlog replay latest/{last.call}")
    for number, piece in enumerate(last.prompt.pieces if last.prompt else (), 1):
        write_piece(shell, number, piece, full=False)
    shell.write("")
    _heading(shell, "a next prompt, prepared here and recorded with its versions and its digest")
    recipe = prompt.derived.recipe
    shell.write(
        f"{recipe.assembler} {recipe.encoder}: {counted(len(prompt.pieces), 'piece')}, "
        f"{len(prompt.body):,} bytes, about {prompt.estimate:,} tokens\n"
    )


def _show_proof(shell: Shell, thread: Thread, last: Replayed, *, exact: bool) -> None:
    _heading(shell, f"convlog verify && convlog replay latest/{last.call}")
    shell.write(f"{counted(thread.position, 'event')}, tip {thread.tip.hex()[:16]}")
    shell.write(f"call {last.call}: {last.verdict}, derived again from the events alone")
    shell.write("everything verifies\n" if exact else "NOT everything verifies\n")


def _next_steps(shell: Shell, kept: Path | None) -> None:
    name = Path(sys.argv[0]).name
    program = name if name.startswith("convlog") else "convlog"
    db = f"--db {kept or 'demo.db'}"
    has_sessions = (Path.home() / ".claude" / "projects").is_dir()
    steps = [
        (f"{program} {db} log latest --graph", "draw its tree"),
        (f"{program} {db} why latest --missing latest:8", "why node 8 is not sent"),
        (
            f"{program} import {'~/.claude/projects' if has_sessions else 'FOLDER'} --dry-run",
            "your own, as a dry run" if has_sessions else "a folder of your sessions, as a dry run",
        ),
    ]
    if kept is None:
        steps.insert(0, (f"{program} demo --keep demo.db", "keep this store"))
    shell.write("Go on:")
    longest = max(len(line) for line, _ in steps)
    for line, what in steps:
        shell.write(f"  {line:<{longest}}  {what}")
