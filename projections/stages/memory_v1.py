"""From turns to pieces: ended turns by what TurnMemory keeps of them, unfinished ones natively (decision 2).

All versions of TurnMemory stand on this; a version says what is kept of a run of the agent's work, how that is
replayed, and where the native parts of an earlier unfinished turn go. What the user said stays as it is, and parts a
turn's work where it came in between. Whatever is left out of the prompt is a visible piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from .pieces_v1 import TURN_MEMORY, Call, Piece, Result, Text
from .segments_v1 import Facts, HistoricalCall, Invalid, Memory, Promoted, Segment, Step
from .selection_v1 import Covered, Slot
from .talk_v1 import dropped, said, summary, verbatim
from .tool_map_v1 import ToolMap
from .turns_v1 import Turn
from .view_v1 import Call as CallView
from .view_v1 import Facts as FactsView
from .view_v1 import Input, Node, Other, Retrieved
from .view_v1 import Promoted as PromotedView
from .view_v1 import Result as ResultView
from .view_v1 import Segment as SegmentView

PROSE = "prose of an ended turn"
CALL = "call of an ended turn"
RESULT = "outcome of an ended turn's call"

_SHELL = "bash"
_NO_FACTS = Facts()


class Version(msgspec.Struct, frozen=True):
    """What tells one version of TurnMemory from another."""

    memory: Callable[[Sequence[Segment], str, ToolMap], Memory]
    """Gives what is kept of a run of segments, seen from a workspace."""
    steps: Callable[[Memory, int], list[Step]]
    """Gives the replay of it, as the message of an index (K11)."""
    invalid: Callable[[Memory], list[Invalid]] | None = None
    """Says what the replay leaves out, where the version can say it."""
    in_place: bool = False
    """Native parts of an earlier unfinished turn stand in its place, not just before the newest message (K50)."""
    in_text: bool = False
    """What is kept of calls is part of the text."""
    carries_promoted: bool = False
    """Promoted results come along (C01)."""


class Setting(msgspec.Struct, frozen=True):
    """What a thread says about its turns: where the agent worked, what its tools mean, what was promoted."""

    workspace: str
    tool_map: ToolMap
    promoted: Mapping[int, Sequence[Node]] = {}
    """Notes of promoted results, by the position of the call."""
    first_index: int = 0
    """Messages before the talk (K11: the system message counts)."""


def promotions(notes: Iterable[Node]) -> dict[int, list[Node]]:
    """Give the notes of promoted results by the position of the call."""
    found: dict[int, list[Node]] = {}
    for note in notes:
        if isinstance(note.body, PromotedView):
            found.setdefault(note.body.call, []).append(note)
    return found


def talk(turns: Sequence[Turn], version: Version, setting: Setting) -> list[Piece]:
    """Give the pieces of a path's turns."""
    return _Talk(turns, version, setting).pieces()


class _Talk:
    """One pass over turns: where results are, and how many messages came before."""

    def __init__(self, turns: Sequence[Turn], version: Version, setting: Setting) -> None:
        self._turns = turns
        self._version = version
        self._setting = setting
        self._index = setting.first_index
        self._out: list[Piece] = []
        self._waiting: list[Piece] = []
        self._calls: set[int] = set()
        self._results: dict[int, Node] = {}
        for turn in turns:
            for slot in turn.slots:
                if isinstance(slot, Node) and slot.answers is not None:
                    self._results.setdefault(slot.answers, slot)

    def pieces(self) -> list[Piece]:
        newest = max((index for index, turn in enumerate(self._turns) if turn.state), default=-1)
        for index, turn in enumerate(self._turns):
            if index == newest:
                self._out.extend(self._waiting)
            slot = turn.slots[0]
            if isinstance(slot, Covered):
                self._out.append(summary(slot))
                self._index += 1
            elif turn.native:
                self._native(turn, stays=self._version.in_place or index == newest)
            else:
                self._ended(turn)
        return self._out

    def _native(self, turn: Turn, *, stays: bool) -> None:
        """Replay a turn from its own nodes; late results come with their calls."""
        slots = self._own(turn)
        if stays:
            self._out.extend(verbatim(slots))
            return
        start = next((index for index, slot in enumerate(slots) if _is_work(slot)), len(slots))
        self._out.extend(verbatim(slots[:start]))
        self._waiting.extend(verbatim(slots[start:]))

    def _own(self, turn: Turn) -> list[Slot]:
        """Give a turn's slots without results of earlier turns' calls, and with those that came after it."""
        here = {slot.position for slot in turn.slots}
        slots = [slot for slot in turn.slots if not isinstance(slot, Node) or slot.answers not in self._calls]
        for slot in turn.slots:
            if isinstance(slot, Node) and isinstance(slot.body, CallView):
                self._calls.add(slot.position)
                late = self._results.get(slot.position)
                if late is not None and late.position not in here:
                    slots.append(late)
        return slots

    def _ended(self, turn: Turn) -> None:
        """Give what is kept of a turn; what was said to the model parts its work."""
        work = _Work(self._version, self._setting)
        waiting: dict[int, Node] = {}
        for slot in turn.slots:
            assert isinstance(slot, Node)
            body = slot.body
            if isinstance(body, SegmentView):
                work.segment(slot, body)
            elif isinstance(body, CallView):
                waiting[slot.position] = slot
                self._calls.add(slot.position)
            elif isinstance(body, ResultView):
                self._answer(slot, waiting, work)
            elif isinstance(body, Input | Retrieved):
                self._say(work)
                self._out.extend(said(slot))
                self._index += 1
                work = _Work(self._version, self._setting)
            elif isinstance(body, Other) and slot.missing:
                work.left_out.append(dropped(slot, "erased"))
        for position, call in waiting.items():
            late = self._results.get(position)
            if late is not None:
                work.tool(call, late)
            else:
                work.left_out.append(dropped(call, "its turn ended without a result"))
        self._say(work)

    def _answer(self, result: Node, waiting: dict[int, Node], work: _Work) -> None:
        call = result.answers
        first = call is not None and self._results[call] is result
        if first and call in waiting:
            work.tool(waiting.pop(call), result)
        elif not first or call not in self._calls:
            work.left_out.append(dropped(result, "it answers no call here"))

    def _say(self, work: _Work) -> None:
        pieces = work.pieces(self._index)
        if pieces:
            self._index += 1
            self._out.extend(pieces)
        self._out.extend(work.left_out)


class _Work:
    """A run of the agent's work: its segments, and the nodes that they were made of."""

    def __init__(self, version: Version, setting: Setting) -> None:
        self._version = version
        self._setting = setting
        self._segments: list[Segment] = []
        self._texts: list[tuple[int, int]] = []
        """Characters and position of each text."""
        self._tools: dict[int, tuple[Node, tuple[int, ...]]] = {}
        """Call, and the positions that its result was made of, by the position of the call."""
        self.left_out: list[Piece] = []

    def segment(self, node: Node, body: SegmentView) -> None:
        """Take what the agent said; only text is kept (K09)."""
        if body.kind == "text" and body.text:
            self._segments.append(Segment(kind="text", text=body.text, node=node.position))
            self._texts.append((len(body.text), node.position))
        else:
            rule = "empty text" if body.kind == "text" else f"{body.kind} of an ended turn"
            self.left_out.append(dropped(node, rule))

    def tool(self, call: Node, result: Node) -> None:
        """Take a completed call; it stands where its result does (K08)."""
        promoted: tuple[Promoted, ...] = ()
        sources: tuple[int, ...] = (result.position,)
        if self._version.carries_promoted and call.position in self._setting.promoted:
            notes = self._setting.promoted[call.position]
            promoted = tuple(_promoted(note, result) for note in notes)
            sources += tuple(note.position for note in notes)
        self._segments.append(completed_call(call, result, self._setting.tool_map, promoted))
        self._tools[call.position] = call, sources

    def pieces(self, index: int) -> list[Piece]:
        """Give the replay of the run as the message of an index; nothing when nothing is kept of it (K60)."""
        if not self._segments:
            return []
        memory = self._version.memory(self._segments, self._setting.workspace, self._setting.tool_map)
        steps = self._version.steps(memory, index)
        out: list[Piece] = []
        texts = iter(self._texts)
        for step in steps:
            sources = _sources(texts, len(step.text) if step is not steps[-1] else None)
            group = str(sources[0] if sources else step.calls[0].node if step.calls else 0)
            if step.text:
                out.append(Piece(TURN_MEMORY, "assistant", Text(step.text), sources, group, PROSE))
            out.extend(_call(call, group) for call in step.calls)
            out.extend(_result(call, self._tools.pop(call.node)[1], group) for call in step.calls)
        if self._tools:
            self._account(memory, out)
        return out

    def _account(self, memory: Memory, out: list[Piece]) -> None:
        """Say what became of the calls that are not replayed."""
        if self._version.in_text and not memory.is_empty:
            made_of = sorted(
                {*out[-1].sources, *self._tools, *(at for _, found in self._tools.values() for at in found)}
            )
            out[-1] = msgspec.structs.replace(out[-1], sources=tuple(made_of))
            return
        invalid = self._version.invalid(memory) if self._version.invalid else ()
        reasons = {each.node: each.reason for each in invalid}
        for position, (call, _) in self._tools.items():
            self.left_out.append(dropped(call, reasons.get(position, "nothing of this call is kept")))


def completed_call(call: Node, result: Node, tool_map: ToolMap, promoted: tuple[Promoted, ...] = ()) -> Segment:
    """Give the segment of a call and its result; whether it ran a shell, the map, its name or its facts say."""
    asked, answer = call.body, result.body
    assert isinstance(asked, CallView)
    assert isinstance(answer, ResultView)
    facts = _facts(answer.facts)
    rule = tool_map.rule(asked.name)
    shell = rule.kind == _SHELL if rule else asked.name == _SHELL or facts.command != ""
    return Segment(
        kind="tool",
        node=call.position,
        tool=asked.name,
        call=asked.call,
        server=asked.server or "",
        input=asked.input,
        command=facts.command if shell else "",
        completed=True,
        shell=shell,
        status=answer.status,
        facts=facts,
        promoted=promoted,
    )


def _is_work(slot: Slot) -> bool:
    return isinstance(slot, Node) and isinstance(slot.body, SegmentView | CallView | ResultView)


def _facts(stated: FactsView | None) -> Facts:
    if stated is None:
        return _NO_FACTS
    return Facts(
        stated.path or "",
        stated.file_changed or "",
        stated.command or "",
        stated.failed_command or "",
        stated.exit_code,
        stated.server or "",
        stated.tool or "",
    )


def _promoted(note: Node, result: Node) -> Promoted:
    assert isinstance(note.body, PromotedView)
    return Promoted(note.body.text, note.body.reason, result.position)


def _sources(texts: Iterator[tuple[int, int]], length: int | None) -> tuple[int, ...]:
    """Take the positions of the texts that make up so many characters; of all the rest without a length.

    Calls stand between texts, so a slice of the prose is always made of whole ones.
    """
    if length is None:
        return tuple(position for _, position in texts)
    found = []
    while length > 0:
        characters, position = next(texts)
        found.append(position)
        length -= characters
    return tuple(found)


def _call(call: HistoricalCall, group: str) -> Piece:
    return Piece(
        TURN_MEMORY, "assistant", Call(call.id, call.node, call.tool, call.arguments), (call.node,), group, CALL
    )


def _result(call: HistoricalCall, sources: tuple[int, ...], group: str) -> Piece:
    status = "error" if call.is_error else "ok"
    element = Result(call.id, call.node, status, (Text(call.result),), name=call.tool)
    return Piece(TURN_MEMORY, "tool", element, sources, group, RESULT)
