"""What all commands share: the global options, the store they ask for, and where their words go."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from convlog.eventstore.errors import ConvlogError
    from convlog.eventstore.places import Place
    from convlog.projections.conversation import Store

COLUMNS_ELSEWHERE = 80
"""Width of tables that go to no terminal."""


def columns() -> int:
    """Give the terminal's width: COLUMNS, then the terminal itself (shutil says the same, at a fifth of start-up)."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns  # type: ignore[union-attr] # caught below
    except (AttributeError, ValueError, OSError):
        return COLUMNS_ELSEWHERE


class Shell:
    """The global options of one run, the store that they name, stdout for data and stderr for words."""

    def __init__(self) -> None:
        self.db: str | None = None
        self.as_json = False
        self.color = "auto"
        self.quiet = False
        self.verbose = False
        self.utc = False
        self._place: Place | None = None

    # --- the store ---

    @property
    def place(self) -> Place:
        """Where the store is, looked up once."""
        if self._place is None:
            from convlog.eventstore import places

            self._place = places.find(self.db)
            if self.verbose:
                self.say(f"store: {self._place}")
        return self._place

    def open(self, *, write: bool = False, create: bool = False) -> Store:
        """Open the store, to read unless said otherwise.

        Raises:
            StoreMissing: there is none and `create` is not set; names the place, the reason and what is nearby.
            OpeningError: the file is no store, newer, damaged.
        """
        from convlog.projections.conversation import open as open_store

        place = self.place
        self.require_place(create=create)
        if create and place.default:
            place.path.parent.mkdir(parents=True, exist_ok=True)
        return open_store(place.path, mode="rw" if write else "r", create=create)

    def require_place(self, *, create: bool = False) -> None:
        """Refuse what is no place for a store, or, unless one is made, none.

        Raises:
            StoreMissing: there is none; names the place, the reason and what is nearby.
            NotAStore: something else is there.
        """
        from convlog.eventstore import places
        from convlog.eventstore.errors import NotAStore
        from convlog.eventstore.file_path import check_path

        place = self.place
        if str(place.path) == ":memory:":
            raise NotAStore("a store in memory would be gone when the command ends", hint="name a file")
        if not check_path(place.path).exists() and not create:
            raise places.missing(place, places.nearby(place))

    def damage(self, error: Exception) -> ConvlogError | None:
        """Give the damage of the store that explains an error which a whole store cannot cause; None for none."""
        from convlog.eventstore.errors import BrokenRecord, ConvlogError
        from convlog.eventstore.verify import is_fault, verify_store

        if self._place is None:
            return None
        try:
            with self.open() as store:
                fault = next(filter(is_fault, verify_store(store)), None)
        except ConvlogError as other:
            return other
        if fault is None:
            return None
        where = f" thread {fault.thread[:12]}" if fault.thread else ""
        where += f":{fault.position}" if fault.position is not None else ""
        return BrokenRecord(
            f"the store is damaged:{where} {fault.kind}: {fault.message} ({type(error).__name__}: {error!s:.120})",
            hint="run `convlog verify`",
        )

    # --- words, to stderr ---

    def say(self, text: str) -> None:
        """Say something beside the data, unless quiet."""
        if not self.quiet:
            self._err(text)

    def warn(self, text: str) -> None:
        """Say something that nobody should miss."""
        self._err(text)

    def report(self, error: ConvlogError) -> None:
        """Say what went wrong, how to go on, and where it was looked for."""
        from convlog.eventstore.errors import AmbiguousAddress, NotFound

        sys.stdout.flush()
        self._err(f"error: {error.message}")
        if isinstance(error, AmbiguousAddress):
            for candidate in error.candidates:
                self._err(f"  {candidate}")
        if error.hint:
            self._err(f"hint: {error.hint}")
        if isinstance(error, NotFound) and self._place is not None:
            self._say_place()

    def nothing(self, what: str) -> None:
        """Say that nothing was found, in which file, and why that file."""
        self.say(f"no {what}")
        self._say_place()

    def _say_place(self) -> None:
        from convlog.eventstore import places

        self.say(f"store: {self.place}")
        others = places.nearby(self.place)
        if others:
            self.say(f"other stores nearby: {', '.join(str(path) for path in others)}")

    def _err(self, text: str) -> None:
        from .text import visible

        click.echo(visible(text), err=True)

    # --- data, to stdout ---

    @property
    def columns(self) -> int:
        """How wide lines may be."""
        return columns()

    @property
    def colored(self) -> bool:
        """Whether text on stdout is coloured."""
        color = click.get_current_context().color
        return sys.stdout.isatty() if color is None else color

    def paint(self, text: str, **style: Any) -> str:
        """Style text that is safe already, where colours are wanted."""
        return click.style(text, **style) if self.colored else text

    def write(self, text: str) -> None:
        """Write a line, or lines, made visible by the caller."""
        stream = sys.stdout
        try:
            stream.write(text + "\n")
        except UnicodeEncodeError:
            # A terminal that cannot show a character gets its escape.
            encoding = stream.encoding or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")

    def emit(self, schema: str, **fields: Any) -> None:
        """Write one JSON line that names its schema, such as `convlog.threads/1`."""
        import msgspec

        from .text import visible_json

        line = msgspec.json.encode({"schema": f"convlog.{schema}", **fields}).decode()
        self.write(visible_json(line))

    def write_bytes(self, data: bytes) -> None:
        """Write bytes as they are."""
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
