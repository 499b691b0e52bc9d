"""No provider refuses what is derived, whatever a conversation has been through, by whatever assembler."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convlog.eventstore.memory import MemoryBackend
from convlog.projections import derive, registry
from convlog.projections.conversation import Store
from convlog.projections.errors import NotDerivable
from convlog.projections.material import derived
from convlog.projections.profiles import bundled_profiles, load_profile, profile_bytes
from convlog.projections.stages.target_v1 import Options

from .conversations import Step, steps
from .damage import DOINGS, Damaged
from .encoding import ADDRESSES, assert_pointers, few, many, profile_for, refusals

ASSEMBLERS = [address for address in registry.OWN if registry.get(address).kind == "assembler"]
PROFILES = {
    wire_format: [name for name in bundled_profiles() if wire_format in load_profile(name).formats]
    for wire_format in ADDRESSES
}
HISTORIES = steps(*DOINGS, max_size=40)


@pytest.mark.oracle
@pytest.mark.parametrize("wire_format", ADDRESSES)
@few(60)
@given(HISTORIES, st.data())
def test_no_prompt_of_any_conversation_is_refused(wire_format: str, found: list[Step], data: st.DataObject) -> None:
    assert_accepted(wire_format, found, data)


@pytest.mark.long
@pytest.mark.oracle
@pytest.mark.parametrize("wire_format", ADDRESSES)
@many(2_000)
@given(HISTORIES, st.data())
def test_no_prompt_of_ten_thousand_conversations_is_refused(
    wire_format: str, found: list[Step], data: st.DataObject
) -> None:
    assert_accepted(wire_format, found, data)


def assert_accepted(wire_format: str, found: list[Step], data: st.DataObject) -> None:
    talk = Damaged(Store(MemoryBackend()).create_thread(title="a talk", agent="claude-code", cwd="/w"))
    talk.do_all(found)
    profile_id = data.draw(st.sampled_from(PROFILES[wire_format]))
    recipe = derive.Recipe(
        assembler=data.draw(st.sampled_from(ASSEMBLERS)),
        encoder=ADDRESSES[wire_format],
        profile=profile_bytes(profile_id),
        options=Options(cache=data.draw(st.booleans())),
    )
    thread = talk.thread
    try:
        prompt = derived(thread, recipe, thread.head, thread.position)
    except NotDerivable:
        return
    assert refusals(prompt.request, profile_for(profile_id, wire_format)) == []
    assert_pointers(prompt.request)
    assert derived(thread, recipe, thread.head, thread.position).body == prompt.body
