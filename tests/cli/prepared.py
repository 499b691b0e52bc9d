"""A store with one thread whose prompts were prepared here."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import convlog
from convlog.eventstore.redaction import redact
from tests.projections.responses import asked, message, said

TALK = "till"


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """Give the path of a store whose thread `till` has four calls, an edited question and a named branch.

    Calls 1 and 2 belong to the first turn, call 3 to a second question, call 4 to that question said again.
    """
    path = tmp_path / "talk.db"
    with convlog.open(path) as store:
        thread = store.create_thread(title=TALK, agent="claude-code", cwd="/home/dev/till")
        thread.user("Why is the sum wrong?")
        first = thread.prepare(instructions="Be brief.")
        thread.record(
            message(said("Let me see."), asked("c1", "Read", file_path="/home/dev/till/sum.py")), call=first.call
        )
        thread.result("c1", "def total(): ...")
        second = thread.prepare(capture=True)
        thread.record(message(said("It rounds twice."), id_="msg_2"), call=second.call, sent=second.body)
        question = thread.user("And for francs?").position
        thread.prepare(options={"max_tokens": 1000})
        thread.name_branch("francs", question)
        thread.edit(question, "And for dollars?")
        thread.prepare()
    return path


def lines(text: str) -> list[dict[str, Any]]:
    """Parse JSON Lines."""
    return [json.loads(line) for line in text.splitlines()]


def position_of(path: Path, text: str) -> int:
    """Give the position of the event that says something."""
    with convlog.open(path, mode="r") as store:
        return next(event.position for event in store.thread(TALK).events() if text in repr(event.body))


def redact_in(path: Path, text: str) -> None:
    """Take words out of the thread."""
    with convlog.open(path) as store:
        redact(store, store.thread(TALK).id, match=text, replacement="[gone]", reason="test")


def damage(path: Path) -> None:
    """Change a word of the thread behind the store's back."""
    db = sqlite3.connect(path)
    with db:
        triggers = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        db.execute("UPDATE events SET body = replace(body, 'sum wrong', 'sum right') WHERE position = 2")
        for _, statement in triggers:
            db.execute(statement)
    db.close()
