"""What an encoder had to change, gathered as pieces: nothing is mended or left out unseen."""

from __future__ import annotations

from .pieces_v1 import DROPPED, REPAIR, Piece, Text


class Repairs:
    """The repairs of one request, in the order in which they were made."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []

    def drop(self, piece: Piece, rule: str) -> None:
        """Note that a piece does not go out."""
        self.pieces.append(Piece(DROPPED, piece.role, piece.element, piece.sources, piece.group, rule))

    def note(self, piece: Piece, rule: str) -> None:
        """Note that a piece goes out in another form."""
        self.pieces.append(Piece(REPAIR, piece.role, piece.element, piece.sources, piece.group, rule))

    def add(self, role: str, text: str, rule: str) -> None:
        """Note a text that goes out and was never said, or a setting that could not be kept."""
        self.pieces.append(Piece(REPAIR, role, Text(text), rule=rule))
