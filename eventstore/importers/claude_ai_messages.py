"""What the messages of a Claude.ai conversation mean: a person's words and pastes, and the answers, round by round."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec import Raw

from ..errors import TooLarge
from ..events import Content, Document, InputAdded, SegmentAdded, Source, Text, ToolReturned
from .anthropic_blocks import PROVIDER, Attach, contents_of
from .base import Item, Response, is_name
from .claude_ai_rounds import Round
from .conversations import Conversation, Node, Said, State, canonical
from .slices import Entries, Fields, clean_text, fields_of, items_of, name_of, object_text, text_of
from .times import microseconds

AGENT = "claude-ai"
USER = Source("user")

_STABLE = ("sender", "content", "text", "attachments")
"""Entries of a message that stay the same from one export to the next."""


def sender_of(fields: Fields) -> str | None:
    """Give who wrote a message."""
    return name_of(fields.get("sender"))


class ClaudeAIMeaning:
    """The meaning of messages, conversation by conversation."""

    agent = AGENT

    def __init__(self, attach: Attach) -> None:
        self._attach = attach
        self._conversation: Conversation | None = None
        self._model: str | None = None
        self._waiting: dict[str, list[tuple[str, str]]] = {}
        """(call, tool) of the calls without a result, by message."""

    @staticmethod
    def state(fields: Fields) -> State:
        """Read a conversation's title and when it changed."""
        return State(text_of(fields.get("name")) or None, microseconds(text_of(fields.get("updated_at"))) or 0)

    def said(self, conversation: Conversation, node: Node) -> Said | None:
        """Say what a message, or a round of one, means; None for one of nobody that is known."""
        if conversation is not self._conversation:
            self._conversation, self._waiting = conversation, {}
            self._model = name_of((fields_of(conversation.about.encode()) or {}).get("model"))
        sender = sender_of(node.fields)
        told = object_text((name, node.fields[name]) for name in _STABLE if name in node.fields)
        stable = canonical((told or "{}").encode())
        if sender == "human":
            return Said(stable=stable, items=(self._input(node),))
        return self._answer(conversation, node, stable) if sender == "assistant" else None

    def _answer(self, conversation: Conversation, node: Node, stable: bytes) -> Said:
        blocks = items_of(node.fields.get("content"))
        source = Source("model", provider=PROVIDER, model=self._model if is_name(self._model) else None)
        message = node.goes_on or node.id
        if blocks:
            told = Round(node, source, self._waiting.setdefault(message, []), self._attach)
            items = tuple(told.items(blocks, _entries(node, ())))
        else:
            content, mapped = _flat(node.fields)
            words, halves = (content[0].text, content[0].halves) if content else ("", ())
            extra = object_text(_entries(node, mapped))
            body = SegmentAdded(text=words, halves=halves, response=node.id, part=0, extra=extra)
            items = (Item(body=body, source=source),)
        response = Response(
            id=node.id,
            message=f"{conversation.id}/{message}",
            provider=PROVIDER,
            model=self._model,
            stop=name_of(node.fields.get("stop_reason")),
            whole=True,
            goes_on=isinstance(items[-1].body, ToolReturned),
        )
        return Said(stable=stable, items=items, response=response)

    def _input(self, node: Node) -> Item:
        blocks = items_of(node.fields.get("content"))
        content: tuple[Content, ...]
        if blocks:
            content, rests = contents_of(blocks, self._attach)
            extra = _entries(node, ("attachments",))
            if rests is not None:
                extra.append(("blocks", rests.encode()))
        else:
            content, mapped = _flat(node.fields)
            extra = _entries(node, (*mapped, "attachments"))
        stated = node.fields.get("attachments")
        attached = list(self._attached(stated))
        if stated is not None:
            is_list = items_of(stated) is not None
            extra.append(("attachments", b"[" + b",".join(rest for _, rest in attached) + b"]" if is_list else stated))
        content = (*content, *(block for block, _ in attached if block is not None))
        return Item(body=InputAdded(content=content, extra=object_text(extra)), source=USER)

    def _attached(self, attachments: Raw | None) -> Iterator[tuple[Content | None, bytes]]:
        """Give the text that was taken out of each file, or that was pasted, and what is left of its entry."""
        for attachment in items_of(attachments) or []:
            fields = fields_of(attachment) or {}
            content = self._attachment(fields)
            rest = (entry for entry in fields.items() if entry[0] != "extracted_content")
            yield content, bytes(attachment) if content is None else (object_text(rest) or "{}").encode()

    def _attachment(self, fields: Fields) -> Content | None:
        """Give a paste, which has no file's name, as text, and a file as a document; None where no text is stated."""
        text = clean_text(fields.get("extracted_content"))
        if text is None or not text[0]:
            return None
        name = name_of(fields.get("file_name"))
        if not name or text[1]:
            return Text(*text)
        try:
            return Document(media_type="text/plain", attachment=self._attach(text[0].encode()), name=name)
        except TooLarge:
            return None


def _flat(fields: Fields) -> tuple[tuple[Text, ...], tuple[str, ...]]:
    """Give the flattened text of a message without blocks, and the entries that it came from."""
    text = clean_text(fields.get("text"))
    return ((), ()) if text is None else ((Text(*text),), ("text",))


def _entries(node: Node, mapped: Collection[str]) -> Entries:
    """Give what of a message has no place in its blocks; of its later rounds there is nothing more."""
    if node.goes_on is not None:
        return []
    fields = node.fields
    dropped = {"sender", *mapped} | ({"uuid"} if name_of(fields.get("uuid")) == node.id else set())
    blocks = items_of(fields.get("content"))
    if blocks:
        dropped.add("content")
        only = fields_of(blocks[0]) if len(blocks) == 1 else None
        if only is not None and text_of(only.get("text")) == text_of(fields.get("text")):
            dropped.add("text")
    return [entry for entry in fields.items() if entry[0] not in dropped]
