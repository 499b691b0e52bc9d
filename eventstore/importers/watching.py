"""Files that still grow: looked at again and again, and brought in when they changed."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import ConvlogError, ImportFailed
from ..store import Store
from .files import Found, files_below, import_path

INTERVAL_S = 1.0
"""Seconds between two looks."""

State = tuple[int, int, int, int]
"""Size and time of change of a file, and those of the write-ahead log beside it."""


def watch(
    store: Store,
    paths: Iterable[str | os.PathLike[str]],
    *,
    sleep: Callable[[float], object] = time.sleep,
    stop: Callable[[], bool] = lambda: False,
    interval_s: float = INTERVAL_S,
    options: Mapping[str, Any] | None = None,
) -> Iterator[Found]:
    """Bring in files, and files below folders, whenever they changed; iterate over what brought something new.

    A file that ends within a line is left until the line is whole, or until nothing more came for one look. A file
    that is gone, or of no known form, is looked at again when it changes. What is read is the whole file: what the
    store has already is not stored again. A folder that one file stands for (OpenCode's) counts as changed with that
    file.

    Args:
        store: the store.
        paths: files and folders; they need not exist yet.
        sleep: waits for some seconds.
        stop: asked before each look whether to end; by default the iteration goes on until it is given up.
        interval_s: seconds between two looks.
        options: of `import_path`: `format`, `strict`, `again`, `since_us`.
    """
    roots = [Path(path) for path in paths]
    seen: dict[Path, tuple[State, bool]] = {}
    while not stop():
        for file in _changed(roots, seen):
            found = _bring_in(store, file, options or {})
            if _is_news(found):
                yield found
        sleep(interval_s)


def _changed(roots: Iterable[Path], seen: dict[Path, tuple[State, bool]]) -> Iterator[Path]:
    """Give the files to bring in now; noted of each is its state, and whether that was brought in."""
    for root in roots:
        for file in files_below(root) if root.is_dir() else (root,):
            state = _state(file)
            if state is None:
                continue
            before, is_taken = seen.get(file, (None, False))
            is_due = not is_taken if before == state else _ends_whole(file)
            seen[file] = state, is_due or before == state
            if is_due:
                yield file


def _state(file: Path) -> State | None:
    try:
        own = file.stat()
    except OSError:
        return None
    if not stat.S_ISREG(own.st_mode):
        return None  # a pipe would wait, a device never end
    try:
        log = file.with_name(f"{file.name}-wal").stat()
    except OSError:
        return own.st_size, own.st_mtime_ns, 0, 0
    return own.st_size, own.st_mtime_ns, log.st_size, log.st_mtime_ns


def _ends_whole(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            if stream.seek(0, os.SEEK_END) == 0:
                return False
            stream.seek(-1, os.SEEK_END)
            return stream.read(1) == b"\n"
    except OSError:
        return False


def _bring_in(store: Store, file: Path, options: Mapping[str, Any]) -> Found:
    try:
        (found,) = import_path(store, file, **options)
    except ConvlogError as error:
        return Found(path=str(file), error=error)
    return found


def _is_news(found: Found) -> bool:
    """Whether anybody needs to hear of it: a file of no known form, half written maybe, is none."""
    report = found.report
    if report is None:
        return found.error is not None and not isinstance(found.error, ImportFailed)
    return report.appended > 0 or report.refused
