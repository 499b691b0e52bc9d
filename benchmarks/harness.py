"""Measuring: medians of alternating runs in one process, and a table that says met or missed.

Wall times on a shared machine swing by a factor; ratios of things done in turn hold. So every figure with a limit is a
ratio to a floor that was timed between the same instants, or is far enough from its limit to stand alone.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parents[1]


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How much is done for a figure."""

    runs: int = 5
    appends: int = 600
    """Events appended one by one in a run."""
    turns_short: int = 10
    turns_long: int = 10_000
    turns_read: int = 1_000
    nodes_long: int = 10_000
    store_events: int = 1_000_000
    """Events of the large store; a tenth as many threads."""
    processes: int = 15
    """Starts of a process for one figure."""
    judged: bool = True


SMOKE = Sizes(
    runs=1,
    appends=40,
    turns_short=2,
    turns_long=20,
    turns_read=10,
    nodes_long=200,
    store_events=500,
    processes=2,
    judged=False,
)
"""Small enough for seconds in all; says nothing about speed."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One measured number, with its limit where it has one."""

    name: str
    value: float
    unit: str = "x"
    limit: float | None = None
    at_least: bool = False
    """The limit is a lower one."""
    note: str = ""

    @property
    def verdict(self) -> str:
        """`met`, `missed`, or nothing where there is no limit."""
        if self.limit is None:
            return ""
        fine = self.value >= self.limit if self.at_least else self.value <= self.limit
        return "met" if fine else "missed"

    @property
    def target(self) -> str:
        """The limit as shown."""
        return "" if self.limit is None else f"{'>=' if self.at_least else '<='} {self.limit:g} {self.unit}"


Group = Callable[[Sizes, Path], Iterator[Figure]]


def in_turn(steps: int, *variants: Callable[[int], Any]) -> list[list[float]]:
    """Do each step once with every variant, in changing order, and give each variant's seconds by step."""
    seconds: list[list[float]] = [[] for _ in variants]
    gc.collect()
    for step in range(steps):
        for turn in range(len(variants)):
            index = (step + turn) % len(variants)
            seconds[index].append(timed(variants[index], step))
    return seconds


def timed(function: Callable[..., Any], *arguments: Any) -> float:
    """Give the seconds of one call."""
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def compared(
    name: str,
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]],
    *,
    limit: float | None = None,
    scale: float = 1.0,
    note: str = "",
) -> Figure:
    """Give ours : floor over runs of (our seconds, the floor's seconds); the median run's ratio of medians.

    `scale` divides our seconds, where one of our steps does the work of several of the floor's.
    """
    ratios = [median(ours) / scale / median(floor) for ours, floor in pairs]
    us_ours = median(median(ours) for ours, _ in pairs) / scale * 1e6
    us_floor = median(median(floor) for _, floor in pairs) * 1e6
    shown = f"{us_ours:,.1f} us : {us_floor:,.1f} us"
    if len(ratios) > 1:
        shown += f"; runs {min(ratios):.2f}-{max(ratios):.2f}"
    return Figure(name=name, value=median(ratios), limit=limit, note=f"{shown}; {note}" if note else shown)


def repeated(runs: int, *variants: Callable[[], Any]) -> list[list[float]]:
    """Run whole variants in turn, one warm-up each first, and give each one's seconds by run."""
    for variant in variants:
        variant()
    return in_turn(runs, *[lambda _, variant=variant: variant() for variant in variants])


def environment() -> dict[str, str]:
    """Give the environment of measured processes: compiled modules are kept, as in an installed package."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def process_seconds(code: str, *arguments: str) -> float:
    """Give the wall seconds of a Python process that runs `code`, output thrown away.

    Raises:
        RuntimeError: it did not end well.
    """
    command = [sys.executable, "-c", code, *arguments]
    start = time.perf_counter()
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    seconds = time.perf_counter() - start
    if ended.returncode != 0:
        raise RuntimeError(f"{command} ended with {ended.returncode}: {ended.stderr.decode()}")
    return seconds


PEAK_CODE = """
def peak_kib():
    try:
        # Not getrusage: its figure holds what the parent had before this program was loaded.
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    except FileNotFoundError:
        import resource
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
"""
"""Defines `peak_kib()`: the most memory that the process held."""


def peak_mb(code: str, *arguments: str) -> float:
    """Give the most memory, in MB, that a Python process held while it ran `code`."""
    command = [sys.executable, "-c", f"{PEAK_CODE}\n{code}\nprint(peak_kib())", *arguments]
    ended = subprocess.run(
        command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    return int(ended.stdout.split()[-1]) * 1024 / 1e6


def file_bytes(path: Path) -> int:
    """Give the size of a database file and its -wal."""
    return sum(
        os.path.getsize(name)  # noqa: PTH202 - a name with a suffix added, not a path of its own
        for name in (str(path), f"{path}-wal")
        if os.path.exists(name)  # noqa: PTH110 - as above
    )


def table(figures: Iterable[tuple[str, Figure]], *, judged: bool) -> Iterator[str]:
    """Give the lines of a Markdown table of (group, figure)."""
    yield "| group | figure | value | target | | measured |"
    yield "|---|---|---|---|---|---|"
    for group, figure in figures:
        verdict = figure.verdict if judged else ""
        yield (
            f"| {group} | {figure.name} | {figure.value:,.2f} {figure.unit} | {figure.target} | {verdict}"
            f" | {figure.note} |"
        )
