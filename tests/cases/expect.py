"""What must hold after the steps of a case: one method an expectation, each giving what does not hold."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import convlog
from convlog.eventstore.errors import ConvlogError
from convlog.eventstore.events import SegmentAdded, SummaryAdded, ToolCalled
from convlog.projections.calls import calls
from convlog.projections.replay import replay_call

from .neutral import neutral, pairing_problem
from .runner import NotYet, Process, Run
from .texts import event_text, has_halves, missing_in_order
from .worker import assembler as register

WAITING: dict[str, str] = {}
"""Expectations that are not built: key to why."""

CHANGED_WORDS = {"surrogate", "halves", "replaced", "repaired"}
"""What the store says of a text that it changed on the way in: `halves` beside it."""


def needed(case: dict[str, Any]) -> None:
    """Refuse a case that holds what is not built."""
    keys = set(case["expect"])
    for option in case["expect"].get("any_of", ()):
        keys |= set(option)
    for key in sorted(keys):
        if key in WAITING or not hasattr(Judge, f"_{key}"):
            raise NotYet(f"expectation {key}")
    for step in case["input"]["steps"]:
        if step["op"] == "send":
            register(step["assembler"])


class Judge:
    """Reads the store as it is now and compares."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def judge(self, expect: dict[str, Any], *, partial: bool = False) -> list[str]:
        """Give what does not hold."""
        failures: list[str] = []
        with convlog.open(self._run.path) as self._store:
            for key, value in expect.items():
                failures.extend(f"{key}: {message}" for message in getattr(self, f"_{key}")(value))
        if not partial and "errors" not in expect and "any_of" not in expect and self._run.errors:
            failures.append(f"errors: refused {self._run.errors}")
        self.__dict__.pop("_everything", None)
        return failures

    # --- reading ---

    def _thread(self, label: str = "t1") -> convlog.Thread:
        if label in self._run.threads:
            return self._store.thread(self._run.threads[label])
        return self._store.latest()

    def _names(self, label: str) -> dict[int, str]:
        """Give the labels of a thread's positions; a fork's shared nodes keep theirs."""
        thread = self._run.threads.get(label)
        names = {}
        for name, (owner, position) in self._run.labels.items():
            if owner == label or (thread and self._shares(thread, owner, position)):
                names[position] = name
        return names

    def _shares(self, thread: str, owner: str, position: int) -> bool:
        owned = self._run.threads.get(owner)
        return any(span.thread == owned and span.last >= position for span in self._store.log(thread).shared)

    def _path_of(self, label: str) -> list[str]:
        names = self._names(label)
        return [names.get(position, f"#{position}") for position in self._thread(label).tree.path(self._head(label))][
            1:
        ]

    def _head(self, label: str) -> int:
        return self._thread(label).head

    def _prompt_now(self, label: str = "t1") -> list[list[Any]]:
        thread = self._thread(label)
        prompt = thread.prepare(assembler="transcript@1", record=False, despite_approval=True)
        return neutral(thread, prompt.pieces)

    def _prompt_sent(self, send: str) -> list[list[Any]]:
        label, position = self._run.sends[send]
        thread = self._thread(label)
        replayed = self._replayed(thread, position)
        assert replayed.prompt is not None, replayed.detail
        return neutral(thread, replayed.prompt.pieces)

    def _replayed(self, thread: convlog.Thread, position: int) -> Any:
        info = next(info for info in calls(thread) if info.position == position)
        if info.manifest is not None:
            register_again(info.manifest.assembler)
        return replay_call(thread, info)

    @cached_property
    def _everything(self) -> list[tuple[str, Any]]:
        """All nodes of all threads, as (thread id, event), shared ones once."""
        found: list[tuple[str, Any]] = []
        for row in list(self._store.threads())[::-1]:
            events = self._store.thread(row.thread).events(first=row.origin_position + 1)
            found.extend((row.thread, event) for event in events if event.is_node and event.position != 1)
        return found

    # --- shape ---

    def _errors(self, expected: list[dict[str, Any]]) -> Iterator[str]:
        found = [{"step": error["step"], "code": error["code"]} for error in self._run.errors]
        if found != [{"step": each["step"], "code": each["code"]} for each in expected]:
            yield f"refused {self._run.errors}, expected {expected}"

    def _any_of(self, options: list[dict[str, Any]]) -> Iterator[str]:
        tried = []
        for option in options:
            failures = [
                f"{key}: {message}" for key, value in option.items() for message in getattr(self, f"_{key}")(value)
            ]
            if "errors" not in option and self._run.errors:
                failures.append(f"refused {self._run.errors}")
            if not failures:
                return
            tried.append(failures)
        yield f"none holds: {tried}"

    def _path(self, expected: Any) -> Iterator[str]:
        yield from self._per_thread(expected, self._path_of)

    def _per_thread(self, expected: Any, read: Any) -> Iterator[str]:
        for label, value in (expected if isinstance(expected, dict) else {"t1": expected}).items():
            found = read(label)
            if found != value:
                yield f"{label}: {found}, expected {value}"

    def _leaves(self, expected: list[str]) -> Iterator[str]:
        names = self._names("t1")
        found = [names.get(position, f"#{position}") for position in self._thread().tree.leaves()]
        if found != expected:
            yield f"{found}, expected {expected}"

    def _children(self, expected: dict[str, list[str]]) -> Iterator[str]:
        for parent, value in expected.items():
            label, position = self._run.labels[parent] if parent else ("t1", 1)
            names = self._names(label)
            found = [names.get(child, f"#{child}") for child in self._thread(label).tree.children(position)]
            if found != value:
                yield f"{parent or 'root'}: {found}, expected {value}"

    def _order(self, expected: list[str]) -> Iterator[str]:
        names = self._names("t1")
        found = [names[event.position] for event in self._thread().events() if event.position in names]
        if found != expected:
            yield f"{found}, expected {expected}"

    def _absent(self, expected: list[str]) -> Iterator[str]:
        for label in expected:
            if label in self._run.labels:
                thread, position = self._run.labels[label]
                if self._thread(thread).tree.is_node(position):
                    yield f"{label} is there, at {position}"

    def _not_in(self, expected: Any) -> Iterator[str]:
        for label, names in (expected if isinstance(expected, dict) else {"t1": expected}).items():
            path = self._path_of(label)
            yield from (f"{name} is on the path of {label}" for name in names if name in path)

    def _count(self, expected: dict[str, int]) -> Iterator[str]:
        found = len(self._everything)
        if found != expected["nodes"]:
            yield f"{found} nodes, expected {expected['nodes']}"

    def _summaries(self, expected: dict[str, dict[str, str]]) -> Iterator[str]:
        found = {}
        for label in self._run.threads:
            names = self._names(label)
            for event in self._thread(label).events(types=(SummaryAdded.TYPE,)):
                body = event.body
                found[names[event.position]] = {"first": names[body.first], "last": names[body.last]}
        if found != expected:
            yield f"{found}, expected {expected}"

    def _resume(self, expected: dict[str, str]) -> Iterator[str]:
        latest = self._store.latest()
        label = next(label for label, thread in self._run.threads.items() if thread == latest.id)
        found = {"thread": label, "leaf": self._names(label).get(latest.head)}
        if found != expected:
            yield f"{found}, expected {expected}"

    def _same_answer(self, expected: list[list[int]]) -> Iterator[str]:
        for a, b in expected:
            if self._run.answers.get(a) != self._run.answers.get(b) or a not in self._run.answers:
                yield f"steps {a} and {b}: {self._run.answers.get(a)} and {self._run.answers.get(b)}"

    def _threads_listed(self, expected: list[str]) -> Iterator[str]:
        names = {thread: label for label, thread in self._run.threads.items()}
        found = sorted(names.get(row.thread, row.thread) for row in self._store.threads())
        if found != sorted(expected):
            yield f"{found}, expected {expected}"

    # --- texts ---

    def _text_of(self, label: str) -> str:
        thread, position = self._run.labels[label]
        return event_text(self._thread(thread).event(position))

    def _texts(self, expected: dict[str, str]) -> Iterator[str]:
        for label, text in expected.items():
            found = self._text_of(label)
            if found != text:
                yield f"{label}: {found!r}, expected {text!r}"

    def _texts_escaped(self, expected: dict[str, str]) -> Iterator[str]:
        yield from self._texts({label: json.loads(f'"{text}"') for label, text in expected.items()})

    def _texts_in_old(self, expected: dict[str, str]) -> Iterator[str]:
        yield from self._texts(expected)

    def _originals_kept(self, expected: list[str]) -> Iterator[str]:
        exported: dict[str, str] = {}
        for label in expected:
            thread, position = self._run.labels[label]
            if thread not in exported:
                lines = convlog.export_thread(self._store, self._thread(thread).id)
                exported[thread] = b"".join(lines).decode()
            event = self._thread(thread).event(position)
            if event.body is None or event.hash.hex() not in exported[thread]:
                yield f"{label} is not readable and exported"

    def _signature_kept(self, expected: dict[str, str]) -> Iterator[str]:
        for label, signature in expected.items():
            thread, position = self._run.labels[label]
            kept = self._thread(thread).event(position).body.signature
            sent = [item[2] for item in self._prompt_now(thread) if item[0] == "reasoning"]
            if kept != signature or signature not in sent:
                yield f"{label}: kept {kept!r}, sent {sent}"

    def _notes_any(self, words: list[str]) -> Iterator[str]:
        changed = [event for _, event in self._everything if has_halves(event.body)]
        unchanged = not any("\ufffd" in event_text(event, original=False) for _, event in self._everything)
        if not unchanged and not (changed and CHANGED_WORDS & set(words)):
            yield "a text was changed and nothing says so"

    def _texts_present(self, expected: list[str]) -> Iterator[str]:
        found = [event_text(event) for _, event in self._everything]
        yield from (f"{text!r} is not there" for text in expected if not any(text in each for each in found))

    def _originals_present(self, expected: list[str]) -> Iterator[str]:
        yield from self._texts_present(expected)

    def _active_texts(self, expected: list[str]) -> Iterator[str]:
        texts = [event_text(event) for event in self._thread().path()]
        yield from missing_in_order(expected, texts)

    def _leaf_texts(self, expected: list[str]) -> Iterator[str]:
        leaves: list[str] = []
        for row in self._store.threads():
            thread = self._store.thread(row.thread)
            leaves.extend(event_text(thread.event(leaf)) for leaf in thread.tree.leaves())
        yield from (f"{text!r} is no leaf of {leaves}" for text in expected if text not in leaves)

    def _prompt_texts(self, expected: list[str]) -> Iterator[str]:
        texts = [str(item[3] if item[0] == "result" else item[1]) for item in self._prompt_now()]
        yield from missing_in_order(expected, texts)

    def _active_has_calls(self, expected: list[str]) -> Iterator[str]:
        found = {event.body.call for event in self._thread().path() if isinstance(event.body, ToolCalled)}
        yield from (f"{call} is not on the active path" for call in expected if call not in found)

    def _encrypted_kept(self, expected: list[str]) -> Iterator[str]:
        bodies = [event.body for _, event in self._everything if isinstance(event.body, SegmentAdded)]
        kept = [f"{body.signature} {body.opaque}" for body in bodies]
        yield from (f"{text[:40]!r} is not kept" for text in expected if not any(text in each for each in kept))

    def _summaries_count(self, expected: int) -> Iterator[str]:
        rows = list(self._store.threads())
        found = sum(1 for row in rows for _ in self._store.thread(row.thread).events(types=(SummaryAdded.TYPE,)))
        if found != expected:
            yield f"{found}, expected {expected}"

    def _threads_or_roots(self, expected: int) -> Iterator[str]:
        rows = list(self._store.threads())
        roots = sum(len(self._store.thread(row.thread).tree.children(1)) for row in rows)
        if expected not in {len(rows), roots}:
            yield f"{len(rows)} threads, {roots} roots, expected {expected}"

    # --- prompts ---

    def _prompt(self, expected: Any) -> Iterator[str]:
        yield from self._per_thread(expected, self._prompt_now)

    def _prompt_of(self, expected: dict[str, Any]) -> Iterator[str]:
        for send, value in expected.items():
            found = self._prompt_sent(send)
            if found != value:
                yield f"{send}: {found}, expected {value}"

    def _rederive_same(self, expected: list[str]) -> Iterator[str]:
        for send in expected:
            label, position = self._run.sends[send]
            replayed = self._replayed(self._thread(label), position)
            if replayed.verdict != "exact":
                yield f"{send}: {replayed.verdict} {replayed.reason} {replayed.detail}"

    def _rederive_same_old(self, expected: list[str]) -> Iterator[str]:
        yield from self._rederive_same(expected)

    def _rederive_note(self, expected: dict[str, str]) -> Iterator[str]:
        for send, word in expected.items():
            label, position = self._run.sends[send]
            replayed = self._replayed(self._thread(label), position)
            said = f"{replayed.verdict} {replayed.reason} {replayed.detail}"
            if replayed.verdict == "exact" or word not in said:
                yield f"{send}: {said}, expected {word}"

    def _sent_record_has(self, expected: list[str]) -> Iterator[str]:
        for send, (label, position) in self._run.sends.items():
            manifest = self._thread(label).event(position).body
            for field in expected:
                if not getattr(manifest, FIELDS.get(field, field), None):
                    yield f"{send} keeps no {field}"

    def _shared_prefix(self, expected: Any) -> Iterator[str]:
        for each in expected if isinstance(expected, list) else [expected]:
            a, b = self._prompt_sent(each["of"]), self._prompt_sent(each["in"])
            found = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            if found != each["items"]:
                yield f"{each['of']} and {each['in']} share {found} items, expected {each['items']}"

    def _checks_prefix(self, expected: Any) -> Iterator[str]:
        yield from self._shared_prefix(expected)

    def _prompt_items(self, expected: dict[str, int]) -> Iterator[str]:
        for send, count in expected.items():
            found = len(self._prompt_sent(send))
            if found != count:
                yield f"{send}: {found}, expected {count}"

    def _pairs_ok(self, expected: bool) -> Iterator[str]:
        for label in self._run.threads or {"t1": ""}:
            problem = pairing_problem(self._prompt_now(label))
            if (problem is None) != expected:
                yield f"{label}: {problem}"

    def _synthetic(self, expected: list[str]) -> Iterator[str]:
        found = [item[1] for item in self._prompt_now() if item[0] == "result" and item[2] == "unanswered"]
        if found != expected:
            yield f"{found}, expected {expected}"

    def _answers(self, expected: dict[str, Any]) -> Iterator[str]:
        for label, output in expected.items():
            name, position = self._run.labels[label]
            thread = self._thread(name)
            result = thread.tree_with_calls.result_on(position, thread.head)
            found = None if result is None else event_text(thread.event(result))
            if found != output:
                yield f"{label}: {found!r}, expected {output!r}"

    def _call_ids_unique_in_prompt(self, _expected: bool) -> Iterator[str]:
        for label in self._run.threads:
            prompt = self._thread(label).prepare(assembler="transcript@1", record=False, despite_approval=True)
            ids = [
                block["id"]
                for message in prompt.request["messages"]
                for block in message["content"]
                if block["type"] == "tool_use"
            ]
            if len(ids) != len(set(ids)):
                yield f"{label}: {ids}"

    def _no_dangling_needs(self, _expected: bool) -> Iterator[str]:
        for label in self._run.threads:
            for assembler in ("transcript@1", "pruned@1", "turn-memory@6"):
                prompt = self._thread(label).prepare(assembler=assembler, record=False, despite_approval=True)
                elements = [piece.element for piece in prompt.pieces if piece.provenance != "dropped"]
                there = {getattr(element, "item", None) for element in elements}
                for element in elements:
                    needs = getattr(element, "needs", None)
                    if needs is not None and needs not in there:
                        yield f"{label} by {assembler}: a part needs {needs}, which is not there"

    def _turn_memory(self, expected: dict[str, Any]) -> Iterator[str]:
        from .memory import first_memory

        prose, entries = first_memory(self._thread())
        if prose != expected["prose"]:
            yield f"prose {prose!r}, expected {expected['prose']!r}"
        if len(entries) != len(expected["entries"]):
            yield f"{len(entries)} entries, expected {len(expected['entries'])}"
        for found, entry in zip(entries, expected["entries"], strict=False):
            if any(found.get(key) != value for key, value in entry.items()):
                yield f"{found}, expected {entry}"

    def _turn_memory_count(self, expected: int) -> Iterator[str]:
        from .memory import memories

        found = len(memories(self._thread()))
        if found != expected:
            yield f"{found}, expected {expected}"

    # --- the store ---

    def _must_not_contain(self, expected: dict[str, Any]) -> Iterator[str]:
        text = expected["text"]
        for place in expected["in"]:
            if place == "search":
                continue  # nothing is indexed beside the events
            if text in getattr(self, f"_say_{place}")():
                yield f"{text!r} is in {place}"

    def _say_prompt(self) -> str:
        return "".join(json.dumps(self._prompt_now(label), ensure_ascii=False) for label in self._live())

    def _live(self) -> list[str]:
        listed = {row.thread for row in self._store.threads()}
        return [label for label, thread in self._run.threads.items() if thread in listed]

    def _say_export(self) -> str:
        lines = (convlog.export_thread(self._store, self._thread(label).id) for label in self._live())
        return b"".join(line for each in lines for line in each).decode()

    def _say_store_bytes(self) -> str:
        self._store.backend.maintain()
        data = b"".join(path.read_bytes() for path in self._run.folder.iterdir() if path.name.startswith("case.db"))
        return data.decode("utf-8", "replace")

    def _say_turn_memory(self) -> str:
        from .memory import memories

        return json.dumps(memories(self._thread()), ensure_ascii=False)

    def _verify(self, expected: dict[str, Any]) -> Iterator[str]:
        problems = [problem for problem in convlog.verify_store(self._store) if problem.kind != "redacted"]
        if (not problems) != expected["ok"]:
            yield f"{problems}"

    def _usable(self, _expected: bool) -> Iterator[str]:
        for label in self._live():
            try:
                self._thread(label).fork().user("still here?")
            except ConvlogError as error:
                yield f"{label}: {error}"

    def _prompt_utf8(self, _expected: bool) -> Iterator[str]:
        for label in self._live():
            self._thread(label).prepare(assembler="transcript@1", record=False).body.decode()
        yield from ()

    def _export_roundtrip(self, _expected: bool) -> Iterator[str]:
        from convlog.eventstore.native_import import import_native

        for label in self._live():
            thread = self._thread(label)
            with convlog.open(":memory:") as other:
                import_native(other, convlog.export_thread(self._store, thread.id))
                copy = other.thread(thread.id)
                if [event.hash for event in copy.events()] != [event.hash for event in thread.events()]:
                    yield f"{label} comes back otherwise"

    def _lock_errors(self, expected: int) -> Iterator[str]:
        if self._run.lock_errors != expected:
            yield f"{self._run.lock_errors}, expected {expected}"

    def _bounds(self, expected: dict[str, float]) -> Iterator[str]:
        for name, bound in expected.items():
            found = getattr(self, f"_measure_{name}")()
            if found > bound:
                yield f"{name} {found:.1f}, bound {bound}"

    def _measure_append_ms_p95(self) -> float:
        times = sorted(self._run.append_ms)
        return times[int(len(times) * 0.95)]

    def _measure_list_threads_ms(self) -> float:
        started = time.perf_counter()
        self._store.backend.threads()
        return (time.perf_counter() - started) * 1000

    def _measure_open_rss_mb(self) -> float:
        process = Process(self._run.path, "read")
        process.ask({"op": "open", "thread": self._thread().id})
        peak = process.ask({"op": "peak"})["kib"]
        process.stop()
        return float(peak) / 1024

    def _measure_prompt_ms(self) -> float:
        started = time.perf_counter()
        self._prompt_now()
        return (time.perf_counter() - started) * 1000

    def _import(self, expected: dict[str, Any]) -> Iterator[str]:
        from .imported import totals, warnings

        found = totals(self._run.reports)
        for name, value in expected.items():
            if name == "warnings":
                missing = [warning for warning in value if not warnings(self._run.reports, warning)]
                if missing:
                    yield f"no warning {missing} among {[report['warnings'] for report in self._run.reports]}"
            elif name == "threads":
                if found.get("threads") != value:
                    yield f"{found.get('threads')} threads, expected {value}"
            elif name == "usage":
                differing = {key: found["usage"].get(key) for key in value if found["usage"].get(key) != value[key]}
                if differing:
                    yield f"usage {found['usage']}, expected {value}"
            elif found.get(name) != value:
                yield f"{found.get(name)} {name}, expected {value}"

    def _unknown_events(self, expected: str) -> Iterator[str]:
        if expected != "kept":
            yield f"an unknown word {expected!r}"

    def _bytes_of_old_events_unchanged(self, _expected: bool) -> Iterator[str]:
        for thread, bodies in self._run.old_bytes.items():
            now = [record.body or b"" for record in self._store.log(thread).read(last=len(bodies))]
            if now != bodies:
                yield f"bodies of {thread[:12]} changed"


FIELDS = {"node_ids": "ranges", "nodes": "ranges", "hash": "digest", "prompt_hash": "digest", "at_position": "at"}
"""Cases' words for the fields of a manifest."""


def register_again(address: str) -> None:
    """Make sure that a user's assembler is registered in this process."""
    name, _, version = address.partition("@")
    if name == "case":
        register(f"case/{version}")
