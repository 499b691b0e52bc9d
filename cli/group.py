"""The click group: commands that load when asked for, options that hold everywhere, errors as words and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click
from click.core import ParameterSource

from .shell import Shell, columns

EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
"""What a shell reports of a program that ended by SIGINT, by SIGPIPE."""


HELP_COLUMNS_MIN, HELP_COLUMNS_MAX = 50, 80


class LazyGroup(click.Group):
    """Commands from a table of names, modules and one-line helps."""

    def __init__(self, table: Mapping[str, tuple[str, str]], aliases: Mapping[str, str], **settings: Any) -> None:
        super().__init__(params=global_options(), context_settings={"help_option_names": ["-h", "--help"]}, **settings)
        self._table = table
        self._aliases = aliases

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Give the names in the table's order."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Load a command and give it the global options."""
        entry = self._table.get(self._aliases.get(cmd_name, cmd_name))
        if entry is None:
            return None
        command: click.Command = import_module(f".{entry[0]}", __package__).command
        known = {param.name for param in command.params}
        command.params.extend(option for option in global_options(hidden=True) if option.name not in known)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one may have been meant."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            from difflib import get_close_matches

            close = get_close_matches(name, [*self._table, *self._aliases])
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {' or '.join(close)}?" if close else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - the same
        """Write the commands' section without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._table.items()])

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the group's own arguments."""
        extra.setdefault("terminal_width", max(min(columns(), HELP_COLUMNS_MAX) - 2, HELP_COLUMNS_MIN))
        with _safe_words():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn every way in which it can fail into words on stderr and an exit code."""
        with _safe_words(), _exit_codes(ctx):
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result


def global_options(*, hidden: bool = False) -> list[click.Option]:
    """Give the options that stand before or after a command; the later one wins."""

    def option(*names: str, **settings: Any) -> click.Option:
        return click.Option(names, expose_value=False, callback=_take, hidden=hidden, **settings)

    return [
        option("-d", "--db", metavar="PATH", help="The store's file (or CONVLOG_DB)."),
        option("--json", "as_json", is_flag=True, help="JSON Lines instead of text."),
        option("--color", type=click.Choice(["auto", "always", "never"]), help="When to colour text."),
        option("-q", "--quiet", is_flag=True, help="Say nothing but errors beside the data."),
        option("-v", "--verbose", is_flag=True, help="Say more, such as which store is used."),
        option("--utc/--local", default=False, help="How times are shown (default: local)."),
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            hidden=hidden,
            help="Show the version and exit.",
        ),
    ]


def _take(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    root = ctx.find_root()
    shell = root.ensure_object(Shell)
    if param.name is not None and ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE:
        setattr(shell, param.name, value)
    root.color = ctx.color = wants_color(shell.color, os.environ)


def wants_color(choice: str, environ: Mapping[str, str]) -> bool | None:
    """Give whether to colour, None for: when it is a terminal. The option, then NO_COLOR, then FORCE_COLOR."""
    if choice != "auto":
        return choice == "always"
    if environ.get("NO_COLOR"):
        return False
    return True if environ.get("FORCE_COLOR") else None


def _print_version(ctx: click.Context, _: click.Parameter, value: Any) -> None:
    if not value or ctx.resilient_parsing:
        return
    from convlog import __version__

    click.echo(f"convlog {__version__}")
    ctx.exit()


@contextmanager
def _safe_words() -> Iterator[None]:
    """Keep control characters of arguments out of click's own messages."""
    try:
        yield
    except click.UsageError as error:
        from .text import visible

        found = error.format_message()
        if visible(found) == found:
            raise
        raise click.UsageError(visible(found), error.ctx) from None


@contextmanager
def _exit_codes(ctx: click.Context) -> Iterator[None]:
    from convlog.eventstore.errors import ConvlogError

    try:
        yield
    except ConvlogError as error:
        ctx.find_object(Shell).report(error)  # type: ignore[union-attr] # made when the options were read
        ctx.exit(error.exit_code)
    except BrokenPipeError:
        # Nobody reads on. What is still buffered must not fail again when the interpreter ends.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - lives as long as the process
        ctx.exit(EXIT_BROKEN_PIPE)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        ctx.exit(EXIT_INTERRUPTED)
    except OSError as error:
        from .text import visible

        where = f"{error.filename}: " if error.filename else ""
        click.echo(visible(f"error: {where}{error.strerror or error}"), err=True)
        ctx.exit(1)
    except (click.ClickException, click.exceptions.Exit, click.exceptions.Abort):
        raise
    except Exception as error:
        # What cannot happen in a whole store may in a damaged one. In a whole one it is a defect of this program.
        damage = ctx.find_object(Shell).damage(error)  # type: ignore[union-attr] # as above
        if damage is None:
            raise
        ctx.find_object(Shell).report(damage)  # type: ignore[union-attr] # as above
        ctx.exit(damage.exit_code)
