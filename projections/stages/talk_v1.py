"""Nodes of a path, verbatim, as pieces: batches of calls followed by their results, nothing paired wrongly.

A batch is all calls of one response; where responses are unknown, calls that follow one another with no answer
between. Its results come right after it, in the order they were recorded, wherever on the path they stand; a call
without one gets a stand-in that says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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


_BY_AGENT = (Segment, Call, Result)


def verbatim(slots: Sequence[Slot], late: Iterable[Node] = ()) -> list[Piece]:
    """Give the pieces of some slots in order; `late` are results that a summary took the call of."""
    return [*_Talk(slots).pieces(), *(dropped(node, "a summary covers its call") for node in late)]


def said(node: Node) -> list[Piece]:
    """Give the pieces of what was put to the model: an input's blocks, or retrieved items."""
    body = node.body
    sources = (node.position,)
    if isinstance(body, Input):
        return [Piece(VERBATIM, body.role, _block(block), sources) for block in body.content]
    if isinstance(body, Retrieved):
        return [
            Piece(RETRIEVED, "user", Text(wording.retrieved(item.origin, item.text)), sources) for item in body.items
        ]
    return []


def summary(slot: Covered) -> Piece:
    """Give the piece that stands for what a summary covers."""
    rule = f"stands for {slot.nodes[0].position}..{slot.nodes[-1].position}"
    return Piece(SUMMARY, "user", Text(wording.summary(slot.text)), (slot.position,), rule=rule)


def dropped(node: Node, rule: str, group: str = "") -> Piece:
    """Give the piece that shows a node which is left out, and why."""
    body = node.body
    role, element = "assistant", _NOTHING
    if isinstance(body, Segment):
        element = _said_by_agent(node, body)
    elif isinstance(body, Call):
        element = _call(node, body)
    elif isinstance(body, Result):
        role, element = "tool", _result(node, body, _content(node, body))
    else:
        role = "user"
    return Piece(DROPPED, role, element, (node.position,), group, rule)


class _Talk:
    """One pass over slots: what was emitted already, and which results wait for which call."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._slots = slots
        self._out: list[Piece] = []
        self._done: set[int] = set()
        self._results: dict[int, list[Node]] = {}
        self._responses: dict[str, list[Node]] = {}
        for slot in slots:
            if isinstance(slot, Covered):
                continue
            body = slot.body
            if not isinstance(body, _BY_AGENT):
                continue
            if isinstance(body, Result) and slot.answers is not None:
                self._results.setdefault(slot.answers, []).append(slot)
            if body.response is not None:
                self._responses.setdefault(body.response, []).append(slot)

    def pieces(self) -> list[Piece]:
        """Give all pieces."""
        out, done = self._out, self._done
        for index, slot in enumerate(self._slots):
            if isinstance(slot, Covered):
                out.append(summary(slot))
                continue
            body = slot.body
            if isinstance(body, Segment) and body.response is None:
                out.append(_segment(slot, body, str(slot.position)))
            elif slot.position in done:
                continue
            elif isinstance(body, Segment | Call):
                self._message(self._members(index, slot, body))
            elif isinstance(body, Result):
                done.add(slot.position)
                out.append(dropped(slot, "it answers no call here"))
            elif isinstance(body, Other):
                if slot.missing:
                    out.append(dropped(slot, "erased"))
            else:
                out.extend(said(slot))
        return out

    def _members(self, index: int, node: Node, body: Segment | Call) -> Sequence[Node]:
        """Give the nodes of the model message that begins here."""
        if body.response is not None:
            return self._responses[body.response]
        batch = [node]
        slots, after = self._slots, index + 1
        while after < len(slots):
            slot = slots[after]
            if isinstance(slot, Covered) or not isinstance(slot.body, Call) or slot.body.response is not None:
                break
            batch.append(slot)
            after += 1
        return batch

    def _message(self, nodes: Sequence[Node]) -> None:
        """Emit one message of the model, then the results of its calls."""
        out, done = self._out, self._done
        group = str(nodes[0].position)
        calls: dict[int, str] = {}
        for node in nodes:
            position = node.position
            if position in done:
                continue
            done.add(position)
            body = node.body
            if isinstance(body, Call):
                out.append(Piece(VERBATIM, "assistant", _call(node, body), (position,), group))
                calls[position] = body.name
            elif isinstance(body, Segment):
                out.append(_segment(node, body, group))
            elif isinstance(body, Result):
                calls.pop(node.answers or 0, None)
                element = _result(node, body, _sent(node, body), server=True)
                out.append(Piece(VERBATIM, "assistant", element, (position,), group))
        if calls:
            self._answers(calls, group, nodes)

    def _answers(self, calls: Mapping[int, str], group: str, nodes: Sequence[Node]) -> None:
        """Emit the results of some calls in the order they were recorded, then stand-ins for those without one."""
        done = self._done
        found: list[Node] = []
        answered = set()
        for call in calls:
            for node in self._results.get(call, ()):
                if node.position not in done:
                    done.add(node.position)
                    found.append(node)
                    answered.add(call)
                    break
        if len(found) > 1:
            found.sort(key=_position)
        for node in found:
            body = node.body
            assert isinstance(body, Result)
            element = _result(node, body, _sent(node, body), name=calls[node.answers or 0])
            self._out.append(Piece(VERBATIM, "tool", element, (node.position,), group))
        if len(found) < len(calls):
            self._out.extend(
                _unanswered(node, node.body, group)
                for node in nodes
                if isinstance(node.body, Call) and node.position in calls and node.position not in answered
            )


_NOTHING: Element = Text("")


def _position(node: Node) -> int:
    return node.position


def _segment(node: Node, body: Segment, group: str) -> Piece:
    kind = body.kind
    if kind == "text":
        # Gemini seals a response in a part without words.
        if body.text or body.signature or body.opaque:
            return Piece(VERBATIM, "assistant", _text(node, body), (node.position,), group)
        return dropped(node, "empty text", group)
    if kind == "reasoning" or (kind == "opaque" and body.opaque is not None):
        return Piece(VERBATIM, "assistant", _said_by_agent(node, body), (node.position,), group)
    return dropped(node, f"a {kind} is for people", group)


def _said_by_agent(node: Node, body: Segment) -> Element:
    source = node.source
    if body.kind == "reasoning":
        return Reasoning(
            body.text,
            body.signature,
            body.opaque,
            source.provider,
            source.model,
            body.item,
            body.needs,
        )
    if body.kind == "opaque" and body.opaque is not None:
        return Foreign(body.opaque, source.provider, source.model, body.item, body.needs)
    return _text(node, body)


def _text(node: Node, body: Segment) -> Text:
    if body.opaque is None and body.signature is None and body.item is None and body.needs is None:
        return Text(body.text)
    source = node.source
    return Text(
        body.text,
        body.signature,
        body.opaque,
        source.provider,
        source.model,
        body.item,
        body.needs,
    )


def _call(node: Node, body: Call) -> CallElement:
    source = node.source
    return CallElement(
        body.call,
        node.position,
        body.name,
        body.input,
        body.server,
        body.kind,
        body.signature,
        body.opaque,
        source.provider,
        source.model,
        body.item,
        body.needs,
    )


Content = tuple[Text | Image | Document | Foreign, ...]


def _result(node: Node, body: Result, content: Content, *, server: bool = False, name: str = "") -> ResultElement:
    return ResultElement(body.call, node.answers or 0, body.status, content, server, name)


def _sent(node: Node, body: Result) -> Content:
    """Give a result's content for a prompt that carries it."""
    if node.missing:
        raise MissingOutput(node.position)
    return _content(node, body)


def _content(node: Node, body: Result) -> Content:
    output = node.output
    if output is None:
        return ()
    if body.form == "blocks":
        return tuple(_block(block) for block in blocks(output))
    if body.form == "json":
        return (Foreign(output.decode(), node.source.provider, node.source.model),)
    return (Text(output.decode()),)


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
