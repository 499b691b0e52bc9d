"""The messages of a Messages request while they are built, and what makes them acceptable (A1-A5, A16-A19, A25-A27)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from .pieces_v1 import DROPPED, Piece, Text
from .repairs_v1 import Repairs
from .request_v1 import WireBlock, encode
from .wire_v1 import ends_in_space

START = "The conversation starts here."
CONTINUE = "Continue."
SYSTEM_NOTE = "<system>\n{}\n</system>"

TEXT = "text"
CALL = "tool_use"
RESULT = "tool_result"
COMPACTION = "compaction"
THINKING = frozenset({"thinking", "redacted_thinking"})
SERVER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})
SERVER_RESULT = "_tool_result"
"""How the types of their results end."""


class Block(msgspec.Struct, gc=False):
    """One content block: its bytes, its type, and what the rules look at."""

    wire: WireBlock
    type: str
    id: str = ""
    """The call it makes or answers, where a server does."""
    text: str = ""
    """The text of a text block."""

    @property
    def is_server_result(self) -> bool:
        """The provider's own server answers in it."""
        return self.type.endswith(SERVER_RESULT)


def text_block(text: str, *pieces: int) -> Block:
    """Give a text block."""
    return Block(WireBlock(encode({"type": "text", "text": text}), pieces), TEXT, text=text)


class Message(msgspec.Struct, gc=False):
    """One message."""

    role: str
    blocks: list[Block]

    @property
    def thinks(self) -> bool:
        """It holds thinking."""
        return self.role == "assistant" and any(block.type in THINKING for block in self.blocks)

    @property
    def begins_with_thinking(self) -> bool:
        """Thinking stands first, save for a compaction."""
        first = next((block for block in self.blocks if block.type != COMPACTION), None)
        return first is not None and first.type in THINKING

    @property
    def is_paused(self) -> bool:
        """It ends in the use of a server's tool, and is sent again as it is."""
        return self.role == "assistant" and (self.blocks[-1].type in SERVER_CALLS or self.blocks[-1].is_server_result)


class Messages:
    """Messages under construction; neighbours of one role are one message (A2)."""

    def __init__(self, pieces: Sequence[Piece], repairs: Repairs) -> None:
        self._pieces = pieces
        self._repairs = repairs
        self._types: set[str] = set()
        """Types of all blocks that were said."""
        self.all: list[Message] = []

    def say(self, role: str, block: Block) -> None:
        """Add a block to the newest message of its role, or begin one."""
        self._types.add(block.type)
        if self.all and self.all[-1].role == role:
            self.all[-1].blocks.append(block)
        else:
            self.all.append(Message(role, [block]))

    def mend(self, *, manual: bool, prefill: bool) -> bool:
        """Make the messages acceptable; say whether thinking must be off for them.

        Args:
            manual: Thinking is on, with a budget.
            prefill: The model takes the beginning of its answer.
        """
        if COMPACTION in self._types:
            self._begin_with_compaction()
        if any(type_ in SERVER_CALLS or type_.endswith(SERVER_RESULT) for type_ in self._types):
            self._pair_server_results()
        if not THINKING.isdisjoint(self._types):
            self._drop(_misplaced_thinking, "A18: thinking that is not first in its message, or led to nothing")
        off = manual and self._open_loop_without_thinking()
        if off:
            self._drop(_any_thinking, "A17: the open tool loop does not begin with thinking")
            self._repairs.add("system", "thinking", "A17: off for this call")
        self._place_system_text()
        self._mend_ends(prefill=prefill)
        return off

    # --- leaving out ---

    def _drop(self, unwanted: Callable[[Message], list[Block]], rule: str) -> None:
        """Leave blocks out, then messages that have none left, then join their neighbours."""
        found = False
        for message in self.all:
            if gone := unwanted(message):
                found = True
                known = {id(block) for block in gone}
                message.blocks = [block for block in message.blocks if id(block) not in known]
                for block in gone:
                    self._leave_out(block, rule)
        if found:
            self._join()

    def _leave_out(self, block: Block, rule: str) -> None:
        for index in block.wire.pieces:
            self._repairs.drop(self._pieces[index], rule)

    def _join(self) -> None:
        messages, self.all = self.all, []
        for message in messages:
            for block in message.blocks:
                self.say(message.role, block)

    # --- the provider's own parts ---

    def _begin_with_compaction(self) -> None:
        """A27: the newest compaction stands first; the provider reads nothing before it."""
        found = [
            (number, place)
            for number, message in enumerate(self.all)
            for place, block in enumerate(message.blocks)
            if block.type == COMPACTION
        ]
        while found:
            number, place = found.pop()
            message = self.all[number]
            if any(block.type == CALL for block in message.blocks[:place]):
                # Its results stand behind: the calls cannot go, so the compaction must.
                self._leave_out(message.blocks.pop(place), "A27: a compaction behind calls of its own message")
                continue
            before = [block for earlier in self.all[:number] for block in earlier.blocks] + message.blocks[:place]
            message.blocks = message.blocks[place:]
            self.all = self.all[number:]
            sources = sorted(
                {source for block in before for i in block.wire.pieces for source in self._pieces[i].sources}
            )
            if before:
                rule = "A27: the provider's compaction stands for what came before"
                self._repairs.pieces.append(Piece(DROPPED, "user", Text(""), tuple(sources), rule=rule))
            return

    def _pair_server_results(self) -> None:
        """A26: a server's result stands behind its call in one message; a call without one only where it pauses."""
        paired: set[int] = set()
        for message in self.all:
            waiting: dict[str, Block] = {}
            for block in message.blocks:
                if block.type in SERVER_CALLS:
                    waiting[block.id] = block
                elif block.is_server_result and message.role == "assistant" and block.id in waiting:
                    paired.update((id(waiting.pop(block.id)), id(block)))
        rule = "A26: a server's call and its result stand in one message"
        self._drop(
            lambda message: [block for block in message.blocks if block.is_server_result and id(block) not in paired],
            rule,
        )
        last = self.all[-1] if self.all else None
        compacted = bool(self.all) and self.all[0].blocks[0].type == COMPACTION
        paused = last if last is not None and last.is_paused and not compacted else None
        self._drop(
            lambda message: [
                block
                for block in message.blocks
                if message is not paused and block.type in SERVER_CALLS and id(block) not in paired
            ],
            rule,
        )

    # --- thinking ---

    def _open_loop_without_thinking(self) -> bool:
        last = next((message for message in reversed(self.all) if message.role == "assistant"), None)
        talk = [message for message in self.all if message.role != "system"]
        is_open = bool(talk) and talk[-1].role == "user" and talk[-1].blocks[0].type == RESULT
        return last is not None and is_open and not last.begins_with_thinking

    # --- places ---

    def _place_system_text(self) -> None:
        """A25: system text stands behind a user's message and before an answer; elsewhere a user's block says it."""
        if all(message.role != "system" for message in self.all):
            return
        messages, self.all = self.all, []
        for number, message in enumerate(messages):
            following = messages[number + 1].role if number + 1 < len(messages) else "assistant"
            behind_user = bool(self.all) and self.all[-1].role == "user"
            if message.role != "system" or (behind_user and following == "assistant"):
                for block in message.blocks:
                    self.say(message.role, block)
                continue
            for block in message.blocks:
                self.say("user", text_block(SYSTEM_NOTE.format(block.text), *block.wire.pieces))
                for index in block.wire.pieces:
                    self._repairs.note(self._pieces[index], "A25: no place for system text")

    def _mend_ends(self, *, prefill: bool) -> None:
        """A1: the first message is a user's. A3: the last one too, unless the model takes a prefill."""
        compacted = bool(self.all) and self.all[0].blocks[0].type == COMPACTION
        if not self.all or (self.all[0].role != "user" and not compacted):
            self.all.insert(0, Message("user", [text_block(START)]))
            self._repairs.add("user", START, "A1: the first message is a user's")
        last = self.all[-1]
        taken = last.is_paused or (prefill and last.blocks[-1].type == TEXT and not ends_in_space(last.blocks[-1].text))
        if last.role == "assistant" and (compacted or not taken):
            self.all.append(Message("user", [text_block(CONTINUE)]))
            self._repairs.add("user", CONTINUE, "A3: the last message is a user's")


def _any_thinking(message: Message) -> list[Block]:
    return [block for block in message.blocks if block.type in THINKING] if message.role == "assistant" else []


def _misplaced_thinking(message: Message) -> list[Block]:
    """A18; and thinking at the end of a message was cut before what it led to."""
    start = 0
    if message.begins_with_thinking:
        start = max((number for number, each in enumerate(message.blocks, 1) if each.type not in THINKING), default=0)
    return [block for block in message.blocks[start:] if block.type in THINKING]
