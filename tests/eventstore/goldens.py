"""What the files in tests/golden hold, made again: a small thread under a fixed clock and fixed entropy."""

from __future__ import annotations

import itertools
from pathlib import Path

from blake3 import blake3

from convlog.eventstore.backend import Backend
from convlog.eventstore.events import CallPrepared, Document, Source, SummaryAdded, Text
from convlog.eventstore.memory import MemoryBackend
from convlog.eventstore.prompt_digests import packed
from convlog.eventstore.ranges import covered_hash
from convlog.eventstore.records import Draft
from convlog.eventstore.redaction import redact
from convlog.eventstore.store import Store
from convlog.eventstore.thread import Thread

GOLDEN = Path(__file__).parents[1] / "golden"


def fixed_store(backend: Backend | None = None) -> Store:
    """Give a store whose clock and entropy always say the same, one after the other."""
    times, draws = itertools.count(1_790_000_000_000_000, 1_000_000), itertools.count()
    return Store(
        backend or MemoryBackend(),
        clock=lambda: next(times),
        entropy=lambda count: blake3(next(draws).to_bytes(8, "little")).digest(length=count),
    )


def small_thread(store: Store) -> Thread:
    """Make a thread with a bit of everything: text of all kinds, a call, a summary, a prompt, a redaction, a fork."""
    origin = store.create_thread(title="fix the flaky test", cwd="/src", agent="codex", key=("golden", "small"))
    notes = store.attach(b"notes of the day")
    origin.user([Text('Why? \u2028 \x7f \x1b "\\ \U0001f600'), Document(attachment=notes, name="notes")], key="in:1")
    origin.call(
        "c1", "bash", '{ "cmd": "pytest -q" , "n": 1.50 }', source=Source("model", provider="openai", model="m-1")
    )
    origin.result("c1", "1 failed\x00\n", occurred_at=-7)
    origin.text("half \ud83d of it", stop="end")
    origin.end_turn("error", error="cut off")
    nodes = [2, 3, 4, 5]
    covered = covered_hash(origin, nodes)
    origin.append(SummaryAdded(first=2, last=5, text="A test failed.", covered=covered, nodes=4))
    fork = origin.fork(node=4, title="another try", key=("golden", "fork"))
    key = bytes(range(32))
    manifest = CallPrepared(
        assembler="transcript@1",
        encoder="openai-chat@1",
        leaf=4,
        at=fork.position,
        length=2,
        blocks=1,
        digests=packed({}, 1),
        digest="11" * 32,
        digest_key_hash=blake3(key).hexdigest(),
        profile=store.attach(b'{"name":"m-1"}'),
        inputs=((fork.id, fork.position, fork.tip.hex()),),
    )
    fork.append_many([Draft(body=manifest, secret=key)])
    fork.text("the token is tok-9917")
    fork.user("say alpha and beta")
    for words in ("tok-9917", "alpha", "beta"):
        redact(store, fork.id, match=words, reason="credential")
    return fork
