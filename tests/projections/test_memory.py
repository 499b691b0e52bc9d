"""From turns to pieces: what is kept of ended turns, what is replayed natively, and that nothing vanishes unseen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convlog.eventstore.errors import AppendError
from convlog.eventstore.events import (
    ContextRetrieved,
    Facts,
    InstructionsSet,
    Part,
    PendingCleared,
    Retrieved,
    SegmentAdded,
    SummaryAdded,
    ToolCalled,
)
from convlog.eventstore.store import Store, open_store
from convlog.eventstore.thread import Thread
from convlog.projections import registry
from convlog.projections.assemblers.turn_memory_v6 import NOTICE
from convlog.projections.material import material
from convlog.projections.stages.pieces_v1 import (
    DROPPED,
    INSTRUCTIONS,
    SUMMARY,
    TURN_MEMORY,
    VERBATIM,
    Call,
    Piece,
    Result,
    Text,
)

ALL = [f"turn-memory@{version}" for version in range(1, 7)]
NATIVE_BLOCKS = ALL[2:]


def pieces(thread: Thread, address: str = "turn-memory@6", **parameters: Any) -> list[Piece]:
    found = registry.get(address)
    made: list[Piece] = found.function(material(thread), registry.parameters_of(found, parameters))
    return made


def said(found: list[Piece]) -> list[str]:
    """Give a prompt in short: what is sent, without the instructions."""
    return [_short(piece) for piece in found if piece.provenance not in {DROPPED, INSTRUCTIONS}]


def _short(piece: Piece) -> str:
    element = piece.element
    if isinstance(element, Call):
        return f"{element.name}({element.input})"
    if isinstance(element, Result):
        return f"= {''.join(part.text for part in element.content if isinstance(part, Text))}"
    assert isinstance(element, Text)
    return f"{piece.role[0]}: {element.text}"


def left_out(found: list[Piece]) -> list[tuple[tuple[int, ...], str]]:
    return [(piece.sources, piece.rule) for piece in found if piece.provenance == DROPPED]


def ask(thread: Thread, name: str, text: str = "hi") -> int:
    """Append a call and its result."""
    call = thread.call(name, "read_file", {"path": f"/srv/app/{name}"})
    thread.result(name, text)
    return call.position


@pytest.fixture
def thread(store: Store) -> Thread:
    return store.create_thread(cwd="/srv/app")


class TestEndedTurns:
    def test_prose_stays_and_calls_stand_at_their_places_without_arguments_or_outputs(self, thread: Thread) -> None:
        thread.user("go")
        thread.text("Look. ")
        call = ask(thread, "a", "raw output")
        thread.text("Done.")
        thread.end_turn()
        thread.user("next")
        found = pieces(thread)
        assert said(found) == ["u: go", "a: Look. ", "read_file({})", '= {"status":"success"}', "a: Done.", "u: next"]
        memory = [piece for piece in found if piece.provenance == TURN_MEMORY]
        assert [piece.sources for piece in memory] == [(3,), (call,), (call + 1,), (call + 2,)]
        assert len({piece.group for piece in memory[:3]}) == 1
        assert memory[3].group != memory[0].group
        assert "raw output" not in str(found)

    def test_a_result_in_a_prompt_answers_its_own_call(self, thread: Thread) -> None:
        thread.user("go")
        for name in "ab":
            thread.call(name, f"tool_{name}", {})
        thread.result("b", "B", status="error")
        thread.result("a", "A")
        thread.end_turn()
        elements = [piece.element for piece in pieces(thread) if piece.provenance == TURN_MEMORY]
        calls = [each for each in elements if isinstance(each, Call)]
        results = [each for each in elements if isinstance(each, Result)]
        assert [call.name for call in calls] == ["tool_b", "tool_a"], "a call stands where its result came"
        assert [(each.node, each.status) for each in results] == [(calls[0].node, "error"), (calls[1].node, "ok")]

    def test_reasoning_diffs_and_calls_without_result_are_left_out_visibly(self, thread: Thread) -> None:
        thread.user("go")
        thread.reasoning("hm")
        thread.append(SegmentAdded(kind="diff", text="-a"))
        thread.call("a", "f", {})
        thread.end_turn("done")
        assert left_out(pieces(thread)) == [
            ((3,), "reasoning of an ended turn"),
            ((4,), "diff of an ended turn"),
            ((5,), "its turn ended without a result"),
        ]

    def test_an_output_that_was_not_kept_is_not_missed(self, open_store: Callable[..., Store]) -> None:
        thread = open_store(record_outputs="facts").create_thread()
        thread.user("go")
        ask(thread, "a", "x" * 100)
        thread.end_turn()
        thread.user("next")
        assert said(pieces(thread)) == ["u: go", "read_file({})", '= {"status":"success"}', "u: next"]

    def test_a_promoted_result_comes_along_with_its_origin_in_version_6_alone(self, thread: Thread) -> None:
        thread.user("go")
        call = ask(thread, "a", "x = 1\ny = 2")
        thread.end_turn()
        note = thread.promote(call, "x = 1", "costly")
        found = pieces(thread)
        assert '"promoted":[{"text":"x = 1","reason":"costly","node":4}]' in said(found)[-1]
        assert found[-1].sources == (call + 1, note.position)
        assert all("x = 1" not in str(pieces(thread, address)) for address in ALL[:-1])

    def test_a_shell_is_known_by_the_map_by_its_name_or_by_its_facts(self, store: Store) -> None:
        thread = store.create_thread(agent="claude-code")
        thread.user("go")
        for number, (name, facts) in enumerate(
            [("Bash", Facts(exit_code=3)), ("run", Facts(command="make", exit_code=3)), ("run", Facts(exit_code=3))]
        ):
            thread.call(str(number), name, {})
            thread.result(str(number), "", facts=facts)
        thread.end_turn()
        codes = ['"exit_code":3' in line for line in said(pieces(thread)) if line.startswith("=")]
        assert codes == [True, True, False]

    def test_what_a_host_says_a_command_was_counts_before_what_was_asked(self, thread: Thread) -> None:
        thread.user("go")
        thread.call("a", "bash", {"command": "asked"})
        thread.result("a", "", facts=Facts(command="ran", exit_code=1))
        thread.end_turn()
        assert said(pieces(thread, "turn-memory@5"))[1] == 'bash({"command":"ran"})'
        assert said(pieces(thread, "turn-memory@1"))[1].endswith("- Failed bash: ran (exit 1)")

    def test_steering_and_retrieved_items_part_a_turns_work(self, thread: Thread) -> None:
        thread.user("go")
        thread.text("One. ")
        thread.call("a", "f", {})
        thread.user("rather so", steer=True)
        thread.result("a", "x")
        thread.append(ContextRetrieved(items=(Retrieved(text="fact", origin="wiki", hash="0" * 64),)))
        thread.text("Two.")
        thread.end_turn()
        assert said(pieces(thread)) == [
            "u: go",
            "a: One. ",
            "u: rather so",
            "f({})",
            '= {"status":"success"}',
            'u: <retrieved origin="wiki">\nfact\n</retrieved>',
            "a: Two.",
        ]

    def test_the_workspace_is_the_threads_folder_unless_another_is_asked_for(self, thread: Thread) -> None:
        thread.user("go")
        thread.call("a", "write_file", {})
        thread.result("a", "", facts=Facts(path="/srv/app/x", file_changed="/srv/app/x"))
        thread.end_turn()
        assert '"file_changed":"x"' in said(pieces(thread))[-1]
        assert '"file_changed":"app/x"' in said(pieces(thread, workspace="/srv"))[-1]
        assert '"file_changed":"/srv/app/x"' in said(pieces(thread, workspace=""))[-1]


class TestText:
    def test_versions_1_and_2_tell_in_the_text_which_nodes_it_was_made_of(self, thread: Thread) -> None:
        thread.user("go")
        thread.text("Done.")
        thread.call("a", "bash", {"command": "make"})
        thread.result("a", "", facts=Facts(exit_code=2))
        thread.end_turn()
        for address in ALL[:2]:
            [memory] = [piece for piece in pieces(thread, address) if piece.provenance == TURN_MEMORY]
            assert memory.sources == (3, 4, 5)

    def test_what_version_1_keeps_nothing_of_is_left_out_visibly(self, thread: Thread) -> None:
        thread.user("go")
        call = ask(thread, "a")
        thread.end_turn()
        assert left_out(pieces(thread, "turn-memory@1")) == [((call,), "nothing of this call is kept")]
        assert said(pieces(thread, "turn-memory@1")) == ["u: go"]


class TestIds:
    def test_versions_3_to_5_count_messages_of_the_whole_list_the_system_message_first(self, thread: Thread) -> None:
        thread.append(InstructionsSet(parts=(Part("main", "Be brief."), Part("more", "Please."))))
        thread.user("one")
        thread.text("no calls")
        thread.end_turn()
        thread.user("nothing comes of it")
        thread.end_turn()
        thread.user("two")
        ask(thread, "a")
        ask(thread, "b")
        thread.end_turn()
        ids = [piece.element.id for piece in pieces(thread, "turn-memory@4") if isinstance(piece.element, Call)]
        assert ids == ["historical_5_0", "historical_5_1"]

    def test_version_6_names_calls_by_their_nodes(self, thread: Thread) -> None:
        thread.user("one")
        call = ask(thread, "a")
        thread.end_turn()
        [element] = [piece.element for piece in pieces(thread) if isinstance(piece.element, Call)]
        assert element.id == f"call_node{call}"


class TestUnfinishedTurns:
    @pytest.fixture
    def interrupted(self, thread: Thread) -> Thread:
        thread.user("one")
        thread.text("Half. ")
        ask(thread, "a", "A")
        thread.end_turn("interrupted")
        return thread

    NATIVE = ("a: Half. ", 'read_file({"path":"/srv/app/a"})', "= A")

    def test_version_6_leaves_them_in_their_place_until_a_later_turn_is_done(self, interrupted: Thread) -> None:
        interrupted.user("two")
        assert said(pieces(interrupted)) == ["u: one", *self.NATIVE, "u: two"]
        interrupted.text("OK.")
        interrupted.end_turn()
        assert said(pieces(interrupted)) == [
            *("u: one", "a: Half. ", "read_file({})", '= {"status":"success"}', "u: two", "a: OK."),
        ]

    @pytest.mark.parametrize("address", ALL[:5])
    def test_the_older_versions_put_them_just_before_the_newest_message(
        self, interrupted: Thread, address: str
    ) -> None:
        interrupted.user("two")
        interrupted.call("b", "f", {})
        interrupted.user("look here", steer=True)
        interrupted.result("b", "B")
        interrupted.end_turn("error")
        interrupted.user("three")
        interrupted.text("Now")
        # What steered a turn is part of what it was doing.
        second = ("f({})", "= B", "u: look here")
        assert said(pieces(interrupted, address)) == [
            *("u: one", "u: two", *self.NATIVE, *second, "u: three", "a: Now"),
        ]

    def test_they_are_settled_by_a_note_and_by_a_summary(self, interrupted: Thread) -> None:
        interrupted.append(PendingCleared(node=interrupted.head, reason="reset"))
        interrupted.user("two")
        assert said(pieces(interrupted))[2:] == ["read_file({})", '= {"status":"success"}', "u: two"]
        interrupted.append(SummaryAdded(first=2, last=5, text="one was tried"))
        assert said(pieces(interrupted)) == ["u: <summary>\none was tried\n</summary>", "u: two"]

    def test_an_unanswered_call_gets_a_stand_in(self, thread: Thread) -> None:
        thread.user("one")
        thread.call("a", "f", {})
        thread.end_turn("interrupted")
        thread.user("two")
        assert said(pieces(thread)) == ["u: one", "f({})", "= No result of this call was recorded.", "u: two"]


class TestLateResults:
    def test_a_late_result_belongs_to_its_call(self, thread: Thread) -> None:
        thread.user("one")
        thread.text("Wait.")
        thread.call("a", "f", {})
        thread.end_turn()
        thread.user("two")
        before = said(pieces(thread))
        thread.result("a", "late")
        thread.text("Here.")
        assert before == ["u: one", "a: Wait.", "u: two"]
        assert said(pieces(thread)) == ["u: one", "a: Wait.", "f({})", '= {"status":"success"}', "u: two", "a: Here."]
        assert left_out(pieces(thread)) == []

    def test_to_a_native_turn_too(self, thread: Thread) -> None:
        thread.user("one")
        thread.call("a", "f", {})
        thread.end_turn("interrupted")
        thread.user("two")
        thread.result("a", "late")
        assert said(pieces(thread)) == ["u: one", "f({})", "= late", "u: two"]
        assert left_out(pieces(thread)) == []

    def test_a_covered_calls_result_is_left_out_visibly(self, thread: Thread) -> None:
        thread.user("one")
        thread.call("a", "f", {})
        thread.end_turn()
        thread.append(SummaryAdded(first=2, last=3, text="S"))
        thread.user("two")
        late = thread.result("a", "late")
        assert left_out(pieces(thread)) == [((late.position,), "a summary covers its call")]


def test_erased_nodes_and_what_answered_them_are_left_out_visibly(thread: Thread) -> None:
    thread.user("one")
    thread.text("secret")
    call = ask(thread, "a")
    thread.end_turn()
    given_ = material(thread)
    erased = {call - 1, call}
    path = tuple(msgspec.structs.replace(each, body=None) if each.position in erased else each for each in given_.path)
    found = registry.get("turn-memory@6")
    made = found.function(msgspec.structs.replace(given_, path=path), registry.parameters_of(found, None))
    assert left_out(made) == [
        ((call - 1,), "erased"),
        ((call,), "erased"),
        ((call + 1,), "it answers no call here"),
    ]


class TestNotice:
    def test_version_6_says_once_how_to_read_replayed_calls(self, thread: Thread) -> None:
        thread.append(InstructionsSet(parts=(Part("main", "Be brief."),)))
        thread.user("go")
        first, second, *_ = pieces(thread)
        assert (first.rule, second.rule) == ("main", "origin: assembler")
        assert second.element == Text(NOTICE)
        assert second.sources == ()
        assert [piece.rule for piece in pieces(thread, notice=False) if piece.provenance == INSTRUCTIONS] == ["main"]

    @pytest.mark.parametrize("address", ALL[:5])
    def test_the_others_say_nothing_of_their_own(self, thread: Thread, address: str) -> None:
        thread.user("go")
        assert [piece.provenance for piece in pieces(thread, address)] == [VERBATIM]


# --- properties ---

OPS = st.lists(
    st.sampled_from(
        [
            *("user", "steer", "system", "text", "text", "reasoning", "call", "call", "result", "result", "parallel"),
            *("done", "done", "interrupted", "error", "clear", "promote", "summary", "instructions"),
        ]
    ),
    min_size=12,
    max_size=40,
)


class Player:
    """Plays random operations on a thread; what is refused is not done."""

    def __init__(self, store: Store) -> None:
        self.thread = store.create_thread(cwd="/srv")
        self.open: list[str] = []
        self.calls: list[int] = []
        self.count = 0

    def play(self, op: str) -> None:
        self.count += 1
        with suppress(AppendError):
            getattr(self, f"do_{op}", self.say)(op)

    def say(self, op: str) -> None:
        thread, words = self.thread, f"{op} {self.count} é "
        match op:
            case "user" | "steer":
                thread.user(words, steer=op == "steer")
            case "system":
                thread.system(words)
            case "text" | "reasoning":
                (thread.text if op == "text" else thread.reasoning)(words)
            case "done" | "interrupted" | "error":
                thread.end_turn(op)
            case "clear":
                thread.append(PendingCleared(node=thread.head))
            case "instructions":
                thread.append(InstructionsSet(parts=(Part("main", words),)))

    def do_call(self, _: str, response: str | None = None) -> None:
        name = f"c{self.count}{len(self.open)}"
        call = self.thread.append(ToolCalled(call=name, name="read_file", input="{}", response=response))
        self.open.append(name)
        self.calls.append(call.position)

    def do_parallel(self, op: str) -> None:
        for _ in range(2):
            self.do_call(op, f"r{self.count}")

    def do_result(self, _: str) -> None:
        if self.open:
            self.thread.result(
                self.open.pop(self.count % len(self.open)), "out", status=("ok", "error")[self.count % 2]
            )

    def do_promote(self, _: str) -> None:
        if self.calls:
            self.thread.promote(self.calls[-1], "kept", "quoted")

    def do_summary(self, _: str) -> None:
        path = self.thread.tree.path(self.thread.head)
        if len(path) > 3:
            self.thread.summarise(path[1], path[-1], "S")


@st.composite
def threads(draw: st.DrawFn) -> Thread:
    player = Player(open_store(":memory:"))
    for op in draw(OPS):
        player.play(op)
    return player.thread


@pytest.mark.parametrize("address", ALL)
@settings(max_examples=60, deadline=None)
@given(thread=threads())
def test_each_node_stands_in_a_prompt_at_most_once_and_none_vanishes_unseen(address: str, thread: Thread) -> None:
    found = pieces(thread, address)
    sent = [position for piece in found if piece.provenance not in {DROPPED, SUMMARY} for position in piece.sources]
    talk = [piece.provenance for piece in found if piece.provenance in {VERBATIM, TURN_MEMORY}]
    assert len(sent) - len(set(sent)) == _stand_ins(found), talk
    covered = set()
    for piece in found:
        if piece.provenance == SUMMARY:
            first, last = piece.rule.removeprefix("stands for ").split("..")
            covered |= set(range(int(first), int(last) + 1))
    shown = {position for piece in found for position in piece.sources}
    agents = {
        event.position
        for event in thread.path()
        if event.type in {"segment.added", "tool.called", "tool.returned", "input.added"}
    }
    # A call that is left out takes its result along.
    for piece in found:
        if piece.provenance == DROPPED and isinstance(piece.element, Call):
            shown |= set(thread.tree_with_calls.results(piece.element.node))
    assert agents - covered <= shown


def _stand_ins(found: list[Piece]) -> int:
    """Count results that stand in for one that was never recorded: they are made of their call."""
    return sum(piece.provenance == "repair" for piece in found)


@pytest.mark.parametrize("address", NATIVE_BLOCKS)
@settings(max_examples=60, deadline=None)
@given(thread=threads())
def test_every_call_is_followed_by_its_result_before_anything_else_is_said(address: str, thread: Thread) -> None:
    waiting: list[int] = []
    for piece in pieces(thread, address):
        if piece.provenance == DROPPED:
            continue
        element = piece.element
        if isinstance(element, Result):
            waiting.remove(element.node)
        elif isinstance(element, Call):
            waiting.append(element.node)
        elif piece.role == "user":
            assert waiting == []
    assert waiting == []


@settings(max_examples=100, deadline=None)
@given(thread=threads())
def test_with_version_6_ending_a_turn_changes_nothing_before_it(thread: Thread) -> None:
    thread.user("the last turn")
    start = thread.head
    ask(thread, "last")
    before = pieces(thread)
    thread.end_turn("interrupted")
    after = pieces(thread)
    assert _up_to(after, start) == _up_to(before, start)
    if not _natives(before, start):
        thread.end_turn()
        assert _up_to(pieces(thread), start) == _up_to(before, start)


def _up_to(found: list[Piece], start: int) -> list[Piece]:
    index = next(index for index, piece in enumerate(found) if piece.sources == (start,))
    return found[: index + 1]


def _natives(found: list[Piece], start: int) -> bool:
    return any(piece.role in {"assistant", "tool"} and piece.provenance == VERBATIM for piece in _up_to(found, start))


@settings(max_examples=60, deadline=None)
@given(thread=threads())
def test_version_6_keeps_every_word_of_the_agents_prose_in_order(thread: Thread) -> None:
    found = pieces(thread)
    if any(piece.provenance == SUMMARY for piece in found):
        return
    prose = "".join(
        piece.element.text
        for piece in found
        if piece.role == "assistant" and isinstance(piece.element, Text) and piece.provenance != DROPPED
    )
    assert prose == "".join(
        event.body.text for event in thread.path() if event.type == "segment.added" and event.body.kind == "text"
    )
