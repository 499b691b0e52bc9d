"""Closed ranges: runs of one path that cut no call from its result.

A range is judged on the path to `on`. No call inside may have its result outside, on any branch, nor the reverse; a
call without a result may be inside only when its turn is over.
"""

from __future__ import annotations

from collections.abc import Sequence

from blake3 import blake3

from .errors import BadRange, NotClosed
from .events import InputAdded, TurnEnded
from .thread import Thread


def closed_range(thread: Thread, first: int, last: int, on: int | None = None) -> list[int]:
    """Give the positions of the nodes of a range.

    Raises:
        BadRange: the ends are not nodes of this path, or turned round.
        NotClosed: it would cut a call from its result; the message names the smallest closed range around it.
    """
    tree = thread.tree_with_calls
    on = thread.head if on is None else tree.require(on)
    path = tree.path(on)
    index = {position: number for number, position in enumerate(path)}
    for end in (first, last):
        if end not in index:
            raise BadRange(f"{end} is not on the path to {on}", hint="name the leaf of the path meant, with `on`")
    if index[first] > index[last]:
        raise BadRange(f"{first}..{last} is turned round", hint=f"on this path {last} comes before {first}")
    if path[0] == first:
        raise BadRange("the root says nothing that could be summarised", hint=f"begin at {path[1:2] or 'a node'}")
    nodes = path[index[first] : index[last] + 1]
    _check_pairs(thread, path, index, nodes)
    _check_unanswered(thread, path, nodes)
    return nodes


def covered_hash(thread: Thread, nodes: Sequence[int]) -> str:
    """Give the blake3, hex, over the hashes of some nodes in path order: what a summary says it covers."""
    hasher = blake3()
    for record in thread.records(nodes, bodies=False):
        hasher.update(record.hash)
    return hasher.hexdigest()


def _partners(thread: Thread, node: int) -> list[int]:
    tree = thread.tree_with_calls
    call = tree.answered(node)
    return tree.results(node) if call is None else [call]


def _check_pairs(thread: Thread, path: Sequence[int], index: dict[int, int], nodes: Sequence[int]) -> None:
    low, high = index[nodes[0]], index[nodes[-1]]
    start = (low, high)
    cut: tuple[int, int] | None = None
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        for partner in _partners(thread, node):
            place = index.get(partner)
            if place is None:
                raise NotClosed(
                    f"{node} has its partner {partner} on another branch",
                    hint=f"no range on this path that holds {node} is closed",
                )
            if not low <= place <= high:
                cut = cut or (node, partner)
                waiting += [*path[min(place, low) : low], *path[high + 1 : place + 1]]
                low, high = min(low, place), max(high, place)
    if cut is not None:
        raise NotClosed(
            f"{path[start[0]]}..{path[start[1]]} cuts {cut[0]} from {cut[1]}",
            hint=f"the smallest closed range around it is {path[low]}..{path[high]}",
        )


def _check_unanswered(thread: Thread, path: Sequence[int], nodes: Sequence[int]) -> None:
    tree = thread.tree_with_calls
    calls = tree.call_positions()
    unanswered = [node for node in nodes if node in calls and not tree.results(node)]
    if not unanswered:
        return
    over = _last_settled(thread, path)
    for node in unanswered:
        if node > over:
            raise NotClosed(
                f"call {node} has no result and its turn is open",
                hint="end the turn first, or end the range before the call",
            )


def _last_settled(thread: Thread, path: Sequence[int]) -> int:
    """Give the last node of this path whose turn is over."""
    on_path = set(path)
    settled = 0
    for event in thread.events(types=(InputAdded.TYPE, TurnEnded.TYPE), outputs=False):
        body = event.body
        if isinstance(body, TurnEnded) and body.node in on_path:
            settled = max(settled, body.node)
        elif isinstance(body, InputAdded) and event.position in on_path and body.role == "user" and not body.steer:
            settled = max(settled, event.position - 1)
    return settled
