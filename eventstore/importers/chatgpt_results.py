"""What tools gave back in a ChatGPT conversation, and for which call: the export names none, the tree tells it."""

from __future__ import annotations

from ..canonical import split_halves
from ..events import Halves, Source, ToolReturned
from ..records import encode_blocks
from .base import Item
from .chatgpt_content import SHOWN, Message, blocks_of, message_of, texts_of
from .conversations import Conversation, Node
from .slices import fields_of, name_of, text_of

FAILED = "failed"
"""Begins the states of a run of code that went wrong."""


class Exchange:
    """The calls of a conversation and the results that were found for them."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._calls: dict[str, str] = {}
        """The tool that a call is meant for, by the call's node."""
        self._answers: dict[str, str] = {}
        """The call that a result answers, by the result's node."""

    def begin(self, conversation: Conversation) -> None:
        """Turn to a conversation."""
        self._nodes = {node.id: node for node in reversed(conversation.nodes)}
        self._calls, self._answers = {}, {}

    def called(self, node: Node, tool: str) -> None:
        """Take a call."""
        self._calls[node.id] = tool

    def answered(self, result: Node, tool: str | None) -> str:
        """Give the call that a result answers: the nearest open one above it, one of its tool before others.

        A result for which there is none goes by the nearest call, or by its own node.
        """
        calls, done = self._above(result)
        still_open = [call for call in calls if call not in done]
        meant = [call for call in still_open if _are_one(self._calls[call], tool)]
        found = next(iter([*meant, *still_open]), None)
        if found is None:
            return next(iter(calls), result.id)
        self._answers[result.id] = found
        return found

    def _above(self, result: Node) -> tuple[list[str], set[str]]:
        """Give the calls above a result back to the last words of a user, nearest first, and those with a result."""
        calls: list[str] = []
        done: set[str] = set()
        node = self._nodes.get(result.parent or "")
        while node is not None:
            message = message_of(node)
            if message is not None and message.role == "user" and not message.is_hidden:
                break
            if node.id in self._calls:
                calls.append(node.id)
            if node.id in self._answers:
                done.add(self._answers[node.id])
            node = self._nodes.get(node.parent or "")
        return calls, done


def _are_one(recipient: str, tool: str | None) -> bool:
    """Whether a call to a recipient is one to a tool: `browser.search` is of the tool `browser`."""
    return tool is not None and recipient.partition(".")[0] == tool.partition(".")[0]


def result_of(message: Message, call: str) -> Item:
    """Give a tool's message as a call's result."""
    parts, mapped = texts_of(message)
    only = parts[0] if len(parts) == 1 else None
    output = b""
    halves: Halves = ()
    if isinstance(only, str):
        text, halves = split_halves(only)
        output = text.encode()
    elif (stated := _shown(message)) is not None:
        text, halves = split_halves(stated)
        output, mapped, only = text.encode(), ("result",), text
    elif parts:
        output = encode_blocks(blocks_of(message)[0])
    else:
        mapped = ()
    body = ToolReturned(
        call=call,
        status=_status(message),
        form="text" if isinstance(only, str) or not parts else "blocks",
        halves=halves,
        extra=message.rest(mapped),
    )
    return Item(body=body, source=Source("tool"), output=output)


def _shown(message: Message) -> str | None:
    """Give the words of a page that was shown, which lie under `result`; None for another content."""
    is_shown = message.kind == SHOWN and message.content.keys().isdisjoint({"parts", "text"})
    return text_of(message.content.get("result")) if is_shown else None


def _status(message: Message) -> str:
    ran = fields_of(message.metadata.get("aggregate_result")) or {}
    stated = name_of(ran.get("status")) or ""
    failed = stated.startswith(FAILED) or message.kind == "system_error"
    return "cancelled" if stated == "cancelled" else "error" if failed else "ok"
