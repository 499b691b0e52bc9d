"""`convlog threads`: what the store holds."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING

import click

from .shell import Shell
from .text import age, called, fit, gist, table

if TYPE_CHECKING:
    from convlog.eventstore.backend import ThreadRow
    from convlog.eventstore.store import Store

ID_LENGTH = 8
AGENT_COLUMNS = 12
NAME_COLUMNS = 4000
"""More than any terminal has: the table cuts what is too long for it."""


@click.command()
@click.option(
    "-n", "count", metavar="N", type=click.IntRange(min=1), default=20, show_default=True, help="How many at most."
)
@click.option("--all", "everything", is_flag=True, help="All of them, sub-agents' threads too.")
@click.pass_obj
def command(shell: Shell, *, count: int, everything: bool) -> None:
    """List the threads, last touched first.

    The age is that of the active node. Each id's start names its thread, and so does a title that no other thread has.
    What stands in quotes is no name: it is what the user of a thread without a title said last.
    """
    with shell.open() as store:
        rows = (row for row in store.threads() if everything or not row.helper)
        shown = list(rows if everything else islice(rows, count))
        more = next(rows, None) is not None
        if shell.as_json:
            for row in shown:
                _emit(shell, store, row)
        elif shown:
            now = time.time_ns() // 1000
            cells = [_cells(store, row, now) for row in shown]
            head = ("id", "name", "agent", "branches", "turns", "age")
            shell.write(table(cells, head=head, columns=shell.columns, elastic=1, right=head[3:]))
    if not shown:
        shell.nothing("threads")
    elif more:
        shell.say(f"only the last {count} are shown; --all shows the rest")


def _moment(store: Store, row: ThreadRow) -> tuple[int, int]:
    """Give the thread's count of branches and the moment of its active node."""
    thread = store.thread(row.thread)
    head = next(thread.events(thread.head, thread.head, bodies=False, outputs=False))
    return len(thread.tree.branches()), head.occurred_at or head.recorded_at


def _cells(store: Store, row: ThreadRow, now: int) -> tuple[str, ...]:
    branches, moment = _moment(store, row)
    return (
        row.thread[:ID_LENGTH],
        called(row, NAME_COLUMNS),
        fit(gist(row.agent or ""), AGENT_COLUMNS),
        str(branches),
        str(row.turns),
        age(moment, now),
    )


def _emit(shell: Shell, store: Store, row: ThreadRow) -> None:
    branches, moment = _moment(store, row)
    log = store.log(row.thread)
    shell.emit(
        "threads/1",
        thread=row.thread,
        title=row.title,
        preview=row.preview,
        agent=row.agent,
        cwd=row.cwd,
        source_id=row.source_id,
        origin=row.origin,
        parent_thread=row.parent_thread,
        parent_call=row.parent_call,
        helper=row.helper,
        branches=branches,
        turns=row.turns,
        events=log.position,
        head=log.head,
        tip=log.hash.hex(),
        created_at=row.created_at,
        active_at=moment,
    )
