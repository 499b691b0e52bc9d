"""The next prompt of a live thread is the one that a cold process derives, at the cost of what is new."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import convlog
from convlog.eventstore.errors import AppendError, NotFound
from convlog.projections.derive import Derived
from convlog.projections.errors import AwaitingApproval
from convlog.projections.live import Live, LiveDerived
from convlog.projections.material import derived
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
    window = {position for piece in prompt.derived.window.pieces for position in piece.sources}
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
    said = {position for piece in prompt.derived.window.pieces for position in piece.sources}
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
