"""The tree that a thread's nodes form: pure, in memory, a few bytes a node.

A branch is a line of nodes from a fork on, numbered by the position of its first node. Every node of a branch is an
ancestor of the later ones in it, so that path questions hop from branch to branch instead of from node to node.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import msgspec

from .errors import BrokenRecord, NoSuchNode


class Packed(msgspec.Struct, frozen=True, array_like=True):
    """A tree without its calls' ids, as bytes: arrays of 64-bit positions."""

    branch: bytes
    nodes: dict[int, bytes]
    stem: dict[int, int]
    results: bytes
    answered: bytes
    """The calls that the results answer, in their order."""


class Tree:
    """Parents, branches, calls and results of one thread, fed event by event in position order."""

    def __init__(self) -> None:
        self._branch = array("q", [0])
        """Branch number by position; 0 for what is no node."""
        self._nodes: dict[int, array[int]] = {}
        """Positions of each branch's nodes, ascending."""
        self._stem: dict[int, int] = {}
        """The node that each branch grows from; 0 for the root's."""
        self._forks: dict[int, list[int]] = {}
        """Branches that grow from a node, in order."""
        self._calls: dict[str, list[int]] = {}
        self._results: dict[int, list[int]] = {}
        self._answers: dict[int, int] = {}

    # --- as bytes ---

    def pack(self) -> Packed:
        """Give the tree as bytes."""
        return Packed(
            branch=self._branch.tobytes(),
            nodes={branch: nodes.tobytes() for branch, nodes in self._nodes.items()},
            stem=self._stem,
            results=array("q", self._answers.keys()).tobytes(),
            answered=array("q", self._answers.values()).tobytes(),
        )

    @classmethod
    def unpack(cls, packed: Packed) -> Tree:
        """Give the tree that was packed."""
        tree = cls()
        tree._branch = array("q", packed.branch)
        tree._nodes = {branch: array("q", nodes) for branch, nodes in packed.nodes.items()}
        tree._stem = dict(packed.stem)
        for branch, stem in sorted(tree._stem.items()):
            if stem:
                tree._forks.setdefault(stem, []).append(branch)
        tree._answers = dict(zip(array("q", packed.results), array("q", packed.answered), strict=True))
        for result, call in tree._answers.items():
            tree._results.setdefault(call, []).append(result)
        return tree

    def begins_like(self, other: Tree) -> bool:
        """Whether this tree, as far as it goes, is the beginning of another."""
        last = self.position
        answers = {result: call for result, call in other._answers.items() if result <= last}
        return (
            self._branch == other._branch[: last + 1]
            and self._stem == {branch: stem for branch, stem in other._stem.items() if branch <= last}
            and self._answers == answers
            and all(nodes == other._nodes[branch][: len(nodes)] for branch, nodes in self._nodes.items())
        )

    # --- growing and asking ---

    @property
    def position(self) -> int:
        """The last position fed in."""
        return len(self._branch) - 1

    def add(self, position: int, parent: int | None) -> None:
        """Take the next event: a node when it has a parent or is the root, else a note.

        Raises:
            BrokenRecord: a position is missing before it, or its parent is no node before it.
        """
        if position != len(self._branch):
            raise BrokenRecord(f"position {position} follows {len(self._branch) - 1}", hint="run `convlog verify`")
        if parent is None and position != 1:
            self._branch.append(0)
            return
        stem = parent or 0
        if stem and not self.is_node(stem):
            raise BrokenRecord(f"the parent of {position}, {stem}, is no node before it", hint="run `convlog verify`")
        branch = self._branch[stem]
        if stem and self._nodes[branch][-1] == stem:
            self._nodes[branch].append(position)
        else:
            branch = position
            self._nodes[branch] = array("q", [position])
            self._stem[branch] = stem
            if stem:
                self._forks.setdefault(stem, []).append(branch)
        self._branch.append(branch)

    def add_call(self, position: int, call: str) -> None:
        """Note the call id of a `tool.called` node."""
        self._calls.setdefault(call, []).append(position)

    def add_result(self, position: int, call: int) -> None:
        """Note which call's node a `tool.returned` node answers."""
        self._results.setdefault(call, []).append(position)
        self._answers[position] = call

    def is_node(self, position: int) -> bool:
        """Whether a node stands at this position."""
        return 0 < position < len(self._branch) and self._branch[position] != 0

    def require(self, position: int) -> int:
        """Give the position back if a node stands there.

        Raises:
            NoSuchNode: nothing, or a note, stands there.
        """
        if not self.is_node(position):
            what = "is a note, not a node" if 0 < position <= self.position else "is not in the thread"
            raise NoSuchNode(f"position {position} {what}", hint=f"positions run from 1 to {self.position}")
        return position

    def branch(self, node: int) -> int:
        """Give the number of the branch that a node lies on."""
        return self._branch[self.require(node)]

    def parent(self, node: int) -> int | None:
        """Give a node's parent; None for the root."""
        branch = self.branch(node)
        nodes = self._nodes[branch]
        index = bisect_right(nodes, node) - 1
        return (nodes[index - 1] if index else self._stem[branch]) or None

    def children(self, node: int) -> list[int]:
        """Give a node's children in log order."""
        nodes = self._nodes[self.branch(node)]
        index = bisect_right(nodes, node)
        following = [nodes[index]] if index < len(nodes) else []
        return sorted(following + self._forks.get(node, []))

    def leaves(self) -> list[int]:
        """Give all nodes without children, in log order."""
        return sorted(nodes[-1] for nodes in self._nodes.values() if not self._forks.get(nodes[-1]))

    def branches(self) -> list[tuple[int, int, int]]:
        """Give (number, stem, last node) of every branch, in order of their numbers."""
        return [(branch, self._stem[branch], nodes[-1]) for branch, nodes in sorted(self._nodes.items())]

    def runs(self, leaf: int) -> list[tuple[int, int, int]]:
        """Give the path to `leaf` as (branch, first position, last position), from the root on."""
        found = []
        node = self.require(leaf)
        while node:
            branch = self._branch[node]
            found.append((branch, branch, node))
            node = self._stem[branch]
        found.reverse()
        return found

    def path(self, leaf: int, first: int = 1) -> list[int]:
        """Give the positions of the nodes from the root, or from position `first` on, to `leaf`."""
        runs: list[array[int]] = []
        node = self.require(leaf)
        while node >= first:
            branch = self._branch[node]
            nodes = self._nodes[branch]
            runs.append(nodes[bisect_left(nodes, first) : bisect_right(nodes, node)])
            node = self._stem[branch]
        positions: list[int] = []
        for run in reversed(runs):
            positions.extend(run)
        return positions

    def is_above(self, node: int, leaf: int) -> bool:
        """Whether `node` lies on the path to `leaf` (a node lies on its own path)."""
        branch = self._branch[node]
        while leaf >= node:
            if self._branch[leaf] == branch:
                return True
            leaf = self._stem[self._branch[leaf]]
        return False

    def common(self, a: int, b: int) -> int:
        """Give the last node that the paths to `a` and `b` share."""
        while self._branch[a] != self._branch[b]:
            if self._branch[a] > self._branch[b]:
                a = self._stem[self._branch[a]]
            else:
                b = self._stem[self._branch[b]]
        return min(a, b)

    def calls_named(self, call: str, leaf: int) -> Iterator[int]:
        """Iterate over the calls of this id on the path to `leaf`, nearest first."""
        return (node for node in reversed(self._calls.get(call, ())) if self.is_above(node, leaf))

    def call_positions(self) -> set[int]:
        """Give the positions of all calls (needs the calls' ids to have been fed in)."""
        return {position for positions in self._calls.values() for position in positions}

    def answered(self, result: int) -> int | None:
        """Give the call that a result answers."""
        return self._answers.get(result)

    def results(self, call: int) -> list[int]:
        """Give the results of a call's node on all branches, in log order."""
        return self._results.get(call, [])

    def result_on(self, call: int, leaf: int) -> int | None:
        """Give the result of a call's node on the path to `leaf`."""
        return next((node for node in self.results(call) if self.is_above(node, leaf)), None)
