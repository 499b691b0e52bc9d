"""A thread's tree is kept in the store for the next process, and is only ever the one that the events give."""

from __future__ import annotations

import sqlite3
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convlog.eventstore import log as logs
from convlog.eventstore import tree_cache
from convlog.eventstore.errors import StoreFull
from convlog.eventstore.redaction import redact
from convlog.eventstore.store import Store
from convlog.eventstore.tree import Tree
from convlog.eventstore.verify import verify_thread
from tests.conftest import Stores
from tests.stores import Place


@pytest.fixture(autouse=True)
def small_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a small tree be worth keeping."""
    monkeypatch.setattr(logs, "TREE_EVENTS_MIN", 4)


def grow(store: Store, thread: str, turns: int = 3) -> None:
    """Let some turns happen, one answer of each given twice."""
    handle = store.thread(thread)
    for number in range(turns):
        asked = handle.user(f"question {number}")
        handle.call(f"c{number}", "Read", {})
        handle.result(f"c{number}", "text")
        handle.text("answer")
        handle.text("another", parent=asked.position)


def same(tree: Tree, other: Tree) -> bool:
    return tree.position == other.position and tree.begins_like(other)


def is_kept(store: Store, thread: str) -> bool:
    return store.backend.cached(tree_cache.name(thread)) is not None


def kept(store: Store, thread: str) -> tree_cache.Snapshot:
    snapshot = tree_cache.unpacked(store.backend.cached(tree_cache.name(thread)) or b"")
    assert snapshot is not None
    return snapshot


def keep(store: Store, thread: str) -> Tree:
    """Grow the tree, and keep it."""
    tree = store.thread(thread).tree
    given = ("generation", b"1")
    store.backend.cache(*given, thread)
    store.log(thread).keep_tree(given)
    return tree


def grown(store: Store, thread: str) -> Tree:
    """Give the tree as the events give it."""
    tree = Tree()
    for event in store.thread(thread).events():
        tree.add(event.position, event.parent)
        if (call := event.ref("answers")) is not None:
            tree.add_result(event.position, call)
    return tree


def test_the_next_handle_reads_only_what_came_since(any_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = any_place.open()
    thread = store.create_thread().id
    grow(store, thread)
    keep(store, thread)
    grow(store, thread, 1)
    again = any_place.open()
    first: list[int] = []
    read = again.backend.read

    def noted(name: str, start: int, *rest: Any, **how: Any) -> Any:
        first.append(start)
        return read(name, start, *rest, **how)

    monkeypatch.setattr(again.backend, "read", noted)
    tree = again.thread(thread).tree
    # The event that proves whose tree it is, and what came after it.
    position = kept(store, thread).position
    assert sorted(first) == [position, position + 1]
    assert same(tree, grown(store, thread))
    positions = again.log(thread).positions_of(("tool.called",))
    assert positions == store.log(thread).positions_of(("tool.called",))


def test_a_fork_keeps_the_tree_of_its_whole_log(any_place: Place) -> None:
    store = any_place.open()
    origin = store.create_thread()
    grow(store, origin.id)
    fork = origin.fork()
    grow(store, fork.id)
    keep(store, fork.id)
    again = any_place.open()
    assert same(again.thread(fork.id).tree, grown(store, fork.id))
    assert is_kept(again, fork.id)


def test_a_tree_is_kept_again_when_it_grew_by_a_part(store: Store) -> None:
    thread = store.create_thread().id
    grow(store, thread, 20)
    keep(store, thread)
    first = kept(store, thread).position
    grow(store, thread, 1)
    keep(store, thread)
    assert kept(store, thread).position == first
    grow(store, thread, 4)
    keep(store, thread)
    assert kept(store, thread).position == store.thread(thread).position


def test_no_room_to_keep_a_tree_is_no_reason_to_fail(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    thread = store.create_thread().id
    grow(store, thread)

    def full(*_: Any, **__: Any) -> bool:
        raise StoreFull("no room left")

    store.thread(thread).tree  # noqa: B018 - grown here
    monkeypatch.setattr(store.backend, "cache", full)
    store.log(thread).keep_tree(("generation", b"1"))
    assert not is_kept(store, thread)


def test_it_is_not_kept_after_an_erasure_that_came_between(any_store: Store) -> None:
    thread = any_store.create_thread().id
    grow(any_store, thread)
    given = ("generation", b"1")
    any_store.backend.cache(*given, thread)
    any_store.thread(thread).tree  # noqa: B018 - grown here
    redact(any_store, thread, match="question 1", reason="asked for")
    any_store.log(thread).keep_tree(given)
    assert not is_kept(any_store, thread)


def test_an_erasure_drops_it_with_the_rest(any_store: Store) -> None:
    thread = any_store.create_thread().id
    grow(any_store, thread)
    keep(any_store, thread)
    assert is_kept(any_store, thread)
    redact(any_store, thread, match="question 1", reason="asked for")
    assert not is_kept(any_store, thread)


def replace(store: Store, thread: str, value: bytes) -> None:
    connection = sqlite3.connect(store.place)
    with connection:
        connection.execute("UPDATE cache SET value = ? WHERE name = ?", (value, tree_cache.name(thread)))
    connection.close()


@pytest.mark.parametrize("at", [0, 40, -1])
def test_a_damaged_one_is_grown_again(open_store: Stores, at: int) -> None:
    store = open_store()
    thread = store.create_thread().id
    grow(store, thread)
    keep(store, thread)
    value = bytearray(store.backend.cached(tree_cache.name(thread)) or b"")
    value[at] ^= 1
    replace(store, thread, bytes(value))
    assert same(open_store().thread(thread).tree, grown(store, thread))


def test_that_of_another_log_is_grown_again(open_store: Stores) -> None:
    store = open_store()
    one, two = store.create_thread().id, store.create_thread().id
    grow(store, one)
    grow(store, two, 5)
    keep(store, one)
    value = store.backend.cached(tree_cache.name(one)) or b""
    store.backend.cache(tree_cache.name(two), value, two)
    assert same(open_store().thread(two).tree, grown(store, two))


def test_verify_finds_one_that_the_events_do_not_give(open_store: Stores, allow_damage: None) -> None:
    store = open_store()
    thread = store.create_thread().id
    grow(store, thread)
    tree = keep(store, thread)
    assert list(verify_thread(store, thread)) == []
    other = Tree()
    for position in range(1, tree.position + 1):
        other.add(position, position - 1 or None)
    log = store.log(thread)
    forged = tree_cache.packed(tree_cache.Snapshot(tree.position, log.hash, other, {"x": array("q", [2])}))
    replace(store, thread, forged)
    assert [problem.kind for problem in verify_thread(open_store(), thread)] == ["cache"]


def test_verify_finds_one_that_hides_events_of_a_type(open_store: Stores, allow_damage: None) -> None:
    store = open_store()
    thread = store.create_thread().id
    grow(store, thread)
    keep(store, thread)
    snapshot = kept(store, thread)
    assert list(verify_thread(store, thread)) == []
    del snapshot.types["tool.called"]
    replace(store, thread, tree_cache.packed(snapshot))
    assert [problem.kind for problem in verify_thread(open_store(), thread)] == ["cache"]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10**6)), max_size=60))
def test_a_tree_survives_being_packed(drawn: list[tuple[bool, int]]) -> None:
    tree = Tree()
    tree.add(1, None)
    nodes = [1]
    for position, (is_node, pick) in enumerate(drawn, 2):
        tree.add(position, nodes[pick % len(nodes)] if is_node else None)
        if is_node:
            nodes.append(position)
            if pick % 3 == 0:
                tree.add_result(position, nodes[pick % (len(nodes) - 1)])
    again = Tree.unpack(tree.pack())
    assert same(again, tree)
    assert same(tree, again)
    for node in nodes:
        assert again.path(node) == tree.path(node)
        assert again.path(node, 5) == [position for position in tree.path(node) if position >= 5]
        assert again.children(node) == tree.children(node)
        assert again.results(node) == tree.results(node)
        assert again.answered(node) == tree.answered(node)
    assert again.branches() == tree.branches()
    assert again.leaves() == tree.leaves()
