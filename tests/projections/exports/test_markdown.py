"""The page: originals in full, branches and summaries where they belong, nothing that acts on a reader."""

from __future__ import annotations

import pytest

from convlog.eventstore.store import Store
from tests.projections.exports.threads import odd, talk
from tests.projections.exports.trips import exported


def page(data: bytes) -> str:
    return data.decode()


def test_a_page_tells_a_thread_from_the_top(store: Store) -> None:
    text = page(exported(talk(store), "markdown"))
    headings = [line.split(" · ")[0] for line in text.splitlines() if line.startswith("#")]
    assert headings == [
        *("# list files", "## Instructions set", "## Tools set", "## Tools set", "## User"),
        *("## Reasoning (claude-x)", "## Assistant (claude-x)", "## Call of `bash`", "## Call of `bash`"),
        *("## Result, error", "## Result, ok", "## Assistant (claude-x)"),
    ]
    assert '```json\n{"command":"ls"}\n```' in text
    assert "## User · 5 · 2026-01-02T10:00:00Z" in text
    assert "*(image image/png attachment " in text
    assert "> ls will do" in text


def test_hidden_characters_are_seen_and_words_cannot_break_the_page(store: Store) -> None:
    text = page(exported(odd(store), "markdown"))
    assert r"\x1b[31mred\x1b[0m \u202etxt \ud800" in text
    assert "\x1b" not in text
    assert "\n\\# not a heading\n\\<b>not bold\\</b> `<i>`\n```\n<code>\n# same\n```\n" in text
    assert "````\nany text ``` at all\n````" in text
    assert "- [!] b (why)" in text
    assert "```diff\n-a\n+b\n```" in text


def test_branches_stand_behind_the_active_path_below_their_fork(store: Store) -> None:
    thread = talk(store)
    thread.edit(5, "list them all")
    thread.name_branch("kept", 13)
    thread.text("All.")
    text = page(exported(thread, "markdown"))
    assert text.index("list them all") < text.index("# Branch") < text.index("Looking.")
    assert "*(here begin: 5)*" in text
    assert f"active node {thread.head}" in text
    assert "(kept): below 4" in text
    assert text.count("Looking.") == 1
    assert "Looking." not in page(exported(thread, "markdown", thread.head))


def test_a_summary_is_marked_and_what_it_stands_for_is_still_there(store: Store) -> None:
    thread = talk(store)
    at = thread.summarise(5, thread.head, "Two lines\nof summary.").position
    text = page(exported(thread, "markdown"))
    marked = text.index(f"> **Summary {at}** of 5..13")
    assert marked < text.index("> Two lines\n> of summary.") < text.index("list the files")
    assert text.index("One file.") < text.index(f"*(end of what summary {at} stands for)*")


def test_an_erased_node_and_an_interrupted_turn_are_said_so(store: Store) -> None:
    thread = store.create_thread()
    thread.user("secret")
    thread.end_turn("interrupted", error="ctrl-c")
    assert "*(the turn ended: interrupted, ctrl-c)*" in page(exported(thread, "markdown"))


@pytest.mark.parametrize("form", ["markdown", "atif", "openai-chat", "anthropic", "otel", "claude-code"])
def test_an_empty_thread_has_an_export_too(store: Store, form: str) -> None:
    assert isinstance(exported(store.create_thread(), form), bytes)
