"""anthropic@1: pieces to an Anthropic Messages request that the API accepts (rules X and A)."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Sequence
from typing import Any

import msgspec

from ..registry import projection
from ..stages import anthropic_messages_v1 as messages_stage
from ..stages import anthropic_settings_v1 as settings
from ..stages.anthropic_messages_v1 import COMPACTION, SERVER_CALLS, THINKING, Block, Messages, text_block
from ..stages.declared_v1 import function, own_fields, schema
from ..stages.images_v1 import Place, refused
from ..stages.marks_v1 import mark_last, marked, places
from ..stages.media_v1 import Media, media
from ..stages.pairing_v1 import paired
from ..stages.pieces_v1 import Call, Document, Foreign, Image, Piece, Reasoning, Result, Text, Tools
from ..stages.repairs_v1 import Repairs
from ..stages.request_v1 import Field, Item, Request, WireBlock, encode
from ..stages.settings_v1 import further
from ..stages.target_v1 import Attachments, Options, Target
from ..stages.tools_v1 import Offer, namer, offered
from ..stages.wire_v1 import is_blank, json_object, read_object, same_model, well_formed, wire_ids

AUTOMATIC = {"type": "ephemeral"}
TOOL_FIELDS = frozenset({"strict", "defer_loading", "input_examples", "allowed_callers", "eager_input_streaming"})
RESULT_PARTS = frozenset({"text", "image", "document", "search_result", "tool_reference"})

_DATED = re.compile(r"[a-z0-9_]+_[0-9]{8}")
_SERVER_ID = re.compile(r"srvtoolu_[a-zA-Z0-9_]+")
_RAW = msgspec.Raw


@projection("anthropic", 1, "encoder")
def build(pieces: Sequence[Piece], target: Target, options: Options, attachments: Attachments) -> Request:
    """Give the Messages request of some pieces."""
    return _Builder(pieces, target, options, attachments).request()


class _Builder:
    def __init__(self, pieces: Sequence[Piece], target: Target, options: Options, attachments: Attachments) -> None:
        self._pieces = pieces
        self._target = target
        self._options = options
        self._attachments = attachments
        self._repairs = Repairs()
        self._ids = wire_ids(pieces)
        self._name = namer(target)
        self._refused = refused(pieces, target.images, attachments)
        self._setting = settings.thinking(options, target, self._repairs)
        self._thinks = settings.is_on(self._setting, target)
        self._system: list[WireBlock] = []
        self._messages = Messages(pieces, self._repairs)
        self._called: list[Call] = []
        self._served: dict[int, Call] = {}

    def request(self) -> Request:
        for placed in paired(self._pieces, self._is_native, self._repairs):
            self._add(placed.index, placed.piece)
        manual = self._thinks and (self._setting or {}).get("type") == "enabled"
        if self._messages.mend(manual=manual, prefill=self._target.prefill and not self._thinks):
            self._setting, self._thinks = settings.DISABLED, False
        items = self._items()
        fields = self._fields()
        if self._options.cache:
            fields, items = self._mark(fields, items)
        return Request(fields, items, tuple(self._repairs.pieces))

    # --- the talk ---

    def _add(self, index: int, piece: Piece) -> None:
        element = piece.element
        match element:
            case Text():
                self._add_text(index, piece, element)
            case Call():
                self._add_call(index, piece, element)
            case Result():
                self._add_result(index, piece, element)
            case Reasoning():
                self._add_reasoning(index, piece, element)
            case Image() | Document():
                self._add_media(index, piece, element)
            case Foreign():
                self._add_foreign(index, piece, element)
            case Tools():
                pass  # declared by `offered`

    def _add_text(self, index: int, piece: Piece, element: Text) -> None:
        if is_blank(element.text):
            self._repairs.drop(piece, "X4: empty text")
            return
        if piece.role == "assistant" and element.opaque is not None and self._is_own(element.provider, element.model):
            value = read_object(element.opaque)
            if value is not None and value.get("type") == "text" and value.get("text") == element.text:
                wire = WireBlock(_unmarked(element.opaque, value), (index,))
                self._messages.say("assistant", Block(wire, "text", text=element.text))
                return
        block = text_block(self._clean(piece, element.text), index)
        if piece.role != "system":
            self._messages.say(piece.role, block)
        elif not self._messages.all:
            self._system.append(block.wire)
        elif self._target.inline_system:
            self._messages.say("system", block)
        else:
            # A25: few models take system text between messages; a user's block that says what it is, all do.
            note = messages_stage.SYSTEM_NOTE.format(block.text)
            self._messages.say("user", text_block(note, index))

    def _add_media(self, index: int, piece: Piece, element: Image | Document) -> None:
        if piece.role == "assistant":
            self._repairs.drop(piece, "media stand in messages of the user")
            return
        self._messages.say("user", Block(WireBlock(self._media(Place(index), piece, element), (index,)), "media"))

    def _add_reasoning(self, index: int, piece: Piece, element: Reasoning) -> None:
        if element.model is None or not self._is_own(element.provider, element.model):
            self._repairs.drop(piece, "X3: reasoning of another model")
        elif not self._thinks:
            self._repairs.drop(piece, "A19: thinking is off")
        elif element.opaque is not None:
            value = read_object(element.opaque)
            if value is None or not _is_sealed(value):
                self._repairs.drop(piece, "A16: reasoning without its signature")
                return
            wire = WireBlock(_unmarked(element.opaque, value), (index,))
            self._messages.say("assistant", Block(wire, str(value["type"])))
        elif element.signature:
            value = {"type": "thinking", "thinking": well_formed(element.text), "signature": element.signature}
            self._messages.say("assistant", Block(WireBlock(encode(value), (index,)), "thinking"))
        else:
            self._repairs.drop(piece, "A16: reasoning without its signature")

    def _add_foreign(self, index: int, piece: Piece, element: Foreign) -> None:
        if element.provider != self._target.provider or not self._is_own(element.provider, element.model):
            self._repairs.drop(piece, "a part that only another provider or model understands")
            return
        value = read_object(element.json)
        kind = (value or {}).get("type")
        if value is None or not isinstance(kind, str) or kind in {"tool_use", "tool_result"}:
            self._repairs.drop(piece, "X6: no part that could be sent")
        elif kind in THINKING:
            self._add_reasoning(index, piece, Reasoning("", None, element.json, element.provider, element.model))
        elif kind == COMPACTION and not value.get("content"):
            self._repairs.drop(piece, "A27: a compaction without content")
        elif kind == "text" and is_blank(str(value.get("text", ""))):
            self._repairs.drop(piece, "X4: empty text")
        else:
            role = "assistant" if piece.role == "assistant" else "user"
            id_ = value.get("id") if kind in SERVER_CALLS else value.get("tool_use_id")
            block = Block(WireBlock(_unmarked(element.json, value), (index,)), kind, str(id_ or ""))
            self._messages.say(role, block)

    # --- calls and results ---

    def _is_native(self, call: Call) -> bool:
        """A12, A26: a server's call goes out as its provider spelled it."""
        if call.model is None or not self._is_own(call.provider, call.model):
            return False
        value = read_object(call.opaque) if call.opaque is not None else None
        if value is None:
            return call.opaque is None and _SERVER_ID.fullmatch(call.id) is not None
        fits = value.get("type") == "mcp_tool_use" or _SERVER_ID.fullmatch(str(value.get("id"))) is not None
        return value.get("type") in SERVER_CALLS and fits

    def _add_call(self, index: int, piece: Piece, element: Call) -> None:
        if element.kind == "server" and self._is_native(element):
            self._served[element.node] = element
            value = read_object(element.opaque) if element.opaque is not None else None
            if value is not None and element.opaque is not None:
                data, kind, id_ = _unmarked(element.opaque, value), str(value["type"]), str(value["id"])
            else:
                data, kind, id_ = (
                    self._use("server_tool_use", element.id, piece, element),
                    "server_tool_use",
                    element.id,
                )
            self._messages.say("assistant", Block(WireBlock(data, (index,)), kind, id_))
            return
        self._called.append(element)
        data = self._use("tool_use", self._ids[element.node], piece, element)
        self._messages.say("assistant", Block(WireBlock(data, (index,)), "tool_use"))

    def _use(self, kind: str, id_: str, piece: Piece, element: Call) -> bytes:
        data, mended = json_object(element.input)
        if mended:
            self._repairs.note(piece, f"A15: {mended}")
        name = self._name(element.name)
        if name != element.name:
            self._repairs.note(piece, f"A13: the name does not fit: {name} in its place")
        return encode({"type": kind, "id": id_, "name": name, "input": _RAW(data)})

    def _add_result(self, index: int, piece: Piece, element: Result) -> None:
        if element.node in self._served:
            self._add_server_result(index, piece, element)
            return
        value: dict[str, object] = {"type": "tool_result", "tool_use_id": self._ids[element.node]}
        content = [
            part
            for number, each in enumerate(element.content)
            if (part := self._result_part(Place(index, number), piece, each)) is not None
        ]
        if content:
            value["content"] = content
        if element.status != "ok":
            value["is_error"] = True
        self._messages.say("user", Block(WireBlock(encode(value), (index,)), "tool_result"))

    def _add_server_result(self, index: int, piece: Piece, element: Result) -> None:
        part = element.content[0] if len(element.content) == 1 else None
        value = read_object(part.json) if isinstance(part, Foreign) else None
        kind = str((value or {}).get("type"))
        if value is None or not isinstance(part, Foreign) or not kind.endswith("_tool_result"):
            self._repairs.drop(piece, "A26: no result of a server's own")
            return
        block = Block(WireBlock(_unmarked(part.json, value), (index,)), kind, str(value.get("tool_use_id")))
        self._messages.say("assistant", block)

    def _result_part(
        self, place: Place, piece: Piece, part: Text | Image | Document | Foreign
    ) -> dict[str, Any] | msgspec.Raw | None:
        match part:
            case Text():
                text = part.text
            case Foreign() if part.provider is None:
                text = part.json
            case Foreign():
                value = read_object(part.json) if part.provider == self._target.provider else None
                if value is not None and value.get("type") in RESULT_PARTS:
                    return _RAW(_unmarked(part.json, value))
                self._repairs.drop(piece, "a part that only another provider understands")
                return None
            case _:
                return _RAW(self._media(place, piece, part))
        return None if is_blank(text) else {"type": "text", "text": self._clean(piece, text)}

    # --- parts ---

    def _clean(self, piece: Piece, text: str) -> str:
        clean = well_formed(text)
        if clean is not text:
            self._repairs.note(piece, "X6: half a surrogate pair")
        return clean

    def _media(self, place: Place, piece: Piece, element: Image | Document) -> bytes:
        """A30: images as far as the model takes them; words in the place of the others."""
        item = media(element, self._attachments)
        why = self._refused.get(place, "") if isinstance(element, Image) else ""
        source = _source(item)
        if why or source is None:
            self._repairs.note(piece, f"A30: {why or 'no source that is taken'}")
            return encode({"type": "text", "text": well_formed(item.left_out(why or "left out"))})
        value: dict[str, object] = {"type": item.kind, "source": source}
        if isinstance(element, Document) and element.title:
            value["title"] = well_formed(element.title)
        return encode(value)

    def _is_own(self, provider: str | None, model: str | None) -> bool:
        return provider == self._target.provider and (model is None or same_model(model, self._target.model))

    # --- around the talk ---

    def _items(self) -> tuple[Item, ...]:
        openings = {role: b'{"role":' + encode(role) + b',"content":[' for role in ("user", "assistant", "system")}
        return tuple(
            Item(message.role, openings[message.role], tuple([block.wire for block in message.blocks]), b"]}")
            for message in self._messages.all
        )

    def _fields(self) -> tuple[Field, ...]:
        options, target = self._options, self._target
        fields = [
            Field("model", encode(target.model)),
            Field("max_tokens", encode(options.max_tokens or target.output_tokens_max)),
        ]
        if self._system:
            data = b"[" + b",".join(block.data for block in self._system) + b"]"
            fields.append(Field("system", data, None, tuple(index for block in self._system for index in block.pieces)))
        tools, names = self._tools()
        if tools is not None:
            fields.append(tools)
            chosen = self._name(options.tool_choice or "")
            name = chosen if chosen in names else None
            choice = settings.tool_choice(options, target, name, self._repairs, thinks=self._thinks)
            if choice is not None:
                fields.append(Field("tool_choice", encode(choice)))
        if self._setting is not None:
            fields.append(Field("thinking", encode(self._setting)))
        taken = [field.name for field in fields] + ["messages", "system", "tools", "tool_choice", "thinking"]
        return (*fields, *further(options, target, taken, self._repairs), Field("messages", None))

    def _tools(self) -> tuple[Field | None, set[str]]:
        """A34: what the talk calls stays declared; where only servers were called, their tools are."""
        offers = offered(self._pieces, self._called, self._target, _is_dated, self._repairs)
        if not offers and self._served:
            offers = offered(self._pieces, list(self._served.values()), self._target, _is_dated, self._repairs)
        if not offers:
            return None, set()
        data = encode([self._tool(offer) for offer in offers])
        index = next((offer.declaration.index for offer in offers if offer.declaration.index is not None), None)
        names = {offer.declaration.name for offer in offers}
        return Field("tools", data, None, () if index is None else (index,)), names

    def _tool(self, offer: Offer) -> dict[str, Any]:
        tool = offer.declaration.tool
        if offer.type and tool.extra is not None:
            own = {name: value for name, value in (read_object(tool.extra) or {}).items() if name != "cache_control"}
            return {"type": offer.type, "name": offer.declaration.name, **own}
        value = {**function(offer.declaration), "input_schema": schema(offer.declaration)}
        return value | own_fields(tool, TOOL_FIELDS, self._repairs)

    def _mark(self, fields: tuple[Field, ...], items: tuple[Item, ...]) -> tuple[tuple[Field, ...], tuple[Item, ...]]:
        """A22-A24: four marks of one lifetime, that of the automatic mark if the caller asks for it."""
        cache = self._target.cache
        if cache is None or cache.kind != "breakpoints":
            return fields, items
        automatic = (self._options.extra or {}).get("cache_control")
        mark = b'"cache_control":' + encode(automatic or AUTOMATIC)
        room = cache.marks_max - (automatic is not None)
        stem = "system" if self._system else "tools"
        if room > 0 and any(field.name == stem for field in fields):
            fields = tuple(mark_last(field, mark) if field.name == stem else field for field in fields)
            room -= 1
        markable = [block.type not in THINKING for message in self._messages.all for block in message.blocks]
        where = places(items, self._pieces, markable, cache.lookback_blocks)
        return fields, marked(items, where[max(0, len(where) - room) :] if room > 0 else [], mark=mark)


def _is_dated(kind: str) -> bool:
    """Tools that the provider defines carry a date in their type."""
    return _DATED.fullmatch(kind) is not None


def _is_sealed(value: dict[str, Any]) -> bool:
    """A16: thinking has its signature, redacted thinking its data."""
    proof = {"thinking": "signature", "redacted_thinking": "data"}.get(str(value.get("type")))
    return proof is not None and isinstance(value.get(proof), str) and bool(value[proof])


def _unmarked(text: str, value: dict[str, Any]) -> bytes:
    """Give an opaque part as spelled; a cache mark in it belonged to another request (A22)."""
    if "cache_control" in value:
        return encode({name: member for name, member in value.items() if name != "cache_control"})
    return text.strip().encode()


def _source(item: Media) -> dict[str, str] | None:
    if item.url:
        return {"type": "url", "url": well_formed(item.url)}
    if not item.data:
        return None
    if item.kind == "image" or item.media_type == "application/pdf":
        return {"type": "base64", "media_type": item.media_type, "data": item.data}
    if item.media_type.startswith("text/"):
        text = b64decode(item.data).decode(errors="replace")
        return None if is_blank(text) else {"type": "text", "media_type": "text/plain", "data": text}
    return None
