"""The talk as messages of alternating roles (X4, X5), for formats whose messages hold parts.

Where tool results must stand alone in their message (G6, B7), a short word of the model's separates them from what the
user says next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from .repairs_v1 import Repairs

START = "The conversation starts here."
CONTINUE = "Continue."
BRIDGE = "Noted."

SAID = "said"
THOUGHT = "thought"
CALL = "call"
RESULT = "result"


class Part(msgspec.Struct, gc=False):
    """One part, still open to change; `kind` is said, thought, call or result."""

    value: dict[str, Any]
    pieces: tuple[int, ...] = ()
    kind: str = SAID
    group: str = ""


class Message(msgspec.Struct, gc=False):
    """One message; the role is user or the format's word for the assistant."""

    role: str
    parts: list[Part]

    @property
    def has_results(self) -> bool:
        """Tool results stand in it."""
        return any(part.kind == RESULT for part in self.parts)


class Talk:
    """Messages that are being built.

    Args:
        assistant: The format's word for the assistant's role.
        text: Makes a text part's value.
        alone: The rule by which results stand alone in their message; "" where there is none.
    """

    def __init__(self, assistant: str, text: Callable[[str], dict[str, Any]], alone: str = "") -> None:
        self._assistant = assistant
        self._text = text
        self._alone = alone
        self.messages: list[Message] = []

    @property
    def last(self) -> Message | None:
        """The newest message."""
        return self.messages[-1] if self.messages else None

    @property
    def is_closed(self) -> bool:
        """The newest message holds results and takes nothing else."""
        return bool(self._alone) and self.last is not None and self.last.has_results

    def say(self, role: str, part: Part) -> None:
        """Add a part to the newest message of its role, or begin one."""
        last = self.last
        joins = last is not None and last.role == role and not (self.is_closed and part.kind != RESULT)
        if joins and last is not None:
            last.parts.append(part)
        else:
            self.messages.append(Message(role, [part]))

    def drop_thoughts(self, unwanted: Callable[[Message], bool]) -> list[Part]:
        """Take the reasoning out of some messages of the assistant, and give it."""
        dropped: list[Part] = []
        for message in self.messages:
            if message.role == self._assistant and unwanted(message):
                dropped.extend(part for part in message.parts if part.kind == THOUGHT)
                message.parts = [part for part in message.parts if part.kind != THOUGHT]
        return dropped

    def cut_thoughts(self) -> list[Part]:
        """Take out reasoning at the end of a message of the assistant: what it led to never came."""
        dropped: list[Part] = []
        for message in self.messages:
            while message.role == self._assistant and message.parts and message.parts[-1].kind == THOUGHT:
                dropped.append(message.parts.pop())
        return dropped

    def close(self, repairs: Repairs, *, prefill: bool = False) -> list[Message]:
        """Give the messages: alternating, the user's first and, unless `prefill`, last."""
        messages: list[Message] = []
        for message in self.messages:
            if message.parts:
                self._join(messages, message, repairs)
        if not messages or messages[0].role != "user":
            messages.insert(0, Message("user", [Part(self._text(START))]))
            repairs.add("user", START, "X5: the first message is the user's")
        if messages[-1].role != "user" and not prefill:
            messages.append(Message("user", [Part(self._text(CONTINUE))]))
            repairs.add("user", CONTINUE, "X5: the last message is the user's")
        return messages

    def _join(self, messages: list[Message], message: Message, repairs: Repairs) -> None:
        last = messages[-1] if messages else None
        if last is None or last.role != message.role:
            messages.append(message)
        elif self._alone and last.has_results:
            messages.append(Message(self._assistant, [Part(self._text(BRIDGE))]))
            messages.append(message)
            repairs.add("assistant", BRIDGE, f"{self._alone}: results stand alone in their message")
        else:
            last.parts.extend(message.parts)


def is_only_thought(message: Message) -> bool:
    """Say whether a message holds reasoning and nothing else: a stream that was cut, which no provider takes back."""
    return all(part.kind == THOUGHT for part in message.parts)
