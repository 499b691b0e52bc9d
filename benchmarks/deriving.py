"""Deriving: prompts from scratch against decoding the thread, the next prompt of a live thread, manifests, audits."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import msgspec

import convlog
from convlog.projections import derive
from convlog.projections.audit import audit
from convlog.projections.material import material
from convlog.projections.profiles import profile_bytes

from .harness import Figure, Sizes, file_bytes, peak_mb, repeated, timed
from .workload import fill

TOOLS = [
    {"name": name, "input_schema": {"type": "object"}}
    for name in ("read_file", "write_file", "edit_file", "grep", "glob", "bash", "web_fetch")
]
CALLS_PER_TURN = 5


def run(sizes: Sizes, folder: Path) -> Iterator[Figure]:
    """Measure deriving."""
    yield from _from_scratch(sizes)
    yield _next_prompt(sizes)
    yield _behind_a_summary(sizes)
    yield from _in_one_turn(sizes)
    yield from _next_process(sizes, folder)
    yield from _manifests(sizes, folder)
    yield from _audits(sizes, folder)


def _recipe(assembler: str) -> derive.Recipe:
    return derive.Recipe(assembler, "anthropic@1", profile_bytes("claude-sonnet-4-6"))


# --- from scratch ---


def _from_scratch(sizes: Sizes) -> Iterator[Figure]:
    """The floor decodes the thread as JSON lines with the outputs in them, as a file of messages is read."""
    with convlog.open(":memory:") as store:
        thread = store.create_thread()
        fill(thread, sizes.turns_read)
        read = material(thread)
        lines = [
            msgspec.json.encode([msgspec.Raw(each.body or b"null"), (each.output or b"").decode()])
            for each in read.path
        ]
        for assembler, limit in (("transcript@1", 2.0), ("turn-memory@6", 3.0)):
            recipe = _recipe(assembler)

            def assemble(recipe: derive.Recipe = recipe) -> None:
                derive.assemble(read, recipe)

            ours, floor = repeated(sizes.runs, assemble, lambda: [msgspec.json.decode(line) for line in lines])
            yield Figure(
                name=f"{assembler} of {sizes.turns_read} turns from scratch, of decoding the thread",
                value=median(ours) / median(floor),
                limit=limit,
                note=f"{median(ours) * 1e3:,.1f} ms : {median(floor) * 1e3:,.1f} ms; {len(lines):,} nodes",
            )


# --- live ---


def _next_prompt(sizes: Sizes) -> Figure:
    """A turn is appended, then the next prompt prepared and recorded; only the latter is timed."""
    short, long = max(2, sizes.turns_long // 100), sizes.turns_long
    times = [_live(sizes, count) for count in (short, long)]
    return Figure(
        name=f"next prompt of a live thread at {long:,} turns, of one at {short:,}",
        value=times[1] / times[0],
        limit=2.0,
        note=f"{times[1] * 1e6:,.0f} us : {times[0] * 1e6:,.0f} us",
    )


def _behind_a_summary(sizes: Sizes) -> Figure:
    """The first tenth of the turns is summarised before the prompts are made."""
    times = [_live(sizes, sizes.turns_read, share) for share in (0.0, 0.1)]
    return Figure(
        name=f"next prompt of a live thread of {sizes.turns_read:,} turns behind a summary, of one without",
        value=times[1] / times[0],
        limit=2.0,
        note=f"{times[1] * 1e6:,.0f} us : {times[0] * 1e6:,.0f} us",
    )


def _in_one_turn(sizes: Sizes) -> Iterator[Figure]:
    """A coding agent works a whole day on one request: every call's prompt holds all steps before it."""
    calls = max(20, sizes.turns_read // 2)
    with convlog.open(":memory:") as store:
        thread = store.create_thread()
        thread.user("Do it all.")
        seconds = []
        for number in range(calls):
            seconds.append(timed(lambda: thread.prepare(tools=TOOLS)))
            thread.text(f"Step {number}.")
            thread.call(f"c{number}", "read_file", {"path": f"/w/{number}.py"})
            thread.result(f"c{number}", "output\n" * 400)
        early, late = (median(part) for part in (seconds[calls // 10 : calls // 5], seconds[-calls // 10 :]))
        yield Figure(
            name=f"next prompt near call {calls} of one turn, near call {calls // 7}",
            value=late / early,
            limit=2.0,
            note=f"{late * 1e6:,.0f} us : {early * 1e6:,.0f} us",
        )
        took = timed(lambda: list(audit(store)))
        size = sum(each.prompt_bytes for each in audit(store))
        yield Figure(
            name=f"audit of one turn of {calls} calls",
            value=took * 1e3,
            unit="ms",
            note=f"{size / 1e6:,.1f} MB of prompts",
        )


def _live(sizes: Sizes, count: int, summarised: float = 0.0) -> float:
    with convlog.open(":memory:") as store:
        thread = store.create_thread()
        fill(thread, count)
        if summarised:
            path = thread.tree.path(thread.head)
            ends = (event.position for event in thread.events(types=("turn.ended",), bodies=False))
            last = thread.event(list(ends)[int(count * summarised)]).body.node
            thread.summarise(path[1], last, "They fixed what was broken.")
        thread.user("First?")
        thread.prepare(tools=TOOLS)
        seconds = []
        for number in range(3 * sizes.runs):
            thread.text("Done.")
            thread.end_turn()
            fill(thread, 1, number)
            thread.user("And now?")
            seconds.append(timed(lambda: thread.prepare(tools=TOOLS)))
        return median(seconds[sizes.runs :])


# --- the next process ---


def _next_process(sizes: Sizes, folder: Path) -> Iterator[Figure]:
    """A handle that knows nothing yet opens the store, prepares and records; what processes import is not counted."""
    with TemporaryDirectory(dir=folder) as name:
        path = Path(name) / "next.db"
        with convlog.open(path, durability="process") as store:
            thread = store.create_thread()
            fill(thread, sizes.turns_read)
            lines = [
                msgspec.json.encode([msgspec.Raw(each.body or b"null"), (each.output or b"").decode()])
                for each in material(thread).path
            ]
            thread.user("First?")
            for _ in range(2):
                thread.prepare(tools=TOOLS)

        def prepare() -> None:
            with convlog.open(path, durability="process") as store:
                store.latest().prepare(tools=TOOLS)

        def prepare_without() -> None:
            with convlog.open(path, durability="process") as store:
                store.backend.drop_cache()
                store.latest().prepare(tools=TOOLS)

        kept, without, floor = repeated(
            sizes.runs, prepare, prepare_without, lambda: [msgspec.json.decode(line) for line in lines]
        )
        for times, what, limit in ((kept, "with what was kept", 0.5), (without, "with nothing kept", None)):
            yield Figure(
                name=f"open and prepare at {sizes.turns_read:,} turns {what}, of decoding the thread",
                value=median(times) / median(floor),
                limit=limit,
                note=f"{median(times) * 1e3:,.1f} ms : {median(floor) * 1e3:,.1f} ms",
            )


# --- manifests ---


def _manifests(sizes: Sizes, folder: Path) -> Iterator[Figure]:
    with TemporaryDirectory(dir=folder) as name, convlog.open(Path(name) / "m.db", durability="process") as store:
        thread = store.create_thread()
        for number in range(sizes.turns_read):
            fill(thread, 1, number)
            thread.user("Next?")
            for _ in range(CALLS_PER_TURN):
                thread.prepare(tools=TOOLS)
            thread.text("Yes.")
            thread.end_turn()
        bodies = [
            len(record.body or b"") + len(record.secret or b"")
            for record in store.log(thread.id).read(types=("call.prepared",))
        ]
        store.backend.maintain()
        share = sum(bodies) / file_bytes(Path(store.place))
        yield Figure(
            name=f"manifests, share of the file at {sizes.turns_read:,} turns with {CALLS_PER_TURN} calls each",
            value=share,
            unit="",
            limit=0.25,
            note=f"{sum(bodies) / 1e6:,.1f} MB of {file_bytes(Path(store.place)) / 1e6:,.1f} MB",
        )
        early, late = bodies[min(9, len(bodies) - 1)], bodies[-1]
        yield Figure(
            name=f"manifest, size at call {len(bodies):,} of that at call 10",
            value=late / early,
            limit=1.05,
            note=f"{late:,} B : {early:,} B",
        )


# --- audits ---


def _audits(sizes: Sizes, folder: Path) -> Iterator[Figure]:
    calls = max(4, sizes.turns_read * 2)
    with TemporaryDirectory(dir=folder) as name:
        one, many = Path(name) / "one.db", Path(name) / "many.db"
        _calls(one, threads=1, calls=calls)
        _calls(many, threads=calls, calls=1)
        for path, what in ((one, f"one thread of {calls:,} calls"), (many, f"{calls:,} threads of one call")):
            seconds = timed(_audit, path)
            yield Figure(name=f"audit of {what}", value=seconds * 1e3, unit="ms", note=_prompts(path))
        yield _by_two(many)
        yield _memory(name, calls)


def _calls(path: Path, *, threads: int, calls: int) -> None:
    with convlog.open(path, durability="process") as store:
        for number in range(threads):
            thread = store.create_thread()
            fill(thread, 1, number)
            for _ in range(calls):
                thread.user("Next?")
                thread.prepare(tools=TOOLS)
                thread.text("Yes.")
                thread.end_turn()


def _prompts(path: Path) -> str:
    with convlog.open(path, mode="r") as store:
        size = sum(each.prompt_bytes for each in audit(store))
    return f"{size / 1e6:,.1f} MB of prompts"


def _audit(path: Path) -> None:
    with convlog.open(path, mode="r") as store:
        assert not any(each.failed for each in audit(store))


def _by_two(path: Path) -> Figure:
    with convlog.open(path, mode="r") as store:
        alone = timed(lambda: list(audit(store)))
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
            list(executor.map(abs, range(4)))
            shared = timed(lambda: list(audit(store, executor=executor)))
    return Figure(
        name="audit by two workers, speed of one",
        value=alone / shared,
        limit=1.7,
        at_least=True,
        note=f"{alone * 1e3:,.0f} ms : {shared * 1e3:,.0f} ms",
    )


def _memory(name: str, calls: int) -> Figure:
    few, many = Path(name) / "few.db", Path(name) / "many.db"
    _calls(few, threads=max(2, calls // 10), calls=1)
    code = (
        "import sys, convlog\nfrom convlog.projections.audit import audit\n"
        "with convlog.open(sys.argv[1], mode='r') as store:\n    for _ in audit(store): pass"
    )
    peaks = [peak_mb(code, str(path)) for path in (few, many)]
    return Figure(
        name="audit, memory at ten times the threads",
        value=peaks[1] / peaks[0],
        limit=1.2,
        note=f"{peaks[1]:,.1f} MB : {peaks[0]:,.1f} MB",
    )
