"""What the messages of a ChatGPT conversation mean: inputs, reasoning, texts, calls by their recipient, and results."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Raw

from ..canonical import split_halves
from ..errors import PayloadRejected
from ..events import (
    Content,
    Foreign,
    Image,
    InputAdded,
    InstructionsSet,
    Part,
    SegmentAdded,
    Source,
    Text,
    ToolCalled,
    TurnState,
)
from .base import Item, Response
from .chatgpt_results import Exchange, result_of
from .conversations import Conversation, Node, Said, State, canonical
from .known import ID_LENGTH_MAX
from .report import ImportReport
from .slices import Entries, Fields, clean_text, fields_of, is_true, items_of, name_of, object_text, spelled, text_of
from .slices import value_of
from .times import seconds

AGENT = "chatgpt"
PROVIDER = "openai"

USER, HOST, SYSTEM = Source("user"), Source("host"), Source("system")

_SAID_MAPPED = {"parts", "text"}
_SETTINGS = ("user_profile", "user_instructions")
_ENDS: dict[str, TurnState] = {"max_tokens": "incomplete", "interrupted": "interrupted", "error": "error"}
"""How a turn ends, by the kind of finish that a message states."""

_THOUGHTS = frozenset({"thoughts", "reasoning_recap"})
