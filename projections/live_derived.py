"""A prompt whose beginning was kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import chain

from . import derive
from .kept import Kept, raw, summary_item
from .stages import request_v1
from .stages.pieces_v1 import Piece
from .stages.request_v1 import Item, Request
from .window import Window


class LiveDerived(derive.Derived):
    """A derived prompt. Its bytes and digests are at hand; the rest is derived when asked for."""

    def __init__(self, kept: Kept, window: Window, said: set[int], again: Callable[[], derive.Derived]) -> None:
        self.said = said
        """Positions of which the window says something."""
        self.losing: tuple[int, ...] | None = None
        """What the prompt recorded before said something of, and this one does not; None when there was none."""
        self.recipe = window.prompt.recipe
        self.window = window
        self._again = again
        self._chunks = kept.chunks
        self._chunk_count, self._kept_count, self._kept_length = len(kept.chunks), kept.count, kept.length
        self._rolled = dict(kept.rolled)
        self._summary = kept.summary
        links = list(request_v1.links(Request((), window.talk)))
        self.talk_rolling = request_v1.rolling(kept.rolled[kept.count], links)

    @cached_property
    def _whole(self) -> derive.Derived:
        return self._again() if self._chunk_count else self.window.prompt

    @property
    def is_gone_on(self) -> bool:
        """Whether something of it was kept."""
        return self._chunk_count > 0

    def is_whole(self, whole: derive.Derived) -> bool:
        """Whether this is the prompt that was derived whole."""
        mine, other = ((each.count, each.length, each.rolled(each.count), each.marks) for each in (self, whole))
        return mine == other and self.body == whole.body

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
            before, behind = chunks, []
        else:
            before, behind = chunks[: self._summary.chunk], chunks[self._summary.chunk + 1 :]
        if before:
            yield raw(b",".join(before))
        if summary is not None:
            yield summary
        if behind:
            yield raw(b",".join(behind))

    @cached_property
    def _marked_summary(self) -> Item | None:
        """The kept summary's item with its cache mark; None when it has none."""
        block = self.window.summary
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
        summary = []
        if self._summary is not None and self._marked_summary is not None:
            summary.append((self._summary.number, self._marked_summary))
        items = chain(
            request_v1.numbered(self.window.lead),
            summary,
            request_v1.numbered(self.window.talk, self._kept_count),
        )
        return request_v1.marks(self.window.prompt.request.fields, items)
