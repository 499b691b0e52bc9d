"""`convlog diff`: two prompts block by block: two calls, two versions, two branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from .shell import Shell
from .text import counted, fit, fit_end, visible, visible_line, width

if TYPE_CHECKING:
    from convlog.projections.compare import BlockChange, Comparison, FieldChange

    from .prompts import Named

SCHEMA = "diff/1"
TOOLS = frozenset({"tools", "toolConfig", "tool_choice"})
"""Members of requests that tell the tools."""
SAME_SHOWN = 32
"""Columns of what is the same that are shown beside what differs."""
SIGNS = 4
"""Columns of the signs around what is gone or added."""


@click.command()
@click.argument("old")
@click.argument("new", required=False)
@click.option("--as", "assemblers", metavar="NAME@V", multiple=True, help="Once for both, or twice: old, then new.")
@click.option("--encoder", metavar="NAME@V", help="Make both requests of another encoder.")
@click.option("--full", is_flag=True, help="Whole lines; otherwise they are cut to the terminal's width.")
@click.option("--stat", is_flag=True, help="Only the counts.")
@click.option("--exit-code", is_flag=True, help="Exit 1 when the prompts differ.")
@click.pass_obj
def command(
    shell: Shell,
    *,
    old: str,
    new: str | None,
    assemblers: tuple[str, ...],
    encoder: str | None,
    full: bool,
    stat: bool,
    exit_code: bool,
) -> None:
    """Compare two prompts.

    THREAD/4 and THREAD/5, two branches, or one address with --as A@1 --as A@2.

    Shows the blocks and words that differ, the event that made the first difference, and how many blocks from the start
    stay equal (what a provider's cache still serves).
    """
    from convlog.projections.compare import compare

    from .prompts import named

    if len(assemblers) > 2:
        raise click.UsageError("--as goes once for both, or twice: old, then new")
    if new is None and len(assemblers) != 2:
        raise click.UsageError("give two addresses, or one and --as twice")
    first = assemblers[0] if assemblers else None
    second = assemblers[-1] if assemblers else None
    with shell.open() as store:
        left = named(store, old, first, encoder)
        right = named(store, new or old, second, encoder)
        comparison = compare(left.prompt, right.prompt)
        if shell.as_json:
            _emit(shell, left, right, comparison)
        else:
            _write(shell, left, right, comparison, stat=stat, full=full)
    if exit_code and comparison.differs:
        raise click.exceptions.Exit(1)


def _label(named: Named) -> str:
    return f"{named.label} {named.prompt.recipe.assembler} {named.prompt.recipe.encoder}"


def _write(shell: Shell, left: Named, right: Named, comparison: Comparison, *, stat: bool, full: bool) -> None:
    shell.write(shell.paint(f"--- {visible_line(_label(left))}", fg="red"))
    shell.write(shell.paint(f"+++ {visible_line(_label(right))}", fg="green"))
    if not comparison.differs:
        shell.write(f"the same: {counted(comparison.new_blocks, 'block')}")
        return
    counts = ", ".join(f"{count:,} {word}" for word, count in comparison.counts.items() if count)
    verb = "stays" if comparison.prefix_blocks == 1 else "stay"
    shell.write(f"{counts}; {counted(comparison.prefix_blocks, 'block')} from the start {verb}")
    _cache(shell, comparison)
    if comparison.first_event is not None:
        shell.write(f"first difference made by event :{comparison.first_event}")
    if stat:
        return
    room = None if full else max(20, shell.columns - 2)
    for field in comparison.fields:
        _field(shell, field, room)
    for change in comparison.changes:
        if change.change != "same":
            _hunk(shell, change, room)


def _cache(shell: Shell, comparison: Comparison) -> None:
    """Say what a provider's cache still serves, where what stands around the talk decides that."""
    names = [field.name for field in comparison.fields]
    if comparison.tools_stand_in:
        names = [name for name in names if name not in TOOLS]
    if comparison.tools_stand_in and not names:
        shell.write("tools are stand-ins (X7): nothing can be said about the cache")
    elif names:
        verb = "differs" if len(names) == 1 else "differ"
        shell.write(f"{visible_line(', '.join(names))} {verb}: no cached prefix is left")


def _field(shell: Shell, field: FieldChange, room: int | None) -> None:
    change = "added" if field.old is None else "gone" if field.new is None else "changed"
    pointer = f"/{visible_line(field.name)}"
    _heading(shell, change, pointer, pointer)
    if field.old is not None and field.new is not None:
        _write_words(shell, field.old, field.new, room)
        return
    _write_sides(
        shell, (field.old,) if field.old is not None else (), (field.new,) if field.new is not None else (), room
    )


def _hunk(shell: Shell, change: BlockChange, room: int | None) -> None:
    _heading(shell, change.change, change.old_pointer, change.new_pointer)
    if change.change == "changed" and len(change.old) == len(change.new):
        for old, new in zip(change.old, change.new, strict=True):
            _write_words(shell, old, new, room)
        return
    _write_sides(shell, change.old, change.new, room)


def _heading(shell: Shell, change: str, old: str, new: str) -> None:
    if change == "gone":
        place = f"gone from {old}"
    elif change == "added":
        place = f"added at {new}"
    else:
        place = f"changed at {new}" + ("" if old == new else f", before at {old}")
    shell.write(shell.paint(place, fg="cyan"))


def _write_sides(shell: Shell, old: Sequence[str], new: Sequence[str], room: int | None) -> None:
    for sign, color, texts in (("-", "red", old), ("+", "green", new)):
        for text in texts:
            line = visible(text)
            shell.write(shell.paint(f"{sign} {line if room is None else fit(line, room)}", fg=color))


def _write_words(shell: Shell, old: str, new: str, room: int | None) -> None:
    """Write two texts as one, with what differs in its place."""
    from convlog.projections.compare import words

    found = [(kind, visible(text)) for kind, text in words(old, new)]
    if room is not None:
        found = shortened(found, room)
    signs = {"gone": ("[-", "-]", "red"), "added": ("{+", "+}", "green")}
    parts = []
    for kind, text in found:
        before, after, color = signs.get(kind, ("", "", None))
        parts.append(shell.paint(f"{before}{text}{after}", fg=color) if color else text)
    shell.write("  " + "".join(parts))


def shortened(found: list[tuple[str, str]], room: int) -> list[tuple[str, str]]:
    """Cut a difference to some columns: of what is the same only the ends beside what differs stay."""
    kept: list[tuple[str, str]] = []
    left = room
    for index, (kind, text) in enumerate(found):
        part = _ends(text, room, is_first=index == 0) if kind == "same" else fit(text, max(8, room // 3))
        needed = width(part) + (0 if kind == "same" else SIGNS)
        # One column stays for the ellipsis, unless nothing comes after.
        if needed > left - (index < len(found) - 1):
            return [*kept, (kind, fit(text, left - SIGNS - 1)) if left > 2 * SIGNS else ("same", "…")]
        kept.append((kind, part))
        left -= needed
    return kept


def _ends(text: str, room: int, *, is_first: bool) -> str:
    """Give the end of a text, and its beginning where something stands before it."""
    if is_first:
        return fit_end(text, min(SAME_SHOWN, room // 3))
    size = min(SAME_SHOWN, room // 2)
    return text if width(text) <= size else fit(text, size // 2) + fit_end(text, size // 2)[1:]


def _emit(shell: Shell, left: Named, right: Named, comparison: Comparison) -> None:
    import msgspec

    shell.emit(
        SCHEMA,
        old=_label(left),
        new=_label(right),
        counts=comparison.counts,
        prefix_blocks=comparison.prefix_blocks,
        prefix_bytes=comparison.prefix_bytes,
        surroundings_differ=comparison.surroundings_differ,
        tools_stand_in=comparison.tools_stand_in,
        first_difference_event=comparison.first_event,
        fields=msgspec.to_builtins(comparison.fields),
        changes=[
            {
                "change": change.change,
                "old": change.old,
                "new": change.new,
                "old_pointer": change.old_pointer,
                "new_pointer": change.new_pointer,
                "events": change.sources,
            }
            for change in comparison.changes
            if change.change != "same"
        ],
    )
