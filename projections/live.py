"""The next prompt of a live thread, at the cost of what is new.

An assembler that is `turnwise` gives, for a settled turn, the same pieces whatever comes later. So what was encoded of
settled turns is kept, with the rolling digest behind it, and the ordinary functions derive only a window: the root,
what stands (instructions, tools, context, task list), and the newest turns. Whatever reaches further back (a new
summary, a redaction, a promotion, a late result, another branch, other surroundings) makes the window the whole path
again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from convlog.eventstore.backend import Record
from convlog.eventstore.records import decode_refs

from . import derive, registry
from .caches import Pages, generation
from .kept import Kept, Settled, raw, summary_item, summary_piece, unmarked
from .material import NOTES, attachments, derived, material, stored
from .stages import pieces_v1 as kinds
from .stages import request_v1
from .stages.declared_v1 import GONE
from .stages.material_v1 import Material
from .stages.pieces_v1 import Piece, Text, Tool, Tools
from .stages.request_v1 import Item, Request, WireBlock
from .stages.selection_v1 import select
from .stages.target_v1 import target
from .stages.turns_v1 import DONE, turns
from .stages.view_v1 import Context, Node, Stored, Todos, read_all

if TYPE_CHECKING:
    from .conversation import Thread

SETTLED_IN_WINDOW = 2
"""Settled turns that stay in the window: cache marks and mending look back that far."""

STANDING = frozenset({"instructions.set", "tools.set", "context.set", "todo.written"})
MODEL_ROLES = frozenset({"assistant", "model"})
FRAME = frozenset({kinds.TOOLS, kinds.INSTRUCTIONS})
CALLED_SO_DECLARED = "X7: called, so declared"
"""The rule of an encoder's repair that declares a tool which nobody did; its text is the tool's name."""


NODES_PER_PAGE = 256
"""Settled nodes that a page is worth writing for: deriving them again takes some milliseconds."""


class Unsaved(msgspec.Struct):
    """What settled and stands on no page yet."""

    nodes: int = 0
    read: int = 0
    """Bytes of the nodes as stored."""
    length: int = 0
    """Bytes of what they became."""

    def add(self, settled: Sequence[Stored], length: int) -> None:
        """Count some nodes, and the bytes of what they became."""
        self.nodes += len(settled)
        self.read += sum(len(each.body or b"") + len(each.output or b"") for each in settled)
        self.length += length


class Window:
    """The newest turns and what stands around the talk, as a prompt of their own.

    Where a summary is kept, it stands before them here, so that the encoder sets its marks as it would; what it became
    is then taken out again.
    """

    def __init__(self, prompt: derive.Derived, stand_in: int | None) -> None:
        self.prompt = prompt
        self.lead, talk = _parted(prompt)
        self.stand_in, self.talk = _without(talk, stand_in)
        """The stand-in's block, and the items of the talk without it."""

    def goes_on_from(self, position: int) -> bool:
        """Whether the talk can stand behind what is kept: it begins with the node at a position, and has an answer.

        Where it begins otherwise, the encoder mended the beginning; a cache mark stands before the newest answer.
        """
        pieces = self.prompt.pieces
        made_of = self.talk[0].blocks[0].pieces[:1] if self.talk and self.talk[0].blocks else ()
        begins = bool(made_of) and pieces[made_of[0]].sources[:1] == (position,)
        return begins and any(item.role in MODEL_ROLES for item in self.talk)


class LiveDerived(derive.Derived):
    """A prompt whose beginning was kept. Its bytes and digests are at hand; the rest is derived when asked for."""

    def __init__(self, kept: Kept, window: Window, again: Callable[[], derive.Derived]) -> None:
        self.recipe = window.prompt.recipe
        self.window = window
        self._again = again
        self._chunks = kept.chunks
        self._chunk_count, self._kept_count, self._kept_length = len(kept.chunks), kept.count, kept.length
        self._lead_count = kept.lead_count
        self._rolled = dict(kept.rolled)
        self._summary = kept.summary
        links = list(request_v1.links(Request((), window.talk)))
        self.talk_rolling = request_v1.rolling(kept.rolled[kept.count], links)

    @cached_property
    def _whole(self) -> derive.Derived:
        return self._again() if self._chunk_count else self.window.prompt

    @property
    def pieces(self) -> Sequence[Piece]:  # type: ignore[override] # the base keeps what is derived here when asked for
        """What the prompt is made of, in order."""
        return self._whole.pieces

    @property
    def request(self) -> Request:  # type: ignore[override] # as above
        """The request in parts."""
        return self._whole.request

    @cached_property
    def body(self) -> bytes:
        """The bytes of the request."""
        items = (*self.window.lead, *self._kept_items(), *self.window.talk)
        return request_v1.body(Request(self.window.prompt.request.fields, items))

    def _kept_items(self) -> Iterator[Item]:
        chunks, summary = self._chunks[: self._chunk_count], self._marked_summary
        if self._summary is None or summary is None:
            parts = [chunks]
        else:
            yield from (raw(b",".join(part)) for part in [chunks[: self._summary.chunk]] if part)
            yield summary
            parts = [chunks[self._summary.chunk + 1 :]]
        yield from (raw(b",".join(part)) for part in parts if part)

    @cached_property
    def _marked_summary(self) -> Item | None:
        """The kept summary's item with its cache mark; None when it has none."""
        block = self.window.stand_in
        if self._summary is None or block is None or not (block.mark or block.after):
            return None
        return summary_item(self._summary, block.mark, block.after)

    @property
    def count(self) -> int:
        """Blocks of the request."""
        return self._kept_count + len(self.talk_rolling)

    @property
    def length(self) -> int:
        """Bytes of the request."""
        fields, here = self.window.prompt.request.fields, (*self.window.lead, *self.window.talk)
        commas = self._chunk_count - (not here and self._chunk_count > 0)
        mark = 0
        if self._summary is not None and self._marked_summary is not None:
            marked = request_v1.item_bytes(self._marked_summary)
            mark = len(marked) - len(self._chunks[self._summary.chunk])
        return len(request_v1.body(Request(fields, here))) + self._kept_length + commas + mark

    def rolled(self, count: int) -> bytes:
        """Give r of the first so many blocks."""
        if count > self._kept_count:
            return self.talk_rolling[count - self._kept_count - 1]
        return self._rolled[count]

    @property
    def marks(self) -> bytes:
        """The cache marks and where they stand."""
        summary = (
            []
            if self._summary is None or self._marked_summary is None
            else [(self._summary.number, self._marked_summary)]
        )
        items = chain(
            request_v1.numbered(self.window.lead),
            summary,
            request_v1.numbered(self.window.talk, self._kept_count),
        )
        return request_v1.marks(self.window.prompt.request.fields, items)


class Live:
    """One thread's newest prompt by one recipe, kept ready to be gone on from."""

    def __init__(self, thread: Thread, recipe: derive.Recipe, pages: Pages | None = None) -> None:
        self._thread = thread
        self._recipe = recipe
        self._pages = pages
        """Where settled turns are kept for other processes; None where nothing that was kept before may be used."""
        self._generation: bytes | None = None
        self._unsaved = Unsaved()
        self._images = target(recipe.profile).images
        self._at = 0
        self._tip = 0
        """The last node of the path."""
        self._first = 0
        """The window's first node; 0 while nothing is kept."""
        self._root: Stored | None = None
        self._standing: list[Stored] = []
        self._window: list[Stored] = []
        self._notes: list[Stored] = []
        self._crossed = False
        """Whether what is kept hangs on this window: a result in it answers a kept call, or a summary that does not
        apply on this path ends in it."""
        self._kept: Kept | None = None
        self._said: set[int] = set()
        """Positions of which the newest prompt's window said something."""
        self.losing: tuple[int, ...] | None = None
        """Of what the newest prompt says nothing any more; None when there was none before it."""

    def derive(self, leaf: int, at: int) -> derive.Derived:
        """Derive the prompt at a leaf as of a position."""
        going_on = self._is_current() and self._follow(leaf, at)
        if not going_on and not (self._restore(leaf, at) and self._follow(leaf, at)):
            self._start_over(leaf, at)
        prompt = self._derive(at)
        if prompt is None:
            self._start_over(leaf, at)
            prompt = self._derive(at)
            assert prompt is not None
        self._settle(prompt)
        return prompt

    # --- reading ---

    def _is_current(self) -> bool:
        """Whether nothing was erased, anywhere, since what is kept was read."""
        return self._pages is None or (
            self._generation is not None and self._generation == generation(self._thread.store, self._thread.id)
        )

    def _start_over(self, leaf: int, at: int) -> None:
        if self._pages is not None:
            self._pages.start_over()
            self._generation = generation(self._thread.store, self._thread.id)
        read = material(self._thread, leaf, at)
        self._root, self._window = read.path[0], list(read.path[1:])
        self._notes, self._standing = list(read.notes), []
        self._kept, self._first, self._crossed = None, 0, False
        self._at, self._tip = at, leaf
        self._said, self.losing, self._unsaved = set(), None, Unsaved()

    def _restore(self, leaf: int, at: int) -> bool:
        """Take what another process kept; False when there is nothing on the path to this leaf."""
        if self._pages is None:
            return False
        self._generation = generation(self._thread.store, self._thread.id)
        found = self._pages.newest(leaf, at)
        if found is None:
            return False
        page, self._kept = found
        self._root, *self._standing = (stored(record) for record in self._thread.records([1, *page.standing]))
        notes = self._thread.store.log(self._thread.id).read(page.first, page.at, types=NOTES)
        self._notes = [stored(record) for record in notes if _stays(record, page.first)]
        self._window = []
        self._at, self._tip, self._first, self._crossed = page.at, page.tip, page.first, page.crossed
        self._said, self.losing, self._unsaved = set(), None, Unsaved()
        return True

    def _follow(self, leaf: int, at: int) -> bool:
        """Take what was appended since; False when it reaches further back than the window."""
        tree = self._thread.tree
        if self._root is None or at < self._at or not tree.is_above(self._first or 1, leaf):
            return False
        if self._crossed and not tree.is_above(self._tip, leaf):
            return False
        fresh = {}
        for record in self._thread.store.log(self._thread.id).read(self._at + 1, at):
            if record.parent is not None:
                fresh[record.position] = stored(record)
            elif record.type in NOTES:
                if _reaches(record) < self._first:
                    return False
                self._notes.append(stored(record))
        window = self._path(leaf, fresh)
        if any(_answered(each) < self._first and not tree.is_above(each.position, self._tip) for each in window):
            return False
        self._window = window
        self._at, self._tip = at, leaf
        return True

    def _path(self, leaf: int, fresh: dict[int, Stored]) -> list[Stored]:
        """Give the window's nodes on the path to a leaf, reading what is not known of them."""
        tree = self._thread.tree
        if self._window and tree.is_above(self._tip, leaf):
            new = tree.path(leaf, self._tip + 1)
            if all(position in fresh for position in new):
                return [*self._window, *(fresh[position] for position in new)]
        known = {each.position: each for each in self._window} | fresh
        positions = tree.path(leaf, max(2, self._first))
        missing = [position for position in positions if position not in known]
        known.update((record.position, stored(record)) for record in self._thread.records(missing))
        return [known[position] for position in positions]

    # --- deriving ---

    def _derive(self, at: int) -> LiveDerived | None:
        """Derive the window and put it behind what is kept; None when it does not fit there."""
        assert self._root is not None
        path = (self._root, *self._standing, *self._window)
        pieces = derive.assemble(Material(path, tuple(self._notes), at), self._recipe)
        said = _said(pieces)
        stand_in = None
        if self._kept is not None and self._first:
            if not self._kept.fits(pieces, self._images):
                return None
            pieces = _with_stand_ins(pieces, self._kept.undeclared)
            if self._kept.summary is not None:
                stand_in = _frame_length(pieces)
                pieces.insert(stand_in, summary_piece(self._kept.summary))
        needed = derive.attachments_needed(pieces)
        request = derive.encode(pieces, self._recipe, attachments(self._thread, needed))
        window = Window(derive.Derived(self._recipe, pieces, request), stand_in)
        first = request_v1.start(request)
        lead = [first, *request_v1.rolling(first, list(request_v1.links(Request((), window.lead))))]
        if self._kept is None:
            self._kept = Kept(lead)
        elif not self._kept.goes_on_from(lead) or (self._first and not window.goes_on_from(self._first)):
            return None
        if (stand_in is None) != (window.stand_in is None):
            return None
        self._compare(said)
        thread, recipe, leaf = self._thread, self._recipe, self._tip
        return LiveDerived(self._kept, window, lambda: derived(thread, recipe, leaf, at))

    def _compare(self, said: set[int]) -> None:
        """Note of what the prompt before said something and this one says nothing."""
        if self._said:
            here = {each.position for each in self._window}
            self.losing = tuple(sorted((self._said - said) & here))
        self._said = said

    # --- keeping ---

    def _settle(self, prompt: LiveDerived) -> None:
        """Move all settled turns but the last few from the window to what is kept."""
        found = next(((each, split) for each in self._boundaries() if (split := _split(prompt.window, each))), None)
        if found is None or self._kept is None:
            return
        boundary, (piece, items) = found
        window = prompt.window.prompt
        frame = _frame_length(window.pieces) + (prompt.window.stand_in is not None)
        count = sum(len(item.blocks) for item in items)
        length = self._kept.length
        self._kept.take(
            Settled(
                pieces=window.pieces,
                talk=range(frame, piece),
                items=[unmarked(item) for item in items],
                rolling=prompt.talk_rolling[:count],
                undeclared=_undeclared(window.request) | self._kept.undeclared.keys(),
                is_marked=any(block.mark or block.after for item in prompt.window.talk for block in item.blocks),
            )
        )
        settled = [each for each in self._window if each.position < boundary]
        self._standing = _still_standing([*self._standing, *(each for each in settled if each.type in STANDING)])
        self._window = self._window[len(settled) :]
        late = any(_answered(each) < boundary for each in self._window)
        self._crossed = late or any(_crosses(note, boundary) for note in self._notes)
        self._notes = [note for note in self._notes if _stays(note, boundary)]
        self._first = boundary
        self._unsaved.add(settled, self._kept.length - length)

    def keep(self) -> None:
        """Keep what settled for other processes, where it is worth its room."""
        pages, unsaved = self._pages, self._unsaved
        # A recipe that was used once may never be again: whose prompt is not the second one keeps nothing.
        if pages is None or self._generation is None or self._kept is None or self.losing is None:
            return
        if unsaved.nodes < NODES_PER_PAGE or unsaved.length > unsaved.read // 2:
            return
        pages.add(
            self._kept,
            at=self._at,
            tip=self._tip,
            first=self._first,
            crossed=self._crossed,
            standing=tuple(each.position for each in self._standing),
            generation=self._generation,
        )
        self._unsaved = Unsaved()

    def _boundaries(self) -> Iterator[int]:
        """Iterate over the positions that the window may begin at, the last first: behind a turn that is done.

        An unfinished turn counts as settled by a done one after it, which then must be kept too: in the window it may
        still end otherwise.
        """
        notes = read_all(self._notes)
        found = turns(select(read_all(self._window), notes).slots, notes)
        settled = next((index for index, turn in enumerate(found) if turn.native), len(found))
        last = min(settled, len(found) - 1 - SETTLED_IN_WINDOW)
        return (
            found[index].start
            for index in range(last, 0, -1)
            if found[index - 1].state == DONE and isinstance(found[index].slots[0], Node)
        )


# --- what events reach back to ---


class _Speaks(msgspec.Struct):
    """What the notes speak of: the earliest node of it."""

    node: int = 0
    first: int = 0
    last: int = 0
    call: int = 0


_speaks = msgspec.json.Decoder(_Speaks).decode

_REACH = {"turn.ended": "node", "pending.cleared": "node", "summary.added": "first", "result.promoted": "call"}


def _reaches(note: Record | Stored) -> int:
    """Give the earliest node that a note says something of; 0 for what may say something of all."""
    member = _REACH.get(note.type)
    return 0 if member is None else getattr(_speaks(note.body or b"{}"), member)


def _stays(note: Record | Stored, boundary: int) -> bool:
    """Whether a window that begins at a boundary needs a note."""
    return note.type not in _REACH or _reaches(note) >= boundary


def _crosses(note: Stored, boundary: int) -> bool:
    """Whether a summary covers nodes on both sides of a boundary."""
    if note.type != "summary.added":
        return False
    body = _speaks(note.body or b"{}")
    return body.first < boundary <= body.last


def _answered(record: Record | Stored) -> int:
    """Give the call that a result answers; for what answers none, a position behind all."""
    return next((position for word, position in decode_refs(record.refs) if word == "answers"), 2**62)


def _still_standing(found: Sequence[Stored]) -> list[Stored]:
    """Leave out the context and the task lists that later ones replace; tools and instructions may be cited."""
    last: dict[object, int] = {}
    for node in read_all(found):
        match node.body:
            case Context(name=name):
                last[name] = node.position
            case Todos():
                last[Todos] = node.position
    replaceable = {"context.set", "todo.written"}
    kept = set(last.values())
    return [each for each in found if each.type not in replaceable or each.position in kept or each.body is None]


# --- parts of a prompt ---


def _said(pieces: Sequence[Piece]) -> set[int]:
    return {position for piece in pieces if piece.provenance != kinds.DROPPED for position in piece.sources}


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


def _split(window: Window, boundary: int) -> tuple[int, tuple[Item, ...]] | None:
    """Give (index of the first piece that stays, items of the talk before it).

    Only between a message of the model and one of the user: elsewhere encoders may mend what stands side by side.
    """
    pieces, items = window.prompt.pieces, window.talk
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


def _without(talk: tuple[Item, ...], piece: int | None) -> tuple[WireBlock | None, tuple[Item, ...]]:
    """Give the block that was made of a piece alone, first in the talk, and the talk without it."""
    if piece is None or not talk or not talk[0].blocks or talk[0].blocks[0].pieces != (piece,):
        return None, talk
    block, *rest = talk[0].blocks
    first = (msgspec.structs.replace(talk[0], blocks=tuple(rest)),) if rest else ()
    return block, (*first, *talk[1:])


def _begins_at(item: Item, piece: int) -> bool:
    return bool(item.blocks) and item.blocks[0].pieces[:1] == (piece,)


class LiveThreads:
    """The live prompts of a store's threads, the most recently used.

    Args:
        pages: Whether settled turns are kept in the store and taken from there. What proves prompts does neither.
        threads_max: So many are held.
    """

    def __init__(self, *, pages: bool = False, threads_max: int = 64) -> None:
        self._pages = pages
        self._threads_max = threads_max
        self._live: OrderedDict[tuple[str, bytes], Live] = OrderedDict()

    def get(self, thread: Thread, recipe: derive.Recipe) -> Live | None:
        """Give the live prompt of a thread by a recipe; None when none is held."""
        return self._live.get(_key(thread, recipe))

    def derive(self, thread: Thread, recipe: derive.Recipe, leaf: int, at: int) -> tuple[derive.Derived, Live] | None:
        """Derive the prompt at a leaf as of a position; None when the recipe cannot be gone on from."""
        if not _can_be_kept(recipe):
            return None
        key = _key(thread, recipe)
        pages = Pages(thread, recipe) if self._pages and key not in self._live else None
        live = self._live.pop(key, None) or Live(thread, recipe, pages)
        prompt = live.derive(leaf, at)
        self._live[key] = live
        while len(self._live) > self._threads_max:
            self._live.popitem(last=False)
        return prompt, live


def _key(thread: Thread, recipe: derive.Recipe) -> tuple[str, bytes]:
    return thread.id, msgspec.json.encode(recipe)


def _can_be_kept(recipe: derive.Recipe) -> bool:
    """Whether settled turns stay as they are: our own encoders are written so, another's must say it."""
    encoder = registry.get(recipe.encoder)
    return registry.get(recipe.assembler).turnwise and (recipe.encoder in registry.OWN or encoder.turnwise)
