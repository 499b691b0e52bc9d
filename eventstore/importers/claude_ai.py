"""Claude.ai exports: `conversations.json`, the answer of the site's own interface, or the ZIP that holds the export.

A message of the assistant holds a whole turn. Each round of it, up to the results of its calls, is a response of its
own. Newer exports name each message's parent; older ones are a chain in the order of the list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec import Raw

from .base import Desk
from .claude_ai_messages import AGENT, ClaudeAIMeaning, sender_of
from .conversations import Conversation, ConversationMapping, ConversationReader, Node, canonical
from .known import Identity
from .lines import Progress
from .message_trees import in_order, newest_leaf
from .report import ImportReport
from .slices import Fields, fields_of, items_of, name_of, object_text
from .times import microseconds

PARENT, LEAF, MESSAGES = "parent_message_uuid", "current_leaf_message_uuid", "chat_messages"

_BEGINNING = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\[\s*)?\{")
_MESSAGES = re.compile(rb'"chat_messages"\s*:\s*(?:\[|null)')
_NOBODY = re.compile(r"[0-]*(?:-4000-8000-)?[0-]*")
"""The parents that messages name which have none: ids that are all zeros, as far as the form of such ids lets them."""


class ClaudeAI:
    """The form of Claude.ai's data export."""

    name = AGENT

    def detect(self, head: bytes, path: Path | None) -> bool:  # noqa: ARG002 - the protocol's form
        """Whether a conversation with chat messages begins here."""
        return _BEGINNING.match(head) is not None and _MESSAGES.search(head) is not None

    def read(self, stream: BinaryIO, report: ImportReport, progress: Progress | None) -> ConversationReader:
        """Read the conversations."""
        return ConversationReader(stream, report, progress, conversation_of)

    def mapping(self, desk: Desk, path: Path | None) -> ConversationMapping:  # noqa: ARG002 - the protocol's form
        """Begin with one export."""
        return ConversationMapping(desk, ClaudeAIMeaning(desk.attach))

    def last_user_time(self, stream: BinaryIO) -> int:
        """Give the time of the newest message of a person."""
        reader = ConversationReader(stream, ImportReport(format=self.name), None, conversation_of)
        nodes = (node for conversation in reader.conversations() for node in conversation.nodes)
        return max((node.time for node in nodes if node.time and sender_of(node.fields) == "human"), default=0)


def conversation_of(fields: Fields, number: int, report: ImportReport) -> Conversation:
    """Read a conversation."""
    messages = items_of(fields.get(MESSAGES))
    if messages is None:
        report.warn(number, "no_messages", "a conversation without a list of messages")
    nodes, last = _nodes(messages or [], number, report)
    about = object_text(entry for entry in fields.items() if entry[0] != MESSAGES or messages is None)
    stated = name_of(fields.get(LEAF))
    told = in_order(nodes, number, report)
    if stated is not None and stated not in last:
        report.warn(number, "no_current_node", f"{stated} is not in the source; the newest leaf counts as active")
    return Conversation(
        number=number,
        id=_id(fields, nodes, number, report),
        state=ClaudeAIMeaning.state(fields),
        created=microseconds(name_of(fields.get("created_at"))),
        about=about or "{}",
        nodes=told,
        active=last.get(stated or "") or newest_leaf(told),
    )


def _id(fields: Fields, nodes: list[Node], number: int, report: ImportReport) -> str:
    stated = name_of(fields.get("uuid"))
    if stated:
        return stated
    report.warn(number, "no_id", "a conversation without an id goes by its first message")
    return Identity(None, (nodes[0].id if nodes else name_of(fields.get("name")) or "").encode()).id


def _nodes(messages: list[Raw], number: int, report: ImportReport) -> tuple[list[Node], dict[str, str]]:
    """Give the rounds of all messages, each below the one before it, and the last round of each message."""
    nodes: list[Node] = []
    last: dict[str, str] = {}
    read = [(message, fields_of(message)) for message in messages]
    is_tree = any(fields is not None and PARENT in fields for _, fields in read)
    for message, fields in read:
        if fields is None:
            report.warn(number, "not_object", "a message is no object")
        before = nodes[-1].id if nodes else None
        parts = list(_rounds(message, fields or {}))
        parts[0].parent = _parent(fields or {}, before, is_tree=is_tree)
        nodes += parts
        last[parts[0].id] = parts[-1].id
    for node in nodes:
        if node.goes_on is None and node.parent is not None:
            node.parent = last.get(node.parent, node.parent)
    return nodes, last


def _parent(fields: Fields, before: str | None, *, is_tree: bool) -> str | None:
    if not is_tree or PARENT not in fields:
        return before
    stated = name_of(fields[PARENT])
    return None if stated is None or _NOBODY.fullmatch(stated) else stated


def _rounds(message: Raw, fields: Fields) -> Iterator[Node]:
    """Part a message where the assistant goes on behind results; what is no list of blocks stays one."""
    id_ = name_of(fields.get("uuid")) or Identity(None, canonical(message)).id
    time = microseconds(name_of(fields.get("created_at")))
    blocks = items_of(fields.get("content")) or []
    starts = [0]
    if sender_of(fields) == "assistant":
        kinds = [_is_result(block) for block in blocks]
        starts += [place for place in range(1, len(kinds)) if kinds[place - 1] and not kinds[place]]
    for number, (start, stop) in enumerate(zip(starts, [*starts[1:], len(blocks)], strict=True)):
        own = fields if number == 0 else {"sender": fields["sender"]}
        if len(starts) > 1:
            own = {**own, "content": Raw(b"[" + b",".join(bytes(block) for block in blocks[start:stop]) + b"]")}
        yield Node(
            id=f"{id_}/{number}" if number else id_,
            parent=None if number == 0 else f"{id_}/{number - 1}" if number > 1 else id_,
            data=bytes(message) if number == 0 else (object_text(own.items()) or "").encode(),
            fields=own,
            time=time,
            goes_on=None if number == 0 else id_,
        )


def _is_result(block: Raw) -> bool:
    return name_of((fields_of(block) or {}).get("type")) == "tool_result"
