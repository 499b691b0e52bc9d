"""`convlog compact`: store a summary over a closed range; the originals stay."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import click

from .shell import Shell
from .text import counted, visible, visible_line

if TYPE_CHECKING:
    from convlog.projections.conversation import Thread

SCHEMA = "compact/1"
COMMAND_SECONDS_MAX = 600


@click.command()
@click.argument("address")
@click.option("--text", help="The summary's words.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the words from stdin.")
@click.option(
    "--cmd", "command_line", metavar="COMMAND", help="A program that gets the originals and prints the words."
)
@click.option("--with", "maker", metavar="NAME@V", help="A frozen summariser, such as outline@1.")
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
    from convlog.projections.summarise import derive_summary, originals, unmentioned

    if sum(bool(way) for way in (text is not None, from_stdin, command_line, maker)) != 1:
        raise click.UsageError("give the words one way: --text, --stdin, --cmd or --with")
    with shell.open(write=not dry_run) as store:
        target = resolve(store, address)
        if target.first is None or target.position is None:
            raise click.UsageError("name a range, such as 'THREAD:2..15'")
        thread = store.thread(target.thread.id)
        leaf = resolve(store, on).leaf if on else None
        first, last = target.first, target.position
        nodes = closed_range(thread, first, last, leaf)
        if maker is not None:
            words = derive_summary(thread, nodes, maker)
        elif command_line is not None:
            words = _run(command_line, originals(thread, nodes))
        else:
            words = sys.stdin.read() if from_stdin else text or ""
        if check:
            for what in unmentioned(thread, nodes, words):
                shell.warn(f"not mentioned: {visible_line(what)}")
        saved = _saved(thread, nodes, words)
        if dry_run:
            shell.write(visible(words))
            shell.say(f"would stand for {counted(len(nodes), 'node')} and save about {saved:,} tokens")
            return
        done = thread.summarise(first, last, words, on=leaf, maker=maker or _maker(command_line), replaces=replaces)
    if shell.as_json:
        shell.emit(SCHEMA, thread=done.thread, summary=done.position, first=first, last=last, tokens_saved=saved)
    else:
        shell.write(f"{done.thread[:12]}:{done.position} stands for {first}..{last} ({counted(len(nodes), 'node')})")
        shell.say(f"saves about {saved:,} tokens; the originals stay")


def _maker(command_line: str | None) -> str:
    return "hand" if command_line is None else "command"


def _run(command_line: str, originals: str) -> str:
    """Give the originals to the user's own program and take what it prints."""
    done = subprocess.run(  # noqa: S602 - the user's own command line, as typed
        command_line,
        shell=True,
        input=originals,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    if done.returncode:
        raise click.ClickException(f"the command ended with {done.returncode}: {visible_line(done.stderr[:400])}")
    return done.stdout


def _saved(thread: Thread, nodes: list[int], words: str) -> int:
    from convlog.projections.summarise import tokens

    return tokens(thread, nodes) - -(-len(words.encode()) // 4)
