"""The page of the commands is the one they make."""

from __future__ import annotations

from .page import PAGE, page


def test_the_page_says_what_the_commands_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it again: python -m tests.cli.page"
