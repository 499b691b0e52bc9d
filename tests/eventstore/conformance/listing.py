"""Rules of what is of more than one thread: lists, names, the feed, attachments, caches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from blake3 import blake3

from convlog.eventstore import errors
from convlog.eventstore.canonical import creation_id
from convlog.eventstore.events import Document, Image, InputAdded, ParentCall, Source, Text
from convlog.eventstore.records import Draft
from convlog.eventstore.store import CHUNK_BYTES, Store
from convlog.eventstore.thread import USER
from tests.edges import Clock
from tests.eventstore.conformance.rules import prose, rule, texts, unchanged
from tests.stores import Place


def listed(store: Store) -> list[str | None]:
    return [row.title for row in store.threads()]


# --- creation ---


@rule
def a_creation_key_makes_one_thread(place: Place) -> None:
    store = place.open()
    thread = store.create_thread(title="a", key=("client-1", "local-7"))
    thread.text("x")
    assert thread.id == creation_id("client-1", "local-7")
    again = place.open().create_thread(title="a", key=("client-1", "local-7"))
    assert again.id == thread.id
    assert texts(again) == ["x"]
    assert store.create_thread(key=("client-2", "local-7")).id != thread.id
    assert len(list(store.threads())) == 2


@rule
def a_row_says_where_its_thread_comes_from(place: Place) -> None:
    store = place.open(clock=Clock(1_000))
    parent = store.create_thread()
    call = parent.call("c", "task", {}).position
    made = ParentCall(parent.id, call)
    child = store.create_thread(
        title="t", cwd="/x", agent="keen", source_id="s-1", origin="subagent", parent=made, labels={"a": "b"}
    )
    row = store.row(child.id)
    assert (row.title, row.cwd, row.agent, row.source_id, row.created_at) == ("t", "/x", "keen", "s-1", 1_000)
    assert (row.parent_thread, row.parent_call, row.helper, row.kind) == (parent.id, call, True, "conversation")
    body = child.event(1).body
    assert (body.title, body.labels, body.parent) == ("t", {"a": "b"}, made)


# --- lists ---


@rule
def threads_are_listed_with_the_last_touched_first(place: Place) -> None:
    store = place.open()
    one, two, three = (store.create_thread(title=title) for title in ("one", "two", "three"))
    assert listed(store) == ["three", "two", "one"]
    one.user("hello")
    assert listed(store) == ["one", "three", "two"]
    two.text("not a change that the list shows")
    assert listed(store) == ["one", "three", "two"]
    three.end_turn()
    assert listed(store) == ["three", "one", "two"]
    two.set_title("zwei")
    assert listed(store) == ["zwei", "three", "one"]


@rule
def a_list_comes_in_pages(place: Place) -> None:
    store = place.open()
    for number in range(120):
        store.create_thread(title=str(number))
    expected = [str(number) for number in reversed(range(120))]
    assert listed(store) == expected
    page = store.backend.threads(limit=7)
    assert [row.title for row in page] == expected[:7]
    assert [row.title for row in store.backend.threads(before=page[-1].touched, limit=2)] == expected[7:9]
    assert store.backend.threads(before=0) == []


@rule
def the_list_knows_turns_titles_and_first_words(place: Place) -> None:
    store = place.open()
    thread = store.create_thread()
    thread.user("  fix \n the\ttest  ")
    thread.append_many([prose("a"), prose("b")])
    thread.end_turn()
    thread.user("x" * 500)
    thread.end_turn()
    thread.set_title("t")
    row = store.row(thread.id)
    assert (row.turns, row.title, row.preview) == (2, "t", "x" * 120)
    assert thread.title == "t"


@rule
def the_stores_own_thread_is_not_listed(place: Place) -> None:
    store = place.open()
    store.delete_thread(store.create_thread().id)
    store.create_thread(title="memory", kind="memory")
    assert listed(store) == ["memory"]


@rule
def the_latest_thread_is_the_one_whose_user_spoke_last(place: Place) -> None:
    store = place.open()
    with pytest.raises(errors.NoSuchThread):
        store.latest()
    one, two = store.create_thread(), store.create_thread()
    helper = store.create_thread(origin="subagent", parent=ParentCall(one.id))
    with pytest.raises(errors.NoSuchThread):
        store.latest()
    two.user("second", occurred_at=9_999)
    one.user("first", occurred_at=1)
    assert store.latest().id == one.id
    for append in (
        lambda: helper.user("not a user"),
        lambda: two.text("prose"),
        lambda: two.system("system text"),
        lambda: two.user("by a host", source=Source("host")),
        two.end_turn,
        lambda: two.set_title("t"),
        two.fork,
    ):
        append()
        assert store.latest().id == one.id
    two.append_many([prose("a"), Draft(body=InputAdded(content=(Text("b"),)), source=USER)])
    assert place.reopen(store).thread("latest").id == two.id


# --- names ---


@rule
def a_thread_is_found_by_prefix_title_or_source_id(place: Place) -> None:
    store = place.open()
    thread = store.create_thread(title="fix the flaky test", source_id="sess/1")
    store.create_thread(title="other")
    for text in (thread.id, thread.id[:12], "fix the flaky test", "sess/1"):
        assert store.thread(text).id == thread.id
    for text in ("fix the", "FIX THE FLAKY TEST", "", "sess", thread.id[:8].upper() + "g", "%", "_", "' OR 1"):
        with pytest.raises(errors.NoSuchThread):
            store.thread(text)
    thread.set_title("done")
    assert store.thread("done").id == thread.id
    with pytest.raises(errors.NoSuchThread):
        store.thread("fix the flaky test")


@rule
def a_text_that_fits_two_threads_is_refused_with_both(place: Place) -> None:
    store = place.open()
    one = store.create_thread(title="same")
    two = store.create_thread(source_id="same")
    with pytest.raises(errors.AmbiguousAddress) as caught:
        store.thread("same")
    assert {candidate.split()[0] for candidate in caught.value.candidates} == {one.id[:12], two.id[:12]}


@rule
def a_title_that_looks_like_an_id_is_found_as_a_title(place: Place) -> None:
    store = place.open()
    other = store.create_thread()
    titled = store.create_thread(title=other.id[:8])
    assert store.thread(other.id[:8]).id == titled.id
    assert store.thread(other.id).id == other.id


# --- the feed ---


@rule
def the_feed_gives_every_event_once_and_in_the_order_of_its_thread(place: Place) -> None:
    store = place.open()
    one, two = store.create_thread(), store.create_thread()
    for number in range(30):
        (one if number % 3 else two).text(str(number))
    cursor, seen = 0, []
    while True:
        page, following = store.backend.changes(cursor, 7)
        if not page:
            assert following == cursor
            break
        assert following > cursor
        seen += page
        cursor = following
    for thread in (one, two):
        assert [position for name, position in seen if name == thread.id] == list(range(1, thread.position + 1))
    assert len(seen) == 32
    one.text("new")
    assert store.backend.changes(cursor, 7)[0] == [(one.id, one.position)]


@rule
def the_feed_goes_on_when_the_last_events_are_deleted(place: Place) -> None:
    store = place.open()
    kept, gone = store.create_thread(), store.create_thread()
    gone.text("a")
    _, cursor = store.backend.changes(0, 100)
    store.delete_thread(gone.id)
    kept.text("b")
    page, _ = store.backend.changes(cursor, 100)
    assert page[-1] == (kept.id, kept.position)


# --- attachments ---


@rule
def an_attachment_comes_back_by_its_hash(place: Place) -> None:
    store = place.open()
    data = bytes(range(256)) * 5000
    name = store.attach(data)
    assert name == blake3(data).hexdigest()
    store = place.reopen(store)
    assert store.attachment(name) == data
    assert store.backend.attachment_size(name) == len(data)
    assert [len(chunk) for chunk in store.attachment_chunks(name)] == [CHUNK_BYTES, len(data) - CHUNK_BYTES]


@rule
def an_attachment_may_come_in_parts(place: Place) -> None:
    store = place.open()
    parts = [b"ab", b"", b"c" * CHUNK_BYTES, b"d"]
    assert store.attachment(store.attach(iter(parts))) == b"".join(parts)
    assert store.attachment(store.attach(b"")) == b""
    assert store.attachment(store.attach([])) == b""


@rule
def equal_bytes_are_kept_once(place: Place) -> None:
    first, second = place.open(), place.open()
    assert first.attach(b"x" * 10) == second.attach(iter([b"x" * 4, b"x" * 6]))
    assert len(list(first.backend.attachments())) == 1


@rule
def an_attachment_that_breaks_off_is_not_stored(place: Place) -> None:
    store = place.open()

    def breaking() -> Iterator[bytes]:
        yield b"a" * 10
        msg = "the source broke off"
        raise RuntimeError(msg)

    with pytest.raises(RuntimeError):
        store.backend.put_attachment("0" * 64, breaking(), 20)
    assert list(store.backend.attachments()) == []
    assert store.backend.attachment_size("0" * 64) is None


@rule
def an_unknown_attachment_is_refused(place: Place) -> None:
    store = place.open()
    thread = store.create_thread()
    image = Image(attachment="0" * 64)
    with unchanged(thread):
        for append in (
            lambda: thread.user([Text("look"), image]),
            lambda: thread.append_many([prose("a"), Draft(body=InputAdded(content=(image,)))]),
        ):
            with pytest.raises(errors.NoSuchAttachment):
                append()
    with pytest.raises(errors.NoSuchAttachment):
        store.attachment("0" * 64)


@rule
def the_attachments_that_a_thread_uses_are_known(place: Place) -> None:
    store = place.open()
    names = [store.attach(bytes([number])) for number in range(4)]
    one, two = store.create_thread(), store.create_thread()
    one.user([Image(attachment=names[0]), Document(attachment=names[1])])
    two.call("c", "f", {})
    two.result("c", [Text("see"), Image(attachment=names[1]), Image(url="https://example.org/x.png")])
    two.user([Document(attachment=names[2])])
    assert list(store.backend.attachments(one.id)) == sorted(names[:2])
    assert list(store.backend.attachments(two.id)) == sorted(names[1:3])
    assert list(store.backend.attachments()) == sorted(names)


@rule
def dropped_attachments_are_gone(place: Place) -> None:
    store = place.open()
    names = [store.attach(text) for text in (b"a", b"b")]
    store.backend.drop_attachments([names[0], "0" * 64])
    assert list(store.backend.attachments()) == [names[1]]
    with pytest.raises(errors.NoSuchAttachment):
        store.attachment(names[0])


# --- derived values ---


@rule
def derived_values_are_kept_until_they_are_dropped(place: Place) -> None:
    store = place.open()
    backend = store.backend
    one, two = store.create_thread().id, store.create_thread().id
    backend.cache("a", b"1", one)
    backend.cache("a", b"2", one)
    backend.cache("b", b"\0\xff", two)
    assert (backend.cached("a"), backend.cached("b"), backend.cached("c")) == (b"2", b"\0\xff", None)
    assert backend.cache_size() == 3
    backend.drop_cache()
    assert (backend.cached("a"), backend.cached("b")) == (None, None)
    assert backend.cache_size() == 0


@rule
def a_derived_value_is_kept_only_beside_the_one_it_is_given(place: Place) -> None:
    store = place.open()
    backend = store.backend
    thread = store.create_thread().id
    assert not backend.cache("a", b"1", thread, given=("base", b"x"))
    assert backend.cache("base", b"x", thread)
    assert backend.cache("a", b"1", thread, given=("base", b"x"))
    assert not backend.cache("a", b"2", thread, given=("base", b"y"))
    assert backend.cached("a") == b"1"
    backend.drop_cache()
    assert not backend.cache("a", b"3", thread, given=("base", b"x"))
    assert backend.cached("a") is None
