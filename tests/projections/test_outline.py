"""outline@1: what a range says of itself, from its events alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convlog.eventstore.events import ApprovalAnswered, ApprovalAsked, Facts, Todo
from convlog.eventstore.store import Store, open_store
from convlog.eventstore.thread import Thread
from convlog.projections.material import material
from convlog.projections.stages.material_v1 import Material
from convlog.projections.stages.view_v1 import Stored
from convlog.projections.summaries.outline_v1 import NOTHING, Parameters, outline


def outlined(thread: Thread, first: int = 2, **parameters: Any) -> str:
    """Outline what lies at and below a node on the active path."""
    whole = material(thread)
    part = msgspec.structs.replace(whole, path=tuple(each for each in whole.path if each.position >= first))
    return outline(part, Parameters(**{"workspace": "/srv/app", **parameters}))


def section(text: str, title: str) -> list[str]:
    for part in text.split("\n\n"):
        head, *lines = part.split("\n")
        if head == f"{title}:":
            return lines
    return []


def run(thread: Thread, name: str, given_: dict[str, Any], *, status: str = "ok", **facts: Any) -> None:
    call = f"c{thread.position}"
    thread.call(call, name, given_)
    thread.result(call, "output", status=status, facts=Facts(**facts) if facts else None)


@pytest.fixture
def thread(store: Store) -> Thread:
    return store.create_thread(cwd="/srv/app")


def test_a_whole_range(thread: Thread) -> None:
    thread.user("Fix the  flaky\ntest.")
    thread.reasoning("It is the clock.")
    run(thread, "read_file", {"path": "/srv/app/a.py"})
    run(thread, "bash", {"command": "make test"}, command="make test", exit_code=2, failed_command="make test")
    run(thread, "edit_file", {"path": "/srv/app/a.py"}, path="/srv/app/a.py", file_changed="/srv/app/a.py")
    run(thread, "write_file", {"path": "/srv/app/b.py"})
    run(thread, "grep", {"path": "src", "pattern": "x"}, status="denied")
    run(thread, "bash", {"command": "make test"})
    run(thread, "bash", {"command": "make test"})
    thread.text("Fixed; one file is left.")
    thread.todo([Todo("fix a", "done"), Todo("fix b", "in_progress", "soon")])
    thread.call("open", "bash", {})
    thread.end_turn("interrupted")
    assert outlined(thread) == "\n".join(
        [
            *("Goals:", "- Fix the flaky test.", ""),
            *("Files changed:", "- a.py", ""),
            *("Files written, whether they changed was not stated:", "- b.py", ""),
            *(
                "Commands and outcomes:",
                "- make test: exit 2",
                "- grep src :: x: denied",
                "- make test: ok (2 times)",
                "",
            ),
            *("What remains:", "- [~] fix b (soon)", "- no result of bash", "- the last turn ended: interrupted", ""),
            *("Last said:", "- Fixed; one file is left."),
        ]
    )


def test_decisions_are_memory_notes_of_that_kind_and_answered_approvals(thread: Thread) -> None:
    thread.user("go")
    thread.call("a", "rm", {})
    thread.append(ApprovalAsked(call="a"))
    thread.append(ApprovalAnswered(decision="deny", by="rule", rule="no-rm", reason="too risky"))
    thread.append(ApprovalAsked(text="Push to main?"))
    thread.append(ApprovalAnswered(decision="once"))
    notes = tuple(
        Stored(90 + number, "memory.noted", b'{"kind":"host"}', None, msgspec.json.encode({"kind": kind, "text": kind}))
        for number, kind in enumerate(("decision", "fact"))
    )
    whole = material(thread)
    text = outline(Material(whole.path[1:], (*whole.notes, *notes), whole.at), Parameters())
    assert section(text, "Decisions") == [
        "- decision",
        "- denied by rule no-rm: rm (too risky)",
        "- allowed once by the user: Push to main?",
    ]


def test_only_the_range_counts(thread: Thread) -> None:
    thread.user("first")
    run(thread, "bash", {"command": "one"})
    thread.end_turn("error")
    second = thread.user("second")
    thread.text("Yes.")
    thread.end_turn()
    assert outlined(thread, second.position) == "Goals:\n- second\n\nLast said:\n- Yes."


def test_secrets_are_withheld_wherever_they_stand(thread: Thread) -> None:
    thread.user("Use password: hunter22 please")
    run(thread, "bash", {"command": "curl --token=abc123 x"})
    thread.text("The api_key=abcdef12 works.")
    text = outlined(thread)
    assert not any(secret in text for secret in ("hunter22", "abc123", "abcdef12"))


def test_texts_are_cut_and_commands_counted(thread: Thread) -> None:
    thread.user("é" * 100)
    for number in range(5):
        run(thread, "bash", {"command": f"step {number}"})
    text = outlined(thread, text_bytes=20, commands_max=2)
    assert section(text, "Goals") == [f"- {'é' * 8}..."]
    assert section(text, "Commands and outcomes") == ["- (3 earlier ones are left out)", "- step 3: ok", "- step 4: ok"]


def test_the_agents_own_tool_names_are_read_by_its_map(thread: Thread) -> None:
    thread.user("go")
    run(thread, "Bash", {"command": "make"}, exit_code=1)
    assert section(outlined(thread, agent="claude-code"), "Commands and outcomes") == ["- make: exit 1"]
    assert section(outlined(thread), "Commands and outcomes") == []


def test_a_range_in_which_nothing_happened_says_so(thread: Thread) -> None:
    thread.context("date", "Monday")
    assert outlined(thread) == NOTHING


@settings(max_examples=50, deadline=None)
@given(words=st.lists(st.text(st.characters(codec="utf-8"), max_size=30), max_size=6))
def test_every_line_is_one_line_and_the_text_is_never_blank(words: list[str]) -> None:
    thread = open_store(":memory:").create_thread()
    for word in words:
        thread.user(word)
        thread.call("c", "bash", {"command": word})
        thread.result("c", word)
        thread.text(word)
    text = outlined(thread)
    assert text.strip()
    assert all(
        line == "" or line.endswith(":") or line.startswith("- ") or line == NOTHING for line in text.split("\n")
    )
