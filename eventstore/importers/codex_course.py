"""Where a rollout stands: what the meaning of its next line depends on.

Lines carry no id of the response they belong to, and a count of tokens stands before its response's items in older
files, behind them in newer ones. All of it can be told again from the events that came of the lines, so that a rollout
goes on where an earlier part of it ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Raw

from ..errors import PayloadRejected
from ..events import (
    Event,
    InputAdded,
    InstructionsSet,
    RecordKept,
    SegmentAdded,
    SummaryAdded,
    ToolCalled,
    ToolReturned,
    TurnState,
    Usage,
)
from .base import is_name
from .openai_content import PROVIDER
from .slices import Fields, fields_of, name_of

SPEAKERS = frozenset({"user", "model"})
"""Kinds of source whose inputs begin turns: a person, or the agent that a sub-agent works for."""

TYPES = (
    *(
        RecordKept.TYPE,
        InstructionsSet.TYPE,
        InputAdded.TYPE,
        SegmentAdded.TYPE,
        ToolCalled.TYPE,
        ToolReturned.TYPE,
        SummaryAdded.TYPE,
    ),
)
"""The events that a course is told again from."""

STARTS = frozenset({"task_started", "turn_started"})
ENDS: dict[str, TurnState] = {
    "task_complete": "done",
    "turn_complete": "done",
    "turn_aborted": "interrupted",
    "error": "error",
}
"""Lifecycle events that begin a turn, and those that end one, with the state in which it ends."""

PARTING = frozenset({*STARTS, *ENDS, "thread_rolled_back"})

BURST_US = 50_000
"""A call that was written this soon after an output was not asked for because of it."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Tokens(msgspec.Struct):
    input_tokens: Count = 0
    cached_input_tokens: Count = 0
    output_tokens: Count = 0
    reasoning_output_tokens: Count = 0


class _Counts(msgspec.Struct):
    total_token_usage: _Tokens | None = None
    last_token_usage: _Tokens | None = None


_decode = msgspec.json.Decoder(_Counts | None).decode


class Course:
    """The response at hand, the model that answers, and tokens that wait for their response."""

    def __init__(self) -> None:
        self.provider = PROVIDER
        self.model: str | None = None
        self.response: str | None = None
        self.counted = False
        """Whether the tokens of the response at hand are known: then it is complete."""
        self.reasoning: str | None = None
        """The provider's id of the reasoning that was last in it."""
        self.origin: str | None = None
        """The thread whose history stands here as a copy."""
        self._thread: str | None = None
        self._is_running = False
        """Whether a turn began, and the user has spoken in it."""
        self._has_begun = False
        self._is_ended = True
        self._waiting: Usage | None = None
        self._total = _Tokens()
        self._output_at: int | None = None
        """When the last output was written, if nothing of a response followed it."""
        self._answered = False
        self._marked = False
        """Whether something stands between the last part of the response and here that parts responses."""

    # --- what lines say ---

    def session_meta(self, payload: Fields) -> bool:
        """Take a header, and say whether it is the first; one of another thread begins the copy of its history."""
        id_ = name_of(payload.get("id")) or ""
        if self._thread is None:
            provider = name_of(payload.get("model_provider"))
            self._thread, self.origin = id_, name_of(payload.get("forked_from_id"))
            self.provider = provider if provider and is_name(provider) else self.provider
            return True
        if id_ != self._thread:
            self.origin = self.origin or id_
        return False

    def turn_context(self, payload: Fields) -> None:
        """Take the settings of what follows."""
        self.model = name_of(payload.get("model")) or self.model
        self._marked = True

    def event(self, kind: str) -> TurnState | None:
        """Take a lifecycle event; give the state in which a turn ends with it."""
        if kind not in PARTING:
            return None
        self._part()
        self._has_begun, self._is_running = kind in STARTS, False
        state = ENDS.get(kind)
        if state is None or self._is_ended:
            return None
        self._is_ended = True
        return state

    def token_count(self, info: Raw | None) -> Usage | None:
        """Take a count of tokens; give it when it is of the response at hand, and none when it is yet to come.

        Raises:
            PayloadRejected: it cannot be one.
        """
        try:
            counts = _decode(info) if info is not None else None
        except msgspec.DecodeError as error:
            raise PayloadRejected(f"no count of tokens: {error}") from None
        if counts is None or counts == _Counts() or counts.total_token_usage == self._total != _Tokens():
            return None  # only limits were told, or the same was told again
        last = counts.last_token_usage or _difference(counts.total_token_usage or _Tokens(), self._total)
        self._total = counts.total_token_usage or self._total
        self._marked = True
        usage = _usage(last)
        if self.response is not None and not self.counted:
            self.counted = True
            return usage
        self._waiting = usage
        return None

    def said_to(self, *, by_user: bool) -> bool:
        """Take an input; give whether it steers a turn that is running."""
        self._part()
        self._is_ended = self._is_ended and not by_user
        steers = by_user and self._is_running
        self._is_running = self._is_running or (by_user and self._has_begun)
        return steers

    def compacted(self) -> None:
        """Take the replacement of what came before."""
        self._part()

    def _part(self) -> None:
        self.response = self.reasoning = self._output_at = None
        self.counted = self._marked = self._answered = False

    def answered(self, at: int | None) -> None:
        """Take an output."""
        self._output_at, self._answered = at, True

    def next_part(self, id_: str, at: int | None, *, is_call: bool) -> tuple[str, Usage | None]:
        """Take a part of a response; give the response's id, and its tokens when they came before it.

        Args:
            id_: the id of a response that would begin with it.
            at: when it was written.
            is_call: whether it is a call.
        """
        if not self._goes_on(at, is_call=is_call):
            self.response, self.reasoning = id_, None
            self.counted = self._waiting is not None
        usage, self._waiting = self._waiting, None
        self._marked = self._answered = self._is_ended = False
        return self.response or id_, usage

    def _goes_on(self, at: int | None, *, is_call: bool) -> bool:
        if self.response is None:
            return False
        if not self._answered:
            return not (self._marked and (self.counted or self._waiting is not None))
        near = at is not None and self._output_at is not None and 0 <= at - self._output_at < BURST_US
        return is_call and near and not self._marked

    # --- telling it again ---

    def resume(self, events: Iterable[Event]) -> None:
        """Take what came of earlier lines."""
        for event in events:
            body = event.body
            match body:
                case RecordKept():
                    self._hear_again(body.record)
                case InstructionsSet():
                    self._hear_again(body.extra or "{}", "session_meta")
                case SegmentAdded() | ToolCalled() if body.response is not None:
                    self._see_part(body)
                case ToolReturned():
                    self.answered(event.occurred_at)
                case InputAdded():
                    self.said_to(by_user=event.source.kind in SPEAKERS)
                case SummaryAdded():
                    self.compacted()

    def _hear_again(self, record: str, kind: str | None = None) -> None:
        try:
            fields = fields_of(record.encode()) or {}
            payload = fields_of(fields.get("payload")) or {}
            kind, said = kind or name_of(fields.get("type")), name_of(payload.get("type"))
            if kind == "turn_context":
                self.turn_context(payload)
            elif kind == "session_meta":
                self.session_meta(payload)
            elif kind == "compacted":
                self.compacted()
            elif kind == "event_msg" and said == "token_count":
                self.token_count(payload.get("info"))
            elif kind == "event_msg":
                self.event(said or "")
        except PayloadRejected:
            return

    def _see_part(self, body: SegmentAdded | ToolCalled) -> None:
        if body.response != self.response:
            self.response, self.reasoning = body.response, None
            self.counted = self._waiting is not None
        self._waiting = None
        self._marked = self._answered = self._is_ended = False
        if isinstance(body, SegmentAdded) and body.kind == "reasoning":
            self.reasoning = body.item or self.reasoning


def _difference(total: _Tokens, before: _Tokens) -> _Tokens:
    return _Tokens(
        max(0, total.input_tokens - before.input_tokens),
        max(0, total.cached_input_tokens - before.cached_input_tokens),
        max(0, total.output_tokens - before.output_tokens),
        max(0, total.reasoning_output_tokens - before.reasoning_output_tokens),
    )


def _usage(tokens: _Tokens) -> Usage:
    """Give the counts; those of the input include what was read from a cache."""
    cached = min(tokens.cached_input_tokens, tokens.input_tokens)
    return Usage(
        input=tokens.input_tokens - cached,
        cache_read=cached,
        output=tokens.output_tokens,
        reasoning=tokens.reasoning_output_tokens,
    )
