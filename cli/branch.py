"""`convlog branch`: the lines of a thread's tree, and their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .shell import Shell
from .text import table, visible_line

if TYPE_CHECKING:
    from convlog.eventstore.addresses import Target
    from convlog.eventstore.store import Store
    from convlog.eventstore.thread import Thread


@click.command()
@click.argument("thread", default="latest")
@click.argument("name", required=False)
@click.argument("address", required=False)
@click.option("--switch", is_flag=True, help="Make the branch's last node the active one.")
@click.option("--drop", is_flag=True, help="Take the name away; the nodes stay.")
@click.pass_obj
def command(
    shell: Shell,
    *,
    thread: str,
    name: str | None,
    address: str | None,
    switch: bool,
    drop: bool,
) -> None:
    """List, name, switch to or drop branches.

    \b
    convlog branch THREAD                   list them
    convlog branch THREAD NAME [ADDRESS]    name the branch of a node (default: the active one)
    convlog branch THREAD NAME --switch     go on there
    convlog branch THREAD NAME --drop       forget the name

    A branch is a line of nodes from a fork on. Where --switch is given, NAME may be a branch's number.
    """  # noqa: D301 - click's own mark of lines that are not to be wrapped
    if drop and (switch or address):
        raise click.UsageError("--drop takes THREAD and NAME alone")
    if name is None and (switch or drop):
        raise click.UsageError("say which branch: convlog branch THREAD NAME")
    with shell.open(write=name is not None) as store:
        target = _thread_of(store, thread)
        if name is None:
            _list(shell, target)
        elif drop:
            _drop(shell, target, name)
        elif switch and address is None:
            _switch(shell, target, name)
        else:
            _name(shell, target, name, address, switch=switch)


def _thread_of(store: Store, text: str) -> Thread:
    from convlog.eventstore.addresses import resolve

    return resolve(store, text).thread


def _list(shell: Shell, thread: Thread) -> None:
    names = thread.branch_names()
    tree = thread.tree
    active = tree.branch(thread.head)
    rows = []
    for number, stem, last in tree.branches():
        own = sorted(name for name, node in names.items() if tree.branch(node) == number)
        if shell.as_json:
            shell.emit(
                "branch/1",
                thread=thread.id,
                number=number,
                names=own,
                stem=stem or None,
                last=last,
                active=number == active,
                head=thread.head if number == active else None,
            )
        mark = "*" if number == active else ""
        rows.append((mark, str(number), visible_line(", ".join(own)), str(stem or ""), str(last)))
    if not shell.as_json:
        head = ("", "branch", "name", "forks at", "last node")
        numbers = {"branch", "forks at", "last node"}
        shell.write(table(rows, head=head, columns=shell.columns, elastic=2, right=numbers))


def _name(shell: Shell, thread: Thread, name: str, address: str | None, *, switch: bool) -> None:
    node = None if address is None else _node_in(thread, address)
    named = thread.name_branch(name, node)
    if switch:
        thread.select(thread.branch(name))
    _done(shell, thread, name, f"named {visible_line(name)} at event {named.position}")


def _node_in(thread: Thread, address: str) -> int:
    from convlog.eventstore.addresses import resolve
    from convlog.eventstore.errors import BadAddress

    target: Target = resolve(thread.store, address)
    if target.thread.id != thread.id:
        raise BadAddress(f"{address!r} lies in thread {target.thread.id[:12]}, not in {thread.id[:12]}")
    return target.leaf


def _switch(shell: Shell, thread: Thread, name: str) -> None:
    thread.select(thread.branch(name))
    _done(shell, thread, name, f"active node is {thread.head}")


def _drop(shell: Shell, thread: Thread, name: str) -> None:
    from convlog.eventstore.errors import NoSuchBranch

    names = thread.branch_names()
    if name not in names:
        known = ", ".join(sorted(names)) or "none is named"
        raise NoSuchBranch(f"thread {thread.id[:12]} has no branch named {name!r}", hint=f"names: {known}")
    thread.drop_branch_name(name)
    _done(shell, thread, name, f"dropped the name {visible_line(name)}")


def _done(shell: Shell, thread: Thread, name: str, words: str) -> None:
    if shell.as_json:
        shell.emit("branch-change/1", thread=thread.id, name=name, head=thread.head, position=thread.position)
    else:
        shell.say(words)
