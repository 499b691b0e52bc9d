"""Threads that hold a little of everything, for tests of exports."""

from __future__ import annotations

from typing import Any

from convlog.eventstore.events import (
    CallFinished,
    Document,
    Foreign,
    Image,
    InstructionsSet,
    Part,
    SegmentAdded,
    Source,
    Text,
    Todo,
    Tool,
    ToolCalled,
    ToolReturned,
    ToolsSet,
    Usage,
)
from convlog.eventstore.store import Store
from convlog.eventstore.thread import Thread

MODEL = Source("model", provider="anthropic", model="claude-x")


def talk(store: Store) -> Thread:
    """Give a thread with a parallel batch, a failed call, a picture, and instructions and tools before it."""
    thread = store.create_thread(cwd="/w", title="list files", agent="claude-code")
    thread.append(InstructionsSet(parts=(Part("rules", "Be brief."),)))
    schema = '{"type":"object","properties":{"command":{"type":"string"}}}'
    thread.append(ToolsSet(tools=(Tool("bash", "Run a command.", schema),)))
    thread.append(ToolsSet(tools=(Tool("bash", since=3), Tool("look"))))
    picture = Image(media_type="image/png", attachment=store.attach(b"\x89PNG"))
    thread.user([Text("list the files"), picture], occurred_at=1_767_348_000_000_000)
    parts: list[Any] = [
        SegmentAdded(kind="reasoning", text="ls will do", signature="seal", response="msg_1", part=0),
        SegmentAdded(text="Looking.", response="msg_1", part=1),
        ToolCalled(call="c1", name="bash", input='{"command":"ls"}', response="msg_1", part=2),
        ToolCalled(call="c2", name="bash", input='{"command":"false"}', response="msg_1", part=3),
    ]
    for body in parts:
        thread.append(body, source=MODEL, occurred_at=1_767_348_001_000_000)
    usage = Usage(input=10, cache_read=5, cache_write=2, output=7, reasoning=3)
    finished = CallFinished(response="msg_1", provider="anthropic", model="claude-x", usage=usage, stop="tool_use")
    thread.append(finished, refs=(("about", 6),))
    thread.result("c2", "no", status="error")
    thread.result("c1", [Text("a.txt"), picture])
    thread.append(SegmentAdded(text="One file.", response="msg_2", part=0), source=MODEL)
    thread.end_turn()
    return thread


def odd(store: Store) -> Thread:
    """Give a thread with what forms have no place for, or that could break a page."""
    thread = store.create_thread()
    thread.system("be kind")
    thread.user("\x1b[31mred\x1b[0m \u202etxt \ud800\n# not a heading\n<b>not bold</b> `<i>`\n```\n<code>\n# same")
    thread.user([Document(url="https://example.org/a.pdf", name="a"), Foreign(json='{"type":"audio"}', provider="x")])
    thread.append(SegmentAdded(kind="diff", text="-a\n+b"))
    thread.append(SegmentAdded(kind="notice", text="a notice"))
    thread.append(SegmentAdded(kind="opaque", opaque='{"type":"x"}'), source=Source("model", provider="other"))
    thread.append(ToolCalled(call="c9", name="free", input="any text ``` at all", kind="custom"))
    thread.append(ToolReturned(call="c9", status="denied"))
    thread.append(ToolCalled(call="s1", name="search", kind="server", response="r1"), source=Source("model"))
    thread.append(ToolReturned(call="s1", form="json", response="r1"), output=b'{"found":[1]}', source=Source("model"))
    thread.todo([Todo("a", "done"), Todo("b", "blocked", "why")])
    return thread
