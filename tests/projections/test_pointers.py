"""From a place in a request to the events behind it and back, in every format; each event has words of its own."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given

from convlog.eventstore.memory import MemoryBackend
from convlog.projections import registry
from convlog.projections.conversation import Store, Thread
from convlog.projections.explain import byte_map, pieces_at
from convlog.projections.prepare import Prompt
from convlog.projections.stages.pieces_v1 import DROPPED, Text
from convlog.projections.stages.request_v1 import pointers

from .answering import READ, TALK
from .conversations import Conversation, Step, steps
from .encoding import ADDRESSES, few
from .examples import resolve

PROFILES = {
    "anthropic": "claude-sonnet-4-6",
    "openai-chat": "gpt-5.6",
    "openai-responses": "gpt-5.6",
    "gemini": "gemini-3-flash-preview",
    "bedrock": "bedrock-claude",
}
ASSEMBLERS = [address for address in registry.OWN if registry.get(address).kind == "assembler"]
WORD = re.compile(r"word\d+x")


def conversation(found: list[Step]) -> Conversation:
    talk = Conversation(Store(MemoryBackend()).create_thread(agent="claude-code", cwd="/w"))
    talk.thread.user(f"Begin {talk.word()}.")
    talk.do_all(found)
    talk.thread.context("date", f"It is {talk.word()}.")
    return talk


def prompts_of(talk: Conversation, wire_format: str, assembler: str) -> Prompt:
    return talk.thread.prepare(
        assembler=assembler,
        encoder=ADDRESSES[wire_format],
        profile=PROFILES[wire_format],
        instructions={"one": f"Be {talk.word()}.", "two": f"Never be {talk.word()}."},
        tools=[READ, {**READ, "name": "alarm", "description": f"Rings {talk.word()}."}],
    )


def words_at(prompt: Prompt, pointer: str) -> set[str]:
    return set(WORD.findall(json.dumps(resolve(prompt.request, pointer), ensure_ascii=False)))


def words_of(thread: Thread, positions: set[int]) -> set[str]:
    events = [thread.event(position) for position in positions]
    return set(WORD.findall(repr([(event.body, event.output) for event in events])))


@pytest.mark.parametrize("assembler", ["transcript@1", "turn-memory@6", "turn-memory@4", "turn-memory@1"])
@pytest.mark.parametrize("wire_format", PROFILES)
@few(15)
@given(steps())
def test_what_stands_at_a_place_was_said_by_the_events_behind_it(
    wire_format: str, assembler: str, found: list[Step]
) -> None:
    talk = conversation(found)
    prompt = prompts_of(talk, wire_format, assembler)
    places = {place for each in byte_map(prompt.derived).values() for place in each}
    for pointer in {*places, *pointers(prompt.derived.request)}:
        sources = {source for index in pieces_at(prompt.derived, pointer) for source in prompt.pieces[index].sources}
        said = words_at(prompt, pointer)
        assert said <= words_of(talk.thread, sources), pointer


@pytest.mark.parametrize("assembler", ASSEMBLERS)
@pytest.mark.parametrize("wire_format", PROFILES)
@few(5)
@given(steps())
def test_what_a_piece_says_stands_at_its_places(wire_format: str, assembler: str, found: list[Step]) -> None:
    talk = conversation(found)
    prompt = prompts_of(talk, wire_format, assembler)
    places = byte_map(prompt.derived)
    left_out = {repair.element for repair in prompt.repairs if repair.provenance == DROPPED}
    for index, piece in enumerate(prompt.pieces):
        if piece.provenance == DROPPED or piece.element in left_out:
            continue
        assert places.get(index), piece
        if isinstance(piece.element, Text):
            at_places = {word for pointer in places[index] for word in words_at(prompt, pointer)}
            assert set(WORD.findall(piece.element.text)) <= at_places


@pytest.mark.parametrize("wire_format", PROFILES)
def test_every_word_of_a_request_is_under_a_place(wire_format: str) -> None:
    talk = conversation([("user", 1, 1), ("ask", 1, 1), ("result", 0, 1), ("result", 0, 2), ("steer", 1, 1)])
    prompt = prompts_of(talk, wire_format, "transcript@1")
    places = {place for each in byte_map(prompt.derived).values() for place in each}
    under = {word for pointer in places for word in words_at(prompt, pointer)}
    assert under == set(WORD.findall(prompt.body.decode()))
    assert len(under) > 8
    assert any(pointer.startswith(f"/{TALK[wire_format]}/") for pointer in places)
