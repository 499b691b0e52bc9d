"""`convlog append`: one event, by hand or from a script."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from .shell import Shell

if TYPE_CHECKING:
    from convlog.eventstore.placement import Appended
    from convlog.eventstore.store import Store
    from convlog.eventstore.thread import Thread

STDIN = "-"
UNTITLED = "\0"
"""What `--new` without a title stands for: no title can be this."""

CREATION_SCOPE = "convlog append"


@click.command()
@click.argument("address", required=False, metavar="[THREAD]")
@click.option("--new", "title", is_flag=False, flag_value=UNTITLED, metavar="[TITLE]", help="Append to a new thread.")
@click.option("--user", metavar="TEXT", help="What a user says.")
@click.option("--stdin", is_flag=True, help="What a user says, read from stdin; so does the text - elsewhere.")
@click.option("--system", metavar="TEXT", help="System text inside the talk.")
@click.option("--assistant", metavar="TEXT", help="What the agent says.")
@click.option("--call", nargs=3, metavar="ID NAME ARGS", help="A tool call; ARGS is JSON text.")
@click.option("--result", nargs=2, metavar="ID TEXT", help="The answer to a call.")
@click.option("--status", metavar="WORD", help="Of the result: ok (default), error, denied, cancelled, ...")
@click.option("--event", nargs=2, metavar="TYPE JSON", help="Any event; `convlog schema TYPE` prints its fields.")
@click.option("--parent", type=int, metavar="N", help="The node to go below (default: the active one).")
@click.option("--key", help="Idempotency key: the same content again is stored once.")
@click.option("--expect-head", type=int, metavar="N", help="Refuse unless this is the active node.")
@click.pass_obj
def command(
    shell: Shell,
    /,
    *,
    address: str | None,
    title: str | None,
    parent: int | None,
    key: str | None,
    expect_head: int | None,
    **content: Any,
) -> None:
    """Append one event to a thread.

    Prints its address. THREAD:17 and THREAD@branch append below that node.
    """
    kind, value = _one_of(content)
    if (title is None) == (address is None):
        raise click.UsageError("name a thread, or make one with --new")
    value = _read_stdin(shell, value)
    with shell.open(write=True, create=title is not None) as store:
        options = {"parent": parent, "key": key, "expected_head": expect_head}
        if address is None:
            _rehearse(kind, value, content["status"], options)
            thread = _new_thread(store, title, key)
        else:
            thread, options["parent"] = _below(store, address, parent)
        appended = _append(thread, kind, value, content["status"], options)
    if shell.as_json:
        shell.emit(
            "append/1",
            thread=appended.thread,
            position=appended.position,
            head=appended.head,
            hash=appended.hash.hex(),
            replayed=appended.replayed,
        )
    else:
        shell.write(f"{appended.thread}:{appended.position}")


def _one_of(content: dict[str, Any]) -> tuple[str, Any]:
    """Give the one kind of content that was asked for."""
    if content.pop("stdin"):
        if content["user"] is not None:
            raise click.UsageError("--stdin stands in place of --user TEXT")
        content["user"] = STDIN
    given = [name for name in ("user", "system", "assistant", "call", "result", "event") if content[name] is not None]
    if len(given) != 1:
        raise click.UsageError("give one of --user, --stdin, --system, --assistant, --call, --result, --event")
    if content["status"] is not None and given != ["result"]:
        raise click.UsageError("--status is that of a --result")
    return given[0], content[given[0]]


def _rehearse(kind: str, value: Any, status: str | None, options: dict[str, Any]) -> None:
    """Append to a thread that nobody keeps: what is refused must not leave an empty one behind."""
    from convlog.eventstore.store import open_store

    with open_store(":memory:") as store:
        _append(store.create_thread(), kind, value, status, options)


def _new_thread(store: Store, title: str | None, key: str | None) -> Thread:
    return store.create_thread(
        title=None if title == UNTITLED else title, key=None if key is None else (CREATION_SCOPE, key)
    )


def _below(store: Store, address: str, parent: int | None) -> tuple[Thread, int | None]:
    from convlog.eventstore.addresses import resolve
    from convlog.eventstore.errors import BadAddress

    target = resolve(store, address)
    if target.position is None:
        return target.thread, parent
    if parent is not None:
        raise click.UsageError("the address names the parent already")
    if target.first is not None or target.address.call is not None:
        raise BadAddress(f"{address!r} is no node to append below", hint="name a node: THREAD:17")
    return target.thread, target.position


def _append(thread: Thread, kind: str, value: Any, status: str | None, options: dict[str, Any]) -> Appended:
    match kind:
        case "user":
            return thread.user(value, **options)
        case "system":
            return thread.system(value, **options)
        case "assistant":
            return thread.text(value, **options)
        case "call":
            return thread.call(*value, **options)
        case "result":
            return thread.result(*value, status=status or "ok", **options)
    from convlog.eventstore.event_json import body_from_json

    return thread.append(body_from_json(*value), **options)


def _read_stdin(shell: Shell, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
    """Give the content with the text of stdin where it says `-`, as the last or only word."""
    if isinstance(value, tuple):
        return (*value[:-1], _text(shell, value[-1]))
    return _text(shell, value)


def _text(shell: Shell, value: str) -> str:
    if value != STDIN:
        return value
    from convlog.eventstore.canonical import BODY_BYTES_MAX
    from convlog.eventstore.errors import PayloadRejected, TooLarge

    if shell.verbose:
        shell.say("reading the text from stdin")
    data = sys.stdin.buffer.read(BODY_BYTES_MAX + 1)
    if len(data) > BODY_BYTES_MAX:
        raise TooLarge(f"stdin holds over {BODY_BYTES_MAX:,} bytes; the limit of one event")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise PayloadRejected(f"stdin is not UTF-8 at byte {error.start}") from None
