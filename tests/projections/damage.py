"""Random conversations in which everything happens that providers are known to refuse a request for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from convlog.eventstore.canonical import split_halves
from convlog.eventstore.events import (
    Document,
    Foreign,
    Image,
    InstructionsSet,
    Part,
    SegmentAdded,
    Source,
    Text,
    Tool,
    ToolCalled,
    ToolReturned,
    ToolsSet,
)
from convlog.projections.conversation import Thread

from . import conversations
from .answering import TALK, Answer, response
from .conversations import Conversation
from .piece_strategies import ATTACHMENTS, own_opaque

DOINGS = (
    *conversations.DOINGS,
    *("model_switch", "model_switch", "odd_call", "odd_call", "odd_result", "odd_text", "odd_input", "picture"),
    *("thought", "own_part", "server_call", "system_text", "odd_tools"),
)

TEXTS = ("", " \n", "half \ud83d of a pair", "naïve – ☂ 🌧", '{"json":1}', "ends in space ")
IDS = ("call_1", "call_1", "toolu_01AbC", "functions.read:0", "call_x|fc_y", "i" * 83, "abcDEF123")
NAMES = ("read_gauge", "alarm", "mcp.weather/read gauge", "n" * 90, "ñame", "1st")
INPUTS = ('{"station":"north"}', "{}", ' {"b":1, "a":1.50}', '{"a":', "[1]", '"x"', "1e999", "")
MAKERS = (
    ("anthropic", "claude-sonnet-4-6"),
    ("openai", "gpt-5.4"),
    ("google", "gemini-3-flash-preview"),
    ("bedrock", "anthropic.claude-sonnet-4-6"),
    ("moonshot", "kimi-k2.5"),
    ("elsewhere", "another-model"),
)
STATUSES = ("ok", "error", "denied", "cancelled")


class Damaged(Conversation):
    """A conversation with broken, foreign and odd content."""

    def __init__(self, thread: Thread) -> None:
        super().__init__(thread)
        self._attached = [thread.store.attach(data) for data in ATTACHMENTS.values()]
        self._answered = 0

    def _model(self, pick: int) -> Source:
        provider, model = MAKERS[pick % len(MAKERS)]
        return Source("model", provider=provider, model=model)

    def _model_switch(self, one: int, other: int) -> None:
        """Another provider answers; its calls may stay without results."""
        self._answered += 1
        wire_format = tuple(TALK)[one % len(TALK)]
        answer = Answer(
            number=self._answered,
            model=MAKERS[other % len(MAKERS)][1],
            thought=one % 2 == 0,
            text=("", "Reading.")[other % 2],
            calls=one % 4,
        )
        self.thread.record(response(answer, wire_format), format=wire_format)
        for id_ in answer.ids[other % 2 :]:
            self.thread.result(id_, "12 mm", status=STATUSES[one % len(STATUSES)])

    def _odd_call(self, one: int, other: int) -> None:
        self.thread.append(
            ToolCalled(
                call=IDS[one % len(IDS)],
                name=NAMES[other % len(NAMES)],
                input=INPUTS[(one + other) % len(INPUTS)],
                kind=("function", "custom")[one // 7 % 2],
                response=(None, f"r{other % 3}")[one % 2],
                signature=(None, "c2ln", "no base64!")[other % 3],
            ),
            source=self._model(one // 11),
        )

    def _odd_result(self, one: int, other: int) -> None:
        """Answer the newest call of an id, with blocks."""
        tree = self.thread.tree_with_calls
        waiting = [node for node in tree.path(self.thread.head) if node in tree.call_positions()]
        body = self.thread.event(waiting[one % len(waiting)]).body if waiting else None
        id_ = body.call if isinstance(body, ToolCalled) else IDS[0]
        self.thread.result(id_, self._blocks(other, one % 3), status=STATUSES[other % len(STATUSES)])

    def _blocks(self, pick: int, count: int) -> Sequence[Any]:
        hashes = self._attached
        found = (
            Text(split_halves(TEXTS[pick % len(TEXTS)])[0]),
            Image(media_type="image/jpeg", attachment=hashes[0]),
            Image(media_type="image/png", attachment=hashes[1]),
            Image(url="https://example.org/map.png"),
            Image(media_type="image/tiff", attachment=hashes[4]),
            Document(media_type="application/pdf", attachment=hashes[2], title="Gauges"),
            Document(media_type="text/plain", attachment=hashes[3], name="list.txt"),
            Document(media_type="application/zip", attachment=hashes[4]),
            Foreign(json='{"type":"mystery"}', provider="elsewhere"),
        )
        return [found[(pick + number) % len(found)] for number in range(count)]

    def _odd_text(self, one: int, other: int) -> None:
        self.thread.text(TEXTS[one % len(TEXTS)])

    def _odd_input(self, one: int, other: int) -> None:
        self.thread.user(TEXTS[one % len(TEXTS)], steer=other % 2 == 0)

    def _picture(self, one: int, other: int) -> None:
        self.thread.user(self._blocks(one, 1 + other % 3))

    def _system_text(self, one: int, other: int) -> None:
        self.thread.system(TEXTS[one % len(TEXTS)])

    def _thought(self, one: int, other: int) -> None:
        signature = (None, "c2lnMQ==", f"c2ln{other % 10_000:04}")[one % 3]
        self.thread.reasoning(TEXTS[other % len(TEXTS)], signature=signature, source=self._model(one // 3))

    def _own_part(self, one: int, other: int) -> None:
        """Say a part as a provider spells it, among parts of its response or alone."""
        source = self._model(one)
        name = ("reasoning", "text", "foreign")[other % 3]
        opaque = own_opaque(source.provider or "", name, str(other % 10_000)) or '{"type":"mystery"}'
        kind = {"reasoning": "reasoning", "text": "text", "foreign": "opaque"}[name]
        said = "Rain tonight." if name == "text" else ""
        body = SegmentAdded(kind=kind, text=said, opaque=opaque, response=(None, f"r{one % 3}")[other // 3 % 2])  # type: ignore[arg-type] # the words are kinds
        self.thread.append(body, source=source)

    def _server_call(self, one: int, other: int) -> None:
        """A provider's own server is asked, and perhaps answers."""
        source = self._model(one)
        key = str(other % 10_000)
        opaque = own_opaque(source.provider or "", "server", key)
        call, response_ = f"srvtoolu_{key}", f"s{one % 4}"
        body = ToolCalled(call=call, name="web_search", kind="server", opaque=opaque, response=response_)
        self.thread.append(body, source=source)
        answer = own_opaque(source.provider or "", "server result", key)
        if answer is not None and other % 3:
            returned = ToolReturned(call=call, form="json", response=response_)
            self.thread.append(returned, source=source, output=answer.encode())

    def _odd_tools(self, one: int, other: int) -> None:
        names = sorted({NAMES[(one + number) % len(NAMES)] for number in range(other % 4)})
        self.thread.append(ToolsSet(tools=tuple(Tool(name, "d" * (one % 1100)) for name in names)))
        self.thread.append(InstructionsSet(parts=(Part("odd", split_halves(TEXTS[one % len(TEXTS)])[0]),)))
