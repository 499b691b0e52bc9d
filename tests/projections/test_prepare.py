"""Preparing a prompt: what is recorded of it, what is refused, and what is said before anything is sent."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from blake3 import blake3

import convlog
from convlog.eventstore.errors import NoSuchNode, PayloadRejected
from convlog.eventstore.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallPrepared,
    InstructionsSet,
    Part,
    Tool,
    ToolReturned,
    ToolsSet,
)
from convlog.eventstore.prompt_digests import unpacked
from convlog.eventstore.redaction import redact
from convlog.projections.conversation import Store, Thread
from convlog.projections.errors import (
    AwaitingApproval,
    BadProjection,
    FormatRefused,
    NoSuchProjection,
    NotDerivable,
    ProfileRejected,
    UnknownProfile,
)
from convlog.projections.prepare import Prompt
from convlog.projections.profiles import profile_bytes, profile_hash
from convlog.projections.stages.target_v1 import Options
from tests.conftest import Stores

from .responses import asked, message, said, thought

READ = {"name": "Read", "description": "Reads a file.", "input_schema": {"type": "object", "properties": {}}}


def manifest(thread: Thread, prompt: Prompt) -> CallPrepared:
    assert prompt.call is not None
    body = thread.event(prompt.call).body
    assert isinstance(body, CallPrepared)
    return body


def types(thread: Thread) -> list[str]:
    return [event.type for event in thread.events(bodies=False)]


# --- the manifest ---


def test_a_manifest_says_what_went_in_by_which_versions_and_the_digest_of_the_bytes(thread: Thread) -> None:
    thread.user("Why does it fail?")
    tip = thread.tip.hex()
    prompt = thread.prepare(options={"max_tokens": 1000})
    found = manifest(thread, prompt)
    assert (found.assembler, found.encoder) == ("turn-memory@6", "anthropic@1")
    assert (found.leaf, found.at, found.ranges) == (2, 2, ((1, 2),))
    assert found.inputs == ((thread.id, 2, tip),)
    assert (found.length, found.blocks) == (len(prompt.body), 1)
    assert found.profile == profile_hash(profile_bytes("claude-sonnet-4-6"))
    assert json.loads(found.options) == {"max_tokens": 1000}
    assert json.loads(found.parameters)["task_list"] == "tail"
    assert found.runtime.startswith("python 3.")
    assert (found.distributions, found.capture) == ({}, None)
    event = thread.event(prompt.call or 0)
    assert event.ref("about") == 2
    assert event.secret is not None
    assert blake3(event.secret).hexdigest() == found.digest_key_hash
    assert found.digest == prompt.derived.digest(event.secret)
    assert thread.head == 2


def test_a_manifest_is_as_large_at_any_call(thread: Thread) -> None:
    sizes = []
    for number in range(120):
        thread.user(f"Question {number}?")
        prompt = thread.prepare()
        record = next(thread.records([prompt.call or 0]))
        sizes.append(len(record.body or b""))
        thread.text("Answer.")
        thread.end_turn()
    # Positions and counts have more figures, and that is all.
    assert sizes[-1] - sizes[9] < 24


def test_the_digests_are_those_that_the_page_on_the_file_describes(thread: Thread) -> None:
    """Made again from the request's bytes alone, with none of our code."""
    for number in range(12):
        thread.user(f"Question {number}?")
        thread.text("Half of it.")
        thread.text("The other half.")
        thread.end_turn()
    prompt = thread.prepare(options=Options(cache=False), assembler="transcript@1")
    found, key = manifest(thread, prompt), thread.event(prompt.call or 0).secret
    assert key is not None
    members = msgspec.json.decode(prompt.body, type=dict[str, msgspec.Raw])
    around = b",".join(
        b'"%s":%s' % (name.encode(), b"[]" if name == "messages" else bytes(raw)) for name, raw in members.items()
    )
    rolled = [blake3(b"{" + around + b"}").digest()]
    for entry in msgspec.json.decode(members["messages"], type=list[dict[str, msgspec.Raw]]):
        for sign, block in zip(
            "|" + "+" * 99, msgspec.json.decode(entry["content"], type=list[msgspec.Raw]), strict=False
        ):
            link = sign.encode() + b"[" + bytes(entry["role"]) + b"," + bytes(block) + b"]"
            rolled.append(blake3(rolled[-1] + len(link).to_bytes(8, "little") + link).digest())
    assert found.blocks == len(rolled) - 1 > 30
    assert found.digest == blake3(rolled[-1] + b"[]", key=key).hexdigest()
    slots = base64.b64decode(found.digests)
    counts = [0, *(1 << power for power in range(22)), *range(found.blocks - 8, found.blocks + 1)]
    for slot, count in enumerate(counts):
        empty = slot in range(1, 23) and count >= found.blocks - 8
        short = bytes(8) if empty else blake3(rolled[count], key=key).digest(length=8)
        assert slots[8 * slot : 8 * slot + 8] == short


def test_the_request_is_plain_python_and_says_what_the_bytes_say(thread: Thread) -> None:
    thread.user("Why?")
    prompt = thread.prepare()
    assert prompt.request == json.loads(prompt.body)
    assert prompt.request["messages"][0]["role"] == "user"
    assert prompt.estimate == -(-len(prompt.body) // 4)


def test_two_manifests_of_one_prompt_share_no_digest(thread: Thread) -> None:
    thread.user("Why?")
    one, two = (manifest(thread, thread.prepare()) for _ in range(2))
    assert one.digest != two.digest
    found = [{digest for _, digest in unpacked(each.digests, each.blocks)} for each in (one, two)]
    assert len(found[0]) > 1
    assert not found[0] & found[1]


def test_a_prompt_that_is_not_recorded_leaves_no_trace(thread: Thread) -> None:
    thread.user("Why?")
    before = thread.tip
    prompt = thread.prepare(record=False, capture=True)
    assert prompt.call is None
    assert thread.tip == before
    assert list(thread.store.backend.attachments()) == []


def test_a_prompt_can_be_prepared_at_any_node(thread: Thread) -> None:
    thread.user("one")
    thread.text("a")
    thread.user("two")
    prompt = thread.prepare(leaf=2)
    assert [message["content"][0]["text"] for message in prompt.request["messages"]] == ["one"]
    assert manifest(thread, prompt).leaf == 2
    with pytest.raises(NoSuchNode):
        thread.prepare(leaf=prompt.call)
    with pytest.raises(NoSuchNode):
        thread.prepare(leaf=99)


def test_what_another_handle_appended_is_seen(thread: Thread) -> None:
    thread.user("one")
    with convlog.open(thread.store.place) as elsewhere:
        elsewhere.thread(thread.id).user("two")
    prompt = thread.prepare()
    assert prompt.leaf == 3
    assert b"two" in prompt.body


def test_a_capture_keeps_the_bytes(thread: Thread) -> None:
    thread.user("Why?")
    prompt = thread.prepare(capture=True)
    name = manifest(thread, prompt).capture
    assert name is not None
    assert thread.store.attachment(name) == prompt.body


def test_the_nodes_that_went_in_are_named_by_the_runs_of_their_path(thread: Thread) -> None:
    first = thread.user("one").position
    thread.text("a")
    thread.select(first)
    thread.text("b")
    leaf = thread.user("two").position
    assert manifest(thread, thread.prepare()).ranges == ((1, first), (5, leaf))


# --- instructions and tools ---


def test_instructions_are_recorded_when_they_differ_and_only_then(thread: Thread) -> None:
    thread.user("Why?")
    thread.prepare(instructions="Be brief.")
    thread.prepare(instructions="Be brief.")
    assert types(thread).count("instructions.set") == 1
    prompt = thread.prepare(instructions="Be long.")
    assert types(thread).count("instructions.set") == 2
    assert b"Be long." in prompt.body
    assert b"Be brief." not in prompt.body
    thread.prepare()
    assert types(thread).count("instructions.set") == 2


def test_unchanged_parts_cite_the_event_that_holds_them(thread: Thread) -> None:
    thread.user("Why?")
    for number in range(3):
        prompt = thread.prepare(instructions={"who": "You are a till.", "today": f"Day {number}."})
    sets = list(thread.events(types=(InstructionsSet.TYPE,)))
    assert [part.since for part in sets[0].body.parts] == [None, None]
    for event in sets[1:]:
        # Not the one before, which cites itself.
        assert event.body.parts[0] == Part("who", None, "host", sets[0].position)
        assert event.body.parts[1].since is None
    assert [block["text"] for block in prompt.request["system"]][:2] == ["You are a till.", "Day 2."]


def test_another_order_of_parts_is_another_value(thread: Thread) -> None:
    thread.user("Why?")
    thread.prepare(instructions={"a": "A.", "b": "B."})
    prompt = thread.prepare(instructions={"b": "B.", "a": "A."})
    assert [block["text"] for block in prompt.request["system"]][:2] == ["B.", "A."]
    thread.prepare(instructions=[Part("b", "B."), Part("a", "A.", origin="user")])
    assert types(thread).count("instructions.set") == 3


@pytest.mark.parametrize("assembler", ["turn-memory@6", "transcript@1"])
def test_a_citation_of_what_is_not_there_is_a_reason_and_a_way_on(thread: Thread, assembler: str) -> None:
    thread.user("Why?")
    thread.append(InstructionsSet(parts=(Part("who", since=2),)))
    thread.append(ToolsSet(tools=(Tool("till", since=2),)))
    for instructions in (None, "Be brief."):
        with pytest.raises(NotDerivable, match="event 2") as error:
            thread.prepare(assembler=assembler, instructions=instructions)
        assert (error.value.reason, error.value.hint) == ("redacted", "give prepare the instructions and tools anew")
    prompt = thread.prepare(assembler=assembler, instructions="Be brief.", tools=[{"name": "drawer"}])
    assert b"Be brief." in prompt.body


def test_each_branch_has_its_own_instructions(thread: Thread) -> None:
    first = thread.user("one").position
    thread.prepare(instructions="Be brief.")
    thread.select(first)
    assert b"Be brief." not in thread.prepare().body
    thread.prepare(instructions="Be brief.")
    assert types(thread).count("instructions.set") == 2


def test_tools_are_recorded_when_they_differ_and_unchanged_ones_are_cited(thread: Thread) -> None:
    thread.user("Why?")
    write = {"name": "Write", "input_schema": {"type": "object"}}
    thread.prepare(tools=[READ])
    thread.prepare(tools=[READ])
    thread.prepare(tools=[READ, write])
    prompt = thread.prepare(tools=[READ, {**write, "description": "Writes."}])
    sets = list(thread.events(types=(ToolsSet.TYPE,)))
    assert [[tool.since for tool in event.body.tools] for event in sets] == [
        [None],
        [sets[0].position, None],
        [sets[0].position, None],
    ]
    assert [tool["name"] for tool in prompt.request["tools"]] == ["Read", "Write"]
    assert prompt.request["tools"][0]["description"] == "Reads a file."
    assert thread.prepare(tools=[]).request.get("tools") is None


SCHEMA: dict[str, Any] = {"type": "object", "properties": {"path": {"type": "string"}}}


@pytest.mark.parametrize(
    "spelled",
    [
        {"name": "Read", "description": "Reads.", "input_schema": SCHEMA},
        {"type": "custom", "name": "Read", "description": "Reads.", "input_schema": SCHEMA},
        {"type": "function", "name": "Read", "description": "Reads.", "parameters": SCHEMA},
        {"type": "function", "function": {"name": "Read", "description": "Reads.", "parameters": SCHEMA}},
        {"functionDeclarations": [{"name": "Read", "description": "Reads.", "parametersJsonSchema": SCHEMA}]},
        {"toolSpec": {"name": "Read", "description": "Reads.", "inputSchema": {"json": SCHEMA}}},
        {"name": "Read", "description": "Reads.", "input_schema": json.dumps(SCHEMA, separators=(",", ":"))},
    ],
    ids=["anthropic", "anthropic custom", "responses", "chat", "gemini", "bedrock", "text"],
)
def test_tools_are_taken_as_the_providers_spell_them(thread: Thread, spelled: dict[str, Any]) -> None:
    thread.user("Why?")
    prompt = thread.prepare(tools=[spelled])
    assert prompt.request["tools"][0] == {"name": "Read", "description": "Reads.", "input_schema": SCHEMA}


def test_a_tool_that_the_provider_runs_keeps_its_type(thread: Thread) -> None:
    thread.user("Why?")
    tool = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
    assert thread.prepare(tools=[tool]).request["tools"] == [tool]


@pytest.mark.parametrize(
    "given",
    [
        {"instructions": 5},
        {"instructions": ["Be brief."]},
        {"instructions": {"a": 5}},
        {"instructions": "half \ud800"},
        {"instructions": [Part("a", "A."), Part("a", "B.")]},
        {"instructions": [Part("", "A.")]},
        {"instructions": [Part("a", since=1)]},
        {"tools": "Read"},
        {"tools": {"name": "Read"}},
        {"tools": ["Read"]},
        {"tools": [{"description": "without a name"}]},
        {"tools": [{"name": 5}]},
        {"tools": [READ, READ]},
        {"tools": [{**READ, "input_schema": "{"}]},
        {"tools": [{**READ, "input_schema": {"maximum": float("nan")}}]},
        {"options": {"max_tokens": "many"}},
        {"options": {"temperatur": 1}},
    ],
    ids=repr,
)
def test_what_is_ill_formed_is_refused_and_nothing_is_written(thread: Thread, given: dict[str, Any]) -> None:
    thread.user("Why?")
    before = thread.tip
    with pytest.raises(PayloadRejected):
        thread.prepare(**given)
    assert thread.tip == before


@pytest.mark.parametrize("where", [{"leaf": 2}, {"record": False}])
def test_instructions_that_would_have_to_be_recorded_elsewhere_are_refused(
    thread: Thread, where: dict[str, Any]
) -> None:
    thread.user("Why?")
    thread.prepare(instructions="Be brief.")
    before = thread.tip
    with pytest.raises(PayloadRejected, match="recorded first"):
        thread.prepare(instructions="Be long.", **where)
    assert thread.tip == before
    assert b"Be brief." in thread.prepare(instructions="Be brief.", leaf=thread.head).body
    assert b"Be brief." in thread.prepare(instructions="Be brief.", record=False).body


def test_erased_instructions_are_recorded_again_whole(thread: Thread) -> None:
    thread.user("Why?")
    thread.prepare(instructions={"a": "A.", "b": "B."})
    thread.prepare(instructions={"a": "A.", "b": "C."})
    redact(thread.store, thread.id, [3], whole=True, reason="test")
    prompt = thread.prepare(instructions={"a": "A.", "b": "C."})
    assert [block["text"] for block in prompt.request["system"]][:2] == ["A.", "C."]
    last = list(thread.events(types=(InstructionsSet.TYPE,)))[-1].body
    assert [(part.name, part.text, part.since) for part in last.parts] == [("a", "A.", None), ("b", None, 5)]


# --- profiles, versions, options ---


def test_a_profile_is_an_id_a_file_or_bytes(thread: Thread, tmp_path: Path) -> None:
    thread.user("Why?")
    data = profile_bytes("gpt-5.4")
    path = tmp_path / "mine.json"
    path.write_bytes(data)
    bodies = {thread.prepare(profile=source).body for source in ("gpt-5.4", data, path, str(path))}
    assert bodies == {thread.prepare(model="gpt-5.4").body}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"model": "gpt-0"}, UnknownProfile),
        ({"profile": "missing.json"}, UnknownProfile),
        ({"profile": b"{}"}, ProfileRejected),
        ({"assembler": "turn-memory@99"}, NoSuchProjection),
        ({"assembler": "anthropic@1"}, NoSuchProjection),
        ({"encoder": "anthropic@99"}, NoSuchProjection),
        ({"encoder": "transcript@1"}, NoSuchProjection),
        ({"encoder": "gemini@1"}, FormatRefused),
        ({"parameters": {"colour": "red"}}, BadProjection),
        ({"parameters": {"task_list": 5}}, BadProjection),
    ],
    ids=repr,
)
def test_a_recipe_that_names_what_is_not_there_is_refused(
    thread: Thread, given: dict[str, Any], error: type[Exception]
) -> None:
    thread.user("Why?")
    before = thread.tip
    with pytest.raises(error):
        thread.prepare(instructions="Be brief.", **given)
    assert thread.tip == before


def test_a_model_offered_in_two_formats_takes_either(thread: Thread) -> None:
    thread.user("Why?")
    assert "messages" in thread.prepare(model="gpt-5.4", encoder="openai-chat@1").request
    assert "input" in thread.prepare(model="gpt-5.4", encoder="openai-responses@1").request


def test_options_reach_the_request_and_the_manifest(thread: Thread) -> None:
    thread.user("Why?")
    prompt = thread.prepare(tools=[READ], options=Options(max_tokens=77, tool_choice="any", cache=False))
    assert prompt.request["max_tokens"] == 77
    assert prompt.request["tool_choice"] == {"type": "any"}
    assert b"cache_control" not in prompt.body
    assert msgspec.json.decode(manifest(thread, prompt).options, type=Options).tool_choice == "any"


def test_parameters_are_recorded_whole_so_that_later_defaults_change_nothing(thread: Thread) -> None:
    thread.user("Why?")
    prompt = thread.prepare(parameters={"notice": False})
    assert json.loads(manifest(thread, prompt).parameters) == {
        "workspace": None,
        "notice": False,
        "task_list": "tail",
        "context": "tail",
    }
    assert "system" not in prompt.request


def test_an_output_that_was_never_kept_stops_a_prompt_that_needs_it(open_store: Stores) -> None:
    store = open_store(store_class=Store, record_outputs="facts")
    thread: Any = store.create_thread()
    thread.user("Read.")
    thread.call("c", "Read", {})
    thread.result("c", "secret")
    with pytest.raises(NotDerivable) as caught:
        thread.prepare(assembler="transcript@1")
    assert (caught.value.reason, caught.value.exit_code) == ("not recorded", 5)
    thread.text("Done.")
    thread.end_turn()
    thread.user("Go on.")
    assert b"secret" not in thread.prepare().body


# --- before anything is sent ---


def test_the_gauge_says_how_full_the_window_is(thread: Thread) -> None:
    profile = json.loads(profile_bytes("claude-sonnet-4-6"))
    thread.user("x" * 4000)
    levels = []
    for window in (1_000_000, 1600, 1200):
        small = {**profile, "context_tokens": window, "output_tokens_max": 100}
        prompt = thread.prepare(profile=json.dumps(small).encode(), parameters={"notice": False}, record=False)
        assert prompt.gauge.tokens == prompt.estimate
        assert prompt.gauge.budget == window - 100
        assert prompt.gauge.share == prompt.estimate / (window - 100)
        levels.append(prompt.gauge.level)
    assert levels == ["green", "amber", "red"]


def test_a_call_that_loses_history_says_so_before(thread: Thread) -> None:
    thread.user("Why?")
    thread.text("Because.")
    thread.user("And now?")
    assert thread.prepare().warning is None
    assert thread.prepare().warning is None
    thread.summarise(2, 3, "We talked.")
    prompt = thread.prepare()
    assert prompt.losing == (2, 3)
    assert prompt.warning is not None
    assert "2 nodes" in prompt.warning
    assert thread.prepare().warning is None


def test_a_turn_that_is_collapsed_says_what_goes_with_it(thread: Thread) -> None:
    thread.user("Why?")
    thread.record(message(thought("Hm."), said("Let me see."), asked("c1")), call=thread.prepare().call)
    thread.result("c1", "content")
    thread.record(message(said("Done."), id_="msg_2"), call=thread.prepare().call)
    thread.user("And now?")
    prompt = thread.prepare()
    assert [thread.event(node).body.kind for node in prompt.losing] == ["reasoning"]
    assert "1 node of which" in (prompt.warning or "")


# --- approvals ---


def test_a_leaf_that_waits_for_a_decision_is_not_sent(thread: Thread) -> None:
    thread.user("Delete it.")
    thread.call("c1", "Bash", {"command": "rm a"})
    asked_at = thread.append(ApprovalAsked(call="c1", text="rm a?")).position
    before = thread.tip
    with pytest.raises(AwaitingApproval, match=f"position {asked_at}"):
        thread.prepare(instructions="Be brief.")
    assert thread.tip == before
    assert thread.prepare(despite_approval=True, record=False).call is None
    thread.append(ApprovalAnswered(decision="once"))
    thread.prepare()


def test_each_of_two_approvals_needs_its_answer(thread: Thread) -> None:
    thread.user("Delete both.")
    thread.call("c1", "Bash", {"command": "rm a"})
    thread.call("c2", "Bash", {"command": "rm b"})
    first = thread.append(ApprovalAsked(call="c1")).position
    second = thread.append(ApprovalAsked(call="c2")).position
    thread.append(ApprovalAnswered(decision="once"), refs=(("answers", second),))
    with pytest.raises(AwaitingApproval, match=f"position {first}"):
        thread.prepare()
    thread.result("c2", "gone")
    with pytest.raises(AwaitingApproval, match=f"position {first}"):
        thread.prepare()
    thread.append(ToolReturned(call="c1", status="denied"))
    thread.prepare()


def test_an_approval_is_open_on_its_own_branch_only_and_until_the_user_speaks(thread: Thread) -> None:
    first = thread.user("Delete it.").position
    thread.call("c1", "Bash", {"command": "rm a"})
    thread.append(ApprovalAsked(call="c1"))
    thread.prepare(leaf=first)
    thread.user("Never mind.")
    thread.prepare()
