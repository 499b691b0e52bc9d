"""`convlog compact`: store a summary over a closed range; the originals stay."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from .shell import Shell
from .text import counted, visible, visible_line

if TYPE_CHECKING:
    from convlog.eventstore.addresses import Target
    from convlog.eventstore.placement import Appended
    from convlog.projections.conversation import Thread

SCHEMA = "compact/1"
COMMAND_SECONDS_MAX = 600
BY_HAND, BY_COMMAND = "hand", "command"
"""Makers of summaries whose words came from the user, or from a program of theirs."""


@click.command()
@click.argument("address")
@click.option("--text", help="The summary's words.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the words from stdin.")
@click.option(
    "--cmd", "command_line", metavar="COMMAND", help="A program that gets the originals and prints the words."
)
@click.option("--with", "maker", metavar="NAME@V", help="A frozen summariser, such as outline@1.")
@click.option("--call", metavar="ADDRESS", help="The call that asked a model for the words, such as THREAD/5.")
@click.option("--on", metavar="ADDRESS", help="The leaf of the path meant; default: the active node.")
@click.option("--replaces", type=int, help="Position of the summary that this one is made again for.")
@click.option("--dry-run", is_flag=True, help="Say what it would save, store nothing.")
@click.option("--check", is_flag=True, help="Name files, commands and outcomes that the words do not mention.")
@click.pass_obj
def command(
    shell: Shell,
    *,
    address: str,
    text: str | None,
    from_stdin: bool,
    command_line: str | None,
    maker: str | None,
    call: str | None,
    on: str | None,
    replaces: int | None,
    dry_run: bool,
    check: bool,
) -> None:
    """Summarise a range in prompts from here on.

    'THREAD:2..15' names one. A range that would cut a call from its result is refused, and the smallest closed range
    around it named.
    """
    from convlog.eventstore.addresses import resolve
    from convlog.eventstore.ranges import closed_range

    if sum((text is not None, from_stdin, command_line is not None, maker is not None)) != 1:
        raise click.UsageError("give the words one way: --text, --stdin, --cmd or --with")
    if maker is not None and call is not None:
        raise click.UsageError("--call names a model's call; a frozen summariser asks none")
    with shell.open(write=not dry_run) as store:
        target = resolve(store, address)
        if target.first is None or target.position is None:
            raise click.UsageError("name a range, such as 'THREAD:2..15'")
        thread = store.thread(target.thread.id)
        leaf = None if on is None else _of(thread, on).leaf
        asked = None if call is None else _of(thread, call).position
        made = _Range(thread, target.first, target.position, leaf)
        nodes = closed_range(thread, made.first, made.last, leaf)
        words = _words(made, nodes, text, command_line, maker, note=not dry_run)
        lacking = {"not_mentioned": _lacking(shell, thread, nodes, words)} if check else {}
        saved = _saved(thread, nodes, words)
        if dry_run:
            _say_dry(shell, made, nodes, words, saved, lacking)
        else:
            done = _store(made, words, maker, command_line, asked, replaces)
            _say_done(shell, made, nodes, done, saved, lacking)


class _Range(NamedTuple):
    thread: Thread
    first: int
    last: int
    on: int | None


def _of(thread: Thread, address: str) -> Target:
    from convlog.eventstore.addresses import resolve

    found = resolve(thread.store, address)
    if found.thread.id != thread.id:
        raise click.UsageError(f"{address!r} names another thread than the range")
    return found


def _words(
    made: _Range, nodes: list[int], text: str | None, command_line: str | None, maker: str | None, *, note: bool
) -> str:
    """Give the summary's words, whichever way they come."""
    from convlog.projections.summarise import derive_summary, originals, parameters_for

    if maker is not None:
        return derive_summary(made.thread, nodes, maker, parameters_for(made.thread, maker))
    if command_line is None:
        return sys.stdin.read() if text is None else text
    given = originals(made.thread, nodes)
    if not note:
        return _run(command_line, given)
    from convlog.eventstore.summaries import fail_summary, start_summary

    start_summary(made.thread, made.first, made.last, on=made.on, maker=BY_COMMAND)
    try:
        return _run(command_line, given)
    except click.ClickException as error:
        fail_summary(made.thread, made.first, made.last, error.message)
        raise


def _run(command_line: str, originals: str) -> str:
    """Give the originals to the user's own program and take what it prints."""
    try:
        done = subprocess.run(  # noqa: S602 - the user's own command line, as typed
            command_line,
            shell=True,
            input=originals.encode(),
            capture_output=True,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise click.ClickException(f"the command took longer than {COMMAND_SECONDS_MAX} seconds") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace")[:400]
        raise click.ClickException(f"the command ended with {done.returncode}: {visible_line(said)}".rstrip(": "))
    words = done.stdout.decode(errors="replace").strip()
    if not words:
        raise click.ClickException("the command printed nothing")
    return words


def _store(
    made: _Range, words: str, maker: str | None, command_line: str | None, call: int | None, replaces: int | None
) -> Appended:
    thread, first, last, on = made
    if maker is not None:
        return thread.summarise_with(maker, first, last, on=on, replaces=replaces)
    by = BY_HAND if command_line is None else BY_COMMAND
    return thread.summarise(first, last, words, on=on, maker=by, call=call, replaces=replaces)


# --- what is said ---


def _lacking(shell: Shell, thread: Thread, nodes: list[int], words: str) -> list[str]:
    from convlog.projections.summarise import unmentioned

    found = unmentioned(thread, nodes, words)
    for what in found:
        shell.warn(f"not mentioned: {visible_line(what)}")
    return found


def _saved(thread: Thread, nodes: list[int], words: str) -> int:
    from convlog.projections.summarise import tokens

    return tokens(thread, nodes) - -(-len(words.encode(errors="replace")) // 4)


def _say_dry(
    shell: Shell, made: _Range, nodes: list[int], words: str, saved: int, lacking: Mapping[str, list[str]]
) -> None:
    if shell.as_json:
        _emit(shell, made, nodes, saved, text=words, **lacking)
        return
    shell.write(visible(words))
    shell.say(f"would stand for {counted(len(nodes), 'node')} and save about {saved:,} tokens")


def _say_done(
    shell: Shell, made: _Range, nodes: list[int], done: Appended, saved: int, lacking: Mapping[str, list[str]]
) -> None:
    if shell.as_json:
        _emit(shell, made, nodes, saved, summary=done.position, **lacking)
        return
    covered = f"{made.first}..{made.last} ({counted(len(nodes), 'node')})"
    shell.write(f"{done.thread[:12]}:{done.position} stands for {covered}")
    shell.say(f"saves about {saved:,} tokens; the originals stay")


def _emit(shell: Shell, made: _Range, nodes: list[int], saved: int, **more: Any) -> None:
    shell.emit(
        SCHEMA,
        thread=made.thread.id,
        first=made.first,
        last=made.last,
        nodes=len(nodes),
        tokens_saved=saved,
        **more,
    )
