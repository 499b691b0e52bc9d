"""Turn memory of a recorded Claude Code session: one turn, counted by hand in its file."""

from __future__ import annotations

import convlog
from convlog.eventstore.importers import import_file
from convlog.projections.views import view
from tests.recorded import recorded


def test_turn_memory_of_the_recorded_session_is_right_by_hand() -> None:
    with convlog.open(":memory:") as store:
        thread = store.thread(import_file(store, recorded("claude-code-real.jsonl")).thread_ids[0])
        kept = [piece for piece in view(thread, "turn-memory@6") if piece.provenance == "turn-memory"]
    # The first turn is the one that is over: words, a call of a server's tool, how it ended, and words again.
    assert [(piece.role, type(piece.element).__name__) for piece in kept] == [
        ("assistant", "Text"),
        ("assistant", "Call"),
        ("tool", "Result"),
        ("assistant", "Text"),
    ]
    words, called, ended, answer = [piece.element for piece in kept]
    assert words.text == "I'll help you with whatever you need! What would you like to work on today?"
    assert (called.name, called.input) == ("mcp__happy__change_title", "{}")
    assert (ended.status, [part.text for part in ended.content]) == ("ok", ['{"status":"success"}'])
    assert answer.text.startswith("<options>\n<option>Help me fix a bug</option>\n")
    assert answer.text.count("<option>") == 5
