"""Recording what a call gave back: its segments and calls in order, usage, and the turn's end where it ends one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from blake3 import blake3

from convlog.eventstore.canonical import split_halves
from convlog.eventstore.errors import Conflict, ConvlogError, NoSuchCall, PayloadRejected
from convlog.eventstore.events import (
    Body,
    CallFinished,
    CallObserved,
    CallPrepared,
    SegmentAdded,
    Source,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnState,
)
from convlog.eventstore.events import Usage as StoredUsage
from convlog.eventstore.records import Draft, Member, fit_key

from .profiles import load_profile
from .readers import read
from .readers.parts import CallPart, ForeignPart, Part, ReasoningPart, ResponseParts, ResultPart, TextPart

if TYPE_CHECKING:
    from .conversation import Thread

PAUSES = frozenset({"pause_turn"})
"""Stop reasons of a response that is complete and goes on in the next one: the same turn, asked again."""


class Recorded(msgspec.Struct, frozen=True):
    """What was recorded of one response."""

    nodes: tuple[int, ...]
    calls: tuple[ToolCalled, ...]
    """The calls that the host is to run now."""
    finished: int
    """Position of the `call.finished` event."""
    ended: bool
    """Whether the turn is over by it."""


class _Asked(msgspec.Struct, frozen=True):
    """What is known of the call that a response answers."""

    leaf: int | None = None
    provider: str | None = None
    model: str | None = None


def record(
    thread: Thread,
    response: Any,
    *,
    call: int | None = None,
    format: str | None = None,  # noqa: A002 - the word of the readers
    sent: bytes | None = None,
    end: bool = True,
    error: str | None = None,
) -> Recorded:
    """Record a response, or as much of one as came. The same response again is recorded once.

    Args:
        thread: the conversation.
        response: the provider's response, as its SDK gives it or as plain JSON values; or the events of a stream, as
            far as they came; None when nothing came.
        call: position of the manifest that this answers (`Prompt.call`), or of the request observed. The response goes
            below the head where the head is the node that was asked at or lies below it (another process may have gone
            on meanwhile), else below that node.
        format: the response's format, where it cannot be told from its shape.
        sent: the bytes that were sent; the record then says whether they were those prepared.
        end: whether this may end the turn: done by a complete response without calls, or by an error. Give False when
            a failed call is going to be tried again.
        error: what went wrong, when the call failed.

    Raises:
        NoSuchCall: no manifest and no observed request stands at `call`.
        UnreadableResponse: the response has no known shape.
        PayloadRejected: `sent` is not bytes.
        KeyMismatch: a response of this id was recorded with other content.
    """
    if sent is not None and not isinstance(sent, bytes):
        raise PayloadRejected(f"`sent` of type {type(sent).__name__}", hint="give the bytes that were sent")
    asked = _Asked() if call is None else _asked(thread, call)
    parts = read(response, format) if response is not None else ResponseParts()
    source = _source(asked, parts)
    key = _key(parts, call)
    drafts = _nodes(parts, parts.response or f"call-{call or thread.position}", source, key)
    drafts.append(_finished(thread, parts, source, call, sent, error, nodes=len(drafts), key=key))
    calls = tuple(draft.body for draft in drafts if isinstance(draft.body, ToolCalled) and draft.body.kind != "server")
    state = _end(parts, calls, error) if end else None
    return _append(thread, drafts, asked.leaf, state, error, calls, key)


def _append(
    thread: Thread,
    drafts: list[Draft],
    leaf: int | None,
    state: TurnState | None,
    error: str | None,
    calls: tuple[ToolCalled, ...],
    key: str | None,
) -> Recorded:
    """Append the batch: below the head when that is the call's leaf or lies below it, else below that leaf."""
    nodes = len(drafts) - 1
    while True:
        head = thread.head
        below_head = leaf is None or thread.tree.is_above(leaf, head)
        batch = list(drafts)
        if nodes and not below_head:
            # Only then is the parent stated: a retry is compared with what was stated, and the head has moved on.
            batch[0] = msgspec.structs.replace(batch[0], parent=leaf)
        if state is not None:
            batch.append(_turn_end(nodes, head if below_head else leaf or head, state, error, key))
        try:
            appended = thread.append_many(batch, expected_head=head)
        except Conflict:
            thread.refresh()
            continue
        positions = tuple(each.position for each in appended[:nodes])
        return Recorded(positions, calls, appended[nodes].position, state is not None)


def _turn_end(nodes: int, last: int, state: TurnState, error: str | None, key: str | None) -> Draft:
    def body(at: Sequence[int]) -> TurnEnded:
        return TurnEnded(node=at[nodes - 1] if nodes else last, state=state, error=error)

    return Draft(body=body, key=None if key is None else fit_key(f"{key}/end"))


def _end(parts: ResponseParts, calls: Sequence[ToolCalled], error: str | None) -> TurnState | None:
    """Give the state that the turn ends in; None when it goes on."""
    if error is not None:
        return "error"
    return "done" if parts.complete and not calls and parts.stop not in PAUSES else None


def _asked(thread: Thread, call: int) -> _Asked:
    body = thread.event(call, output=False).body
    if isinstance(body, CallObserved):
        return _Asked(body.leaf, body.provider, body.model)
    if not isinstance(body, CallPrepared):
        raise NoSuchCall(f"position {call} is no call", hint="give Prompt.call")
    try:
        profile = load_profile(thread.store.attachment(body.profile))
    except ConvlogError:
        # The profile is gone or damaged; an answer that came is recorded all the same.
        return _Asked(body.leaf)
    return _Asked(body.leaf, profile.provider, profile.model)


def _source(asked: _Asked, parts: ResponseParts) -> Source:
    """Name the model as it was asked for: answers often give it a date, and its sealed parts go back to it by name."""
    return Source("model", provider=asked.provider or parts.provider, model=asked.model or parts.model)


def _nodes(parts: ResponseParts, response: str, source: Source, key: str | None) -> list[Draft]:
    return [_node(part, index, response, source, key) for index, part in enumerate(parts.parts)]


def _node(part: Part, index: int, response: str, source: Source, key: str | None) -> Draft:
    body, output = _body(part, response, index)
    return Draft(
        body=body,
        parent=Member(index - 1) if index else None,
        key=None if key is None else fit_key(f"{key}/{index}"),
        source=source,
        output=output,
    )


def _key(parts: ResponseParts, call: int | None) -> str | None:
    """Give what a response's keys begin with: a response recorded twice is recorded once.

    Without an id of its own, one that answers a known call is told by its content; of all others nothing tells two
    apart.
    """
    if parts.response is not None:
        return f"response/{parts.response}"
    if call is None or not parts.parts:
        return None
    return f"call/{call}/{blake3(msgspec.json.encode(parts)).hexdigest()[:32]}"


def _body(part: Part, response: str, index: int) -> tuple[Body, bytes | None]:
    match part:
        case TextPart() | ReasoningPart():
            text, halves = split_halves(part.text)
            body: Body = SegmentAdded(
                kind="text" if isinstance(part, TextPart) else "reasoning",
                text=text,
                halves=halves,
                response=response,
                part=index,
                item=part.item,
                needs=part.needs,
                signature=part.signature,
                opaque=part.opaque,
            )
        case CallPart():
            body = ToolCalled(
                call=part.call,
                name=part.name,
                input=split_halves(part.input)[0],
                server=part.server,
                kind=part.kind,
                response=response,
                part=index,
                item=part.item,
                needs=part.needs,
                signature=part.signature,
                opaque=part.opaque,
            )
        case ResultPart():
            returned = ToolReturned(call=part.call, status=part.status, form="json", response=response, part=index)
            return returned, part.json.encode()
        case ForeignPart():
            body = SegmentAdded(
                kind="opaque", response=response, part=index, item=part.item, needs=part.needs, opaque=part.json
            )
    return body, None


def _finished(
    thread: Thread,
    parts: ResponseParts,
    source: Source,
    call: int | None,
    sent: bytes | None,
    error: str | None,
    *,
    nodes: int,
    key: str | None,
) -> Draft:
    usage = parts.usage
    body = CallFinished(
        response=parts.response or f"call-{call or thread.position}",
        provider=parts.provider,
        model=parts.model,
        usage=None if usage is None else msgspec.convert(usage, StoredUsage, from_attributes=True),
        stop=parts.stop,
        error=error or parts.error,
        sent=None if sent is None else blake3(sent).hexdigest(),
        sent_as_prepared=None if sent is None or call is None else sent_as_prepared(thread, call, sent),
    )
    about: tuple[tuple[str, int | Member], ...] = ()
    if call is not None:
        about = (("about", call),)
    elif nodes:
        about = (("about", Member(0)),)
    return Draft(body=body, source=source, key=None if key is None else fit_key(f"{key}/finished"), refs=about)


# --- what was sent ---


def sent_as_prepared(thread: Thread, call: int, sent: bytes) -> bool | None:
    """Whether bytes say what was prepared: equal, or equal as JSON (SDKs spell the same value otherwise).

    None when that cannot be told: the request was not prepared here, or cannot be derived again.
    """
    prepared = _prepared(thread, call)
    if prepared is None:
        return None
    if prepared == sent:
        return True
    try:
        return _is_same(msgspec.json.decode(prepared), msgspec.json.decode(sent))
    except (msgspec.DecodeError, RecursionError):
        return False


def _prepared(thread: Thread, call: int) -> bytes | None:
    from .calls import info_of
    from .replay import replay_call

    info = info_of(thread, call)
    if info is None:
        return None
    # What is compared comes from the events, not from what another process kept.
    replayed = replay_call(thread, info, kept=thread.store.proofs)
    if replayed.verdict == "exact" and replayed.prompt is not None:
        return replayed.prompt.body
    return None


def _is_same(one: Any, other: Any) -> bool:
    """Compare JSON values: numbers by value, and true is no 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
