"""anthropic@1: pieces to an Anthropic Messages request that the API accepts (rules X and A)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

import msgspec

from ..registry import projection
from ..stages.marks_v1 import mark_last, marked, places
from ..stages.pieces_v1 import (
    DROPPED,
    REPAIR,
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
from ..stages.request_v1 import Field, Item, Request, WireBlock, encode
from ..stages.target_v1 import Attachments, MissingAttachment, Options, Target
from ..stages.wire_v1 import is_blank, json_object, wire_ids

PROVIDER = "anthropic"
MARK = b'"cache_control":{"type":"ephemeral"}'
START = "The conversation starts here."
CONTINUE = "Continue."
SYSTEM_NOTE = "<system>\n{}\n</system>"

_RAW = msgspec.Raw


@projection("anthropic", 1, "encoder")
def build(pieces: Sequence[Piece], target: Target, options: Options, attachments: Attachments) -> Request:
    """Give the Messages request of some pieces."""
    return _Builder(pieces, target, options, attachments).request()


class _Message(msgspec.Struct):
    role: str
    blocks: list[WireBlock]


class _Builder:
    def __init__(self, pieces: Sequence[Piece], target: Target, options: Options, attachments: Attachments) -> None:
        self._pieces = pieces
        self._target = target
        self._options = options
        self._attachments = attachments
        self._ids = wire_ids(pieces)
        self._system: list[bytes] = []
        self._system_pieces: list[int] = []
        self._tools: Field | None = None
        self._messages: list[_Message] = []
        self._results: list[tuple[int, WireBlock]] = []
        self._call_order: dict[int, int] = {}
        self._repairs: list[Piece] = []
        self._thinking = self._thinking_on()

    # --- the talk ---

    def request(self) -> Request:
        for index, piece in enumerate(self._pieces):
            if piece.provenance == DROPPED:
                continue
            if not isinstance(piece.element, Result) or piece.element.server:
                self._flush_results()
            self._add(index, piece)
        self._flush_results()
        self._mend_thinking()
        self._mend_ends()
        items = self._items()
        fields = self._fields()
        if self._options.cache:
            fields, items = self._mark(fields, items)
        return Request(fields, items, tuple(self._repairs))

    def _add(self, index: int, piece: Piece) -> None:
        element = piece.element
        match element:
            case Tools():
                self._tools = _tools(element, index)
            case Text() if piece.role == "system":
                self._add_system(index, piece, element.text)
            case Text():
                self._add_text(index, piece, element.text)
            case Image() | Document():
                self._say(piece.role, WireBlock(self._media(element), (index,)))
            case Reasoning():
                self._add_reasoning(index, piece, element)
            case Foreign():
                self._add_foreign(index, piece, element)
            case Call():
                self._add_call(index, piece, element)
            case Result():
                self._add_result(index, piece, element)

    def _add_system(self, index: int, piece: Piece, text: str) -> None:
        if is_blank(text):
            self._repair(piece, "A6: empty text")
        elif not self._messages:
            self._system.append(encode({"type": "text", "text": text}))
            self._system_pieces.append(index)
        else:
            # A25: few models take system text between messages; a user's block that says what it is, all do.
            self._say("user", _text(SYSTEM_NOTE.format(text), index))

    def _add_text(self, index: int, piece: Piece, text: str) -> None:
        if is_blank(text):
            self._repair(piece, "X4: empty text")
        else:
            self._say(piece.role, _text(text, index))

    def _add_reasoning(self, index: int, piece: Piece, element: Reasoning) -> None:
        if not self._own(element.provider, element.model):
            self._repair(piece, "X3: reasoning of another model")
        elif not self._thinking:
            self._repair(piece, "A19: thinking is off")
        elif element.opaque is not None:
            self._say("assistant", WireBlock(element.opaque.encode(), (index,)))
        elif element.signature and element.text:
            value = {"type": "thinking", "thinking": element.text, "signature": element.signature}
            self._say("assistant", WireBlock(encode(value), (index,)))
        else:
            self._repair(piece, "A16: reasoning without its text or signature")

    def _add_foreign(self, index: int, piece: Piece, element: Foreign) -> None:
        if element.provider == PROVIDER and element.model in {None, self._target.model}:
            self._say(piece.role, WireBlock(element.json.encode(), (index,)))
        else:
            self._repair(piece, "a part that only another provider understands")

    def _add_call(self, index: int, piece: Piece, element: Call) -> None:
        if element.kind == "server" and element.opaque is not None and self._own(element.provider, None):
            self._say("assistant", WireBlock(element.opaque.encode(), (index,)))
            return
        data, mended = json_object(element.input)
        if mended:
            self._note(piece, f"A15: {mended}")
        value = {"type": "tool_use", "id": self._ids[element.node], "name": element.name, "input": _RAW(data)}
        self._call_order[element.node] = len(self._call_order)
        self._say("assistant", WireBlock(encode(value), (index,)))

    def _add_result(self, index: int, piece: Piece, element: Result) -> None:
        if element.server and len(element.content) == 1 and isinstance(element.content[0], Foreign):
            self._say("assistant", WireBlock(element.content[0].json.encode(), (index,)))
            return
        if element.node not in self._call_order:
            self._repair(piece, "A9: its call is not in the request")
            return
        value: dict[str, object] = {"type": "tool_result", "tool_use_id": self._ids[element.node]}
        content = [block for part in element.content if (block := self._result_part(part)) is not None]
        if content:
            value["content"] = content
        if element.status != "ok":
            value["is_error"] = True
        self._results.append((self._call_order[element.node], WireBlock(encode(value), (index,))))

    def _result_part(self, part: Text | Image | Document | Foreign) -> msgspec.Raw | None:
        match part:
            case Text():
                return None if is_blank(part.text) else _RAW(encode({"type": "text", "text": part.text}))
            case Foreign():
                return _RAW(part.json.encode()) if part.provider == PROVIDER else None
            case _:
                return _RAW(self._media(part))

    def _flush_results(self) -> None:
        """A8, A10: all results of a batch stand first in the next user message, in call order."""
        for _, block in sorted(self._results, key=_order):
            self._say("user", block)
        self._results.clear()

    def _say(self, role: str, block: WireBlock) -> None:
        """A2: neighbours of one role are one message."""
        if self._messages and self._messages[-1].role == role:
            self._messages[-1].blocks.append(block)
        else:
            self._messages.append(_Message(role, [block]))

    def _media(self, element: Image | Document) -> bytes:
        kind = "image" if isinstance(element, Image) else "document"
        if element.attachment is not None:
            if element.attachment not in self._attachments:
                raise MissingAttachment(element.attachment)
            data = b64encode(self._attachments[element.attachment]).decode()
            media_type = element.media_type or ("image/png" if kind == "image" else "application/pdf")
            source = {"type": "base64", "media_type": media_type, "data": data}
        else:
            source = {"type": "url", "url": element.url or ""}
        value: dict[str, object] = {"type": kind, "source": source}
        if isinstance(element, Document) and element.title:
            value["title"] = element.title
        return encode(value)

    # --- mending ---

    def _mend_thinking(self) -> None:
        """A18: a message with thinking starts with it. A17: so does the open loop's, or thinking is off."""
        for message in self._messages:
            if message.role == "assistant" and not _is_thinking(message.blocks[0]):
                self._drop_thinking(message, "A18: not first in its message")
        last = next((message for message in reversed(self._messages) if message.role == "assistant"), None)
        manual = self._thinking and (self._options.thinking or {}).get("type") == "enabled"
        if manual and last is not None and self._is_open_loop() and not _is_thinking(last.blocks[0]):
            self._thinking = False
            for message in self._messages:
                if message.role == "assistant":
                    self._drop_thinking(message, "A17: the open loop does not start with thinking")
            self._repairs.append(Piece(REPAIR, "assistant", Text(""), rule="A17: thinking is off for this call"))
        self._messages = [message for message in self._messages if message.blocks]

    def _is_open_loop(self) -> bool:
        last = self._messages[-1]
        return last.role == "user" and last.blocks[0].data.startswith(b'{"type":"tool_result"')

    def _drop_thinking(self, message: _Message, rule: str) -> None:
        kept = []
        for block in message.blocks:
            if _is_thinking(block):
                self._repair(self._pieces[block.pieces[0]], rule)
            else:
                kept.append(block)
        message.blocks = kept

    def _mend_ends(self) -> None:
        """A1: the first message is a user's. A3: the last one too, unless the model takes a prefill."""
        if not self._messages or self._messages[0].role != "user":
            self._messages.insert(0, _Message("user", [_text(START)]))
            self._repairs.append(Piece(REPAIR, "user", Text(START), rule="A1: the first message is a user's"))
        last = self._messages[-1]
        if last.role != "user" and not (self._target.prefill and not self._thinking) and not _ends_in_server_tool(last):
            self._messages.append(_Message("user", [_text(CONTINUE)]))
            self._repairs.append(Piece(REPAIR, "user", Text(CONTINUE), rule="A3: the last message is a user's"))

    def _repair(self, piece: Piece, rule: str) -> None:
        self._repairs.append(Piece(DROPPED, piece.role, piece.element, piece.sources, piece.group, rule))

    def _note(self, piece: Piece, rule: str) -> None:
        self._repairs.append(Piece(REPAIR, piece.role, piece.element, piece.sources, piece.group, rule))

    # --- around the talk ---

    def _thinking_on(self) -> bool:
        setting = self._options.thinking
        if setting is None:
            return self._target.thinks_by_default
        return setting.get("type") != "disabled"

    def _own(self, provider: str | None, model: str | None) -> bool:
        return provider == PROVIDER and model in {None, self._target.model}

    def _items(self) -> tuple[Item, ...]:
        return tuple(
            Item(
                message.role,
                b'{"role":' + encode(message.role) + b',"content":[',
                tuple(message.blocks),
                b"]}",
            )
            for message in self._messages
        )

    def _fields(self) -> tuple[Field, ...]:
        options = self._options
        fields = [
            Field("model", encode(self._target.model)),
            Field("max_tokens", encode(options.max_tokens or self._target.output_tokens_max)),
        ]
        if self._system:
            fields.append(Field("system", b"[" + b",".join(self._system) + b"]", None, tuple(self._system_pieces)))
        if self._tools is not None:
            fields.append(self._tools)
            if (choice := _tool_choice(options)) is not None:
                fields.append(Field("tool_choice", encode(choice)))
        if options.thinking is not None:
            fields.append(Field("thinking", encode(options.thinking if self._thinking else {"type": "disabled"})))
        fields.extend(Field(name, encode(value)) for name, value in (options.extra or {}).items())
        return (*fields, Field("messages", None))

    def _mark(self, fields: tuple[Field, ...], items: tuple[Item, ...]) -> tuple[tuple[Field, ...], tuple[Item, ...]]:
        cache = self._target.cache
        if cache is None or cache.kind != "breakpoints":
            return fields, items
        stem = "system" if self._system else "tools"
        fields = tuple(mark_last(field, MARK) if field.name == stem else field for field in fields)
        markable = [not _is_thinking(block) for item in items for block in item.blocks]
        where = places(items, self._pieces, markable, cache.lookback_blocks)
        return fields, marked(items, where, mark=MARK)


def _order(pair: tuple[int, WireBlock]) -> int:
    return pair[0]


def _text(text: str, *pieces: int) -> WireBlock:
    return WireBlock(encode({"type": "text", "text": text}), pieces)


def _is_thinking(block: WireBlock) -> bool:
    return block.data.startswith((b'{"type":"thinking"', b'{"type":"redacted_thinking"'))


def _ends_in_server_tool(message: _Message) -> bool:
    return b'_tool_result"' in message.blocks[-1].data[:64]


def _tools(element: Tools, index: int) -> Field:
    """X7: declarations sorted by name, each schema as spelled."""
    declared = []
    for tool in sorted(element.tools, key=lambda each: each.name):
        value: dict[str, object] = {"name": tool.name}
        if tool.description:
            value["description"] = tool.description
        value["input_schema"] = _RAW((tool.input_schema or '{"type":"object","properties":{}}').encode())
        if tool.extra:
            value.update(msgspec.json.decode(tool.extra, type=dict[str, msgspec.Raw]))
        declared.append(value)
    return Field("tools", encode(declared), None, (index,))


def _tool_choice(options: Options) -> dict[str, object] | None:
    choice, parallel = options.tool_choice, options.parallel_tools
    if choice is None and parallel is None:
        return None
    value: dict[str, object] = (
        {"type": choice or "auto"} if choice in {None, "auto", "any", "none"} else {"type": "tool", "name": choice}
    )
    if parallel is False:
        value["disable_parallel_tool_use"] = True
    return value
