"""Conversations of a coding agent, made from a seed: the same on every machine.

A turn is a user's input, one to twelve steps (perhaps reasoning, perhaps prose, a tool call and its result), a closing
text and the turn's end: about 17 events and 27 KB, of which results are seven tenths. The sizes are log-normal with the
medians that published collections of agent sessions show.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import msgspec

from convlog.eventstore.events import InputAdded, SegmentAdded, Source, Text, ToolCalled, ToolReturned, TurnEnded
from convlog.eventstore.records import Draft
from convlog.eventstore.thread import Thread

NOUNS = (
    *("account", "adapter", "basket", "batch", "bridge", "buffer", "carrier", "catalogue", "channel", "clock"),
    *("column", "counter", "courier", "cursor", "delivery", "digest", "driver", "envelope", "exporter", "fixture"),
    *("gateway", "harbour", "invoice", "journal", "ledger", "limiter", "mailer", "marker", "meter", "order"),
    *("parcel", "parser", "payment", "planner", "pointer", "quota", "receipt", "registry", "renderer", "report"),
    *("router", "sampler", "scanner", "session", "sheet", "shelf", "signal", "socket", "stamp", "ticket"),
)
VERBS = (
    "accepts",
    "books",
    "checks",
    "closes",
    "counts",
    "fills",
    "holds",
    "keeps",
    "locks",
    "merges",
    "reads",
    "sends",
)
ADJECTIVES = ("cold", "early", "empty", "fresh", "idle", "late", "local", "narrow", "open", "partial", "plain", "quick")
FOREIGN = ("Grüße", "déjà vu", "東京", "Łódź", "→", "✓", "🚚")

POOL_CHARACTERS = 200_000
TOOLS = ("read_file", "edit_file", "run_command", "search", "list_folder")


class Step(msgspec.Struct, frozen=True):
    """One event to come: input, reasoning, prose, call, result or end."""

    kind: str
    text: str = ""
    call: str = ""
    name: str = ""
    status: str = "ok"


class Range(msgspec.Struct, frozen=True):
    """A log-normal length in characters, cut at both ends."""

    median: float
    sigma: float
    least: int
    most: int

    def draw(self, dice: random.Random) -> int:
        """Draw a length."""
        return int(min(self.most, max(self.least, math.exp(dice.gauss(math.log(self.median), self.sigma)))))


INPUT = Range(250, 0.9, 50, 2_000)
REASONING = Range(500, 0.8, 80, 3_000)
PROSE = Range(300, 0.8, 40, 1_500)
ARGUMENTS = Range(280, 0.8, 100, 2_000)
RESULT = Range(3_000, 0.9, 1_024, 30_720)


@cache
def prose_pool() -> str:
    """Give a long run of sentences."""
    dice = random.Random("prose")
    parts: list[str] = []
    size = 0
    while size < POOL_CHARACTERS:
        noun, other, third = dice.sample(NOUNS, 3)
        sentence = f"The {dice.choice(ADJECTIVES)} {noun} {dice.choice(VERBS)} the {other} before the {third} does. "
        if dice.random() < 0.05:
            sentence = f"{dice.choice(FOREIGN)}: {sentence}"
        parts.append(sentence)
        size += len(sentence)
    return "".join(parts)


@cache
def code_pool() -> str:
    """Give a long run of lines that look like a program, with numbers as a file reader shows them."""
    dice = random.Random("code")
    parts: list[str] = []
    size = 0
    while size < POOL_CHARACTERS:
        noun, other = dice.sample(NOUNS, 2)
        indent = "    " * dice.randrange(4)
        line = dice.choice(
            (
                f"{indent}def {noun}_of({other}: {other.title()}) -> {noun.title()}:\n",
                f"{indent}return [{noun} for {noun} in {other}s if {noun}.{dice.choice(ADJECTIVES)}]\n",
                f'{indent}log.info("{noun} {dice.choice(VERBS)} %s", {other}.id)\n',
                f"{indent}if {noun}.count > {dice.randrange(1000)} and not {other}.closed:\n",
            )
        )
        parts.append(f"{len(parts) + 1:>6}  {line}")
        size += len(parts[-1])
    return "".join(parts)


def _cut(pool: str, length: int, dice: random.Random) -> str:
    start = dice.randrange(len(pool) - length)
    return pool[start : start + length]


def turn(dice: random.Random) -> Iterator[Step]:
    """Iterate over the steps of one turn."""
    yield Step("input", _cut(prose_pool(), INPUT.draw(dice), dice))
    for _ in range(min(12, 1 + int(dice.expovariate(1 / 4.6)))):
        if dice.random() < 0.5:
            yield Step("reasoning", _cut(prose_pool(), REASONING.draw(dice), dice))
        if dice.random() < 0.6:
            yield Step("prose", _cut(prose_pool(), PROSE.draw(dice), dice))
        call, name = f"call_{dice.getrandbits(96):024x}", dice.choice(TOOLS)
        path = f"src/{dice.choice(NOUNS)}/{dice.choice(NOUNS)}.py"
        arguments = {"path": path, "offset": dice.randrange(900), "text": _cut(code_pool(), ARGUMENTS.draw(dice), dice)}
        yield Step("call", msgspec.json.encode(arguments).decode(), call, name)
        status = "error" if dice.random() < 0.06 else "ok"
        yield Step("result", _cut(code_pool(), RESULT.draw(dice), dice), call, name, status)
    yield Step("prose", _cut(prose_pool(), PROSE.draw(dice), dice))
    yield Step("end")


def turns(count: int, seed: int = 1) -> Iterator[list[Step]]:
    """Iterate over turns."""
    dice = random.Random(seed)
    for _ in range(count):
        yield list(turn(dice))


def steps(count: int, seed: int = 1) -> list[Step]:
    """Give that many steps of whole and, at the end, broken turns."""
    found: list[Step] = []
    dice = random.Random(seed)
    while len(found) < count:
        found.extend(turn(dice))
    return found[:count]


def append(thread: Thread, step: Step, **options: Any) -> None:
    """Append a step through the handle's own method for it."""
    match step.kind:
        case "input":
            thread.user(step.text, **options)
        case "reasoning":
            thread.reasoning(step.text, **options)
        case "prose":
            thread.text(step.text, **options)
        case "call":
            thread.call(step.call, step.name, step.text, **options)
        case "result":
            thread.result(step.call, step.text, status=step.status, **options)
        case _:
            thread.end_turn(**options)


def draft(step: Step) -> Draft:
    """Give a step as a member of a batch."""
    model = Source("model")
    match step.kind:
        case "input":
            return Draft(body=InputAdded(content=(Text(step.text),)), source=Source("user"))
        case "reasoning":
            return Draft(body=SegmentAdded(kind="reasoning", text=step.text), source=model)
        case "prose":
            return Draft(body=SegmentAdded(text=step.text), source=model)
        case "call":
            return Draft(body=ToolCalled(call=step.call, name=step.name, input=step.text), source=model)
        case "result":
            body = ToolReturned(call=step.call, status=step.status)
            return Draft(body=body, output=step.text.encode(), source=Source("tool"))
        case _:
            return Draft(body=lambda positions: TurnEnded(node=positions[-1] if positions else 1))


def fill(thread: Thread, count: int, seed: int = 1) -> None:
    """Append turns, each as a batch."""
    for each in turns(count, seed):
        thread.append_many([draft(step) for step in each])


def message(step: Step) -> dict[str, Any] | None:
    """Give a step as a chat message, the form that other stores keep; None for a turn's end."""
    match step.kind:
        case "input":
            return {"role": "user", "content": step.text}
        case "reasoning" | "prose":
            return {"role": "assistant", "content": step.text}
        case "call":
            function = {"name": step.name, "arguments": step.text}
            call = {"id": step.call, "type": "function", "function": function}
            return {"role": "assistant", "content": "", "tool_calls": [call]}
        case "result":
            return {"role": "tool", "tool_call_id": step.call, "content": step.text}
        case _:
            return None


def messages(found: Sequence[Step]) -> list[dict[str, Any]]:
    """Give the steps that are messages."""
    return [each for each in map(message, found) if each is not None]
