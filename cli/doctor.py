"""`convlog doctor`: which store, why that one, and how it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from .shell import Shell
from .text import counted, size, visible_line

if TYPE_CHECKING:
    from convlog.eventstore.health import FileHealth, Holder, Writers

SOURCES_SHOWN = 4


@click.command()
@click.option("--drop-cache", is_flag=True, help="Drop the derived values; they are made again when needed.")
@click.pass_context
def command(ctx: click.Context, *, drop_cache: bool) -> None:
    """Say which store is used, why, and how it is.

    Reads all headers, not the bodies; `verify` checks those. Exit code 1 where something needs attention.
    """
    from convlog.eventstore import health

    shell: Shell = ctx.obj
    place = shell.place
    version, lossy = health.library()
    if not shell.as_json:
        _say(shell, "store", str(place))
        _say(shell, "sqlite", f"{version}, {_about_library(lossy=lossy)}")
    shell.require_place()
    files = health.file_health(place.path)
    holders = health.holders(place.path.resolve())
    if not shell.as_json:
        _files(shell, files)
        _holders(shell, holders)
    with shell.open(write=drop_cache) as store:
        found = health.writers(store)
        cache_size = store.backend.cache_size()
        if drop_cache:
            store.backend.drop_cache()
    attention = _attention(files, holders, found)
    if shell.as_json:
        shell.emit(
            "doctor/1",
            path=visible_line(str(place.path.absolute())),
            why=place.why,
            sqlite=version,
            sqlite_lossy=lossy,
            files=files,
            holders=holders,
            writers=found,
            cache_size=cache_size,
            cache_dropped=drop_cache,
            attention=attention,
        )
    else:
        _writers(shell, found)
        dropped = ", dropped now: new events take their room" if drop_cache else ""
        _say(shell, "cache", f"{size(cache_size)} of derived values{dropped}")
    for words in attention:
        shell.warn(f"attention: {words}")
    if attention:
        ctx.exit(1)


def _say(shell: Shell, name: str, words: str) -> None:
    shell.write(f"{shell.paint(f'{name:<9}', bold=True)} {visible_line(words)}")


def _about_library(*, lossy: bool) -> str:
    if not lossy:
        return "behind the versions that can lose data with several writers"
    return "can lose data with several writers; the lock beside the store keeps them apart"


def _files(shell: Shell, files: FileHealth) -> None:
    from convlog.eventstore.schema import USER_VERSION

    _say(shell, "file", f"{size(files.size)}, and {size(files.wal_size)} in the -wal")
    schema = "not written yet" if files.schema is None else str(files.schema)
    _say(shell, "schema", f"{schema} (this program writes {USER_VERSION})")


def _holders(shell: Shell, holders: list[Holder] | None) -> None:
    if holders is None:
        _say(shell, "open in", "not known on this system")
    elif not holders:
        _say(shell, "open in", "no other process")
    for holder in holders or ():
        lock = ", holds the lock" if holder.locks else ""
        _say(shell, "open in", f"process {holder.pid}, started {holder.age_s:.0f} s ago{lock}")


def _writers(shell: Shell, found: Writers) -> None:
    _say(shell, "holds", f"{counted(found.threads, 'thread')}, {counted(found.events, 'event')}")
    most = sorted(found.keyless.items(), key=lambda item: -item[1][0])
    for source, (without, of) in most[:SOURCES_SHOWN]:
        share = f"{100 * without / of:.0f} % of {counted(of, 'event')} from {source}"
        _say(shell, "keys", f"without idempotency key: {share}")
    if rest := most[SOURCES_SHOWN:]:
        events = sum(without for _, (without, _) in rest)
        _say(
            shell, "keys", f"without idempotency key: {counted(events, 'event')} from {len(rest)} more; --json has all"
        )
    for type_, count in sorted(found.unknown.items()):
        _say(shell, "unknown", f"{type_}: {counted(count, 'event')} of a newer program")


def _attention(files: FileHealth, holders: Iterable[Holder] | None, found: Writers) -> list[str]:
    from convlog.eventstore.health import WAL_BYTES_LARGE

    words = []
    if files.wal_size > WAL_BYTES_LARGE:
        words.append(f"the -wal has {size(files.wal_size)}: a reader may keep it from being emptied")
    words.extend(
        f"process {holder.pid} locks a lock file that was deleted: it and other writers do not see each other"
        for holder in holders or ()
        if holder.other_lock
    )
    if found.unknown:
        words.append("the store holds events of a newer program: upgrade to read them")
    return words
