"""What the messages of a ChatGPT conversation mean: inputs, reasoning, texts, calls by their recipient, and results."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from ..canonical import split_halves
from ..errors import PayloadRejected
from ..events import (
    Body,
    InputAdded,
    InstructionsSet,
    Part,
    SegmentAdded,
    Source,
    ToolCalled,
    TurnState,
)
from .base import Item, Response, is_name
from .chatgpt_content import PROVIDER, Message, blocks_of, joined, message_of, texts_of
from .chatgpt_results import Exchange, result_of
from .conversations import Conversation, Node, Said, State
from .slices import Fields, fields_of, items_of, name_of, spelled, text_of
from .times import seconds

AGENT = "chatgpt"

USER, HOST, SYSTEM = Source("user"), Source("host"), Source("system")

SETTINGS = ("user_profile", "user_instructions")
"""What the user once wrote for all conversations: it stands before the model as instructions do."""

ENDS: dict[str, TurnState] = {"max_tokens": "incomplete", "interrupted": "interrupted"}
"""How a turn ends, by the kind of finish that a message states; all others are done."""

REASONING = frozenset({"thoughts", "reasoning_recap"})


class ChatGPTMeaning:
    """The meaning of messages, conversation by conversation."""

    agent = AGENT

    def __init__(self) -> None:
        self._exchange = Exchange()
        self._conversation: Conversation | None = None
        self._continued: frozenset[str | None] = frozenset()
        """Nodes that the model, or a tool, goes on from."""

    @staticmethod
    def state(fields: Fields) -> State:
        """Read a conversation's title and when it changed."""
        return State(text_of(fields.get("title")), seconds(fields.get("update_time")) or 0)

    def said(self, conversation: Conversation, node: Node) -> Said | None:
        """Say what a node means; None for one without a message, or with one that says nothing."""
        if conversation is not self._conversation:
            self._begin(conversation)
        message = message_of(node)
        if message is None:
            return None
        match message.role:
            case "user" | "system":
                items, response, ends = self._input(message), None, None
            case "assistant":
                return self._answer(conversation, message)
            case "tool":
                call = self._exchange.answered(node, name_of(message.author.get("name")))
                items, response, ends = (result_of(message, call),), None, None
            case _:
                return None
        return None if items is None else Said(stable=message.stable, items=items, response=response, ends=ends)

    def _begin(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._exchange.begin(conversation)
        told = ((node.parent, message_of(node)) for node in conversation.nodes)
        self._continued = frozenset(
            parent for parent, message in told if message is not None and message.role in {"assistant", "tool"}
        )

    # --- inputs ---

    def _input(self, message: Message) -> tuple[Item, ...] | None:
        """Give what the user, or the program, put in; None for a system message without words."""
        if message.kind == "user_editable_context":
            return _settings(message)
        content, mapped = blocks_of(message)
        if message.role == "system" and not any(getattr(part, "text", "?").strip() for part in content):
            return None
        body = InputAdded(
            role="system" if message.role == "system" else "user",
            content=content,
            steer=message.is_hidden,
            extra=message.rest(mapped),
        )
        source = SYSTEM if message.role == "system" else HOST if message.is_hidden else USER
        return (Item(body=body, source=source),)

    # --- what the model said ---

    def _answer(self, conversation: Conversation, message: Message) -> Said:
        node = message.node
        model = name_of(message.metadata.get("model_slug"))
        source = Source("model", provider=PROVIDER, model=model if is_name(model) else None)
        finish = name_of((fields_of(message.metadata.get("finish_details")) or {}).get("type"))
        ends = ENDS.get(finish or "")
        items = tuple(
            Item(body=body, source=source)
            for body in (self._call(message) if message.is_call else _segments(message, node.id))
        )
        response = Response(
            id=node.id,
            message=f"{conversation.id}/{node.id}",
            provider=PROVIDER,
            model=model,
            stop=finish,
            whole=True,
            goes_on=ends is not None or self._goes_on(message),
        )
        return Said(stable=message.stable, items=items, response=response, ends=ends)

    def _goes_on(self, message: Message) -> bool:
        """Whether the turn goes on: where the message does not say, by what it is and by what follows it."""
        stated = bytes(message.fields.get("end_turn", b"null"))
        if stated != b"null":
            return stated != b"true"
        in_progress = name_of(message.fields.get("status")) == "in_progress"
        return in_progress or message.kind in REASONING or message.node.id in self._continued

    def _call(self, message: Message) -> Iterator[Body]:
        self._exchange.called(message.node, message.recipient)
        text, mapped = joined(message)
        words, halves = split_halves(text)
        yield ToolCalled(
            call=message.node.id,
            name=message.recipient,
            input=words,
            kind="function" if _is_object(words) else "custom",
            response=message.node.id,
            part=0,
            extra=message.rest(() if halves else mapped),
        )


def _is_object(text: str) -> bool:
    try:
        return fields_of(text.strip().encode()) is not None
    except PayloadRejected:
        return False


def _settings(message: Message) -> tuple[Item, ...] | None:
    found = [(name, text) for name in SETTINGS if (text := text_of(message.content.get(name)))]
    if not found:
        return None
    texts = [(name, split_halves(text)) for name, text in found]
    parts = tuple(Part(name=name, text=text, origin="user") for name, (text, _) in texts)
    mapped = [name for name, (_, halves) in texts if not halves]
    return (Item(body=InstructionsSet(parts=parts, extra=message.rest(mapped)), source=USER),)


def _segments(message: Message, response: str) -> Iterator[SegmentAdded]:
    """Give the parts of a message, the first with what has no place."""
    for number, segment in enumerate(_spoken(message)):
        yield msgspec.structs.replace(segment, response=response, part=number)


def _spoken(message: Message) -> Iterator[SegmentAdded]:
    if message.kind in REASONING:
        words, halves = split_halves(_thought(message))
        yield SegmentAdded(kind="reasoning", text=words, halves=halves, extra=message.rest(()))
        return
    parts, mapped = texts_of(message)
    extra = message.rest(mapped if parts else ())
    for part in parts:
        if isinstance(part, str):
            words, halves = split_halves(part)
            yield SegmentAdded(text=words, halves=halves, extra=extra)
        else:
            yield SegmentAdded(kind="opaque", opaque=spelled(part), extra=extra)
        extra = None
    if not parts:
        yield SegmentAdded(extra=extra)


def _thought(message: Message) -> str:
    """Give the words of a record of thinking: each thought's summary and content, or what stands in their place."""
    thoughts = [fields_of(thought) or {} for thought in items_of(message.content.get("thoughts")) or []]
    if thoughts:
        return "\n\n".join(filter(None, (_lines(thought, ("summary", "content")) for thought in thoughts)))
    stated = text_of(message.content.get("content"))
    return stated if stated is not None else "\n\n".join(part for part in texts_of(message)[0] if isinstance(part, str))


def _lines(fields: Fields, names: Collection[str]) -> str:
    return "\n".join(text for name in names if (text := text_of(fields.get(name))))
