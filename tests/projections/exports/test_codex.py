"""Back to Codex: every line comes back as it was, in its outer form; anything else as a rollout of its own."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convlog.eventstore.importers import import_file
from convlog.eventstore.store import Store
from convlog.eventstore.store import open_store as open_any
from tests.eventstore.importers.rollouts import Rollout, compacted
from tests.json_values import json_values
from tests.projections.exports.threads import odd, talk
from tests.projections.exports.trips import active, again, costs, exported, rows, tree
from tests.recorded import recorded

FORM = "codex"


def back(store: Store, data: bytes) -> bytes:
    report = import_file(store, data, format=FORM)
    return b"".join(exported(store.thread(id_), FORM) for id_ in report.thread_ids)


def eventful() -> Rollout:
    rollout = Rollout(base_instructions={"text": "Be brief.", "more": 1}, model_provider="openai")
    rollout.add("turn_context", {"cwd": "/w", "model": "gpt-x"})
    rollout.event("task_started", turn_id="t1")
    rollout.user("list the files", id="msg_u")
    rollout.event("user_message", message="list the files")
    rollout.thinks("ls will do", id="rs_1")
    rollout.says("Looking.", id="msg_1", phase="commentary")
    rollout.calls("c1", id="fc_1")
    rollout.returns(
        "c1", [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "data:image/png;base64,QQ=="}]
    )
    rollout.tokens(3, 3)
    rollout.item("custom_tool_call", call_id="c2", name="apply_patch", input="*** Begin", status="completed")
    rollout.item("custom_tool_call_output", call_id="c2", output={"content": "no", "success": False})
    rollout.item("web_search_call", status="completed", action={"query": "x"})
    rollout.item("message", role="developer", content=[{"type": "input_text", "text": "rules", "extra": 1}])
    rollout.item("message", role="assistant", content="plain")
    rollout.event("thread_rolled_back", num_turns=1)
    rollout.user("again")
    rollout.says("done")
    return rollout


def test_the_lines_of_a_recorded_rollout_come_back_in_order_as_equal_values(store: Store) -> None:
    data = recorded("codex-real.jsonl").read_bytes()
    assert rows(back(store, data)) == rows(data)


def test_every_kind_of_line_comes_back_and_the_copy_is_the_same_thread(store: Store) -> None:
    data = eventful().data
    assert rows(back(store, data)) == rows(data)
    thread = store.thread("0190-aaaa")
    other, copy = again(exported(thread, FORM), FORM)
    with other:
        assert (tree(copy), active(copy), costs(copy)) == (tree(thread), active(thread), costs(thread))


def test_a_compaction_gets_the_items_back_that_it_repeats(store: Store) -> None:
    long = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "start" * 40}]}
    rollout = Rollout()
    rollout.add("response_item", long)
    rollout.says("ready")
    last = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Summary."}]}
    rollout.add("compacted", {"message": "", "replacement_history": [long, last]})
    assert rows(back(store, rollout.data)) == rows(rollout.data)
    short = compacted(message="Done.")
    assert rows(back(store, short.data.replace(b"0190-aaaa", b"0190-bbbb")))[5]["payload"] == {"message": "Done."}


def test_the_older_outer_forms_come_back_as_they_were(store: Store) -> None:
    bare = Rollout(bare=True)
    bare.user("<environment_context><cwd>/w</cwd></environment_context>")
    bare.lines.append('{"record_type":"state"}')
    bare.calls("c1")
    bare.returns("c1")
    assert rows(back(store, bare.data)) == rows(bare.data)
    items = [json.loads(line) for line in bare.lines if "record_type" not in line][1:]
    document = {"session": {"id": "0190-dddd", "timestamp": Rollout.time(0), "instructions": ""}, "items": items}
    assert json.loads(back(store, json.dumps(document).encode())) == document


def test_the_asked_branch_is_one_line_without_what_was_gone_back_on(store: Store) -> None:
    back(store, eventful().data)
    thread = store.thread("0190-aaaa")
    asked = exported(thread, FORM, thread.head)
    assert b"thread_rolled_back" not in asked
    assert b"Looking." not in asked
    other, copy = again(asked, FORM)
    with other:
        assert active(copy) == active(thread)


def test_a_rollout_that_was_gone_on_with_gets_items_at_its_end(store: Store) -> None:
    data = compacted(message="Done.").data
    back(store, data)
    thread = store.thread("0190-aaaa")
    thread.text("and so on")
    found = rows(exported(thread, FORM))
    assert found[: len(rows(data))] == rows(data)
    assert found[-1]["payload"]["content"] == [{"type": "output_text", "text": "and so on"}]


def test_a_thread_of_ones_own_becomes_a_rollout(store: Store) -> None:
    thread = talk(store)
    thread.summarise(5, thread.head, "One file.")
    thread.user("and now?")
    data = exported(thread, FORM)
    assert [row["type"] for row in rows(data)].count("compacted") == 1
    other, copy = again(data, FORM)
    with other:
        words = [step for step in active(copy) if step[0] not in {"instructions.set", "tools.set"}]
        assert [step[:2] for step in words] == [
            step[:2] for step in active(thread) if step[0] not in {"instructions.set", "tools.set"}
        ]
        assert len(tree(copy)[1]) == 1
        assert [event.body.usage.input for event in copy.events(types=("call.finished",)) if event.body.usage] == [12]


def test_anything_a_thread_holds_can_be_written(store: Store) -> None:
    assert b"any text ``` at all" in exported(odd(store), FORM)


something = json_values.filter(lambda value: value is not None)
parts = st.fixed_dictionaries(
    {"type": st.sampled_from(["input_text", "output_text", "refusal", "input_image", "x"])},
    optional=dict.fromkeys(("text", "refusal", "image_url", "extra"), json_values),
)
items = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            [
                *("message", "reasoning", "function_call", "function_call_output", "custom_tool_call"),
                *("custom_tool_call_output", "local_shell_call", "web_search_call", "compaction", "z"),
            ]
        )
    },
    optional={
        "role": st.sampled_from(["user", "assistant", "developer", "system", 1]),
        "content": json_values | st.lists(parts | json_values, max_size=3),
        "summary": json_values.filter(lambda value: value is not None)
        | st.lists(st.just({"type": "summary_text", "text": "t"}), max_size=2),
        "encrypted_content": json_values,
        "id": st.sampled_from(["i1", "", None]),
        "call_id": st.sampled_from(["c1", "c2", 7]),
        "name": st.sampled_from(["f", ""]),
        "arguments": something,
        "input": something,
        "output": json_values | st.lists(parts, max_size=2),
        "more": json_values,
    },
)


def test_a_part_that_names_nothing_comes_back(store: Store) -> None:
    rollout = Rollout()
    rollout.item("message", role="assistant", content=[{"": "odd"}])
    assert rows(back(store, rollout.data)) == rows(rollout.data)


@given(st.lists(items, max_size=6))
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_whatever_an_item_holds_comes_back(found: list[Any]) -> None:
    rollout = Rollout()
    for item in found:
        rollout.add("response_item", item)
    with open_any(":memory:") as store:
        for got, line in zip(rows(back(store, rollout.data)), rows(rollout.data), strict=True):
            absent = {name: value for name, value in got["payload"].items() if name not in line["payload"]}
            assert {**got, "payload": {n: v for n, v in got["payload"].items() if n not in absent}} == line
            assert absent in ({}, {"summary": []}), absent
