"""`convlog log`: the events of a thread, newest first, as a list or as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import click

from .shell import Shell
from .text import fit, indent, pad, visible, visible_line, when, width

if TYPE_CHECKING:
    from convlog.eventstore.addresses import Target
    from convlog.eventstore.backend import Record
    from convlog.eventstore.events import Event
    from convlog.eventstore.thread import Thread
    from convlog.projections.graph import Item

SUMMARY = "summary.added"

LINES_MAX = 8
"""Lines of one event's text in the long form; `show` gives all."""


@click.command()
@click.argument("address", default="latest")
@click.option("--graph", is_flag=True, help="Draw the tree of all branches.")
@click.option("--oneline", is_flag=True, help="One line an event.")
@click.option("-n", "count", metavar="N", type=click.IntRange(min=1), help="How many at most.")
@click.option("--all", "everything", is_flag=True, help="The nodes of all branches, not only of one path.")
@click.option("--events", is_flag=True, help="Every event, notes included, in log order.")
@click.option("--kind", "kinds", multiple=True, metavar="TYPE", help="Only these types, such as tool or turn.ended.")
@click.pass_obj
def command(
    shell: Shell,
    *,
    address: str,
    graph: bool,
    oneline: bool,
    count: int | None,
    everything: bool,
    events: bool,
    kinds: tuple[str, ...],
) -> None:
    """Show what happened in a thread, newest first.

    Without options: the nodes on the path to the active one, or to the node that ADDRESS names. In a graph ● is on the
    path to the active node, ○ is not, ◆ is a summary and ✎ an edit or another answer.
    """
    from convlog.eventstore.addresses import resolve

    from .events import SCHEMA, fields, newest_first

    if graph and events:
        raise click.UsageError("--graph draws nodes; --events lists what is no node too")
    with shell.open() as store:
        target = resolve(store, address)
        thread = target.thread
        _check_kinds(thread, kinds)
        if graph:
            _graph(shell, thread, kinds, count)
            return
        positions = _positions(target, everything=everything, events=events)
        names = _line_ends(thread)
        found = ((event, record) for event, record in newest_first(thread, positions) if _wanted(event.type, kinds))
        for event, record in islice(found, count):
            if shell.as_json:
                shell.emit(SCHEMA, **fields(event.thread, record, event.redacted_by))
            elif oneline:
                shell.write(_line(shell, event, names, thread.head))
            else:
                shell.write(_block(shell, event, names, thread.head))


def _check_kinds(thread: Thread, kinds: tuple[str, ...]) -> None:
    """Refuse what names no type, neither one that this program knows nor one that the thread holds."""
    from convlog.eventstore.events import BODIES

    for kind in kinds:
        held = (event.type for event in thread.events(bodies=False))
        if not any(_wanted(type_, (kind,)) for type_ in BODIES) and not any(_wanted(type_, (kind,)) for type_ in held):
            known = ", ".join(sorted({type_.partition(".")[0] for type_ in BODIES}))
            raise click.UsageError(f"--kind {kind!r:.60} is no type of event; their first words are {known}")


def _positions(target: Target, *, everything: bool, events: bool) -> Sequence[int]:
    thread = target.thread
    if events:
        return range(target.first or 1, (target.position or thread.position) + 1)
    tree = thread.tree
    if everything:
        return [position for position in range(1, tree.position + 1) if tree.is_node(position)]
    path = tree.path(target.leaf)
    return path if target.first is None else [position for position in path if position >= target.first]


def _wanted(type_: str, kinds: tuple[str, ...]) -> bool:
    return not kinds or any(type_ == kind or type_.startswith(f"{kind}.") for kind in kinds)


def _line_ends(thread: Thread) -> dict[int, list[str]]:
    """Give the names of the branches that end at a node."""
    ends: dict[int, list[str]] = {}
    for name, node in thread.branch_names().items():
        ends.setdefault(node, []).append(name)
    return ends


def _marks(event: Event, names: dict[int, list[str]], head: int) -> str:
    marks = [visible_line(name) for name in names.get(event.position, ())]
    if event.position == head:
        marks.insert(0, "active")
    if event.redacted_by is not None:
        marks.append("redacted")
    return f"({', '.join(marks)}) " if marks else ""


def _line(shell: Shell, event: Event, names: dict[int, list[str]], head: int, *, before: str = "") -> str:
    from .events import gist_of, who

    start = f"{before}{event.position:>4}  "
    speaker = pad(visible_line(who(event)), 10)
    marks = _marks(event, names, head)
    room = shell.columns - width(start) - width(speaker) - width(marks) - 2
    text = fit(gist_of(event), max(room, 8))
    return f"{start}{shell.paint(speaker, bold=True)}  {shell.paint(marks, fg='green')}{text}".rstrip()


def _block(shell: Shell, event: Event, names: dict[int, list[str]], head: int) -> str:
    from .events import who, words

    moment = when(event.occurred_at or event.recorded_at, utc=shell.utc)
    speaker = shell.paint(visible_line(who(event)), bold=True)
    marks = shell.paint(_marks(event, names, head), fg="green")
    title = f"{event.position}  {speaker}  {marks}{shell.paint(moment, dim=True)}"
    lines = visible(words(event)).strip("\n").split("\n")
    if len(lines) > LINES_MAX:
        lines[LINES_MAX:] = [
            f"… {len(lines) - LINES_MAX} more lines: convlog show {event.thread[:12]}:{event.position}"
        ]
    return f"{title}\n{indent(chr(10).join(lines), '    ')}\n"


# --- the tree ---


def _graph(shell: Shell, thread: Thread, kinds: tuple[str, ...], count: int | None) -> None:
    from convlog.projections.graph import draw

    from .events import SCHEMA, fields, newest_first

    parents = _drawn(thread, kinds)
    active = set(thread.tree.path(thread.head))
    names = _line_ends(thread)
    found: dict[int, tuple[Event, Record]] = {}

    def items() -> Iterator[Item]:
        for event, record in islice(newest_first(thread, list(parents)), count):
            found[event.position] = (event, record)
            yield _item(event, parents[event.position], active)

    for row in draw(items()):
        if row.id is None:
            if not shell.as_json:
                shell.write(row.cells)
            continue
        event, record = found.pop(row.id)
        if shell.as_json:
            shell.emit(SCHEMA, **fields(event.thread, record, event.redacted_by))
        else:
            shell.write(_line(shell, event, names, thread.head, before=f"{row.cells} "))


def _drawn(thread: Thread, kinds: tuple[str, ...]) -> dict[int, int | None]:
    """Give the positions to draw, ascending, each with the nearest drawn one that it hangs from."""
    above: dict[int, int | None] = {}
    drawn: dict[int, int | None] = {}
    for event in thread.events(outputs=False, bodies=False):
        if event.is_node:
            parent = event.parent
            above[event.position] = parent if parent is None or parent in drawn else above[parent]
            if _wanted(event.type, kinds):
                drawn[event.position] = above[event.position]
    for event in thread.events(types=(SUMMARY,), outputs=False):
        if event.body is not None and _wanted(event.type, kinds):
            last = event.body.last
            drawn[event.position] = last if last in drawn else above.get(last)
    return dict(sorted(drawn.items()))


def _item(event: Event, parent: int | None, active: set[int]) -> Item:
    from convlog.projections.graph import GLYPHS, Item

    if event.type == SUMMARY:
        glyph = "summary"
    elif event.ref("edits") or event.ref("regenerates"):
        glyph = "edit"
    else:
        glyph = "active" if event.position in active else "other"
    return Item(event.position, parent, GLYPHS[glyph])
