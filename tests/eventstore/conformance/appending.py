"""Rules of appending: positions, expectations, keys, batches, limits."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from convlog.eventstore import canonical, errors
from convlog.eventstore.events import (
    Facts,
    HeadMoved,
    SegmentAdded,
    Source,
    ThreadCreated,
    ToolCalled,
    ToolReturned,
    TurnEnded,
)
from convlog.eventstore.memory import MemoryBackend
from convlog.eventstore.records import Draft, Member
from convlog.eventstore.store import Store
from tests.edges import START, Clock, Entropy
from tests.eventstore.conformance.rules import assert_chained, prose, rule, stored, text_of, texts, unchanged
from tests.stores import Place

# --- positions and the chain ---


@rule
def positions_run_from_one_without_a_gap(place: Place) -> None:
    thread = place.open().create_thread()
    answers = [thread.user("a"), thread.text("b"), thread.end_turn(), thread.user("c")]
    assert [answer.position for answer in answers] == [2, 3, 4, 5]
    assert [event.position for event in thread.events()] == [1, 2, 3, 4, 5]


@rule
def an_append_answers_with_where_the_event_was_stored(place: Place) -> None:
    thread = place.open().create_thread()
    answer = thread.user("a", key="k")
    event = thread.event(answer.position)
    assert (answer.thread, answer.head, answer.hash, answer.replayed) == (thread.id, 2, event.hash, False)
    assert (thread.position, thread.head, thread.tip) == (2, 2, answer.hash)
    assert (event.parent, event.head, event.key, event.source.kind) == (1, 2, "k", "user")


@rule
def each_event_is_chained_to_the_one_before(place: Place) -> None:
    store = place.open()
    thread = store.create_thread(title="t", labels={"a": "b"})
    thread.user("a", key="k1", occurred_at=-5)
    thread.call("c", "bash", {"command": "ls"})
    thread.result("c", "out\0put", facts=Facts(exit_code=0))
    assert_chained(thread)
    for record in stored(store, thread):
        assert record.salt is not None
        assert record.body is not None
        assert record.commitment == canonical.commitment(record.salt, record.body, record.output)


@rule
def no_two_events_share_a_salt(place: Place) -> None:
    store = place.open()
    threads = [store.create_thread() for _ in range(3)]
    for number in range(150):
        threads[number % 3].text("the same words")
    salts = [record.salt for thread in threads for record in stored(store, thread)]
    assert len(set(salts)) == len(salts) == 153


@rule
def every_backend_gives_the_same_hashes(place: Place) -> None:
    def history(store: Store) -> bytes:
        thread = store.create_thread(title="t")
        thread.user("a", key="k")
        thread.call("c", "bash", {"command": "ls"})
        thread.result("c", "out")
        fork = thread.fork(2)
        fork.append_many([prose("b"), prose("c", parent=Member(0))])
        fork.end_turn()
        return fork.tip

    other = Store(MemoryBackend(), clock=Clock(step=1), entropy=Entropy(3))
    assert history(place.open(clock=Clock(step=1), entropy=Entropy(3))) == history(other)


@rule
def a_clock_that_goes_back_changes_no_order(place: Place) -> None:
    clock = Clock()
    store = place.open(clock=clock)
    first, second = store.create_thread(title="first"), store.create_thread(title="second")
    first.user("a")
    clock.advance(-3_600_000_000)
    second.user("b")
    clock.advance(-3_600_000_000)
    first.user("c")
    times = [event.recorded_at for event in first.events()]
    assert times == [START, START, START - 7_200_000_000]
    assert texts(first) == ["a", "c"]
    assert store.latest().id == first.id
    assert [row.title for row in store.threads()] == ["first", "second"]


@rule
def what_was_stored_is_there_after_opening_again(place: Place) -> None:
    store = place.open()
    thread = store.create_thread(title="t")
    thread.user("a", key="k")
    thread.append_many([prose("b"), prose("c", parent=Member(0))])
    before = stored(store, thread)
    store = place.reopen(store)
    assert stored(store, store.thread(thread.id)) == before


# --- expectations ---


@rule
def an_unexpected_head_is_refused_and_named(place: Place) -> None:
    thread = place.open().create_thread()
    first = thread.user("a").position
    thread.text("b")
    with unchanged(thread), pytest.raises(errors.Conflict) as caught:
        thread.text("c", expected_head=first)
    assert caught.value.actual == 3
    assert thread.text("c", expected_head=3).position == 4


@rule
def an_unexpected_position_is_refused_and_named(place: Place) -> None:
    thread = place.open().create_thread()
    head = thread.user("a").position
    tip = thread.end_turn().position
    with unchanged(thread), pytest.raises(errors.Conflict) as caught:
        thread.text("b", expected_position=head)
    assert caught.value.actual == tip
    assert thread.text("b", expected_position=tip, expected_head=head).position == 4


@rule
def of_two_writers_that_expect_one_head_one_is_refused(place: Place) -> None:
    first, second = place.open(), place.open()
    thread = first.create_thread()
    other = second.thread(thread.id)
    head = thread.user("a").position
    other.refresh()
    won = thread.text("b", expected_head=head)
    with pytest.raises(errors.Conflict) as caught:
        other.text("c", expected_head=head)
    assert caught.value.actual == won.position
    assert texts(other) == ["a", "b"]


@rule
def a_writer_that_is_behind_appends_behind_what_is_new(place: Place) -> None:
    first, second = place.open(), place.open()
    thread = first.create_thread()
    other = second.thread(thread.id)
    assert other.tree.path(other.head) == [1]
    for round_ in range(3):
        thread.text(f"a{round_}")
        other.text(f"b{round_}")
    assert texts(other) == ["a0", "b0", "a1", "b1", "a2", "b2"]
    thread.refresh()
    assert texts(thread) == texts(other)
    assert_chained(thread)


@rule
def a_writer_that_is_behind_may_name_a_node_that_it_has_not_seen(place: Place) -> None:
    first, second = place.open(), place.open()
    thread = first.create_thread()
    other = second.thread(thread.id)
    other.user("a")
    called = thread.call("c", "bash", {})
    thread.text("b")
    assert other.text("b2", parent=called.position).head == 5
    assert other.result("c", "out").position == 6


# --- keys ---


@rule
def a_key_answers_with_the_event_stored_first(place: Place) -> None:
    store = place.open()
    thread = store.create_thread()
    first = thread.user("a", key="k")
    thread.text("b")
    with unchanged(thread):
        again = thread.user("a", key="k")
    assert again.replayed
    assert (again.position, again.head, again.hash) == (first.position, first.head, first.hash)
    thread = place.reopen(store).thread(thread.id)
    with unchanged(thread):
        assert thread.user("a", key="k").position == first.position


@rule
def a_key_compares_neither_times_nor_source_nor_the_resolved_head(place: Place) -> None:
    thread = place.open().create_thread()
    first = thread.text("a", key="k", occurred_at=1)
    thread.text("b")
    assert thread.text("a", key="k", occurred_at=2, source=Source("host")).position == first.position
    assert thread.text("a", key="k", parent=1).position == first.position


@rule
def a_key_with_other_content_is_refused(place: Place) -> None:
    thread = place.open().create_thread()
    thread.user("u")
    thread.text("a", key="k")
    thread.call("c", "bash", {})
    thread.result("c", "out", key="r")
    with unchanged(thread):
        with pytest.raises(errors.KeyMismatch):
            thread.text("b", key="k")
        with pytest.raises(errors.KeyMismatch):
            thread.reasoning("a", key="k")
        with pytest.raises(errors.KeyMismatch):
            thread.user("a", key="k")
        with pytest.raises(errors.KeyMismatch):
            thread.text("a", key="k", parent=1)
        with pytest.raises(errors.KeyMismatch):
            thread.result("c", "other", key="r")


@rule
def a_key_is_known_to_a_writer_that_is_behind(place: Place) -> None:
    first, second = place.open(), place.open()
    thread = first.create_thread()
    other = second.thread(thread.id)
    other.user("u")
    stored_first = thread.text("a", key="k")
    again = other.text("a", key="k")
    assert (again.position, again.replayed) == (stored_first.position, True)
    thread.text("b", key="k2")
    with pytest.raises(errors.KeyMismatch):
        other.text("c", key="k2")


@rule
def a_known_key_answers_whatever_is_expected_now(place: Place) -> None:
    thread = place.open().create_thread()
    first = thread.text("a", key="k", expected_head=1, expected_position=1)
    thread.text("b")
    with unchanged(thread):
        assert thread.text("a", key="k", expected_head=1, expected_position=1).position == first.position


@rule
def a_known_key_answers_where_the_content_would_be_refused_now(place: Place) -> None:
    thread = place.open().create_thread()
    thread.call("c", "bash", {})
    first = thread.result("c", "out", key="k")
    with unchanged(thread):
        assert thread.result("c", "out", key="k").position == first.position


@rule
def a_key_holds_in_its_thread_alone(place: Place) -> None:
    store = place.open()
    one, two = store.create_thread(), store.create_thread()
    one.text("a", key="k")
    assert not two.text("b", key="k").replayed


@rule
def ill_formed_keys_are_refused(place: Place) -> None:
    thread = place.open().create_thread()
    thread.text("a", key="A-z.0_9:/" + "k" * 119)
    with unchanged(thread):
        for key in ("", "k" * 129, "with space", "ä", "k\n", "k\0", "a;b"):
            with pytest.raises(errors.PayloadRejected):
                thread.text("b", key=key)


# --- batches ---


@rule
def a_batch_is_stored_whole(place: Place) -> None:
    thread = place.open().create_thread()
    answers = thread.append_many([prose("a"), prose("b"), prose("c")])
    assert [answer.position for answer in answers] == [2, 3, 4]
    assert [answer.head for answer in answers] == [2, 3, 4]
    assert texts(thread) == ["a", "b", "c"]


@rule
def a_batch_with_one_bad_member_stores_nothing(place: Place) -> None:
    thread = place.open().create_thread()
    thread.text("taken", key="taken")
    bad = [
        prose("b", parent=99),
        prose("b", key="taken"),
        prose("b", key="ill formed"),
        prose("b", refs=(("about", 99),)),
        prose("b", refs=(("likes", 1),)),
        prose("\ud800"),
        Draft(body=HeadMoved(), head=99),
        Draft(body=TurnEnded(node=99)),
        Draft(body=TurnEnded(node=2), parent=2),
        Draft(body=TurnEnded(node=2), head=1),
        Draft(body=ThreadCreated()),
    ]
    for draft in bad:
        with unchanged(thread), pytest.raises(errors.ConvlogError):
            thread.append_many([prose("a", key="new"), draft])
    assert not thread.text("other", key="new").replayed


@rule
def members_refer_to_earlier_members(place: Place) -> None:
    thread = place.open().create_thread()
    thread.user("u")
    answers = thread.append_many(
        [
            prose("a"),
            prose("b", parent=1),
            prose("c", parent=Member(0), refs=(("about", Member(1)),)),
            Draft(body=lambda positions: TurnEnded(node=positions[2])),
            Draft(body=HeadMoved(), head=Member(0)),
        ]
    )
    a, b, c, ended, moved = (thread.event(answer.position) for answer in answers)
    assert (a.parent, b.parent, c.parent) == (2, 1, a.position)
    assert c.refs == (("about", b.position),)
    assert ended.body.node == c.position
    assert (moved.head, thread.head) == (a.position, a.position)


@rule
def members_refer_to_no_later_member(place: Place) -> None:
    thread = place.open().create_thread()
    for index in (-1, 1, 2):
        with unchanged(thread), pytest.raises(errors.PayloadRejected):
            thread.append_many([prose("a"), prose("b", parent=Member(index))])


@rule
def content_that_is_none_is_refused(place: Place) -> None:
    thread = place.open().create_thread()
    thread.call("c", "Read", {})
    for content in (3, None, 2.5):
        with unchanged(thread), pytest.raises(errors.PayloadRejected, match="content of type"):
            thread.user(content)  # type: ignore[arg-type] # what a caller may get wrong
    for output in ({"a": 1}, 3, ["text"]):
        with unchanged(thread), pytest.raises(errors.PayloadRejected) as error:
            thread.result("c", output)  # type: ignore[arg-type] # as above
        assert error.value.hint == "give a text, or content blocks"


@rule
def a_result_may_answer_a_call_of_its_own_batch(place: Place) -> None:
    thread = place.open().create_thread()
    called = Draft(body=ToolCalled(call="c", name="bash"))
    answered = Draft(body=ToolReturned(call="c"), output=b"out")
    answers = thread.append_many([called, called, answered, answered])
    found = [thread.event(answer.position).ref("answers") for answer in answers[2:]]
    assert found == [answers[1].position, answers[0].position]
    with unchanged(thread), pytest.raises(errors.DuplicateResult):
        thread.append_many([called, answered, answered])


@rule
def a_batch_sent_again_answers_with_its_first_events(place: Place) -> None:
    thread = place.open().create_thread()
    drafts = [prose("a", key="a"), prose("b", key="b", parent=Member(0)), prose("c", key="c")]
    first = thread.append_many(drafts)
    with unchanged(thread):
        again = thread.append_many(drafts)
    assert [answer.position for answer in again] == [answer.position for answer in first]
    assert all(answer.replayed for answer in again)


@rule
def of_a_batch_that_is_known_in_part_the_rest_is_stored(place: Place) -> None:
    thread = place.open().create_thread()
    first = thread.text("a", key="a")
    thread.text("x")
    answers = thread.append_many([prose("a", key="a"), prose("b", key="b", parent=Member(0))])
    assert [answer.replayed for answer in answers] == [True, False]
    assert thread.event(answers[1].position).parent == first.position


@rule
def a_key_twice_in_one_batch_is_refused(place: Place) -> None:
    thread = place.open().create_thread()
    with unchanged(thread), pytest.raises(errors.KeyMismatch):
        thread.append_many([prose("a", key="k"), prose("a", key="k")])


@rule
def an_empty_batch_stores_nothing(place: Place) -> None:
    thread = place.open().create_thread()
    with unchanged(thread):
        assert thread.append_many([]) == []


# --- limits and text ---


@rule
def sixteen_mebibytes_are_stored_and_one_byte_more_is_refused(place: Place) -> None:
    thread = place.open().create_thread()
    thread.call("c", "bash", {})
    frame = len(stored(thread.store, thread)[-1].body or b"")
    room = canonical.BODY_BYTES_MAX
    with unchanged(thread), pytest.raises(errors.TooLarge):
        thread.text("x" * room)
    with unchanged(thread), pytest.raises(errors.TooLarge):
        thread.result("c", "x" * (room + 1 - len('{"call":"c"}')))
    answer = thread.result("c", "x" * (room - len('{"call":"c"}')))
    assert frame
    assert len(thread.event(answer.position).output or b"") == room - len('{"call":"c"}')


@rule
def content_that_could_not_be_read_back_is_refused(place: Place) -> None:
    thread = place.open().create_thread()
    thread.call("c", "bash", {})
    with unchanged(thread):
        for body in (
            SegmentAdded(text="half \udc00"),
            SegmentAdded(text=7),  # type: ignore[arg-type] # a caller's mistake
            SegmentAdded(kind="song"),  # type: ignore[arg-type] # the same
            TurnEnded(node=2.5),  # type: ignore[arg-type] # the same
        ):
            with pytest.raises(errors.PayloadRejected):
                thread.append(body)
        with pytest.raises(errors.PayloadRejected):
            thread.append(SegmentAdded(text="a"), output=b"\xff")
        for arguments in ({"a": math.nan}, {"a": {1: 2}}, {"a": object()}, "[1,", "[NaN]", "[" * 300 + "]" * 300):
            with pytest.raises(errors.PayloadRejected):
                thread.call("d", "bash", arguments)
        for time in (2**63, -(2**63) - 1, 1.5, True):
            with pytest.raises(errors.PayloadRejected):
                thread.text("a", occurred_at=time)


@rule
def names_are_short_and_without_controls(place: Place) -> None:
    store = place.open()
    thread = store.create_thread(title="n" * 128)
    thread.call("c", "bash", {})

    def uses(name: str) -> list[Callable[[], object]]:
        return [
            lambda: store.create_thread(title=name),
            lambda: thread.set_title(name),
            lambda: thread.name_branch(name),
            lambda: thread.result("c", status=name),
            lambda: thread.text("a", source=Source("model", model=name)),
            lambda: thread.text("a", source=Source("user", actor=name)),
        ]

    for name in ("", "n" * 129, "a\nb", "a\x1bb", "a\0b"):
        for use in uses(name):
            with unchanged(thread), pytest.raises(errors.PayloadRejected):
                use()
    assert len(list(store.threads())) == 1


@rule
def odd_text_comes_back_as_it_was(place: Place) -> None:
    store = place.open()
    thread = store.create_thread()
    odd = ["", "a\0b", "\x01\x1b\x7f", "e\u0301 é \u202e", "\U0001f600", "a\u2028b\\\"'", "\ufffd", "ß" * 3000]
    positions = [thread.text(text).position for text in odd]
    thread.call("c", "bash", {"a\0": odd})
    positions.append(thread.result("c", "".join(odd)).position)
    thread = place.reopen(store).thread(thread.id)
    assert [text_of(thread, position) for position in positions] == [*odd, "".join(odd)]


@rule
def half_surrogates_come_back_as_they_were(place: Place) -> None:
    thread = place.open().create_thread()
    text = "a\ud83d b\ude00\ud83d\ude00 \udc00"
    said = thread.event(thread.text(text).position).body
    asked = thread.event(thread.user(text).position).body.content[0]
    for found in (said, asked):
        assert "\ufffd" in found.text
        assert found.text.encode()
        assert found.original == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


@rule
def foreign_json_keeps_its_spelling(place: Place) -> None:
    thread = place.open().create_thread()
    spelled = '{ "b": 1.50,\n "a": 1e2, "a": "\\u0041\\ud800", "big": 123456789012345678901234567890 }'
    assert thread.event(thread.call("c", "bash", spelled).position).body.input == spelled
