"""What `convlog import` says of the files that it looked at: a line for a file, a table for a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .text import counted, fit, table, visible_line, width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convlog.eventstore.importers import Found, ImportReport

    from .shell import Shell

WARNINGS_SHOWN = 10
"""Warnings of one file that are shown unless more are asked for."""

FILE_COLUMNS_MIN = 12


def say_unknown(shell: Shell, found: Found) -> None:
    """Say, when more is asked for, that no importer knows a file of a folder."""
    if shell.as_json:
        _emit(shell, found)
    elif shell.verbose:
        shell.say(f"{visible_line(found.path)}: {found.error.message if found.error else 'of no known form'}")


def say(shell: Shell, found: Found, *, told: int = 0) -> None:
    """Say what became of one file; `told` of its warnings are known already."""
    if shell.as_json:
        _emit(shell, found)
        return
    report = found.report
    if report is None or report.refused:
        _say_failed(shell, found)
    else:
        write_lines(shell, visible_line(found.path), _summary(report))
    if report is not None:
        _say_warnings(shell, found.path, report, told)


def say_folder(shell: Shell, folder: str, rows: Sequence[Found]) -> None:
    """Say what became of the files of a folder, in a table with their sum; warnings are counted, or shown with -v."""
    if shell.as_json:
        for found in rows:
            _emit(shell, found)
        return
    reports = []
    for found in rows:
        if found.report is None or found.report.refused:
            _say_failed(shell, found)
        else:
            reports.append((str(Path(found.path).relative_to(folder)), found.report))
        if found.report is not None and shell.verbose:
            _say_warnings(shell, found.path, found.report, 0)
    if reports:
        shell.write(_table(reports, shell.columns))
    lost = sum(report.lost for _, report in reports)
    if lost:
        shell.say(f"{counted(lost, 'record')} lost" + ("" if shell.verbose else "; -v names them"))


def _table(reports: Sequence[tuple[str, ImportReport]], columns: int) -> str:
    adds = "would add" if reports[0][1].dry_run else "added"
    head = ("file", "form", "messages", "calls", adds, "warnings")
    counts = [
        (report.messages, report.tool_calls, report.appended, sum(report.warning_counts.values()))
        for _, report in reports
    ]
    total = [f"{sum(column):,}" for column in zip(*counts, strict=True)]
    rows = [
        [report.format, *(f"{count:,}" for count in each)] for (_, report), each in zip(reports, counts, strict=True)
    ]
    rows.append(["", *total])
    others = [max(len(row[index]) for row in (head[1:], *rows)) for index in range(len(head) - 1)]
    room = max(FILE_COLUMNS_MIN, columns - sum(others) - 2 * len(others))
    names = [_fit_end(visible_line(name), room) for name, _ in reports]
    names.append(counted(len(reports), "file"))
    cells = [[name, *row] for name, row in zip(names, rows, strict=True)]
    return table(cells, head=head, columns=columns, elastic=0, right=head[2:])


def _fit_end(path: str, columns: int) -> str:
    """Cut a path to some columns at its beginning: its end tells most."""
    return path if width(path) <= columns else f"…{fit(path[::-1], columns)[-2::-1]}"


def _say_failed(shell: Shell, found: Found) -> None:
    report, error = found.report, found.error
    if report is not None:
        path = visible_line(found.path)
        shell.warn(f"error: {path}: {counted(report.lost, 'record')} would be lost; nothing was written")
        return
    shell.warn(f"error: {visible_line(error.message if error else found.path)}")
    if error is not None and error.hint:
        shell.warn(f"hint: {visible_line(error.hint)}")


def _say_warnings(shell: Shell, name: str, report: ImportReport, told: int) -> None:
    path = visible_line(name)
    new = report.warnings[told:]
    shown = new if shell.verbose else new[:WARNINGS_SHOWN]
    for warning in shown:
        shell.say(f"{path}:{warning.line}: {warning.code} {visible_line(warning.detail)}".rstrip())
    more = sum(report.warning_counts.values()) - told - len(shown)
    if more > 0:
        shell.say(f"{path}: {counted(more, 'more warning')}" + ("" if shell.verbose else "; -v shows them"))


def write_lines(shell: Shell, path: str, words: str) -> None:
    """Write what became of a file, below its path where both are too long for a line; the path's end tells most."""
    from textwrap import wrap

    room = shell.columns
    if width(path) + 2 + width(words) <= room:
        shell.write(f"{path}  {words}")
        return
    shell.write(_fit_end(path, room))
    for line in wrap(words, max(40, room), initial_indent="  ", subsequent_indent="  "):
        shell.write(line)


def _summary(report: ImportReport) -> str:
    messages = counted(report.messages, "message")
    new = "would add" if report.dry_run else "added"
    threads = " ".join(thread[:8] for thread in report.thread_ids[:3]) + (" ..." if report.threads > 3 else "")
    unanswered = max(0, report.tool_calls - report.tool_results)
    calls = counted(report.tool_calls, "tool call") + (f" ({unanswered:,} without a result)" if unanswered else "")
    lost = f", {counted(report.lost, 'record')} lost" if report.lost else ""
    return (
        f"{report.format}: {messages}, {calls}{lost};"
        f" {new} {counted(report.appended, 'event')} in {threads or 'no thread'}"
    )


def _emit(shell: Shell, found: Found) -> None:
    error = found.error
    shell.emit(
        "import/1",
        path=visible_line(found.path),
        format=found.format,
        report=found.report,
        error=None if error is None else {"code": error.code, "message": error.message, "hint": error.hint},
    )
