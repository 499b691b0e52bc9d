"""Auditing a whole store: each thread's chain first, then every call and every derived summary of it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import msgspec

from convlog.eventstore.errors import ConvlogError, OpeningError
from convlog.eventstore.summaries import stale_summaries
from convlog.eventstore.verify import is_fault, verify_thread

from .calls import CallInfo, calls
from .conversation import Store, Thread
from .conversation import open as open_store
from .live import LiveThreads
from .replay import Replayed, damaged, replay, replay_call, unprovable
from .summarise import restated

CHUNK_THREADS = 16
"""Threads that a worker is given at once: enough to pay for the way there, few enough to share the work."""

CHUNKS_MIN = 16
"""So many pieces at least, as far as there are threads: the last one to finish then keeps nobody waiting for long."""

_DAMAGE = (ConvlogError, TypeError, ValueError, AttributeError, KeyError, IndexError, msgspec.MsgspecError)
"""What reading damaged rows can raise: columns may hold anything."""


class Finding(msgspec.Struct, frozen=True):
    """One call that is not exact, or one thing wrong with a thread."""

    call: int | None
    """Number of the call; None for what is of the thread itself, or of a summary (`position`)."""
    verdict: str
    """differs, unprovable or damaged."""
    assembler: str = ""
    """For a summary: its maker."""
    encoder: str = ""
    reason: str = ""
    detail: str = ""
    position: int | None = None


class ThreadAudit(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one thread."""

    thread: str
    tip: str
    events: int
    damaged: bool
    verdicts: dict[str, int]
    """`assembler encoder verdict` to the number of calls."""
    prompt_bytes: int
    findings: list[Finding]
    summaries: int = 0
    """Summaries that a projection made, derived again."""
    stale: list[int] = []
    """Summaries that no longer say what they cover."""

    @property
    def failed(self) -> bool:
        """Whether something is wrong that nobody did on purpose."""
        return self.damaged or any(finding.verdict == "differs" for finding in self.findings)


class Total(msgspec.Struct):
    """What became of all."""

    threads: int = 0
    calls: int = 0
    damaged: int = 0
    failed: int = 0
    unprovable: int = 0
    prompt_bytes: int = 0
    verdicts: dict[str, int] = {}

    def add(self, audit: ThreadAudit) -> None:
        """Take one thread's audit in."""
        self.threads += 1
        self.calls += sum(audit.verdicts.values())
        self.damaged += audit.damaged
        self.failed += audit.failed
        self.unprovable += sum(1 for finding in audit.findings if finding.verdict == "unprovable")
        self.prompt_bytes += audit.prompt_bytes
        counts = Counter(self.verdicts)
        counts.update(audit.verdicts)
        self.verdicts = dict(counts)


def audit_thread(store: Store, thread: str) -> ThreadAudit:
    """Audit one thread: its chain and bodies first; no call of a damaged thread is called exact."""
    handle = store.thread(thread)
    findings = [
        Finding(None, "damaged", reason=problem.kind, detail=problem.message, position=problem.position)
        for problem in verify_thread(store, thread)
        if is_fault(problem)
    ]
    if findings:
        return _audit_damaged(handle, findings)
    judged = _replayed_all(handle)
    summaries = list(restated(handle))
    findings = judged.findings + [
        Finding(None, each.verdict, each.maker, reason=each.reason, detail=each.detail, position=each.summary)
        for each in summaries
        if each.verdict != "exact"
    ]
    return _result(handle, judged, findings, summaries=len(summaries), stale=stale_summaries(handle))


def _replayed_all(handle: Thread) -> _Judged:
    """Derive all calls again: each from the one before, and all of them whole should a comparison ever fail."""
    kept, judged = LiveThreads(checks=True), _Judged()
    for replayed in replay(handle, kept=kept):
        judged.take(replayed)
    if kept.failed:
        judged = _Judged()
        for info in calls(handle):
            judged.take(replay_call(handle, info))
    return judged


def _audit_damaged(handle: Thread, findings: list[Finding]) -> ThreadAudit:
    """Say what can still be said of a damaged thread: that none of its calls is provable, as far as they are found."""
    judged = _Judged()
    try:
        for info in calls(handle):
            judged.take(damaged(_replayed(handle, info)))
    except _DAMAGE as error:
        findings = [*findings, Finding(None, "damaged", reason="calls", detail=f"the calls cannot be listed: {error}")]
    return _result(handle, judged, findings + judged.findings, is_damaged=True)


def _replayed(handle: Thread, info: CallInfo) -> Replayed:
    try:
        return replay_call(handle, info)
    except _DAMAGE as error:
        return unprovable(info, "damaged", f"what is stored cannot be read: {error}")


def _result(
    handle: Thread,
    judged: _Judged,
    findings: list[Finding],
    *,
    is_damaged: bool = False,
    summaries: int = 0,
    stale: Sequence[int] = (),
) -> ThreadAudit:
    return ThreadAudit(
        thread=handle.id,
        tip=handle.tip.hex(),
        events=handle.position,
        damaged=is_damaged,
        verdicts=dict(judged.verdicts),
        prompt_bytes=judged.bytes,
        findings=findings,
        summaries=summaries,
        stale=list(stale),
    )


class _Judged:
    """Counts of one thread's calls; their prompts are let go of one by one."""

    def __init__(self) -> None:
        self.verdicts: Counter[str] = Counter()
        self.bytes = 0
        self.findings: list[Finding] = []

    def take(self, replayed: Replayed) -> None:
        self.bytes += replayed.bytes
        self.verdicts[f"{replayed.assembler} {replayed.encoder} {replayed.verdict}"] += 1
        if replayed.verdict not in {"exact", "derived"}:
            self.findings.append(
                Finding(
                    replayed.call,
                    replayed.verdict,
                    replayed.assembler,
                    replayed.encoder,
                    replayed.reason,
                    replayed.detail,
                )
            )


def audit(
    store: Store,
    threads: Sequence[str] | None = None,
    *,
    executor: Executor | None = None,
    progress: Callable[[int], Any] | None = None,
) -> Iterator[ThreadAudit]:
    """Audit threads (default: all), one result each, in order.

    Args:
        store: the store; with an executor it must be a file.
        threads: ids.
        executor: any `concurrent.futures` executor; each piece of work opens the store itself, to read.
        progress: called with the number of threads done.

    Raises:
        OpeningError: an executor, and a store that is no file.
    """
    names = list(threads) if threads is not None else [row.thread for row in store.threads()]
    if executor is not None and not Path(store.place).is_file():
        raise OpeningError(f"{store.place} is no file that other processes can open", hint="audit without an executor")
    results = _alone(store, names) if executor is None else _shared(store.place, names, executor)
    for done, result in enumerate(results, 1):
        if progress is not None:
            progress(done)
        yield result


def _alone(store: Store, names: Sequence[str]) -> Iterator[ThreadAudit]:
    for name in names:
        yield audit_thread(store, name)
        store.let_go(name)


def _shared(place: str, names: Sequence[str], executor: Executor) -> Iterator[ThreadAudit]:
    size = max(1, min(CHUNK_THREADS, len(names) // CHUNKS_MIN))
    chunks = [names[start : start + size] for start in range(0, len(names), size)]
    for results in executor.map(audit_chunk, [place] * len(chunks), chunks):
        yield from results


def audit_chunk(place: str, names: Sequence[str]) -> list[ThreadAudit]:
    """Audit some threads of the store in a file: the piece of work that an executor carries."""
    with open_store(place, mode="r") as store:
        return list(_alone(store, names))
