"""`convlog replay`: derive every call's prompt again, with a verdict; or one call's prompt itself."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from .shell import Shell
from .text import called, counted, fit, gist, indent, visible, visible_json, visible_line, width

if TYPE_CHECKING:
    from convlog.eventstore.addresses import Target
    from convlog.projections.conversation import Store, Thread
    from convlog.projections.difference import Difference
    from convlog.projections.replay import Replayed
    from convlog.projections.stages.pieces_v1 import Piece

SCHEMA = "replay/1"
COLORS = {"exact": "green", "derived": "cyan", "differs": "red", "unprovable": "yellow"}
MARKS = {"exact": "=", "derived": "~", "differs": "!", "unprovable": "?"}
"""Beside the colour, for those who see none."""
SAID = frozenset({"turn-memory", "instructions"})
"""Provenances that say enough in one line; `--full` and `why` give the rule too."""


@click.command()
@click.argument("address", default="latest")
@click.option("--as", "assembler", metavar="NAME@V", help="Derive by another assembler than the recorded one.")
@click.option("--encoder", metavar="NAME@V", help="Make the request of another encoder.")
@click.option("--until", metavar="ADDRESS", help="Only calls up to this position.")
@click.option("-n", "count", metavar="N", type=click.IntRange(min=1), help="The last N calls (default: all).")
@click.option("--verify", is_flag=True, help="Check the thread's chain first; a damaged thread has no exact call.")
@click.option("--full", is_flag=True, help="Whole texts; with --json the requests too.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "anthropic"]),
    default="text",
    help="The requests themselves: as recorded, or as Anthropic's; a line each.",
)
@click.pass_obj
def command(
    shell: Shell,
    *,
    address: str,
    assembler: str | None,
    encoder: str | None,
    until: str | None,
    count: int | None,
    verify: bool,
    full: bool,
    form: str,
) -> None:
    """Derive past prompts again and say whether they are provably what the model saw.

    A thread gives a line a call, THREAD:17 those up to position 17, THREAD@branch those on a branch; THREAD/5 gives the
    prompt of call 5. Verdicts: exact, differs (exit 1), unprovable (exit 5), or derived for what was never prepared
    here (an imported thread).
    """
    from convlog.eventstore.addresses import resolve
    from convlog.projections.live import LiveThreads

    with shell.open() as store:
        target = resolve(store, address)
        thread = store.thread(target.thread.id)
        wanted = _wanted(store, target, until)
        if form == "anthropic":
            if encoder is not None:
                raise click.UsageError("--format anthropic names an encoder; leave out --encoder, or ask for json")
            encoder = _anthropic()
        damage = verify and _is_damaged(shell, thread)
        kept = LiveThreads(checks=True)
        found: Iterator[Replayed] = thread.replay(
            **wanted, newest=count, assembler=assembler, encoder=encoder, kept=kept
        )
        if damage:
            found = map(_as_damaged, found)
        asked = bool(assembler or encoder)
        words = _write(shell, thread, found, one=target.address.call is not None, full=full, form=form, asked=asked)
    if kept.failed:
        shell.warn(
            "a prompt derived from the one before was not the one derived whole: convlog audit derives all whole"
        )
    if damage or kept.failed or "differs" in words:
        raise click.exceptions.Exit(1)
    if "unprovable" in words:
        raise click.exceptions.Exit(5)


def _wanted(store: Store, target: Target, until: str | None) -> dict[str, Any]:
    """Give which calls an address and `--until` name."""
    from convlog.eventstore.addresses import resolve

    if target.first is not None:
        raise click.UsageError("a range names no calls; THREAD:17 names those up to position 17")
    number = target.address.call
    if number is not None:
        if until is not None:
            raise click.UsageError("--until goes with a thread, not with one call")
        return {"numbers": (number,)}
    on = target.position if target.address.branch is not None else None
    last = None if on is not None else target.position
    if until is not None:
        end = resolve(store, until)
        if end.position is None or end.thread.id != target.thread.id:
            raise click.UsageError("--until names a position of the same thread, such as THREAD:17")
        last = end.position if last is None else min(last, end.position)
    return {"until": last, "on": on}


def _anthropic() -> str:
    from convlog.projections.prepare import newest_encoder

    return newest_encoder("anthropic")


def _is_damaged(shell: Shell, thread: Thread) -> bool:
    from convlog.eventstore.verify import is_fault, verify_thread

    problems = [problem for problem in verify_thread(thread.store, thread.id) if is_fault(problem)]
    for problem in problems:
        shell.warn(f"{problem.thread}:{problem.position} {problem.kind}: {problem.message}")
    if problems:
        shell.warn("the thread is damaged: no call of it is provably exact")
    return bool(problems)


def _as_damaged(replayed: Replayed) -> Replayed:
    from convlog.projections.replay import damaged

    return damaged(replayed)


# --- a line a call ---


def _write(
    shell: Shell, thread: Thread, found: Iterator[Replayed], *, one: bool, full: bool, form: str, asked: bool
) -> Counter[str]:
    """Write calls as they come, so that one prompt at a time is held, and count the verdicts."""
    words: Counter[str] = Counter()
    printable: int | None = None
    hints: dict[str, None] = {}
    targets: dict[str, None] = {}
    for replayed in found:
        if form != "text":
            _write_request(shell, replayed)
        elif shell.as_json:
            emit(shell, thread, replayed, full=full or one)
        elif one:
            _write_prompt(shell, replayed, full=full)
        else:
            if not words:
                _write_title(shell, thread)
            write_call(shell, replayed)
        sys.stdout.flush()
        words[replayed.verdict] += 1
        printable = printable if replayed.prompt is None else replayed.call
        hints.setdefault(replayed.hint)
        targets.setdefault(replayed.target or "")
    if not shell.as_json:
        _say_hints(shell, hints)
    if form == "text" and not shell.as_json and not one:
        why = "as asked" if asked else "never prepared here"
        _write_end(shell, thread, words, printable, f"for {visible_line(', '.join(filter(None, targets)))} ({why}")
    return words


def _write_title(shell: Shell, thread: Thread) -> None:
    title = called(thread.store.row(thread.id), shell.columns - 14)
    shell.write(f"{shell.paint(title, bold=True)}  {thread.id[:12]}")


def _say_hints(shell: Shell, hints: Iterable[str]) -> None:
    for hint in filter(None, hints):
        shell.say(f"hint: {hint}")


def _write_end(shell: Shell, thread: Thread, words: Counter[str], printable: int | None, derived: str) -> None:
    """Write the sum, and which call's prompt could be printed; one that was not derived has none."""
    if not words:
        shell.nothing(f"calls in thread {thread.id[:12]}")
        return
    shell.write(shell.paint(_sum(words, derived), bold=True))
    if printable is not None:
        shell.say(f"hint: convlog replay {thread.id[:8]}/{printable} prints that prompt")


def write_call(shell: Shell, replayed: Replayed) -> None:
    """Write one call's line; for one that is not exact, what is known of why below it."""
    recipe = " ".join(part for part in (replayed.assembler, replayed.encoder) if part) or "built by the host"
    head = f"{replayed.call:>4}  at {replayed.node:<5} {visible_line(recipe):<25} {replayed.bytes:>9,} B  "
    said = f"{MARKS[replayed.verdict]} {replayed.verdict:<10}"
    room = max(0, shell.columns - len(head) - len(said) - 1)
    tail = visible_line(replayed.digest)[: min(12, room)]
    verdict = shell.paint(said, fg=COLORS[replayed.verdict])
    shell.write(f"{head}{verdict} {tail}".rstrip())
    if replayed.difference is not None:
        _write_difference(shell, replayed.difference)
    elif replayed.reason:
        write_below(shell, f"{replayed.reason}: {replayed.detail}" if replayed.detail else replayed.reason)


def write_below(shell: Shell, text: str, *, first: str = "      ") -> None:
    """Write words under another line, wrapped: what explains something is not cut."""
    from textwrap import wrap

    for line in wrap(visible_line(text), max(40, shell.columns), initial_indent=first, subsequent_indent="      "):
        shell.write(line)


def _write_difference(shell: Shell, difference: Difference) -> None:
    first, last = difference.first, difference.last
    blocks = f"block {first + 1}" if last <= first else f"in blocks {first + 1} to {last + 1}"
    where = "around the talk" if last < 0 else difference.pointer or blocks
    write_below(shell, f"first difference: {where}")
    room = max(20, shell.columns - 12)
    if difference.old is not None:
        shell.write(f"      then: {fit(gist(difference.old), room)}")
    if difference.text is not None:
        shell.write(f"      now:  {fit(gist(difference.text), room)}")
    for cause in difference.causes:
        write_below(shell, f"because: {cause}")


def _sum(words: Counter[str], derived: str) -> str:
    said = ", ".join(f"{words[word]:,} {word}" for word in COLORS if words[word])
    if words["derived"] == words.total():
        said += f" {derived}: nothing to compare with)"
    return f"{counted(words.total(), 'call')}: {said}"


def emit(shell: Shell, thread: Thread, replayed: Replayed, *, full: bool) -> None:
    """Write one call as a JSON line."""
    import msgspec

    difference = replayed.difference
    fields = {
        "thread": thread.id,
        "call": replayed.call,
        "node": replayed.node,
        "at": replayed.at,
        "assembler": replayed.assembler,
        "encoder": replayed.encoder,
        "model": replayed.model,
        "target": replayed.target,
        "verdict": replayed.verdict,
        "reason": replayed.reason,
        "detail": replayed.detail,
        "hint": replayed.hint,
        "digest": replayed.digest,
        "bytes": replayed.bytes,
        "attested": replayed.attested,
        "difference": None if difference is None else msgspec.to_builtins(difference),
    }
    if full and replayed.prompt is not None:
        fields["request"] = msgspec.Raw(replayed.prompt.body)
    shell.emit(SCHEMA, **fields)


# --- one prompt ---


def _write_request(shell: Shell, replayed: Replayed) -> None:
    """Write a request's own bytes; on a terminal, what acts on it as JSON escapes, which mean the same."""
    if replayed.prompt is None:
        shell.warn(f"call {replayed.call}: {replayed.reason}: {replayed.detail}")
    elif sys.stdout.isatty():
        shell.write(visible_json(replayed.prompt.body.decode()))
    else:
        shell.write_bytes(replayed.prompt.body + b"\n")


def _write_prompt(shell: Shell, replayed: Replayed, *, full: bool) -> None:
    write_call(shell, replayed)
    if replayed.prompt is None:
        return
    shell.write("")
    for number, piece in enumerate(replayed.prompt.pieces, 1):
        write_piece(shell, number, piece, full=full)
    for piece in replayed.prompt.request.repairs:
        shell.write(
            shell.paint(fit(f"   *  {piece.provenance:<11} {visible_line(piece.rule)}", shell.columns), dim=True)
        )
    tokens = -(-replayed.bytes // 4)
    shell.say(f"about {tokens:,} tokens" + ("" if full else "; --full prints whole texts, --format json the request"))


def write_piece(shell: Shell, number: int, piece: Piece, *, full: bool) -> None:
    """Write one piece: its number, what it is, whose, from which events, what it says and why."""
    where = ",".join(f":{position}" for position in piece.sources[:2]) + ("…" if len(piece.sources) > 2 else "")
    head = f"{number:>4}  {piece.provenance:<11} {piece.role:<9} {where:<7}"
    rule = f"({visible_line(piece.rule)})" if piece.rule and (full or piece.provenance not in SAID) else ""
    text = words(piece)
    if full:
        shell.write(f"{shell.paint(head, bold=True)}  {rule}".rstrip())
        shell.write(indent(visible(text), "      "))
        return
    room = max(20, shell.columns - len(head) - 1)
    if rule:
        text = f"{fit(gist(text), max(10, room - width(rule) - 1))} {rule}"
    shell.write(f"{head} {fit(gist(text), room)}")


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
