"""`convlog diff`: two prompts block by block: two calls, two versions, two branches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .shell import Shell
from .text import counted, visible, visible_line

if TYPE_CHECKING:
    from convlog.projections.compare import BlockChange, Comparison

    from .prompts import Named

SCHEMA = "diff/1"
MARKS = {"changed": "~", "added": "+", "gone": "-"}


@click.command()
@click.argument("old")
@click.argument("new", required=False)
@click.option("--as", "assemblers", metavar="NAME@V", multiple=True, help="Once for both, or twice: old, then new.")
@click.option("--encoder", metavar="NAME@V", help="Make both requests of another encoder.")
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
            _write(shell, left, right, comparison, stat=stat)
    if exit_code and comparison.first_difference is not None:
        raise click.exceptions.Exit(1)


def _label(named: Named) -> str:
    return f"{named.label} {named.prompt.recipe.assembler} {named.prompt.recipe.encoder}"


def _write(shell: Shell, left: Named, right: Named, comparison: Comparison, *, stat: bool) -> None:
    counts = ", ".join(f"{count} {word}" for word, count in comparison.counts.items() if count)
    shell.write(shell.paint(f"--- {visible_line(_label(left))}", fg="red"))
    shell.write(shell.paint(f"+++ {visible_line(_label(right))}", fg="green"))
    shell.write(f"{counts}; {counted(comparison.prefix_blocks, 'block')} from the start stay")
    if comparison.surroundings_differ:
        shell.write("system, tools or options differ: no cached prefix is left")
    first = comparison.first_difference
    if first is not None and first.sources:
        shell.write(f"first difference made by event {first.sources[0]}")
    if not stat:
        for change in comparison.changes:
            if change.change != "same":
                _hunk(shell, change)


def _hunk(shell: Shell, change: BlockChange) -> None:
    from convlog.projections.compare import words

    shell.write(f"@@ {MARKS[change.change]} {change.old_pointer or '-'} {change.new_pointer or '-'} @@")
    if change.change == "changed" and len(change.old) == len(change.new):
        for old, new in zip(change.old, change.new, strict=True):
            shell.write(_inline(shell, words(old, new)))
        return
    for old in change.old:
        shell.write(shell.paint(f"- {visible(old)}", fg="red"))
    for new in change.new:
        shell.write(shell.paint(f"+ {visible(new)}", fg="green"))


def _inline(shell: Shell, found: list[tuple[str, str]]) -> str:
    parts = []
    for kind, text in found:
        if kind == "same":
            parts.append(visible(text))
        elif kind == "gone":
            parts.append(shell.paint(f"[-{visible(text)}-]", fg="red"))
        else:
            parts.append(shell.paint(f"{{+{visible(text)}+}}", fg="green"))
    return "  " + " ".join(parts)


def _emit(shell: Shell, left: Named, right: Named, comparison: Comparison) -> None:
    first = comparison.first_difference
    shell.emit(
        SCHEMA,
        old=_label(left),
        new=_label(right),
        counts=comparison.counts,
        prefix_blocks=comparison.prefix_blocks,
        prefix_bytes=comparison.prefix_bytes,
        surroundings_differ=comparison.surroundings_differ,
        first_difference_event=first.sources[0] if first is not None and first.sources else None,
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
