"""The hand-written form: what each step records, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from convlog.eventstore import errors
from convlog.eventstore.events import Facts
from convlog.eventstore.importers import ImportReport, detect_format, import_file
from convlog.eventstore.store import Store
from convlog.eventstore.thread import Thread
from tests.eventstore.importers.imported import counts, nodes, shape, texts


def bring_in(store: Store, *steps: dict[str, Any], name: str = "f") -> tuple[ImportReport, Thread]:
    report = import_file(store, json.dumps({"id": name, "steps": steps}).encode())
    return report, store.thread(report.thread_ids[0])


def user(label: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"op": "user", "as": label, "text": text} | fields


def assistant(label: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"op": "assistant", "as": label, "text": text} | fields


CALL = {"op": "tool_call", "as": "c1", "call": "t", "name": "bake"}
RESULT = {"op": "tool_result", "as": "x1", "call": "t", "status": "ok", "output": "baked"}


@pytest.mark.parametrize(
    "form", [lambda steps: {"steps": steps}, lambda steps: {"input": {"steps": steps}}, lambda steps: steps]
)
def test_a_document_a_case_and_a_bare_list_are_read(store: Store, form: Any) -> None:
    data = json.dumps(form([user("u1", "hi"), assistant("a1", "ho")])).encode()
    assert detect_format(data) == "steps"
    report = import_file(store, data)
    thread = store.thread(report.thread_ids[0])
    assert texts(thread) == ["user hi", "text ho"]
    assert store.row(thread.id).source_id == f"{report.digest}/t1"
    assert import_file(store, data).appended == 0


def test_threads_are_named_by_the_files_id_and_their_label(store: Store) -> None:
    report, _ = bring_in(store, user("u1", "a"), user("u1", "b", thread="t2"), name="bug-7")
    assert [store.row(id_).source_id for id_ in report.thread_ids] == ["bug-7/t1", "bug-7/t2"]
    bring_in(store, user("u1", "a"), user("u1", "b", thread="t2"), user("u2", "more"), name="bug-7")
    assert texts(store.thread("bug-7/t1")) == ["user a", "user more"]
    assert len(list(store.threads())) == 2


def test_every_kind_of_record_comes_in_with_what_it_says(store: Store) -> None:
    _, thread = bring_in(
        store,
        {"op": "thread", "thread": "t1"},
        {"op": "system", "as": "s1", "text": "be brief"},
        user("u1", "bake", at="2026-01-02T10:00:00Z", item="i-1"),
        {"op": "reasoning", "as": "r1", "text": "hm", "signature": "sig", "provider": "acme"},
        assistant("a1", "baking", stop="tool_use", needs="i-1"),
        CALL | {"args": {"b": 1, "a": 2}},
        RESULT | {"meta": {"exit_code": 3, "file_changed": "cake.md"}},
        {"op": "turn_end", "status": "aborted"},
    )
    system, asked, reasoning, prose, called, result = (event.body for event in nodes(thread))
    assert (system.role, asked.item, prose.stop, prose.needs) == ("system", "i-1", "tool_use", "i-1")
    assert (reasoning.kind, reasoning.signature) == ("reasoning", "sig")
    assert json.loads(called.input) == {"b": 1, "a": 2}
    assert result.facts == Facts(exit_code=3, file_changed="cake.md")
    assert nodes(thread)[1].occurred_at == 1_767_348_000_000_000
    assert nodes(thread)[2].source.provider == "acme"
    (end,) = thread.events(types=("turn.ended",))
    assert (end.body.node, end.body.state) == (nodes(thread)[-1].position, "interrupted")


def test_texts_may_be_escaped_or_generated(store: Store) -> None:
    _, thread = bring_in(
        store,
        {"op": "user", "as": "u1", "text_escaped": "a\\ud83d\\udc00\\ud800\\u0000"},
        CALL,
        {"op": "tool_result", "as": "x1", "call": "t", "output_generated": {"unit": "ab", "times": 3}},
    )
    part = nodes(thread)[0].body.content[0]
    assert (part.text, part.original) == ("a🐀\ufffd\x00", "a🐀\ud800\x00")
    assert nodes(thread)[-1].output == b"ababab"


def test_parents_edits_answers_and_moves_make_the_tree_that_was_written(store: Store) -> None:
    _, thread = bring_in(
        store,
        user("u1", "start"),
        assistant("a1", "ready"),
        user("u2", "left"),
        user("u3", "right", parent="a1"),
        {"op": "edit", "target": "u2", "as": "u2b", "text": "straight on"},
        {"op": "regenerate", "target": "a1", "as": "a1b", "text": "at your service"},
        {"op": "select", "target": "u3"},
        assistant("a3", "went right"),
    )
    assert texts(thread) == ["user start", "text ready", "user right", "text went right"]
    start, ready, left, _, edited, answer, *_ = nodes(thread)
    assert (edited.parent, edited.ref("edits")) == (ready.position, left.position)
    assert (answer.parent, answer.ref("regenerates")) == (start.position, ready.position)
    assert (edited.source.kind, answer.source.kind) == ("user", "model")


def test_a_result_answers_the_nearest_open_call_above_it(store: Store) -> None:
    _, thread = bring_in(
        store,
        user("u1", "go"),
        CALL,
        RESULT,
        CALL | {"as": "c2"},
        user("u2", "elsewhere", parent="u1"),
        RESULT | {"as": "x2", "parent": "c2"},
        RESULT | {"as": "x3"},
    )
    answers = {event.position: event.ref("answers") for event in nodes(thread) if event.type == "tool.returned"}
    calls = [event.position for event in nodes(thread) if event.type == "tool.called"]
    assert list(answers.values()) == [*calls, None]


def test_a_fork_goes_on_from_a_node_in_a_thread_of_its_own(store: Store) -> None:
    steps = [
        user("u1", "start"),
        assistant("a1", "ready"),
        {"op": "fork", "from": "u1", "into": "t2"},
        assistant("b1", "other", thread="t2"),
        user("u2", "left"),
    ]
    report, thread = bring_in(store, *steps)
    forked = store.thread(report.thread_ids[1])
    assert texts(thread) == ["user start", "text ready", "user left"]
    assert texts(forked) == ["user start", "text other"]
    assert bring_in(store, *steps)[0].appended == 0


def test_a_helpers_thread_names_the_one_above(store: Store) -> None:
    _, thread = bring_in(
        store,
        user("u1", "go"),
        {"op": "thread", "thread": "h", "role": "helper", "parent_thread": "t1"},
        user("h1", "look", thread="h"),
    )
    helper = store.thread("f/h")
    assert (helper.event(1).body.origin, helper.event(1).body.parent.thread) == ("subagent", thread.id)
    assert store.latest().id == thread.id


def test_summaries_are_stored_failed_and_taken_out_of_use(store: Store) -> None:
    _, thread = bring_in(
        store,
        user("u1", "start"),
        assistant("a1", "ready"),
        {"op": "compact", "as": "s1", "first": "u1", "last": "a1", "summary": "begun"},
        {"op": "compact", "as": "s2", "first": "u1", "last": "a1", "summary": "", "fails": "error"},
        {"op": "invalidate", "target": "s1", "reason": "wrong"},
        user("u2", "on"),
    )
    (summary,) = thread.events(types=("summary.added",))
    first, last, *_ = nodes(thread)
    assert (summary.body.first, summary.body.last, summary.body.text) == (first.position, last.position, "begun")
    (failed,) = thread.events(types=("summary.failed",))
    (invalid,) = thread.events(types=("summary.invalidated",))
    assert (failed.body.reason, invalid.body.summary, invalid.body.reason) == ("error", summary.position, "wrong")


def test_a_summary_that_would_part_a_pair_is_kept_and_reported(store: Store) -> None:
    report, thread = bring_in(
        store,
        user("u1", "go"),
        CALL,
        RESULT,
        {"op": "compact", "as": "s1", "first": "u1", "last": "c1", "summary": "cut"},
    )
    assert [finding.code for finding in report.warnings] == ["summary_not_closed"]
    assert "summary.added" not in counts(thread)


def test_a_repeated_append_with_its_key_is_one_node_under_both_labels(store: Store) -> None:
    _, thread = bring_in(
        store,
        user("u1", "go", key="k"),
        user("u1x", "go", key="k"),
        assistant("a1", "gone", parent="u1x"),
    )
    assert texts(thread) == ["user go", "text gone"]


def test_importing_again_appends_nothing(store: Store) -> None:
    steps = [
        {"op": "thread"},
        user("u1", "go"),
        CALL,
        RESULT,
        {"op": "edit", "target": "u1", "as": "u1b", "text": "go on"},
        {"op": "select", "target": "x1"},
        {"op": "turn_end", "status": "done"},
        {"op": "turn_end", "status": "done"},
    ]
    bring_in(store, *steps)
    before = shape(store)
    assert bring_in(store, *steps)[0].appended == 0
    assert shape(store) == before


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"op": "send", "as": "p", "assembler": "case/1"}, r"step 1 \(send\)"),
        ({"op": "redact", "target": "u1", "match": "x", "with": "y", "reason": "z"}, r"step 1 \(redact\)"),
        ({"op": "reopen"}, r"step 1 \(reopen\)"),
        ({"op": "tool_call", "as": "c"}, r"step 1 \(tool_call\): call"),
        ({"op": "select", "target": 4}, r"step 1 \(select\): target"),
        ({"op": "edit", "target": "nobody", "text": "x"}, r"step 1 \(edit\).*nobody"),
        ({"op": "select", "target": "nobody"}, "nobody"),
        ({"text": "x"}, "step 1 is no object with an operation"),
        ([], "step 1 is no object with an operation"),
    ],
)
def test_a_step_that_records_nothing_is_refused_by_its_index_and_nothing_is_written(
    store: Store, step: Any, words: str
) -> None:
    with pytest.raises(errors.ImportFailed, match=words):
        bring_in(store, user("u1", "hi"), step)
    assert list(store.threads()) == []


@pytest.mark.parametrize("data", [b"[1", b'{"op":"x"}', b'{"steps":{}}', b"[" * 100_000])
def test_a_document_without_steps_is_refused(store: Store, data: bytes) -> None:
    with pytest.raises(errors.ImportFailed):
        import_file(store, data, format="steps")
