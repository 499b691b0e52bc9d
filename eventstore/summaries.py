"""Recording summaries over closed ranges: added, failed, invalidated, made again. Nothing is ever replaced."""

from __future__ import annotations

import msgspec

from .calls import TYPES as CALLS
from .canonical import check_json_text, split_halves
from .errors import Conflict, NoSuchCall, NoSuchNode, PayloadRejected
from .events import Redacted, Source, SummaryAdded, SummaryFailed, SummaryInvalidated, SummaryStarted
from .placement import Appended
from .ranges import closed_range, covered_hash
from .records import Draft, check_name
from .thread import Thread


def start_summary(thread: Thread, first: int, last: int, *, on: int | None = None, maker: str = "host") -> Appended:
    """Note that a summary over a range is being made; the range is checked now."""
    closed_range(thread, first, last, on)
    return thread.append(SummaryStarted(first=first, last=last, maker=maker))


def add_summary(
    thread: Thread,
    first: int,
    last: int,
    text: str,
    *,
    on: int | None = None,
    maker: str = "hand",
    parameters: str = "{}",
    call: int | None = None,
    replaces: int | None = None,
    key: str | None = None,
    source: Source | None = None,
    expected_position: int | None = None,
) -> Appended:
    """Store a summary over the closed range `first`..`last` of the path to `on` (default: the head).

    Args:
        thread: the conversation.
        first: the range's first node.
        last: its last node.
        text: what stands for it in prompts.
        on: the leaf of the path meant.
        maker: a projection's `name@version`, a host's name, or `hand`.
        parameters: JSON text, for a maker that derives.
        call: position of the call that asked a model for the text.
        replaces: the summary that this one was made again for.
        key: idempotency key.
        source: who states it.
        expected_position: refuse unless this is the tip.

    Raises:
        BadRange, NotClosed: the range is none, or would cut a call from its result.
        PayloadRejected: a blank text.
        NoSuchNode, NoSuchCall: no summary stands at `replaces`, or no call at `call`.
        Conflict: the tip is not the expected one.
    """
    if not text.strip():
        raise PayloadRejected("a summary without words stands for nothing", hint="record the failure instead")
    check_name(maker, "maker")
    check_json_text(parameters)
    text, halves = split_halves(text)
    if replaces is not None:
        _require(thread, replaces)
    if call is not None and thread.event(call, output=False).type not in CALLS:
        raise NoSuchCall(f"position {call} is no call", hint="name the call that asked a model for the text")
    body = SummaryAdded(
        first=first,
        last=last,
        text=text,
        halves=halves,
        maker=maker,
        parameters=parameters,
        call=call,
        replaces=replaces,
    )
    draft = Draft(body=body, key=key, source=source or Source("host"))
    return _append_judged(thread, draft, body, on, expected_position)


def _append_judged(
    thread: Thread, draft: Draft, body: SummaryAdded, on: int | None, expected_position: int | None
) -> Appended:
    """Append a summary at the very position that its range was judged at: nothing may come in between."""
    while True:
        position = thread.position
        nodes = closed_range(thread, body.first, body.last, on)
        judged = msgspec.structs.replace(body, covered=covered_hash(thread, nodes), nodes=len(nodes))
        draft = msgspec.structs.replace(draft, body=judged)
        try:
            return thread.append_many([draft], expected_position=expected_position or position)[0]
        except Conflict:
            if expected_position is not None:
                raise
            thread.refresh()


def fail_summary(thread: Thread, first: int, last: int, reason: str) -> Appended:
    """Note that no summary came of it; the range stays as it was."""
    return thread.append(SummaryFailed(first=first, last=last, reason=reason))


def invalidate_summary(thread: Thread, summary: int, reason: str) -> Appended:
    """Note that a summary is no longer to be used.

    Raises:
        NoSuchNode: no summary stands at this position.
    """
    _require(thread, summary)
    return thread.append(SummaryInvalidated(summary=summary, reason=reason))


def stale_summaries(thread: Thread) -> list[int]:
    """Give the summaries, not invalidated, whose range no longer is what it was when they were made.

    A covered call got its result later, or something covered was redacted since.
    """
    events = list(thread.events(types=(SummaryAdded.TYPE, SummaryInvalidated.TYPE, Redacted.TYPE)))
    gone = {event.body.summary for event in events if isinstance(event.body, SummaryInvalidated)}
    erased = [
        (event.position, target.position)
        for event in events
        if isinstance(event.body, Redacted)
        for target in event.body.targets
    ]
    return [
        event.position
        for event in events
        if isinstance(event.body, SummaryAdded)
        and event.position not in gone
        and _is_stale(thread, event.position, event.body, erased)
    ]


def _is_stale(thread: Thread, position: int, body: SummaryAdded, erased: list[tuple[int, int]]) -> bool:
    tree = thread.tree_with_calls
    if not (tree.is_node(body.first) and tree.is_node(body.last)):
        return True
    covered = {node for node in tree.path(body.last) if node >= body.first}
    if any(when > position and target in covered for when, target in erased):
        return True
    return any(result not in covered for node in covered for result in tree.results(node))


def _require(thread: Thread, summary: int) -> None:
    if thread.event(summary).type != SummaryAdded.TYPE:
        raise NoSuchNode(f"position {summary} is no summary", hint="`convlog log --kind summary.added` lists them")
