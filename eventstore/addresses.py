"""Addresses: how a person names a thread, a node, a range, a call or a branch.

    THREAD            a name, a source id, a unique id prefix, `latest` or `-`
    THREAD:17         the event at position 17
    THREAD:2..15      the nodes from 2 to 15 on one path
    THREAD/5          the fifth call
    THREAD@branch     the last node of a branch, by name or number
    THREAD:           the thread, where its name ends like one of the above

Names may hold any of these characters, so that a text can have several readings; `parse` gives the grammar's own,
`readings` all, and `resolve` the one that names something.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from .calls import find_call
from .canonical import is_well_formed
from .errors import AmbiguousAddress, BadAddress, ConvlogError, NoSuchNode, NoSuchThread, NotFound
from .store import Store
from .thread import Thread

GRAMMAR = "addresses are THREAD, THREAD:17, THREAD:2..15, THREAD/5, THREAD@branch"

_NUMBER = "([0-9]{1,18})"
_TAIL = re.compile(rf"(?s)(.+?)(?::{_NUMBER}(?:\.\.{_NUMBER})?|/{_NUMBER})\Z")
_ID = re.compile(r"[0-9a-f]{32}")


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A thread's name and at most one of: a position, a closed range of positions, a call, a branch."""

    thread: str
    first: int | None = None
    last: int | None = None
    """Set for a range only."""
    call: int | None = None
    branch: str | None = None

    def __str__(self) -> str:
        """Give a text of which this address is a reading; `parse` gives it where the name holds no odd characters."""
        if self.last is not None:
            return f"{self.thread}:{self.first}..{self.last}"
        if self.first is not None:
            return f"{self.thread}:{self.first}"
        if self.call is not None:
            return f"{self.thread}/{self.call}"
        if self.branch is not None:
            return f"{self.thread}@{self.branch}"
        return f"{self.thread}:" if _looks_longer(self.thread) else self.thread


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What an address names in a store."""

    thread: Thread
    address: Address
    position: int | None = None
    """The event, a branch's last node, a call's event, a range's last node; None for the thread as a whole."""
    first: int | None = None
    """A range's first node."""

    @property
    def leaf(self) -> int:
        """The node up to which a path is meant: the one named; for a thread or a note, the active node then."""
        if self.position is not None and self.thread.tree.is_node(self.position):
            return self.position
        return self.thread.head_at(self.position)


def _looks_longer(name: str) -> bool:
    return name.endswith(":") or _TAIL.match(name) is not None or "@" in name[1:-1]


def parse(text: str) -> Address:
    """Give the reading that the grammar prefers: numbers at the end, then a branch, then the whole as a name.

    Raises:
        BadAddress: empty, without a thread, position or call 0, a range turned round.
    """
    options = list(readings(text))
    if text[0] in ":@":
        raise BadAddress(f"{text!r:.120} names no thread", hint=GRAMMAR)
    if _TAIL.match(text) and options[0].first is None and options[0].call is None:
        raise BadAddress(
            f"{text!r:.120}: positions and calls start at 1, and a range's first is not over its last", hint=GRAMMAR
        )
    return options[0]


def readings(text: str) -> Iterator[Address]:
    """Iterate over all readings of a text, the grammar's own first, the whole as a name last.

    Raises:
        BadAddress: the text is empty or no Unicode.
    """
    if not text:
        raise BadAddress("an empty address", hint=GRAMMAR)
    if not is_well_formed(text):
        raise BadAddress(f"{text!r:.120} is not UTF-8")
    tail = _TAIL.match(text)
    numbered = None if tail is None else _numbered(*tail.groups())
    if numbered is not None:
        yield numbered
    if text.endswith(":") and len(text) > 1:
        yield Address(thread=text[:-1])
    cut = text.rfind("@", 1, len(text) - 1)
    while cut > 0:
        yield Address(thread=text[:cut], branch=text[cut + 1 :])
        cut = text.rfind("@", 1, cut)
    yield Address(thread=text)


def _numbered(thread: str, first: str | None, last: str | None, call: str | None) -> Address | None:
    """Give the address of a text that ends in numbers, or None where they name nothing."""
    if call is not None:
        return Address(thread=thread, call=int(call)) if int(call) else None
    low, high = int(first or 0), None if last is None else int(last)
    if low == 0 or (high is not None and high < low):
        return None
    return Address(thread=thread, first=low, last=high)


def resolve(store: Store, text: str) -> Target:
    """Give what a text names in a store.

    Raises:
        BadAddress: no address of the grammar.
        NoSuchThread: no reading of it names a thread.
        AmbiguousAddress: more than one does; `candidates` are addresses that do not.
        NoSuchNode, NoSuchBranch, NoSuchCall: the thread is there, what is asked of it is not.
    """
    found: list[Target] = []
    failures: list[ConvlogError] = []
    for address in readings(text):
        try:
            target = _locate(store, address)
        except NotFound as error:
            failures.append(error)
            continue
        if _ID.fullmatch(address.thread):
            return target
        found.append(target)
    if len(found) > 1:
        candidates = tuple(str(msgspec.structs.replace(target.address, thread=target.thread.id)) for target in found)
        raise AmbiguousAddress(
            f"{text!r} can be read in {len(found)} ways: {', '.join(candidates)}",
            candidates=candidates,
            hint="name the thread by its id",
        )
    if not found:
        # A thread that is there but lacks the node says more than that the whole text names no thread.
        raise next((error for error in failures if not isinstance(error, NoSuchThread)), None) or _unknown(store, text)
    return found[0]


def _unknown(store: Store, text: str) -> ConvlogError:
    """Give the error for a text of which no reading names anything."""
    try:
        parse(text)
    except BadAddress as error:
        return error
    for mark in ":/":
        name, _, rest = text.rpartition(mark)
        if name and rest:
            try:
                store.thread(name)
            except (NotFound, AmbiguousAddress):
                continue
            return BadAddress(f"{rest!r:.60} is no position, range or call of thread {name!r:.60}", hint=GRAMMAR)
    return NoSuchThread(f"no thread {text!r:.120} in {store.place}", hint="convlog threads lists them")


def _locate(store: Store, address: Address) -> Target:
    thread = store.thread(address.thread)
    if address.call is not None:
        return Target(thread=thread, address=address, position=find_call(thread, address.call))
    if address.branch is not None:
        return Target(thread=thread, address=address, position=thread.branch(address.branch))
    if address.first is None:
        return Target(thread=thread, address=address)
    if address.last is None:
        _check_position(thread, address.first)
        return Target(thread=thread, address=address, position=address.first)
    first, last = thread.tree.require(address.first), thread.tree.require(address.last)
    if not thread.tree.is_above(first, last):
        raise NoSuchNode(
            f"{first} and {last} lie on no one path of thread {thread.id[:12]}",
            hint="convlog log --graph draws the tree",
        )
    return Target(thread=thread, address=address, position=last, first=first)


def _check_position(thread: Thread, position: int) -> None:
    if position > thread.position:
        thread.refresh()
    if position > thread.position:
        raise NoSuchNode(
            f"position {position} is not in thread {thread.id[:12]}", hint=f"positions run from 1 to {thread.position}"
        )
