"""Making the words of a summary: by a frozen summariser, or for somebody else to make them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from convlog.eventstore.errors import Conflict
from convlog.eventstore.events import Facts, Source, SummaryAdded, ToolReturned
from convlog.eventstore.placement import Appended
from convlog.eventstore.ranges import closed_range
from convlog.eventstore.summaries import add_summary

from . import registry
from .errors import BadProjection, NoSuchProjection
from .generation import generation
from .material import material
from .stages.material_v1 import Material
from .stages.pieces_v1 import Call, Piece, Reasoning, Result, Text

if TYPE_CHECKING:
    from .conversation import Thread


OUTLINE = "outline@1"

_KIND = re.compile("^(changed file|failed command|command) ")
_ADDRESS = re.compile(r"[A-Za-z0-9-]+@[1-9][0-9]*")


class Restated(msgspec.Struct, frozen=True):
    """What a summariser makes of a stored summary's range today."""

    summary: int
    maker: str
    verdict: Literal["exact", "differs", "unprovable"]
    reason: str = ""
    detail: str = ""


def part(thread: Thread, nodes: Sequence[int], at: int | None = None) -> Material:
    """Give the material of some nodes of one path alone, as of a position."""
    whole = material(thread, nodes[-1], at)
    inside = set(nodes)
    return msgspec.structs.replace(whole, path=tuple(stored for stored in whole.path if stored.position in inside))


def derive_summary(
    thread: Thread, nodes: Sequence[int], maker: str, parameters: str | None = None, at: int | None = None
) -> str:
    """Let a frozen summariser say a range, as of a position.

    Raises:
        NoSuchProjection: no such summariser is installed.
        BadProjection: a parameter that it does not know.
    """
    found = registry.get(maker, "summariser")
    text: str = found.function(part(thread, nodes, at), registry.parameters_of(found, parameters))
    return text


def parameters_for(thread: Thread, maker: str, given: dict[str, Any] | None = None) -> str:
    """Give a summariser's parameters as JSON text; what the thread's root says of its agent and folder is told to it.

    A range never holds the root, so that a summariser cannot read them there.

    Raises:
        NoSuchProjection, BadProjection: no such summariser, or a parameter that it does not know.
    """
    found = registry.get(maker, "summariser")
    if found.parameters is None:
        return "{}"
    root = thread.event(1).body
    told = {"agent": getattr(root, "agent", None), "workspace": getattr(root, "cwd", None)}
    known = {name: value for name, value in told.items() if name in found.parameters.__struct_fields__}
    return msgspec.json.encode(registry.parameters_of(found, {**known, **(given or {})})).decode()


def summarise(
    thread: Thread,
    maker: str,
    first: int,
    last: int,
    *,
    on: int | None = None,
    parameters: dict[str, Any] | None = None,
    replaces: int | None = None,
    key: str | None = None,
) -> Appended:
    """Store what a frozen summariser says of a closed range, derived from the very log that it is appended to.

    Raises:
        NoSuchProjection, BadProjection: the recipe names what is not there.
        BadRange, NotClosed: the range is none, or would cut a call from its result.
    """
    spelled = parameters_for(thread, maker, parameters)
    while True:
        since = generation(thread.store, thread.id)
        at = thread.position
        text = derive_summary(thread, closed_range(thread, first, last, on), maker, spelled, at)
        try:
            with thread.store.alone():
                # What a fork shares is erased in its origin's log, where no position of its own moves.
                if generation(thread.store, thread.id) != since:
                    continue
                return add_summary(
                    thread,
                    first,
                    last,
                    text,
                    on=on,
                    maker=maker,
                    parameters=spelled,
                    replaces=replaces,
                    key=key,
                    source=Source("system", name=maker),
                    expected_position=at,
                )
        except Conflict:
            thread.refresh()


def restated(thread: Thread) -> Iterator[Restated]:
    """Derive again every summary that a projection made, and say whether it still says the same."""
    for event in thread.events(types=(SummaryAdded.TYPE,)):
        body = event.body
        if not isinstance(body, SummaryAdded) or body.call is not None or _ADDRESS.fullmatch(body.maker) is None:
            continue
        if event.redacted_by is not None:
            yield Restated(event.position, body.maker, "unprovable", "redacted", "its own words were taken out")
            continue
        verdict, reason, detail = _again(thread, event.position, body)
        yield Restated(event.position, body.maker, verdict, reason, detail)


def _again(
    thread: Thread, position: int, body: SummaryAdded
) -> tuple[Literal["exact", "differs", "unprovable"], str, str]:
    nodes = [node for node in thread.tree.path(body.last) if node >= body.first]
    try:
        text = derive_summary(thread, nodes, body.maker, body.parameters, position - 1)
    except (NoSuchProjection, BadProjection) as error:
        return "unprovable", "version missing", error.message
    if text == body.text:
        return "exact", "", ""
    if any(event.redacted_by is not None for event in thread.path(body.last, bodies=False) if event.position in nodes):
        return "unprovable", "redacted", "something that it covers was taken out"
    return "differs", "summary differs", f"{body.maker} says {body.first}..{body.last} otherwise today"


def originals(thread: Thread, nodes: Sequence[int]) -> str:
    """Give the nodes of a range as text, for a summariser outside; earlier summaries stand for nothing here."""
    from .derive import assemble
    from .replay import imported_recipe

    whole = part(thread, nodes)
    path = tuple(
        # What was not kept is left empty, and stops nobody.
        msgspec.structs.replace(stored, missing=False) if stored.missing else stored
        for stored in whole.path
    )
    pieces = assemble(msgspec.structs.replace(whole, path=path, notes=()), imported_recipe())
    return "\n".join(_line(piece) for piece in pieces) + "\n"


def _line(piece: Piece) -> str:
    match piece.element:
        case Text():
            return f"{piece.role}: {piece.element.text}"
        case Reasoning():
            return f"reasoning: {piece.element.text}"
        case Call():
            return f"call {piece.element.name}: {piece.element.input}"
        case Result():
            inner = "".join(each.text for each in piece.element.content if isinstance(each, Text))
            return f"result ({piece.element.status}): {inner}"
        case _:
            return piece.role


def tokens(thread: Thread, nodes: Sequence[int]) -> int:
    """Estimate the tokens of a range's originals (`est:bytes4/1`)."""
    return -(-len(originals(thread, nodes).encode()) // 4)


def unmentioned(thread: Thread, nodes: Sequence[int], words: str) -> list[str]:
    """Name the files, commands and outcomes of a range that some words do not mention.

    They are what tools stated, and what the range's outline makes of their calls.
    """
    said = _collapsed(words)
    found: list[str] = []
    for event in thread.path(nodes[-1], outputs=False):
        body = event.body if event.position >= nodes[0] else None
        if isinstance(body, ToolReturned) and body.facts is not None:
            found += _unsaid(body.facts, event.position, said)
    outline = derive_summary(thread, nodes, OUTLINE, parameters_for(thread, OUTLINE))
    stated = tuple(f" {_KIND.sub('', each)}" for each in found)
    return list(dict.fromkeys([*found, *(each for each in _unsaid_of(outline, said) if not each.endswith(stated))]))


def _unsaid_of(outline: str, said: str) -> Iterator[str]:
    """Iterate over the files and commands of an outline that are not mentioned."""
    title = ""
    for line in outline.splitlines():
        if not line.startswith("- "):
            title = line
            continue
        value = line.removeprefix("- ")
        if title.startswith("Files written"):
            if value.rsplit("/", 1)[-1] not in said:
                yield f"written file {value}"
        elif title.startswith("Commands"):
            command, _, outcome = value.rpartition(": ")
            name = _collapsed(command).removesuffix("…")
            # The command alone, or behind its tool's name.
            alone = name.partition(" ")[2] or name
            if name not in said and alone not in said:
                yield f"{'command' if outcome in {'ok', 'exit 0'} else 'failed command'} {command}"


def _unsaid(facts: Facts, position: int, said: str) -> Iterator[str]:
    failed = facts.failed_command or (facts.command if facts.exit_code else None)
    named = (("changed file", facts.file_changed), ("failed command", failed), ("command", facts.command))
    for what, value in named:
        name = value and (value.rsplit("/", 1)[-1] if what == "changed file" else _collapsed(value))
        if name and name not in said:
            yield f"{what} {value}"
            if what == "failed command":
                return
    if facts.exit_code and not failed and str(facts.exit_code) not in said:
        yield f"exit code {facts.exit_code} at {position}"


def _collapsed(text: str) -> str:
    return " ".join(text.split())
