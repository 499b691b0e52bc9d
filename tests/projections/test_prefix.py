"""Talks of which an earlier request's blocks did not begin the next one's, found at random and kept."""

from __future__ import annotations

import pytest

from convlog.projections.stages.pieces_v1 import DROPPED, VERBATIM, Call, Piece, Reasoning, Result, Text

from .encoding import assert_prefix, blocks_with_pieces, cuts, encoded
from .test_round_trip import TARGETS


def said(position: int, text: str = "Rain tonight.") -> Piece:
    """Give what the agent said in a response that nothing is known of."""
    return Piece(VERBATIM, "assistant", Text(text), (position,))


def called(position: int) -> Piece:
    return Piece(VERBATIM, "assistant", Call("call_1", position, "read_gauge", "{}"), (position,))


def answered(position: int, node: int) -> Piece:
    return Piece(VERBATIM, "tool", Result("call_1", node, "ok", name="read_gauge"), (position,))


def thought(position: int) -> Piece:
    return Piece(VERBATIM, "assistant", Reasoning("Hm.", provider="moonshot", model="kimi-k2.5"), (position,))


def asked(position: int, text: str = "Is it wet?") -> Piece:
    return Piece(VERBATIM, "user", Text(text), (position,))


ERASED = Piece(DROPPED, "user", Text(""), (2,))

TALKS = {
    "a stray result between texts": [said(1), answered(2, 9999), said(3)],
    "a result that stands at its call": [asked(1), thought(3), called(4), said(5), answered(6, 4), said(7)],
    "an erased input between texts": [said(1), ERASED, said(3)],
    "an erased input between calls": [called(1), ERASED, called(3), answered(4, 3)],
    "an empty input between texts": [asked(1), said(2), asked(3, " "), said(4)],
    "a second result between texts": [asked(1), called(2), answered(3, 2), said(4), answered(5, 2), said(6)],
}


@pytest.mark.parametrize("name", TALKS)
@pytest.mark.parametrize(("wire_format", "profile_id"), [*TARGETS, ("openai-chat", "mistral")])
def test_what_another_said_parts_what_the_agent_says_even_if_it_is_left_out(
    wire_format: str, profile_id: str, name: str
) -> None:
    pieces = TALKS[name]
    later = encoded(pieces, profile_id, wire_format, {})
    assert cuts(pieces)
    for cut in cuts(pieces):
        assert_prefix(encoded(pieces[:cut], profile_id, wire_format, {}), later, pieces[:cut])
    assert blocks_with_pieces(later)
