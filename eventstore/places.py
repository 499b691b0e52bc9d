"""Where the store is: an option, an environment variable, the nearest `.convlog/` upwards, this user's data folder.

`choose` is the pure rule; the other functions look at the file system for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from .errors import NotAStore, StoreMissing, StoreReadOnly

VARIABLE = "CONVLOG_DB"
FOLDER = ".convlog"
FILE = "convlog.db"

IGNORE = "# A store holds whole conversations: keep it out of version control.\n*\n"

NEARBY_MAX = 5
"""Other stores that a message names at most."""


class Place(msgspec.Struct, frozen=True):
    """A store's path, and why it is this one."""

    path: Path
    why: str
    default: bool = False
    """Nobody chose it: the folder may be made on the way."""

    def __str__(self) -> str:
        """Give both for a message, the path in full."""
        return f"{self.path.absolute()} ({self.why})"


def choose(option: str | None, variable: str | None, upwards: Path | None, data_folder: Path) -> Place:
    """Give the first place that is given, in this order; an empty variable counts as none."""
    if option is not None:
        return Place(Path(option), "given by --db")
    if variable:
        return Place(Path(variable), f"given by {VARIABLE}")
    if upwards is not None:
        return Place(upwards, f"the nearest {FOLDER} folder upwards")
    return Place(
        data_folder / FILE, f"no --db, no {VARIABLE}, no {FOLDER} folder upwards: the user's data folder", default=True
    )


def find(option: str | None = None, *, environ: Mapping[str, str] = os.environ, cwd: Path | None = None) -> Place:
    """Give the place of the store for someone who stands in `cwd` (default: the process's)."""
    variable = environ.get(VARIABLE)
    if option is not None or variable:
        return choose(option, variable, None, Path())
    upwards = find_upwards(cwd or Path.cwd())
    return choose(None, None, upwards, Path() if upwards else data_folder())


def data_folder() -> Path:
    """Give the folder where this platform keeps a user's data."""
    import platformdirs

    return Path(platformdirs.user_data_dir("convlog", appauthor=False))


def find_upwards(folder: Path) -> Path | None:
    """Give the store of the nearest `.convlog/` in a folder or above it."""
    for above in (folder, *folder.parents):
        path = above / FOLDER / FILE
        if path.is_file() or (above / FOLDER).is_dir():
            return path
    return None


def nearby(place: Place, cwd: Path | None = None) -> list[Path]:
    """Give other stores that somebody may have meant: above, one folder below, in the data folder."""
    found: list[Path] = []
    for path in _candidates(cwd or Path.cwd()):
        if path.is_file() and path not in found and path.absolute() != place.path.absolute():
            found.append(path)
        if len(found) == NEARBY_MAX:
            break
    return found


def _candidates(cwd: Path) -> Iterator[Path]:
    for above in (cwd, *cwd.parents):
        yield above / FOLDER / FILE
    yield data_folder() / FILE
    try:
        below = sorted(child for child in cwd.iterdir() if child.is_dir())[:1000]
    except OSError:
        return
    for folder in below:
        yield folder / FOLDER / FILE
        yield folder / FILE


def missing(place: Place, others: Sequence[Path]) -> StoreMissing:
    """Give the error for a place without a store, naming it, the reason for it, and the stores nearby."""
    if others:
        hint = "other stores nearby: " + ", ".join(str(path) for path in others)
    else:
        hint = "make one: convlog init, or convlog import FILE"
    return StoreMissing(f"no store at {place}", hint=hint)


def make_folder(folder: Path) -> Path:
    """Make `.convlog/` in a folder, with a file that keeps it out of version control; give the store's path.

    Raises:
        NotAStore: something else has the name.
        StoreReadOnly: no right to write there.
    """
    home = folder / FOLDER
    try:
        home.mkdir(mode=0o700, exist_ok=True)
        ignore = home / ".gitignore"
        if not ignore.exists():
            ignore.write_text(IGNORE)
    except (FileExistsError, NotADirectoryError):
        raise NotAStore(f"{home} exists and is no folder", hint="move it away") from None
    except FileNotFoundError:
        raise StoreMissing(f"no folder {folder}", hint="make it first") from None
    except OSError as error:
        raise StoreReadOnly(f"{home}: {error.strerror}", hint="choose another folder") from None
    return home / FILE
