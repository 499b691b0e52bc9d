"""The handles say what they take: each method's parameters are those of the function that it calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from convlog.projections.conversation import Thread
from convlog.projections.observe import observe
from convlog.projections.prepare import prepare
from convlog.projections.record import record
from convlog.projections.replay import replay
from convlog.projections.summarise import summarise


@pytest.mark.parametrize(
    ("method", "function"),
    [
        (Thread.prepare, prepare),
        (Thread.record, record),
        (Thread.observe, observe),
        (Thread.replay, replay),
        (Thread.summarise_with, summarise),
    ],
    ids=lambda each: each.__qualname__,
)
def test_a_method_takes_what_its_function_takes(method: Callable[..., Any], function: Callable[..., Any]) -> None:
    told = list(inspect.signature(method).parameters.values())[1:]
    meant = list(inspect.signature(function).parameters.values())[1:]
    assert told == meant
    assert all(each.kind is not inspect.Parameter.VAR_KEYWORD for each in told)
    assert inspect.signature(method).return_annotation == inspect.signature(function).return_annotation


def test_what_a_method_is_given_reaches_its_function(thread: Thread) -> None:
    thread.user("one")
    prompt = thread.prepare(
        assembler="transcript@1",
        encoder="gemini@1",
        model="gpt-5.4",
        profile="gemini-3-flash-preview",
        options={"max_tokens": 7},
        parameters={"context": "system"},
        instructions="Be brief.",
        tools=[{"name": "Read", "input_schema": {"type": "object"}}],
        capture=True,
    )
    manifest = thread.last_manifest()
    assert manifest is not None
    assert (manifest.assembler, manifest.encoder) == ("transcript@1", "gemini@1")
    assert ('"context":"system"' in manifest.parameters, '"max_tokens":7' in manifest.options) == (True, True)
    assert manifest.capture is not None
    assert b"Be brief." in prompt.body
    assert b"Read" in prompt.body
    assert thread.prepare(leaf=2, record=False).call is None
    done = thread.record(None, call=prompt.call, sent=prompt.body, end=False, error="cut")
    assert not done.ended
    seen = thread.observe(b"{}", provider="p", model="m", provider_state="s", leaf=2, key="k", capture=True)
    body = thread.event(seen.position).body
    assert (body.provider, body.model, body.provider_state, body.leaf) == ("p", "m", "s", 2)
    assert body.capture is not None
    made = thread.summarise_with("outline@1", 2, 2, on=2, parameters={"text_bytes": 16}, key="o")
    assert '"text_bytes":16' in thread.event(made.position).body.parameters
    assert thread.summarise_with("outline@1", 2, 2, on=2, replaces=made.position).position > made.position


def test_replay_gives_the_newest_calls_when_asked(thread: Thread) -> None:
    thread.user("one")
    for _ in range(5):
        thread.prepare()
    assert [each.call for each in thread.replay(newest=2)] == [4, 5]
    assert [each.call for each in thread.replay(newest=9)] == [1, 2, 3, 4, 5]
    assert [each.call for each in thread.replay(newest=1, numbers=(2, 3))] == [3]
    assert [each.call for each in thread.replay(newest=1, until=3)] == [1]
    found = next(thread.replay(numbers=(5,), assembler="transcript@1", encoder="gemini@1"))
    assert (found.assembler, found.encoder) == ("transcript@1", "gemini@1")
