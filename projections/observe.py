"""Keeping a request that a host built by itself: its digest and, when asked for, its bytes. It is never derived."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blake3 import blake3

from convlog.eventstore.errors import PayloadRejected
from convlog.eventstore.events import CallObserved
from convlog.eventstore.placement import Appended
from convlog.eventstore.records import check_name

if TYPE_CHECKING:
    from .conversation import Thread


def observe(
    thread: Thread,
    request: bytes,
    *,
    provider: str | None = None,
    model: str | None = None,
    provider_state: str | None = None,
    capture: bool = False,
    leaf: int | None = None,
    key: str | None = None,
) -> Appended:
    """Record that a request was sent which was not prepared here (`call.observed`); `record` takes its answer.

    Args:
        thread: the conversation.
        request: the bytes that were sent.
        provider: whom they were sent to.
        model: the model that was asked.
        provider_state: what the provider holds itself of this conversation, such as a `previous_response_id`.
        capture: whether to keep the bytes as an attachment.
        leaf: the node that the request speaks of; default: the head.
        key: idempotency key.

    Raises:
        PayloadRejected: the request is not bytes; an ill-formed name.
        NoSuchNode: no node stands at `leaf`.
    """
    if not isinstance(request, bytes):
        raise PayloadRejected(f"a request of type {type(request).__name__}", hint="give the bytes that were sent")
    for name, what in ((provider, "provider"), (model, "model")):
        if name is not None:
            check_name(name, what)
    node = thread.head if leaf is None else leaf
    body = CallObserved(
        leaf=node,
        digest=blake3(request).hexdigest(),
        length=len(request),
        provider=provider,
        model=model,
        capture=thread.store.attach(request) if capture else None,
        provider_state=provider_state,
    )
    return thread.append(body, key=key, refs=(("about", node),))
