"""Trees of messages that come as a heap: in which order they are told, and which leaf is the newest."""

from __future__ import annotations

from collections.abc import Sequence

from .conversations import Node
from .report import ImportReport


def in_order(nodes: Sequence[Node], number: int, report: ImportReport) -> list[Node]:
    """Give the nodes parents first, siblings as their parent lists them, else as they stand in the source.

    A parent that is not here makes a root (`missing_parent`), and so does one that lies below its own child
    (`parent_cycle`); a list of children that says otherwise than the parents do is reported and not followed.
    """
    index = {node.id: place for place, node in reversed(list(enumerate(nodes)))}
    children: dict[int, list[int]] = {}
    roots = []
    for place, node in enumerate(nodes):
        above = None if node.parent is None else index.get(node.parent)
        if above is None:
            roots.append(place)
            if node.parent is not None:
                report.warn(number, "missing_parent", f"{node.parent}, the parent of {node.id}, is not in the source")
                node.parent = None
        else:
            children.setdefault(above, []).append(place)
    for place, node in enumerate(nodes):
        if node.children:
            _rank(nodes, node, children.get(place, []), number, report)
    told = _preorder(roots, children, {})
    for place, node in enumerate(nodes):
        if place not in told:
            report.warn(number, "parent_cycle", f"{node.id} lies below itself")
            node.parent = None
            told = _preorder([place], children, told)
    return [nodes[place] for place in told]


def _rank(nodes: Sequence[Node], node: Node, below: list[int], number: int, report: ImportReport) -> None:
    """Bring what follows a node into the order that the node states; a list that is right has then said all it says."""
    stated = {id_: rank for rank, id_ in enumerate(node.children)}
    if stated.keys() == {nodes[place].id for place in below}:
        node.children = ()
    else:
        report.warn(number, "children_differ", f"{node.id} lists others than those that name it as their parent")
    below.sort(key=lambda place: stated.get(nodes[place].id, len(stated)))


def _preorder(roots: Sequence[int], children: dict[int, list[int]], told: dict[int, None]) -> dict[int, None]:
    """Walk down from roots, behind what was told already."""
    waiting = list(reversed(roots))
    while waiting:
        place = waiting.pop()
        if place not in told:
            told[place] = None
            waiting.extend(reversed(children.get(place, ())))
    return told


def newest_leaf(nodes: Sequence[Node]) -> str | None:
    """Give the leaf with the latest time; of several, or without times, the one told last."""
    parents = {node.parent for node in nodes}
    leaves = [(node.time or 0, place) for place, node in enumerate(nodes) if node.id not in parents]
    return nodes[max(leaves)[1]].id if leaves else None
