"""The next prompt of a live thread, at the cost of what is new.

An assembler that is `turnwise` gives, for a settled turn, the same pieces whatever comes later. So what was encoded of
settled turns is kept, with the rolling digest behind it, and the ordinary functions derive only a window: the root,
what stands (instructions, tools, context, task list), and the newest turns. Whatever reaches further back (a summary,
a redaction, a promotion, a late result, another branch, other surroundings) makes the window the whole path again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from convlog.eventstore.backend import Record
from convlog.eventstore.records import decode_refs

from . import derive, registry
from .material import NOTES, attachments, derived, material, stored
from .stages import pieces_v1 as kinds
from .stages import request_v1
from .stages.declared_v1 import GONE
from .stages.material_v1 import Material
from .stages.pieces_v1 import Call, Piece, Text, Tool, Tools
from .stages.request_v1 import Item, Request
from .stages.selection_v1 import Covered, select
from .stages.turns_v1 import DONE, Turn, turns
from .stages.view_v1 import Node, Stored, read_all

if TYPE_CHECKING:
    from .conversation import Thread

SETTLED_IN_WINDOW = 2
"""Settled turns that stay in the window: cache marks and mending look back that far."""

STANDING = frozenset({"instructions.set", "tools.set", "context.set", "todo.written"})
MODEL_ROLES = frozenset({"assistant", "model"})
FRAME = frozenset({kinds.TOOLS, kinds.INSTRUCTIONS})
CALLED_SO_DECLARED = "X7: called, so declared"
"""The rule of an encoder's repair that declares a tool which nobody did; its text is the tool's name."""
SERVER = "server"


class Kept:
    """What was encoded of settled turns. Only ever grows: prompts made earlier remember how much of it was theirs."""

    def __init__(self, lead: Sequence[bytes]) -> None:
        self.lead_count = len(lead) - 1
        """Blocks before the talk (a system message inside the list)."""
        self.rolled = dict(enumerate(lead))
        """r at the counts that digests may be asked for, from r_0 on."""
        self.count = self.lead_count
        """Blocks, those before the talk included."""
        self.items: list[Item] = []
        self.length = 0
        """Bytes of the items, commas between them left out."""
        self.calls: set[str] = set()
        self.undeclared: dict[str, None] = {}
        """Names of tools that these turns call and nobody declared, in the order of the calls."""

    def goes_on_from(self, lead: Sequence[bytes]) -> bool:
        """Whether what stands before the talk is the same as when this was kept."""
        return self.lead_count == len(lead) - 1 and self.rolled[self.lead_count] == lead[-1]

    def take(
        self, pieces: Sequence[Piece], items: Sequence[Item], rolling: Sequence[bytes], undeclared: Collection[str]
    ) -> None:
        """Add settled turns.

        Args:
            pieces: of the window that they stood in.
            items: what they became.
            rolling: r behind each of their blocks.
            undeclared: names of tools that the window calls and nobody declared.
        """
        for element in (pieces[index].element for item in items for block in item.blocks for index in block.pieces):
            if isinstance(element, Call) and element.kind != SERVER and element.name in undeclared:
                self.undeclared[element.name] = None
        self.items.extend(items)
        self.length += sum(len(request_v1.item_bytes(item)) for item in items)
        self.rolled.update(enumerate(rolling, self.count + 1))
        self.count += len(rolling)
        recent = self.count - derive.RECENT_BLOCKS
        for number in [number for number in self.rolled if self.lead_count < number < recent and number & (number - 1)]:
            del self.rolled[number]


class LiveDerived(derive.Derived):
    """A prompt whose beginning was kept. Its bytes and digests are at hand; the rest is derived when asked for."""

    def __init__(self, kept: Kept, window: derive.Derived, again: Callable[[], derive.Derived]) -> None:
        self.recipe = window.recipe
        self.window = window
        """The newest turns, and what stands around the talk, as a prompt of their own."""
        self._again = again
        self._kept = kept
        self._kept_items, self._kept_count, self._kept_length = len(kept.items), kept.count, kept.length
        self._rolled = dict(kept.rolled)
        self.lead, self.talk = _parted(window)
        links = list(request_v1.links(Request((), self.talk)))
        self.talk_rolling = request_v1.rolling(kept.rolled[kept.count], links)

    @cached_property
    def _cold(self) -> derive.Derived:
        return self._again()

    @property
    def pieces(self) -> Sequence[Piece]:  # type: ignore[override] # the base keeps what is derived here when asked for
        """What the prompt is made of, in order."""
        return self._cold.pieces

    @property
    def request(self) -> Request:  # type: ignore[override] # as above
        """The request in parts."""
        return self._cold.request

    @cached_property
    def body(self) -> bytes:
        """The bytes of the request."""
        items = (*self.lead, *self._kept.items[: self._kept_items], *self.talk)
        return request_v1.body(Request(self.window.request.fields, items))

    @property
    def count(self) -> int:
        """Blocks of the request."""
        return self._kept_count + len(self.talk_rolling)

    @property
    def length(self) -> int:
        """Bytes of the request."""
        fields, here = self.window.request.fields, (*self.lead, *self.talk)
        commas = self._kept_items - (not here and self._kept_items > 0)
        return len(request_v1.body(Request(fields, here))) + self._kept_length + commas

    def rolled(self, count: int) -> bytes:
        """Give r of the first so many blocks."""
        if count > self._kept_count:
            return self.talk_rolling[count - self._kept_count - 1]
        return self._rolled[count]

    @property
    def marks(self) -> bytes:
        """The cache marks and where they stand."""
        here = Request(self.window.request.fields, (*self.lead, *self.talk))
        lead = self._kept.lead_count
        return request_v1.marks(here, lead, self._kept_count - lead)


class Live:
    """One thread's newest prompt by one recipe, kept ready to be gone on from."""

    def __init__(self, thread: Thread, recipe: derive.Recipe) -> None:
        self._thread = thread
        self._recipe = recipe
        self._at = 0
        self._tip = 0
        """The last node of the path."""
        self._root: Stored | None = None
        self._standing: list[Stored] = []
        self._window: list[Stored] = []
        self._notes: list[Stored] = []
        self._kept: Kept | None = None
        self._said: set[int] = set()
        """Positions of which the newest prompt's window said something."""
        self.losing: tuple[int, ...] | None = None
        """Of what the newest prompt says nothing any more; None when there was none before it."""

    def derive(self, leaf: int, at: int) -> derive.Derived:
        """Derive the prompt at the head."""
        if not self._follow(leaf, at):
            self._start_over(leaf, at)
        prompt = self._derive(at)
        if prompt is None:
            self._start_over(leaf, at)
            prompt = self._derive(at)
            assert prompt is not None
        self._settle(prompt)
        return prompt

    # --- reading ---

    def _start_over(self, leaf: int, at: int) -> None:
        read = material(self._thread, leaf, at)
        self._root, self._window = read.path[0], list(read.path[1:])
        self._notes, self._standing = list(read.notes), []
        self._kept = None
        self._at, self._tip = at, leaf
        self._said, self.losing = set(), None

    def _follow(self, leaf: int, at: int) -> bool:
        """Take what was appended since; False when it reaches further back than the window."""
        if self._root is None or at < self._at:
            return False
        first = self._window[0].position if self._window else self._tip
        log = self._thread.store.log(self._thread.id)
        for record in log.read(self._at + 1, at):
            if record.parent is not None:
                if record.parent != self._tip or _answered(record) < first:
                    return False
                self._window.append(stored(record))
                self._tip = record.position
            elif record.type == "turn.ended" and _ended(record) >= first:
                self._notes.append(stored(record))
            elif record.type in NOTES:
                return False
        self._at = at
        return self._tip == leaf

    # --- deriving ---

    def _derive(self, at: int) -> LiveDerived | None:
        """Derive the window and put it behind what is kept; None when it does not fit there."""
        assert self._root is not None
        path = (self._root, *self._standing, *self._window)
        pieces = derive.assemble(Material(path, tuple(self._notes), at), self._recipe)
        if self._kept is not None:
            pieces = _with_stand_ins(pieces, self._kept.undeclared)
        needed = derive.attachments_needed(pieces)
        request = derive.encode(pieces, self._recipe, attachments(self._thread, needed))
        window = derive.Derived(self._recipe, pieces, request)
        first = request_v1.start(request)
        lead = [first, *request_v1.rolling(first, list(request_v1.links(Request((), _parted(window)[0]))))]
        if self._kept is None:
            self._kept = Kept(lead)
        repeated = any(isinstance(piece.element, Call) and piece.element.id in self._kept.calls for piece in pieces)
        if repeated or not self._kept.goes_on_from(lead):
            return None
        self._compare(pieces)
        thread, recipe, leaf = self._thread, self._recipe, self._tip
        return LiveDerived(self._kept, window, lambda: derived(thread, recipe, leaf, at))

    def _compare(self, pieces: Sequence[Piece]) -> None:
        """Note of what the prompt before said something and this one says nothing."""
        said = {position for piece in pieces if piece.provenance != kinds.DROPPED for position in piece.sources}
        if self._said:
            oldest = self._window[0].position if self._window else 0
            self.losing = tuple(sorted(position for position in self._said - said if position >= oldest))
        self._said = said

    # --- keeping ---

    def _settle(self, prompt: LiveDerived) -> None:
        """Move all settled turns but the last few from the window to what is kept."""
        found = next(((each, split) for each in self._boundaries() if (split := _split(prompt, each))), None)
        if found is None or self._kept is None:
            return
        boundary, (piece, items) = found
        count = sum(len(item.blocks) for item in items)
        window = prompt.window
        self._kept.calls.update(each.element.id for each in window.pieces[:piece] if isinstance(each.element, Call))
        self._kept.take(
            window.pieces,
            [_unmarked(item) for item in items],
            prompt.talk_rolling[:count],
            _undeclared(window.request) | self._kept.undeclared.keys(),
        )
        self._standing.extend(each for each in self._window if each.position < boundary and each.type in STANDING)
        self._window = [each for each in self._window if each.position >= boundary]
        self._notes = [each for each in self._notes if each.position >= boundary]

    def _boundaries(self) -> Iterator[int]:
        """Iterate over the positions that the window may begin at, the last first: behind a turn that is done.

        An unfinished turn counts as settled by a done one after it, which then must be kept too: in the window it may
        still end otherwise.
        """
        notes = read_all(self._notes)
        found = turns(select(read_all(self._window), notes).slots, notes)
        settled = next((index for index, turn in enumerate(found) if not _is_settled(turn)), len(found))
        last = min(settled, len(found) - 1 - SETTLED_IN_WINDOW)
        return (
            found[index].start
            for index in range(last, 0, -1)
            if found[index - 1].state == DONE and isinstance(found[index].slots[0], Node)
        )


def _is_settled(turn: Turn) -> bool:
    return not turn.native and not any(isinstance(slot, Covered) for slot in turn.slots)


def _answered(record: Record) -> int:
    """Give the call that a result answers; for what answers none, a position behind all."""
    return next((position for word, position in decode_refs(record.refs) if word == "answers"), 2**62)


def _ended(record: Record) -> int:
    """Give the last node of the turn that ended."""
    return _decode_end(record.body or b"{}").node


class _End(msgspec.Struct):
    node: int = 0


_decode_end = msgspec.json.Decoder(_End).decode


def _frame_length(pieces: Sequence[Piece]) -> int:
    """Give how many pieces stand before the talk."""
    count = 0
    for piece in pieces:
        if piece.provenance not in FRAME and not (
            piece.role == "system" and piece.provenance in {kinds.CONTEXT, kinds.TASK_LIST}
        ):
            break
        count += 1
    return count


def _split(prompt: LiveDerived, boundary: int) -> tuple[int, tuple[Item, ...]] | None:
    """Give (index of the first piece that stays, items of the talk before it).

    Only between a message of the model and one of the user: elsewhere encoders may mend what stands side by side.
    """
    pieces, items = prompt.window.pieces, prompt.talk
    piece = next((index for index, each in enumerate(pieces) if each.sources[:1] == (boundary,)), None)
    index = 0 if piece is None else next((i for i, item in enumerate(items) if _begins_at(item, piece)), 0)
    if piece is None or not index or items[index - 1].role not in MODEL_ROLES or items[index].role != "user":
        return None
    # A cache mark stands before the newest answer: one with what it answers must stay.
    return (piece, items[:index]) if any(item.role in MODEL_ROLES for item in items[index:]) else None


def _undeclared(request: Request) -> set[str]:
    """Give the names of the tools that an encoder declared since they are called."""
    found = (
        each.element.text
        for each in request.repairs
        if each.rule == CALLED_SO_DECLARED and isinstance(each.element, Text)
    )
    return set(found)


def _with_stand_ins(pieces: Sequence[Piece], names: Collection[str]) -> list[Piece]:
    """Declare, in a window, what kept turns call and nobody declared, in the words of the encoder's own stand-ins."""
    if not names:
        return list(pieces)
    stand_ins = tuple(Tool(name, GONE) for name in names)
    last = max((index for index, piece in enumerate(pieces) if piece.provenance == kinds.TOOLS), default=None)
    if last is None:
        return [Piece(kinds.TOOLS, "system", Tools(stand_ins)), *pieces]
    found = list(pieces)
    element = found[last].element
    assert isinstance(element, Tools)
    found[last] = msgspec.structs.replace(found[last], element=Tools((*element.tools, *stand_ins)))
    return found


def _parted(prompt: derive.Derived) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """Give the items before the talk (made of what stands around it) and those of the talk."""
    items, frame = prompt.request.items, _frame_length(prompt.pieces)
    count = 0
    for item in items:
        if not all(block.pieces and max(block.pieces) < frame for block in item.blocks):
            break
        count += 1
    return items[:count], items[count:]


def _begins_at(item: Item, piece: int) -> bool:
    return bool(item.blocks) and item.blocks[0].pieces[:1] == (piece,)


def _unmarked(item: Item) -> Item:
    blocks = tuple(msgspec.structs.replace(block, mark=b"", after=b"") for block in item.blocks)
    return msgspec.structs.replace(item, blocks=blocks)


class LiveThreads:
    """The live prompts of a store's threads, the most recently used."""

    def __init__(self, threads_max: int = 64) -> None:
        self._threads_max = threads_max
        self._live: OrderedDict[tuple[str, bytes], Live] = OrderedDict()

    def derive(self, thread: Thread, recipe: derive.Recipe, leaf: int, at: int) -> tuple[derive.Derived, Live] | None:
        """Derive the prompt at a thread's head; None when the recipe cannot be gone on from."""
        if not registry.get(recipe.assembler).turnwise:
            return None
        key = (thread.id, msgspec.json.encode(recipe))
        live = self._live.pop(key, None) or Live(thread, recipe)
        prompt = live.derive(leaf, at)
        self._live[key] = live
        while len(self._live) > self._threads_max:
            self._live.popitem(last=False)
        return prompt, live

    def forget(self, thread: str) -> None:
        """Drop what is kept of a thread."""
        for key in [key for key in self._live if key[0] == thread]:
            del self._live[key]
