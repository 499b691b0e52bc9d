"""Settled turns are kept in the store for the next process, and never make a prompt other than it is."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any, cast

import msgspec
import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

import convlog
from convlog.eventstore.errors import AppendError, NotFound, StoreFull
from convlog.eventstore.memory import MemoryBackend
from convlog.eventstore.redaction import redact
from convlog.eventstore.sealed import DIGEST_BYTES
from convlog.projections import caches, kept, live, prepare, summarise
from convlog.projections.errors import AwaitingApproval
from convlog.projections.live import Live
from convlog.projections.material import derived
from convlog.projections.prepare import Prompt
from convlog.projections.replay import replay
from tests.conftest import Stores

from .conversations import Conversation, steps
from .responses import message, said
from .test_live import TOOLS, same

Opened = Callable[..., convlog.Store]


@pytest.fixture
def opened(open_store: Stores) -> Opened:
    """Give another handle on one file, as another process has it."""
    return lambda **how: cast("convlog.Store", open_store(store_class=convlog.Store, **how))


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a page be worth writing early."""
    monkeypatch.setattr(live, "NODES_PER_PAGE", 10)


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give a list that grows with every prompt that goes on from pages: by the nodes that it read for itself."""
    found: list[int] = []
    restore = Live._restore

    def noted(self: Live, leaf: int, at: int) -> bool:
        if restore(self, leaf, at):
            found.append(len(self._thread.tree.path(leaf, self._here.first)))
            return True
        return False

    monkeypatch.setattr(Live, "_restore", noted)
    return found


def turn(thread: convlog.Thread, number: int) -> None:
    """Let a turn happen whose outputs are most of it."""
    thread.user(f"Question {number}?")
    for call in range(3):
        thread.call(f"c{number}-{call}", "Read", {"file_path": f"/w/{call}.py"})
        thread.result(f"c{number}-{call}", f"output {call} " * 100)
    thread.text(f"Answer {number}.")
    thread.end_turn()


def talk(thread: convlog.Thread, first: int, last: int, **how: Any) -> Prompt:
    """Let some turns happen, each with a prompt."""
    for number in range(first, last + 1):
        turn(thread, number)
        prompt = thread.prepare(tools=TOOLS, **how)
    return prompt


def is_the_cold_one(thread: convlog.Thread, prompt: Prompt) -> None:
    same(prompt.derived, derived(thread, prompt.derived.recipe, prompt.leaf, prompt.at))


def pages(store: convlog.Store, thread: convlog.Thread) -> list[bytes]:
    """Give the values that the pages of a thread are kept as."""
    found: list[bytes] = []
    while (value := store.backend.cached(f"turns {thread.id} {len(found)}")) is not None:
        found.append(value)
    return found


def test_the_next_process_goes_on_from_what_was_kept(opened: Opened, restored: list[int]) -> None:
    store = opened()
    thread = store.create_thread()
    talk(thread, 0, 20)
    for number in range(21, 24):
        again = opened().thread(thread.id)
        turn(again, number)
        prompt = again.prepare(tools=TOOLS)
        is_the_cold_one(again, prompt)
        assert prompt.losing == ()
    assert len(restored) == 3
    assert max(restored) < 40
    assert {each.verdict for each in replay(thread)} == {"exact"}


def test_a_process_that_prepares_once_takes_over_from_the_one_before(opened: Opened, restored: list[int]) -> None:
    thread = opened().create_thread()
    for number in range(8):
        here = opened().thread(thread.id)
        turn(here, number)
        is_the_cold_one(here, here.prepare(tools=TOOLS))
    assert restored


def test_what_is_about_to_be_lost_is_known_to_the_next_process(opened: Opened, restored: list[int]) -> None:
    thread = opened().create_thread()
    talk(thread, 0, 12)
    here = opened().thread(thread.id)
    asked = here.user("This goes.")
    here.prepare(tools=TOOLS)
    here = opened().thread(thread.id)
    here.summarise(asked.position, asked.position, "Something was asked.")
    prompt = here.prepare(tools=TOOLS)
    assert prompt.losing == (asked.position,)
    assert restored


def test_a_fork_within_the_newest_turns_goes_on_from_what_was_kept(opened: Opened, restored: list[int]) -> None:
    thread = opened().create_thread()
    talk(thread, 0, 12)
    here = opened().thread(thread.id)
    here.edit(next(each.position for each in reversed(list(here.path())) if each.type == "input.added"), "Otherwise?")
    is_the_cold_one(here, here.prepare(tools=TOOLS))
    assert restored


def test_a_fork_from_before_does_not(opened: Opened, restored: list[int]) -> None:
    thread = opened().create_thread()
    talk(thread, 0, 12)
    here = opened().thread(thread.id)
    here.edit(2, "Otherwise?")
    is_the_cold_one(here, here.prepare(tools=TOOLS))
    assert not restored


def test_another_recipe_does_not(opened: Opened, restored: list[int]) -> None:
    thread = opened().create_thread()
    talk(thread, 0, 12)
    for how in ({"model": "gpt-5.4"}, {"options": {"max_tokens": 7}}, {"parameters": {"workspace": "/w"}}):
        here = opened().thread(thread.id)
        here.user("And now?")
        is_the_cold_one(here, here.prepare(tools=TOOLS, **how))
    assert not restored


def test_another_version_of_the_code_does_not(
    opened: Opened, restored: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = opened().create_thread()
    talk(thread, 0, 12)
    monkeypatch.setattr(caches, "fingerprint", lambda address: f"another {address}")
    here = opened().thread(thread.id)
    is_the_cold_one(here, here.prepare(tools=TOOLS))
    assert not restored


@pytest.mark.parametrize("tools", [TOOLS[:1], None])
def test_other_surroundings_are_seen(opened: Opened, tools: Any) -> None:
    thread = opened().create_thread()
    talk(thread, 0, 12)
    here = opened().thread(thread.id)
    here.user("And now?")
    is_the_cold_one(here, here.prepare(tools=tools, instructions="Be brief."))


def test_an_erasure_drops_what_was_kept_and_stops_what_was_about_to_be(opened: Opened, restored: list[int]) -> None:
    mine, theirs = opened(), opened()
    thread = mine.create_thread()
    talk(thread, 0, 12)
    assert any(b"Answer 3." in page for page in pages(mine, thread))
    redact(theirs, thread.id, match="Answer 3.", reason="asked for")
    assert pages(mine, thread) == []
    prompt = talk(thread, 13, 16)
    is_the_cold_one(thread, prompt)
    assert b"Answer 3." not in prompt.body
    assert not any(b"Answer 3." in page for page in pages(mine, thread))


def test_an_erasure_between_reading_and_keeping_is_seen(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = opened(), opened()
    thread = mine.create_thread()
    talk(thread, 0, 12)
    keep = Live.keep

    def too_late(self: Live) -> None:
        redact(theirs, thread.id, match="Answer 3.", reason="asked for")
        keep(self)

    for number in range(13, 16):
        turn(thread, number)
    monkeypatch.setattr(Live, "keep", too_late)
    thread.prepare(tools=TOOLS)
    assert pages(mine, thread) == []


def test_a_deletion_drops_what_was_kept_and_stops_what_was_about_to_be(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs = opened(), opened()
    other = mine.create_thread()
    talk(other, 0, 6)
    thread = mine.create_thread()
    talk(thread, 0, 12)
    for number in range(13, 16):
        turn(thread, number)
    keep = Live.keep

    def too_late(self: Live) -> None:
        theirs.delete_thread(thread.id, reason="asked for")
        keep(self)

    monkeypatch.setattr(Live, "keep", too_late)
    thread.prepare(tools=TOOLS)
    assert mine.backend.cache_size() == 0


def test_no_page_is_written_while_another_thread_moves_turns(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of turns that are leaving a window, with the window as it was, would repeat them."""
    store = opened()
    thread = store.create_thread()
    prompt = talk(thread, 0, 6)
    take, waited = kept.Kept.take, []

    def moved(self: kept.Kept, settled: kept.Settled) -> None:
        take(self, settled)
        keeper = Thread(target=store.live.recorded, args=(thread, prompt.derived.recipe, prompt.derived), daemon=True)
        keeper.start()
        keeper.join(0.05)
        waited.append(keeper.is_alive())

    monkeypatch.setattr(kept.Kept, "take", moved)
    turn(thread, 7)
    thread.prepare(tools=TOOLS)
    assert waited == [True]


def test_a_summary_of_a_fork_is_made_again_after_an_erasure_in_its_origin(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs = opened(), opened()
    origin = mine.create_thread()
    first = origin.user("Say the word.").position
    last = origin.text("Said.").position
    origin.end_turn()
    fork = cast("convlog.Thread", origin.fork())
    derive_summary, texts = summarise.derive_summary, []

    def slow(*how: Any) -> str:
        texts.append(derive_summary(*how))
        if len(texts) == 1:
            redact(theirs, origin.id, match="the word", reason="asked for")
        return texts[-1]

    monkeypatch.setattr(summarise, "derive_summary", slow)
    summary = fork.event(fork.summarise_with("outline@1", first, last).position)
    assert ["the word" in text for text in texts] == [True, False]
    assert "the word" not in summary.body.text


@pytest.mark.parametrize("captured", [False, True])
def test_an_erasure_between_deriving_and_recording_makes_another_prompt(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, *, captured: bool
) -> None:
    mine, theirs = opened(), opened()
    thread = mine.create_thread()
    talk(thread, 0, 6)
    made = prepare._prompt
    prompts: list[bytes] = []

    def slow(*how: Any) -> Prompt:
        prompt = made(*how)
        prompts.append(prompt.body)
        if len(prompts) == 1:
            redact(theirs, thread.id, match="Answer 3.", reason="asked for")
        return prompt

    monkeypatch.setattr(prepare, "_prompt", slow)
    prompt = thread.prepare(tools=TOOLS, capture=captured)
    assert [b"Answer 3." in each for each in prompts] == [True, False]
    assert b"Answer 3." not in prompt.body
    *_, last = replay(thread)
    assert last.verdict == "exact"
    captures = [b"".join(mine.backend.attachment(name)) for name in mine.backend.attachments()]
    assert not any(b"Answer 3." in each for each in captures)


def test_a_fork_sees_an_erasure_in_its_origin(opened: Opened) -> None:
    mine, theirs = opened(), opened()
    origin = mine.create_thread()
    for number in range(8):
        turn(origin, number)
    fork = cast("convlog.Thread", origin.fork())
    talk(fork, 8, 12)
    redact(theirs, origin.id, match="Answer 3.", reason="asked for")
    fork.user("And now?")
    prompt = fork.prepare(tools=TOOLS)
    is_the_cold_one(fork, prompt)
    assert b"Answer 3." not in prompt.body


def test_two_processes_that_take_turns_derive_the_same(opened: Opened) -> None:
    mine, theirs = opened(), opened()
    thread = mine.create_thread()
    handles = [thread, theirs.thread(thread.id)]
    for number in range(24):
        here = handles[number // 3 % 2]
        here.refresh()
        turn(here, number)
        is_the_cold_one(here, here.prepare(tools=TOOLS))
    here = opened().thread(thread.id)
    is_the_cold_one(here, here.prepare(tools=TOOLS))


def test_what_is_as_long_as_its_source_is_not_kept_twice(opened: Opened) -> None:
    store = opened()
    thread = store.create_thread()
    talk(thread, 0, 12, assembler="transcript@1")
    assert pages(store, thread) == []


def test_a_recipe_that_is_used_once_keeps_nothing(opened: Opened) -> None:
    store = opened()
    thread = store.create_thread()
    for number in range(12):
        turn(thread, number)
        thread.prepare(tools=TOOLS, options={"max_tokens": 100 + number})
    assert pages(store, thread) == []


def test_a_store_that_is_only_read_is_not_written_but_read_from(opened: Opened, restored: list[int]) -> None:
    thread = opened().create_thread()
    talk(thread, 0, 12)
    reader = opened(mode="r").thread(thread.id)
    prompt = reader.prepare(record=False)
    is_the_cold_one(reader, prompt)
    assert restored


def test_no_room_to_keep_is_no_reason_to_fail(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened()
    thread = store.create_thread()

    def full(*_: Any, **__: Any) -> bool:
        raise StoreFull("no room left")

    monkeypatch.setattr(store.backend, "cache", full)
    is_the_cold_one(thread, talk(thread, 0, 12))
    assert pages(store, thread) == []


def in_table(path: Path, sql: str, *values: Any) -> None:
    connection = sqlite3.connect(path)
    with connection:
        assert connection.execute(sql, values).rowcount
    connection.close()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_damaged_page_is_left_out(opened: Opened, open_store: Stores, number: int) -> None:
    store = opened()
    thread = store.create_thread()
    talk(thread, 0, 20)
    assert len(pages(store, thread)) > 2
    name = f"turns {thread.id} {number}"
    value = bytearray(store.backend.cached(name) or b"")
    value[len(value) // 2] ^= 1
    in_table(open_store.path(), "UPDATE cache SET value = ? WHERE name = ?", bytes(value), name)
    here = opened().thread(thread.id)
    is_the_cold_one(here, here.prepare(tools=TOOLS))
    in_table(open_store.path(), "DELETE FROM cache WHERE name = ?", name)
    here = opened().thread(thread.id)
    is_the_cold_one(here, here.prepare(tools=TOOLS))


def test_what_proves_a_prompt_reads_no_page(opened: Opened, open_store: Stores) -> None:
    """Who writes pages that say something else changes what is sent; the proof shows what the events say, and tells."""
    store = opened()
    thread = store.create_thread()
    talk(thread, 0, 12)
    number = next(number for number, page in enumerate(pages(store, thread)) if b"Answer 3." in page)
    forged, before = pages(store, thread)[number:], b""
    for index, value in enumerate(forged):
        page = msgspec.msgpack.decode(value[DIGEST_BYTES:], type=caches.Page)
        chunks = tuple(chunk.replace(b"Answer 3.", b"Answer 4.") for chunk in page.portion.chunks)
        page = msgspec.structs.replace(page, portion=msgspec.structs.replace(page.portion, chunks=chunks))
        page = msgspec.structs.replace(page, before=before) if index else page
        data = msgspec.msgpack.encode(page)
        before = blake3(data).digest()
        sql = "UPDATE cache SET value = ? WHERE name = ?"
        in_table(open_store.path(), sql, before + data, f"turns {thread.id} {number + index}")
    here = opened().thread(thread.id)
    prompt = here.prepare(tools=TOOLS)
    assert b"Answer 3." not in prompt.body
    here.record(message(said("Fine.")), call=prompt.call, sent=prompt.body)
    *_, last = replay(opened(mode="r").thread(thread.id))
    assert last.prompt is not None
    assert b"Answer 3." in last.prompt.body
    assert last.attested == "sent otherwise"


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    before=steps("user", "answer", "ask", "result", "end", max_size=40),
    between=steps(max_size=12),
    model=st.sampled_from(["claude-sonnet-4-6", "gpt-5.4", "bedrock-claude"]),
)
def test_a_prompt_of_any_next_process_is_the_cold_one(
    before: list[tuple[str, int, int]], between: list[tuple[str, int, int]], model: str
) -> None:
    backend = MemoryBackend()
    conversation = Conversation(convlog.Store(backend).create_thread())
    for step in [*before, *between, *before]:
        conversation.do_all([step])
        thread = convlog.Store(backend).thread(conversation.thread.id)
        try:
            prompt = thread.prepare(model=model, tools=TOOLS)
        except (AppendError, NotFound, AwaitingApproval):
            continue
        is_the_cold_one(thread, prompt)
        conversation.thread.refresh()
