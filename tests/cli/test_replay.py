"""`convlog replay`, `why` and `diff`: prompts, as people and programs ask for them."""

from __future__ import annotations

import json
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import convlog
from convlog.cli.text import width
from convlog.projections import replay as replaying
from convlog.projections.replay import Replayed
from tests.projections.authors import Author, author, with_pieces

from .conftest import ESCAPES, Run
from .prepared import TALK, damage, lines, position_of, redact_in, talk

__all__ = ["author", "talk"]

RAW = ("\x1b", "\x9b", "\x07", "\u202e", "\u2028", "\x7f", "\0")


# --- replay: a line a call ---


def test_a_thread_gives_a_line_a_call_and_a_sum(run: Run, talk: Path) -> None:
    result = run("-d", talk, "replay", TALK)
    assert result.exit_code == 0
    title, *calls, total = result.stdout.splitlines()
    assert title.startswith("till  ")
    assert [line.split()[0] for line in calls] == ["1", "2", "3", "4"]
    assert all("turn-memory@6 anthropic@1" in line and "= exact" in line for line in calls)
    assert total == "4 calls: 4 exact"
    assert "replay " in result.stderr
    assert "prints that prompt" in result.stderr


def test_replay_without_an_address_takes_the_thread_whose_user_spoke_last(run: Run, talk: Path) -> None:
    assert run("-d", talk, "replay").stdout == run("-d", talk, "replay", TALK).stdout


def test_calls_are_chosen_by_position_branch_and_until(run: Run, talk: Path) -> None:
    def numbers(*args: object) -> list[int]:
        result = run("-d", talk, "replay", *args, "--json")
        assert result.exit_code == 0
        return [line["call"] for line in lines(result.stdout)]

    at = {name: position_of(talk, name) for name in ("rounds twice", "for francs", "for dollars")}
    assert numbers(f"{TALK}:{at['rounds twice']}") == [1, 2]
    assert numbers(TALK, "--until", f"{TALK}:{at['for francs'] + 1}") == [1, 2, 3]
    assert numbers(f"{TALK}@francs") == [1, 2, 3]
    assert numbers(f"{TALK}@{at['for dollars']}") == [1, 2, 4]
    assert numbers(f"{TALK}@francs", "--until", f"{TALK}:{at['rounds twice']}") == [1, 2]
    assert numbers(f"{TALK}/3") == [3]
    assert numbers(f"{TALK}:1") == []


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["nobody"], 2),
        ([f"{TALK}/9"], 2),
        ([f"{TALK}:999"], 2),
        ([f"{TALK}@nowhere"], 2),
        ([f"{TALK}:2..3"], 2),
        ([TALK, "--until", TALK], 2),
        ([f"{TALK}/1", "--until", f"{TALK}:3"], 2),
        ([TALK, "--as", "mine@9"], 2),
        ([TALK, "--as", "anthropic@1"], 2),
        ([TALK, "--encoder", "anthropic@9"], 2),
        ([TALK, "--format", "yaml"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_names_nothing_is_refused(run: Run, talk: Path, args: list[str], code: int) -> None:
    result = run("-d", talk, "replay", *args)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr


def test_a_store_that_is_missing_is_said(run: Run, tmp_path: Path) -> None:
    assert run("-d", tmp_path / "none.db", "replay").exit_code == 3


def test_a_thread_without_calls_says_so(run: Run, tmp_path: Path) -> None:
    with convlog.open(tmp_path / "s.db") as store:
        store.create_thread(title="quiet").user("Hello.")
    result = run("-d", tmp_path / "s.db", "replay", "quiet")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no calls" in result.stderr


def test_json_says_all_that_is_known_of_a_call(run: Run, talk: Path) -> None:
    result = run("-d", talk, "replay", TALK, "--json")
    one, two, *_ = lines(result.stdout)
    with convlog.open(talk, mode="r") as store:
        thread = store.thread(TALK)
        prompt = next(thread.replay(numbers=(2,))).prompt
        assert prompt is not None
        assert two["thread"] == thread.id
    assert two["schema"] == "convlog.replay/1"
    assert (two["verdict"], two["reason"], two["detail"], two["difference"]) == ("exact", "", "", None)
    assert (two["assembler"], two["encoder"], two["model"]) == ("turn-memory@6", "anthropic@1", "claude-sonnet-4-6")
    assert (two["bytes"], two["attested"], one["attested"]) == (len(prompt.body), "sent as prepared", "not attested")
    assert len(two["digest"]) == 64
    assert "request" not in two
    (full,) = lines(run("-d", talk, "replay", f"{TALK}/2", "--json").stdout)
    assert full["request"] == json.loads(prompt.body)
    assert all("request" in line for line in lines(run("-d", talk, "replay", TALK, "--json", "--full").stdout))


def test_another_version_or_format_is_derived(run: Run, talk: Path) -> None:
    result = run("-d", talk, "replay", TALK, "--as", "transcript@1", "--encoder", "gemini@1")
    assert result.exit_code == 0
    assert "transcript@1 gemini@1" in result.stdout
    assert "4 derived for gemini-3-flash-preview (as asked: nothing to compare with)" in result.stdout


def test_the_last_calls_alone_are_derived_when_so_many_are_asked_for(run: Run, talk: Path) -> None:
    result = run("-d", talk, "replay", TALK, "-n", 2)
    title, *calls, total = result.stdout.splitlines()
    assert title.startswith("till  ")
    assert [line.split()[0] for line in calls] == ["3", "4"]
    assert total == "2 calls: 2 exact"
    assert len(lines(run("-d", talk, "replay", TALK, "-n", 9, "--json").stdout)) == 4
    assert run("-d", talk, "replay", TALK, "-n", 0).exit_code == 2


def test_each_line_is_out_before_the_next_call_is_derived(
    run: Run, talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out: list[int] = []
    derive = replaying.replay_call

    def derived(*args: Any, **options: Any) -> Replayed:
        out.append(sys.stdout.buffer.getvalue().count(b"= exact"))  # type: ignore[union-attr] # the runner's own
        return derive(*args, **options)

    monkeypatch.setattr(replaying, "replay_call", derived)
    assert run("-d", talk, "replay", TALK).exit_code == 0
    assert out == [0, 1, 2, 3]


def test_a_thread_without_a_title_goes_by_what_its_user_said_in_quotes(run: Run, tmp_path: Path) -> None:
    with convlog.open(tmp_path / "s.db") as store:
        thread = store.create_thread()
        thread.user("Why is the sum wrong?")
        thread.prepare()
        store.create_thread(title="named").user("Something else.")
        store.create_thread(source_id="session-7")
        number = thread.id
    assert run("-d", tmp_path / "s.db", "replay", number).stdout.startswith('"Why is the sum wrong?"  ')
    listed = run("-d", tmp_path / "s.db", "threads").stdout
    assert '  "Why is the sum wrong?"  ' in listed
    assert "  named  " in listed
    assert "  session-7  " in listed
    assert "no name" in run("threads", "--help").stdout


# --- verdicts and exit codes ---


def test_a_redacted_prompt_is_unprovable_and_exits_5(run: Run, talk: Path) -> None:
    redact_in(talk, "francs")
    result = run("-d", talk, "replay", TALK)
    assert result.exit_code == 5
    assert "? unprovable" in result.stdout
    assert "redacted: something that the prompt was made of was erased" in result.stdout
    assert result.stdout.splitlines()[-1] == "4 calls: 3 exact, 1 unprovable"
    assert run("-d", talk, "replay", f"{TALK}/3").exit_code == 5
    assert run("-d", talk, "replay", f"{TALK}/4").exit_code == 0


def test_a_changed_version_differs_says_where_and_why_and_exits_1(run: Run, talk: Path, author: Author) -> None:
    with convlog.open(talk) as store:
        store.thread(TALK).prepare(assembler="mine@1", capture=True)
    author.write(with_pieces("del pieces[2]"))
    result = run("-d", talk, "replay", TALK)
    assert result.exit_code == 1
    assert "! differs" in result.stdout
    assert "first difference: /messages/" in result.stdout
    assert "then: " in result.stdout
    assert "now:  " in result.stdout
    assert "because: the code or data of assembler mine@1 changed" in result.stdout
    (line,) = lines(run("-d", talk, "replay", f"{TALK}/5", "--json").stdout)
    assert line["difference"]["pointer"].startswith("/messages/")
    assert line["difference"]["causes"]


def test_a_version_that_is_missing_is_unprovable(run: Run, talk: Path, author: Author) -> None:
    with convlog.open(talk) as store:
        store.thread(TALK).prepare(assembler="mine@1")
    author.take_away()
    result = run("-d", talk, "replay", f"{TALK}/5")
    assert result.exit_code == 5
    assert "version missing" in result.stdout
    assert "prints that prompt" not in result.stderr
    assert "hint: install the package, or import the module, of mine@1; or derive by another version" in result.stderr
    assert "--as transcript@1" in result.stderr
    listed = run("-d", talk, "replay", TALK)
    assert "/4 prints that prompt" in listed.stderr
    assert listed.stderr.count("hint: install") == 1
    assert "--as transcript@1" in lines(run("-d", talk, "replay", f"{TALK}/5", "--json").stdout)[0]["hint"]
    assert run("-d", talk, "replay", f"{TALK}/5", "--format", "json").stdout == ""
    missing = run("-d", talk, "why", f"{TALK}/5")
    assert missing.exit_code == 5
    assert "--as transcript@1" in missing.stderr
    assert run("-d", talk, "replay", f"{TALK}/5", "--as", "transcript@1").exit_code == 0


def test_nothing_of_a_damaged_thread_is_called_exact_when_verified(run: Run, talk: Path) -> None:
    damage(talk)
    result = run("-d", talk, "replay", TALK, "--verify")
    assert result.exit_code == 1
    assert "exact" not in result.stdout
    assert "damaged" in result.stderr
    assert {line["verdict"] for line in lines(run("-d", talk, "replay", "--verify", "--json").stdout)} <= {
        "differs",
        "unprovable",
    }


def test_a_sound_thread_verifies(run: Run, talk: Path) -> None:
    redact_in(talk, "francs")
    result = run("-d", talk, "replay", TALK, "--verify")
    assert result.exit_code == 5
    assert "damaged" not in result.stderr


def test_many_calls_take_the_memory_of_one(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with convlog.open(path) as store:
        thread = store.create_thread(title="large")
        thread.user("word " * 40_000)
        for _ in range(20):
            thread.prepare()
    run("-d", path, "replay", "large/1")
    tracemalloc.start()
    assert run("-d", path, "replay", "large").exit_code == 0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * 5 * 40_000


# --- replay: one prompt ---


def test_a_call_gives_its_prompt_piece_by_piece(run: Run, talk: Path) -> None:
    result = run("-d", talk, "replay", f"{TALK}/4")
    assert result.exit_code == 0
    head, blank, *pieces = result.stdout.splitlines()
    assert "= exact" in head
    assert blank == ""
    assert any("instructions" in piece and "Be brief." in piece for piece in pieces)
    assert any("turn-memory" in piece and "It rounds twice." in piece for piece in pieces)
    assert "And for dollars?" in pieces[-2] + pieces[-1]
    assert "tokens" in result.stderr


def test_full_gives_whole_texts(run: Run, tmp_path: Path) -> None:
    with convlog.open(tmp_path / "s.db") as store:
        thread = store.create_thread(title="long")
        thread.user("one\n\n" + "word " * 200 + "end")
        thread.prepare()
    short = run("-d", tmp_path / "s.db", "replay", "long/1").stdout
    whole = run("-d", tmp_path / "s.db", "replay", "long/1", "--full").stdout
    assert " end" not in short
    assert " end" in whole
    assert "      one\n\n      word" in whole


def test_the_requests_own_bytes_are_given(run: Run, talk: Path) -> None:
    with convlog.open(talk, mode="r") as store:
        bodies = [each.prompt.body for each in store.thread(TALK).replay() if each.prompt]
    assert run("-d", talk, "replay", f"{TALK}/2", "--format", "json").stdout_bytes == bodies[1] + b"\n"
    assert run("-d", talk, "replay", TALK, "--format", "json").stdout_bytes == b"".join(b + b"\n" for b in bodies)


def test_the_request_in_anthropics_form_is_given_whatever_the_model_was(run: Run, tmp_path: Path) -> None:
    with convlog.open(tmp_path / "s.db") as store:
        thread = store.create_thread(title="g")
        thread.user("Why?")
        thread.prepare(model="gemini-3-flash-preview")
    result = run("-d", tmp_path / "s.db", "replay", "g/1", "--format", "anthropic")
    assert json.loads(result.stdout)["messages"][0]["content"][0]["text"] == "Why?"
    assert "contents" in json.loads(run("-d", tmp_path / "s.db", "replay", "g/1", "--format", "json").stdout)


# --- widths, colours, control characters ---

READING = [
    ["replay", TALK],
    ["replay", f"{TALK}/2"],
    ["replay", f"{TALK}/4"],
    ["why", f"{TALK}/4"],
    ["why", f"{TALK}/4", "--missing", f"{TALK}:4"],
    ["audit"],
    ["assemblers"],
    ["diff", f"{TALK}/2", f"{TALK}/3", "--stat"],
]


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("args", READING, ids=" ".join)
def test_lines_fit(run: Run, talk: Path, args: list[str], columns: int) -> None:
    redact_in(talk, "francs")
    output = run("-d", talk, *args, env={"COLUMNS": str(columns)}).stdout
    assert output
    assert [line for line in output.splitlines() if width(line) > columns] == []


def test_longer_names_fit_too(run: Run, tmp_path: Path) -> None:
    with convlog.open(tmp_path / "s.db") as store:
        thread = store.create_thread(title="日本 " * 40)
        thread.user("日本 " * 200)
        thread.prepare(model="gpt-5.4", encoder="openai-responses@1")
        number = thread.id
    for args in (["replay", number], ["replay", f"{number}/1"]):
        output = run("-d", tmp_path / "s.db", *args).stdout
        assert max(width(line) for line in output.splitlines()) <= 80


def test_verdicts_have_a_colour_and_a_mark(run: Run, talk: Path) -> None:
    coloured = run("-d", talk, "replay", TALK, "--color", "always").stdout
    assert "\x1b[32m= exact" in coloured
    assert "\x1b" not in run("-d", talk, "replay", TALK).stdout


HOSTILE = [
    ["replay", "hostile"],
    ["replay", "hostile/1"],
    ["replay", "hostile/1", "--full"],
    ["why", "hostile/1"],
    ["why", "hostile/1", "--piece", "1"],
    ["why", "hostile/1", "--missing", "hostile:3"],
    ["diff", "hostile:2", "hostile:5"],
    ["diff", "hostile:5", "--as", "transcript@1", "--as", "turn-memory@1"],
    ["project", "outline@1", "hostile"],
    ["audit"],
    ["compact", "hostile:2..5", "--with", "outline@1", "--dry-run"],
    ["compact", "hostile:2..5", "--text", ESCAPES.replace("\0", ""), "--dry-run", "--check"],
    ["assemblers"],
    ["replay", "\x1b[2J"],
    ["project", "\x1b[2J@1", "hostile"],
]


@pytest.mark.parametrize("args", HOSTILE, ids=lambda args: " ".join(args)[:40].replace("\x1b", ""))
@pytest.mark.parametrize("extra", [[], ["--json"]], ids=["text", "json"])
def test_control_characters_of_stored_text_never_pass(
    run: Run, hostile: Path, args: list[str], extra: list[str]
) -> None:
    with convlog.open(hostile) as store:
        store.thread("hostile").prepare(instructions=ESCAPES)
    result = run("-d", hostile, *args, *extra)
    assert result.exit_code in {0, 2}
    assert [char for char in RAW if char in result.output] == []


# --- why ---


def test_why_explains_every_piece(run: Run, talk: Path) -> None:
    result = run("-d", talk, "why", f"{TALK}/2")
    assert result.exit_code == 0
    assert "instructions system" in result.stdout
    assert "standing instructions" in result.stdout
    assert "at /messages/0/content/0" in result.stdout
    found = lines(run("-d", talk, "why", f"{TALK}/2", "--json").stdout)
    assert [line["piece"] for line in found] == list(range(1, len(found) + 1))
    assert found[0]["schema"] == "convlog.why/1"
    assert {"provenance", "role", "sources", "rule", "pointers", "text", "prompt"} <= set(found[0])


def test_one_piece_is_shown_with_what_it_was_made_of(run: Run, talk: Path) -> None:
    with convlog.open(talk) as store:
        thread = store.thread(TALK)
        first = position_of(talk, "sum wrong")
        thread.summarise(first, position_of(talk, "rounds twice"), "We looked.")
        thread.prepare()
    found = lines(run("-d", talk, "why", f"{TALK}/5", "--json").stdout)
    number = next(line["piece"] for line in found if line["provenance"] == "summary")
    output = run("-d", talk, "why", f"{TALK}/5", "--piece", number).stdout
    assert "We looked." in output
    assert f"made of :{first}" in output
    assert "Why is the sum wrong?" in output
    assert run("-d", talk, "why", f"{TALK}/5", "--piece", 99).exit_code == 2


def test_the_pieces_behind_a_place_are_found(run: Run, talk: Path) -> None:
    (found,) = lines(run("-d", talk, "why", f"{TALK}/1", "--pointer", "/messages/0/content/0", "--json").stdout)
    assert found["text"] == "Why is the sum wrong?"
    assert run("-d", talk, "why", f"{TALK}/1", "--pointer", "/nowhere").exit_code == 2


def test_why_says_why_a_node_is_missing(run: Run, talk: Path) -> None:
    francs = position_of(talk, "for francs")
    result = run("-d", talk, "why", f"{TALK}/4", "--missing", f"{TALK}:{francs}")
    assert "it is on another branch" in " ".join(result.stdout.split())
    (line,) = lines(run("-d", talk, "why", f"{TALK}/4", "--missing", f"{TALK}:{francs}", "--json").stdout)
    assert (line["schema"], line["node"]) == ("convlog.why/1", francs)
    assert run("-d", talk, "why", f"{TALK}/4", "--missing", f"{TALK}:999").exit_code == 2


def test_what_stands_there_in_short_is_not_called_there(run: Run, talk: Path) -> None:
    with convlog.open(talk, mode="r") as store:
        answer = next(event.position for event in store.thread(TALK).events(types=("tool.returned",)))
    result = run("-d", talk, "why", f"{TALK}/4", "--missing", f"{TALK}:{answer}")
    said = " ".join(result.stdout.split())
    assert "it is in the prompt only in short: piece " in said
    assert said.endswith("; its output is left out")
    (line,) = lines(run("-d", talk, "why", f"{TALK}/4", "--missing", f"{TALK}:{answer}", "--json").stdout)
    assert line["in_short"] is True
    (piece,) = line["pieces"]
    assert f"--piece {piece} prints both" in result.stderr
    assert "def total(): ..." in run("-d", talk, "why", f"{TALK}/4", "--piece", piece).stdout
    whole = run("-d", talk, "why", f"{TALK}/2", "--missing", f"{TALK}:{answer}")
    assert "it is in the prompt: piece " in " ".join(whole.stdout.split())
    assert "hint" not in whole.stderr


def test_a_node_of_another_thread_is_missing_nowhere(run: Run, talk: Path) -> None:
    with convlog.open(talk) as store:
        store.create_thread(title="other").user("Hello.")
    assert run("-d", talk, "why", f"{TALK}/4", "--missing", "other:2").exit_code == 2


def test_a_node_names_the_prompt_that_would_be_due_there(run: Run, talk: Path) -> None:
    question = position_of(talk, "sum wrong")
    output = run("-d", talk, "why", f"{TALK}:{question}").stdout
    assert "Why is the sum wrong?" in output
    assert "rounds twice" not in output
    # By the versions that the thread's prompts are made by.
    assert "Tool calls of earlier turns" in output
    assert (
        "Tool calls of earlier turns" not in run("-d", talk, "why", f"{TALK}:{question}", "--as", "transcript@1").stdout
    )


def test_a_thread_names_its_last_call(run: Run, talk: Path) -> None:
    assert run("-d", talk, "why", TALK).stdout == run("-d", talk, "why", f"{TALK}/4").stdout


# --- diff ---


def test_two_calls_are_compared(run: Run, talk: Path) -> None:
    result = run("-d", talk, "diff", f"{TALK}/1", f"{TALK}/2")
    assert result.exit_code == 0
    assert "from the start stay" in result.stdout
    assert "first difference made by event :" in result.stdout
    assert "Let me see." in result.stdout
    assert "\nadded at /messages/1/content/0\n" in result.stdout
    assert "1 block from the start stays\n" in result.stdout


def test_two_branches_are_compared_by_words(run: Run, talk: Path) -> None:
    result = run("-d", talk, "diff", f"{TALK}@francs", f"{TALK}/4")
    assert "[-" in result.stdout
    assert "francs" in result.stdout
    assert "{+" in result.stdout
    stat = run("-d", talk, "diff", f"{TALK}@francs", f"{TALK}/4", "--stat").stdout
    assert "1 changed" in stat
    assert "changed at" not in stat


@pytest.mark.parametrize("columns", [40, 80, 100])
def test_a_comparisons_lines_are_cut_unless_all_is_asked_for(run: Run, tmp_path: Path, columns: int) -> None:
    path = tmp_path / "s.db"
    with convlog.open(path) as store:
        thread = store.create_thread(title="long")
        question = thread.user("日本 " * 60 + "red " + "word " * 60 + "blue").position
        thread.prepare(instructions="word " * 50)
        thread.edit(question, "日本 " * 60 + "green " + "word " * 60 + "black " * 40)
        thread.prepare(instructions="word " * 20 + "other " * 30)
        thread.text("more " * 60)
        thread.user("go on")
        thread.prepare()
    args = ("-d", path, "diff", "long/1", "long/2")
    output = run(*args, env={"COLUMNS": str(columns)}).stdout
    later = run("-d", path, "diff", "long/2", "long/3", env={"COLUMNS": str(columns)}).stdout
    shown = [line for text in (output, later) for line in text.split("first difference ")[1].splitlines()]
    assert [line for line in shown if width(line) > columns] == []
    assert "[-red-]" in output
    assert "{+green+}" in output
    assert "…" in output
    full = run(*args, "--full", env={"COLUMNS": str(columns)}).stdout
    assert "…" not in full
    assert "black " * 39 in full
    assert "more " * 59 in run("-d", path, "diff", "long/2", "long/3", "--full").stdout


def test_tools_that_nobody_declared_say_nothing_of_the_cache(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with convlog.open(path) as store:
        thread = store.create_thread(title="bare")
        thread.user("Read it.")
        thread.prepare()
        thread.call("c", "Read", {"path": "a"})
        thread.result("c", "text")
        thread.prepare()
        thread.prepare(options={"max_tokens": 9})
        thread.prepare(tools=[{"name": "Read", "input_schema": {"type": "object"}}])
        thread.prepare(tools=[{"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}])
    said = "tools are stand-ins (X7): nothing can be said about the cache"
    first = run("-d", path, "diff", "bare/1", "bare/2").stdout
    assert said in first
    assert "no cached prefix" not in first
    options = run("-d", path, "diff", "bare/2", "bare/3").stdout
    assert "max_tokens differs: no cached prefix is left" in options
    assert said in run("-d", path, "diff", "bare/2", "bare/4").stdout
    declared = run("-d", path, "diff", "bare/4", "bare/5").stdout
    assert said not in declared
    assert "tools differs: no cached prefix is left" in declared
    (line,) = lines(run("-d", path, "diff", "bare/1", "bare/2", "--json").stdout)
    assert line["tools_stand_in"] is True


def test_two_versions_of_one_prompt_are_compared(run: Run, talk: Path) -> None:
    result = run("-d", talk, "diff", f"{TALK}/4", "--as", "turn-memory@1", "--as", "turn-memory@6")
    assert "turn-memory@1 anthropic@1" in result.stdout.splitlines()[0]
    assert "turn-memory@6 anthropic@1" in result.stdout.splitlines()[1]


def test_options_that_differ_are_shown(run: Run, talk: Path) -> None:
    output = run("-d", talk, "diff", f"{TALK}/2", f"{TALK}/3").stdout
    assert "max_tokens differs: no cached prefix is left" in output
    assert "\nchanged at /max_tokens\n" in output


def test_equal_prompts_are_the_same(run: Run, talk: Path) -> None:
    result = run("-d", talk, "diff", f"{TALK}/2", f"{TALK}/2", "--exit-code")
    assert result.exit_code == 0
    assert "the same: " in result.stdout
    assert run("-d", talk, "diff", f"{TALK}/1", f"{TALK}/2", "--exit-code").exit_code == 1
    assert run("-d", talk, "diff", f"{TALK}/2", f"{TALK}/3", "--exit-code").exit_code == 1


def test_a_comparison_as_json_has_all_of_it(run: Run, talk: Path) -> None:
    (line,) = lines(run("-d", talk, "diff", f"{TALK}/2", f"{TALK}/3", "--json").stdout)
    assert line["schema"] == "convlog.diff/1"
    assert [field["name"] for field in line["fields"]] == ["max_tokens"]
    assert {"old", "new", "counts", "prefix_blocks", "prefix_bytes", "changes", "first_difference_event"} <= set(line)
    assert line["surroundings_differ"] is True


@pytest.mark.parametrize(
    "args",
    [
        [f"{TALK}/1"],
        [f"{TALK}/1", "--as", "transcript@1"],
        [f"{TALK}/1", f"{TALK}/2", "--as", "a@1", "--as", "b@1", "--as", "c@1"],
        [f"{TALK}/1", f"{TALK}/9"],
        [f"{TALK}/1", f"{TALK}/2", "--as", "mine@9"],
    ],
    ids=" ".join,
)
def test_a_comparison_needs_two_prompts(run: Run, talk: Path, args: list[str]) -> None:
    assert run("-d", talk, "diff", *args).exit_code == 2


def test_another_encoder_says_for_which_model_it_derives(run: Run, talk: Path) -> None:
    result = run("-d", talk, "replay", "latest", "--encoder", "openai-chat@1")
    assert "derived for gpt-5.4 (as asked: nothing to compare with)" in result.stdout
    found = lines(run("-d", talk, "replay", "latest", "--encoder", "gemini@1", "--json").stdout)
    assert {line["target"] for line in found} == {"gemini-3-flash-preview"}
    result = run("-d", talk, "replay", "latest/1", "--format", "anthropic", "--encoder", "openai-chat@1")
    assert result.exit_code == 2
    assert "--format anthropic names an encoder" in result.stderr
