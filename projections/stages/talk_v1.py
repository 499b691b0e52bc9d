"""Nodes of a path, verbatim, as pieces: batches of calls followed by their results, nothing paired wrongly.

A batch is all calls of one response; where responses are unknown, calls that follow one another with no answer
between. Its results come right after it, in the order they were recorded, wherever on the path they stand; a call
without one gets a stand-in that says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from . import wording_v1 as wording
from .pieces_v1 import (
    DROPPED,
    REPAIR,
    RETRIEVED,
    SUMMARY,
    UNANSWERED,
    VERBATIM,
    Document,
    Element,
    Foreign,
    Image,
    Piece,
    Reasoning,
    Text,
)
from .pieces_v1 import Call as CallElement
from .pieces_v1 import Result as ResultElement
from .selection_v1 import Covered, Slot
from .view_v1 import (
    Block,
    Call,
    DocumentBlock,
    ForeignBlock,
    ImageBlock,
    Input,
    Node,
    Other,
    Result,
    Retrieved,
    Segment,
    TextBlock,
    blocks,
)


class MissingOutput(Exception):
    """A prompt needs what was never kept or is erased: it cannot be derived."""

    def __init__(self, position: int) -> None:
        super().__init__(f"the output of event {position} was not kept")
        self.position = position


def verbatim(slots: Sequence[Slot], late: Iterable[Node] = ()) -> list[Piece]:
    """Give the pieces of some slots in order; `late` are results that a summary took the call of."""
    return _Talk(slots).pieces() + [
        Piece(DROPPED, "tool", _result(node, node.body), (node.position,), rule="a summary covers its call")
        for node in late
        if isinstance(node.body, Result)
    ]


class _Talk:
    """One pass over slots: what was emitted already, and which results wait for which call."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._slots = slots
        self._done: set[int] = set()
        self._results: dict[int, list[Node]] = {}
        self._responses: dict[str, list[Node]] = {}
        for slot in slots:
            if not isinstance(slot, Node):
                continue
            body = slot.body
            if isinstance(body, Result) and slot.answers is not None:
                self._results.setdefault(slot.answers, []).append(slot)
            response = getattr(body, "response", None)
            if response is not None:
                self._responses.setdefault(response, []).append(slot)

    def pieces(self) -> list[Piece]:
        """Give all pieces."""
        out: list[Piece] = []
        for index, slot in enumerate(self._slots):
            if isinstance(slot, Covered):
                text = Text(wording.summary(slot.text))
                out.append(Piece(SUMMARY, "user", text, (slot.position,), rule=_covers(slot)))
            elif slot.position not in self._done:
                out.extend(self._node(index, slot))
        return out

    def _node(self, index: int, node: Node) -> list[Piece]:
        body = node.body
        if isinstance(body, Input):
            return [_verbatim(body.role, _block(block), node) for block in body.content]
        if isinstance(body, Retrieved):
            return [
                Piece(RETRIEVED, "user", Text(wording.retrieved(item.origin, item.text)), (node.position,))
                for item in body.items
            ]
        if isinstance(body, Segment | Call):
            return self._batch(self._gather(index, node))
        if isinstance(body, Result):
            return [Piece(DROPPED, "tool", _result(node, body), (node.position,), rule="it answers no call here")]
        if isinstance(body, Other) and node.missing:
            return [Piece(DROPPED, "user", Text(""), (node.position,), rule="erased")]
        return []

    def _gather(self, index: int, node: Node) -> list[Node]:
        """Give the nodes of the model message that begins here."""
        response = getattr(node.body, "response", None)
        if response is not None:
            return self._responses[response]
        batch = [node]
        if isinstance(node.body, Call):
            for slot in self._slots[index + 1 :]:
                if not isinstance(slot, Node) or not isinstance(slot.body, Call) or slot.body.response is not None:
                    break
                batch.append(slot)
        return batch

    def _batch(self, nodes: Sequence[Node]) -> list[Piece]:
        group = str(nodes[0].position)
        said: list[Piece] = []
        calls: list[Node] = []
        for node in nodes:
            if node.position in self._done:
                continue
            self._done.add(node.position)
            body = node.body
            if isinstance(body, Call):
                said.append(_verbatim("assistant", _call(node, body), node, group))
                calls.append(node)
            elif isinstance(body, Segment):
                said.append(_segment(node, body, group))
            elif isinstance(body, Result):
                element = _result(node, body, server=True)
                said.append(Piece(VERBATIM, "assistant", element, (node.position,), group))
        inline = {
            piece.element.node for piece in said if isinstance(piece.element, ResultElement) and piece.element.server
        }
        return said + self._answers([call for call in calls if call.position not in inline], group)

    def _answers(self, calls: Sequence[Node], group: str) -> list[Piece]:
        answered: list[tuple[int, Piece]] = []
        open_calls: list[Piece] = []
        for call in calls:
            assert isinstance(call.body, Call)
            results = [node for node in self._results.get(call.position, ()) if node.position not in self._done]
            for node in results[:1]:
                self._done.add(node.position)
                assert isinstance(node.body, Result)
                element = _result(node, node.body, name=call.body.name)
                answered.append((node.position, Piece(VERBATIM, "tool", element, (node.position,), group)))
            if not results:
                open_calls.append(_unanswered(call, call.body, group))
        return [piece for _, piece in sorted(answered, key=_first)] + open_calls


def _first(pair: tuple[int, Piece]) -> int:
    return pair[0]


def _covers(slot: Covered) -> str:
    return f"stands for {slot.nodes[0].position}..{slot.nodes[-1].position}"


def _verbatim(role: str, element: Element, node: Node, group: str = "") -> Piece:
    return Piece(VERBATIM, role, element, (node.position,), group)


def _segment(node: Node, body: Segment, group: str) -> Piece:
    source = node.source
    if body.kind == "text" and body.text:
        return _verbatim("assistant", Text(body.text), node, group)
    if body.kind == "text":
        return Piece(DROPPED, "assistant", Text(""), (node.position,), group, rule="empty text")
    if body.kind == "reasoning":
        reasoning = Reasoning(
            body.text,
            body.signature,
            body.opaque,
            source.provider,
            source.model,
            body.item,
            body.needs,
        )
        return _verbatim("assistant", reasoning, node, group)
    if body.kind == "opaque" and body.opaque is not None:
        foreign = Foreign(body.opaque, source.provider, source.model, body.item, body.needs)
        return _verbatim("assistant", foreign, node, group)
    return Piece(DROPPED, "assistant", Text(body.text), (node.position,), group, rule=f"a {body.kind} is for people")


def _call(node: Node, body: Call) -> CallElement:
    return CallElement(
        id=body.call,
        node=node.position,
        name=body.name,
        input=body.input,
        server=body.server,
        kind=body.kind,
        signature=body.signature,
        opaque=body.opaque,
        provider=node.source.provider,
        model=node.source.model,
        item=body.item,
        needs=body.needs,
    )


def _result(node: Node, body: Result, *, server: bool = False, name: str = "") -> ResultElement:
    if node.missing:
        raise MissingOutput(node.position)
    content: tuple[Text | Image | Document | Foreign, ...] = ()
    if node.output is not None and body.form == "blocks":
        content = tuple(_block(block) for block in blocks(node.output))
    elif node.output is not None and body.form == "json":
        content = (Foreign(node.output.decode(), node.source.provider, node.source.model),)
    elif node.output is not None:
        content = (Text(node.output.decode()),)
    return ResultElement(body.call, node.answers or 0, body.status, content, server, name)


def _unanswered(node: Node, body: Call, group: str) -> Piece:
    element = ResultElement(body.call, node.position, UNANSWERED, (Text(wording.NO_RESULT),), name=body.name)
    return Piece(REPAIR, "tool", element, (node.position,), group, rule="X1: no result was recorded")


def _block(block: Block) -> Text | Image | Document | Foreign:
    match block:
        case TextBlock():
            return Text(block.text)
        case ImageBlock():
            return Image(block.media_type, block.attachment, block.url)
        case DocumentBlock():
            return Document(block.media_type, block.attachment, block.url, block.name, block.title)
        case ForeignBlock():
            return Foreign(block.json, block.provider)
