"""Files and folders of foreign sessions into a store."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from ..errors import ConvlogError, ImportFailed
from ..store import Store
from .archives import unpacked
from .base import Importer
from .forms import HEAD_BYTES, detect, importer_named, is_member, names
from .report import ImportReport
from .run import Progress, carry_out

ARCHIVES = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ": "xz", b"BZh": "bzip2"}

FolderProgress = Callable[[Path, int, int], None]
"""Told the file, the bytes of it read so far, and its bytes in all."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One file that an import looked at."""

    path: str
    format: str | None = None
    """None when no importer knows it."""
    report: ImportReport | None = None
    error: ConvlogError | None = None
    """Why it was not imported."""
    is_older: bool = False
    """It was left alone, since nothing in it is as new as was asked for."""


def import_file(
    store: Store,
    source: str | os.PathLike[str] | bytes,
    *,
    format: str | None = None,  # noqa: A002 - the word of the command; the built-in is not used here
    dry_run: bool = False,
    strict: bool = False,
    progress: Progress | None = None,
    again: bool = False,
) -> ImportReport:
    """Bring one file, or its bytes, into the store; what the store has already is not stored again.

    Args:
        store: the store.
        source: path or content.
        format: name of the form; by default it is detected.
        dry_run: read and report, write nothing.
        strict: write nothing when a record would be lost (`report.refused` then says so).
        progress: told the bytes read and the bytes in all, now and then.
        again: import a thread that was deleted from this store.

    Raises:
        ImportFailed: no such file, or no importer knows it.
        ThreadDeleted: one of its threads was deleted, and `again` was not asked for.
        Conflict: other writers were faster again and again.
    """
    path = None if isinstance(source, bytes) else Path(source)
    opened, size = _opened(source)
    importer = _importer(opened, path, format)
    if strict and not dry_run:
        report = carry_out(store, importer, opened, path, size, dry_run=True, again=again)
        if report.lost:
            report.refused = True
            return report
    return carry_out(store, importer, opened, path, size, dry_run=dry_run, again=again, progress=progress)


def import_path(
    store: Store,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - as above, the command's word
    dry_run: bool = False,
    strict: bool = False,
    progress: FolderProgress | None = None,
    again: bool = False,
    since_us: int | None = None,
) -> list[Found]:
    """Bring in a file, or all files below a folder in the order of their last user's words; links are not followed.

    The arguments are those of `import_file`. In a folder a file that fails does not stop the others. With `since_us`
    (microseconds UTC) only files are taken in whose user spoke then or later, and of those in which no user speaks,
    or no time is told, the ones that changed then or later.

    Returns:
        A row for each file, those that no importer knows at the end.

    Raises:
        ImportFailed: nothing is there, or the one file cannot be taken in.
    """
    root = Path(path)

    def bring_in(file: Path, format: str | None) -> ImportReport:  # noqa: A002 - as above, the command's word
        told = None if progress is None else (lambda read, size: progress(file, read, size))
        return import_file(store, file, format=format, dry_run=dry_run, strict=strict, progress=told, again=again)

    if not root.is_dir():
        if since_us is not None and _is_older(root, _last_user_time(root, format), since_us):
            return [Found(path=str(root), is_older=True)]
        report = bring_in(root, format)
        return [Found(path=str(root), format=report.format, report=report)]
    found, others = _survey(root, format)
    rows = []
    for last_us, importer, file in found:
        if since_us is not None and _is_older(file, last_us, since_us):
            others.append(Found(path=str(file), format=importer.name, is_older=True))
            continue
        try:
            rows.append(Found(path=str(file), format=importer.name, report=bring_in(file, importer.name)))
        except ConvlogError as error:
            rows.append(Found(path=str(file), format=importer.name, error=error))
    return rows + others


def _last_user_time(file: Path, name: str | None) -> int:
    opened, _ = _opened(file)
    with opened() as stream:
        return _importer(opened, file, name).last_user_time(stream)


def _is_older(file: Path, last_us: int, since_us: int) -> bool:
    return (last_us or file.stat().st_mtime_ns // 1000) < since_us


def _survey(root: Path, name: str | None) -> tuple[list[tuple[int, Importer, Path]], list[Found]]:
    """Give the files that an importer knows, in the order to take them, and rows for the others."""
    known: list[tuple[int, str, Importer, Path]] = []
    others: list[Found] = []
    for file in files_below(root):
        try:
            opened, _ = _opened(file)
            importer = _importer(opened, file, name)
            with opened() as stream:
                known.append((importer.last_user_time(stream), str(file), importer, file))
        except ConvlogError as error:
            others.append(Found(path=str(file), error=error))
    # Where no user spoke (sub-agents), nothing depends on the order, save that what they belong to comes before.
    known.sort(key=lambda row: (row[0] == 0, row[:2]))
    return [(last_us, importer, file) for last_us, _, importer, file in known], others


def files_below(root: Path) -> Iterator[Path]:
    """Give the files below a folder that may be sources of their own, in the order of their names."""
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(files):
            file = Path(folder, name)
            if not file.is_symlink() and not is_member(file):
                yield file


def _importer(opened: Callable[[], BinaryIO], path: Path | None, name: str | None) -> Importer:
    """Give the importer for a source.

    Raises:
        ImportFailed: no importer knows it, or none has the name.
    """
    with opened() as stream:
        head = stream.read(HEAD_BYTES)
    if name is not None:
        return _as_named(name, head, path)
    found = detect(head, path)
    if found is not None:
        return found
    what = str(path) if path else "this content"
    archive = next((kind for magic, kind in ARCHIVES.items() if head.startswith(magic)), None)
    if archive is not None:
        raise ImportFailed(f"{what} is a {archive} archive", hint="unpack it and import what is inside")
    if not head.strip():
        raise ImportFailed(f"{what} is empty")
    raise ImportFailed(f"{what} is of no form that is known", hint=f"known are: {names()}; name one to have it tried")


def _as_named(name: str, head: bytes, path: Path | None) -> Importer:
    """Give the importer of a name, unless the content is another's and would go on with whatever came last."""
    named = importer_named(name)
    is_guess = getattr(named, "headed", False) and not named.detect(head, path)
    other = detect(head, path) if is_guess else None
    if other is not None:
        what = str(path) if path else "this content"
        raise ImportFailed(f"{what} is of the form {other.name}, not {name}", hint=f"name {other.name}, or no form")
    return named


def _opened(source: str | os.PathLike[str] | bytes) -> tuple[Callable[[], BinaryIO], int]:
    """Give what opens a source, or the conversation lists in it when it is a ZIP, and its size.

    Raises:
        ImportFailed: it is no file that can be read, or an archive that is refused.
    """
    if isinstance(source, bytes):
        return unpacked(*_bytes_opener(source))
    return unpacked(*_file_opener(Path(source)), what=str(source))


def _bytes_opener(data: bytes) -> tuple[Callable[[], BinaryIO], int]:
    return (lambda: io.BytesIO(data)), len(data)


def _file_opener(path: Path) -> tuple[Callable[[], BinaryIO], int]:
    """Give what opens a file, only ever to read it, and its size.

    Raises:
        ImportFailed: it is no file that can be read.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            what = "a folder" if stat.S_ISDIR(found.st_mode) else "no regular file"
            raise ImportFailed(f"{path} is {what}")
        path.open("rb").close()
    except OSError as error:
        raise ImportFailed(f"{path}: {error.strerror}") from None
    return (lambda: path.open("rb")), found.st_size
