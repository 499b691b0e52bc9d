"""The next prompt of a live thread, at the cost of what is new.

An assembler that is `turnwise` gives, for a settled turn, the same pieces whatever comes later. So what was encoded of
settled turns is kept, with the rolling digest behind it, and the ordinary functions derive only a window: the root,
what stands (instructions, tools, context, task list), and the newest turns. Of a long open turn, whose nodes stand in a
prompt one by one, the first steps are kept likewise until it is over. Whatever reaches further back (a new summary, a
redaction, a promotion, a late result, another branch, other surroundings) makes the window the whole path again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from convlog.eventstore.backend import Record

from . import derive, registry
from .caches import Pages
from .derive import Derived, Recipe
from .generation import generation
from .kept import Kept, Settled, summary_piece, unmarked
from .live_derived import LiveDerived
from .material import NOTES, attachments, derived, material, stored
from .reach import STANDING, answered, answers_before, crosses, reaches, responses, stays, still_standing
from .stages import pieces_v1 as kinds
from .stages import request_v1
from .stages.material_v1 import Material
from .stages.pieces_v1 import Piece
from .stages.request_v1 import Request
from .stages.selection_v1 import select
from .stages.target_v1 import target
from .stages.turns_v1 import DONE, Turn, starts_turn, turns
from .stages.view_v1 import Node, Stored, read_all
from .window import (
    STEPS_IN_WINDOW,
    Split,
    Window,
    declaring,
    frame_length,
    keeps_marks,
    made_of,
    split_at,
    split_in_turn,
    undeclared,
)

if TYPE_CHECKING:
    from .conversation import Thread

SETTLED_IN_WINDOW = 2
"""Settled turns that stay in the window: cache marks and mending look back that far."""

NODES_IN_TURN = 64
"""An open turn of more nodes has its first steps kept."""

BLOCKS_BEHIND_MARKS = 8
"""Blocks that stay in the window besides those that a cache mark may look back over."""

STEPS = frozenset({"segment.added", "tool.called", "tool.returned", *STANDING})
"""The nodes that go on with an open turn, and change nothing of what was said in it."""

CHECKED_FROM = 64
"""A prompt of twice so many blocks is the first to be compared with the one derived whole."""

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


class Reading(msgspec.Struct):
    """What is read of a thread: the window, and what it needs of what is before it."""

    nodes: list[Stored]
    """The window."""
    standing: list[Stored]
    """Nodes before it that still say something: instructions, tools, context, task list."""
    notes: list[Stored]
    first: int = 0
    """The window's first node; 0 while nothing is kept."""
    opening: Stored | None = None
    """The input that opened the turn of which the first steps are kept."""
    crossed: bool = False
    """Whether a summary, which does not apply on this path, begins in what is kept and ends in the window."""
    kept: Kept | None = None

    @property
    def path(self) -> list[Stored]:
        """The nodes to derive from, but for the root."""
        before = [*self.standing, self.opening] if self.opening is not None else self.standing
        return [*sorted(before, key=_position), *self.nodes]

    def copy(self, opening: Stored) -> Reading:
        """Give another that goes its own way from here, while a turn is open."""
        kept = None if self.kept is None else self.kept.copy()
        return Reading(list(self.nodes), self.standing, list(self.notes), opening=opening, kept=kept)

    def leave(self, boundary: int) -> list[Stored]:
        """Let the window begin at a boundary, and give the nodes that left it."""
        gone = [each for each in self.nodes if each.position < boundary]
        self.standing = still_standing([*self.standing, *(each for each in gone if each.type in STANDING)])
        self.nodes = self.nodes[len(gone) :]
        # Once a summary is dropped that crossed an earlier boundary, it may cross this one too.
        self.crossed = self.crossed or any(crosses(note, boundary) for note in self.notes)
        self.notes = [note for note in self.notes if stays(note, boundary)]
        self.first = boundary
        return gone


class Live:
    """One thread's newest prompt by one recipe, kept ready to be gone on from."""

    def __init__(self, thread: Thread, recipe: Recipe, pages: Pages | None = None, *, lasting: bool = False) -> None:
        self._thread = thread
        self._recipe = recipe
        self._pages = pages
        """Where settled turns are kept for other processes; None where nothing that was kept before may be used."""
        self._lasting = lasting
        """Whether it outlives one piece of work, so that something may be erased meanwhile."""
        self._generation: bytes | None = None
        self._unsaved = Unsaved()
        facts = target(recipe.profile)
        self._images = facts.images
        self._blocks_min = BLOCKS_BEHIND_MARKS + (facts.cache.lookback_blocks if facts.cache else 0)
        self._root: Stored | None = None
        self._here = Reading([], [], [])
        self._turn: Reading | None = None
        """Where first steps of an open turn are kept: what was read before they were, to go back to."""
        self._at = 0
        self._tip = 0
        """The last node of the path."""
        self._said_last: set[int] = set()
        """Positions of which the window of the prompt recorded last said something."""
        self.losing: tuple[int, ...] | None = None
        """What the prompt recorded last said something of, and the newest does not; None when there was none."""

    def derive(self, leaf: int, at: int) -> LiveDerived:
        """Derive the prompt at a leaf as of a position."""
        going_on = self._is_current() and self._follow(leaf, at)
        if not going_on and not (self._restore(leaf, at) and self._follow(leaf, at)):
            self._start_over(leaf, at)
        prompt = self._derive(at)
        if prompt is None:
            self._start_over(leaf, at)
            prompt = self._derive(at)
            assert prompt is not None
        prompt.losing = self.losing
        self._settle(prompt)
        return prompt

    # --- reading ---

    def _is_current(self) -> bool:
        """Whether nothing was erased, anywhere, since what is kept was read."""
        return not self._lasting or (self._generation is not None and self._generation == self._generation_now())

    def _generation_now(self) -> bytes | None:
        return generation(self._thread.store, self._thread.id) if self._lasting else None

    def _start_over(self, leaf: int, at: int) -> None:
        if self._pages is not None:
            self._pages.start_over()
        self._generation = self._generation_now()
        read = material(self._thread, leaf, at)
        self._root = read.path[0]
        self._begin(Reading(list(read.path[1:]), [], list(read.notes)), leaf, at)

    def _restore(self, leaf: int, at: int) -> bool:
        """Take what another process kept; False when there is nothing on the path to this leaf."""
        if self._pages is None:
            return False
        self._generation = self._generation_now()
        found = self._pages.newest(leaf, at)
        if found is None:
            return False
        page, kept = found
        self._root, *standing = (stored(record) for record in self._thread.records([1, *page.standing]))
        notes = self._thread.store.log(self._thread.id).read(page.first, page.at, types=NOTES)
        staying = [stored(record) for record in notes if stays(record, page.first)]
        here = Reading([], standing, staying, first=page.first, crossed=page.crossed, kept=kept)
        self._begin(here, page.tip, page.at)
        return True

    def _begin(self, here: Reading, tip: int, at: int) -> None:
        self._here, self._turn = here, None
        self._tip, self._at = tip, at
        self._said_last, self.losing, self._unsaved = set(), None, Unsaved()

    def _follow(self, leaf: int, at: int) -> bool:
        """Take what was appended since; False when it reaches further back than the window."""
        if self._root is None or at < self._at:
            return False
        records = list(self._thread.store.log(self._thread.id).read(self._at + 1, at))
        if self._turn is not None and not self._goes_on_with_turn(records, leaf):
            self._here, self._turn = self._turn, None
        tree, here = self._thread.tree, self._here
        if not tree.is_above(here.first or 1, leaf) or (here.crossed and not tree.is_above(self._tip, leaf)):
            return False
        notes = [record for record in records if record.type in NOTES]
        if any(reaches(note) < here.first for note in notes):
            return False
        nodes = self._path(leaf, {each.position: stored(each) for each in records if each.parent is not None})
        if any(answered(each) < here.first and not tree.is_above(each.position, self._tip) for each in nodes):
            return False
        if self._turn is not None:
            self._turn.nodes.extend(nodes[len(here.nodes) :])
        here.nodes = nodes
        here.notes.extend(map(stored, notes))
        self._at, self._tip = at, leaf
        return True

    def _goes_on_with_turn(self, records: Sequence[Record], leaf: int) -> bool:
        """Whether all that is new are steps, one after the other, behind those that are there."""
        tip = self._tip
        for record in records:
            if record.parent is None:
                if record.type in NOTES:
                    return False
            elif record.parent != tip or record.type not in STEPS or answered(record) < self._here.first:
                return False
            else:
                tip = record.position
        return tip == leaf

    def _path(self, leaf: int, fresh: dict[int, Stored]) -> list[Stored]:
        """Give the window's nodes on the path to a leaf, reading what is not known of them."""
        tree, here = self._thread.tree, self._here
        if here.nodes and tree.is_above(self._tip, leaf):
            new = tree.path(leaf, self._tip + 1)
            if all(position in fresh for position in new):
                return [*here.nodes, *(fresh[position] for position in new)]
        known = {each.position: each for each in here.nodes} | fresh
        positions = tree.path(leaf, max(2, here.first))
        missing = [position for position in positions if position not in known]
        known.update((record.position, stored(record)) for record in self._thread.records(missing))
        return [known[position] for position in positions]

    # --- deriving ---

    def _derive(self, at: int) -> LiveDerived | None:
        """Derive the window and put it behind what is kept; None when it does not fit there."""
        assert self._root is not None
        here = self._here
        pieces = derive.assemble(Material((self._root, *here.path), tuple(here.notes), at), self._recipe)
        said = _said(pieces)
        window = self._window(pieces)
        if window is None:
            return None
        first = request_v1.start(window.prompt.request)
        lead = [first, *request_v1.rolling(first, list(request_v1.links(Request((), window.lead))))]
        if here.kept is None or not here.first:
            here.kept = Kept(self._recipe.encoder, lead)
        elif not (window.is_clean and here.kept.goes_on_from(lead) and self._stands_behind(window)):
            return None
        self._compare(said)
        thread, recipe, leaf = self._thread, self._recipe, self._tip
        return LiveDerived(here.kept, window, said, lambda: derived(thread, recipe, leaf, at))

    def _window(self, pieces: list[Piece]) -> Window | None:
        """Encode a window; None when it cannot stand behind what is kept."""
        kept, first, summary = self._here.kept, frame_length(pieces), None
        opening = 0 if self._here.opening is None else made_of(pieces, first, self._here.opening.position)
        if kept is not None and self._here.first:
            behind = [*pieces[:first], *pieces[first + opening :]]
            if not kept.fits(behind, responses(self._here.nodes), self._images):
                return None
            pieces = declaring(pieces, kept.undeclared)
            first = frame_length(pieces)
            if kept.summary is not None:
                summary = first
                pieces.insert(summary, summary_piece(kept.summary))
        request = derive.encode(pieces, self._recipe, attachments(self._thread, derive.attachments_needed(pieces)))
        stand_ins = range(first, first + (summary is not None) + opening)
        return Window(Derived(self._recipe, pieces, request), stand_ins, summary)

    def _stands_behind(self, window: Window) -> bool:
        if self._turn is None:
            return window.goes_on_from(self._here.first, blocks_min=0, steps_min=1)
        return window.goes_on_from(self._here.first, blocks_min=self._blocks_min, steps_min=STEPS_IN_WINDOW)

    def _compare(self, said: set[int]) -> None:
        """Note of what the prompt recorded before said something and this one says nothing."""
        if self._said_last:
            here = {each.position for each in self._here.nodes}
            self.losing = tuple(sorted((self._said_last - said) & here))

    def recorded(self, prompt: LiveDerived) -> None:
        """Take note that a prompt was recorded."""
        self._said_last = prompt.said

    # --- keeping ---

    def _settle(self, prompt: LiveDerived) -> None:
        """Move from the window to what is kept: all settled turns but the last few, or first steps of an open turn."""
        opening, nodes = self._here.opening, self._here.nodes
        if len(nodes) <= NODES_IN_TURN and sum(each.type == "input.added" for each in nodes) <= SETTLED_IN_WINDOW:
            return
        if self._turn is None:
            found, late = self._turns()
            splits = (split_at(prompt.window, position) for position in _boundaries(found) if position > late)
            split = next((each for each in splits if each is not None and self._may_leave(prompt, each)), None)
            if split is not None:
                self._unsaved.add(*self._leave(prompt, split))
                return
            opening = _opening(found[-1], nodes) if found and late < found[-1].start else None
        if opening is not None and len(nodes) > NODES_IN_TURN:
            self._settle_steps(prompt, opening)

    def _settle_steps(self, prompt: LiveDerived, opening: Stored) -> None:
        """Keep the first steps of the open turn, as long as it goes on."""
        split = split_in_turn(prompt.window, opening.position, self._blocks_min)
        if split is None or not self._may_leave(prompt, split):
            return
        if self._turn is None:
            self._turn = self._here
            self._here = self._here.copy(opening)
        self._leave(prompt, split)

    def _may_leave(self, prompt: LiveDerived, split: Split) -> bool:
        """Whether what goes stays as it is, whatever becomes of what stays."""
        kept, pieces = self._here.kept, prompt.window.prompt.pieces
        return (
            kept is not None
            and keeps_marks(prompt.window, split)
            and not answers_before(self._here.nodes, split.position)
            and kept.has_room(pieces, self._images)
        )

    def _leave(self, prompt: LiveDerived, split: Split) -> tuple[list[Stored], int]:
        """Part the window; give the nodes that left it, and the bytes of what they became."""
        kept = self._here.kept
        assert kept is not None
        length, window = kept.length, prompt.window
        count = sum(len(item.blocks) for item in split.items)
        kept.take(
            Settled(
                pieces=window.prompt.pieces,
                talk=range(window.talk_first, split.piece),
                items=[unmarked(item) for item in split.items],
                rolling=prompt.talk_rolling[:count],
                responses=responses(each for each in self._here.nodes if each.position < split.position),
                undeclared=undeclared(window.prompt.request) | kept.undeclared.keys(),
                is_marked=window.is_marked,
            )
        )
        return self._here.leave(split.position), kept.length - length

    def _turns(self) -> tuple[list[Turn], int]:
        """Give the window's turns, and the last result that is left out for its call is covered (0 for none).

        A window that begins before such a result would not know that it is left out.
        """
        notes = read_all(self._here.notes)
        selection = select(read_all(self._here.nodes), notes)
        return turns(selection.slots, notes), max((node.position for node in selection.late), default=0)

    def keep(self) -> None:
        """Keep what settled for other processes, where it is worth its room."""
        pages, unsaved, here = self._pages, self._unsaved, self._turn or self._here
        # A recipe that was used once may never be again: whose prompt is not the second one keeps nothing.
        if pages is None or self._generation is None or here.kept is None or self.losing is None:
            return
        if unsaved.nodes < NODES_PER_PAGE or unsaved.length > unsaved.read // 2:
            return
        pages.add(
            here.kept,
            at=self._at,
            tip=self._tip,
            first=here.first,
            crossed=here.crossed,
            standing=tuple(each.position for each in here.standing),
            generation=self._generation,
        )
        self._unsaved = Unsaved()


def _position(node: Stored) -> int:
    return node.position


def _said(pieces: Sequence[Piece]) -> set[int]:
    return {position for piece in pieces if piece.provenance != kinds.DROPPED for position in piece.sources}


def _boundaries(found: Sequence[Turn]) -> Iterator[int]:
    """Iterate over the positions that the window may begin at, the last first: behind a turn that is done.

    An unfinished turn counts as settled by a done one after it, which then must be kept too: in the window it may still
    end otherwise.
    """
    settled = next((index for index, turn in enumerate(found) if turn.native), len(found))
    last = min(settled, len(found) - 1 - SETTLED_IN_WINDOW)
    return (
        found[index].start
        for index in range(last, 0, -1)
        if found[index - 1].state == DONE and isinstance(found[index].slots[0], Node)
    )


def _opening(turn: Turn, nodes: Sequence[Stored]) -> Stored | None:
    """Give the input that opened a turn whose own nodes stand in the prompt; None for another turn."""
    if not turn.native or not starts_turn(turn.slots[0]):
        return None
    return next(each for each in nodes if each.position == turn.start)


class LiveThreads:
    """The live prompts of a store's threads, the most recently used.

    Args:
        pages: Whether settled turns are kept in the store and taken from there. What proves prompts does neither.
        lasting: Whether they outlive one piece of work.
        checks: Whether a prompt is derived whole now and then, and compared: each time that the talk doubled, so that
            all checks together cost as much as the newest prompt a few times. What proves prompts checks.
        threads_max: So many are held.
    """

    def __init__(
        self, *, pages: bool = False, lasting: bool = False, checks: bool = False, threads_max: int = 64
    ) -> None:
        self._pages = pages
        self._lasting = lasting
        self._checks = checks
        self._checked: dict[tuple[str, bytes], int] = {}
        """Blocks of the prompt that was compared last."""
        self.failed = False
        """Whether a prompt that was gone on to was not the one derived whole; since then all are derived whole."""
        self._threads_max = threads_max
        self._mutex = threading.RLock()
        self._live: OrderedDict[tuple[str, bytes], Live] = OrderedDict()

    def get(self, thread: Thread, recipe: Recipe) -> Live | None:
        """Give the live prompt of a thread by a recipe; None when none is held."""
        return self._live.get(_key(thread, recipe))

    def derive(
        self, thread: Thread, recipe: Recipe, leaf: int, at: int, *, check: bool = False
    ) -> tuple[LiveDerived, Live] | None:
        """Derive the prompt at a leaf as of a position; None when the recipe cannot be gone on from.

        With `check` it is compared with the one derived whole in any case.
        """
        with self._mutex:
            return self._derive(thread, recipe, leaf, at, check=check)

    def _derive(
        self, thread: Thread, recipe: Recipe, leaf: int, at: int, *, check: bool
    ) -> tuple[LiveDerived, Live] | None:
        if self.failed or not _can_be_kept(recipe):
            return None
        key = _key(thread, recipe)
        pages = Pages(thread, recipe) if self._pages and key not in self._live else None
        live = self._live.pop(key, None) or Live(thread, recipe, pages, lasting=self._lasting)
        prompt = live.derive(leaf, at)
        self._live[key] = live
        while len(self._live) > self._threads_max:
            self._live.popitem(last=False)
        if self._checks and prompt.is_gone_on and (check or prompt.count >= 2 * self._checked.get(key, CHECKED_FROM)):
            self._checked[key] = prompt.count
            self.failed = not prompt.is_whole(derived(thread, recipe, leaf, at))
            if self.failed:
                return None
        return prompt, live

    def recorded(self, thread: Thread, recipe: Recipe, prompt: Derived) -> None:
        """Take note that a prompt was recorded, and keep what settled for other processes."""
        with self._mutex:
            live = self.get(thread, recipe)
            if live is not None and isinstance(prompt, LiveDerived):
                live.recorded(prompt)
                live.keep()


def _key(thread: Thread, recipe: Recipe) -> tuple[str, bytes]:
    return thread.id, msgspec.json.encode(recipe)


def _can_be_kept(recipe: Recipe) -> bool:
    """Whether settled turns stay as they are: our own encoders are written so, another's must say it."""
    encoder = registry.get(recipe.encoder)
    return registry.get(recipe.assembler).turnwise and (recipe.encoder in registry.OWN or encoder.turnwise)
