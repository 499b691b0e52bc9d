"""Random prompts: whole exchanges as assemblers give them, damaged in every way that histories are."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from convlog.projections.stages.pieces_v1 import (
    CONTEXT,
    DROPPED,
    INSTRUCTIONS,
    REPAIR,
    SUMMARY,
    TOOLS,
    UNANSWERED,
    VERBATIM,
    Call,
    Document,
    Element,
    Foreign,
    Image,
    Piece,
    Reasoning,
    Result,
    Text,
    Tool,
    Tools,
)
from convlog.projections.stages.target_v1 import Target

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01"
WIDE_PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x27\x10\0\0\0\x01"
ATTACHMENTS = {"a" * 64: PNG, "b" * 64: WIDE_PNG, "c" * 64: b"%PDF-1.7", "d" * 64: b"Gauge list", "e" * 64: b"\xff\xd8"}

TEXTS = st.sampled_from(
    ["Rain tonight.", "12 mm", "", " \n", "half \ud83d of a pair", "two\nlines ", "naïve – ☂ 🌧", '{"json":1}']
)
CALL_IDS = st.sampled_from(
    ["call_1", "call_2", "toolu_01AbC", "functions.read:0", "call_x|fc_y", "", "i" * 83, "abcDEF123", "h\udc00"]
)
NAMES = st.sampled_from(["read_gauge", "alarm", "mcp.weather/read gauge", "", "n" * 90, "ñame", "1st"])
INPUTS = st.sampled_from(
    [
        '{"station":"north"}',
        "",
        "{}",
        ' {"b":1, "a":1.50}',
        '{"a":',
        "[1]",
        '"x"',
        '{"a":"\\ud83d"}',
        "1e999",
        "no\udc00",
    ]
)
SIGNATURES = st.sampled_from([None, "c2lnMQ==", "c2lnMg==", "no base64!"])
STATUSES = st.sampled_from(["ok", "ok", "ok", "error", "denied", "cancelled"])
GROUPED = st.booleans()

IMAGES = st.sampled_from(
    [
        Image("image/png", "a" * 64),
        Image("image/jpeg", "a" * 64),
        Image(None, "a" * 64),
        Image("image/png", "b" * 64),
        Image("image/tiff", "e" * 64),
        Image(url="https://example.org/map.png"),
        Image(),
    ]
)
DOCUMENTS = st.sampled_from(
    [
        Document("application/pdf", "c" * 64, title="Gauges"),
        Document("text/plain", "d" * 64, name="list.txt"),
        Document("application/zip", "e" * 64),
        Document("application/pdf", url="https://example.org/gauges.pdf"),
        Document(),
    ]
)


@dataclass
class Makers:
    """Who made the opaque parts of a prompt: the target itself or somebody else."""

    provider: str
    model: str

    def any(self) -> st.SearchStrategy[tuple[str | None, str | None]]:
        own = (self.provider, self.model)
        return st.sampled_from(
            [own, own, own, (self.provider, "another-model"), ("elsewhere", self.model), (None, None)]
        )


def own_opaque(provider: str, kind: str, key: str) -> str | None:
    """Give a part as the provider itself would have spelled it; None where it has none of this kind."""
    parts: dict[tuple[str, str], dict[str, Any]] = {
        ("anthropic", "reasoning"): {"type": "thinking", "thinking": "Hm.", "signature": f"c2ln{key}"},
        ("anthropic", "text"): {"type": "text", "text": "Rain tonight.", "citations": None},
        ("anthropic", "server"): {
            "type": "server_tool_use",
            "id": f"srvtoolu_{key}",
            "name": "web_search",
            "input": {"query": "rain"},
        },
        ("anthropic", "server result"): {
            "type": "web_search_tool_result",
            "tool_use_id": f"srvtoolu_{key}",
            "content": [],
        },
        ("anthropic", "foreign"): {"type": "compaction", "content": "Two gauges read."},
        ("openai", "reasoning"): {"type": "reasoning", "id": f"rs_{key}", "summary": [], "encrypted_content": "b3Bh"},
        ("openai", "text"): {
            "type": "message",
            "id": f"msg_{key}",
            "status": "completed",
            "role": "assistant",
            "phase": "commentary",
            "content": [{"type": "output_text", "text": "Rain tonight.", "annotations": []}],
        },
        ("openai", "server"): {
            "type": "web_search_call",
            "id": f"ws_{key}",
            "status": "completed",
            "action": {"type": "search", "query": "rain"},
        },
        ("google", "reasoning"): {"text": "", "thoughtSignature": f"c2ln{key.zfill(4)}"},
        ("google", "text"): {"text": "Rain tonight.", "thoughtSignature": f"dGV4{key.zfill(4)}"},
        ("google", "call"): {"functionCall": {"name": "read_gauge", "args": {}}},
        ("google", "server"): {"executableCode": {"language": "PYTHON", "code": "1+1"}},
        ("google", "server result"): {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
        ("google", "foreign"): {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
        ("bedrock", "reasoning"): {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": f"c2ln{key}"}}},
        ("bedrock", "text"): {"citationsContent": {"content": [{"text": "Rain tonight."}], "citations": []}},
        ("bedrock", "foreign"): {"guardContent": {"text": {"text": "Rain tonight."}}},
        ("openai", "foreign"): {"type": "compaction", "encrypted_content": "b3Bh", "id": f"cmp_{key}"},
    }
    found = parts.get((provider, kind))
    return None if found is None else json.dumps(found)


class _Writer:
    """Draws one prompt: positions count up, so that every event is its own."""

    def __init__(self, draw: st.DrawFn, makers: Makers) -> None:
        self.draw = draw
        self.makers = makers
        self.pieces: list[Piece] = []
        self.position = 0
        self.calls: list[Piece] = []

    def put(self, provenance: str, role: str, *elements: Element, group: str = "", volatile: bool = False) -> None:
        self.position += 1
        for element in elements:
            self.pieces.append(Piece(provenance, role, element, (self.position,), group, volatile=volatile))

    def frame(self) -> None:
        if self.draw(st.booleans()):
            names = self.draw(st.lists(NAMES.filter(bool), max_size=4))
            tools = [Tool(name, self.draw(st.sampled_from([None, "Reads.", "d" * 1100]))) for name in names]
            if tools:
                self.put(TOOLS, "system", Tools(tuple(tools)))
        for text in self.draw(st.lists(TEXTS, max_size=2)):
            self.put(INSTRUCTIONS, "system", Text(text))

    def user(self) -> None:
        blocks = st.lists(st.one_of(TEXTS.map(Text), IMAGES, DOCUMENTS), min_size=1, max_size=3)
        role = self.draw(st.sampled_from(["user", "user", "user", "system"]))
        self.put(VERBATIM, role, *(self.draw(blocks) if role == "user" else [Text(self.draw(TEXTS))]))

    def summary(self) -> None:
        self.put(SUMMARY, "user", Text("<summary>\nTwo gauges read.\n</summary>"))

    def erased(self) -> None:
        self.put(DROPPED, "user", Text(""))

    def stray(self) -> None:
        """Put a result that answers nothing, or a call that was answered already."""
        node = self.draw(
            st.sampled_from([call.element.node for call in self.calls if isinstance(call.element, Call)] or [9999])
        )
        self.put(VERBATIM, "tool", Result("call_1", node, "ok", (Text("late"),), name="read_gauge"))

    def response(self) -> None:
        """Put one response: reasoning, text, calls and parts of the provider's own; then the results, if any came."""
        group = f"g{self.position}" if self.draw(GROUPED) else ""
        calls: list[Call] = []
        for kind in self.draw(
            st.lists(
                st.sampled_from(["reasoning", "text", "call", "call", "server", "foreign", "opaque text"]),
                min_size=1,
                max_size=5,
            )
        ):
            calls.extend(self._part(kind, group))
        self._results(calls, group)

    def _part(self, kind: str, group: str) -> list[Call]:
        provider, model = self.draw(self.makers.any())
        key = str(self.position + 1)
        opaque = own_opaque(provider or "", kind.removeprefix("opaque "), key)
        match kind:
            case "reasoning":
                shape = self.draw(st.sampled_from(["opaque", "signed", "plain"]))
                reasoning = Reasoning(
                    self.draw(TEXTS),
                    "c2lnbmF0dXJl" if shape == "signed" else None,
                    opaque if shape == "opaque" else None,
                    provider,
                    model,
                )
                self.put(VERBATIM, "assistant", reasoning, group=group)
            case "text":
                self.put(VERBATIM, "assistant", Text(self.draw(TEXTS)), group=group)
            case "opaque text":
                text = Text("Rain tonight.", None, opaque, provider, model)
                self.put(VERBATIM, "assistant", text, group=group)
            case "call":
                call = Call(
                    self.draw(CALL_IDS),
                    self.position + 1,
                    self.draw(NAMES),
                    self.draw(INPUTS),
                    signature=self.draw(SIGNATURES),
                    opaque=self.draw(st.sampled_from([None, opaque])),
                    provider=provider,
                    model=model,
                )
                self.put(VERBATIM, "assistant", call, group=group)
                self.calls.append(self.pieces[-1])
                return [call]
            case "server":
                call = Call(
                    f"srvtoolu_{key}",
                    self.position + 1,
                    "web_search",
                    '{"query":"rain"}',
                    kind="server",
                    opaque=opaque,
                    provider=provider,
                    model=model,
                )
                self.put(VERBATIM, "assistant", call, group=group)
                self._server_result(call, group)
            case "foreign":
                opaque = opaque or '{"type":"mystery","half":"\\ud83d"}'
                self.put(VERBATIM, "assistant", Foreign(opaque, provider, model), group=group)
        return []

    def _server_result(self, call: Call, group: str) -> None:
        opaque = own_opaque(call.provider or "", "server result", str(call.node))
        if opaque is not None and self.draw(st.booleans()):
            content = (Foreign(opaque, call.provider, call.model),)
            self.put(VERBATIM, "assistant", Result(call.id, call.node, "ok", content, server=True), group=group)

    def _results(self, calls: list[Call], group: str) -> None:
        content = st.lists(st.one_of(TEXTS.map(Text), IMAGES, DOCUMENTS), max_size=2).map(tuple)
        for call in self.draw(st.permutations(calls)):
            how = self.draw(st.sampled_from(["answered", "answered", "answered", "stand-in", "missing", "twice"]))
            if how == "missing":
                continue
            if how == "stand-in":
                element = Result(call.id, call.node, UNANSWERED, (Text("No result was recorded."),), name=call.name)
                self.put(REPAIR, "tool", element, group=group)
                continue
            for _ in range(2 if how == "twice" else 1):
                element = Result(call.id, call.node, self.draw(STATUSES), self.draw(content), name=call.name)
                self.put(VERBATIM, "tool", element, group=group)

    def tail(self) -> None:
        if self.draw(st.booleans()):
            self.put(CONTEXT, "user", Text('<context name="date">\n2026-11-29\n</context>'), volatile=True)


@st.composite
def prompts(draw: st.DrawFn, target: Target, max_steps: int = 6) -> list[Piece]:
    """Draw the pieces of one prompt for a target; some opaque parts are the target's own, others are not."""
    writer = _Writer(draw, Makers(target.provider, target.model))
    writer.frame()
    steps = [writer.user, writer.user, writer.response, writer.response, writer.summary, writer.stray, writer.erased]
    for step in draw(st.lists(st.sampled_from(steps), max_size=max_steps)):
        step()
    writer.tail()
    return writer.pieces
