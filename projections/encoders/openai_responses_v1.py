"""openai-responses@1: pieces to a stateless Responses request that the API accepts (rules X and R).

The whole history stands in `input` and nothing is held by the provider: only such a request can be derived again.
Reasoning goes back encrypted, in front of what it led to; ids of items go out only where their reasoning does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from blake3 import blake3

from ..registry import projection
from ..stages.declared_v1 import GONE, Declared, function, own_fields, schema
from ..stages.media_v1 import Media
from ..stages.openai_v1 import (
    CONTINUE,
    START,
    Content,
    JsonObject,
    Parts,
    Unit,
    address,
    arguments,
    cache_fields,
    leads,
    listed,
    never,
    single,
    units,
    with_marks,
)
from ..stages.pairing_v1 import Placed, paired
from ..stages.pieces_v1 import Call, Foreign, Piece, Reasoning, Result, Text, Tool, Tools
from ..stages.repairs_v1 import Repairs
from ..stages.request_v1 import Field, Item, Request, encode
from ..stages.settings_v1 import further
from ..stages.target_v1 import Attachments, Options, Target
from ..stages.tools_v1 import Offer, namer, offered
from ..stages.wire_v1 import is_blank, read_object, well_formed, wire_ids

ENCRYPTED = "reasoning.encrypted_content"
FUNCTION_FIELDS = frozenset({"strict", "defer_loading", "allowed_callers", "output_schema"})
TALK = ("input", "instructions", "tools", "tool_choice", "parallel_tool_calls")
HELD_STATE = ("previous_response_id", "conversation", "store", "background")
PROVIDER_TOOLS = frozenset(
    {
        "apply_patch",
        "code_interpreter",
        "computer",
        "computer_use_preview",
        "custom",
        "file_search",
        "image_generation",
        "local_shell",
        "mcp",
        "shell",
        "tool_search",
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    }
)
PAIRED = frozenset(
    {
        "apply_patch_call",
        "computer_call",
        "custom_tool_call",
        "function_call",
        "item_reference",
        "local_shell_call",
        "mcp_approval_request",
        "message",
        "shell_call",
    }
)
"""Items that need another one, or another place: they are never sent by themselves."""


@projection("openai-responses", 1, "encoder")
def build(pieces: Sequence[Piece], target: Target, options: Options, attachments: Attachments) -> Request:
    """Give the Responses request of some pieces."""
    return _Builder(pieces, target, options, attachments).request()


class _InputParts(Parts):
    own = frozenset({"input_text", "input_image", "input_file"})

    def text(self, text: str) -> JsonObject:
        return {"type": "input_text", "text": text}

    def image(self, url: str) -> JsonObject:
        return {"type": "input_image", "image_url": url, "detail": "auto"}

    def file(self, item: Media, name: str) -> JsonObject | None:
        if not item.data:
            return {"type": "input_file", "file_url": address(item)}
        return {"type": "input_file", "filename": name, "file_data": address(item)}


class _Builder:
    def __init__(self, pieces: Sequence[Piece], target: Target, options: Options, attachments: Attachments) -> None:
        self._pieces = pieces
        self._target = target
        self._options = options
        self._repairs = Repairs()
        self._content = Content(pieces, target, attachments, _InputParts(), self._repairs)
        self._ids = wire_ids(pieces)
        self._name = namer(target)
        self._in_parts = options.cache and target.cache is not None and target.cache.options
        self._custom: set[str] = set()
        self._calls: dict[int, Call] = {}
        self._instructions: list[tuple[str, int]] = []
        self._items: list[Item] = []
        self._sent_ids: set[str] = set()

    def request(self) -> Request:
        placed = [
            each
            for each in paired(self._pieces, self._is_native, self._repairs)
            if not isinstance(each.piece.element, Tools)
        ]
        calls = [each.piece.element for each in placed if isinstance(each.piece.element, Call)]
        served = {call.node for call in calls if self._is_served(call)}
        called = [call for call in calls if call.node not in served]
        self._calls = {call.node: call for call in called}
        offers = self._offers(called)
        self._custom = {offer.declaration.name for offer in offers if offer.type == "custom"}
        for unit in units(placed, served):
            self._add(unit)
        self._mend_ends()
        fields = self._fields(offers)
        items = tuple(self._items)
        if self._options.cache:
            items = with_marks(items, self._pieces, self._target)
        return Request(fields, items, tuple(self._repairs.pieces))

    def _offers(self, called: Sequence[Call]) -> list[Offer]:
        """X7: a call of a tool that the provider defined goes out as a function's, and is declared as one as well."""
        offers = offered(self._pieces, called, self._target, PROVIDER_TOOLS.__contains__, self._repairs)
        hosted = {offer.declaration.name for offer in offers if offer.type not in {"", "custom"}}
        for name in sorted(hosted & {self._name(call.name) for call in called}):
            self._repairs.add("system", name, "X7: called as a function, so declared as one")
            offers.append(Offer(Declared(name, Tool(name, GONE))))
        return sorted(offers, key=_offer_name)

    # --- the talk ---

    def _add(self, unit: Unit) -> None:
        if unit.role == "assistant":
            self._add_response(unit)
            for each in unit.results:
                self._add_output(each)
            return
        parts = [(part, (each.index,)) for each in unit.said if (part := self._content.part(each)) is not None]
        if not parts:
            return
        if leads(unit) and not self._items:
            self._instructions.extend((part["text"], index) for part, (index,) in parts)
        else:
            self._put_message(unit.role, parts)

    def _put_message(self, role: str, parts: Sequence[tuple[JsonObject, tuple[int, ...]]]) -> None:
        said_by = (self._target.system_role or "developer") if role == "system" else role
        self._items.append(listed(role, {"type": "message", "role": said_by}, "content", parts))

    def _add_response(self, unit: Unit) -> None:
        """R3, R4: reasoning goes before the item it led to; an item has its id only behind its reasoning."""
        waiting: list[tuple[Placed, JsonObject]] = []
        reasoned = False
        for each in unit.said:
            if (thought := self._reasoning(each)) is not None:
                waiting.append((each, thought))
                self._sent_ids.add(thought["id"])
                continue
            item = self._item(each, reasoned=reasoned or bool(waiting))
            if item is None:
                continue
            for before, value in waiting:
                self._items.append(single("assistant", value, (before.index,)))
                reasoned = True
            waiting.clear()
            self._items.append(single("assistant", item, (each.index,)))
            self._sent_ids.add(str(item.get("id", "")))
        for each, _ in waiting:
            self._repairs.drop(each.piece, "R3: reasoning without the item it led to")

    # --- what the model said ---

    def _reasoning(self, each: Placed) -> JsonObject | None:
        """Give the reasoning item of a piece that holds reasoning; None for another piece, or one that is left out."""
        element = each.piece.element
        if isinstance(element, Foreign) and (read_object(element.json) or {}).get("type") == "reasoning":
            element = Reasoning("", None, element.json, element.provider, element.model)
        if not isinstance(element, Reasoning) or not self._content.is_own(element.provider, element.model):
            return None
        value = _reasoning_item(element)
        return value if value is not None and value["id"] not in self._sent_ids else None

    def _item(self, each: Placed, *, reasoned: bool) -> JsonObject | None:
        piece, element = each.piece, each.piece.element
        match element:
            case Reasoning() if self._content.is_own(element.provider, element.model):
                self._repairs.drop(piece, "R5: reasoning without its encrypted content, or sent already")
            case Reasoning():
                self._repairs.drop(piece, "X3: reasoning of another model")
            case Text():
                return self._message(piece, element, reasoned=reasoned)
            case Call():
                return self._call(piece, element)
            case Foreign():
                return self._own_item(piece, element)
            case Result():
                part = element.content[0] if len(element.content) == 1 else None
                if isinstance(part, Foreign):
                    return self._own_item(piece, part)
                self._repairs.drop(piece, "the server's call holds its result")
            case _:
                self._repairs.drop(piece, "R9: media stand in messages of the user")
        return None

    def _message(self, piece: Piece, element: Text, *, reasoned: bool) -> JsonObject | None:
        if is_blank(element.text):
            self._repairs.drop(piece, "X4: empty text")
            return None
        value: JsonObject = {"role": "assistant", "content": self._content.clean(piece, element.text)}
        if element.opaque is None or not self._content.is_own(element.provider, element.model):
            return value
        recorded = read_object(element.opaque)
        if recorded is None or _message_text(recorded) != element.text:
            return value
        if reasoned and str(recorded["id"]) not in self._sent_ids:
            return recorded
        if recorded.get("phase") is not None:
            value["phase"] = recorded["phase"]
        return value

    def _own_item(self, piece: Piece, element: Foreign) -> JsonObject | None:
        value = read_object(element.json) if self._content.is_own(element.provider, element.model) else None
        if value is None or not isinstance(value.get("type"), str):
            self._repairs.drop(piece, "an item that only another provider or model understands")
        elif value["type"] in PAIRED or value["type"] == "reasoning" or value["type"].endswith("_call_output"):
            self._repairs.drop(piece, f"R1: {value['type']} does not go out by itself")
        elif value.get("id") and str(value["id"]) in self._sent_ids:
            self._repairs.drop(piece, "R8: the item stands here already")
        elif element.needs is not None and element.needs not in self._sent_ids:
            self._repairs.drop(piece, "R4: the reasoning that it needs is not in the request")
        else:
            return value
        return None

    # --- calls and outputs ---

    def _is_native(self, call: Call) -> bool:
        value = read_object(call.opaque) if call.opaque is not None else None
        return (
            value is not None
            and self._content.is_own(call.provider, call.model)
            and isinstance(value.get("type"), str)
            and value["type"] not in PAIRED
        )

    def _is_served(self, call: Call) -> bool:
        return call.kind == "server" and self._is_native(call)

    def _call(self, piece: Piece, element: Call) -> JsonObject | None:
        if self._is_served(element) and element.opaque is not None:
            return self._own_item(
                piece, Foreign(element.opaque, element.provider, element.model, element.item, element.needs)
            )
        id_, name = self._ids[element.node], self._name(element.name)
        if name != element.name:
            self._repairs.note(piece, f"R14: the name does not fit: {name} in its place")
        if self._is_custom(element):
            return {"type": "custom_tool_call", "call_id": id_, "name": name, "input": well_formed(element.input)}
        spelled = arguments(piece, element, self._repairs)
        return {"type": "function_call", "call_id": id_, "name": name, "arguments": spelled}

    def _is_custom(self, call: Call) -> bool:
        return call.kind == "custom" and self._name(call.name) in self._custom

    def _add_output(self, each: Placed) -> None:
        element = each.piece.element
        assert isinstance(element, Result)
        output = self._content.output(each)
        is_custom = self._is_custom(self._calls[element.node])
        kind = "custom_tool_call_output" if is_custom else "function_call_output"
        head = {"type": kind, "call_id": self._ids[element.node]}
        if not output.parts and not (self._in_parts and not is_blank(output.text)):
            self._items.append(single("tool", {**head, "output": output.text}, (each.index,)))
            return
        texts = [] if is_blank(output.text) else [{"type": "input_text", "text": output.text}]
        parts = [(part, (each.index,)) for part in (*texts, *output.parts)]
        self._items.append(listed("tool", head, "output", parts))

    def _mend_ends(self) -> None:
        """X5: somebody speaks, and the last word is the user's or a tool's."""
        talk = [item for item in self._items if item.role != "system"]
        if not talk or talk[-1].role == "assistant":
            text, why = (CONTINUE, "the last item is a user's") if talk else (START, "nobody speaks")
            self._put_message("user", [({"type": "input_text", "text": text}, ())])
            self._repairs.add("user", text, f"X5: {why}")

    # --- around the talk ---

    def _fields(self, offers: Sequence[Offer]) -> tuple[Field, ...]:
        options, target = self._options, self._target
        values: JsonObject = {"model": target.model, "store": False, "include": self._include()}
        if options.max_tokens is not None:
            values["max_output_tokens"] = options.max_tokens
        if options.thinking is not None:
            values["reasoning"] = options.thinking
        values.update(cache_fields(options, target))
        if offers and (choice := self._tool_choice(offers)) is not None:
            values["tool_choice"] = choice
        if offers and options.parallel_tools is not None:
            values["parallel_tool_calls"] = options.parallel_tools
        fields = [Field(name, encode(value)) for name, value in values.items()]
        refused = dict.fromkeys(HELD_STATE, "R5: nothing is held by the provider") | never(options, target)
        rest = {name: value for name, value in (options.extra or {}).items() if name != "include"}
        options = msgspec.structs.replace(options, extra=rest)
        fields.extend(further(options, target, (*TALK, *values), self._repairs, refused))
        if self._instructions:
            text = "\n\n".join(text for text, _ in self._instructions)
            fields.append(Field("instructions", encode(text), None, tuple(index for _, index in self._instructions)))
        if offers:
            index = next((each.declaration.index for each in offers if each.declaration.index is not None), None)
            data = encode([self._tool(offer) for offer in offers])
            fields.append(Field("tools", data, None, () if index is None else (index,)))
        return (*fields, Field("input", None))

    def _include(self) -> list[Any]:
        """Ask for encrypted reasoning, and for what else the caller wants."""
        asked = (self._options.extra or {}).get("include")
        return [ENCRYPTED, *(each for each in asked if each != ENCRYPTED)] if isinstance(asked, list) else [ENCRYPTED]

    def _tool(self, offer: Offer) -> JsonObject:
        """R14: the four keys of a function, or the provider's own tool as it was declared."""
        tool = offer.declaration.tool
        if offer.type:
            named = function(offer.declaration) if offer.type == "custom" else {}
            return {**(read_object(tool.extra or "") or {}), **named}
        known = own_fields(tool, FUNCTION_FIELDS | {"type"}, self._repairs)
        known.pop("type", None)
        head = {"type": "function", **function(offer.declaration), "strict": False}
        return {**head, "parameters": schema(offer.declaration), **known}

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
        if found.type not in {"", "custom"}:
            return {"type": found.type}
        return {"type": found.type or "function", "name": name}


def _offer_name(offer: Offer) -> str:
    return offer.declaration.name


def _reasoning_item(element: Reasoning) -> JsonObject | None:
    """R5, R6, R10: encrypted content, an id, a summary."""
    if element.opaque is not None:
        value = read_object(element.opaque)
        if value is None or value.get("type") != "reasoning":
            return None
        sealed, id_ = value.get("encrypted_content"), value.get("id")
        if not isinstance(sealed, str) or not sealed or not isinstance(id_, str) or not id_.startswith("rs_"):
            return None
        return value if isinstance(value.get("summary"), list) else {**value, "summary": []}
    if not element.signature:
        return None
    made = f"rs_{blake3(element.signature.encode(errors='surrogatepass')).hexdigest()[:24]}"
    text = well_formed(element.text)
    return {
        "type": "reasoning",
        "id": element.item if element.item and element.item.startswith("rs_") else made,
        "summary": [] if is_blank(text) else [{"type": "summary_text", "text": text}],
        "encrypted_content": element.signature,
    }


def _message_text(value: JsonObject) -> str | None:
    """Give the text of a recorded message that may go back as it is (R6, R9, R13); None for another."""
    id_, content = value.get("id"), value.get("content")
    if value.get("type") != "message" or value.get("role") != "assistant" or "status" not in value:
        return None
    if not isinstance(id_, str) or not id_.startswith("msg_") or not isinstance(content, list):
        return None
    texts = []
    for part in content:
        if not isinstance(part, dict):
            return None
        key = {"output_text": "text", "refusal": "refusal"}.get(str(part.get("type")), "")
        if not isinstance(part.get(key), str) or (key == "text" and not isinstance(part.get("annotations"), list)):
            return None
        texts.append(part[key])
    return None if any(is_blank(text) for text in texts) else "".join(texts)
