"""Auditing a whole store: each thread's chain first, then every call of it derived again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any

import msgspec

from convlog.eventstore.summaries import stale_summaries
from convlog.eventstore.verify import verify_thread

from .conversation import Store
from .conversation import open as open_store
from .replay import Replayed, replay

CHUNK_THREADS = 16
"""Threads that a worker is given at once: enough to pay for the way there, few enough to share the work."""


class Finding(msgspec.Struct, frozen=True):
    """One call that is not exact, or one thing wrong with a thread."""

    call: int | None
    verdict: str
    assembler: str = ""
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
    problems = [problem for problem in verify_thread(store, thread) if problem.kind != "redacted"]
    findings = [
        Finding(None, "damaged", reason=problem.kind, detail=problem.message, position=problem.position)
        for problem in problems
    ]
    verdicts: Counter[str] = Counter()
    size = 0
    for replayed in replay(handle):
        judged = _judged(replayed, damaged=bool(problems))
        size += replayed.bytes
        verdicts[f"{replayed.assembler} {replayed.encoder} {judged.verdict}"] += 1
        if judged.verdict not in {"exact", "derived"}:
            findings.append(judged)
    return ThreadAudit(
        thread=thread,
        tip=handle.tip.hex(),
        events=handle.position,
        damaged=bool(problems),
        verdicts=dict(verdicts),
        prompt_bytes=size,
        findings=findings,
        stale=stale_summaries(handle),
    )


def _judged(replayed: Replayed, *, damaged: bool) -> Finding:
    verdict, reason = replayed.verdict, replayed.reason
    if damaged and verdict == "exact":
        return Finding(
            replayed.call, "unprovable", replayed.assembler, replayed.encoder, "damaged", "the thread's chain is broken"
        )
    return Finding(replayed.call, verdict, replayed.assembler, replayed.encoder, reason, replayed.detail)


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
    """
    names = threads if threads is not None else [row.thread for row in store.threads()]
    results = _alone(store, names) if executor is None else _shared(store.place, names, executor)
    for done, result in enumerate(results, 1):
        if progress is not None:
            progress(done)
        yield result


def _alone(store: Store, names: Sequence[str]) -> Iterator[ThreadAudit]:
    return (audit_thread(store, name) for name in names)


def _shared(place: str, names: Sequence[str], executor: Executor) -> Iterator[ThreadAudit]:
    chunks = [names[start : start + CHUNK_THREADS] for start in range(0, len(names), CHUNK_THREADS)]
    for results in executor.map(audit_chunk, [place] * len(chunks), chunks):
        yield from results


def audit_chunk(place: str, names: Sequence[str]) -> list[ThreadAudit]:
    """Audit some threads of the store in a file: the piece of work that an executor carries."""
    with open_store(place, mode="r") as store:
        return [audit_thread(store, name) for name in names]
