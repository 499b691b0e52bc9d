"""One message of a ChatGPT conversation: its fields, and the parts of its content."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from msgspec import Raw

from ..canonical import split_halves
from ..events import Content, Foreign, Image, Text
from .conversations import Node, canonical
from .known import key_part
from .slices import Entries, Fields, fields_of, is_true, items_of, name_of, object_text, spelled, text_of, value_of

PROVIDER = "openai"
EVERYBODY = "all"
"""The recipient of what is meant for the user; any other is a tool."""

SHOWN = "tether_browsing_display"
"""The kind of content whose words lie under `result`."""

_PARTS, _TEXT = ("parts",), ("text",)


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A node's message."""

    node: Node
    fields: Fields
    author: Fields
    content: Fields
    metadata: Fields

    @property
    def role(self) -> str | None:
        """Who speaks: system, user, assistant or tool."""
        return name_of(self.author.get("role"))

    @property
    def kind(self) -> str | None:
        """The kind of its content."""
        return name_of(self.content.get("content_type"))

    @property
    def recipient(self) -> str:
        """Whom it is meant for: everybody, or a tool."""
        return name_of(self.fields.get("recipient")) or EVERYBODY

    @property
    def is_call(self) -> bool:
        """Whether it is meant for a tool."""
        return self.recipient != EVERYBODY

    @property
    def is_hidden(self) -> bool:
        """Whether the site does not show it: then the user did not type it."""
        if is_true(self.metadata, "is_visually_hidden_from_conversation") or is_true(
            self.metadata, "is_user_system_message"
        ):
            return True
        weight = value_of(self.fields.get("weight"))
        return weight == 0 and weight is not False

    @property
    def stable(self) -> bytes:
        """What stays the same from one export to the next: who says what to whom."""
        told = [(name, self.fields[name]) for name in ("content", "recipient") if name in self.fields]
        role = self.author.get("role")
        entries: Entries = [*told, ("role", b"null" if role is None else role)]
        return canonical((object_text(entries) or "").encode())

    def rest(self, mapped: Collection[str]) -> str | None:
        """Give the JSON text of what has no place in an event; `mapped` are the content's entries that have one."""
        node = self.node
        is_told = name_of(node.fields.get("id")) == node.id == key_part(node.id)
        dropped = {"message"} | ({"id"} if is_told else set())
        outer: Entries = [
            entry
            for entry in node.fields.items()
            if entry[0] not in dropped and (entry[0] != "children" or node.children)
        ]
        inner: Entries = [
            entry
            for entry in self.fields.items()
            if entry[0] != "content" and (entry[0] != "id" or name_of(entry[1]) != node.id)
        ]
        content = object_text(entry for entry in self.content.items() if entry[0] not in mapped)
        if content is not None:
            inner.append(("content", content.encode()))
        elif not self.content and "content" in self.fields:
            inner.append(("content", self.fields["content"]))
        outer.append(("message", (object_text(inner) or "{}").encode()))
        return object_text(outer)


def message_of(node: Node) -> Message | None:
    """Give a node's message; None when it has none."""
    fields = fields_of(node.fields.get("message"))
    if fields is None:
        return None
    return Message(
        node=node,
        fields=fields,
        author=fields_of(fields.get("author")) or {},
        content=fields_of(fields.get("content")) or {},
        metadata=fields_of(fields.get("metadata")) or {},
    )


def texts_of(message: Message) -> tuple[list[str | Raw], Collection[str]]:
    """Give the parts of a content, strings as text and others as they are, and the entries that they came from."""
    parts = items_of(message.content.get("parts"))
    if parts is not None:
        return [part if (text := text_of(part)) is None else text for part in parts], _PARTS
    text = text_of(message.content.get("text"))
    if text is not None:
        return [text], _TEXT
    if not message.content:
        return [], ()
    return [Raw((object_text(message.content.items()) or "").encode())], tuple(message.content)


def joined(message: Message) -> tuple[str, Collection[str]]:
    """Give a content as one text, and the entries that are wholly in it."""
    parts, mapped = texts_of(message)
    text = "\n".join(part if isinstance(part, str) else spelled(part) for part in parts)
    return text, mapped if len(parts) == 1 and isinstance(parts[0], str) else ()


def blocks_of(message: Message) -> tuple[tuple[Content, ...], Collection[str]]:
    """Give a content as blocks, and the entries that they came from."""
    parts, mapped = texts_of(message)
    return tuple(_block(part) for part in parts), mapped


def _block(part: str | Raw) -> Content:
    if isinstance(part, str):
        return Text(*split_halves(part))
    fields = fields_of(part)
    pointer = name_of(fields.get("asset_pointer")) if fields else None
    if fields is None or not pointer or name_of(fields.get("content_type")) != "image_asset_pointer":
        return Foreign(json=spelled(part), provider=PROVIDER)
    width, height = (value_of(fields.get(name)) for name in ("width", "height"))
    if not (type(width) is int and type(height) is int):
        return Foreign(json=spelled(part), provider=PROVIDER)
    # The pointer is no address that anybody could fetch the picture from: it is its name.
    rest = (entry for entry in fields.items() if entry[0] not in {"content_type", "asset_pointer", "width", "height"})
    return Image(name=pointer, width=width, height=height, extra=object_text(rest))
