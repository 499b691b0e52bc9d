"""Derive, answer, record, derive again: what was sent stays as it was, and the answer goes back as it came."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convlog.eventstore.memory import MemoryBackend
from convlog.projections import registry
from convlog.projections.conversation import Store, Thread
from convlog.projections.prepare import Prompt
from convlog.projections.profiles import load_profile

from .answering import READ, TALK, Answer, answers, response, sent_back, unmarked
from .encoding import ADDRESSES, few, profile_for, refusals

TARGETS = [
    ("anthropic", "claude-sonnet-4-6"),
    ("anthropic", "claude-haiku-4-5"),
    ("anthropic", "claude-opus-5"),
    ("openai-chat", "gpt-5.4"),
    ("openai-chat", "gpt-5.6"),
    ("openai-chat", "deepseek-v4"),
    ("openai-chat", "kimi-k2.5"),
    ("openai-responses", "gpt-5.4"),
    ("openai-responses", "gpt-5.6"),
    ("gemini", "gemini-3-flash-preview"),
    ("bedrock", "bedrock-claude"),
]
ASSEMBLERS = [address for address in registry.OWN if registry.get(address).kind == "assembler"]
THINKING: dict[str, Any] = {
    "claude-haiku-4-5": {"type": "enabled", "budget_tokens": 1024},
    "claude-sonnet-4-6": {"type": "adaptive"},
    "claude-opus-5": {"type": "adaptive"},
    "bedrock-claude": {"type": "adaptive"},
}


class Host:
    """A host that asks a provider, and records what it answers."""

    def __init__(self, wire_format: str, profile_id: str, assembler: str, *, cache: bool) -> None:
        self.wire_format = wire_format
        self.profile = profile_for(profile_id, wire_format)
        self.thread: Thread = Store(MemoryBackend()).create_thread(agent="claude-code", cwd="/w")
        self._recipe: dict[str, Any] = {
            "assembler": assembler,
            "encoder": ADDRESSES[wire_format],
            "profile": profile_id,
            "options": {"thinking": THINKING.get(profile_id), "cache": cache},
            "instructions": "Be brief.",
            "tools": [READ],
        }
        self._answers = 0

    def ask(self) -> tuple[Prompt, list[Any]]:
        """Give the next prompt, which no provider refuses, and its talk without marks."""
        prompt = self.thread.prepare(**self._recipe)
        assert refusals(prompt.derived.request, self.profile) == []
        talk = unmarked(prompt.request)[TALK[self.wire_format]]
        assert isinstance(talk, list)
        return prompt, talk

    def answer(self, prompt: Prompt, data: st.DataObject, *, last: bool) -> Answer:
        """Record an answer to a prompt, and the results of its calls."""
        self._answers += 1
        field = self.profile.reasoning_content != "refused"
        # A17: with manual thinking each answer is expected to begin with it.
        thinks = (THINKING.get(self.profile.id) or {}).get("type") == "enabled"
        answer = data.draw(answers(self._answers, self.profile.model, last=last, thinks=thinks, reasoning_field=field))
        self.thread.record(response(answer, self.wire_format), call=prompt.call)
        for id_ in data.draw(st.permutations(answer.ids)):
            self.thread.result(id_, f"{id_}: 12 mm", status=data.draw(st.sampled_from(["ok", "error"])))
        return answer


@pytest.mark.oracle
@pytest.mark.parametrize("assembler", ASSEMBLERS)
@pytest.mark.parametrize(("wire_format", "profile_id"), TARGETS)
@few(5)
@given(data=st.data())
def test_within_a_turn_what_was_sent_stays_and_the_answer_goes_back_as_it_came(
    wire_format: str, profile_id: str, assembler: str, data: st.DataObject
) -> None:
    host = Host(wire_format, profile_id, assembler, cache=data.draw(st.booleans()))
    for turn in range(data.draw(st.integers(1, 3))):
        host.thread.user(f"Question {turn}.")
        prompt, talk = host.ask()
        for _ in range(data.draw(st.integers(1, 3))):
            answer = host.answer(prompt, data, last=False)
            if data.draw(st.booleans()):
                host.thread.user("And be quick.", steer=True)
            before, (prompt, later) = (prompt, talk), host.ask()
            assert later[: len(talk)] == talk
            assert prompt.derived.blocks[: len(before[0].derived.blocks)] == before[0].derived.blocks
            back = sent_back(answer, wire_format)
            assert later[len(talk) : len(talk) + len(back)] == back
            talk = later
        host.answer(prompt, data, last=True)


@pytest.mark.parametrize(("wire_format", "profile_id"), TARGETS)
@few(5)
@given(data=st.data())
def test_a_transcript_keeps_every_block_over_turns_too(wire_format: str, profile_id: str, data: st.DataObject) -> None:
    host = Host(wire_format, profile_id, "transcript@1", cache=True)
    before: list[bytes] = []
    for turn in range(3):
        host.thread.user(f"Question {turn}.")
        for last in (False, True):
            prompt, _ = host.ask()
            assert prompt.derived.blocks[: len(before)] == before
            before = prompt.derived.blocks
            host.answer(prompt, data, last=last)


def test_profiles_of_every_format_take_part() -> None:
    assert {wire_format for wire_format, _ in TARGETS} == set(ADDRESSES)
    assert all(wire_format in load_profile(profile_id).formats for wire_format, profile_id in TARGETS)
