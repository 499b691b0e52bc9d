"""What the two formats of OpenAI have in common: model messages and their results, content parts, tools and marks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import Container, Sequence
from typing import Any, TypeAlias

import msgspec

from .images_v1 import Place, refused
from .marks_v1 import Place as BlockPlace
from .marks_v1 import marked, places
from .media_v1 import Media, media
from .pairing_v1 import Placed
from .pieces_v1 import (
    TURN_MEMORY,
    UNANSWERED,
    VERBATIM,
    Call,
    Document,
    Foreign,
    Image,
    Piece,
    Result,
    Text,
)
from .repairs_v1 import Repairs
from .request_v1 import Item, WireBlock, encode
from .target_v1 import Attachments, Options, Target
from .wire_v1 import is_blank, json_object, read_object, same_model, well_formed

CONTINUE = "Continue."
START = "The conversation starts here."

TEXT_CHARS_MAX = 10_485_760
DATA_URL_CHARS_MAX = 20_971_520
MARK = b'"prompt_cache_breakpoint":{"mode":"explicit"}'
CACHE_OPTIONS = {"mode": "explicit"}
"""Without the automatic mark, which would stand behind volatile text and be written for nothing."""

JsonObject: TypeAlias = dict[str, Any]


class Unit(msgspec.Struct, gc=False):
    """What one message holds, and the results of its calls, in call order."""

    role: str
    said: list[Placed]
    results: list[Placed]

    def takes(self, placed: Placed) -> bool:
        """Say whether a piece belongs to this message too."""
        piece, last = placed.piece, self.said[-1].piece
        if self.results or self.role != _role(piece):
            return False
        if self.role == "assistant":
            return piece.group == last.group and (bool(piece.group) or placed.heard == self.said[-1].heard)
        return bool(piece.sources) and piece.sources == last.sources and piece.volatile == last.volatile


def units(placed: Sequence[Placed], served: Container[int]) -> list[Unit]:
    """Cut the pieces that go out into messages; `served` are the calls that a provider's server answers inside."""
    found: list[Unit] = []
    for each in placed:
        element = each.piece.element
        if isinstance(element, Result) and element.node not in served:
            found[-1].results.append(each)
        elif found and (found[-1].takes(each) or _both_lead(found, each.piece)):
            found[-1].said.append(each)
        else:
            found.append(Unit(_role(each.piece), [each], []))
    return found


def _role(piece: Piece) -> str:
    if isinstance(piece.element, Result):
        return "assistant"
    return piece.role if piece.role == "assistant" or isinstance(piece.element, Text) else "user"


def _both_lead(found: Sequence[Unit], piece: Piece) -> bool:
    """Say whether a piece belongs to the instructions before everything else, which are one message."""
    return len(found) == 1 and leads(found[0]) and piece.role == "system" and piece.provenance != VERBATIM


def leads(unit: Unit) -> bool:
    """Say whether a message is of the frame: system text that nobody said during the talk."""
    return unit.role == "system" and unit.said[0].piece.provenance != VERBATIM


class Parts(ABC):
    """How a format spells the parts of a user's message."""

    own: frozenset[str]
    """Types of parts that may also have been recorded as they are."""

    @abstractmethod
    def text(self, text: str) -> JsonObject:
        """Give a text part."""

    @abstractmethod
    def image(self, url: str) -> JsonObject:
        """Give an image part."""

    @abstractmethod
    def file(self, item: Media, name: str) -> JsonObject | None:
        """Give a file part; None where the format has none for it."""


class Output(msgspec.Struct, gc=False):
    """What a tool gave back: text, and parts that are none."""

    text: str
    parts: list[JsonObject]


class Content:
    """Makes texts and parts of pieces, and notes what had to change."""

    def __init__(
        self, pieces: Sequence[Piece], target: Target, attachments: Attachments, parts: Parts, repairs: Repairs
    ) -> None:
        self._target = target
        self._attachments = attachments
        self._parts = parts
        self._repairs = repairs
        self._refused = refused(pieces, target.images, attachments)

    def is_own(self, provider: str | None, model: str | None) -> bool:
        """X3: the target's own provider and model made it."""
        return provider == self._target.provider and same_model(model, self._target.model)

    def clean(self, piece: Piece, text: str) -> str:
        """Give a text that is well formed and within the limit."""
        clean = well_formed(text)
        if clean is not text:
            self._repairs.note(piece, "X6: half a surrogate pair")
        if len(clean) > TEXT_CHARS_MAX:
            self._repairs.note(piece, f"O11: only {TEXT_CHARS_MAX} characters")
            clean = clean[:TEXT_CHARS_MAX]
        return clean

    def part(self, placed: Placed, place: Place | None = None) -> JsonObject | None:
        """Give the part of a user's message for an element; None where nothing goes out."""
        piece, element = placed.piece, placed.piece.element
        if isinstance(element, Text):
            if not is_blank(element.text):
                return self._parts.text(self.clean(piece, element.text))
            self._repairs.drop(piece, "X4: empty text")
        elif isinstance(element, Foreign):
            return self._foreign(piece, element)
        elif isinstance(element, Image | Document):
            return self._media(place or Place(placed.index), piece, element)
        return None

    def output(self, placed: Placed) -> Output:
        """Give what a result says; a status other than ok stands before the text, for these formats have no flag."""
        piece, element = placed.piece, placed.piece.element
        assert isinstance(element, Result)
        texts: list[str] = []
        parts: list[JsonObject] = []
        for number, each in enumerate(element.content):
            if isinstance(each, Text):
                texts.append(each.text)
            elif isinstance(each, Foreign) and each.provider is None:
                texts.append(each.json)
            else:
                inner = Placed(placed.index, msgspec.structs.replace(piece, element=each))
                if (part := self.part(inner, Place(placed.index, number))) is not None:
                    parts.append(part)
        text = self.clean(piece, "\n".join(texts))
        if element.status != "ok" and piece.provenance != TURN_MEMORY:
            word = "error" if element.status == UNANSWERED else well_formed(element.status)
            text = f"{word}: {text}" if not is_blank(text) else word
        return Output(text, parts)

    def _foreign(self, piece: Piece, element: Foreign) -> JsonObject | None:
        own = element.provider == self._target.provider and (
            element.model is None or same_model(element.model, self._target.model)
        )
        value = read_object(element.json) if own else None
        if value is None or value.get("type") not in self._parts.own:
            self._repairs.drop(piece, "a part that only another provider understands")
        elif "text" in value and is_blank(str(value["text"])):
            self._repairs.drop(piece, "X4: empty text")
        else:
            return {name: member for name, member in value.items() if name != "prompt_cache_breakpoint"}
        return None

    def _media(self, place: Place, piece: Piece, element: Image | Document) -> JsonObject:
        item = media(element, self._attachments)
        why = self._refused.get(place, "") if isinstance(element, Image) else ""
        if not why and len(item.data) > DATA_URL_CHARS_MAX - 100:
            why = f"O11: more than {DATA_URL_CHARS_MAX} characters"
        if not why and isinstance(element, Image):
            return self._parts.image(address(item))
        if not why and isinstance(element, Document) and (part := self._document(item, element)) is not None:
            return part
        self._repairs.note(piece, f"O9: {why or 'no such part'}")
        return self._parts.text(well_formed(item.left_out(why or "left out")))

    def _document(self, item: Media, element: Document) -> JsonObject | None:
        name = well_formed(element.name or element.title or "document")
        if item.data and item.media_type.startswith("text/"):
            text = b64decode(item.data).decode(errors="replace")
            return self._parts.text(f'<document name="{name}">\n{text}\n</document>')
        if self._target.images is None or not (item.data or item.url):
            # A model that reads text only reads no file either.
            return None
        return self._parts.file(item, name)


def address(item: Media) -> str:
    """Give the place of an image or document, its bytes as a data URL."""
    return well_formed(item.url) if item.url else f"data:{item.media_type};base64,{item.data}"


def arguments(piece: Piece, call: Call, repairs: Repairs) -> str:
    """Give a call's arguments exactly as the model spelled them, if that is a JSON object (O5, R12)."""
    data, mended = json_object(call.input)
    if mended:
        repairs.note(piece, f"O5: {mended}")
        return data.decode()
    return "{}" if is_blank(call.input) else call.input


def listed(role: str, head: JsonObject, key: str, parts: Sequence[tuple[JsonObject, tuple[int, ...]]]) -> Item:
    """Give an item whose blocks are parts, in the list under `key`."""
    opening = encode(head)[:-1] + b"," + encode(key) + b":["
    return Item(role, opening, tuple(WireBlock(encode(part), pieces) for part, pieces in parts), b"]}")


def single(role: str, value: JsonObject, pieces: tuple[int, ...]) -> Item:
    """Give an item that is one block."""
    return Item(role, b"", (WireBlock(encode(value), pieces),), b"")


def with_marks(items: Sequence[Item], pieces: Sequence[Piece], target: Target) -> tuple[Item, ...]:
    """O13: mark the ends of prefixes; only parts in lists can carry a mark."""
    cache = target.cache
    if cache is None or not cache.options:
        return tuple(items)
    markable = [bool(item.opening) and item.role != "assistant" for item in items for _ in item.blocks]
    where = places(items, pieces, markable, cache.lookback_blocks)
    if items and items[0].role == "system" and items[0].opening:
        stem = BlockPlace(0, len(items[0].blocks) - 1)
        where = [stem, *(place for place in where if place != stem)]
    room = cache.marks_max
    kept = where if len(where) <= room else [*where[:1], *where[len(where) - room + 1 :]]
    return marked(items, kept, mark=MARK)


def cache_fields(options: Options, target: Target) -> JsonObject:
    """Give the members that steer the cache."""
    fields: JsonObject = {}
    if options.cache and target.cache is not None:
        if target.cache.key and options.cache_key:
            fields["prompt_cache_key"] = options.cache_key
        if target.cache.options:
            fields["prompt_cache_options"] = CACHE_OPTIONS
    return fields


def never(options: Options, target: Target) -> dict[str, str]:
    """Give the members that the caller cannot ask for here, with the reason (O12, O13)."""
    cache = target.cache
    if cache is None or not cache.options:
        found = {"prompt_cache_options": "O13: the model does not know this cache control"}
        return found if cache is not None and cache.key else {**found, "prompt_cache_key": "O12: unknown to the model"}
    return {"prompt_cache_retention": "O13: not together with prompt_cache_options"} if options.cache else {}
