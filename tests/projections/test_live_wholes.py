"""What is kept of a live thread knows what a derivation judges over the whole path or the whole request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

import convlog
from convlog.cli import group
from convlog.eventstore.events import Image, SegmentAdded, Source, Text, ToolCalled
from convlog.projections import kept, live
from convlog.projections.audit import audit_thread
from convlog.projections.live import LiveThreads
from convlog.projections.live_derived import LiveDerived
from convlog.projections.material import derived
from convlog.projections.replay import replay

from .test_live import TOOLS, same, turn

ANTHROPIC = Source("model", provider="anthropic", model="claude-sonnet-4-6")
HAIKU = Source("model", provider="anthropic", model="claude-haiku-4-5")
OPENAI = Source("model", provider="openai", model="gpt-5.4")
GPT_5_6 = {"model": "gpt-5.6", "tools": TOOLS, "options": {"cache_key": "k"}}

Say = Callable[[convlog.Thread], Any]


def prepared(thread: convlog.Thread, **how: Any) -> None:
    """Prepare a prompt, and compare it with the cold one."""
    prompt = thread.prepare(**{"tools": TOOLS, **how})
    same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))


def opaque(json: str, source: Source = OPENAI, **fields: Any) -> Say:
    """Let a provider's own part be said."""
    return lambda thread: thread.append(SegmentAdded(kind="opaque", opaque=json, **fields), source=source)


def sealed(item: str) -> Say:
    """Let the model think under an item's id."""
    return lambda thread: thread.append(
        SegmentAdded(kind="reasoning", text="hm", signature="c2VhbA==", item=item), source=OPENAI
    )


def called(call: str, *, answered: bool = True, name: str = "Read") -> Say:
    """Let a tool be called, and perhaps answer."""

    def say(thread: convlog.Thread) -> None:
        thread.call(call, name, {"a": 1})
        if answered:
            thread.result(call, "text")

    return say


def responded(response: str) -> Say:
    """Let the model say something under a response's id."""
    return lambda thread: thread.append(SegmentAdded(text="Said.", response=response), source=ANTHROPIC)


@pytest.mark.parametrize(
    ("first", "last", "how"),
    [
        (called("c1", answered=False), called("c1"), {"model": "claude-sonnet-4-6"}),
        (called("c1", answered=False), called("c1"), {"model": "mistral"}),
        (called("c1", name=""), called("c1"), {"model": "gemini-3-flash-preview"}),
        (called("bad id!"), called("call_99973e9ef7ff7f6ca5c3a0d6"), {"model": "claude-sonnet-4-6"}),
        (sealed("rs_1"), opaque('{"type":"web_search_call","id":"ws_1"}', needs="rs_1"), {"model": "gpt-5.4"}),
        (
            opaque('{"type":"web_search_call","id":5}'),
            opaque('{"type":"web_search_call","id":"5"}'),
            {"model": "gpt-5.4"},
        ),
        (opaque('{"type":"x","id":["a"]}'), opaque('{"type":"x","id":["a"]}'), {"model": "gpt-5.4"}),
        (responded("r"), responded("r"), {"model": "claude-sonnet-4-6"}),
    ],
)
@pytest.mark.parametrize("assembler", ["turn-memory@6", "transcript@1"])
def test_what_stood_there_once_is_known(
    store: convlog.Store, first: Say, last: Say, how: dict[str, Any], assembler: str
) -> None:
    thread = store.create_thread()
    thread.user("First.")
    first(thread)
    thread.text("Well.")
    thread.end_turn()
    for number in range(6):
        turn(thread, number)
        prepared(thread, assembler=assembler, **how)
    thread.user("Last.")
    last(thread)
    prepared(thread, assembler=assembler, **how)


def test_an_id_that_another_one_becomes_on_the_wire_is_known(store: convlog.Store) -> None:
    from convlog.projections.stages.wire_v1 import make_common, make_mistral

    for model, make in (("claude-sonnet-4-6", make_common), ("mistral", make_mistral)):
        thread = store.create_thread()
        thread.user("First.")
        called("bad id!")(thread)
        thread.end_turn()
        for number in range(6):
            turn(thread, number)
            prepared(thread, assembler="transcript@1", model=model)
        thread.user("Last.")
        called(make("bad id!"))(thread)
        prepared(thread, assembler="transcript@1", model=model)


@pytest.mark.parametrize("source", [ANTHROPIC, HAIKU])
def test_a_compaction_decides_how_the_request_ends(store: convlog.Store, source: Source) -> None:
    thread = store.create_thread()
    thread.user("First.")
    opaque('{"type":"compaction","content":"So far."}', source)(thread)
    thread.text("Well.", source=source)
    thread.end_turn()
    how = {"assembler": "transcript@1", "model": source.model}
    for number in range(6):
        turn(thread, number)
        prepared(thread, **how)
    thread.user("Go on.")
    thread.text("Begin")
    prepared(thread, **how)
    thread.append(ToolCalled(call="srvtoolu_1", name="web_search", kind="server"), source=source)
    prepared(thread, **how)


@pytest.mark.parametrize("model", ["claude-sonnet-4-6", "gemini-3-flash-preview", "gpt-5.4"])
@pytest.mark.parametrize("assembler", ["turn-memory@6", "transcript@1"])
def test_a_late_result_parts_no_batch_of_calls(store: convlog.Store, assembler: str, model: str) -> None:
    how = {"assembler": assembler, "model": model}
    thread = store.create_thread()
    thread.user("Start it.")
    called("late", answered=False)(thread)
    thread.end_turn()
    for number in range(6):
        turn(thread, number)
        prepared(thread, **how)
    thread.user("Go on.")
    thread.text("Going on.")
    thread.call("a", "Read", {})
    prepared(thread, **how)
    thread.result("late", "made")
    prepared(thread, **how)
    for call in ("b", "c"):
        thread.call(call, "Read", {})
        prepared(thread, **how)
    thread.end_turn("error")
    for number in range(6, 10):
        prepared(thread, **how)
        turn(thread, number)


def wide(side: int) -> bytes:
    """Give the beginning of a picture of so many pixels a side."""
    return bytes.fromhex("89504e470d0a1a0a0000000d49484452") + side.to_bytes(4, "big") * 2 + b"\x08\x06\0\0\0"


def test_a_picture_that_only_a_crowd_forbids_comes_back_when_the_crowd_is_gone(store: convlog.Store) -> None:
    """Pictures in results stand in a prompt while their turn is open."""
    large, small = store.attach(wide(3000)), store.attach(wide(10))
    thread = store.create_thread()
    thread.user([Text(text="See."), Image(media_type="image/png", attachment=large)])
    thread.text("I see.")
    thread.end_turn()
    for number in range(5):
        turn(thread, number)
    thread.user("Look around.")
    for number in range(24):
        thread.call(f"look{number}", "Read", {})
        thread.result(f"look{number}", [Image(media_type="image/png", attachment=small)])
        prepared(thread)
    thread.text("I looked around.")
    thread.end_turn()
    for number in range(5, 9):
        prepared(thread)
        turn(thread, number)


@pytest.mark.parametrize("encoder", ["openai-responses@1", "openai-chat@1"])
@pytest.mark.parametrize("assembler", ["turn-memory@6", "transcript@1"])
def test_a_mark_on_the_first_words_stays_there(store: convlog.Store, encoder: str, assembler: str) -> None:
    thread = store.create_thread()
    thread.system("Be good.")
    for number in range(8):
        turn(thread, number)
        prepared(thread, **GPT_5_6, encoder=encoder, assembler=assembler)


@pytest.mark.parametrize("encoder", ["openai-responses@1", "openai-chat@1"])
@pytest.mark.parametrize("opening", ["Go.", "   "])
def test_a_mark_whose_place_is_kept_is_not_put_on_a_summary(
    store: convlog.Store, encoder: str, opening: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "NODES_IN_TURN", 12)
    thread = store.create_thread()
    for number in range(4):
        turn(thread, number)
    thread.summarise(2, thread.head, "All well.")
    for number in range(4, 7):
        turn(thread, number)
    how = {**GPT_5_6, "encoder": encoder, "assembler": "transcript@1"}
    prepared(thread, **how)
    thread.user([Text(text=opening)])
    for number in range(30):
        thread.text(f"Step {number}.")
        thread.call(f"k{number}", "Read", {})
        thread.result(f"k{number}", "full" if number < 8 else "")
        prepared(thread, **how)


@pytest.mark.parametrize("assembler", ["turn-memory@6", "transcript@1"])
def test_a_summary_of_another_branch_is_remembered_over_boundaries(store: convlog.Store, assembler: str) -> None:
    thread = store.create_thread()
    for number in range(5):
        turn(thread, number)
    fork = thread.head
    turn(thread, 100)
    other = thread.head
    thread.summarise(2, other, "All of the other branch.")
    thread.select(fork)
    for number in range(3):
        prepared(thread, assembler=assembler)
        thread.user(f"And {number}?")
        prepared(thread, assembler=assembler)
        thread.text("Yes.")
        thread.end_turn()
        thread.select(other)
        prepared(thread, assembler=assembler)
        thread.select(fork)
        prepared(thread, assembler=assembler)
    thread.select(other)
    prepared(thread, assembler=assembler)


def test_what_is_about_to_be_lost_is_told_by_the_last_call_not_by_a_look(store: convlog.Store) -> None:
    thread = store.create_thread()
    for number in range(4):
        turn(thread, number)
        thread.prepare(tools=TOOLS)
    asked = thread.user("This goes.").position
    thread.prepare(tools=TOOLS)
    thread.summarise(asked, asked, "Something was asked.")
    assert thread.prepare(record=False).losing == (asked,)
    assert thread.prepare(tools=TOOLS).losing == (asked,)
    assert thread.prepare(tools=TOOLS).losing == ()


# --- should something ever be forgotten ---


def forgetful(monkeypatch: pytest.MonkeyPatch, thread: convlog.Thread) -> None:
    """Let a thread be prepared by a program that forgets which call ids it kept: its prompts have one of them twice."""
    with monkeypatch.context() as patched:
        patched.setattr(kept, "names_of", lambda piece, judged: ())
        thread.user("First.")
        called("c1", answered=False)(thread)
        thread.end_turn()
        for number in range(30):
            turn(thread, number)
            thread.prepare(tools=TOOLS)
        thread.user("Last.")
        called("c1")(thread)
        thread.prepare(tools=TOOLS)


def test_a_proof_compares_with_the_whole_and_says_differs(
    store: convlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = store.create_thread()
    forgetful(monkeypatch, thread)
    assert [each.verdict for each in replay(thread)][-1] == "differs"
    monkeypatch.setattr(kept, "names_of", lambda piece, judged: ())
    # The prover forgets it as well.
    going = LiveThreads(checks=True)
    assert [each.verdict for each in replay(thread, kept=going)][-1] == "differs"
    assert going.failed
    assert audit_thread(store, thread.id).verdicts["turn-memory@6 anthropic@1 differs"] == 1


def test_all_that_follows_a_failed_comparison_is_derived_whole(
    store: convlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = store.create_thread()
    forgetful(monkeypatch, thread)
    monkeypatch.setattr(kept, "names_of", lambda piece, judged: ())
    monkeypatch.setattr(live, "CHECKED_FROM", 1)
    going = LiveThreads(checks=True)
    found = [each.prompt for each in replay(thread, kept=going)]
    for number in range(100, 104):
        turn(thread, number)
        thread.prepare(tools=TOOLS)
    found = [each.prompt for each in replay(thread, kept=going)]
    assert not any(isinstance(each, LiveDerived) for each in found)


def test_the_command_says_that_a_comparison_failed(store: convlog.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    thread = store.create_thread()
    forgetful(monkeypatch, thread)
    monkeypatch.setattr(kept, "names_of", lambda piece, judged: ())
    result = CliRunner().invoke(group, ["--db", store.place, "replay", thread.id])
    assert result.exit_code == 1
    assert "was not the one derived whole" in result.stderr
