"""`convlog import`: recorded sessions of agents become threads."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from .import_reports import say, say_folder, say_unknown, write_lines
from .moments import moment_us
from .shell import Shell
from .text import counted, visible_line, when

if TYPE_CHECKING:
    from convlog.eventstore.importers import Found, ImportReport
    from convlog.eventstore.importers.files import FolderProgress
    from convlog.eventstore.store import Store

STDIN = "-"
NATIVE = "convlog"

BAR_BYTES_MIN = 1024 * 1024
"""Files under this are read before a progress bar could be seen."""


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE|FOLDER|-...", type=click.Path(allow_dash=True))
@click.option("--from", "form", metavar="FORMAT", help="The form of the files (default: detected).")
@click.option("--since", metavar="WHEN", help="Only files whose user spoke since then: a date or time, or 180d, 2h.")
@click.option("--watch", "watching", is_flag=True, help="Go on with what files and folders grow by, until Ctrl-C.")
@click.option(
    "--interval",
    metavar="SECONDS",
    type=click.FloatRange(min=0.01, max=86_400),
    default=1.0,
    show_default=True,
    help="Time between two looks of --watch.",
)
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
    since: str | None,
    watching: bool,
    interval: float,
    dry_run: bool,
    strict: bool,
    again: bool,
    title: str | None,
) -> None:
    """Take in recorded sessions.

    Files, all files below a folder, or - for stdin. What the store has already is not stored again; files are only
    read. A damaged record costs that record and is reported with its line. Exit code 1 where a file could not be
    taken in.

    --since goes by when the user of a file spoke last, and by when the file changed where no time is told.
    """
    shell: Shell = ctx.obj
    _check_paths(paths, watching=watching)
    _check_form(form)
    if title is not None:
        _check_title(title, paths)
    options = {"format": form, "strict": strict, "again": again, "since_us": moment_us(since) if since else None}
    if watching:
        if dry_run or title is not None or form == NATIVE:
            raise click.UsageError("--watch goes with --from (a foreign form), --since, --strict, --again, --interval")
        _watch(shell, paths, interval, options)
        return
    with _store(shell, dry_run=dry_run) as store, _bar(shell) as progress:
        taking = Taking(shell, store, progress, options | {"dry_run": dry_run}, title)
        for path in paths:
            taking.take(path)
    taking.say_rest()
    if taking.failed:
        ctx.exit(1)


class Taking:
    """One run over paths: what is said of each, and what is counted over all."""

    def __init__(
        self,
        shell: Shell,
        store: Store,
        progress: FolderProgress | None,
        options: dict[str, Any],
        title: str | None,
    ) -> None:
        self.failed = 0
        self._shell = shell
        self._store = store
        self._progress = progress
        self._options = options
        self._title = title
        self._unknown = self._older = 0

    def take(self, path: str) -> None:
        """Take in what lies at a path, and say what became of it."""
        data = sys.stdin.buffer.read() if path == STDIN else None
        if _is_native(path, data, self._options["format"]):
            if self._title is not None:
                raise click.UsageError("an export keeps its own name; --thread is for sessions")
            self.failed += not _import_native(self._shell, self._store, path, data, self._options)
            return
        rows = _import(self._store, path, data, self._progress, self._options)
        is_folder = data is None and Path(path).is_dir()
        rows = [found for found in rows if not self._is_left_alone(found, is_folder=is_folder)]
        self.failed += sum(found.report is None or found.report.refused for found in rows)
        if is_folder:
            say_folder(self._shell, path, rows)
            return
        for found in rows:
            say(self._shell, found)
            if self._title is not None and found.report is not None and not self._options["dry_run"]:
                _name(self._store, found.report, self._title)

    def _is_left_alone(self, found: Found, *, is_folder: bool) -> bool:
        if found.is_older:
            self._older += 1
        elif is_folder and found.report is None and found.format is None:
            self._unknown += 1
            say_unknown(self._shell, found)
        else:
            return False
        return True

    def say_rest(self) -> None:
        """Say how many files were left alone, and why."""
        if self._unknown and not self._shell.verbose:
            self._shell.say(f"{counted(self._unknown, 'file')} of no known form left alone; -v names them")
        if self._older:
            moment = when(self._options["since_us"], utc=self._shell.utc)
            self._shell.say(f"{counted(self._older, 'file')} older than {moment} left alone")


def _watch(shell: Shell, paths: tuple[str, ...], interval_s: float, options: dict[str, Any]) -> None:
    """Follow files until Ctrl-C, which is how this ends: it is no failure."""
    from convlog.eventstore.importers import watch

    told: dict[str, int] = {}
    with _store(shell, dry_run=False) as store:
        shell.say(f"watching {' '.join(visible_line(path) for path in paths)}; Ctrl-C ends it")
        try:
            for found in watch(store, paths, sleep=time.sleep, interval_s=interval_s, options=options):
                say(shell, found, told=told.get(found.path, 0))
                if found.report is not None:
                    told[found.path] = len(found.report.warnings)
                sys.stdout.flush()
        except KeyboardInterrupt:
            shell.say("ended")


def _check_paths(paths: tuple[str, ...], *, watching: bool) -> None:
    for path in paths:
        if path == STDIN and watching:
            raise click.UsageError("stdin cannot be watched; name a file or a folder")
        if path != STDIN and not watching and not Path(path).exists():
            raise click.UsageError(f"{path!r} does not exist")


def _check_form(form: str | None) -> None:
    from convlog.eventstore.importers.forms import IMPORTERS

    known = [NATIVE, *(importer.name for importer in IMPORTERS)]
    if form is not None and form not in known:
        raise click.UsageError(f"--from {form!r:.60} is no form; known are {', '.join(known)}")


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
            report = import_file(store, data, **{key: options[key] for key in options if key != "since_us"})
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
        write_lines(shell, visible_line(path), f"{NATIVE}: {added} {what}")
    return True


def _opened(path: str, data: bytes | None) -> BinaryIO:
    return Path(path).open("rb") if data is None else io.BytesIO(data)


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
