"""Logs of `llm`: the classic tables, the message store, and both in one file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import convlog
from convlog.eventstore.events import Document, Image, Text, Usage
from convlog.eventstore.importers import ImportReport, detect_format, import_file
from convlog.eventstore.importers.llm_messages import message_hash
from convlog.eventstore.store import Store
from convlog.eventstore.thread import Thread
from tests.conftest import Stores
from tests.eventstore.importers.imported import counts, nodes, said, shape, texts
from tests.eventstore.importers.llm_files import Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "logs.db")


def bring_in(store: Store, log: Log, thread: str = "t1") -> tuple[ImportReport, Thread]:
    report = import_file(store, log.path)
    return report, store.thread(thread)


def codes(report: ImportReport) -> list[str]:
    return [finding.code for finding in report.warnings]


STAGES = 5


def usual(log: Log, stages: int = STAGES) -> Log:
    """Fill both generations, as far as asked: an old conversation, and a thread with a call and its fork."""
    log.add("conversations", id="c1", name="Old talk", model="gpt-x")
    log.response("r1", "Hi", "Hello", system="Be kind.")
    if stages > 1:
        log.response("r2", "More", "Of course", reasoning="hm")
    log.add("threads", id="t1", name="List it")
    log.add("tools", id=1, hash="h1", name="ls", description="list", input_schema='{"type": "object"}', plugin="fs")
    if stages < 3:
        return log
    user = log.message("user", "List", parent=log.message("system", "Be kind."))
    call = {"type": "tool_call", "name": "ls", "arguments": {"path": "."}, "tool_call_id": "k1"}
    answer = log.message("assistant", "Looking.", call, parent=user)
    log.add("turn_tools", turn_id=log.turn("u1", user, answer), tool_id=1)
    if stages < 4:
        return log
    result = log.message("tool", tool_result(), parent=answer)
    log.add("turn_tools", turn_id=log.turn("u2", result, log.message("assistant", "Done.", parent=result)), tool_id=1)
    if stages > 4:
        log.add("threads", id="t2", name="Another", tip_message_hash=result, forked_from="t1")
        log.turn("u3", result, log.message("assistant", "Other.", parent=result), "t2")
    return log


def tool_result(**more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "name": "ls", "output": "a.txt", "tool_call_id": "k1"} | more


# --- hashes ---


def test_hashes_are_those_of_llm() -> None:
    def text(words: str) -> dict[str, Any]:
        return {"type": "text", "text": words}

    hi = message_hash("user", [text("Hi")], None, None)
    assert hi == "b2:f641b442fe87d45648438a9ea783e136"
    assert message_hash("assistant", [text("Hello")], None, hi) == "b2:375c2e6a712d6f611bdd93d8e161c5d6"
    call = {"type": "tool_call", "name": "ls", "arguments": {"path": "."}, "tool_call_id": "c1"}
    listed = message_hash("user", [text("List")], None, None)
    looking = message_hash("assistant", [text("Looking."), call], None, listed)
    assert (listed, looking) == ("b2:588959a2a3942d2025894a546a1889d2", "b2:dc519f93305ec52cb5af903a06493e1a")
    result = tool_result(tool_call_id="c1")
    assert message_hash("tool", [result], None, looking) == "b2:bab38b52c0e084058e861067add6f89d"


def test_a_message_whose_hash_is_not_its_contents_is_reported_and_kept(store: Store, log: Log) -> None:
    usual(log)
    log.db.execute("UPDATE parts SET text = 'Gone.' WHERE text = 'Done.'")
    report, thread = bring_in(store, log)
    assert codes(report) == ["hash_mismatch"]
    assert texts(thread)[-1] == "text Gone."


# --- both generations ---


def test_a_log_of_both_generations_has_the_counts_of_a_hand_count(store: Store, log: Log) -> None:
    report = import_file(store, usual(log).path)
    # old: system, 2 questions, 2 answers, 2 rows, 1 conversation; new: 6 messages, 3 rows, 2 threads.
    assert (report.records, report.mapped, report.kept, report.lost) == (19, 14, 5, 0)
    assert (report.user_messages, report.model_messages, report.reasoning) == (3, 5, 1)
    assert (report.tool_calls, report.tool_results, report.threads, report.warnings) == (1, 1, 3, [])
    assert report.usage == Usage(input=20 + 3 * 8, cache_read=6, output=25)
    assert texts(store.thread("c1")) == [
        *("instructions.set", "user Hi", "text Hello", "user More", "reasoning hm", "text Of course")
    ]
    thread = store.thread("t1")
    assert texts(thread) == [
        *("tools.set", "instructions.set", "user List", "text Looking.", "call k1", "result k1 ok", "text Done.")
    ]
    assert (thread.title, store.thread("c1").title, counts(thread)["turn.ended"]) == ("List it", "Old talk", 1)


def test_a_call_is_recorded_once_with_its_model_and_time(store: Store, log: Log) -> None:
    _, thread = bring_in(store, usual(log))
    first, second = thread.events(types=("call.finished",))
    assert (first.body.response, first.body.model, second.body.response) == ("u1", "gpt-x", "u2")
    assert first.body.usage == Usage(input=8, cache_read=2, output=5)
    (old, _) = (
        event for event in store.thread("c1").events() if event.type == "segment.added" and event.body.text[0] in "HO"
    )
    assert old.occurred_at == 1_682_935_200_000_000, "a time without a zone is UTC"


def test_a_fork_goes_on_from_its_origins_message(store: Store, log: Log) -> None:
    _, fork = bring_in(store, usual(log), "t2")
    assert texts(fork)[-2:] == ["result k1 ok", "text Other."]
    assert next(iter(fork.events(types=("thread.forked",)))).body.thread == store.thread("t1").id
    assert fork.title == "Another"


def test_importing_twice_appends_nothing(store: Store, log: Log) -> None:
    first = import_file(store, usual(log).path)
    before = shape(store)
    second = import_file(store, log.path)
    assert (second.appended, first.counts(), first.usage) == (0, second.counts(), second.usage)
    assert shape(store) == before


def test_bytes_are_read_like_the_file(store: Store, open_store: Stores, log: Log) -> None:
    import_file(store, usual(log).path)
    other = open_store("other.db")
    data = log.path.read_bytes()
    assert detect_format(data[: 64 * 1024]) == "llm"
    import_file(other, data)
    assert shape(other) == shape(store)


@pytest.mark.parametrize("stages", range(1, STAGES))
def test_a_log_that_grew_equals_one_that_came_whole(
    store: Store, open_store: Stores, log: Log, tmp_path: Path, stages: int
) -> None:
    grown = open_store("grown.db")
    import_file(grown, usual(Log(tmp_path / "part.db"), stages).path)
    import_file(grown, usual(log).path)
    import_file(store, log.path)
    found, whole = shape(grown), shape(store)
    for thread in (*found.values(), *whole.values()):
        thread.pop("kept")  # the row of a thread whose tip moved is another record
    assert found == whole


def test_a_call_in_both_stores_is_one_call(store: Store, log: Log) -> None:
    log.add("conversations", id="t1", name="Both", model="gpt-x")
    log.add("threads", id="t1", name="Both")
    user = log.message("user", "Hi")
    log.turn("u1", user, log.message("assistant", "Hello", parent=user))
    log.response("u1", "Hi", "Hello", conversation_id="t1")
    report, thread = bring_in(store, log)
    assert (texts(thread), report.model_messages, counts(thread)["call.finished"]) == (["user Hi", "text Hello"], 1, 1)
    assert any('"prompt":"Hi"' in event.body.record for event in thread.events(types=("record.kept",)))


def test_a_conversation_that_went_on_in_the_message_store_is_one_line(store: Store, log: Log) -> None:
    log.add("conversations", id="t1", name="Both", model="gpt-x")
    log.response("r1", "Hi", "Hello", conversation_id="t1", reasoning="hm", system="Be kind.")
    log.add("threads", id="t1", name="Both")
    hi = log.message("user", "Hi", parent=log.message("system", "Be kind."))
    more = log.message("user", "More", parent=log.message("assistant", "Hello", parent=hi))
    log.turn("u1", more, log.message("assistant", "Yes", parent=more))
    _, thread = bring_in(store, log)
    assert texts(thread) == ["instructions.set", "user Hi", "reasoning hm", "text Hello", "user More", "text Yes"]
    assert len(thread.tree.leaves()) == 1


# --- the classic tables ---


def test_fragments_stand_before_the_prompt(store: Store, log: Log) -> None:
    log.add("conversations", id="c1", name="x", model="gpt-x")
    log.response("r1", "Sum up", "Short", system="Tersely.")
    for id_, content in enumerate(("A novel", "Be exact.", "Another"), 1):
        log.add("fragments", id=id_, hash=f"f{id_}", content=content, source=f"{id_}.txt")
    log.add("prompt_fragments", response_id="r1", fragment_id=3, order=1)
    log.add("prompt_fragments", response_id="r1", fragment_id=1, order=0)
    log.add("system_fragments", response_id="r1", fragment_id=2, order=0)
    _, thread = bring_in(store, log, "c1")
    assert nodes(thread)[0].body.parts[0].text == "Be exact.\n\nTersely."
    asked = nodes(thread)[1].body
    assert asked.content == (Text("A novel\nAnother\nSum up"),)
    assert json.loads(asked.extra)["parts"][0]["borrowed"] == [["f1", 7], ["f3", 7], [None, 6]]
    (kept,) = (e.body.record for e in thread.events(types=("record.kept",)) if '"Sum up"' in e.body.record)
    assert [(row["hash"], row["source"]) for row in json.loads(kept)["fragments"]] == [("f1", "1.txt"), ("f3", "3.txt")]


def test_attachments_are_pictures_and_documents(store: Store, log: Log) -> None:
    log.add("conversations", id="c1", name="x", model="gpt-x")
    log.response("r1", "See", "Seen")
    log.add("attachments", id=hashlib.sha256(b"png").hexdigest(), type="image/png", content=b"png")
    log.add("attachments", id="a2", type="application/pdf", path="/w/a.pdf")
    log.add("attachments", id="a3", type="image/png", url="https://example.org/a.png")
    log.add("prompt_attachments", response_id="r1", attachment_id=hashlib.sha256(b"png").hexdigest(), order=0)
    for order in (2, 3):
        log.add("prompt_attachments", response_id="r1", attachment_id=f"a{order}", order=order)
    log.add("prompt_attachments", response_id="r1", attachment_id="a4", order=4)
    report, thread = bring_in(store, log, "c1")
    _, picture, document, linked, missing = nodes(thread)[0].body.content
    assert isinstance(picture, Image)
    assert store.attachment(picture.attachment or "") == b"png"
    assert isinstance(document, Document)
    assert (document.url, linked.url, missing.url) == ("/w/a.pdf", "https://example.org/a.png", None)
    assert codes(report) == ["missing_attachment"]


def test_results_come_with_the_response_that_received_them(store: Store, log: Log) -> None:
    log.add("conversations", id="c1", name="x", model="gpt-x")
    log.add("tools", id=1, hash="h1", name="ls", description="list", input_schema="{}", plugin=None)
    log.add("tool_instances", id=7, plugin="fs", name="Files", arguments="{}")
    log.response("r1", "List", None)
    log.response("r2", None, "Done", schema_id="s1")
    log.add("schemas", id="s1", content='{"a":1}')
    log.add("tool_responses", tool_id=1, response_id="r1")
    log.add("tool_responses", tool_id=1, response_id="r2")
    log.add("tool_calls", response_id="r1", tool_id=1, name="ls", arguments='{"b":1.50, "a":1}', tool_call_id="k2")
    log.add("tool_calls", response_id="r1", tool_id=1, name="ls", arguments="{}", tool_call_id="k1")
    log.add("tool_results", response_id="r2", tool_id=1, name="ls", output="a", tool_call_id="k1", instance_id=7)
    log.add("tool_results", response_id="r2", name="ls", output="", tool_call_id="k2", exception="E: no")
    _, thread = bring_in(store, log, "c1")
    assert texts(thread) == [
        *("tools.set", "user List", "call k1", "call k2", "result k1 ok", "result k2 error", "text Done")
    ]
    assert nodes(thread)[3].body.input == '{"b":1.50, "a":1}'
    assert json.loads(nodes(thread)[5].body.extra) == {"name": "ls", "exception": "E: no"}
    (kept,) = (json.loads(e.body.record) for e in thread.events(types=("record.kept",)) if '"r2"' in e.body.record)
    assert kept["schemas"] == [{"id": "s1", "content": '{"a":1}'}]
    assert (kept["tool_instances"][0]["name"], kept["tool_results"][0]["instance_id"]) == ("Files", 7)


def test_a_response_without_a_conversation_is_a_thread_of_its_own(store: Store, log: Log) -> None:
    log.response("r1", "Hi", "Hello", conversation_id=None)
    _, thread = bring_in(store, log, "r1")
    assert texts(thread) == ["user Hi", "text Hello"]


def test_a_log_with_the_classic_tables_alone_is_known(store: Store, tmp_path: Path) -> None:
    log = Log(tmp_path / "old.db", store=False)
    log.add("conversations", id="c1", name="x", model="gpt-x")
    log.response("r1", "Hi", "Hello")
    _, thread = bring_in(store, log, "c1")
    assert texts(thread) == ["user Hi", "text Hello"]


# --- the message store ---


def test_parts_keep_their_seals_metadata_and_odd_kinds(store: Store, log: Log) -> None:
    log.add("threads", id="t1", name=None)
    user = log.message("user", "Hi")
    sealed = {"type": "reasoning", "text": "hm", "provider_metadata": {"anthropic": {"signature": "c2ln"}}}
    hidden = {"type": "reasoning", "text": "", "redacted": True, "provider_metadata": {"openai": {"id": "rs"}}}
    searched = {"type": "tool_call", "name": "search", "arguments": {}, "tool_call_id": "s1", "server_executed": True}
    found = {"type": "tool_result", "name": "search", "output": "x", "tool_call_id": "s1", "server_executed": True}
    parts = (sealed, hidden, searched, found, {"type": "hologram", "beam": 1})
    answer = log.message("assistant", *parts, parent=user, provider_metadata={"anthropic": {"id": "m"}})
    log.turn("u1", user, answer)
    report, thread = bring_in(store, log)
    one, two, call, result, odd = nodes(thread)[1:]
    assert (one.body.signature, one.source.provider, two.body.item) == ("c2ln", "anthropic", "rs")
    assert json.loads(one.body.extra)["message"] == {"provider_metadata": {"anthropic": {"id": "m"}}}
    assert json.loads(two.body.extra)["redacted"] is True
    assert (call.body.kind, result.body.response, odd.body.kind) == ("server", "u1", "opaque")
    assert (json.loads(odd.body.opaque), report.warnings) == ({"type": "hologram", "beam": 1}, [])


def test_a_text_that_borrows_fragments_is_put_together(store: Store, log: Log) -> None:
    log.add("threads", id="t1", name=None)
    log.add("fragments", id=1, hash="f1", content="A novel")
    user = log.message("user", "A novel\nSum up")
    payload = json.dumps({"text_ref": [{"fragment": 1}, {"literal": "\nSum up"}]})
    log.db.execute("UPDATE parts SET text = NULL, payload = ?", [payload])
    log.turn("u1", user, log.message("assistant", "Short", parent=user))
    report, thread = bring_in(store, log)
    assert (texts(thread)[0], report.warnings) == ("user A novel\nSum up", [])
    assert json.loads(nodes(thread)[0].body.extra)["parts"][0]["borrowed"] == [["f1", 7], [None, 7]]
    log.db.execute("DELETE FROM fragments")
    log.db.execute("UPDATE turns SET datetime_utc = datetime_utc")
    report = import_file(store, log.path)
    assert sorted(codes(report)) == ["hash_mismatch", "missing_fragment"]


def test_another_answer_is_a_branch_and_the_tip_is_active(store: Store, log: Log) -> None:
    log.add("threads", id="t1", name=None)
    user = log.message("user", "Hi")
    first = log.message("assistant", "One", parent=user)
    log.turn("u1", user, first)
    log.turn("u2", user, log.message("assistant", "Two", parent=user))
    _, thread = bring_in(store, log)
    assert (texts(thread), len(thread.tree.leaves())) == (["user Hi", "text Two"], 2)
    log.db.execute("UPDATE threads SET tip_message_hash = ?", [first])
    _, thread = bring_in(store, log)
    assert texts(thread) == ["user Hi", "text One"]


def test_turns_and_messages_of_no_thread_go_by_their_root(store: Store, log: Log) -> None:
    user = log.message("user", "Hi")
    log.turn("u1", user, log.message("assistant", "Hello", parent=user), None)
    log.message("assistant", "Unheard", parent=user)
    _, thread = bring_in(store, log, user)
    assert sorted(said(event) for event in nodes(thread)) == ["text Hello", "text Unheard", "user Hi"]


def test_two_threads_that_begin_alike_are_two(store: Store, log: Log) -> None:
    for thread in ("t1", "t2"):
        log.add("threads", id=thread, name=None)
        user = log.message("user", "Hi")
        log.turn(f"u-{thread}", user, log.message("assistant", f"Hello {thread}", parent=user), thread)
    bring_in(store, log)
    assert texts(store.thread("t1")) == ["user Hi", "text Hello t1"]
    assert texts(store.thread("t2")) == ["user Hi", "text Hello t2"]


def test_a_missing_parent_and_a_circle_are_survived(store: Store, log: Log) -> None:
    log.add("threads", id="t1", name=None)
    user = log.message("user", "Hi", parent="b2:none")
    log.turn("u1", user, log.message("assistant", "Hello", parent=user))
    log.add("messages", hash="b2:x", parent_hash="b2:y", role="user")
    log.add("messages", hash="b2:y", parent_hash="b2:x", role="user")
    report, thread = bring_in(store, log)
    assert texts(thread) == ["user Hi", "text Hello"]
    assert codes(report) == ["missing_parent"]


def test_odd_characters_and_bad_json_are_survived(store: Store, log: Log) -> None:
    log.add("threads", id="t1", name="a\0b")
    user = log.message("user", "nul\0")
    answer = log.message(
        "assistant", {"type": "tool_call", "name": "f", "arguments": {}, "tool_call_id": "k"}, parent=user
    )
    log.turn("u1", user, answer, token_details="{bad")
    log.db.execute("UPDATE parts SET payload = '[1' WHERE type = 'tool_call'")
    log.db.execute("UPDATE parts SET text = CAST(x'6eff' AS TEXT) WHERE type = 'text'")
    report, thread = bring_in(store, log)
    assert sorted(set(codes(report))) == ["hash_mismatch", "invalid_utf8"]
    assert texts(thread)[0] == "user n\ufffd"
    assert nodes(thread)[1].body.kind == "opaque"


def test_a_dry_run_writes_nothing_and_counts_the_same(store: Store, log: Log) -> None:
    report = import_file(store, usual(log).path, dry_run=True)
    assert (list(store.threads()), report.warnings) == ([], [])
    assert report.counts() == import_file(store, log.path).counts()


def test_turn_memory_of_an_imported_turn_names_its_call(tmp_path: Path, log: Log) -> None:
    with convlog.open(tmp_path / "memory.db") as store:
        import_file(store, usual(log).path)
        prompt = store.thread("t1").prepare(assembler="turn-memory@6", record=False)
        calls = [piece for piece in prompt.pieces if piece.provenance == "turn-memory" and piece.role == "assistant"]
    assert len(calls) == 3, "the words of two responses and one call"
