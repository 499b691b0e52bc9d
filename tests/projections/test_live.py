"""The next prompt of a live thread is the one that a cold process derives, at the cost of what is new."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import convlog
from convlog.eventstore.errors import AppendError, NotFound
from convlog.eventstore.events import Document, Image, SegmentAdded, Source, Text, Todo
from convlog.projections import live
from convlog.projections.derive import Derived
from convlog.projections.errors import AwaitingApproval
from convlog.projections.live import Live
from convlog.projections.live_derived import LiveDerived
from convlog.projections.material import derived
from convlog.projections.prepare import Prompt
from convlog.projections.registry import projection
from convlog.projections.replay import replay

from .conversations import Conversation, steps

KEY = bytes(range(32))
MODELS = ("claude-sonnet-4-6", "gpt-5.4", "kimi-k2.5", "mistral", "gemini-3-flash-preview", "bedrock-claude")
TOOLS = [{"name": name, "input_schema": {"type": "object"}} for name in ("Read", "Bash", "Edit")]


def same(live: Derived, cold: Derived) -> None:
    """Compare everything that a prompt says of itself."""
    assert live.length == cold.length
    assert live.count == cold.count
    assert live.digests(KEY) == cold.digests(KEY)
    assert live.digest(KEY) == cold.digest(KEY)
    assert live.body == cold.body
    assert live.blocks == cold.blocks
    assert list(live.pieces) == list(cold.pieces)
    assert live.request == cold.request


def turn(thread: convlog.Thread, number: int, **answer: Any) -> None:
    """Let a turn of three tool calls happen."""
    thread.user(f"Question {number}?")
    thread.text(f"Looking into {number}.")
    for call in range(3):
        thread.call(f"c{number}-{call}", "Read", {"file_path": f"/w/{call}.py"})
        thread.result(f"c{number}-{call}", f"output {call}")
    thread.text(f"Answer {number}.")
    thread.end_turn(**answer)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    found=steps("user", "answer", "ask", "result", "end", max_size=60),
    disturbed=steps(max_size=12),
    assembler=st.sampled_from(["turn-memory@6", "transcript@1"]),
    model=st.sampled_from(MODELS),
    tools=st.sampled_from([TOOLS, TOOLS[:1], None]),
)
def test_a_live_prompt_is_the_cold_one(
    found: list[tuple[str, int, int]],
    disturbed: list[tuple[str, int, int]],
    assembler: str,
    model: str,
    tools: list[dict[str, Any]] | None,
) -> None:
    with convlog.open(":memory:") as store:
        conversation = Conversation(store.create_thread())
        for step in [*found, *disturbed, *found]:
            conversation.do_all([step])
            thread = conversation.thread
            try:
                prompt = thread.prepare(assembler=assembler, model=model, tools=tools)
            except (AppendError, NotFound, AwaitingApproval):
                continue
            same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("assembler", ["turn-memory@6", "transcript@1"])
@pytest.mark.parametrize("tools", [TOOLS, TOOLS[1:], None], ids=["declared", "others declared", "undeclared"])
def test_settled_turns_are_kept_and_not_derived_again(
    store: convlog.Store, assembler: str, model: str, tools: list[dict[str, Any]] | None
) -> None:
    thread = store.create_thread()
    for number in range(12):
        turn(thread, number)
        prompt = thread.prepare(assembler=assembler, model=model, tools=tools)
    assert isinstance(prompt.derived, LiveDerived)
    window = {position for piece in prompt.derived.window.prompt.pieces for position in piece.sources}
    assert len(window) < 0.5 * len(thread.tree.path(thread.head))
    same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))
    assert {replayed.verdict for replayed in replay(thread)} == {"exact"}


def test_a_prompt_stays_what_it_was_when_more_is_kept_later(store: convlog.Store) -> None:
    thread = store.create_thread()
    prompts = []
    for number in range(8):
        turn(thread, number)
        prompts.append(thread.prepare(tools=TOOLS))
    for prompt in prompts:
        same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))


@pytest.mark.parametrize("model", MODELS)
def test_what_only_kept_turns_call_stays_declared(
    store: convlog.Store, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = store.create_thread()
    turn(thread, 0)
    starts = 0
    start_over = Live._start_over

    def counted(self: Live, leaf: int, at: int) -> None:
        nonlocal starts
        starts += 1
        start_over(self, leaf, at)

    monkeypatch.setattr(Live, "_start_over", counted)
    for number in range(1, 9):
        thread.user(f"Question {number}?")
        thread.text(f"Answer {number}.")
        thread.end_turn()
        prompt = thread.prepare(assembler="transcript@1", model=model)
    assert starts == 1
    assert isinstance(prompt.derived, LiveDerived)
    said = {position for piece in prompt.derived.window.prompt.pieces for position in piece.sources}
    assert not said & {event.position for event in thread.path() if event.type == "tool.called"}
    same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))
    # A tool that no turn called yet is declared from its first call on.
    thread.user("And now?")
    thread.call("new", "Write", {"file_path": "/w/new.py"})
    thread.result("new", "written")
    prompt = thread.prepare(assembler="transcript@1", model=model)
    same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))
    assert b'"Read"' in prompt.body
    assert b'"Write"' in prompt.body


def disturb_by_summary(thread: convlog.Thread) -> None:
    """Summarise the first two turns."""
    path = thread.tree.path(thread.head)
    thread.summarise(path[2], path[10], "All well.")


def disturb_by_redaction(thread: convlog.Thread) -> None:
    """Take words out of the first turn."""
    from convlog.eventstore.redaction import redact

    redact(thread.store, thread.id, match="Answer 0.", reason="test")


def disturb_by_branch(thread: convlog.Thread) -> None:
    """Ask the first question again."""
    thread.edit(next(event.position for event in thread.path() if event.type == "input.added"), "Otherwise?")


def disturb_by_promotion(thread: convlog.Thread) -> None:
    """Promote a result of the first turn."""
    call = next(event.position for event in thread.path() if event.type == "tool.called")
    thread.promote(call, "output 0", "costly")


def disturb_by_instructions(thread: convlog.Thread) -> None:
    """Change what surrounds the talk."""
    thread.prepare(instructions="Otherwise.", tools=TOOLS)


def disturb_by_another_process(thread: convlog.Thread) -> None:
    """Append by another handle on the same log."""
    thread.store.thread(thread.id).user("From elsewhere.")


@pytest.mark.parametrize(
    "disturb",
    [
        disturb_by_summary,
        disturb_by_redaction,
        disturb_by_branch,
        disturb_by_promotion,
        disturb_by_instructions,
        disturb_by_another_process,
    ],
)
def test_what_reaches_back_is_seen(store: convlog.Store, disturb: Any) -> None:
    thread = store.create_thread()
    for number in range(8):
        turn(thread, number)
        thread.prepare(tools=TOOLS)
    disturb(thread)
    thread.user("And now?")
    prompt = thread.prepare(tools=TOOLS)
    same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))


def test_a_late_result_of_a_kept_turn_is_seen(store: convlog.Store) -> None:
    thread = store.create_thread()
    thread.user("Start it.")
    thread.call("late", "Bash", {"command": "make"})
    thread.end_turn()
    for number in range(8):
        turn(thread, number)
        thread.prepare(assembler="transcript@1", tools=TOOLS)
    thread.result("late", "made")
    thread.user("And?")
    prompt = thread.prepare(assembler="transcript@1", tools=TOOLS)
    same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))
    assert "made" in prompt.body.decode()


# --- what is kept although something stands between ---


def starts_of(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give a list that grows with every prompt for which the whole path is read."""
    found: list[int] = []
    start_over = Live._start_over

    def noted(self: Live, leaf: int, at: int) -> None:
        found.append(at)
        start_over(self, leaf, at)

    monkeypatch.setattr(Live, "_start_over", noted)
    return found


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("assembler", ["turn-memory@6", "transcript@1"])
def test_turns_behind_a_summary_are_kept(
    store: convlog.Store, assembler: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = store.create_thread()
    for number in range(3):
        turn(thread, number)
    path = thread.tree.path(thread.head)
    thread.summarise(path[1], path[-1], "All well.")
    starts = starts_of(monkeypatch)
    for number in range(3, 14):
        turn(thread, number)
        thread.user(f"Question {number}, again?")
        prompt = thread.prepare(assembler=assembler, model=model, tools=TOOLS)
        same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))
        thread.text("Yes.")
        thread.end_turn()
    assert len(starts) == 1
    assert isinstance(prompt.derived, LiveDerived)
    assert len(prompt.derived.window.prompt.pieces) < 0.5 * len(prompt.pieces)
    assert prompt.losing == ()
    assert {replayed.verdict for replayed in replay(thread)} == {"exact"}


def test_a_second_summary_takes_over(store: convlog.Store) -> None:
    thread = store.create_thread()
    for number in range(20):
        turn(thread, number)
        prompt = thread.prepare(tools=TOOLS)
        same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))
        if number in {4, 10, 11}:
            path = thread.tree.path(thread.head)
            covered = 3 if number == 4 else 40
            thread.summarise(path[covered], path[covered + 17], f"Summary {number}.")


def test_a_retry_leaves_kept_what_comes_before(store: convlog.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    thread = store.create_thread()
    starts = starts_of(monkeypatch)
    for number in range(12):
        turn(thread, number)
        kept = thread.head
        thread.user(f"Question {number}, at first?")
        thread.prepare(tools=TOOLS)
        thread.text("A poor answer.")
        other = thread.head
        thread.select(kept)
        thread.user(f"Question {number}, better put?")
        prompt = thread.prepare(tools=TOOLS)
        same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))
        thread.select(other)
        prompt = thread.prepare(tools=TOOLS)
        same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))
        thread.end_turn()
    assert len(starts) == 1


def test_a_summary_of_another_branch_comes_back_with_it(store: convlog.Store) -> None:
    thread = store.create_thread()
    for number in range(4):
        turn(thread, number)
    fork = thread.head
    turn(thread, 100)
    other = thread.head
    path = thread.tree.path(other)
    thread.summarise(path[1], path[-1], "All of the other branch.")
    thread.select(fork)
    for number in range(4, 12):
        turn(thread, number)
        thread.prepare(tools=TOOLS)
    thread.select(other)
    thread.user("And here?")
    prompt = thread.prepare(tools=TOOLS)
    same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("assembler", ["turn-memory@6", "transcript@1"])
@pytest.mark.parametrize("state", ["done", "interrupted"])
def test_a_result_whose_call_a_summary_covers_is_left_out_of_every_window(
    store: convlog.Store, assembler: str, model: str, state: Any
) -> None:
    thread = store.create_thread()
    asked = thread.user("Start it.")
    late = thread.call("late", "Bash", {"command": "make"})
    thread.end_turn()
    thread.summarise(asked.position, late.position, "Something was started.")
    for number in range(6):
        turn(thread, number)
        thread.prepare(assembler=assembler, model=model, tools=TOOLS)
    thread.result("late", "made")
    thread.prepare(assembler=assembler, model=model, tools=TOOLS)
    thread.end_turn(state)
    for number in range(6, 12):
        prompt = thread.prepare(assembler=assembler, model=model, tools=TOOLS)
        same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))
        turn(thread, number)


def test_context_that_changes_every_turn_does_not_pile_up(store: convlog.Store) -> None:
    thread = store.create_thread()
    for number in range(12):
        thread.context("date", f"Day {number}.")
        thread.context("branch", "main" if number % 3 else None)
        thread.todo([Todo(f"thing {number}", "pending")])
        turn(thread, number)
        prompt = thread.prepare(tools=TOOLS)
        same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))
    found = next(iter(store.live._live.values()))
    assert [each.type for each in found._here.standing].count("context.set") <= 2
    assert [each.type for each in found._here.standing].count("todo.written") == 1


# --- a long open turn ---


def step(thread: convlog.Thread, number: int, calls: int = 1) -> None:
    """Let the model think, speak and call, and the tools answer."""
    thread.reasoning(f"Thinking {number}.", signature="c2VhbA==" if number == 7 else None)
    thread.text(f"Step {number}.")
    for call in range(calls):
        thread.call(f"s{number}-{call}", "Read", {"file_path": f"/w/{call}.py"})
    for call in reversed(range(calls)):
        thread.result(f"s{number}-{call}", f"output {number} {call}")


def in_turn(prompt: Prompt) -> bool:
    """Whether the prompt's window begins within a turn."""
    assert isinstance(prompt.derived, LiveDerived)
    return prompt.derived.window.talk[0].role not in {"user", "system"}


@pytest.fixture
def short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "NODES_IN_TURN", 12)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("assembler", ["turn-memory@6", "transcript@1"])
@pytest.mark.parametrize("tools", [TOOLS, None], ids=["declared", "undeclared"])
def test_the_steps_of_a_long_turn_are_kept_until_it_ends(
    store: convlog.Store,
    short_windows: None,
    monkeypatch: pytest.MonkeyPatch,
    assembler: str,
    model: str,
    tools: list[dict[str, Any]] | None,
) -> None:
    thread = store.create_thread()
    for number in range(4):
        turn(thread, number)
    thread.summarise(2, thread.head, "All well.")
    turn(thread, 4)
    starts = starts_of(monkeypatch)
    for round_ in range(2):
        thread.user([Text(text="Do it all."), Text(text=f"Round {round_}.")])
        within = []
        for number in range(24):
            step(thread, 100 * round_ + number, calls=1 + number % 3)
            prompt = thread.prepare(assembler=assembler, model=model, tools=tools)
            same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))
            within.append(in_turn(prompt))
        assert within[-12:] == [True] * 12
        assert prompt.losing == ()
        thread.text("All done.")
        thread.end_turn()
        prompt = thread.prepare(assembler=assembler, model=model, tools=tools)
        same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))
    assert len(starts) == 1
    assert {replayed.verdict for replayed in replay(thread)} == {"exact"}


def steered(thread: convlog.Thread) -> None:
    """Say something to the running agent."""
    thread.user("Rather otherwise.", steer=True)


def interrupted(thread: convlog.Thread) -> None:
    """Begin another turn."""
    thread.user("Something else.")


def cut_short(thread: convlog.Thread) -> None:
    """End the turn before it is done."""
    thread.end_turn("error", error="the provider hung up")


def answered_late(thread: convlog.Thread) -> None:
    """Answer a call of the turn's first step."""
    thread.result("slow", "at last")


def todo_written(thread: convlog.Thread) -> None:
    """Change what stands behind the talk."""
    thread.todo([Todo("go on", "in_progress")])


def gone_back(thread: convlog.Thread) -> None:
    """Try the turn again from one of its first steps."""
    thread.select([event.position for event in thread.path() if event.type == "tool.returned"][2])


def summed_up(thread: convlog.Thread) -> None:
    """Summarise the first steps."""
    path = list(thread.path())
    answered = [index for index, event in enumerate(path) if event.type == "tool.returned"]
    first, last = answered[4] + 1, answered[9]
    thread.summarise(path[first].position, path[last].position, "Five steps were taken.")


@pytest.mark.parametrize("model", ["claude-sonnet-4-6", "gpt-5.4", "bedrock-claude"])
@pytest.mark.parametrize("assembler", ["turn-memory@6", "transcript@1"])
@pytest.mark.parametrize(
    "happens", [steered, interrupted, cut_short, answered_late, todo_written, gone_back, summed_up]
)
def test_what_happens_in_a_long_turn_is_seen(
    store: convlog.Store, short_windows: None, assembler: str, model: str, happens: Any
) -> None:
    thread = store.create_thread()
    turn(thread, 0)
    thread.user("Do it all.")
    thread.call("slow", "Bash", {"command": "make"})
    for number in range(20):
        step(thread, number)
        thread.prepare(assembler=assembler, model=model, tools=TOOLS)
    happens(thread)
    for number in range(100, 114):
        prompt = thread.prepare(assembler=assembler, model=model, tools=TOOLS)
        same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))
        step(thread, number)


def test_many_calls_in_one_step_do_not_hide_where_marks_stand(store: convlog.Store, short_windows: None) -> None:
    thread = store.create_thread()
    thread.user("Do it all.")
    for number in range(24):
        step(thread, number, calls=40 if number % 5 == 4 else 1)
        prompt = thread.prepare(tools=TOOLS)
        same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))


def test_steps_are_on_no_page(store: convlog.Store, short_windows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are of settled turns: a turn that is open reads otherwise when it ends."""
    monkeypatch.setattr(live, "NODES_PER_PAGE", 1)
    thread = store.create_thread()
    thread.user("Do it all.")
    for number in range(24):
        step(thread, number)
        prompt = thread.prepare(tools=TOOLS)
    assert in_turn(prompt)
    assert store.backend.cached(f"turns {thread.id} 0") is None


# --- what an encoder judges over a whole request ---

PIXEL = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010806000000")


def picture(thread: convlog.Thread, number: int) -> None:
    """Show so many pictures that a request soon has more than any model takes."""
    name = thread.store.attach(PIXEL + bytes([number]))
    thread.user([Text(text="See."), *[Image(media_type="image/png", attachment=name)] * 12])


def document(thread: convlog.Thread, number: int) -> None:
    """Show a document whose name others have too."""
    name = thread.store.attach(b"%PDF-1.4 " + bytes([number]))
    thread.user([Text(text="See."), Document(media_type="application/pdf", attachment=name, name="a")])


def sealed(thread: convlog.Thread, number: int) -> None:
    """Say what carries a seal or an id that was there before."""
    thread.user("Go on.")
    source = Source("model", provider="google", model="gemini-3-flash-preview")
    thread.text(f"Going {number % 5}.", source=source)
    thread.append(SegmentAdded(text=f"Gone {number}.", signature="c2VhbA=="), source=source)


def compacted(thread: convlog.Thread, number: int) -> None:
    """Let the provider compact the talk now and then."""
    thread.user("Go on.")
    if number % 4 == 3:
        source = Source("model", provider="anthropic", model="claude-sonnet-4-6")
        opaque = f'{{"type":"compaction","content":"So far {number}."}}'
        thread.append(SegmentAdded(kind="opaque", opaque=opaque), source=source)
    thread.text(f"Going {number}.")


def called_again(thread: convlog.Thread, number: int) -> None:
    """Call by ids that were used before."""
    thread.user("Go on.")
    thread.call(f"c{number % 5}", "Read", {"file_path": "/w/a.py"})
    thread.result(f"c{number % 5}", f"output {number}")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("assembler", ["turn-memory@6", "transcript@1"])
@pytest.mark.parametrize("say", [picture, document, sealed, compacted, called_again])
def test_what_an_encoder_judges_over_all_is_judged_over_all(
    store: convlog.Store, assembler: str, model: str, say: Any
) -> None:
    thread = store.create_thread()
    for number in range(16):
        say(thread, number)
        prompt = thread.prepare(assembler=assembler, model=model, tools=TOOLS)
        same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))
        thread.text(f"Answer {number}.")
        thread.end_turn()


def test_what_another_encoder_judges_is_not_known(store: convlog.Store) -> None:
    """An encoder of somebody else's may look at the whole request, so nothing is kept for it unless it says so."""

    @projection("counting", 1, "encoder")
    def build(pieces: Any, target: Any, options: Any, attachments: Any) -> Any:
        from convlog.projections.encoders.anthropic_v1 import build

        request = build(pieces, target, options, attachments)
        count = str(len(request.items)).encode()
        return msgspec.structs.replace(
            request,
            items=tuple(
                msgspec.structs.replace(item, opening=item.opening.replace(b'"role"', b'"of":' + count + b',"role"'))
                for item in request.items
            ),
        )

    thread = store.create_thread()
    for number in range(8):
        turn(thread, number)
        prompt = thread.prepare(encoder="counting@1")
        same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))
