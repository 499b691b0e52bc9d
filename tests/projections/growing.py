"""A talk that grows as real ones do: turns of steps, each step a response with calls and then their results."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from convlog.projections.stages.pieces_v1 import (
    CONTEXT,
    TOOLS,
    VERBATIM,
    Call,
    Piece,
    Reasoning,
    Result,
    Text,
    Tool,
    Tools,
)
from convlog.projections.stages.target_v1 import Target

TOOL = Tool("read_gauge", "Reads one gauge.", '{"type":"object","properties":{"station":{"type":"string"}}}')


class Talk:
    """Pieces in the making; every piece is an event of its own."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.position = 1
        self.pieces: list[Piece] = [Piece(TOOLS, "system", Tools((TOOL,)), (1,))]

    def put(
        self, role: str, element: Text | Reasoning | Call | Result, group: str = "", *, volatile: bool = False
    ) -> None:
        self.position += 1
        provenance = CONTEXT if volatile else VERBATIM
        self.pieces.append(Piece(provenance, role, element, (self.position,), group, volatile=volatile))

    def user(self, text: str) -> None:
        self.put("user", Text(text))

    def step(self, calls: int, *, thought: bool = False, text: str = "") -> None:
        """Put one response of the target's own, and the results of its calls."""
        provider, model = self.target.provider, self.target.model
        group = f"r{self.position}"
        if thought:
            seal = f"c2ln{self.position:04}"
            self.put("assistant", Reasoning("Two readings are needed.", seal, None, provider, model), group)
        if text:
            self.put("assistant", Text(text), group)
        made = []
        for number in range(calls):
            node = self.position + 1
            seal_of_call = f"Y2Fs{node:04}" if number == 0 else None
            call = Call(
                f"call_{node}",
                node,
                TOOL.name,
                '{"station":"north"}',
                None,
                "function",
                seal_of_call,
                None,
                provider,
                model,
            )
            self.put("assistant", call, group)
            made.append(call)
        for call in made:
            self.put(
                "tool", Result(call.id, call.node, "ok", (Text(json.dumps({"mm": call.node})),), name=call.name), group
            )


@st.composite
def requests_of_a_turn(draw: st.DrawFn, target: Target) -> list[list[Piece]]:
    """Draw the pieces of each request of a talk, one for every call of the model."""
    talk = Talk(target)
    found = []
    for turn in range(draw(st.integers(1, 3))):
        talk.user(f"Question {turn}.")
        found.append(list(talk.pieces))
        for _ in range(draw(st.integers(0, 3))):
            talk.step(
                draw(st.integers(1, 3)), thought=draw(st.booleans()), text=draw(st.sampled_from(["", "Reading."]))
            )
            if draw(st.booleans()):
                talk.user("And be quick.")
            found.append(list(talk.pieces))
        talk.step(0, text="Done.")
    return found
