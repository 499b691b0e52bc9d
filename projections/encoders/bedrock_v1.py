"""bedrock@1: pieces to a Bedrock Converse request that the API accepts (rules X and B), in JSON form.

Bytes are base64 text here; boto3 takes them decoded (B9). Thinking is set through `additionalModelRequestFields`, and
what the models behind Converse ask of it holds here too (A17 to A19).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ..registry import projection
from ..stages.declared_v1 import function, own_fields, schema
from ..stages.documents_v1 import DocumentNames, format_of
from ..stages.images_v1 import Place, refused
from ..stages.marks_v1 import marked, places
from ..stages.media_v1 import Media, media
from ..stages.messages_v1 import CALL, RESULT, THOUGHT, Message, Part, Talk
from ..stages.pairing_v1 import paired
from ..stages.pieces_v1 import Call, Document, Foreign, Image, Piece, Reasoning, Result, Text, Tools
from ..stages.repairs_v1 import Repairs
from ..stages.request_v1 import Field, Item, Request, WireBlock, encode
from ..stages.settings_v1 import further
from ..stages.target_v1 import Attachments, Options, Target
from ..stages.tools_v1 import Offer, namer, offered
from ..stages.wire_v1 import is_blank, json_object, read_object, same_model, well_formed, wire_ids

PROVIDER = "bedrock"
MARK = b'{"cachePoint":{"type":"default"}}'
SYSTEM_NOTE = "<system>\n{}\n</system>"
NO_OUTPUT = "(no output)"
SEE_DOCUMENT = "See the document."

SAMPLING = frozenset({"temperature", "topP"})
OWN_BLOCKS = frozenset({"text", "audio", "video", "guardContent", "citationsContent", "searchResult"})
OWN_RESULT_BLOCKS = frozenset({"text", "json", "video", "searchResult"})


@projection("bedrock", 1, "encoder")
def build(pieces: Sequence[Piece], target: Target, options: Options, attachments: Attachments) -> Request:
    """Give the Converse request of some pieces."""
    return _Builder(pieces, target, options, attachments).request()


class _Builder:
    def __init__(self, pieces: Sequence[Piece], target: Target, options: Options, attachments: Attachments) -> None:
        self._pieces = pieces
        self._target = target
        self._options = options
        self._attachments = attachments
        self._ids = wire_ids(pieces)
        self._repairs = Repairs()
        self._refused = refused(pieces, target.images, attachments)
        self._name = namer(target)
        self._document_name = DocumentNames().take
        self._talk = Talk("assistant", _text, "B7" if target.results_alone else "")
        self._system: list[dict[str, Any]] = []
        self._system_pieces: list[int] = []
        self._calls: dict[int, Call] = {}
        self._thinking = _is_thinking(target, options)

    def request(self) -> Request:
        for placed in paired(self._pieces, _never, self._repairs):
            self._add(placed.index, placed.piece)
        self._mend_thinking()
        messages = self._talk.close(self._repairs, prefill=self._takes_prefill())
        for message in messages:
            self._mend_documents(message)
        items = tuple(_item(message) for message in messages)
        tools = offered(self._pieces, list(self._calls.values()), self._target, _no_kind, self._repairs)
        fields = self._fields(tools)
        if self._options.cache:
            fields, items = self._mark(fields, items, messages)
        return Request(fields, items, tuple(self._repairs.pieces))

    # --- the talk ---

    def _add(self, index: int, piece: Piece) -> None:
        element = piece.element
        match element:
            case Text():
                self._add_text(index, piece, element)
            case Image() | Document():
                self._say(piece, Part(self._media_block(Place(index), piece, element), (index,)))
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
        self._talk.say("assistant" if piece.role == "assistant" else "user", part)

    def _add_text(self, index: int, piece: Piece, element: Text) -> None:
        own = piece.role == "assistant" and self._is_own(element.provider, element.model)
        if own and element.opaque is not None and (block := _own_block(element.opaque, OWN_BLOCKS)) is not None:
            self._say(piece, Part(block, (index,)))
            return
        if is_blank(element.text):
            self._repairs.drop(piece, "X4: empty text")
            return
        text = self._formed(piece, element.text)
        if piece.role == "system" and self._talk.last is None:
            self._system.append(_text(text))
            self._system_pieces.append(index)
            return
        if piece.role == "system":
            self._repairs.note(piece, "A25: no system text between messages")
            text = SYSTEM_NOTE.format(text)
        if piece.volatile and self._talk.is_closed:
            self._carry(index, piece, text)
        else:
            self._say(piece, Part(_text(text), (index,)))

    def _formed(self, piece: Piece, text: str) -> str:
        formed = well_formed(text)
        if formed != text:
            self._repairs.note(piece, "X6: half a surrogate pair")
        return formed

    def _carry(self, index: int, piece: Piece, text: str) -> None:
        """Put a volatile text into the last result: no other place leaves the results alone (B7)."""
        assert self._talk.last is not None
        part = self._talk.last.parts[-1]
        part.value["toolResult"]["content"].append(_text(text))
        part.pieces = (*part.pieces, index)
        self._repairs.note(piece, "B7: carried by the last tool result")

    def _add_reasoning(self, index: int, piece: Piece, element: Reasoning) -> None:
        if not self._is_own(element.provider, element.model):
            self._repairs.drop(piece, "X3: reasoning of another model")
        elif not self._thinking:
            self._repairs.drop(piece, "A19: thinking is off")
        elif element.opaque is not None:
            block = _own_block(element.opaque, {"reasoningContent"})
            if block is None:
                self._repairs.drop(piece, "B4: no block of this format")
            else:
                self._say(piece, Part(block, (index,), THOUGHT))
        elif element.signature and not is_blank(element.text):
            said = {"text": self._formed(piece, element.text), "signature": element.signature}
            self._say(piece, Part({"reasoningContent": {"reasoningText": said}}, (index,), THOUGHT))
        else:
            self._repairs.drop(piece, "A16: reasoning without its text or signature")

    def _add_foreign(self, index: int, piece: Piece, element: Foreign) -> None:
        own = element.provider == PROVIDER and (element.model is None or self._is_own(PROVIDER, element.model))
        block = _own_block(element.json, OWN_BLOCKS) if own else None
        if block is None:
            self._repairs.drop(piece, "a part that only another provider understands")
        else:
            self._say(piece, Part(block, (index,)))

    def _add_call(self, index: int, piece: Piece, call: Call) -> None:
        data, mended = json_object(call.input)
        id_, name = self._ids[call.node], self._name(call.name)
        if mended:
            self._repairs.note(piece, f"A15: {mended}")
        if id_ != call.id:
            self._repairs.note(piece, "X2: the id does not fit, or stands here already")
        if name != call.name:
            self._repairs.note(piece, "B3: the name does not fit")
        self._calls[call.node] = call
        value = {"toolUse": {"toolUseId": id_, "name": name, "input": msgspec.Raw(data)}}
        self._say(piece, Part(value, (index,), CALL))

    def _add_result(self, index: int, piece: Piece, result: Result) -> None:
        content = [
            block
            for number, part in enumerate(result.content)
            if (block := self._result_block(Place(index, number), piece, part)) is not None
        ]
        failed = result.status != "ok"
        if not content:
            # B6: a failure says what it is; an empty success, that it is one.
            content.append(_text(result.status if failed else NO_OUTPUT))
            self._repairs.note(piece, "B6: a result without content")
        value = {
            "toolUseId": self._ids[result.node],
            "content": content,
            "status": "error" if failed else "success",
        }
        self._talk.say("user", Part({"toolResult": value}, (index,), RESULT))

    def _result_block(
        self, place: Place, piece: Piece, part: Text | Image | Document | Foreign
    ) -> dict[str, Any] | None:
        match part:
            case Text():
                return None if is_blank(part.text) else _text(self._formed(piece, part.text))
            case Foreign() if part.provider is None:
                return None if is_blank(part.json) else _text(self._formed(piece, part.json))
            case Foreign():
                block = _own_block(part.json, OWN_RESULT_BLOCKS) if part.provider == PROVIDER else None
                if block is None:
                    self._repairs.note(piece, "a part that only another provider understands")
                return block
            case _:
                return self._media_block(place, piece, part)

    def _media_block(self, place: Place, piece: Piece, element: Image | Document) -> dict[str, Any]:
        found = media(element, self._attachments)
        why = self._refused.get(place) if isinstance(element, Image) else ""
        why = why or self._fault(piece, found)
        if why:
            self._repairs.note(piece, f"{found.kind} left out: {why}")
            return _text(well_formed(found.left_out(why)))
        source = {"bytes": found.data} if found.data else {"s3Location": {"uri": found.url}}
        value: dict[str, Any] = {"format": format_of(found)}
        if isinstance(element, Document):
            value["name"] = self._document_name(element.title or element.name or "")
        return {found.kind: {**value, "source": source}}

    def _fault(self, piece: Piece, found: Media) -> str:
        if piece.role == "assistant":
            return "only users and tools send them"
        if not found.data and not found.url.startswith("s3://"):
            return "not in the store"
        return "" if format_of(found) else f"{found.media_type} is not taken"

    # --- mending ---

    def _mend_thinking(self) -> None:
        """A18: a message with reasoning starts with it. A17: so does the open loop's, or thinking is off."""
        for part in self._talk.cut_thoughts():
            self._repairs.drop(self._pieces[part.pieces[0]], "A18: reasoning that led to nothing")
        self._drop_thoughts("A18: reasoning not first in its message", _starts_otherwise)
        if not self._thinking or (self._options.thinking or {}).get("type") != "enabled":
            return
        messages = [message for message in self._talk.messages if message.parts]
        loop = len(messages) > 1 and messages[-1].has_results
        if loop and messages[-2].parts[0].kind != THOUGHT:
            self._thinking = False
            self._drop_thoughts("A17: the open loop does not start with reasoning", bool)
            self._repairs.add("system", "thinking", "A17: thinking is off for this call")

    def _drop_thoughts(self, rule: str, unwanted: Callable[[Message], bool]) -> None:
        for part in self._talk.drop_thoughts(unwanted):
            self._repairs.drop(self._pieces[part.pieces[0]], rule)

    def _takes_prefill(self) -> bool:
        """A4: an answer's beginning stands last only without thinking, and does not end in white space."""
        last = self._talk.last
        if not self._target.prefill or self._thinking or last is None or not last.parts:
            return False
        text = last.parts[-1].value.get("text")
        return isinstance(text, str) and text == text.rstrip(" \t\r\n")

    def _mend_documents(self, message: Message) -> None:
        """Converse takes a document only in a message that has text as well."""
        kinds = {kind for part in message.parts for kind in part.value}
        if "document" in kinds and "text" not in kinds:
            message.parts.append(Part(_text(SEE_DOCUMENT)))
            self._repairs.add("user", SEE_DOCUMENT, "a document goes with a text")

    # --- around the talk ---

    def _is_own(self, provider: str | None, model: str | None) -> bool:
        return provider == PROVIDER and same_model(model, self._target.model)

    def _fields(self, tools: Sequence[Offer]) -> tuple[Field, ...]:
        options = self._options
        extra = dict(options.extra or {})
        fields = [Field("modelId", encode(self._target.model))]
        if self._system:
            fields.append(Field("system", encode(self._system), None, tuple(self._system_pieces)))
        if tools:
            sources = tuple(sorted({each.declaration.index for each in tools if each.declaration.index is not None}))
            fields.append(Field("toolConfig", self._tool_config(tools), None, sources))
        fields.append(Field("inferenceConfig", encode(self._inference(extra.pop("inferenceConfig", None)))))
        model = _members(extra.pop("additionalModelRequestFields", None))
        if options.thinking is not None:
            model = {"thinking": options.thinking if self._thinking else {"type": "disabled"}, **model}
        if model:
            fields.append(Field("additionalModelRequestFields", encode(model)))
        rest = msgspec.structs.replace(options, extra=extra)
        taken = {"modelId", "system", "toolConfig", "messages"}
        return (*fields, *further(rest, self._target, taken, self._repairs), Field("messages", None))

    def _inference(self, given: Any) -> dict[str, Any]:
        config = {"maxTokens": self._options.max_tokens or self._target.output_tokens_max, **_members(given)}
        if self._target.sampling_refused:
            for name in SAMPLING & config.keys():
                del config[name]
                self._repairs.add("system", name, "A31: the model refuses sampling parameters")
        return config

    def _tool_config(self, tools: Sequence[Offer]) -> bytes:
        choice = self._choice({each.declaration.name for each in tools})
        value = {} if choice is None else {"toolChoice": choice}
        # The list stands last, so that a mark can be put behind its last tool.
        return encode({**value, "tools": [{"toolSpec": self._spec(each)} for each in tools]})

    def _spec(self, offer: Offer) -> dict[str, Any]:
        each = offer.declaration
        return {
            **function(each),
            "inputSchema": {"json": schema(each)},
            **own_fields(each.tool, {"strict"}, self._repairs),
        }

    def _choice(self, names: set[str]) -> dict[str, Any] | None:
        choice = self._options.tool_choice
        if self._options.parallel_tools is not None:
            self._repairs.add("system", "parallel_tools", "this format has no such setting")
        if self._thinking and self._target.forced_choice_refused_with_thinking and choice not in {None, "auto"}:
            self._repairs.add("system", "tool_choice", "A33: no forced choice while thinking")
            return None
        if choice is None or choice in {"auto", "any"}:
            return None if choice is None else {choice: {}}
        if (name := self._name(choice)) in names:
            return {"tool": {"name": name}}
        self._repairs.add("system", choice, "not chosen: no such tool, or no such setting in this format")
        return None

    def _mark(
        self, fields: tuple[Field, ...], items: tuple[Item, ...], messages: Sequence[Message]
    ) -> tuple[tuple[Field, ...], tuple[Item, ...]]:
        """Set the cache marks, each a block of its own behind what it marks (B5)."""
        cache = self._target.cache
        if cache is None or cache.kind != "breakpoints":
            return fields, items
        stem, end = ("system", b"]") if self._system else ("toolConfig", b"]}")
        fields = tuple(_mark_stem(field, end) if field.name == stem else field for field in fields)
        markable = [part.kind != THOUGHT for message in messages for part in message.parts]
        where = places(items, self._pieces, markable, cache.lookback_blocks)
        return fields, marked(items, where, after=MARK)


def _text(text: str) -> dict[str, Any]:
    return {"text": text}


def _mark_stem(field: Field, end: bytes) -> Field:
    """Put a mark behind the last system text or the last tool."""
    assert field.data is not None
    return msgspec.structs.replace(field, marked=field.data.removesuffix(end) + b"," + MARK + end)


def _never(_call: Call) -> bool:
    """Say that no server's call goes back as it was: Converse counts it as one that the client answers."""
    return False


def _no_kind(_kind: str) -> bool:
    """Say that a tool of any provider's own kind is unknown here."""
    return False


def _is_thinking(target: Target, options: Options) -> bool:
    if options.thinking is None:
        return target.thinks_by_default
    return options.thinking.get("type") != "disabled"


def _starts_otherwise(message: Message) -> bool:
    return bool(message.parts) and message.parts[0].kind != THOUGHT


def _item(message: Message) -> Item:
    blocks = tuple(WireBlock(encode(part.value), part.pieces) for part in message.parts)
    return Item(message.role, b'{"role":' + encode(message.role) + b',"content":[', blocks, b"]}")


def _own_block(text: str, kinds: set[str] | frozenset[str]) -> dict[str, Any] | None:
    """Read a block as this provider made it: one member (B4), of a kind that may go back."""
    value = read_object(text)
    if value is None or len(value) != 1 or not kinds.issuperset(value):
        return None
    if "text" in value and (not isinstance(value["text"], str) or is_blank(value["text"])):
        return None
    return dict(msgspec.json.decode(text, type=dict[str, msgspec.Raw]))


def _members(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}
