"""A process that carries out the steps of a case: one JSON line in, one JSON line out.

Steps come with their labels resolved: `thread` is a thread id, node labels are positions.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

import convlog
from convlog.eventstore.canonical import split_halves
from convlog.eventstore.errors import ConvlogError
from convlog.eventstore.events import Facts, ParentCall, SegmentAdded, TurnState
from convlog.eventstore.summaries import fail_summary
from convlog.eventstore.thread import MODEL
from convlog.projections.stages.pieces_v1 import INSTRUCTIONS, Piece, Text


def register_assemblers(version: int) -> None:
    """Register `case@N`: transcript@1 and one fixed leading piece."""
    from convlog.projections.assemblers.transcript_v1 import Parameters, assemble

    lead = Piece(INSTRUCTIONS, "system", Text(f"case {version}"))

    def case(material: Any, parameters: Any) -> list[Piece]:
        return [lead, *assemble(material, parameters)]

    convlog.projection("case", version, parameters=Parameters)(case)


def assembler(name: str) -> str:
    """Give our address of a case's assembler name, registering it where it is a user's."""
    word, _, version = name.partition("/")
    if word != "case":
        return f"{word.replace('_', '-')}@{version}"
    if version == "1":
        return "transcript@1"
    register_assemblers(int(version))
    return f"case@{version}"


def microseconds(text: str) -> int:
    """Give the microseconds UTC of an ISO time."""
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1_000_000)


def peak_kib() -> int:
    """Give the most memory that this process held.

    Not getrusage where it can be helped: its figure holds what the parent had before this program was loaded.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))


class Worker:
    """One open store and the clock it was handed."""

    def __init__(self, path: str, mode: str) -> None:
        self._now: int | None = None
        self.store = convlog.open(path, mode="r" if mode == "read" else "rw", clock=self._clock)

    def _clock(self) -> int:
        return time.time_ns() // 1000 if self._now is None else self._now

    def do(self, step: dict[str, Any]) -> dict[str, Any]:
        """Carry out one step; a refusal is an answer."""
        started = time.perf_counter()
        try:
            answer: dict[str, Any] = getattr(self, f"do_{step['op']}")(step)
        except ConvlogError as error:
            return {"error": error.code, "message": str(error)}
        answer["ms"] = (time.perf_counter() - started) * 1000
        return answer

    def _thread(self, step: dict[str, Any]) -> convlog.Thread:
        return self.store.thread(step["thread"])

    def _options(self, step: dict[str, Any]) -> dict[str, Any]:
        options: dict[str, Any] = {}
        for field, name in (("parent", "parent"), ("key", "key"), ("expect_leaf", "expected_head")):
            if step.get(field) is not None:
                options[name] = step[field]
        if "at" in step:
            options["occurred_at"] = microseconds(step["at"])
        return options

    def _text(self, step: dict[str, Any], field: str = "text") -> str:
        if f"{field}_escaped" in step:
            text: str = json.loads('"' + step[f"{field}_escaped"].replace('"', '\\"') + '"')
            return text
        if f"{field}_generated" in step:
            made = step[f"{field}_generated"]
            return str(made["unit"] * made["times"])
        return str(step.get(field, ""))

    def do_thread(self, step: dict[str, Any]) -> dict[str, Any]:
        """Make a thread."""
        helper = step.get("role") == "helper"
        parent = ParentCall(step["parent_thread"]) if step.get("parent_thread") else None
        thread = self.store.create_thread(origin="subagent" if helper else "user", parent=parent)
        return {"thread": thread.id}

    def do_user(self, step: dict[str, Any]) -> dict[str, Any]:
        """Append a user's input."""
        return _appended(self._thread(step).user(self._text(step), **self._options(step)))

    def do_system(self, step: dict[str, Any]) -> dict[str, Any]:
        """Append system text."""
        return _appended(self._thread(step).system(self._text(step), **self._options(step)))

    def do_assistant(self, step: dict[str, Any]) -> dict[str, Any]:
        """Append prose."""
        return self._segment(step, "text")

    def do_reasoning(self, step: dict[str, Any]) -> dict[str, Any]:
        """Append reasoning."""
        return self._segment(step, "reasoning")

    def _segment(self, step: dict[str, Any], kind: Any) -> dict[str, Any]:
        text, halves = split_halves(self._text(step))
        body = SegmentAdded(
            kind=kind,
            text=text,
            halves=halves,
            item=step.get("item"),
            needs=step.get("needs"),
            signature=step.get("signature"),
            stop=step.get("stop"),
        )
        source = msgspec.structs.replace(MODEL, provider=step.get("provider"))
        return _appended(self._thread(step).append(body, source=source, **self._options(step)))

    def do_tool_call(self, step: dict[str, Any]) -> dict[str, Any]:
        """Append a call."""
        return _appended(
            self._thread(step).call(step["call"], step["name"], step.get("args", {}), **self._options(step))
        )

    def do_tool_result(self, step: dict[str, Any]) -> dict[str, Any]:
        """Append an answer."""
        facts = msgspec.convert(step["meta"], Facts) if step.get("meta") else None
        return _appended(
            self._thread(step).result(
                step["call"],
                self._text(step, "output"),
                status=step.get("status", "ok"),
                facts=facts,
                **self._options(step),
            )
        )

    def do_edit(self, step: dict[str, Any]) -> dict[str, Any]:
        """Say a node again."""
        return _appended(self._thread(step).edit(step["target"], self._text(step), **self._options(step)))

    def do_regenerate(self, step: dict[str, Any]) -> dict[str, Any]:
        """Take another answer."""
        return _appended(self._thread(step).regenerate(step["target"], self._text(step), **self._options(step)))

    def do_select(self, step: dict[str, Any]) -> dict[str, Any]:
        """Move the head."""
        return _appended(self._thread(step).select(step["target"]))

    def do_fork(self, step: dict[str, Any]) -> dict[str, Any]:
        """Fork into a new thread."""
        return {"thread": self._thread(step).fork(step["from"]).id}

    def do_compact(self, step: dict[str, Any]) -> dict[str, Any]:
        """Store a summary, or its failure."""
        thread = self._thread(step)
        if step.get("fails"):
            fail_summary(thread, step["first"], step["last"], step["fails"])
            return {}
        return _appended(thread.summarise(step["first"], step["last"], step["summary"], on=step.get("on")))

    def do_invalidate(self, step: dict[str, Any]) -> dict[str, Any]:
        """Invalidate a summary."""
        return _appended(self._thread(step).invalidate(step["target"], step["reason"]))

    def do_redact(self, step: dict[str, Any]) -> dict[str, Any]:
        """Take words out of a node."""
        from convlog.eventstore.redaction import redact

        redact(
            self.store,
            self._thread(step).id,
            [step["target"]],
            match=step["match"],
            replacement=step["with"],
            reason=step["reason"],
        )
        return {}

    def do_send(self, step: dict[str, Any]) -> dict[str, Any]:
        """Prepare a prompt."""
        prompt = self._thread(step).prepare(assembler=assembler(step["assembler"]))
        return {"position": prompt.call}

    def do_turn_end(self, step: dict[str, Any]) -> dict[str, Any]:
        """End the turn."""
        state: TurnState = "interrupted" if step["status"] == "aborted" else step["status"]
        return _appended(self._thread(step).end_turn(state, **self._options(step)))

    def do_delete_thread(self, step: dict[str, Any]) -> dict[str, Any]:
        """Erase a thread."""
        self.store.delete_thread(self._thread(step).id)
        return {}

    def do_clock(self, step: dict[str, Any]) -> dict[str, Any]:
        """Set the clock."""
        self._now = microseconds(step["set"])
        return {}

    def do_open(self, step: dict[str, Any]) -> dict[str, Any]:
        """Look at a thread."""
        if "thread" in step:
            list(self._thread(step).path())
        return {}

    def do_peak(self, _step: dict[str, Any]) -> dict[str, Any]:
        """Say the most memory that this process held."""
        return {"kib": peak_kib()}

    def do_import(self, step: dict[str, Any]) -> dict[str, Any]:
        """Import a foreign file."""
        report = convlog.import_file(self.store, Path(step["path"]), format=step["source"])
        return {"report": msgspec.to_builtins(report)}

    def do_torn(self, step: dict[str, Any]) -> dict[str, Any]:
        """Append in a process that is killed inside the write (the caller cuts the -wal then)."""
        wal = Path(f"{self.store.place}-wal")
        before = wal.stat().st_size if wal.exists() else 0
        self.do(step["step"])
        return {"wal": before}


def _appended(done: Any) -> dict[str, Any]:
    return {"position": done.position, "thread": done.thread}


def main() -> None:
    """Serve steps until the input ends."""
    worker = Worker(sys.argv[1], sys.argv[2])
    for line in sys.stdin:
        print(json.dumps(worker.do(json.loads(line))), flush=True)
    worker.store.close()
    os._exit(0)


if __name__ == "__main__":
    main()
