"""What holds of every conversation: recorded prompts are derived again whatever comes later; nothing is said twice."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import convlog
from convlog.eventstore.memory import MemoryBackend
from convlog.eventstore.redaction import redact
from convlog.eventstore.verify import verify_store
from convlog.projections.audit import audit
from convlog.projections.calls import calls
from convlog.projections.compare import common_prefix
from convlog.projections.conversation import Store, Thread
from convlog.projections.material import derived, material
from convlog.projections.prepare import Prompt
from convlog.projections.replay import Replayed, replay_call
from convlog.projections.stages.pieces_v1 import DROPPED, SUMMARY
from convlog.projections.stages.selection_v1 import select
from convlog.projections.stages.turns_v1 import turns
from convlog.projections.stages.view_v1 import read_all
from tests.stores import problems_of

from .conversations import TALKING, Conversation, numbers, steps

short = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def begun(backend: MemoryBackend | None = None) -> Conversation:
    """Begin a conversation, in memory."""
    store = Store(backend or MemoryBackend())
    thread = store.create_thread(title="a talk", agent="claude-code", cwd="/w")
    thread.user("Let us begin.")
    return Conversation(thread)


def replayed(thread: Thread, prompt: Prompt) -> Replayed:
    assert prompt.call is not None
    return replay_call(thread, next(each for each in calls(thread) if each.position == prompt.call))


def assert_exact(thread: Thread, prompt: Prompt) -> None:
    again = replayed(thread, prompt)
    assert again.verdict == "exact", (again.reason, again.detail)
    assert again.prompt is not None
    assert again.prompt.body == prompt.body


@short
@given(steps())
def test_a_recorded_call_stays_exact_whatever_comes_later(found: list[tuple[str, int, int]]) -> None:
    backend = MemoryBackend()
    talk = begun(backend)
    talk.prepare(0)
    talk.do_all(found)
    talk.prepare(len(found))
    for thread, prompt in talk.prompts:
        assert_exact(thread, prompt)
    cold = Store(backend)
    for thread, prompt in talk.prompts:
        assert_exact(cold.thread(thread.id), prompt)
    fork = cold.thread(talk.thread.id).fork()
    shared = [prompt for thread, prompt in talk.prompts if thread.id == talk.thread.id]
    for prompt in shared:
        assert_exact(fork, prompt)  # type: ignore[arg-type] # a store gives its own class
    assert problems_of(cold) == []


@short
@given(steps())
def test_warm_cold_and_repeated_derivations_are_equal_to_the_byte(found: list[tuple[str, int, int]]) -> None:
    backend = MemoryBackend()
    talk = begun(backend)
    talk.do_all(found)
    cold = Store(backend).thread(talk.thread.id)
    for number in range(6):
        warm = talk.prepare(number)
        again = derived(talk.thread, warm.derived.recipe, warm.leaf, warm.at)
        elsewhere = derived(cold, warm.derived.recipe, warm.leaf, warm.at)
        assert warm.body == again.body == elsewhere.body
        assert warm.derived.rolling == again.rolling == elsewhere.rolling


@short
@given(steps())
def test_preparing_twice_at_one_position_gives_the_same(found: list[tuple[str, int, int]]) -> None:
    talk = begun()
    talk.do_all(found)
    one = talk.thread.prepare(record=False)
    two = talk.thread.prepare(record=False)
    assert (one.at, one.body) == (two.at, two.body)
    assert talk.thread.position == one.at


@short
@given(steps())
def test_a_summary_stands_on_its_range_alone_and_no_node_is_said_twice(found: list[tuple[str, int, int]]) -> None:
    talk = begun()
    talk.do_all(found)
    thread = talk.thread
    path = thread.tree.path(thread.head)
    for assembler in ("turn-memory@6", "transcript@1"):
        pieces = thread.prepare(assembler=assembler, record=False, despite_approval=True).pieces
        covered: list[int] = []
        for piece in pieces:
            if piece.provenance == SUMMARY:
                body = thread.event(piece.sources[0]).body
                assert body.first in path
                assert body.last in path
                covered += [node for node in path if body.first <= node <= body.last]
        assert len(covered) == len(set(covered))
        talk_about = [piece for piece in pieces if piece.provenance != DROPPED and piece.role != "system"]
        sources = {node for piece in talk_about if not piece.volatile for node in piece.sources}
        assert sources.isdisjoint(covered)


@short
@given(steps(*TALKING), numbers)
def test_ending_a_turn_changes_no_block_of_earlier_turns(found: list[tuple[str, int, int]], pick: int) -> None:
    talk = begun()
    talk.do_all(found)
    thread = talk.thread
    thread.end_turn("done")
    began = thread.user("And now?").position
    talk.do_all([("ask", pick, pick), ("result", pick, pick)])
    before = thread.prepare(record=False)
    given = material(thread)
    notes = read_all(given.notes)
    earlier = [turn for turn in turns(select(read_all(given.path), notes).slots, notes) if turn.start < began]
    # Turns that never ended well are collapsed by this end; that is said where it happens.
    assume(not any(turn.native for turn in earlier))
    thread.end_turn("done")
    after = thread.prepare(record=False)
    settled = 0
    for item in before.derived.request.items:
        for block in item.blocks:
            if all(source < began for index in block.pieces for source in before.pieces[index].sources):
                settled += 1
            else:
                break
        else:
            continue
        break
    assert settled >= 1
    assert common_prefix(before.derived, after.derived)[0] >= settled


def may_stand_in(prompt: Prompt, thread: Thread, position: int) -> bool:
    """Whether a prompt may be made of an event: it was there, and on the path, or a note that says something of it."""
    if position > prompt.at or thread.event(position).type in {"call.prepared", "call.finished"}:
        return False
    return not thread.tree.is_node(position) or thread.tree.is_above(position, prompt.leaf)


@short
@given(steps(), st.data())
def test_redaction_costs_the_proof_of_the_prompts_that_held_it_and_no_other(
    found: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    talk = begun()
    talk.do_all(found)
    talk.prepare(0)
    words = [f"word{number}x" for number in range(1, int(talk.word()[4:-1]))]
    assume(words)
    word = data.draw(st.sampled_from(words))
    thread = talk.thread
    holders = {event.position for event in thread.events() if word in repr((event.body, event.output))}
    assume(holders)
    redact(thread.store, thread.id, match=word, replacement="[gone]", reason="test")
    for owner, prompt in talk.prompts:
        again = replayed(owner, prompt)
        if word.encode() in prompt.body:
            assert (again.verdict, again.reason) == ("unprovable", "redacted")
        elif not any(may_stand_in(prompt, owner, holder) for holder in holders):
            assert again.verdict == "exact", (again.reason, again.detail)
    assert problems_of(thread.store) == []


@short
@given(steps())
def test_an_audit_of_any_conversation_finds_nothing_amiss(found: list[tuple[str, int, int]]) -> None:
    talk = begun()
    talk.do_all(found)
    talk.prepare(len(found))
    for result in audit(talk.thread.store):
        assert result.findings == []
        assert {verdict.split()[-1] for verdict in result.verdicts} <= {"exact", "derived"}


def test_what_holds_in_memory_holds_in_a_file_that_is_opened_again(store: Store) -> None:
    talk = Conversation(store.create_thread(title="a talk"))
    word = ("user", "ask", "result", "summarise", "answer", "user", "ask", "fork", "edit", "outline", "promote", "end")
    talk.do_all([(each, number, number + 1) for number in range(3) for each in word])
    assert len(talk.prompts) > 3
    with convlog.open(store.place, mode="r") as again:
        for thread, prompt in talk.prompts:
            assert_exact(again.thread(thread.id), prompt)
        assert list(verify_store(again)) == []
