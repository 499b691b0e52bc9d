"""`convlog verify`: is what was stored still there, and unaltered?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from .shell import Shell
from .text import counted, visible_line

if TYPE_CHECKING:
    from convlog.eventstore.backend import Problem
    from convlog.eventstore.store import Store

TIP_LENGTH = 64


@click.command()
@click.argument("threads", nargs=-1, metavar="[THREAD]...")
@click.option(
    "--level",
    type=click.Choice(["quick", "chain", "full"]),
    default="full",
    show_default=True,
    help="Last headers; all headers; bodies, tree and the file too.",
)
@click.option("--tip", metavar="HASH", help="A tip kept elsewhere, which the one THREAD must contain.")
@click.pass_context
def command(ctx: click.Context, *, threads: tuple[str, ...], level: str, tip: str | None) -> None:
    """Check the chain and the bodies against their hashes.

    Checks the whole store, or the threads named, whose tips it prints. A chain cannot show that its end was cut off:
    keep a tip elsewhere and give it as --tip. Exit code 1 where anything is not as it was stored.
    """
    shell: Shell = ctx.obj
    if tip is not None and len(threads) != 1:
        raise click.UsageError("--tip is that of one THREAD")
    from convlog.eventstore.verify import is_fault

    faults = notes = 0
    with shell.open() as store:
        for problem in _problems(shell, store, threads, level, tip):
            fault = is_fault(problem)
            faults += fault
            notes += not fault
            _problem(shell, problem, fault=fault)
    if shell.as_json:
        shell.emit("verify-result/1", ok=not faults, level=level, faults=faults, notes=notes)
    else:
        words = f"level {level}: {counted(faults, 'fault')}, {counted(notes, 'note')}"
        shell.say(shell.paint("NOT OK" if faults else "ok", fg="red" if faults else "green", bold=True) + f"  {words}")
    if faults:
        ctx.exit(1)


def _problems(shell: Shell, store: Store, threads: tuple[str, ...], level: str, tip: str | None) -> Iterator[Problem]:
    """Iterate over the findings, and write each named thread's tip behind its own."""
    from convlog.eventstore.addresses import resolve
    from convlog.eventstore.verify import verify_store, verify_thread

    if not threads:
        yield from verify_store(store, level)  # type: ignore[arg-type] # one of the choices
        return
    known_tip = None if tip is None else _hash(tip)
    for text in threads:
        thread = resolve(store, text).thread
        yield from verify_thread(store, thread.id, level, tip=known_tip)  # type: ignore[arg-type] # one of the choices
        if shell.as_json:
            shell.emit("verify-thread/1", thread=thread.id, events=thread.position, tip=thread.tip.hex())
        else:
            shell.write(f"{thread.id}  {counted(thread.position, 'event')}  tip {thread.tip.hex()}")


def _hash(text: str) -> bytes:
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(text) != TIP_LENGTH or not found:
        raise click.BadParameter("a tip is 64 hex digits", param_hint="--tip")
    return found


def _problem(shell: Shell, problem: Problem, *, fault: bool) -> None:
    if shell.as_json:
        shell.emit(
            "verify/1",
            fault=fault,
            kind=problem.kind,
            thread=problem.thread,
            position=problem.position,
            message=problem.message,
        )
        return
    where = f"{problem.thread or 'store'}{'' if problem.position is None else f':{problem.position}'}"
    word = shell.paint("fault", fg="red", bold=True) if fault else "note "
    shell.write(f"{word}  {problem.kind}  {where}  {visible_line(problem.message)}")
