"""`convlog diff`: two prompts block by block: two calls, two versions, two branches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .shell import Shell
from .text import counted, visible, visible_line

if TYPE_CHECKING:
    from convlog.projections.compare import BlockChange, Comparison, FieldChange

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
            _write(shell, left, right, comparison, stat=stat)
    if exit_code and comparison.differs:
        raise click.exceptions.Exit(1)


def _label(named: Named) -> str:
    return f"{named.label} {named.prompt.recipe.assembler} {named.prompt.recipe.encoder}"


def _write(shell: Shell, left: Named, right: Named, comparison: Comparison, *, stat: bool) -> None:
    shell.write(shell.paint(f"--- {visible_line(_label(left))}", fg="red"))
    shell.write(shell.paint(f"+++ {visible_line(_label(right))}", fg="green"))
    if not comparison.differs:
        shell.write(f"the same: {counted(comparison.new_blocks, 'block')}")
        return
    counts = ", ".join(f"{count:,} {word}" for word, count in comparison.counts.items() if count)
    shell.write(f"{counts}; {counted(comparison.prefix_blocks, 'block')} from the start stay")
    if comparison.surroundings_differ:
        names = ", ".join(field.name for field in comparison.fields)
        verb = "differs" if len(comparison.fields) == 1 else "differ"
        shell.write(f"{visible_line(names)} {verb}: no cached prefix is left")
    if comparison.first_event is not None:
        shell.write(f"first difference made by event :{comparison.first_event}")
    if stat:
        return
    for field in comparison.fields:
        _field(shell, field)
    for change in comparison.changes:
        if change.change != "same":
            _hunk(shell, change)


def _field(shell: Shell, field: FieldChange) -> None:
    from convlog.projections.compare import words

    mark = "+" if field.old is None else "-" if field.new is None else "~"
    shell.write(f"@@ {mark} /{visible_line(field.name)} @@")
    if field.old is not None and field.new is not None:
        shell.write(_inline(shell, words(field.old, field.new)))
    elif field.old is not None:
        shell.write(shell.paint(f"- {visible(field.old)}", fg="red"))
    else:
        shell.write(shell.paint(f"+ {visible(field.new or '')}", fg="green"))


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
    return "  " + "".join(parts)


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
