"""What was encoded of a thread's settled turns: bytes, the rolling digest behind them, and what a window must know.

A window is encoded without these turns. What an encoder judges over a whole request (names that may stand there once,
how many images there are, which summary is the newest) is therefore kept of them too: where a window touches it, the
window must be the whole path.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

import msgspec
from blake3 import blake3

from convlog.eventstore import prompt_digests

from .stages import pieces_v1 as kinds
from .stages import request_v1
from .stages.pieces_v1 import Call, Document, Foreign, Image, Piece, Reasoning, Result, Text
from .stages.request_v1 import Item
from .stages.target_v1 import ImageFacts
from .stages.wire_v1 import make_common, make_mistral, read_object

SERVER = "server"
CALLS_ALONE: frozenset[str] = frozenset()
DOCUMENTS = "documents"
"""They are named apart from all others of their request, so two windows with documents do not fit together."""
SEALS = "seals"
"""One may stand once in a request."""
ITEMS = "items"
"""An item may stand once in a request, and one that needs another only where that one stands."""
COMPACTIONS = "compactions"
"""The provider reads nothing before one, which decides how the whole request is mended."""

JUDGED: Mapping[str, frozenset[str]] = {
    "anthropic@1": frozenset({COMPACTIONS}),
    "openai-chat@1": CALLS_ALONE,
    "openai-responses@1": frozenset({ITEMS}),
    "gemini@1": frozenset({SEALS}),
    "bedrock@1": frozenset({DOCUMENTS}),
}
"""Encoder to what it judges over a whole request, besides the ids of calls; another one may judge anything of these."""

ANYTHING = frozenset({DOCUMENTS, SEALS, ITEMS, COMPACTIONS})
SEAL_MEMBERS = ("signature", "thoughtSignature")


class KeptSummary(msgspec.Struct, frozen=True, array_like=True):
    """The newest summary among settled turns: encoders look for its place when they set cache marks."""

    piece: bytes
    """The piece, as JSON."""
    chunk: int
    """Index of the chunk that is its item."""
    number: int
    """Number of the item's first block in the request's."""
    block: int
    """Which of the item's blocks it is."""
    item: bytes
    """The item without marks, as msgpack."""


class Portion(msgspec.Struct, frozen=True, array_like=True):
    """What was added to a `Kept` since another one was taken of it."""

    chunks: tuple[bytes, ...]
    count: int
    rolled: tuple[tuple[int, bytes], ...]
    names: tuple[str, ...]
    images: int
    undeclared: tuple[str, ...]
    summary: KeptSummary | None


class Settled(msgspec.Struct, frozen=True):
    """Turns that leave a window: their pieces, and what they became."""

    pieces: Sequence[Piece]
    """All of the window's: blocks name theirs by index."""
    talk: range
    """Indexes of those that belong to the turns."""
    items: Sequence[Item]
    rolling: Sequence[bytes]
    """r behind each of the items' blocks."""
    responses: Collection[str]
    """Ids of the responses that they hold."""
    undeclared: Collection[str]
    """Names of tools that the window calls and nobody declared."""
    is_marked: bool
    """Whether cache marks are set in requests of this recipe."""


class Kept:
    """What was encoded of settled turns. Only ever grows: prompts made earlier remember how much of it was theirs."""

    def __init__(self, encoder: str, lead: Sequence[bytes]) -> None:
        self._encoder = encoder
        self._judged = JUDGED.get(encoder, ANYTHING)
        self.lead_count = len(lead) - 1
        """Blocks before the talk (a system message inside the list)."""
        self.rolled = dict(enumerate(lead))
        """r at the counts that digests may be asked for, from r_0 on."""
        self.count = self.lead_count
        """Blocks, those before the talk included."""
        self.chunks: list[bytes] = []
        """Items as JSON, some at a time, commas between those of one chunk."""
        self.length = 0
        """Bytes of the chunks."""
        self.names: dict[str, None] = {}
        """What may stand once in a request."""
        self.images = 0
        self.undeclared: dict[str, None] = {}
        """Names of tools that these turns call and nobody declared, in the order of the calls."""
        self.summary: KeptSummary | None = None

    def copy(self) -> Kept:
        """Give another that grows apart from this one."""
        lead = [self.rolled[number] for number in range(self.lead_count + 1)]
        found = Kept(self._encoder, lead)
        found.add(self.since(0, 0))
        return found

    def goes_on_from(self, lead: Sequence[bytes]) -> bool:
        """Whether what stands before the talk is the same as when this was kept."""
        return self.lead_count == len(lead) - 1 and self.rolled[self.lead_count] == lead[-1]

    def fits(self, pieces: Sequence[Piece], responses: Collection[str], images: ImageFacts | None) -> bool:
        """Whether a window of these pieces and responses is derived as it would be behind the settled turns."""
        here_too = (name in self.names for piece in pieces for name in names_of(piece, self._judged))
        if COMPACTIONS in self.names or any(here_too):
            return False
        if any(_response(name) in self.names for name in responses):
            return False
        return self.has_room(pieces, images)

    def has_room(self, pieces: Sequence[Piece], images: ImageFacts | None) -> bool:
        """Whether all images go out that a model takes: where they are too many, each hangs on all others."""
        here = sum(_images(piece) for piece in pieces)
        most = [] if images is None else [most for most in (images.count_max, images.crowd_count) if most is not None]
        return all(here + self.images <= limit for limit in most)

    def take(self, settled: Settled) -> None:
        """Add settled turns."""
        for piece in settled.pieces[settled.talk.start : settled.talk.stop]:
            self.names.update(dict.fromkeys(names_of(piece, self._judged)))
            self.images += _images(piece)
        self.names.update(dict.fromkeys(map(_response, settled.responses)))
        for piece in _said(settled):
            element = piece.element
            if isinstance(element, Call) and element.kind != SERVER and element.name in settled.undeclared:
                self.undeclared[element.name] = None
        self._put(settled)
        self.rolled.update(enumerate(settled.rolling, self.count + 1))
        self.count += len(settled.rolling)
        recent = self.count - prompt_digests.RECENT
        for number in [number for number in self.rolled if self.lead_count < number < recent and number & (number - 1)]:
            del self.rolled[number]

    def _put(self, settled: Settled) -> None:
        found = _newest_summary(settled) if settled.is_marked else None
        if found is None:
            self._add(settled.items)
            return
        index, block, piece = found
        before, item = settled.items[:index], settled.items[index]
        number = self.count + sum(len(each.blocks) for each in before)
        self._add(before)
        self.summary = KeptSummary(
            piece=msgspec.json.encode(piece),
            chunk=len(self.chunks),
            number=number,
            block=block,
            item=msgspec.msgpack.encode(item),
        )
        self._add([item])
        self._add(settled.items[index + 1 :])

    def _add(self, items: Sequence[Item]) -> None:
        if items:
            self.chunks.append(b",".join(request_v1.item_bytes(item) for item in items))
            self.length += len(self.chunks[-1])

    # --- in portions ---

    def since(self, chunks: int, names: int) -> Portion:
        """Give what was added since there were so many chunks and names."""
        return Portion(
            chunks=tuple(self.chunks[chunks:]),
            count=self.count,
            rolled=tuple(self.rolled.items()),
            names=tuple(list(self.names)[names:]),
            images=self.images,
            undeclared=tuple(self.undeclared),
            summary=self.summary,
        )

    def add(self, portion: Portion) -> None:
        """Add what `since` gave."""
        self.chunks.extend(portion.chunks)
        self.length += sum(len(chunk) for chunk in portion.chunks)
        self.count, self.images, self.summary = portion.count, portion.images, portion.summary
        self.rolled = dict(portion.rolled)
        self.names.update(dict.fromkeys(portion.names))
        self.undeclared.update(dict.fromkeys(portion.undeclared))


def raw(chunk: bytes) -> Item:
    """Give an item that is some items' bytes."""
    return Item("", chunk, (), b"")


def unmarked(item: Item) -> Item:
    """Give an item without cache marks."""
    blocks = tuple(msgspec.structs.replace(block, mark=b"", after=b"") for block in item.blocks)
    return msgspec.structs.replace(item, blocks=blocks)


def names_of(piece: Piece, judged: Collection[str]) -> Iterator[str]:
    """Iterate over what a piece brings that may stand once in a request, or is looked for in it.

    Args:
        piece: the piece.
        judged: what the encoder judges over a whole request, besides calls.
    """
    element = piece.element
    if isinstance(element, Call):
        # Ids are made unique over all calls, those that are left out among them.
        yield from _call_names(element.id)
    if piece.provenance == kinds.DROPPED or not judged:
        return
    parts = element.content if isinstance(element, Result) else (element,)
    for part in parts:
        if isinstance(part, Text | Reasoning | Call):
            yield from _own_names(part.signature, part.opaque, (part.item, part.needs), judged)
        elif isinstance(part, Foreign):
            yield from _own_names(None, part.json, (part.item, part.needs), judged)
        elif isinstance(part, Document) and DOCUMENTS in judged:
            yield DOCUMENTS


@lru_cache(maxsize=4096)
def _call_names(id_: str) -> tuple[str, ...]:
    """Give an id, and what it becomes where it does not fit the wire."""
    return f"call {id_}", f"call {make_common(id_)}", f"call {make_mistral(id_)}"


def _own_names(
    signature: str | None, opaque: str | None, items: Sequence[str | None], judged: Collection[str]
) -> Iterator[str]:
    """Iterate over the names in a provider's own part."""
    value = (read_object(opaque) if opaque else None) or {}
    if SEALS in judged:
        yield from (_short(str(seal)) for seal in (signature, *(value.get(name) for name in SEAL_MEMBERS)) if seal)
    if ITEMS in judged:
        yield from (_short(str(item)) for item in (*items, value.get("id")) if item)
    if COMPACTIONS in judged and value.get("type") == "compaction":
        yield COMPACTIONS


def _short(name: str) -> str:
    return blake3(name.encode(errors="surrogatepass")).hexdigest(length=12)


def _response(id_: str) -> str:
    return f"response {id_}"


def _images(piece: Piece) -> int:
    element = piece.element
    parts = element.content if isinstance(element, Result) else (element,)
    return 0 if piece.provenance == kinds.DROPPED else sum(isinstance(part, Image) for part in parts)


def _said(settled: Settled) -> Iterator[Piece]:
    """Iterate over the pieces that went out."""
    return (settled.pieces[index] for item in settled.items for block in item.blocks for index in block.pieces)


def _newest_summary(settled: Settled) -> tuple[int, int, Piece] | None:
    """Give (index of the item, place of the block in it, piece) of the last summary."""
    for index in reversed(range(len(settled.items))):
        blocks = settled.items[index].blocks
        for place in reversed(range(len(blocks))):
            for made_of in blocks[place].pieces:
                if settled.pieces[made_of].provenance == kinds.SUMMARY:
                    return index, place, settled.pieces[made_of]
    return None


def summary_piece(kept: KeptSummary) -> Piece:
    """Give the piece of a kept summary."""
    return msgspec.json.decode(kept.piece, type=Piece)


def summary_item(kept: KeptSummary, mark: bytes = b"", after: bytes = b"") -> Item:
    """Give the item of a kept summary, with a mark on it."""
    item = msgspec.msgpack.decode(kept.item, type=Item)
    blocks = list(item.blocks)
    blocks[kept.block] = msgspec.structs.replace(blocks[kept.block], mark=mark, after=after)
    return msgspec.structs.replace(item, blocks=tuple(blocks))
