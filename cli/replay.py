"""`convlog replay`: derive every call's prompt again, with a verdict; or one call's prompt itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from .shell import Shell
from .text import counted, fit, gist, indent, visible, visible_line

if TYPE_CHECKING:
    from convlog.projections.conversation import Thread
    from convlog.projections.replay import Replayed
    from convlog.projections.stages.pieces_v1 import Piece

SCHEMA = "replay/1"
COLORS = {"exact": "green", "derived": "cyan", "differs": "red", "unprovable": "yellow"}
MARKS = {"exact": "=", "derived": "~", "differs": "!", "unprovable": "?"}
"""Beside the colour, for those who see none."""


@click.command()
@click.argument("address", default="latest")
@click.option("--as", "assembler", metavar="NAME@V", help="Derive by another assembler than the recorded one.")
@click.option("--encoder", metavar="NAME@V", help="Make the request of another encoder.")
@click.option("--until", metavar="ADDRESS", help="Only calls up to this position.")
@click.option("--verify", is_flag=True, help="Check the thread's chain first; a damaged thread has no exact call.")
@click.option("--full", is_flag=True, help="Whole texts; with --json the request too.")
@click.option("--format", "form", type=click.Choice(["text", "json", "anthropic"]), default="text", help="Of a prompt.")
@click.pass_obj
def command(
    shell: Shell,
    *,
    address: str,
    assembler: str | None,
    encoder: str | None,
    until: str | None,
    verify: bool,
    full: bool,
    form: str,
) -> None:
    """Derive past prompts again and say whether they are provably what the model saw.

    A thread gives a line a call; THREAD/5 gives the prompt of call 5. Verdicts: exact, differs (exit 1), unprovable
    (exit 5), or derived for what was never prepared here (an imported thread).
    """
    from convlog.eventstore.addresses import resolve

    with shell.open() as store:
        target = resolve(store, address)
        thread = store.thread(target.thread.id)
        last = resolve(store, until).position if until else target.position if target.address.call is None else None
        damage = verify and _is_damaged(shell, thread)
        found = list(
            thread.replay(
                numbers=None if target.address.call is None else [target.address.call],
                assembler=assembler,
                encoder=encoder if form != "anthropic" or encoder else _anthropic(encoder),
                until=last,
            )
        )
        if target.address.call is not None and found:
            _one(shell, thread, found[0], full=full, form=form)
        else:
            _all(shell, thread, found, full=full)
    words = {replayed.verdict for replayed in found}
    if damage or "differs" in words:
        raise click.exceptions.Exit(1)
    if "unprovable" in words:
        raise click.exceptions.Exit(5)


def _anthropic(encoder: str | None) -> str | None:
    from convlog.projections.prepare import newest_encoder

    return encoder or newest_encoder("anthropic")


def _is_damaged(shell: Shell, thread: Thread) -> bool:
    from convlog.eventstore.verify import verify_thread

    problems = [problem for problem in verify_thread(thread.store, thread.id) if problem.kind != "redacted"]
    for problem in problems:
        shell.warn(f"{problem.thread}:{problem.position} {problem.kind}: {problem.message}")
    if problems:
        shell.warn("the thread is damaged: no call of it is provably exact")
    return bool(problems)


# --- a line a call ---


def _all(shell: Shell, thread: Thread, found: Sequence[Replayed], *, full: bool) -> None:
    if shell.as_json:
        for replayed in found:
            _emit(shell, thread, replayed, full=full)
        return
    if not found:
        shell.nothing(f"calls in thread {thread.id[:12]}")
        return
    title = visible_line(thread.title or "untitled")
    shell.write(f"{shell.paint(title, bold=True)}  {thread.id[:12]}  {counted(len(found), 'call')}")
    for replayed in found:
        shell.write(fit(_line(shell, replayed), shell.columns + 40) if shell.colored else _line(shell, replayed))
        if replayed.difference is not None:
            shell.write(_difference(replayed))
    shell.write(_sum(shell, found))
    shell.say(f"hint: convlog replay {thread.id[:8]}/{found[-1].call} prints that prompt")


def _line(shell: Shell, replayed: Replayed) -> str:
    verdict = shell.paint(f"{MARKS[replayed.verdict]} {replayed.verdict}", fg=COLORS[replayed.verdict])
    recipe = " ".join(part for part in (replayed.assembler, replayed.encoder) if part) or "built by the host"
    what = f"{replayed.bytes:>9,} B  ~{-(-replayed.bytes // 4):,} tok"
    more = " ".join(part for part in (replayed.reason, replayed.detail) if part)
    tail = visible_line(more) or replayed.digest[:12]
    return f"  {replayed.call:>4}  at {replayed.node:<5} {visible_line(recipe):<28} {what:<26} {verdict}  {tail}"


def _difference(replayed: Replayed) -> str:
    difference = replayed.difference
    assert difference is not None
    where = difference.pointer or f"blocks {difference.first}..{difference.last}"
    lines = [f"        first difference: {where}"]
    if difference.text is not None:
        lines.append(f"        now: {fit(gist(difference.text), 100)}")
    return "\n".join(lines)


def _sum(shell: Shell, found: Sequence[Replayed]) -> str:
    counts = {word: sum(1 for each in found if each.verdict == word) for word in COLORS}
    said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    if counts["derived"] == len(found):
        said += " (never prepared here, so there is nothing to compare with)"
    return shell.paint(said, bold=True)


def _emit(shell: Shell, thread: Thread, replayed: Replayed, *, full: bool) -> None:
    import msgspec

    fields = {
        "thread": thread.id,
        "call": replayed.call,
        "node": replayed.node,
        "assembler": replayed.assembler,
        "encoder": replayed.encoder,
        "verdict": replayed.verdict,
        "reason": replayed.reason,
        "detail": replayed.detail,
        "digest": replayed.digest,
        "bytes": replayed.bytes,
        "attested": replayed.attested,
    }
    if full and replayed.prompt is not None:
        fields["request"] = msgspec.Raw(replayed.prompt.body)
    shell.emit(SCHEMA, **fields)


# --- one prompt ---


def _one(shell: Shell, thread: Thread, replayed: Replayed, *, full: bool, form: str) -> None:
    if form != "text" and replayed.prompt is not None:
        shell.write_bytes(replayed.prompt.body + b"\n")
        return
    if shell.as_json:
        _emit(shell, thread, replayed, full=True)
        return
    shell.write(_line(shell, replayed).strip())
    if replayed.difference is not None:
        shell.write(_difference(replayed))
    if replayed.prompt is None:
        return
    for number, piece in enumerate(replayed.prompt.pieces, 1):
        shell.write(_piece(shell, number, piece, full=full))
    for piece in replayed.prompt.request.repairs:
        shell.write(shell.paint(f"   *  {piece.provenance:<11} {visible_line(piece.rule)}", dim=True))
    if not full:
        shell.say("hint: --full prints whole texts, --format json the request's bytes")


def _piece(shell: Shell, number: int, piece: Piece, *, full: bool) -> str:
    where = ",".join(f":{position}" for position in piece.sources[:3]) + ("…" if len(piece.sources) > 3 else "")
    head = f"{number:>4}  {piece.provenance:<11} {piece.role:<9} {where:<8}"
    rule = f"  ({visible_line(piece.rule)})" if piece.rule else ""
    text = words(piece)
    if full:
        return f"{shell.paint(head, bold=True)}{rule}\n{indent(visible(text), '      ')}"
    return f"{head} {fit(gist(text), max(20, shell.columns - len(head) - 1))}{rule}"


def words(piece: Piece) -> str:
    """Give what a piece says, as people read it."""
    from convlog.projections.stages import pieces_v1 as pieces

    element = piece.element
    match element:
        case pieces.Text():
            return element.text
        case pieces.Reasoning():
            return element.text or "(sealed reasoning)"
        case pieces.Call():
            return f"{element.name} {element.input}"
        case pieces.Result():
            inner = "".join(part.text if isinstance(part, pieces.Text) else "(picture)" for part in element.content)
            return f"{element.status}: {inner}"
        case pieces.Tools():
            return ", ".join(tool.name for tool in element.tools)
        case pieces.Image() | pieces.Document():
            return f"({type(element).__name__.lower()} {element.attachment or element.url})"
        case _:
            return element.json
