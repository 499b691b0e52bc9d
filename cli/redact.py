"""`convlog redact`: words, or whole events, go for good; the chain still verifies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from .shell import Shell
from .text import counted, fit, gist

if TYPE_CHECKING:
    from convlog.eventstore.addresses import Target
    from convlog.eventstore.events import Event
    from convlog.eventstore.placement import Appended

REPLACEMENT = "[redacted]"


@click.command()
@click.argument("address")
@click.option("--match", metavar="TEXT", help="The words to take out, as they read.")
@click.option("--whole", is_flag=True, help="All that the events say.")
@click.option("--reason", required=True, metavar="CODE", help="A short word that is kept; no personal data.")
@click.option(
    "--with", "replacement", default=REPLACEMENT, show_default=True, metavar="TEXT", help="What stands there."
)
@click.option("--yes", is_flag=True, help="Do it; without this only the events that hold it are shown.")
@click.pass_obj
def command(
    shell: Shell, *, address: str, match: str | None, whole: bool, reason: str, replacement: str, yes: bool
) -> None:
    """Take words, or whole events, out of a thread.

    ADDRESS is an event, a range, or with --match a whole thread. The originals go from the file, and so does what
    repeats them: summaries, copies, kept prompts, titles in the list. Not reached: exports, backups, and events' keys.
    """
    from convlog.eventstore.addresses import resolve

    if (match is None) != whole:
        raise click.UsageError("give --match TEXT or --whole")
    with shell.open(write=yes) as store:
        target = resolve(store, address)
        positions = _positions(target, whole=whole)
        if not yes:
            for event in _holding(target, positions, match, replacement):
                _would(shell, event)
            shell.say("nothing was redacted; --yes takes it out, and what repeats it")
            return
        from convlog.eventstore.redaction import redact

        done = redact(
            store, target.thread.id, positions, match=match, replacement=replacement, whole=whole, reason=reason
        )
    for appended in done:
        _did(shell, appended)


def _positions(target: Target, *, whole: bool) -> Sequence[int]:
    """Give the events meant; none for the whole log."""
    if target.position is None:
        if whole:
            raise click.UsageError("--whole takes an event or a range; convlog delete erases a thread")
        return ()
    if target.first is None:
        return (target.position,)
    return [position for position in target.thread.tree.path(target.position) if position >= target.first]


def _holding(target: Target, positions: Sequence[int], match: str | None, replacement: str) -> list[Event]:
    """Give the events that are meant and hold the words."""
    from convlog.eventstore.errors import NothingMatches
    from convlog.eventstore.masking import Mask, masked

    thread = target.thread
    mask = None if match is None else Mask(match, replacement)
    log = thread.store.log(thread.id)
    records = log.read_positions(positions) if positions else log.read()
    found = [log.event(record) for record in records if mask is None or masked(record, mask) is not None]
    if not found:
        raise NothingMatches(f"nothing at {target.address} holds these words", hint="it may be spelled otherwise")
    return found


def _would(shell: Shell, event: Event) -> None:
    from .events import who, words

    if shell.as_json:
        shell.emit("redact/1", thread=event.thread, position=event.position, type=event.type, redacted_by=None)
    else:
        text = gist(words(event))
        shell.write(
            fit(f"would redact {event.thread[:12]}:{event.position}  {gist(who(event))}  {text}", shell.columns)
        )


def _did(shell: Shell, appended: Appended) -> None:
    if shell.as_json:
        shell.emit("redacted/1", thread=appended.thread, position=appended.position, hash=appended.hash.hex())
    else:
        shell.write(f"{appended.thread}:{appended.position}")
        shell.say(f"redacted; {counted(1, 'event')} of thread {appended.thread[:12]} says what is gone and why")
