"""`convlog why`: every piece of a prompt and the rule it stands by; or why a node is not in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .shell import Shell
from .text import fit, gist, indent, visible, visible_line

if TYPE_CHECKING:
    from convlog.projections.explain import Explained

    from .prompts import Named

SCHEMA = "why/1"


@click.command()
@click.argument("address", default="latest")
@click.option("--piece", type=click.IntRange(1), help="Everything about one piece, and what it hides.")
@click.option("--pointer", metavar="/messages/0/content/1", help="The pieces behind a place of the request.")
@click.option("--missing", metavar="ADDRESS", help="Why this node is not in the prompt.")
@click.option("--as", "assembler", metavar="NAME@V", help="Derive by another assembler.")
@click.option("--encoder", metavar="NAME@V", help="Make the request of another encoder.")
@click.pass_obj
def command(
    shell: Shell,
    *,
    address: str,
    piece: int | None,
    pointer: str | None,
    missing: str | None,
    assembler: str | None,
    encoder: str | None,
) -> None:
    """Say why a prompt is as it is.

    THREAD/5 names a call, THREAD:17 the prompt that would be due there.
    """
    from convlog.projections.explain import explain, pieces_at

    from .prompts import named

    with shell.open() as store:
        found = named(store, address, assembler, encoder)
        if missing is not None:
            _missing(shell, found, missing)
            return
        explained = explain(found.prompt)
        if pointer is not None:
            wanted = {index + 1 for index in pieces_at(found.prompt, pointer)}
            explained = [each for each in explained if each.number in wanted]
        if piece is not None:
            explained = [each for each in explained if each.number == piece]
        if not explained:
            raise click.UsageError("no such piece in this prompt")
        for each in explained:
            _write(shell, found, each, whole=piece is not None)


def _missing(shell: Shell, found: Named, address: str) -> None:
    from convlog.eventstore.addresses import resolve
    from convlog.projections.explain import missing

    target = resolve(found.thread.store, address)
    if target.thread.id != found.thread.id:
        raise click.UsageError("--missing names a node of the same thread, such as THREAD:12")
    node = target.leaf if target.position is None else target.position
    why = missing(found.thread, found.prompt, found.leaf, found.at, node)
    if shell.as_json:
        shell.emit(SCHEMA, prompt=found.label, node=node, reason=why.reason, pieces=why.pieces, in_short=why.in_short)
        return
    from .replay import write_below

    write_below(shell, f"{found.label}, node {node}: {why.reason}", first="")
    if why.in_short:
        shell.say(
            f"hint: convlog why {found.label} --piece {why.pieces[0]} prints both, what is kept and what was said"
        )


def _write(shell: Shell, found: Named, each: Explained, *, whole: bool) -> None:
    from .replay import words, write_below

    piece = each.piece
    if shell.as_json:
        shell.emit(
            SCHEMA,
            prompt=found.label,
            piece=each.number,
            provenance=piece.provenance,
            role=piece.role,
            sources=piece.sources,
            rule=each.rule,
            pointers=each.pointers,
            text=words(piece),
        )
        return
    where = " ".join(f":{position}" for position in piece.sources)
    shell.write(f"{each.number:>4}  {shell.paint(piece.provenance, bold=True)} {piece.role}  {where}")
    write_below(shell, each.rule)
    if each.pointers:
        write_below(shell, f"at {', '.join(each.pointers)}")
    if whole:
        shell.write(indent(visible(words(piece)), "      | "))
        _originals(shell, found, each)
    else:
        shell.write(f"      {fit(gist(words(piece)), max(20, shell.columns - 6))}")


def _originals(shell: Shell, found: Named, each: Explained) -> None:
    """What a piece was made of, in full: a summary's covered nodes, a memory's results."""
    from .events import who
    from .events import words as event_words

    thread = found.thread
    positions = list(each.piece.sources)
    if each.piece.provenance == "summary" and positions:
        body = thread.event(positions[0]).body
        positions = [node for node in thread.tree.path(body.last) if node >= body.first]
    for position in positions:
        event = thread.event(position)
        shell.write(f"      made of :{position} {visible_line(who(event))}")
        shell.write(indent(visible(event_words(event)), "        "))
