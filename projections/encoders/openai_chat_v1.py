"""openai-chat@1: pieces to a Chat Completions request that OpenAI and its dialects accept (rules X and O).

What the dialects of DeepSeek, Kimi and Mistral want otherwise is read from the profile: `reasoning_content`, the
alphabet of call ids, the role of instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..registry import projection
from ..stages.declared_v1 import function, own_fields, schema
from ..stages.media_v1 import Media
from ..stages.openai_v1 import (
    CONTINUE,
    START,
    Content,
    JsonObject,
    Output,
    Parts,
    Unit,
    address,
    arguments,
    cache_fields,
    listed,
    never,
    single,
    units,
    with_marks,
)
from ..stages.pairing_v1 import Placed, paired
from ..stages.pieces_v1 import REPAIR, Call, Foreign, Piece, Reasoning, Result, Text, Tools
from ..stages.repairs_v1 import Repairs
from ..stages.request_v1 import Field, Item, Request, encode
from ..stages.settings_v1 import further
from ..stages.target_v1 import Attachments, Options, Target
from ..stages.tools_v1 import Offer, namer, offered
from ..stages.wire_v1 import fits_mistral, is_blank, make_mistral, read_object, well_formed, wire_ids

CALLS_MAX = 128
FROM_TOOLS = "Attached by the tools above:"
BRIDGE = "Noted."
SYSTEM_NOTE = "<system>\n{}\n</system>"

MISTRAL = "mistral"


@projection("openai-chat", 1, "encoder")
def build(pieces: Sequence[Piece], target: Target, options: Options, attachments: Attachments) -> Request:
    """Give the Chat Completions request of some pieces."""
    return _Builder(pieces, target, options, attachments).request()


class _ChatParts(Parts):
    own = frozenset({"text", "image_url", "input_audio", "file"})

    def text(self, text: str) -> JsonObject:
        return {"type": "text", "text": text}

    def image(self, url: str) -> JsonObject:
        return {"type": "image_url", "image_url": {"url": url}}

    def file(self, item: Media, name: str) -> JsonObject | None:
        if not item.data:
            return None
        return {"type": "file", "file": {"file_data": address(item), "filename": name}}


class _Said(msgspec.Struct, gc=False):
    """What a message of the assistant holds."""

    texts: list[str] = []
    thoughts: list[str] = []
    refusals: list[str] = []
    calls: list[tuple[int, JsonObject]] = []
    pieces: list[int] = []


class _Builder:
    def __init__(self, pieces: Sequence[Piece], target: Target, options: Options, attachments: Attachments) -> None:
        self._pieces = pieces
        self._target = target
        self._options = options
        self._repairs = Repairs()
        self._content = Content(pieces, target, attachments, _ChatParts(), self._repairs)
        self._is_mistral = target.call_id == MISTRAL
        self._ids = wire_ids(pieces, fits_mistral, make_mistral) if self._is_mistral else wire_ids(pieces)
        self._name = namer(target)
        self._is_openai = target.system_role == "developer"
        self._in_parts = options.cache and target.cache is not None and target.cache.options
        self._called: list[Call] = []
        self._custom: set[str] = set()
        self._items: list[Item] = []

    def request(self) -> Request:
        placed = [each for each in paired(self._pieces, _is_native, self._repairs) if _is_said(each.piece)]
        self._called = [each.piece.element for each in placed if isinstance(each.piece.element, Call)]
        offers = offered(self._pieces, self._called, self._target, self._is_own_type, self._repairs)
        self._custom = {offer.declaration.name for offer in offers if offer.type}
        for unit in units(placed, ()):
            self._add(unit)
        self._mend_ends()
        fields = self._fields(offers)
        items = tuple(self._items)
        if self._options.cache:
            items = with_marks(items, self._pieces, self._target)
        return Request(fields, items, tuple(self._repairs.pieces))

    # --- the talk ---

    def _add(self, unit: Unit) -> None:
        match unit.role:
            case "assistant":
                self._add_assistant(unit)
            case "system":
                self._add_system(unit)
            case _:
                self._add_user(unit)

    def _add_user(self, unit: Unit) -> None:
        parts = [(part, (each.index,)) for each in unit.said if (part := self._content.part(each)) is not None]
        if parts:
            self._put_user(parts)

    def _put_user(self, parts: Sequence[tuple[JsonObject, tuple[int, ...]]]) -> None:
        if self._is_mistral and self._items and self._items[-1].role == "tool":
            self._items.append(single("assistant", {"role": "assistant", "content": BRIDGE}, ()))
            self._repairs.add("assistant", BRIDGE, "O15: a user does not speak right after a tool")
        self._items.append(self._message("user", "user", parts))

    def _message(self, label: str, role: str, parts: Sequence[tuple[JsonObject, tuple[int, ...]]]) -> Item:
        """Give texts alone as a string, which every dialect reads, unless a mark needs them in parts."""
        if self._in_parts or any(part["type"] != "text" for part, _ in parts):
            return listed(label, {"role": role}, "content", parts)
        text = "\n\n".join(part["text"] for part, _ in parts)
        return single(label, {"role": role, "content": text}, _all(pieces for _, pieces in parts))

    def _add_system(self, unit: Unit) -> None:
        parts = [(part, (each.index,)) for each in unit.said if (part := self._content.part(each)) is not None]
        if not parts:
            return
        if self._is_mistral and self._items and self._items[-1].role in {"assistant", "tool"}:
            for each in unit.said:
                self._repairs.note(each.piece, "O15: no place for system text")
            self._put_user([({**part, "text": SYSTEM_NOTE.format(part["text"])}, pieces) for part, pieces in parts])
            return
        self._items.append(self._message("system", self._target.system_role or "system", parts))

    def _add_assistant(self, unit: Unit) -> None:
        said = _Said()
        for each in unit.said:
            self._hear(each, said)
        if said.texts and is_blank("".join(said.texts)):
            self._drop(unit, said, Text, "X4: empty text")
        if not (said.calls or said.refusals or said.texts):
            self._drop(unit, said, Reasoning, "X4: no message without text or calls")
            return
        for start in range(0, max(len(said.calls), 1), CALLS_MAX):
            chunk = said.calls[start : start + CALLS_MAX]
            if start:
                said = _Said(calls=said.calls)
                self._repairs.note(unit.results[start].piece, f"O3: more than {CALLS_MAX} calls in a message")
            value = self._assistant_message(said, chunk, unit)
            self._items.append(single("assistant", value, (*said.pieces, *[index for index, _ in chunk])))
            self._add_results(unit.results[start : start + CALLS_MAX])

    def _drop(self, unit: Unit, said: _Said, kind: type[Text | Reasoning], rule: str) -> None:
        heard = set(said.pieces)
        gone = [each for each in unit.said if isinstance(each.piece.element, kind) and each.index in heard]
        for each in gone:
            self._repairs.drop(each.piece, rule)
        left_out = {each.index for each in gone}
        said.pieces = [index for index in said.pieces if index not in left_out]
        (said.texts if kind is Text else said.thoughts).clear()

    def _hear(self, each: Placed, said: _Said) -> None:
        piece, element = each.piece, each.piece.element
        match element:
            case Text():
                said.texts.append(self._content.clean(piece, element.text))
                said.pieces.append(each.index)
            case Call():
                said.calls.append((each.index, self._call(piece, element)))
            case Reasoning():
                self._hear_reasoning(each, element, said)
            case Foreign():
                value = read_object(element.json) if self._content.is_own(element.provider, element.model) else None
                refusal = (value or {}).get("refusal")
                if self._is_openai and isinstance(refusal, str) and not is_blank(refusal):
                    said.refusals.append(refusal)
                    said.pieces.append(each.index)
                else:
                    self._repairs.drop(piece, "a part that has no place in this format")
            case _:
                self._repairs.drop(piece, "O9: media stand in messages of the user")

    def _hear_reasoning(self, each: Placed, element: Reasoning, said: _Said) -> None:
        if self._target.reasoning_content == "refused":
            self._repairs.drop(each.piece, "O12: no field for reasoning")
        elif not self._content.is_own(element.provider, element.model) or is_blank(element.text):
            self._repairs.drop(each.piece, "X3: reasoning of another model")
        else:
            said.thoughts.append(self._content.clean(each.piece, element.text))
            said.pieces.append(each.index)

    def _assistant_message(self, said: _Said, calls: Sequence[tuple[int, JsonObject]], unit: Unit) -> JsonObject:
        text = "".join(said.texts)
        content: str | list[JsonObject] | None = text or None
        if said.refusals:
            texts = [] if content is None else [{"type": "text", "text": text}]
            content = [*texts, *({"type": "refusal", "refusal": refusal} for refusal in said.refusals)]
        value: JsonObject = {"role": "assistant", "content": content}
        if said.thoughts:
            value["reasoning_content"] = "\n".join(said.thoughts)
        elif self._target.reasoning_content.startswith("required"):
            filler = " " if self._target.reasoning_content == "required-nonempty" else ""
            value["reasoning_content"] = filler
            first = unit.said[0].piece
            rule = "O14: every message of the assistant has reasoning_content"
            self._repairs.pieces.append(Piece(REPAIR, "assistant", Reasoning(filler), first.sources, first.group, rule))
        if calls:
            value["tool_calls"] = [call for _, call in calls]
        return value

    # --- calls and results ---

    def _call(self, piece: Piece, element: Call) -> JsonObject:
        id_, name = self._ids[element.node], self._name(element.name)
        if name != element.name:
            self._repairs.note(piece, f"O7: the name does not fit: {name} in its place")
        if element.kind == "custom" and name in self._custom:
            return {"id": id_, "type": "custom", "custom": {"name": name, "input": well_formed(element.input)}}
        spelled = arguments(piece, element, self._repairs)
        return {"id": id_, "type": "function", "function": {"name": name, "arguments": spelled}}

    def _add_results(self, results: Sequence[Placed]) -> None:
        """O1, O8: one tool message for each call; what is no text follows in a message of the user."""
        attached: list[tuple[JsonObject, tuple[int, ...]]] = []
        for each in results:
            assert isinstance(each.piece.element, Result)
            output = self._content.output(each)
            self._items.append(self._tool_message(self._ids[each.piece.element.node], output, each.index))
            attached.extend((part, (each.index,)) for part in output.parts)
        if attached:
            self._put_user([({"type": "text", "text": FROM_TOOLS}, attached[0][1]), *attached])

    def _tool_message(self, id_: str, output: Output, index: int) -> Item:
        head = {"role": "tool", "tool_call_id": id_}
        if self._in_parts and not is_blank(output.text):
            return listed("tool", head, "content", [({"type": "text", "text": output.text}, (index,))])
        return single("tool", {**head, "content": output.text}, (index,))

    def _mend_ends(self) -> None:
        """X5: somebody speaks, and the last word is the user's or a tool's."""
        talk = [item for item in self._items if item.role != "system"]
        if not talk:
            self._put_user([({"type": "text", "text": START}, ())])
            self._repairs.add("user", START, "X5: nobody speaks")
        elif talk[-1].role == "assistant" or (self._is_mistral and self._items[-1].role == "system"):
            self._put_user([({"type": "text", "text": CONTINUE}, ())])
            self._repairs.add("user", CONTINUE, "X5: the last message is a user's")

    # --- around the talk ---

    def _fields(self, offers: Sequence[Offer]) -> tuple[Field, ...]:
        options, target = self._options, self._target
        values: JsonObject = {"model": target.model}
        if options.max_tokens is not None:
            values["max_completion_tokens" if self._is_openai else "max_tokens"] = options.max_tokens
        values.update(self._thinking())
        values.update(cache_fields(options, target))
        if offers and (choice := self._tool_choice(offers)) is not None:
            values["tool_choice"] = choice
        if offers and options.parallel_tools is not None:
            values["parallel_tool_calls"] = options.parallel_tools
        fields = [Field(name, encode(value)) for name, value in values.items()]
        if offers:
            index = next((each.declaration.index for each in offers if each.declaration.index is not None), None)
            data = encode([self._tool(offer) for offer in offers])
            fields.append(Field("tools", data, None, () if index is None else (index,)))
        taken = [*values, "messages", "tools", "tool_choice", "parallel_tool_calls"]
        fields.extend(further(options, target, taken, self._repairs, never(options, target)))
        return (*fields, Field("messages", None))

    def _thinking(self) -> JsonObject:
        setting = self._options.thinking
        if setting is None:
            return {}
        if not self._is_openai:
            return {"thinking": setting}
        if "effort" in setting:
            return {"reasoning_effort": setting["effort"]}
        self._repairs.add("system", "thinking", "O12: the format knows an effort only")
        return {}

    def _tool(self, offer: Offer) -> JsonObject:
        tool = offer.declaration.tool
        if offer.type:
            own = own_fields(tool, {"type", "format"}, self._repairs)
            own.pop("type", None)
            return {"type": "custom", "custom": {**function(offer.declaration), **own}}
        value: JsonObject = {**function(offer.declaration), "parameters": schema(offer.declaration)}
        known = own_fields(tool, {"type", "strict"}, self._repairs)
        known.pop("type", None)
        return {"type": "function", "function": {**value, **known}}

    def _is_own_type(self, kind: str) -> bool:
        return kind == "custom" and self._is_openai

    def _tool_choice(self, offers: Sequence[Offer]) -> str | JsonObject | None:
        choice = self._options.tool_choice
        if choice is None or choice in {"auto", "none"}:
            return choice
        if choice == "any":
            return "required"
        name = self._name(choice)
        found = next((offer for offer in offers if offer.declaration.name == name), None)
        if found is None:
            self._repairs.add("system", choice, "the tool that is chosen is not declared")
            return "auto"
        kind = "custom" if found.type else "function"
        return {"type": kind, kind: {"name": name}}


def _is_said(piece: Piece) -> bool:
    return not isinstance(piece.element, Tools)


def _is_native(_call: Call) -> bool:
    """The format has no place for calls that a provider's server answers."""
    return False


def _all(groups: Any) -> tuple[int, ...]:
    return tuple(index for group in groups for index in group)
