"""`convlog audit`: the chain of every thread, then every call of every thread derived again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .shell import Shell
from .text import counted, table, visible_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from convlog.projections.audit import ThreadAudit, Total
    from convlog.projections.conversation import Store

SCHEMA = "audit/1"


@click.command()
@click.argument("threads", nargs=-1)
@click.option("--workers", type=click.IntRange(1), default=1, help="Processes to share the work.")
@click.option(
    "--report", type=click.Path(path_type=Path, dir_okay=False), help="Write each thread's audit there, JSON Lines."
)
@click.pass_obj
def command(shell: Shell, *, threads: tuple[str, ...], workers: int, report: Path | None) -> None:
    """Check each thread's chain, derive all of its calls again, and sum up by version and verdict.

    Summaries that a projection made are derived again too. Exit codes: 1 when a thread is damaged or something differs,
    5 when the worst is something that cannot be proved.
    """
    from convlog.projections.audit import Total, audit

    with shell.open() as store:
        names = [store.thread(name).id for name in threads] or [row.thread for row in store.threads()]
        total = Total()
        with _report(report) as write, _progress(shell, len(names)) as step, _executor(workers) as executor:
            for result in audit(store, names, executor=executor, progress=step):
                total.add(result)
                write(result)
                _say(shell, result)
        _sum(shell, store, total)
    if total.failed:
        raise click.exceptions.Exit(1)
    if total.unprovable:
        raise click.exceptions.Exit(5)


@contextmanager
def _executor(workers: int) -> Iterator[Executor | None]:
    if workers == 1:
        yield None
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # Started afresh, not forked: an open store must not be carried into a child.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as executor:
        yield executor


@contextmanager
def _report(path: Path | None) -> Iterator[Callable[[ThreadAudit], None]]:
    import msgspec

    if path is None:
        yield _ignore
        return
    with path.open("wb") as file:

        def write(result: ThreadAudit) -> None:
            file.write(msgspec.json.encode({"schema": f"convlog.{SCHEMA}", **msgspec.to_builtins(result)}) + b"\n")

        yield write


def _ignore(_result: ThreadAudit) -> None:
    return


@contextmanager
def _progress(shell: Shell, count: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, nothing elsewhere."""
    import sys

    if shell.quiet or not sys.stderr.isatty():
        yield lambda _done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("auditing", total=count)
        yield lambda done: progress.update(task, completed=done)


def _say(shell: Shell, result: ThreadAudit) -> None:
    if shell.as_json:
        import msgspec

        shell.emit(SCHEMA, **msgspec.to_builtins(result))
        return
    from .replay import write_below

    for finding in result.findings:
        at = "" if finding.position is None else f":{finding.position}"
        where = at if finding.call is None else f"/{finding.call}"
        recipe = " ".join(part for part in (finding.assembler, finding.encoder) if part)
        shell.write(f"{result.thread[:12]}{where}  {finding.verdict}  {visible_line(recipe)}".rstrip())
        write_below(shell, ": ".join(part for part in (finding.reason, finding.detail) if part))
    for summary in result.stale:
        shell.say(f"{result.thread[:12]}:{summary}  stale summary: what it covers is no longer what it was")


def _sum(shell: Shell, store: Store, total: Total) -> None:
    if shell.as_json:
        return
    rows = [(*key.rsplit(" ", 2), f"{count:,}") for key, count in sorted(total.verdicts.items())]
    if rows:
        head = ("assembler", "encoder", "verdict", "calls")
        cells = [tuple(visible_line(cell) or "-" for cell in row) for row in rows]
        shell.write(table(cells, head=head, columns=shell.columns, elastic=0, right=("calls",)))
    shell.write(
        f"{counted(total.threads, 'thread')}, {counted(total.calls, 'call')}, "
        f"{total.prompt_bytes:,} bytes of prompts; {total.damaged:,} damaged"
    )
    shell.say(f"store: {store.place}")
