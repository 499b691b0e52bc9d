"""TurnMemory, versions 1 to 6: what each keeps of a turn and how it replays it."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convlog.projections.stages.segments_v1 import (
    Activity,
    Facts,
    FailedCommand,
    HistoricalCall,
    Memory,
    Promoted,
    Segment,
    Step,
)
from convlog.projections.tool_maps import tool_map
from convlog.projections.turn_memory import v1, v2, v3, v4, v5, v6
from tests.vectors.turn_memory import Version, run

WORKSPACE = "/srv/app"
KEEN = tool_map("keen")
VERSIONS = (v1, v2, v3, v4, v5, v6)
VECTORS = [
    vector
    for kind in ("turn_memory", "history_steps", "text_render", "retry_rewind")
    for vector in json.loads((Path(__file__).parents[1] / "vectors" / f"{kind}.json").read_text())
]


def text(words: str) -> Segment:
    return Segment(kind="text", text=words)


def tool(name: str, given: str | dict[str, Any] | None = None, /, **more: Any) -> Segment:
    raw = "" if given is None else given if isinstance(given, str) else json.dumps(given)
    return Segment(kind="tool", tool=name, input=raw, completed=more.pop("completed", True), **more)


def bash(command: str = "", given: dict[str, Any] | None = None, /, **more: Any) -> Segment:
    return tool("bash", given, command=command, shell=True, **more)


def kept(version: Version, *segments: Segment, workspace: str = WORKSPACE) -> Memory:
    return version.memory(segments, workspace, KEEN)


def only(version: Version, segment: Segment) -> Activity:
    [activity] = kept(version, segment).activities
    return activity


def calls(version: Version, memory: Memory, index: int = 0) -> list[HistoricalCall]:
    return [call for step in version.steps(memory, index) for call in step.calls]


def results(version: Version, memory: Memory) -> list[str]:
    return [call.result for call in calls(version, memory)]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_the_examples_of_the_rules_hold(vector: dict[str, Any]) -> None:
    assert run(vector) is None


class TestVersionOne:
    def test_a_turn_without_outcomes_keeps_nothing(self) -> None:
        memory = kept(v1, text("hi"), tool("read_file", {"path": "a"}), bash("ls", facts=Facts(exit_code=0)))
        assert memory.is_empty
        assert v1.render_text(memory) == "hi"

    def test_only_the_stated_path_of_an_error_free_file_tool_counts(self) -> None:
        memory = kept(
            v1,
            tool("write_file", {"path": "asked"}),
            tool("write_file", {}, facts=Facts(path="/srv/app/a"), status="error"),
            tool("read_file", {}, facts=Facts(path="/srv/app/b")),
            tool("edit_file", {}, facts=Facts(path="/srv/app/c"), completed=False),
            tool("edit_file", {}, facts=Facts(path="/srv/app/d")),
            tool("write_file", {}, facts=Facts(path="d")),
        )
        assert memory.files_changed == ("d",)

    def test_failed_commands_repeat_and_come_from_the_result_else_from_the_input(self) -> None:
        failed = bash("", {"command": "asked"}, facts=Facts(command="stated", exit_code=2))
        memory = kept(
            v1,
            failed,
            failed,
            bash("host's own", {"command": "asked"}, facts=Facts(exit_code=1.9)),
            bash("", {"command": "x"}, facts=Facts(exit_code=1), status="error"),
            bash("", {}, facts=Facts(exit_code=1)),
            tool("grep", {"command": "x"}, facts=Facts(exit_code=1)),
        )
        assert memory.failed_bash == (
            FailedCommand("stated", 2),
            FailedCommand("stated", 2),
            FailedCommand("asked", 1),
        )

    def test_the_whole_turn_is_replayed_as_one_text(self) -> None:
        memory = Memory("", ("a",), (FailedCommand("make", 2),))
        assert v1.steps(memory, 3) == [
            Step("Tool memory:\n- Files changed: a\n- Failed bash: make (exit 2)"),
        ]


class TestVersionTwo:
    def test_the_path_is_the_stated_one_else_the_asked_one_and_outside_stays_absolute(self) -> None:
        memory = kept(
            v2,
            tool("write_file", {"path": "/srv/app/asked"}, facts=Facts(path="/srv/app/stated")),
            tool("edit_file", {"path": "asked"}),
            tool("edit_file", {}, facts=Facts(path="/srv/other/z")),
            tool("edit_file", {}),
        )
        assert memory.files_changed == ("stated", "asked", "/srv/other/z")
        assert [activity.target for activity in memory.activities] == ["stated", "asked", "/srv/other/z", ""]

    def test_annotations_stand_between_blank_lines_and_the_whole_is_trimmed(self) -> None:
        memory = Memory(
            "  One\n\nTwo\n",
            activities=(Activity(7, "a", "success"), Activity(7, "b", "success"), Activity(11, "c", "error")),
        )
        assert v2.render_text(memory) == (
            "One\n\n"
            '<historical_tool_activity>\n{"status":"success","tool":"a"}\n</historical_tool_activity>\n\n'
            '<historical_tool_activity>\n{"status":"success","tool":"b"}\n</historical_tool_activity>\n\n'
            "Two\n\n"
            '<historical_tool_activity>\n{"status":"error","tool":"c"}\n</historical_tool_activity>'
        )

    def test_the_line_escapes_what_html_would_read(self) -> None:
        memory = Memory("", activities=(Activity(0, "bash", "success", "a <b> && c"),))
        assert '"target":"a \\u003cb\\u003e \\u0026\\u0026 c"' in v2.render_text(memory)

    def test_prose_is_trimmed_when_no_place_is_valid_and_untouched_without_activities(self) -> None:
        assert v2.render_text(Memory(" x ", activities=(Activity(9, "a", "success"),))) == "x"
        assert v2.render_text(Memory(" x ")) == " x "


class TestVersionThree:
    def test_results_are_fixed_sentences_and_the_block_stands_below_the_last_slice(self) -> None:
        memory = Memory(
            "One two.",
            ("a.py",),
            activities=(Activity(3, "read_file", "success"), Activity(3, "lookup", "error", server="kb")),
        )
        first, last = v3.steps(memory, 2)
        assert (first.text, last.text) == ("One", " two.\n\nTool memory:\n- Files changed: a.py")
        assert [(call.id, call.tool, call.result, call.is_error) for call in first.calls] == [
            ("historical_2_0", "read_file", v3.COMPLETED, False),
            ("historical_2_1", "call_mcp_tool", v3.FAILED, True),
        ]

    def test_the_block_stands_alone_after_a_call_at_the_end(self) -> None:
        memory = Memory("One", ("a.py",), activities=(Activity(3, "edit_file", "success"),))
        assert v3.steps(memory, 0)[-1].text == "Tool memory:\n- Files changed: a.py"


class TestPlaces:
    def test_unfinished_and_other_segments_make_no_activity_and_no_offset(self) -> None:
        memory = kept(
            v4,
            Segment(kind="other", text="thinking"),
            bash("make", completed=False),
            text("é"),
            tool("read_file", {"path": "x"}),
            text(""),
            tool("glob", {}),
        )
        assert [(activity.text_offset, activity.tool) for activity in memory.activities] == [
            (2, "read_file"),
            (2, "glob"),
        ]

    def test_a_skipped_activity_does_not_split_a_batch_nor_use_up_a_number(self) -> None:
        memory = Memory(
            "ab",
            activities=(
                Activity(1, "x", "success"),
                Activity(1, "", "success"),
                Activity(1, "y", "success"),
                Activity(0, "late", "success"),
                Activity(1, "z", "success"),
            ),
        )
        first, last = v4.steps(memory, 5)
        assert [(call.id, call.tool) for call in first.calls] == [
            *(("historical_5_0", "x"), ("historical_5_1", "y"), ("historical_5_2", "z")),
        ]
        assert (first.text, last) == ("a", Step("b"))

    def test_when_all_are_invalid_the_plain_text_is_left(self) -> None:
        memory = Memory("é", activities=(Activity(1, "a", "success"), Activity(3, "b", "success")))
        assert v4.steps(memory, 0) == [Step("é")]

    def test_a_turn_without_anything_gives_one_empty_step(self) -> None:
        assert v4.steps(kept(v4), 0) == [Step("")]


class TestVersionFour:
    @pytest.mark.parametrize(
        ("segment", "target"),
        [
            (tool("delegate_task", {"agent": "reviewer", "task": "read all"}), "reviewer"),
            (tool("todo_write", {"path": "x", "command": "y"}), ""),
            (tool("read_file", {"path": 3}), ""),
            (tool("read_file", {"path": "."}), "."),
            (tool("read_file", "no json"), ""),
            (tool("read_file", None), ""),
            (tool("read_file", {"path": "asked"}, facts=Facts(path="stated")), "asked"),
            (tool("web_fetch", {"url": "https://h/token/x"}), ""),
            (tool("web_fetch", {"url": "https://h/x?"}), "https://h/x?"),
            (bash("host", {"command": "asked"}, facts=Facts(command="stated")), "host"),
            (tool("bash", {"command": "asked"}), "asked"),
            (tool("grep", {"path": "/srv/app/src", "pattern": " a  b "}), "src :: a b"),
        ],
    )
    def test_targets_come_from_the_allow_list_only(self, segment: Segment, target: str) -> None:
        assert only(v4, segment).target == target

    def test_outcomes_need_a_call_without_error(self) -> None:
        segment = bash("make", facts=Facts(failed_command="make", exit_code=2), status="denied")
        assert only(v4, segment) == Activity(0, "bash", "error", "make")

    def test_an_exit_code_can_stand_alone(self) -> None:
        assert only(v4, bash("ls", facts=Facts(exit_code=2.7))) == Activity(0, "bash", "success", "ls", exit_code=2)

    def test_a_failed_command_without_failure_is_not_kept(self) -> None:
        assert only(v4, bash("ls", facts=Facts(exit_code=0, failed_command="ls"))).failed_command == ""

    def test_an_unchanged_write_looks_like_a_success(self) -> None:
        assert only(v4, tool("write_file", {"path": "a"}, facts=Facts(path="a"))) == Activity(
            0, "write_file", "success", "a"
        )

    def test_a_filtered_server_loses_the_wrappers_name(self) -> None:
        segment = tool("call_mcp_tool", {"server": "token-store", "tool": "lookup"})
        memory = kept(v4, segment)
        assert memory.activities == (Activity(0, "lookup", "success"),)
        assert calls(v4, memory)[0].tool == "lookup"

    def test_a_wrapper_without_a_tool_keeps_its_name_and_no_outcome(self) -> None:
        segment = tool("call_mcp_tool", {"server": "kb"}, facts=Facts(exit_code=3, file_changed="x"))
        assert only(v4, segment) == Activity(0, "call_mcp_tool", "success", server="kb")

    def test_line_separators_in_results_are_escaped_as_the_source_did(self) -> None:
        memory = Memory("", activities=(Activity(0, "bash", "success", failed_command='"\u2028<', exit_code=1),))
        assert results(v4, memory) == ['{"status":"success","failed_command":"\\"\\u2028<","exit_code":1}']


class TestVersionFive:
    @pytest.mark.parametrize(
        ("segment", "kept_input"),
        [
            (tool("read_file", {"path": "/srv/app/a", "limit": 3}), {"path": "a", "limit": 3}),
            (tool("read_file", {"path": "/srv/x"}), {"path": "/srv/x"}),
            (tool("web_fetch", {"url": "https://u:p@h/?token=x"}), {"url": "https://u:p@h/?token=x"}),
            (tool("delegate_task", {"agent": "a", "deep": {"x": [1, None, True]}}), None),
            (tool("call_mcp_tool", {"server": "s", "tool": "t", "arguments": {"q": ""}}), None),
            (bash("host", {"command": "asked", "timeout": 5}), {"command": "host", "timeout": 5}),
            (bash("", {"command": "asked"}, facts=Facts(command="stated")), {"command": "asked"}),
            (bash("host", None), {"command": "host"}),
            (tool("edit_file", {"path": "a", "oldString": ""}), {"path": "a", "oldString": ""}),
        ],
    )
    def test_nine_tools_keep_their_real_input(self, segment: Segment, kept_input: dict[str, Any] | None) -> None:
        expected = json.loads(segment.input) if kept_input is None else kept_input
        assert json.loads(only(v5, segment).input) == expected

    @pytest.mark.parametrize("segment", [tool("todo_write", {"a": 1}), tool("grep", "[1]"), tool("glob", {})])
    def test_other_tools_and_empty_inputs_keep_none(self, segment: Segment) -> None:
        memory = kept(v5, segment)
        assert memory.activities[0].input == ""
        assert calls(v5, memory)[0].arguments == "{}"

    @pytest.mark.parametrize(
        ("value", "stays"),
        [
            ("a" * 4094, True),
            ("a" * 4095, False),
            ("é" * 2047, True),
            ("é" * 2048, False),
            ('"' * 2047, True),
            ('"' * 2048, False),
            ("<" * 682, True),
            ("<" * 683, False),
            ({"k": ["a" * 4086]}, True),
            ({"k": ["a" * 4087]}, False),
        ],
    )
    def test_a_field_has_at_most_4096_bytes_of_json(self, value: Any, stays: bool) -> None:
        kept_input = only(v5, tool("grep", {"pattern": value, "path": "p"})).input
        assert ("pattern" in json.loads(kept_input)) is stays

    def test_strings_of_file_tools_are_cut_on_a_character_and_other_fields_are_dropped(self) -> None:
        given = {"path": "w", "content": "a" * 4095 + "é", "edits": ["x" * 5000], "few": ["x"]}
        assert json.loads(only(v5, tool("write_file", given)).input) == {
            "path": "w",
            "content": "a" * 4095,
            "few": ["x"],
        }

    def test_arguments_have_sorted_keys_and_the_sources_numbers(self) -> None:
        raw = (
            '{"b":{"z":1,"a":<2>},"a":[1.0,1e-7,1e-5,1e20,1e21,0.5,-0.0,100000000000000000001,9007199254740993,'
            '"<&>"],"c":true}'
        ).replace("<2>", "2")
        memory = kept(v5, tool("delegate_task", raw))
        assert calls(v5, memory)[0].arguments == (
            '{"a":[1,1e-7,0.00001,100000000000000000000,1e+21,0.5,-0,100000000000000000000,9007199254740992,'
            '"<&>"],"b":{"a":2,"z":1},"c":true}'
        )

    def test_the_exit_code_is_kept_and_the_wrapper_replays_as_itself(self) -> None:
        memory = kept(
            v5,
            bash("x", facts=Facts(exit_code=3, failed_command="x"), status="error"),
            tool("call_mcp_tool", {"server": "kb", "tool": "t"}, facts=Facts(server="kb", tool="t")),
        )
        assert [(call.tool, call.result) for call in calls(v5, memory)] == [
            ("bash", '{"status":"error","exit_code":3}'),
            ("call_mcp_tool", '{"status":"success"}'),
        ]


class TestVersionSix:
    def test_ids_come_from_the_calls_node(self) -> None:
        memory = kept(v6, tool("glob", {}, node=17), tool("grep", {}, node=19))
        assert [call.id for call in calls(v6, memory, 1)] == ["call_node17", "call_node19"]
        assert calls(v6, memory, 1) == calls(v6, memory, 99)

    @pytest.mark.parametrize(
        ("segment", "target"),
        [
            (tool("read_file", {"path": "src/tokenizer.py"}), "src/tokenizer.py"),
            (tool("web_fetch", {"url": "https://u:p@h/token/x?"}), "https://h/token/x"),
            (bash("run --token=abc"), "[withheld]"),
            (tool("grep", {"pattern": "password = 'x'"}), ""),
            (bash("bash -lc 'make check'"), "make check"),
            (tool("edit_file", {}, facts=Facts(path="/srv/app/stated")), "stated"),
            (Segment(kind="tool", tool="run_it", command="ls", shell=True, completed=True), "ls"),
            (Segment(kind="tool", tool="run_it", input='{"command":"ls"}', shell=True, completed=True), "ls"),
        ],
    )
    def test_targets_pass_the_exact_filter(self, segment: Segment, target: str) -> None:
        assert only(v6, segment).target == target

    def test_a_filtered_command_keeps_its_exit_code(self) -> None:
        segment = bash("login --password x", facts=Facts(failed_command="login --password x", exit_code=5))
        memory = kept(v6, segment)
        assert memory.activities == (
            Activity(
                *(0, "bash", "success", "[withheld]"),
                failed_command="[withheld]",
                exit_code=5,
            ),
        )
        assert results(v6, memory) == ['{"status":"success","failed_command":"[withheld]","exit_code":5}']

    def test_the_wrappers_name_is_replayed_whatever_the_filter_takes(self) -> None:
        memory = kept(
            v6,
            tool("call_mcp_tool", {"server": "token=abc", "tool": "lookup"}, node=3),
            tool("call_mcp_tool", {"server": "kb", "tool": "secret: x"}, node=4),
        )
        assert [(activity.tool, activity.server) for activity in memory.activities] == [
            *(("lookup", ""), ("call_mcp_tool", "kb")),
        ]
        assert [call.tool for call in calls(v6, memory)] == ["call_mcp_tool"] * 2

    def test_a_tool_of_a_server_tells_neither_arguments_nor_outcomes(self) -> None:
        segment = tool("read_file", {"path": "x"}, server="files", facts=Facts(exit_code=1))
        assert only(v6, segment) == Activity(0, "read_file", "success", server="files")

    @pytest.mark.parametrize("status", ["denied", "cancelled", "error", "timed-out"])
    def test_what_became_of_a_call_is_told_apart_and_replays_as_an_error(self, status: str) -> None:
        memory = kept(v6, bash("ls", facts=Facts(exit_code=1), status=status))
        assert memory.activities == (Activity(0, "bash", status, "ls"),)
        [call] = calls(v6, memory)
        assert (call.result, call.is_error) == ('{"status":"error"}', True)

    def test_promoted_results_are_carried_bounded_with_reason_and_node(self) -> None:
        long = "é" * 4000
        segment = tool("web_fetch", {}, promoted=(Promoted("a\n  b", "quoted", 9), Promoted(long, "gone", 11)))
        memory = kept(v6, segment)
        first, second = memory.activities[0].promoted
        assert first == Promoted("a\n  b", "quoted", 9)
        assert second.text == "é" * 2046 + "..."
        assert json.loads(results(v6, memory)[0]) == {
            "status": "success",
            "promoted": [
                {"text": "a\n  b", "reason": "quoted", "node": 9},
                {"text": second.text, "reason": "gone", "node": 11},
            ],
        }

    def test_a_secret_in_a_promoted_result_is_withheld_also_across_the_cut(self) -> None:
        words = "x" * 4080 + " token=abcdefghijklmnop"
        memory = kept(v6, tool("glob", {}, promoted=(Promoted(words, "costly", 1),)))
        assert "token=a" not in memory.activities[0].promoted[0].text

    def test_invalid_activities_are_reported_in_order(self) -> None:
        memory = Memory(
            "é",
            activities=(
                Activity(-1, "a", "success", node=1),
                Activity(1, "b", "success", node=2),
                Activity(2, "c", "success", node=3),
                Activity(0, "d", "success", node=4),
                Activity(3, "e", "success", node=5),
                Activity(2, "", "success", node=6),
            ),
        )
        assert [call.id for call in calls(v6, memory)] == ["call_node3"]
        assert [(left_out.node, left_out.reason) for left_out in v6.invalid(memory)] == [
            (1, "negative offset"),
            (2, "offset inside a character"),
            (4, "offset before the activity above it"),
            (5, "offset beyond the text"),
            (6, "no tool name"),
        ]


words = st.text(max_size=12)
names = st.sampled_from(
    ["read_file", "grep", "glob", "web_fetch", "bash", "delegate_task", "call_mcp_tool", "write_file", "edit_file"]
) | st.text(max_size=6)
inputs = st.dictionaries(st.sampled_from(["path", "pattern", "command", "url", "agent", "server"]), st.text()).map(
    json.dumps
) | st.text(max_size=20)
facts = st.builds(
    Facts,
    path=words,
    file_changed=words,
    command=words,
    failed_command=words,
    exit_code=st.none() | st.integers(-300, 300) | st.floats(allow_nan=True),
    server=words,
    tool=words,
)
segments = st.lists(
    st.builds(text, words)
    | st.builds(
        Segment,
        kind=st.just("tool"),
        tool=names,
        input=inputs,
        command=words,
        completed=st.booleans(),
        shell=st.booleans(),
        status=st.sampled_from(["ok", "error", "denied", "odd"]),
        facts=facts,
    ),
    max_size=8,
)
activities = st.lists(
    st.builds(Activity, st.integers(-2, 14), names, st.sampled_from(["success", "error"]), node=st.integers(1, 99)),
    max_size=8,
)


@pytest.mark.parametrize("version", [v4, v5, v6])
@given(prose=st.text(max_size=12), given_activities=activities)
def test_the_texts_of_the_steps_make_up_the_prose(
    version: Version, prose: str, given_activities: list[Activity]
) -> None:
    memory = Memory(prose, activities=tuple(given_activities))
    steps = version.steps(memory, 0)
    assert "".join(step.text for step in steps) == prose
    assert all(step.calls for step in steps[:-1])
    assert steps[-1].calls == ()
    assert len(calls(version, memory)) + len(v6.invalid(memory)) == len(given_activities)


@pytest.mark.parametrize("version", VERSIONS)
@given(given_segments=segments)
def test_fresh_memory_is_valid_and_replays_every_completed_call(
    version: Version, given_segments: list[Segment]
) -> None:
    numbered = [msgspec.structs.replace(segment, node=place) for place, segment in enumerate(given_segments, 1)]
    memory = kept(version, *numbered)
    assert memory.prose == "".join(segment.text for segment in numbered if segment.kind == "text")
    named = [activity for activity in memory.activities if activity.tool]
    assert len(v6.invalid(memory)) == len(memory.activities) - len(named)
    if version in (v3, v4, v5, v6):
        replayed = calls(version, memory)
        assert len(replayed) == len(named)
        assert len({call.id for call in replayed}) == len(replayed)
        for call in replayed:
            assert re.fullmatch("[A-Za-z0-9_-]{1,64}", call.id)
            assert isinstance(json.loads(call.arguments), dict)
            call.result.encode()


@pytest.mark.parametrize("version", [v2, v3, v4, v6])
@given(given_segments=segments)
def test_kept_strings_have_at_most_256_bytes(version: Version, given_segments: list[Segment]) -> None:
    for activity in kept(version, *given_segments).activities:
        values = msgspec.structs.asdict(activity)
        for name in ("target", "server", "file_changed", "failed_command"):
            assert len(values[name].encode()) <= 256


@pytest.mark.parametrize("version", [v4, v6])
@given(name=names, status=st.sampled_from(["ok", "error"]))
def test_what_a_tool_was_given_beside_its_target_is_never_kept(version: Version, name: str, status: str) -> None:
    beside = {
        "content": "LEAKED",
        "oldString": "LEAKED",
        "task": "LEAKED",
        "arguments": {"q": "LEAKED"},
        "url": "https://LEAKED:LEAKED@h/?LEAKED#LEAKED",
    }
    memory = kept(version, tool(name, beside, status=status))
    assert b"LEAKED" not in msgspec.json.encode([memory, version.steps(memory, 0)])


@pytest.mark.parametrize("version", [v4, v6])
@pytest.mark.parametrize(
    "segment",
    [
        bash("deploy --password hunter2", facts=Facts(failed_command="deploy --password hunter2", exit_code=1)),
        tool("web_fetch", {"url": "https://bob:hunter2@h/x?token=hunter2#hunter2"}),
        tool("grep", {"pattern": "password=hunter2"}),
        tool("edit_file", {"path": "a"}, facts=Facts(file_changed="password=hunter2")),
        tool("call_mcp_tool", {"server": "password=hunter2", "tool": "password=hunter2"}),
    ],
)
def test_no_secret_leaves_a_turn(version: Version, segment: Segment) -> None:
    memory = kept(version, segment)
    assert b"hunter2" not in msgspec.json.encode([memory, version.steps(memory, 0)])
    assert len(calls(version, memory)) == 1


@given(given_segments=segments, index=st.integers(0, 9))
def test_nothing_inserted_earlier_changes_a_byte_of_version_six(given_segments: list[Segment], index: int) -> None:
    numbered = [msgspec.structs.replace(segment, node=place) for place, segment in enumerate(given_segments, 1)]
    memory = kept(v6, *numbered)
    assert v6.steps(memory, index) == v6.steps(memory, 0)
