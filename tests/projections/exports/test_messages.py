"""Messages of the two providers' forms: originals of one path, and the way back."""

from __future__ import annotations

import base64
import json
from typing import Any

from convlog.eventstore.store import Store
from tests.projections.exports.threads import odd, talk
from tests.projections.exports.trips import active, again, exported

PICTURE = base64.b64encode(b"\x89PNG").decode()


def body(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(data)
    return found


def test_anthropic_messages_hold_batches_as_blocks(store: Store) -> None:
    found = body(exported(talk(store), "anthropic"))
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}
    assert found["system"] == [{"type": "text", "text": "Be brief."}]
    assert [tool["name"] for tool in found["tools"]] == ["bash", "look"]
    assert found["tools"][0]["input_schema"]["properties"] == {"command": {"type": "string"}}
    assert found["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "list the files"}, image]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "ls will do", "signature": "seal"},
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls"}},
                {"type": "tool_use", "id": "c2", "name": "bash", "input": {"command": "false"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c2", "content": "no", "is_error": True},
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "a.txt"}, image]},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "One file."}]},
    ]


def test_openai_messages_hold_calls_beside_the_text_and_a_message_for_each_result(store: Store) -> None:
    found = body(exported(talk(store), "openai-chat"))
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}
    function = {"name": "bash", "arguments": '{"command":"ls"}'}
    assert found["tools"][1] == {"type": "function", "function": {"name": "look"}}
    system, asked, said, failed, result, last = found["messages"]
    assert system == {"role": "system", "content": "Be brief."}
    assert asked == {"role": "user", "content": [{"type": "text", "text": "list the files"}, image]}
    assert (said["content"], said["reasoning_content"]) == ("Looking.", "ls will do")
    assert said["tool_calls"][0] == {"id": "c1", "type": "function", "function": function}
    assert failed == {"role": "tool", "tool_call_id": "c2", "content": "no"}
    assert result["content"] == [{"type": "text", "text": "a.txt"}, image]
    assert last == {"role": "assistant", "content": "One file."}


def test_what_the_forms_have_no_place_for_is_said_in_words_or_left_out(store: Store) -> None:
    thread = odd(store)
    chat, messages = (body(exported(thread, form))["messages"] for form in ("openai-chat", "anthropic"))
    assert [message["role"] for message in messages] == ["system", "user", "user", "assistant", "user", "assistant"]
    assert messages[1]["content"].startswith("\x1b[31mred")
    assert messages[3]["content"][0]["input"] == {"input": "any text ``` at all"}
    custom = {"id": "c9", "type": "custom", "custom": {"name": "free", "input": "any text ``` at all"}}
    assert chat[3]["tool_calls"] == [custom]


def test_summaries_are_not_applied(store: Store) -> None:
    thread = talk(store)
    thread.summarise(5, thread.head, "SUMMARY")
    assert b"SUMMARY" not in exported(thread, "anthropic") + exported(thread, "openai-chat")


def test_the_asked_path_is_exported(store: Store) -> None:
    thread = talk(store)
    left = thread.head
    thread.edit(5, "list them all")
    assert b"list them all" in exported(thread, "anthropic")
    assert b"list them all" not in exported(thread, "anthropic", left)


def test_anthropic_messages_come_in_again_with_the_same_nodes(store: Store) -> None:
    thread = talk(store)
    other, copy = again(exported(thread, "anthropic"), "anthropic")
    with other:
        assert [step for step in active(copy) if step[0] != "tools.set"] == [
            step for step in active(thread) if step[0] != "tools.set"
        ]


def test_openai_messages_come_in_again_with_the_same_texts(store: Store) -> None:
    thread = talk(store)
    other, copy = again(exported(thread, "openai-chat"), "openai")
    with other:
        assert [step[:2] for step in active(copy) if step[0] not in {"tools.set", "instructions.set"}] == [
            step[:2] for step in active(thread) if step[0] not in {"tools.set", "instructions.set"}
        ]
