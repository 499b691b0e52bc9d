"""Deriving one prompt: pieces by an assembler, a request by an encoder, digests over its blocks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec
from blake3 import blake3

from convlog.eventstore import prompt_digests

from . import registry
from .errors import NotDerivable
from .stages import request_v1
from .stages.frame_v1 import MissingPart
from .stages.material_v1 import Material
from .stages.pieces_v1 import Document, Image, Piece, Result
from .stages.request_v1 import Request
from .stages.talk_v1 import MissingOutput
from .stages.target_v1 import Attachments, MissingAttachment, Options, target


class Recipe(msgspec.Struct, frozen=True):
    """By which versions, for which target and with which options a prompt is made."""

    assembler: str
    encoder: str
    profile: bytes
    parameters: str = "{}"
    options: Options = Options()


class Derived:
    """A derived prompt: its pieces and its request; bytes and digests are made when asked for."""

    def __init__(self, recipe: Recipe, pieces: Sequence[Piece], request: Request) -> None:
        self.recipe = recipe
        self.pieces = pieces
        self.request = request

    @cached_property
    def body(self) -> bytes:
        """The bytes of the request."""
        return request_v1.body(self.request)

    @property
    def length(self) -> int:
        """Bytes of the request."""
        return len(self.body)

    @property
    def count(self) -> int:
        """Blocks of the request."""
        return len(self.blocks)

    @cached_property
    def blocks(self) -> list[bytes]:
        """The blocks without marks, in request order."""
        return list(request_v1.blocks(self.request))

    @cached_property
    def rolling(self) -> list[bytes]:
        """r_0 ... r_n."""
        first = request_v1.start(self.request)
        return [first, *request_v1.rolling(first, list(request_v1.links(self.request)))]

    def digests(self, key: bytes) -> str:
        """Give the short keyed digests of the prompt's beginnings, in their slots."""
        found = {
            count: short(key, self.rolled(count)) for count in prompt_digests.counts(self.count) if count is not None
        }
        return prompt_digests.packed(found, self.count)

    def rolled(self, count: int) -> bytes:
        """Give r of the first so many blocks, for a count that has a slot."""
        return self.rolling[count]

    def digest(self, key: bytes) -> str:
        """Give the keyed digest of the whole: blocks, what surrounds them, and marks."""
        return keyed(key, self.rolled(self.count) + self.marks)

    @property
    def marks(self) -> bytes:
        """The cache marks and where they stand."""
        return request_v1.marks(self.request.fields, request_v1.numbered(self.request.items))


def keyed(key: bytes, data: bytes) -> str:
    """Give the keyed blake3 of some data, hex."""
    return blake3(data, key=key).hexdigest()


def short(key: bytes, data: bytes) -> bytes:
    """Give the first bytes of the keyed blake3 of some data."""
    return blake3(data, key=key).digest(length=prompt_digests.DIGEST_BYTES)


def attachments_needed(pieces: Sequence[Piece]) -> set[str]:
    """Give the hashes of the attachments that a request of these pieces may carry."""
    needed: set[str] = set()
    for piece in pieces:
        parts = piece.element.content if isinstance(piece.element, Result) else (piece.element,)
        needed.update(part.attachment for part in parts if isinstance(part, Image | Document) and part.attachment)
    return needed


def assemble(material: Material, recipe: Recipe) -> list[Piece]:
    """Give the pieces of a prompt.

    Raises:
        NoSuchProjection: the assembler's version is not installed.
        NotDerivable: an output that it needs was never kept, or is erased.
    """
    found = registry.get(recipe.assembler, "assembler")
    parameters = registry.parameters_of(found, recipe.parameters)
    try:
        return list(found.function(material, parameters))
    except MissingOutput as error:
        raise NotDerivable(str(error), reason="not recorded") from None
    except MissingPart as error:
        raise NotDerivable(str(error), reason="redacted", hint="give prepare the instructions and tools anew") from None


def encode(pieces: Sequence[Piece], recipe: Recipe, attachments: Attachments) -> Request:
    """Give the request of some pieces.

    Raises:
        NoSuchProjection: the encoder's version is not installed.
        NotDerivable: an attachment that it needs is gone.
    """
    found = registry.get(recipe.encoder, "encoder")
    try:
        request: Request = found.function(pieces, target(recipe.profile), recipe.options, attachments)
    except MissingAttachment as error:
        raise NotDerivable(str(error), reason="attachment gone") from None
    return request
