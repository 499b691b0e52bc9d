"""Summaries: over closed ranges only, replacing nothing, made again, taken back, derived anew."""

from __future__ import annotations

import pytest

from convlog.eventstore.errors import BadRange, Conflict, NoSuchCall, NoSuchNode, NotClosed, PayloadRejected
from convlog.eventstore.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Facts,
    SummaryAdded,
    SummaryFailed,
    SummaryStarted,
)
from convlog.eventstore.redaction import redact
from convlog.eventstore.summaries import fail_summary, stale_summaries, start_summary
from convlog.projections.conversation import Store, Thread
from convlog.projections.errors import BadProjection, NoSuchProjection
from convlog.projections.summarise import originals, restated, tokens, unmentioned
from tests.conftest import Stores


def body(thread: Thread, position: int) -> SummaryAdded:
    found = thread.event(position).body
    assert isinstance(found, SummaryAdded)
    return found


def texts(thread: Thread) -> list[str]:
    """Give the texts of the next prompt's talk."""
    prompt = thread.prepare(assembler="transcript@1", record=False)
    return [block.get("text", block["type"]) for message in prompt.request["messages"] for block in message["content"]]


@pytest.fixture
def job(thread: Thread) -> Thread:
    """Give a thread: 2 user, 3 text, 4 call, 5 call, 6 result of 5, 7 result of 4, 8 text, 9 end, 10 user."""
    thread.user("Why does it fail?")
    thread.text("Let me see.")
    thread.call("c1", "Bash", {"command": "pytest -q"})
    thread.call("c2", "Edit", {"path": "/w/app.py"})
    thread.result("c2", "ok", facts=Facts(file_changed="/w/app.py"))
    failed = Facts(command="pytest -q", failed_command="pytest -q", exit_code=2)
    thread.result("c1", "1 failed", status="error", facts=failed)
    thread.text("Because of clocks.")
    thread.end_turn()
    thread.user("And now?")
    return thread


# --- ranges ---


def test_a_summary_stands_for_its_range_and_the_originals_stay(job: Thread) -> None:
    before = [event.hash for event in job.path()]
    done = job.summarise(2, 8, "We looked.")
    assert texts(job) == ["<summary>\nWe looked.\n</summary>", "And now?"]
    assert [event.hash for event in job.path()] == before
    assert (body(job, done.position).nodes, body(job, done.position).maker) == (7, "hand")
    assert job.head == 10


def test_a_range_of_one_node_is_closed(job: Thread) -> None:
    job.summarise(3, 3, "A look.")
    assert texts(job)[1] == "<summary>\nA look.\n</summary>"


@pytest.mark.parametrize(
    ("first", "last", "smallest"), [(2, 4, "2..7"), (5, 8, "4..8"), (6, 6, "5..6"), (2, 6, "2..7"), (5, 5, "5..6")]
)
def test_a_range_that_cuts_a_call_from_its_result_is_refused_and_the_smallest_closed_one_named(
    job: Thread, first: int, last: int, smallest: str
) -> None:
    before = job.tip
    with pytest.raises(NotClosed) as caught:
        job.summarise(first, last, "A part.")
    assert caught.value.hint.endswith(f" {smallest}")
    assert job.tip == before
    start, end = map(int, smallest.split(".."))
    job.summarise(start, end, "A whole.")


def test_a_partner_on_another_branch_closes_no_range(thread: Thread) -> None:
    thread.user("Read.")
    call = thread.call("c1", "Read", {}).position
    thread.result("c1", "one")
    thread.end_turn()
    thread.user("Go on.")
    thread.result("c1", "two", parent=call)
    with pytest.raises(NotClosed, match="on another branch"):
        thread.summarise(2, 4, "We read.")


def test_an_unanswered_call_may_be_covered_once_its_turn_is_over(thread: Thread) -> None:
    thread.user("Read.")
    thread.call("c1", "Read", {})
    with pytest.raises(NotClosed, match="its turn is open"):
        thread.summarise(2, 3, "Began to read.")
    thread.end_turn("interrupted")
    thread.summarise(2, 3, "Began to read.")


@pytest.mark.parametrize(("first", "last"), [(8, 2), (1, 3), (9, 10), (2, 99), (0, 3)])
def test_what_is_no_range_of_the_path_is_refused(job: Thread, first: int, last: int) -> None:
    with pytest.raises(BadRange):
        job.summarise(first, last, "Nothing.")


def test_a_range_is_judged_on_the_path_that_is_meant(job: Thread) -> None:
    job.select(3)
    other = job.user("Otherwise?").position
    with pytest.raises(BadRange, match="not on the path"):
        job.summarise(2, 8, "We looked.")
    job.summarise(2, 8, "We looked.", on=10)
    assert texts(job) == ["Why does it fail?", "Let me see.", "Otherwise?"]
    job.select(10)
    assert texts(job)[0].startswith("<summary>")
    assert other == job.position - 2


@pytest.mark.parametrize("text", ["", "  \n"])
def test_a_summary_says_something(job: Thread, text: str) -> None:
    with pytest.raises(PayloadRejected):
        job.summarise(2, 8, text)


# --- the life of a summary ---


def test_the_newest_of_overlapping_summaries_stands(job: Thread) -> None:
    old = job.summarise(2, 8, "Old.").position
    job.summarise(2, 3, "Newer, of less.")
    assert texts(job)[0] == "<summary>\nNewer, of less.\n</summary>"
    assert len(texts(job)) > 2
    again = job.summarise(2, 8, "Made again.", replaces=old).position
    assert texts(job) == ["<summary>\nMade again.\n</summary>", "And now?"]
    assert body(job, again).replaces == old


def test_an_invalidated_summary_gives_way_to_the_one_before(job: Thread) -> None:
    job.summarise(2, 8, "Old.")
    new = job.summarise(2, 8, "New.").position
    job.invalidate(new, "wrong")
    assert texts(job)[0] == "<summary>\nOld.\n</summary>"
    with pytest.raises(NoSuchNode):
        job.invalidate(3, "no summary")
    with pytest.raises(NoSuchNode):
        job.summarise(2, 8, "Again.", replaces=3)


def test_a_failure_is_noted_and_changes_nothing(job: Thread) -> None:
    before = texts(job)
    start_summary(job, 2, 8, maker="model")
    fail_summary(job, 2, 8, "the model was busy")
    assert texts(job) == before
    assert [event.type for event in job.events(types=(SummaryStarted.TYPE, SummaryFailed.TYPE))] == [
        "summary.started",
        "summary.failed",
    ]
    with pytest.raises(NotClosed):
        start_summary(job, 2, 4)


def test_a_summary_of_a_model_names_the_call_that_asked_for_it(job: Thread) -> None:
    call = job.prepare().call
    done = job.summarise(2, 8, "We looked.", maker="my-agent", call=call)
    assert body(job, done.position).call == call
    assert list(restated(job)) == []
    for position in (3, 9, 2):
        with pytest.raises(NoSuchCall):
            job.summarise(2, 8, "We looked.", call=position)


def test_a_late_result_and_a_redaction_make_a_summary_stale(thread: Thread) -> None:
    thread.user("Read.")
    thread.call("c1", "Read", {})
    thread.end_turn("interrupted")
    late = thread.summarise(2, 3, "Began to read.").position
    thread.user("Hello.")
    kept = thread.summarise(6, 6, "A greeting.").position
    assert stale_summaries(thread) == []
    thread.result("c1", "late", parent=thread.head)
    assert stale_summaries(thread) == [late]
    assert any(piece.rule == "a summary covers its call" for piece in thread.prepare(record=False).pieces)
    redact(thread.store, thread.id, match="Hello", replacement="[gone]", reason="test")
    assert stale_summaries(thread) == [late, kept]
    assert "<summary>\nA greeting.\n</summary>" not in texts(thread)
    thread.invalidate(late, "stale")
    assert stale_summaries(thread) == [kept]


def test_a_summary_is_stored_only_on_the_log_that_it_was_made_of(job: Thread) -> None:
    at = job.position
    job.context("date", "Monday")
    with pytest.raises(Conflict):
        job.summarise(2, 8, "We looked.", expected_position=at)
    job.summarise(2, 8, "We looked.", expected_position=job.position)


def test_a_summary_with_a_key_is_stored_once(job: Thread) -> None:
    one = job.summarise(2, 8, "We looked.", key="k")
    assert job.summarise(2, 8, "We looked.", key="k").position == one.position


# --- derived ones ---


def test_an_outline_is_derived_and_derived_again_as_of_its_own_moment(job: Thread) -> None:
    done = job.summarise_with("outline@1", 2, 8)
    text = body(job, done.position).text
    assert "Why does it fail?" in text
    assert "Bash pytest -q: error" in text
    assert job.event(done.position).source.name == "outline@1"
    job.promote(4, "2 failed", "costly")
    job.end_turn("error")
    (found,) = restated(job)
    assert (found.summary, found.verdict) == (done.position, "exact")


def test_an_outline_knows_whose_tools_they_were(store: Store) -> None:
    thread = store.create_thread(agent="claude-code", cwd="/home/dev/till")
    thread.user("Test it.")
    thread.call("c1", "Bash", {"command": "pytest -q"})
    thread.result("c1", "ok", facts=Facts(command="pytest -q", exit_code=0))
    thread.text("Done.")
    thread.end_turn()
    done = thread.summarise_with("outline@1", 2, 5)
    assert '"agent":"claude-code"' in body(thread, done.position).parameters
    assert '"workspace":"/home/dev/till"' in body(thread, done.position).parameters
    assert "- pytest -q: ok" in body(thread, done.position).text
    assert [each.verdict for each in restated(thread)] == ["exact"]


def test_an_outline_holds_the_decisions_of_its_range(thread: Thread) -> None:
    thread.user("Delete it.")
    thread.call("c1", "Bash", {"command": "rm a"})
    thread.append(ApprovalAsked(call="c1", text="rm a?"))
    thread.append(ApprovalAnswered(decision="deny", reason="too early"))
    thread.result("c1", status="denied")
    thread.end_turn()
    done = thread.summarise_with("outline@1", 2, 6)
    assert "denied by the user: rm a? (too early)" in body(thread, done.position).text


def test_parameters_of_a_summariser_are_recorded(job: Thread) -> None:
    done = job.summarise_with("outline@1", 2, 8, parameters={"text_bytes": 16})
    assert '"text_bytes":16' in body(job, done.position).parameters
    assert [each.verdict for each in restated(job)] == ["exact"]
    with pytest.raises(BadProjection):
        job.summarise_with("outline@1", 2, 8, parameters={"colour": "red"})
    with pytest.raises(NoSuchProjection):
        job.summarise_with("turn-memory@6", 2, 8)
    with pytest.raises(NotClosed):
        job.summarise_with("outline@1", 2, 4)


# --- for summarisers outside ---


def test_the_originals_are_given_as_text_whatever_summaries_say(job: Thread) -> None:
    job.summarise(2, 3, "Old.")
    nodes = list(range(2, 9))
    found = originals(job, nodes)
    assert found.splitlines()[:3] == [
        "user: Why does it fail?",
        "assistant: Let me see.",
        'call Bash: {"command":"pytest -q"}',
    ]
    assert "result (error): 1 failed" in found
    assert tokens(job, nodes) == -(-len(found.encode()) // 4)


def test_outputs_that_were_not_kept_stop_no_summary(open_store: Stores) -> None:
    store = open_store(store_class=Store, record_outputs="facts")
    thread = store.create_thread()
    assert isinstance(thread, Thread)
    thread.user("Read.")
    thread.call("c1", "Read", {})
    thread.result("c1", "secret")
    assert originals(thread, [2, 3, 4]) == "user: Read.\ncall Read: {}\nresult (ok): \n"


def test_what_the_words_do_not_mention_is_named(job: Thread) -> None:
    nodes = list(range(2, 9))
    assert unmentioned(job, nodes, "We looked.") == ["changed file /w/app.py", "failed command pytest -q"]
    assert unmentioned(job, nodes, "Changed app.py.") == ["failed command pytest -q"]
    assert unmentioned(job, nodes, "Changed app.py; pytest  -q failed.") == []


def test_commands_that_a_tool_states_nothing_of_are_known_by_their_tools_names(store: Store) -> None:
    thread = store.create_thread(agent="claude-code")
    first = thread.user("Mend it.").position
    for number, command in enumerate(("pytest -q", "ruff check .", "make")):
        thread.call(f"c{number}", "Bash", {"command": command})
        thread.result(f"c{number}", "done", status="error" if number == 1 else "ok")
    thread.call("w", "Write", {"file_path": "/w/src/new.py", "content": "x"})
    last = thread.result("w", "written").position
    nodes = list(range(first, last + 1))
    assert unmentioned(thread, nodes, "We looked.") == [
        "written file /w/src/new.py",
        "command pytest -q",
        "failed command ruff check .",
        "command make",
    ]
    assert unmentioned(thread, nodes, "Wrote new.py; make, pytest -q passed, ruff check . did not.") == []
