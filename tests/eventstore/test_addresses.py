"""The address grammar: every address has a text, and every text one meaning or a typed error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convlog.eventstore.addresses import Address, parse, readings, resolve
from convlog.eventstore.errors import (
    AmbiguousAddress,
    BadAddress,
    NoSuchBranch,
    NoSuchCall,
    NoSuchNode,
    NoSuchThread,
)
from convlog.eventstore.events import CallFinished, CallObserved
from convlog.eventstore.store import Store, open_store
from convlog.eventstore.thread import Thread

PLAIN = "abcdefg-0123456789 _"
ODD = ":/@.,-0123456789ab é日\n"

numbers = st.integers(1, 10**17)


def addresses(characters: str) -> st.SearchStrategy[Address]:
    names = st.text(characters, min_size=1)
    return st.one_of(
        st.builds(lambda thread: Address(thread=thread), names),
        st.builds(lambda thread, first: Address(thread=thread, first=first), names, numbers),
        st.builds(
            lambda thread, ends: Address(thread=thread, first=min(ends), last=max(ends)),
            names,
            st.tuples(numbers, numbers),
        ),
        st.builds(lambda thread, call: Address(thread=thread, call=call), names, numbers),
        st.builds(lambda thread, branch: Address(thread=thread, branch=branch), names, names),
    )


@given(addresses(PLAIN))
def test_an_address_of_plain_names_is_parsed_from_its_text(address: Address) -> None:
    assert parse(str(address)) == address


@given(addresses(ODD))
def test_an_address_of_any_names_is_a_reading_of_its_text(address: Address) -> None:
    assert address in list(readings(str(address)))


@given(st.text())
def test_any_text_has_readings_or_is_refused(text: str) -> None:
    try:
        found = list(readings(text))
    except BadAddress:
        assert text == "" or not text.isprintable()
    else:
        assert found[-1] == Address(thread=text)


@pytest.mark.parametrize("text", ["", ":17", "@main", "t:0", "t/0", "t:5..2", "t:0..3", "\udcff"])
def test_a_text_that_names_nothing_is_a_bad_address(text: str) -> None:
    with pytest.raises(BadAddress) as caught:
        parse(text)
    assert caught.value.exit_code == 2


# --- in a store ---


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store(":memory:") as store:
        yield store


@pytest.fixture
def thread(store: Store) -> Thread:
    """1 root, 2 user, 3 text, 4 call.finished, 5 edit of 2, 6 text, 7 the name retry."""
    thread = store.create_thread(title="talk", source_id="session-9")
    thread.user("question")
    thread.text("answer")
    thread.append(CallFinished(), refs=(("about", 3),))
    thread.edit(2, "question again")
    thread.text("another answer")
    thread.name_branch("retry")
    return thread


@pytest.mark.parametrize("name", ["talk", "session-9", "latest", "-"])
def test_a_thread_is_named_by_title_source_id_or_as_the_latest(store: Store, thread: Thread, name: str) -> None:
    target = resolve(store, name)
    assert (target.thread.id, target.position, target.leaf) == (thread.id, None, 6)


def test_a_thread_is_named_by_its_id_or_the_start_of_it(store: Store, thread: Thread) -> None:
    assert resolve(store, thread.id).thread.id == resolve(store, thread.id[:6]).thread.id == thread.id


def test_a_position_names_an_event_and_a_note_stands_for_the_node_active_then(store: Store, thread: Thread) -> None:
    assert resolve(store, "talk:2").leaf == 2
    note = resolve(store, f"{thread.id[:8]}:4")
    assert (note.position, note.leaf) == (4, 3)


def test_a_range_is_two_nodes_of_one_path(store: Store, thread: Thread) -> None:
    target = resolve(store, "talk:2..3")
    assert (target.first, target.position) == (2, 3)
    with pytest.raises(NoSuchNode, match="no one path"):
        resolve(store, "talk:3..6")


def test_a_branch_is_named_or_numbered(store: Store, thread: Thread) -> None:
    assert resolve(store, "talk@retry").position == resolve(store, "talk@5").position == 6


def test_calls_are_counted_from_one_and_finishing_one_is_no_other(store: Store, thread: Thread) -> None:
    observed = thread.append(CallObserved(leaf=6, digest="d", length=1))
    thread.append(CallFinished(), refs=(("about", observed.position),))
    assert resolve(store, "talk/1").position == 4
    assert resolve(store, "talk/2").position == observed.position
    with pytest.raises(NoSuchCall, match="no call 3"):
        resolve(store, "talk/3")


def test_a_name_with_the_grammars_characters_is_found(store: Store) -> None:
    for title in ("a:17", "a/5", "x@y", "fix: the test", "b:2..3", ":odd", "t:0", "end:"):
        thread = store.create_thread(title=title)
        thread.user("hi")
        assert resolve(store, title).thread.id == thread.id
        assert resolve(store, f"{title}:2").position == 2


def test_two_readings_that_both_name_something_are_listed(store: Store, thread: Thread) -> None:
    other = store.create_thread(title="talk:2")
    with pytest.raises(AmbiguousAddress) as caught:
        resolve(store, "talk:2")
    assert set(caught.value.candidates) == {f"{thread.id}:2", other.id}
    assert caught.value.exit_code == 2
    assert [resolve(store, candidate).thread.id for candidate in caught.value.candidates] == [thread.id, other.id]
    assert resolve(store, "talk:2:").thread.id == other.id


def test_a_full_id_is_never_ambiguous(store: Store, thread: Thread) -> None:
    store.create_thread(title=f"{thread.id}:2")
    assert resolve(store, f"{thread.id}:2").thread.id == thread.id


def test_a_name_of_two_threads_is_ambiguous(store: Store, thread: Thread) -> None:
    store.create_thread(title="talk")
    with pytest.raises(AmbiguousAddress) as caught:
        resolve(store, "talk:2")
    assert len(caught.value.candidates) == 2


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("nobody", NoSuchThread),
        ("nobody:3", NoSuchThread),
        ("talk:99", NoSuchNode),
        ("talk:2..99", NoSuchNode),
        ("talk@nowhere", NoSuchBranch),
        ("talk/7", NoSuchCall),
        ("talk:x", BadAddress),
        ("talk/", NoSuchThread),
        ("talk:0", BadAddress),
        ("talk:3..2", BadAddress),
        ("", BadAddress),
    ],
)
def test_each_failure_has_its_type(store: Store, thread: Thread, text: str, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        resolve(store, text)
    assert type(caught.value) is error
