"""Carrying out the steps of a case, by processes, and keeping the table from labels to what the store answered."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from . import worker

NODE_FIELDS = ("parent", "expect_leaf", "target", "from", "first", "last", "on")
NOWHERE = 2**40
"""Stands for a label that was never made: no store has the position."""

IN_RECORD = ("user", "assistant", "system", "reasoning", "tool_call", "tool_result", "edit", "regenerate")


class NotYet(Exception):
    """The case holds something that is not built."""


class Process:
    """A worker of its own."""

    def __init__(self, path: Path, mode: str = "write") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", worker.__name__, str(path), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[2],
        )

    def ask(self, step: dict[str, Any]) -> dict[str, Any]:
        """Let it carry out one step."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(step) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            msg = f"the worker ended with {self._process.wait()}"
            raise RuntimeError(msg)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self) -> None:
        """End it as a power switch would."""
        self._process.send_signal(signal.SIGKILL)
        self._close()

    def stop(self) -> None:
        """Let it end by itself."""
        self._close()

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()


class Run:
    """One case under way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "case.db"
        self.threads: dict[str, str] = {}
        self.labels: dict[str, tuple[str, int]] = {}
        """Label to (thread label, position)."""
        self.sends: dict[str, tuple[str, int]] = {}
        self.errors: list[dict[str, Any]] = []
        self.answers: dict[int, tuple[str, int]] = {}
        self.reports: list[dict[str, Any]] = []
        self.append_ms: list[float] = []
        self.lock_errors = 0
        self.old_bytes: dict[str, list[bytes]] = {}
        self._default_assembler: str | None = None
        self._writers: dict[str, Process] = {}
        self._torn_at: int | None = None

    # --- processes ---

    def process(self, name: str = "") -> Process:
        """Give the process of a writer, starting it when it is not there."""
        if name not in self._writers:
            self._writers[name] = Process(self.path)
        return self._writers[name]

    def settle(self) -> None:
        """Let every process end."""
        for process in self._writers.values():
            process.stop()
        self._writers.clear()

    # --- steps ---

    def steps(self, steps: list[dict[str, Any]], check: Any = None) -> None:
        """Carry out the steps in order; `check` judges the expectations of a `check` step."""
        for index, step in enumerate(steps):
            op = step["op"]
            if op == "check":
                self.settle()
                check(step["expect"])
            elif (method := getattr(self, f"_step_{op}", None)) is not None:
                method(index, step)
            else:
                self._record(index, step)

    def _record(self, index: int, step: dict[str, Any]) -> None:
        if not hasattr(worker.Worker, f"do_{step['op']}"):
            raise NotYet(f"step {step['op']}")
        if step.get("torn"):
            self._torn(step)
            return
        self._thread_of(step)
        answer = self.process(step.get("writer", "")).ask(self._resolved(step))
        self._take(index, step, answer)

    def _thread_of(self, step: dict[str, Any]) -> None:
        """A thread is also made by its first node."""
        label = step.get("thread", "t1")
        if step["op"] in IN_RECORD and label not in self.threads:
            self.threads[label] = self.process().ask({"op": "thread"})["thread"]

    def _resolved(self, step: dict[str, Any]) -> dict[str, Any]:
        resolved = dict(step)
        resolved["thread"] = self.threads.get(step.get("thread", "t1"), "f" * 32)
        if step.get("parent_thread"):
            resolved["parent_thread"] = self.threads.get(step["parent_thread"], "f" * 32)
        for field in NODE_FIELDS:
            if field in step and step[field] is not None:
                resolved[field] = self.labels.get(step[field], ("", NOWHERE))[1]
        if step["op"] == "send" and self._default_assembler:
            resolved["assembler"] = self._default_assembler
        return resolved

    def _take(self, index: int, step: dict[str, Any], answer: dict[str, Any]) -> None:
        if "error" in answer:
            self.lock_errors += answer["error"] == "locked"
            self.errors.append({"step": index, "code": answer["error"], "message": answer["message"]})
            return
        label = step.get("thread", "t1")
        if step["op"] == "thread":
            self.threads[label] = answer["thread"]
        elif step["op"] == "fork":
            self.threads[step["into"]] = answer["thread"]
        elif "position" in answer:
            self.answers[index] = (label, answer["position"])
            if step["op"] in IN_RECORD:
                self.append_ms.append(answer["ms"])
            if "as" in step:
                table = self.sends if step["op"] == "send" else self.labels
                table[step["as"]] = (label, answer["position"])
        if "report" in answer:
            self.reports.append(answer["report"])

    def _step_import(self, index: int, step: dict[str, Any]) -> None:
        from convlog.eventstore.importers import IMPORTERS

        if step["source"] not in {importer.name for importer in IMPORTERS}:
            raise NotYet(f"source {step['source']}")
        path = self.folder / f"import-{index}.jsonl"
        if "lines" in step:
            path.write_bytes("\n".join(step["lines"]).encode("utf-8", "surrogatepass"))
        else:
            path.write_text(json.dumps(step["json"]))
        answer = self.process(step.get("writer", "")).ask({"op": "import", "path": str(path), "source": step["source"]})
        self._take(index, step, answer)

    def _step_open(self, index: int, step: dict[str, Any]) -> None:
        process = self.process(step.get("writer", ""))
        if "thread" in step:
            self._take(index, step, process.ask(self._resolved(step)))

    def _step_reopen(self, _index: int, _step: dict[str, Any]) -> None:
        self.settle()

    def _step_upgrade(self, _index: int, step: dict[str, Any]) -> None:
        self.settle()
        if step.get("assembler"):
            self._default_assembler = step["assembler"]

    def _step_crash(self, _index: int, step: dict[str, Any]) -> None:
        for process in self._writers.values():
            process.kill()
        self._writers.clear()
        if self._torn_at is not None:
            wal = Path(f"{self.path}-wal")
            os.truncate(wal, min(wal.stat().st_size, self._torn_at + int(step.get("torn_bytes", 0))))
            self._torn_at = None

    def _torn(self, step: dict[str, Any]) -> None:
        """Let the append happen, and remember where the -wal is to be cut when the process is killed."""
        self._thread_of(step)
        answer = self.process().ask({"op": "torn", "step": self._resolved(step)})
        self._torn_at = answer["wal"]

    def _step_repeat(self, index: int, step: dict[str, Any]) -> None:
        rounds = [_filled(step["steps"], number) for number in range(step["times"])]
        count = step.get("parallel", 1)
        if count == 1:
            for inner in rounds:
                for each in inner:
                    self._record(index, each)
            return
        first = rounds[0][0]
        self._thread_of(first)
        processes = [Process(self.path) for _ in range(count)]
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(lambda number: self._rounds(index, rounds[number::count], processes[number]), range(count)))
        for process in processes:
            process.stop()

    def _rounds(self, index: int, rounds: list[list[dict[str, Any]]], process: Process) -> None:
        for inner in rounds:
            for step in inner:
                self._take(index, step, process.ask(self._resolved(step)))

    def _step_old_store(self, _index: int, step: dict[str, Any]) -> None:
        """The steps by the current code: one schema version of each event's envelope exists."""
        for inner in step["steps"]:
            self._record(-1, inner)
        self.settle()
        self._remember_bytes()

    def _remember_bytes(self) -> None:
        import convlog

        with convlog.open(self.path, mode="r") as store:
            for row in store.threads():
                log = store.log(row.thread)
                self.old_bytes[row.thread] = [record.body or b"" for record in log.read()]


def _filled(steps: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    filled: list[dict[str, Any]] = json.loads(json.dumps(steps).replace("{i}", str(number)))
    return filled


def run_case(case: dict[str, Any]) -> list[str]:
    """Run a case; give what does not hold (empty: passed).

    Raises:
        NotYet: it holds something that is not built.
    """
    from .expect import Judge, needed

    needed(case)
    folder = Path(tempfile.mkdtemp(prefix="convlog-case-"))
    run = Run(folder)
    failures: list[str] = []
    try:
        run.steps(case["input"]["steps"], lambda expect: failures.extend(Judge(run).judge(expect, partial=True)))
        run.settle()
        failures.extend(Judge(run).judge(case["expect"]))
    finally:
        run.settle()
        shutil.rmtree(folder)
    return failures
