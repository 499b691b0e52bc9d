"""A store and a plain model of dicts and lists are driven through the same history and must agree at every step."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from convlog.eventstore import errors
from convlog.eventstore.canonical import creation_id
from convlog.eventstore.events import SegmentAdded, ToolReturned
from convlog.eventstore.placement import Appended
from convlog.eventstore.records import Draft, Member
from convlog.eventstore.store import Store
from convlog.eventstore.thread import Thread
from tests.stores import PLACES

KEYS = st.none() | st.sampled_from(["k1", "k2", "k3", "k4"])
TEXTS = st.sampled_from(["a", "b", "", "a\0b", "ü\U0001f600"])
CALLS = st.sampled_from(["c1", "c2"])
NUMBERS = st.integers(0, 10_000)
"""Picks one of what there is, by its remainder."""


class Node:
    """One event of the model."""

    def __init__(self, kind: str, parent: int | None, head: int, content: object, key: str | None) -> None:
        self.kind = kind
        self.parent = parent
        self.head = head
        self.content = content
        self.key = key
        self.answers: int | None = None
        self.by_user = False


class Model:
    """One thread: a list of events. Whatever it shares with an origin it has copied."""

    def __init__(self, events: list[Node]) -> None:
        self.events = events

    @property
    def head(self) -> int:
        return self.events[-1].head

    def at(self, position: int) -> Node:
        return self.events[position - 1]

    def nodes(self) -> list[int]:
        return [i for i, event in enumerate(self.events, 1) if i == 1 or event.parent is not None]

    def path(self, leaf: int) -> list[int]:
        found = []
        node: int | None = leaf
        while node is not None:
            found.append(node)
            node = self.at(node).parent
        return found[::-1]

    def of_key(self, key: str | None) -> int | None:
        return next((i for i, event in enumerate(self.events, 1) if key and event.key == key), None)

    def open_call(self, call: str, leaf: int) -> tuple[int | None, bool]:
        """Give the nearest call of this id above that has no result, and whether there was a call at all."""
        path = self.path(leaf)
        answered = {self.at(node).answers for node in path}
        calls = [node for node in path if self.at(node).kind == "tool.called" and self.at(node).content == call]
        return next((node for node in reversed(calls) if node not in answered), None), bool(calls)

    def append(self, kind: str, content: object, key: str | None, parent: int | None = None) -> int:
        parent = self.head if parent is None else parent
        position = len(self.events) + 1
        stays = kind == "tool.returned" and parent != self.head
        self.events.append(Node(kind, parent, self.head if stays else position, content, key))
        return position

    def note(self, kind: str, content: object, head: int | None = None, key: str | None = None) -> int:
        self.events.append(Node(kind, None, self.head if head is None else head, content, key))
        return len(self.events)

    def line_end(self, node: int) -> int:
        """Follow the first children down: each is its parent's own line, later ones are branches."""
        while True:
            below = next((i for i, event in enumerate(self.events, 1) if event.parent == node), None)
            if below is None:
                return node
            node = below


class Histories(RuleBasedStateMachine):
    """Histories of a store: appends of all kinds, retries, forks, crashes."""

    backend: ClassVar[str]
    threads = Bundle("threads")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="convlog-model-"))
        self.place = PLACES[self.backend](self.folder / "store.db")
        self.writers: list[Store] = [self.place.open()]
        self.models: dict[str, Model] = {}
        self.spoke: list[str] = []

    @property
    def store(self) -> Store:
        """The handle in use; the others learn of nothing unless they look."""
        return self.writers[-1]

    def thread(self, name: str) -> tuple[Thread, Model]:
        return self.store.thread(name), self.models[name]

    def agree(self, answer: Appended, position: int, *, replayed: bool = False) -> None:
        assert (answer.position, answer.replayed) == (position, replayed)

    def retried(self, name: str, append: Any, kind: str, content: object, key: str | None, parent: int | None) -> bool:
        """Whether the key was known; then the store must answer, or refuse, as a retry."""
        thread, model = self.thread(name)
        known = model.of_key(key)
        if known is None:
            return False
        event = model.at(known)
        if (event.kind, event.content) == (kind, content) and parent in (None, event.parent):
            self.agree(append(thread), known, replayed=True)
        else:
            with pytest.raises(errors.KeyMismatch):
                append(thread)
        return True

    # --- making threads ---

    @initialize(target=threads)
    def first(self) -> str:
        return self.made(self.store.create_thread(title="first"))

    def made(self, thread: Thread) -> str:
        self.models[thread.id] = Model([Node("thread.created", None, 1, None, None)])
        return thread.id

    @rule(target=threads, key=st.sampled_from(["a", "b"]))
    def create(self, key: str) -> Any:
        thread = self.store.create_thread(key=("model", key))
        assert thread.id == creation_id("model", key)
        return multiple() if thread.id in self.models else self.made(thread)

    @rule(target=threads, name=threads, pick=NUMBERS, at=NUMBERS)
    def fork(self, name: str, pick: int, at: int) -> str:
        thread, model = self.thread(name)
        last = at % len(model.events) + 1
        nodes = [node for node in model.nodes() if node <= last]
        node = nodes[pick % len(nodes)]
        fork = thread.fork(node, at=last)
        copy = Model(model.events[:last])
        copy.note("thread.forked", None, node)
        self.models[fork.id] = copy
        return fork.id

    # --- appending ---

    @rule(
        name=threads,
        kind=st.sampled_from(["input.added", "segment.added"]),
        text=TEXTS,
        key=KEYS,
        pick=st.none() | NUMBERS,
    )
    def say(self, name: str, kind: str, text: str, key: str | None, pick: int | None) -> None:
        _, model = self.thread(name)
        nodes = model.nodes()
        parent = None if pick is None else nodes[pick % len(nodes)]

        def append(thread: Thread) -> Appended:
            say = thread.user if kind == "input.added" else thread.text
            return say(text, key=key, parent=parent)

        if not self.retried(name, append, kind, text, key, parent):
            position = model.append(kind, text, key, parent)
            self.agree(append(self.store.thread(name)), position)
            if kind == "input.added":
                self.heard(name, position)

    def heard(self, name: str, position: int) -> None:
        self.models[name].at(position).by_user = True
        self.spoke.append(name)

    @rule(name=threads, call=CALLS, key=KEYS)
    def call(self, name: str, call: str, key: str | None) -> None:
        _, model = self.thread(name)

        def append(thread: Thread) -> Appended:
            return thread.call(call, "f", {}, key=key)

        if not self.retried(name, append, "tool.called", call, key, None):
            self.agree(append(self.store.thread(name)), model.append("tool.called", call, key))

    @rule(name=threads, call=CALLS, key=KEYS, pick=st.none() | NUMBERS)
    def result(self, name: str, call: str, key: str | None, pick: int | None) -> None:
        _, model = self.thread(name)
        nodes = model.nodes()
        parent = None if pick is None else nodes[pick % len(nodes)]

        def append(thread: Thread) -> Appended:
            return thread.result(call, "out", key=key, parent=parent)

        if self.retried(name, append, "tool.returned", call, key, parent):
            return
        open_, any_ = model.open_call(call, model.head if parent is None else parent)
        if open_ is None:
            with pytest.raises(errors.DuplicateResult if any_ else errors.UnknownCall):
                append(self.store.thread(name))
            return
        position = model.append("tool.returned", call, key, parent)
        model.at(position).answers = open_
        self.agree(append(self.store.thread(name)), position)

    @rule(name=threads, pick=NUMBERS, text=TEXTS, edits=st.booleans())
    def say_again(self, name: str, pick: int, text: str, edits: bool) -> None:
        thread, model = self.thread(name)
        said = [node for node in model.nodes() if model.at(node).kind in {"input.added", "segment.added"}]
        if not said:
            return
        target = model.at(said[pick % len(said)])
        again = thread.edit if edits else thread.regenerate
        position = model.append(target.kind, text, None, target.parent)
        self.agree(again(said[pick % len(said)], text), position)
        if target.by_user and edits:
            self.heard(name, position)

    @rule(name=threads, first=TEXTS, second=TEXTS, keys=st.tuples(KEYS, KEYS), pick=NUMBERS, bad=st.booleans())
    def batch(
        self, name: str, first: str, second: str, keys: tuple[str | None, str | None], pick: int, bad: bool
    ) -> None:
        thread, model = self.thread(name)
        if any(model.of_key(key) for key in keys) or (keys[0] and keys[0] == keys[1]):
            return
        nodes = model.nodes()
        parent = nodes[pick % len(nodes)]
        drafts = [
            Draft(body=SegmentAdded(text=first), parent=parent, key=keys[0]),
            Draft(body=SegmentAdded(text=second), parent=Member(0), key=keys[1]),
        ]
        if bad:
            drafts.append(Draft(body=ToolReturned(call="never called"), output=b"out"))
            with pytest.raises(errors.UnknownCall):
                thread.append_many(drafts)
            return
        answers = thread.append_many(drafts)
        self.agree(answers[0], model.append("segment.added", first, keys[0], parent))
        self.agree(answers[1], model.append("segment.added", second, keys[1]))

    @rule(name=threads, text=TEXTS, pick=NUMBERS, by_head=st.booleans())
    def expect(self, name: str, text: str, pick: int, by_head: bool) -> None:
        thread, model = self.thread(name)
        actual = model.head if by_head else len(model.events)
        expected = pick % (len(model.events) + 2)
        options: dict[str, Any] = {"expected_head" if by_head else "expected_position": expected}
        if expected == actual:
            self.agree(thread.text(text, **options), model.append("segment.added", text, None))
        else:
            with pytest.raises(errors.Conflict) as caught:
                thread.text(text, **options)
            assert caught.value.actual == actual

    # --- notes ---

    @rule(name=threads, pick=NUMBERS)
    def select(self, name: str, pick: int) -> None:
        thread, model = self.thread(name)
        nodes = model.nodes()
        node = nodes[pick % len(nodes)]
        self.agree(thread.select(node), model.note("head.moved", None, node))

    @rule(name=threads)
    def end_turn(self, name: str) -> None:
        thread, model = self.thread(name)
        self.agree(thread.end_turn(), model.note("turn.ended", model.head))

    @rule(name=threads, label=st.sampled_from(["main", "try"]), pick=NUMBERS)
    def name_branch(self, name: str, label: str, pick: int) -> None:
        thread, model = self.thread(name)
        nodes = model.nodes()
        node = nodes[pick % len(nodes)]
        self.agree(thread.name_branch(label, node), model.note("branch.named", (label, node)))

    # --- processes ---

    @rule()
    def reopen(self) -> None:
        self.writers[-1] = self.place.reopen(self.store)

    @rule()
    def crash(self) -> None:
        self.writers = [self.place.crash(self.store)]

    @rule()
    def another_writer(self) -> None:
        if len(self.writers) < 3:
            self.writers.append(self.place.open())
        else:
            self.writers.append(self.writers.pop(0))

    # --- what must hold ---

    @invariant()
    def the_logs_agree(self) -> None:
        for name, model in self.models.items():
            thread = self.store.thread(name)
            thread.refresh()
            found = [(event.position, event.type, event.parent, event.head, event.key) for event in thread.events()]
            wanted = [
                (position, event.kind, event.parent, event.head, event.key)
                for position, event in enumerate(model.events, 1)
            ]
            assert found == wanted
            assert (thread.position, thread.head) == (len(wanted), model.head)
            assert thread.tree.path(thread.head) == model.path(model.head)

    @invariant()
    def names_results_and_the_latest_agree(self) -> None:
        for name, model in self.models.items():
            thread = self.store.thread(name)
            thread.refresh()
            labels = {event.content[0]: event.content[1] for event in model.events if isinstance(event.content, tuple)}
            assert thread.branch_names() == {label: model.line_end(node) for label, node in labels.items()}
            for position, event in enumerate(model.events, 1):
                if event.kind == "tool.returned":
                    assert thread.event(position, output=False).ref("answers") == event.answers
        if self.spoke:
            assert self.store.latest().id == self.spoke[-1]

    def teardown(self) -> None:
        try:
            assert self.place.problems() == []
        finally:
            shutil.rmtree(self.folder)


class OnMemory(Histories):
    backend = "memory"


class OnSqlite(Histories):
    backend = "sqlite"


FEW = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
MANY = settings(FEW, max_examples=200, stateful_step_count=60, derandomize=False)


@pytest.mark.parametrize("machine", [OnMemory, OnSqlite], ids=PLACES)
def test_a_store_does_what_the_model_does(machine: type[Histories]) -> None:
    run_state_machine_as_test(machine, settings=FEW)


@pytest.mark.long
@pytest.mark.parametrize("machine", [OnMemory, OnSqlite], ids=PLACES)
def test_a_store_does_what_the_model_does_in_many_histories(machine: type[Histories]) -> None:
    run_state_machine_as_test(machine, settings=MANY)
