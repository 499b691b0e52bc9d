"""Recording what a call gave back: its segments and calls in order, usage, and the turn's end where it ends one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from blake3 import blake3

from convlog.eventstore.canonical import split_halves
from convlog.eventstore.errors import NoSuchCall
from convlog.eventstore.events import (
    Body,
    CallFinished,
    CallPrepared,
    SegmentAdded,
    Source,
    ToolCalled,
    ToolReturned,
    TurnEnded,
)
from convlog.eventstore.events import Usage as StoredUsage
from convlog.eventstore.records import Draft, Member, fit_key

from .profiles import load_profile
from .readers import read
from .readers.parts import CallPart, ForeignPart, Part, ReasoningPart, ResponseParts, ResultPart, TextPart

if TYPE_CHECKING:
    from .conversation import Thread


class Recorded(msgspec.Struct, frozen=True):
    """What was recorded of one response."""

    nodes: tuple[int, ...]
    calls: tuple[ToolCalled, ...]
    """The calls that the host is to run now."""
    finished: int
    """Position of the `call.finished` event."""
    ended: bool
    """Whether the turn was noted as done."""


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
    """Record a response, or as much of one as came.

    Args:
        thread: the conversation.
        response: the provider's response, as its SDK gives it or as plain JSON values; or the events of a stream, as
            far as they came; None when nothing came.
        call: position of the manifest that this answers (`Prompt.call`).
        format: the response's format, where it cannot be told from its shape.
        sent: the bytes that were sent; the record then says whether they were those prepared.
        end: whether a complete response without calls ends the turn.
        error: what went wrong, when the call failed.

    Raises:
        NoSuchCall: no manifest stands at `call`.
        UnreadableResponse: the response has no known shape.
    """
    manifest = None if call is None else _manifest(thread, call)
    parts = read(response, format) if response is not None else ResponseParts()
    source = _source(thread, manifest, parts)
    name = parts.response or f"call-{call or thread.position}"
    drafts = _nodes(parts, name, source, _parent(thread, manifest))
    nodes = len(drafts)
    drafts.append(_finished(thread, parts, source, name, call, nodes, sent, error))
    calls = tuple(draft.body for draft in drafts if isinstance(draft.body, ToolCalled) and draft.body.kind != "server")
    ended = end and ((parts.complete and not calls) or error is not None)
    if ended:
        last = thread.head if nodes == 0 else None
        state = "done" if error is None else "error"
        drafts.append(Draft(body=lambda at: TurnEnded(node=last or at[nodes - 1], state=state, error=error)))  # type: ignore[arg-type] # the two words are turn states
    appended = thread.append_many(drafts)
    return Recorded(tuple(each.position for each in appended[:nodes]), calls, appended[nodes].position, ended)


def _manifest(thread: Thread, call: int) -> CallPrepared:
    body = thread.event(call, output=False).body
    if not isinstance(body, CallPrepared):
        raise NoSuchCall(f"position {call} is no prepared call", hint="give Prompt.call")
    return body


def _source(thread: Thread, manifest: CallPrepared | None, parts: ResponseParts) -> Source:
    """Name the model as it was asked for: answers often give it a date, and its sealed parts go back to it by name."""
    if manifest is None:
        return Source("model", provider=parts.provider, model=parts.model)
    asked = load_profile(thread.store.attachment(manifest.profile))
    return Source("model", provider=asked.provider, model=asked.model)


def _parent(thread: Thread, manifest: CallPrepared | None) -> int:
    """Below the head when it is the call's leaf or lies below it; else below that leaf."""
    if manifest is None or thread.tree.is_above(manifest.leaf, thread.head):
        return thread.head
    return manifest.leaf


def _nodes(parts: ResponseParts, response: str, source: Source, parent: int) -> list[Draft]:
    drafts: list[Draft] = []
    for index, part in enumerate(parts.parts):
        body, output = _body(part, response, index)
        drafts.append(
            Draft(
                body=body,
                parent=Member(index - 1) if index else parent,
                key=_key(parts.response, str(index)),
                source=source,
                output=output,
            )
        )
    return drafts


def _key(response: str | None, rest: str) -> str | None:
    """A response recorded twice is recorded once; without an id nothing tells two apart."""
    if response is None:
        return None
    return fit_key(f"response/{response}/{rest}")


def _body(part: Part, response: str, index: int) -> tuple[Body, bytes | None]:
    match part:
        case TextPart():
            text, halves = split_halves(part.text)
            body: Body = SegmentAdded(
                text=text,
                halves=halves,
                response=response,
                part=index,
                item=part.item,
                needs=part.needs,
                signature=part.signature,
                opaque=part.opaque,
            )
        case ReasoningPart():
            text, halves = split_halves(part.text)
            body = SegmentAdded(
                kind="reasoning",
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
    name: str,
    call: int | None,
    nodes: int,
    sent: bytes | None,
    error: str | None,
) -> Draft:
    usage = parts.usage
    body = CallFinished(
        response=name,
        provider=parts.provider,
        model=parts.model,
        usage=None
        if usage is None
        else StoredUsage(
            input=usage.input,
            cache_read=usage.cache_read,
            cache_write=usage.cache_write,
            output=usage.output,
            reasoning=usage.reasoning,
        ),
        stop=parts.stop,
        error=error or parts.error,
        sent=None if sent is None else blake3(sent).hexdigest(),
        sent_as_prepared=None if sent is None or call is None else _as_prepared(thread, call, sent),
    )
    about: tuple[tuple[str, int | Member], ...] = ()
    if call is not None:
        about = (("about", call),)
    elif nodes:
        about = (("about", Member(0)),)
    return Draft(body=body, source=source, key=_key(parts.response, "finished"), refs=about)


def _as_prepared(thread: Thread, call: int, sent: bytes) -> bool:
    """Whether bytes say what was prepared: equal, or equal as JSON (SDKs spell the same value otherwise)."""
    from .calls import calls
    from .replay import replay_call

    info = next(info for info in calls(thread) if info.position == call)
    replayed = replay_call(thread, info)
    if replayed.prompt is None or replayed.verdict != "exact":
        return False
    prepared = replayed.prompt.body
    if prepared == sent:
        return True
    try:
        return bool(msgspec.json.decode(prepared) == msgspec.json.decode(sent))
    except msgspec.DecodeError:
        return False
