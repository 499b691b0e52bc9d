"""Calls and results in pairs (X1): each batch of calls is followed by its results, in call order, one for each call.

A batch is the calls of one model message; where that is unknown, calls that directly follow one another. What another
than the agent said parts them even where it is left out: a request may have ended there, and its blocks must stay. A
result that stands elsewhere moves to its batch, a call without one gets a stand-in, and results without a call, or
beside another one, are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from . import wording_v1 as wording
from .pieces_v1 import DROPPED, REPAIR, UNANSWERED, Call, Piece, Result, Text
from .repairs_v1 import Repairs


class Placed(msgspec.Struct, frozen=True, gc=False):
    """A piece and the index of the piece that it was made of."""

    index: int
    piece: Piece
    heard: int = 0
    """How many pieces of others than the agent stand before it."""


def paired(pieces: Sequence[Piece], native: Callable[[Call], bool], repairs: Repairs) -> list[Placed]:
    """Give the pieces that go out, in pairs.

    Args:
        pieces: As assembled.
        native: Says whether a server's call can be sent as it was recorded, with its result inside the model's message.
        repairs: Where to note what had to change.
    """
    return _Pairing(pieces, native, repairs).placed()


class _Pairing:
    def __init__(self, pieces: Sequence[Piece], native: Callable[[Call], bool], repairs: Repairs) -> None:
        self._pieces = pieces
        self._native = native
        self._repairs = repairs
        self._results: dict[int, Placed] = {}
        for index, piece in enumerate(pieces):
            if isinstance(piece.element, Result) and piece.provenance != DROPPED:
                self._results.setdefault(piece.element.node, Placed(index, piece))
        self._calls: dict[int, bool] = {}
        """Calls that go out, by node, and whether natively."""
        self._waiting: list[tuple[Placed, Call]] = []
        self._out: list[Placed] = []
        self._heard = 0

    def placed(self) -> list[Placed]:
        group = ""
        for index, piece in enumerate(self._pieces):
            if piece.role != "assistant":
                self._heard += 1
                if not group:
                    self._answer()
            if piece.provenance == DROPPED:
                continue
            element = piece.element
            if isinstance(element, Result):
                self._pass_result(index, piece, element)
                continue
            if piece.role != "assistant" or piece.group != group or not (group or isinstance(element, Call)):
                self._answer()
            group = piece.group
            if isinstance(element, Call):
                self._pass_call(Placed(index, piece, self._heard), element)
            else:
                self._out.append(Placed(index, piece, self._heard))
        self._answer()
        self._drop_rest()
        return self._out

    def _pass_call(self, placed: Placed, call: Call) -> None:
        if call.node in self._calls:
            self._repairs.drop(placed.piece, "X2: the call stands here already")
            return
        native = call.kind == "server" and self._native(call)
        if call.kind == "server" and not native and not self._is_readable(call.node):
            self._repairs.drop(placed.piece, "a call that only another provider's server answers")
            return
        self._calls[call.node] = native
        self._out.append(placed)
        if not native:
            self._waiting.append((placed, call))

    def _is_readable(self, node: int) -> bool:
        found = self._results.get(node)
        return (
            found is not None
            and isinstance(found.piece.element, Result)
            and any(isinstance(part, Text) for part in found.piece.element.content)
        )

    def _pass_result(self, index: int, piece: Piece, result: Result) -> None:
        if self._calls.get(result.node) and self._results[result.node].index == index:
            self._out.append(Placed(index, piece, self._heard))
        elif not result.server:
            self._answer()

    def _answer(self) -> None:
        """Put the results of the batch behind it."""
        for placed, call in self._waiting:
            self._out.append(self._results.get(call.node) or self._stand_in(placed, call))
        self._waiting.clear()

    def _stand_in(self, placed: Placed, call: Call) -> Placed:
        result = Result(call.id, call.node, UNANSWERED, (Text(wording.NO_RESULT),), name=call.name)
        called = placed.piece
        piece = Piece(REPAIR, "tool", result, called.sources, called.group, "X1: no result was recorded")
        self._repairs.pieces.append(piece)
        return Placed(placed.index, piece)

    def _drop_rest(self) -> None:
        sent = {placed.index for placed in self._out if isinstance(placed.piece.element, Result)}
        for index, piece in enumerate(self._pieces):
            if isinstance(piece.element, Result) and piece.provenance != DROPPED and index not in sent:
                answered = piece.element.node in self._calls
                self._repairs.drop(piece, f"X1: {'a second result' if answered else 'its call is not in the request'}")
