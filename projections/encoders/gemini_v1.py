"""gemini@1: pieces to the body of a Gemini generateContent request that the API accepts (rules X and G).

The model is named in the address, not in the body. A content with function responses holds nothing else (G6): what the
user says right after them is parted from them by a short word of the model's, and volatile text, which must not end the
turn that the model is in, goes into the last response under `context`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..registry import projection
from ..stages.declared_v1 import function, own_fields, schema
from ..stages.gemini_parts_v1 import SENTINEL, SIGNATURE, Signatures, own_part
from ..stages.images_v1 import Place, refused
from ..stages.media_v1 import Media, media
from ..stages.messages_v1 import CALL, RESULT, SAID, THOUGHT, Message, Part, Talk, is_only_thought
from ..stages.pairing_v1 import paired
from ..stages.pieces_v1 import (
    TURN_MEMORY,
    Call,
    Document,
    Foreign,
    Image,
    Piece,
    Reasoning,
    Result,
    Text,
    Tools,
)
from ..stages.repairs_v1 import Repairs
from ..stages.request_v1 import Field, Item, Request, WireBlock, encode
from ..stages.settings_v1 import further
from ..stages.target_v1 import Attachments, Options, Target
from ..stages.tools_v1 import Offer, namer, offered
from ..stages.wire_v1 import is_blank, json_object, read_object, same_model, well_formed, wire_ids

PROVIDER = "google"
SYSTEM_NOTE = "<system>\n{}\n</system>"

FUNCTION_FIELDS = frozenset({"behavior", "parameters", "response", "responseJsonSchema"})
SERVER_TOOLS = frozenset(
    {"codeExecution", "computerUse", "enterpriseWebSearch", "googleMaps", "googleSearch", "urlContext"}
)
CHOICES = {"auto": "AUTO", "any": "ANY", "none": "NONE"}


@projection("gemini", 1, "encoder")
def build(pieces: Sequence[Piece], target: Target, options: Options, attachments: Attachments) -> Request:
    """Give the generateContent request of some pieces."""
    return _Builder(pieces, target, options, attachments).request()


class _Builder:
    def __init__(self, pieces: Sequence[Piece], target: Target, options: Options, attachments: Attachments) -> None:
        self._pieces = pieces
        self._target = target
        self._options = options
        self._attachments = attachments
        self._ids = wire_ids(pieces)
        self._name = namer(target)
        self._repairs = Repairs()
        self._refused = refused(pieces, target.images, attachments)
        self._talk = Talk("model", _text, "G6")
        self._system: list[dict[str, Any]] = []
        self._system_pieces: list[int] = []
        self._calls: dict[int, Call] = {}
        self._signatures = Signatures()

    def request(self) -> Request:
        for placed in paired(self._pieces, self._is_own_server_call, self._repairs):
            self._add(placed.index, placed.piece)
        for part in self._talk.drop_thoughts(is_only_thought):
            self._repairs.drop(self._pieces[part.pieces[0]], "X4: reasoning alone is no message")
        items = tuple(_item(message) for message in self._talk.close(self._repairs))
        return Request(self._fields(), items, tuple(self._repairs.pieces))

    # --- the talk ---

    def _add(self, index: int, piece: Piece) -> None:
        element = piece.element
        match element:
            case Text():
                self._add_text(index, piece, element)
            case Image() | Document():
                self._say(piece, Part(self._media_part(Place(index), piece, element), (index,)))
            case Reasoning():
                self._add_reasoning(index, piece, element)
            case Foreign():
                self._add_foreign(index, piece, element)
            case Call():
                self._add_call(index, piece, element)
            case Result():
                self._add_result(index, piece, element)
            case Tools():
                pass

    def _say(self, piece: Piece, part: Part) -> None:
        self._talk.say("model" if piece.role == "assistant" else "user", part)

    def _add_text(self, index: int, piece: Piece, element: Text) -> None:
        own = piece.role == "assistant" and self._is_own(element.provider, element.model)
        if own and element.opaque is not None and own_part(element.opaque) is not None:
            self._say_own(index, piece, element.opaque, SAID)
            return
        if is_blank(element.text):
            seal = self._signature(piece, element.signature) if own else None
            if seal is None:
                self._repairs.drop(piece, "X4: empty text")
            else:
                self._say(piece, Part({"text": "", SIGNATURE: seal}, (index,), THOUGHT, piece.group))
            return
        text = self._formed(piece, element.text)
        if piece.role == "system" and self._talk.last is None:
            self._system.append(_text(text))
            self._system_pieces.append(index)
            return
        if piece.role == "system":
            self._repairs.note(piece, "G1: no system text between contents")
            text = SYSTEM_NOTE.format(text)
        if piece.volatile and self._talk.is_closed:
            self._carry(index, piece, text)
            return
        value = _text(text)
        if own and (signature := self._signature(piece, element.signature)) is not None:
            value[SIGNATURE] = signature
        self._say(piece, Part(value, (index,), group=piece.group))

    def _formed(self, piece: Piece, text: str) -> str:
        formed = well_formed(text)
        if formed != text:
            self._repairs.note(piece, "X6: half a surrogate pair")
        return formed

    def _carry(self, index: int, piece: Piece, text: str) -> None:
        """Put a volatile text into the last response: no other place leaves the model in its turn (G6, G9)."""
        assert self._talk.last is not None
        part = self._talk.last.parts[-1]
        answer = part.value["functionResponse"]
        if not isinstance(answer["response"], dict):
            answer["response"] = {"output": answer["response"]}
        before = answer["response"].get("context")
        answer["response"]["context"] = text if before is None else f"{before}\n{text}"
        part.pieces = (*part.pieces, index)
        self._repairs.note(piece, "G6: carried by the last function response")

    def _add_reasoning(self, index: int, piece: Piece, element: Reasoning) -> None:
        if not self._is_own(element.provider, element.model):
            self._repairs.drop(piece, "X3: reasoning of another model")
            return
        if element.opaque is not None:
            self._say_own(index, piece, element.opaque, THOUGHT)
            return
        signature = self._signature(piece, element.signature)
        if not is_blank(element.text):
            value = {"text": self._formed(piece, element.text), "thought": True}
            if signature:
                value[SIGNATURE] = signature
            self._say(piece, Part(value, (index,), THOUGHT, piece.group))
        elif signature is None:
            self._repairs.drop(piece, "G3: reasoning without text and signature")
        else:
            self._say(piece, Part({"text": "", SIGNATURE: signature}, (index,), THOUGHT, piece.group))

    def _add_foreign(self, index: int, piece: Piece, element: Foreign) -> None:
        if element.provider == PROVIDER and (element.model is None or self._is_own(PROVIDER, element.model)):
            self._say_own(index, piece, element.json, SAID)
        else:
            self._repairs.drop(piece, "a part that only another provider understands")

    def _say_own(self, index: int, piece: Piece, text: str, kind: str) -> None:
        """Send a part back as it was recorded (G2, G3, G10)."""
        part = own_part(text)
        signature = None
        if part is not None and part.signature is not None and piece.role == "assistant":
            signature = self._signature(piece, part.signature)
        if part is None or (part.is_blank and signature is None):
            self._repairs.drop(piece, "G2: no part that can go back")
            return
        value = part.value if signature is None else {**part.value, SIGNATURE: signature}
        self._say(piece, Part(value, (index,), kind, piece.group))

    def _add_call(self, index: int, piece: Piece, call: Call) -> None:
        if self._is_own_server_call(call):
            self._say_own(index, piece, call.opaque or "", SAID)
            return
        args, mended = json_object(call.input)
        if mended:
            self._repairs.note(piece, f"G12: {mended}")
        asked: dict[str, Any] = {"name": self._name(call.name), "args": msgspec.Raw(args)}
        if not self._is_without_id(call):
            asked = {"id": self._ids[call.node], **asked}
            if self._ids[call.node] != call.id:
                self._repairs.note(piece, "X2: the id does not fit, or stands here already")
        if asked["name"] != call.name:
            self._repairs.note(piece, "G13: the name does not fit")
        value: dict[str, Any] = {"functionCall": asked}
        if (signature := self._call_signature(piece, call)) is not None:
            value[SIGNATURE] = signature
        self._calls[call.node] = call
        self._say(piece, Part(value, (index,), CALL, piece.group))

    def _is_without_id(self, call: Call) -> bool:
        """Say whether this model made a call without an id; it then goes back without one."""
        if call.opaque is None or not self._is_own(call.provider, call.model):
            return False
        asked = (read_object(call.opaque) or {}).get("functionCall")
        return isinstance(asked, dict) and "id" not in asked

    # --- thought signatures ---

    def _call_signature(self, piece: Piece, call: Call) -> str | None:
        """Give a call's signature (G9), or the sentinel for the first call of a step that has none (G11).

        All steps get it, not those of the current turn alone, so that a content stays as it was once it is sent.
        """
        last = self._talk.last
        first = last is None or last.role != "model" or all(part.kind != CALL for part in last.parts)
        signed = self._target.thought_signatures
        own = None
        if call.signature is not None and not self._is_own(call.provider, call.model):
            self._repairs.note(piece, "X3: a signature of another model")
        elif call.signature is not None and signed and not first:
            self._repairs.note(piece, "G9: only the first call of a step is signed")
        else:
            own = self._signature(piece, call.signature)
        if own is None and signed and first:
            self._repairs.note(piece, "G11: a call without this model's signature")
            return SENTINEL
        return own

    def _signature(self, piece: Piece, signature: str | None) -> str | None:
        """Give a signature that may go out: base64, and not on an earlier part (G10)."""
        taken = self._signatures.take(signature)
        if signature and taken is None and signature != SENTINEL:
            self._repairs.note(piece, "G10: a signature that is corrupted, or stands on another part")
        return taken

    def _is_own(self, provider: str | None, model: str | None) -> bool:
        return provider == PROVIDER and same_model(model, self._target.model)

    def _is_own_server_call(self, call: Call) -> bool:
        if call.kind != "server" or call.opaque is None or not self._is_own(call.provider, call.model):
            return False
        part = own_part(call.opaque)
        return part is not None and part.is_server_call

    # --- results ---

    def _add_result(self, index: int, piece: Piece, result: Result) -> None:
        call = self._calls.get(result.node)
        if call is None:
            part = result.content[0] if len(result.content) == 1 else None
            self._say_own(index, piece, part.json if isinstance(part, Foreign) else "", SAID)
            return
        response, parts = self._response(index, piece, result)
        answer: dict[str, Any] = {"name": self._name(call.name), "response": response}
        if not self._is_without_id(call):
            answer = {"id": self._ids[call.node], **answer}
        if parts:
            answer["parts"] = parts
        self._talk.say("user", Part({"functionResponse": answer}, (index,), RESULT, piece.group))

    def _response(
        self, index: int, piece: Piece, result: Result
    ) -> tuple[dict[str, Any] | msgspec.Raw, list[dict[str, Any]]]:
        """Give the response object (G12), and the media beside it."""
        texts: list[str] = []
        parts: list[dict[str, Any]] = []
        for number, part in enumerate(result.content):
            match part:
                case Text():
                    texts.append(self._formed(piece, part.text))
                case Foreign() if part.provider is None:
                    texts.append(self._formed(piece, part.json))
                case Foreign():
                    texts.append(f"[{part.provider}: a part that only it understands]")
                    self._repairs.note(piece, "a part that only another provider understands")
                case _:
                    value = self._media_part(Place(index, number), piece, part)
                    if "text" in value:
                        texts.append(value["text"])
                    else:
                        parts.append(value)
        text = "\n".join(texts)
        if piece.provenance == TURN_MEMORY and not parts and not is_blank(text):
            data, mended = json_object(text)
            if not mended:
                return msgspec.Raw(data), parts
        if result.status == "ok":
            return {"output": text}, parts
        return {"error": result.status if is_blank(text) else text}, parts

    def _media_part(self, place: Place, piece: Piece, element: Image | Document) -> dict[str, Any]:
        found = media(element, self._attachments)
        why = self._refused.get(place) if isinstance(element, Image) else _document_fault(found)
        if why:
            self._repairs.note(piece, f"{found.kind} left out: {why}")
            return _text(found.left_out(why))
        if found.url:
            return {"fileData": {"mimeType": found.media_type, "fileUri": found.url}}
        return {"inlineData": {"mimeType": found.media_type, "data": found.data}}

    # --- around the talk ---

    def _fields(self) -> tuple[Field, ...]:
        options = self._options
        extra = dict(options.extra or {})
        tools = offered(self._pieces, list(self._calls.values()), self._target, _no_kind, self._repairs)
        fields: list[Field] = []
        if self._system:
            fields.append(Field("systemInstruction", encode({"parts": self._system}), None, tuple(self._system_pieces)))
        if tools:
            sources = tuple(sorted({each.declaration.index for each in tools if each.declaration.index is not None}))
            fields.append(Field("tools", encode(self._declarations(tools)), None, sources))
            if (choice := self._choice(tools)) is not None:
                fields.append(Field("toolConfig", encode({"functionCallingConfig": choice})))
        if extra.get("cachedContent") is not None:
            for field in fields:
                self._repairs.add("system", field.name, "G14: cachedContent has its own")
            fields.clear()
        fields.append(Field("generationConfig", encode(self._generation(extra.pop("generationConfig", None)))))
        rest = msgspec.structs.replace(options, extra=extra)
        taken = {"contents", "systemInstruction", "tools", "toolConfig"}
        return (*fields, *further(rest, self._target, taken, self._repairs), Field("contents", None))

    def _generation(self, given: Any) -> dict[str, Any]:
        options = self._options
        config: dict[str, Any] = {"maxOutputTokens": options.max_tokens or self._target.output_tokens_max}
        if options.thinking is not None:
            config["thinkingConfig"] = options.thinking
        return {**config, **given} if isinstance(given, Mapping) else config

    def _declarations(self, tools: Sequence[Offer]) -> list[dict[str, Any]]:
        """Give the functions in the order of their names (X7), then what runs on the provider's servers."""
        functions: list[dict[str, Any]] = []
        servers: list[dict[str, Any]] = []
        for offer in tools:
            each = offer.declaration
            own = own_fields(each.tool, FUNCTION_FIELDS | SERVER_TOOLS, self._repairs)
            if own.keys() & SERVER_TOOLS:
                servers.append(own)
            elif "parameters" in own:
                functions.append({**function(each), **own})
            else:
                functions.append({**function(each), "parametersJsonSchema": schema(each), **own})
        return [{"functionDeclarations": functions}, *servers] if functions else servers

    def _choice(self, tools: Sequence[Offer]) -> dict[str, Any] | None:
        choice = self._options.tool_choice
        if self._options.parallel_tools is not None:
            self._repairs.add("system", "parallel_tools", "this format has no such setting")
        if choice is None or choice in CHOICES:
            return None if choice is None else {"mode": CHOICES[choice]}
        if self._name(choice) not in {each.declaration.name for each in tools}:
            self._repairs.add("system", choice, "not chosen: no such tool")
            return None
        return {"mode": "ANY", "allowedFunctionNames": [self._name(choice)]}


def _text(text: str) -> dict[str, Any]:
    return {"text": text}


def _no_kind(_kind: str) -> bool:
    """Say that a tool of any provider's own kind is unknown here; this one's kinds are members of their own."""
    return False


def _document_fault(found: Media) -> str:
    if not found.data and not found.url:
        return "neither bytes nor a place"
    fits = found.media_type == "application/pdf" or found.media_type.startswith("text/")
    return "" if fits else f"{found.media_type} is not taken"


def _item(message: Message) -> Item:
    blocks = tuple(WireBlock(encode(part.value), part.pieces) for part in message.parts)
    return Item(message.role, b'{"role":' + encode(message.role) + b',"parts":[', blocks, b"]}")
