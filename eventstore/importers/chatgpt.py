"""ChatGPT exports: `conversations.json`, its shards, one conversation by itself, or the ZIP that holds them.

A conversation is a mapping of nodes; nodes without a message, and hidden ones, are links of its tree. The same node id
may stand in several conversations. Tokens, the system prompt and ids of calls are not exported.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO

from msgspec import Raw

from .base import Desk
from .chatgpt_messages import AGENT, ChatGPTMeaning
from .conversations import Conversation, ConversationMapping, ConversationReader, Node, canonical
from .known import Identity
from .lines import Progress
from .message_trees import in_order, newest_leaf
from .report import ImportReport
from .slices import Fields, fields_of, items_of, name_of, object_text, text_of
from .times import seconds

_BEGINNING = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\[\s*)?\{")
_MAPPING = re.compile(rb'"mapping"\s*:\s*(?:\{|null)')
_OWN = re.compile(rb'"(?:current_node|default_model_slug|gizmo_id|conversation_template_id)"\s*:')


class ChatGPT:
    """The form of ChatGPT's data export."""

    name = AGENT

    def detect(self, head: bytes, path: Path | None) -> bool:  # noqa: ARG002 - the protocol's form
        """Whether a conversation with a mapping of nodes begins here."""
        if _BEGINNING.match(head) is None:
            return False
        has_nodes = _MAPPING.search(head) is not None and (b'"children"' in head or b'"message"' in head)
        return has_nodes or (_OWN.search(head) is not None and b'"title"' in head)

    def read(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> ConversationReader:
        """Read the conversations."""
        return ConversationReader(stream, report, progress, conversation_of)

    def mapping(self, desk: Desk, path: Path | None) -> ConversationMapping:  # noqa: ARG002 - the protocol's form
        """Begin with one export."""
        return ConversationMapping(desk, ChatGPTMeaning())

    def last_user_time(self, stream: BinaryIO) -> int:
        """Give the time of the newest message of a user."""
        reader = ConversationReader(stream, ImportReport(format=self.name), None, conversation_of)
        times = (
            node.time
            for conversation in reader.conversations()
            for node in conversation.nodes
            if name_of((fields_of(_message(node).get("author")) or {}).get("role")) == "user"
        )
        return max((time for time in times if time is not None), default=0)


def conversation_of(fields: Fields, number: int, report: ImportReport) -> Conversation:
    """Read a conversation."""
    mapping = fields_of(fields.get("mapping"))
    if mapping is None:
        report.warn(number, "no_mapping", "a conversation without a mapping of nodes")
    nodes = [_node(id_, data, number, report) for id_, data in (mapping or {}).items()]
    about = object_text(entry for entry in fields.items() if entry[0] != "mapping" or mapping is None)
    return Conversation(
        number=number,
        id=_id(fields, nodes, number, report),
        state=ChatGPTMeaning.state(fields),
        created=seconds(fields.get("create_time")),
        about=about or "{}",
        nodes=in_order(nodes, number, report),
        active=_active(fields, nodes, number, report),
    )


def _node(id_: str, data: Raw, number: int, report: ImportReport) -> Node:
    fields = fields_of(data)
    if fields is None:
        report.warn(number, "not_object", f"the node {id_} is no object")
    fields = fields or {}
    children = [child for item in items_of(fields.get("children")) or [] if (child := name_of(item)) is not None]
    node = Node(id=id_, parent=name_of(fields.get("parent")), data=bytes(data), fields=fields, children=children)
    node.time = seconds(_message(node).get("create_time"))
    return node


def _message(node: Node) -> Fields:
    return fields_of(node.fields.get("message")) or {}


def _id(fields: Fields, nodes: list[Node], number: int, report: ImportReport) -> str:
    """Give a conversation's id; where it has none, the first node with a message names it."""
    stated = name_of(fields.get("conversation_id")) or name_of(fields.get("id"))
    if stated:
        return stated
    report.warn(number, "no_id", "a conversation without an id goes by its first message")
    first = next((node for node in nodes if _message(node)), None)
    named = canonical(first.fields["message"]) if first else (text_of(fields.get("title")) or "").encode()
    return Identity(None, named).id


def _active(fields: Fields, nodes: list[Node], number: int, report: ImportReport) -> str | None:
    stated = name_of(fields.get("current_node"))
    if stated is not None and any(node.id == stated for node in nodes):
        return stated
    if nodes:
        report.warn(number, "no_current_node", "the newest leaf counts as the active one")
    return newest_leaf(nodes)
