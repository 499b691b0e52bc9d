"""`convlog import`: recorded sessions of agents become threads."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from .shell import Shell
from .text import counted, fit, visible_line, width

if TYPE_CHECKING:
    from convlog.eventstore.importers import Found, ImportReport
    from convlog.eventstore.importers.files import FolderProgress
    from convlog.eventstore.store import Store

STDIN = "-"
NATIVE = "convlog"

WARNINGS_SHOWN = 10
"""Warnings of one file that are shown unless more are asked for."""

BAR_BYTES_MIN = 1024 * 1024
"""Files under this are read before a progress bar could be seen."""


@click.command()
@click.argument(
    "paths", nargs=-1, required=True, metavar="FILE|FOLDER|-...", type=click.Path(exists=True, allow_dash=True)
)
@click.option("--from", "form", metavar="FORMAT", help="The form of the files (default: detected).")
@click.option("--dry-run", is_flag=True, help="Read and report, write nothing.")
@click.option("--strict", is_flag=True, help="Take a file in only where no record of it would be lost.")
@click.option("--again", is_flag=True, help="Take in threads, too, that were deleted here.")
@click.option("--thread", "title", metavar="NAME", help="A name for the one file's thread.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    paths: tuple[str, ...],
    form: str | None,
    dry_run: bool,
    strict: bool,
    again: bool,
    title: str | None,
) -> None:
    """Take in recorded sessions.

    Files, all files below a folder, or - for stdin. What the store has already is not stored again; files are only
    read. A damaged record costs that record and is reported with its line. Exit code 1 where a file could not be
    taken in.
    """
    shell: Shell = ctx.obj
    if title is not None:
        _check_title(title, paths)
    options = {"format": form, "dry_run": dry_run, "strict": strict, "again": again}
    failed = unknown = 0
    with _store(shell, dry_run=dry_run) as store, _bar(shell) as progress:
        for path in paths:
            data = sys.stdin.buffer.read() if path == STDIN else None
            if _is_native(path, data, form):
                if title is not None:
                    raise click.UsageError("an export keeps its own name; --thread is for sessions")
                failed += not _import_native(shell, store, path, data, options)
                continue
            for found in _import(store, path, data, progress, options):
                if found.report is None and found.format is None and Path(path).is_dir():
                    unknown += 1
                    _say_unknown(shell, found)
                    continue
                failed += found.report is None or found.report.refused
                _say(shell, found)
                if title is not None and found.report is not None and not dry_run:
                    _name(store, found.report, title)
    if unknown and not shell.verbose:
        shell.say(f"{counted(unknown, 'file')} of no known form left alone; -v names them")
    if failed:
        ctx.exit(1)


def _check_title(title: str, paths: tuple[str, ...]) -> None:
    from convlog.eventstore.records import check_name

    if len(paths) != 1 or Path(paths[0]).is_dir():
        raise click.UsageError("--thread names the thread of one file")
    check_name(title, "title")


def _store(shell: Shell, *, dry_run: bool) -> Store:
    """Open the store to write; a dry run reads it, or does with none."""
    from convlog.eventstore.store import open_store

    if dry_run:
        return shell.open() if shell.place.path.exists() else open_store(":memory:")
    return shell.open(write=True, create=True)


def _import(
    store: Store, path: str, data: bytes | None, progress: FolderProgress | None, options: dict[str, Any]
) -> list[Found]:
    from convlog.eventstore.errors import ImportFailed, ThreadDeleted
    from convlog.eventstore.importers import Found, import_file, import_path

    try:
        if data is not None:
            report = import_file(store, data, **options)
            return [Found(path=STDIN, format=report.format, report=report)]
        return import_path(store, path, progress=progress, **options)
    except (ImportFailed, ThreadDeleted) as error:
        return [Found(path=path, error=error)]


def _name(store: Store, report: ImportReport, title: str) -> None:
    """Give the file's first thread a name, once."""
    if report.thread_ids:
        thread = store.thread(report.thread_ids[0])
        if thread.title != title:
            thread.set_title(title)


# --- native exports ---


def _is_native(path: str, data: bytes | None, form: str | None) -> bool:
    """Whether a file is an export of this program, by name or by its first line."""
    from convlog.eventstore.native import LINE_BYTES_MAX
    from convlog.eventstore.native_import import is_native

    if form is not None or (data is None and not Path(path).is_file()):
        return form == NATIVE  # what is no regular file is not even opened: a pipe would wait, a device never end
    with _opened(path, data) as stream:
        return is_native(stream.readline(LINE_BYTES_MAX))


def _import_native(shell: Shell, store: Store, path: str, data: bytes | None, options: dict[str, Any]) -> bool:
    """Take in an export of this program; a dry run checks the file by itself. Whether it came in."""
    from convlog.eventstore.errors import Diverged, ImportFailed, ThreadDeleted
    from convlog.eventstore.native_import import import_native
    from convlog.eventstore.store import open_store

    dry_run = options["dry_run"]
    try:
        with _opened(path, data) as lines, open_store(":memory:") if dry_run else nullcontext(store) as target:
            done = import_native(target, lines, again=options["again"])
    except (ImportFailed, Diverged, ThreadDeleted) as error:
        shell.report(error)
        return False
    if shell.as_json:
        shell.emit(
            "import-native/1", path=visible_line(path), thread=done.thread, events=done.events, stored=done.stored
        )
    else:
        added = "whole, would add at most" if dry_run else "added"
        what = f"{counted(done.stored, 'event')} of {done.events:,} in {done.thread[:8]}"
        _write(shell, visible_line(path), f"{NATIVE}: {added} {what}")
    return True


def _opened(path: str, data: bytes | None) -> BinaryIO:
    return Path(path).open("rb") if data is None else io.BytesIO(data)


# --- words ---


def _say_unknown(shell: Shell, found: Found) -> None:
    if shell.as_json:
        _emit(shell, found)
    elif shell.verbose:
        shell.say(f"{visible_line(found.path)}: {found.error.message if found.error else 'of no known form'}")


def _say(shell: Shell, found: Found) -> None:
    if shell.as_json:
        _emit(shell, found)
        return
    report = found.report
    if report is None:
        shell.warn(f"error: {visible_line(found.error.message if found.error else found.path)}")
        if found.error is not None and found.error.hint:
            shell.warn(f"hint: {visible_line(found.error.hint)}")
        return
    path = visible_line(found.path)
    if report.refused:
        shell.warn(f"error: {path}: {counted(report.lost, 'record')} would be lost; nothing was written")
    else:
        _write(shell, path, _summary(report))
    shown = report.warnings if shell.verbose else report.warnings[:WARNINGS_SHOWN]
    for warning in shown:
        shell.say(f"{path}:{warning.line}: {warning.code} {visible_line(warning.detail)}".rstrip())
    more = sum(report.warning_counts.values()) - len(shown)
    if more:
        shell.say(f"{path}: {counted(more, 'more warning')}" + ("" if shell.verbose else "; -v shows them"))


def _write(shell: Shell, path: str, words: str) -> None:
    """Write what became of a file, below its path where both are too long for a line; the path's end tells most."""
    from textwrap import wrap

    room = shell.columns
    if width(path) + 2 + width(words) <= room:
        shell.write(f"{path}  {words}")
        return
    shell.write(path if width(path) <= room else f"…{fit(path[::-1], room)[-2::-1]}")
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


# --- the progress bar ---


@contextmanager
def _bar(shell: Shell) -> Iterator[FolderProgress | None]:
    """Give what draws a bar on a terminal for long files; None where nobody watches."""
    if shell.quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    name = TextColumn("{task.description}", markup=False)
    with Progress(
        name, BarColumn(), DownloadColumn(), TimeRemainingColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        tasks: dict[Path, Any] = {}

        def tell(path: Path, read: int, whole: int) -> None:
            if whole < BAR_BYTES_MIN:
                return
            if path not in tasks:
                for task in tasks.values():
                    bar.update(task, visible=False)
                tasks[path] = bar.add_task(visible_line(path.name), total=whole)
            bar.update(tasks[path], completed=read)

        yield tell
