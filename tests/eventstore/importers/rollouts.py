"""Codex rollouts made for tests."""

from __future__ import annotations

import json
from typing import Any

ID = "0190-aaaa"


class Rollout:
    """Writes the lines of one rollout, a second apart; `bare` writes them as older versions did."""

    def __init__(self, id_: str | None = ID, *, bare: bool = False, **meta: Any) -> None:
        self.lines: list[str] = []
        self._bare = bare
        self._ordinal = 0
        if id_ is not None and bare:
            self.lines.append(json.dumps({"id": id_, "timestamp": self.time(0), "instructions": None} | meta))
        elif id_ is not None:
            self.add("session_meta", {"id": id_, "timestamp": self.time(0), "cwd": "/w"} | meta)

    @staticmethod
    def time(seconds: float) -> str:
        """Give a time of the rollout."""
        return f"2026-01-02T10:{int(seconds // 60):02d}:{seconds % 60:06.3f}Z"

    def add(self, kind: str, payload: Any, **envelope: Any) -> None:
        """Add a line."""
        at = envelope.pop("at", len(self.lines))
        line: Any = {"timestamp": self.time(at), "type": kind, "payload": payload} | envelope
        self.lines.append(json.dumps(payload if self._bare else line, ensure_ascii=False))

    def item(self, type_: str, **fields: Any) -> None:
        """Add a response item."""
        envelope = {name: fields.pop(name) for name in ("at", "ordinal") if name in fields}
        self.add("response_item", {"type": type_} | fields, **envelope)

    def event(self, type_: str, **fields: Any) -> None:
        """Add an event."""
        envelope = {name: fields.pop(name) for name in ("at",) if name in fields}
        self.add("event_msg", {"type": type_} | fields, **envelope)

    def user(self, text: str, **fields: Any) -> None:
        """Add an input."""
        self.item("message", role="user", content=[{"type": "input_text", "text": text}], **fields)

    def says(self, text: str, **fields: Any) -> None:
        """Add words of the model."""
        self.item("message", role="assistant", content=[{"type": "output_text", "text": text}], **fields)

    def thinks(self, text: str, seal: str = "c2VhbA", **fields: Any) -> None:
        """Add reasoning."""
        summary = [{"type": "summary_text", "text": text}]
        self.item("reasoning", summary=summary, content=None, encrypted_content=seal, **fields)

    def calls(self, call: str, name: str = "shell", **fields: Any) -> None:
        """Add a call."""
        arguments = json.dumps(fields.pop("arguments", {"command": ["ls"]}))
        self.item("function_call", name=name, arguments=arguments, call_id=call, **fields)

    def returns(self, call: str, output: Any = "a.txt", **fields: Any) -> None:
        """Add an output."""
        self.item("function_call_output", call_id=call, output=output, **fields)

    def tokens(self, total: int, last: int | None = None, **fields: Any) -> None:
        """Add a count of tokens: of the whole rollout, and of the last response."""
        info: dict[str, Any] = {"total_token_usage": counted(total)}
        if last is not None:
            info["last_token_usage"] = counted(last)
        self.event("token_count", info=info, rate_limits={}, **fields)

    @property
    def data(self) -> bytes:
        """The file."""
        return "".join(f"{line}\n" for line in self.lines).encode()


def counted(tokens: int) -> dict[str, int]:
    """Give counts of which all can be told from one."""
    return {
        "input_tokens": 10 * tokens,
        "cached_input_tokens": 4 * tokens,
        "output_tokens": 2 * tokens,
        "reasoning_output_tokens": tokens,
        "total_tokens": 12 * tokens,
    }


def compacted(**payload: Any) -> Rollout:
    """Give a rollout that was compacted once and went on."""
    rollout = Rollout()
    rollout.user("start")
    rollout.calls("c1")
    rollout.returns("c1")
    rollout.says("ready")
    rollout.add("compacted", payload)
    rollout.event("context_compacted")
    rollout.user("go on")
    return rollout
