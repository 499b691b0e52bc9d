"""Back to ChatGPT: every node of a conversation comes back as it was; anything else gets nodes of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convlog.eventstore.importers import import_file
from convlog.eventstore.store import Store
from convlog.eventstore.store import open_store as open_any
from tests.eventstore.importers.conversations import ChatGPTConversation, as_json, chatgpt_talk
from tests.eventstore.importers.test_chatgpt import messages
from tests.projections.exports.threads import odd, talk
from tests.projections.exports.trips import active, again, exported, tree
from tests.recorded import recorded

FORM = "chatgpt"


def back(store: Store, data: bytes) -> list[Any]:
    report = import_file(store, data, format=FORM)
    return [value for id_ in report.thread_ids for value in json.loads(exported(store.thread(id_), FORM))]


def test_a_recorded_conversation_comes_back_as_an_equal_value(store: Store) -> None:
    data = recorded("chatgpt-tree.json").read_bytes()
    value = json.loads(data)
    assert back(store, data) == (value if isinstance(value, list) else [value])


def branched() -> ChatGPTConversation:
    talk_ = chatgpt_talk()
    talk_.say("user", "u2", {"content_type": "multimodal_text", "parts": ["see", pointer(), {"content_type": "odd"}]})
    talk_.say("assistant", "h1", {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "c"}]})
    talk_.say("assistant", "a2", {"content_type": "text", "parts": ["one", "two"]}, metadata={"model_slug": "gpt-x"})
    talk_.say("assistant", "a3", "otherwise", parent="h1")
    talk_.say("tool", "t2", {"content_type": "tether_browsing_display", "result": "r", "summary": None}, name="browser")
    talk_.say(
        "system", "x1", {"content_type": "user_editable_context", "user_profile": "me", "user_instructions": "be"}
    )
    talk_.current = "a2"
    return talk_


def pointer() -> dict[str, Any]:
    return {
        "content_type": "image_asset_pointer",
        "asset_pointer": "file-service://f",
        "width": 2,
        "height": 3,
        "size": 4,
    }


def test_branches_and_every_kind_of_content_come_back(store: Store) -> None:
    talk_ = branched()
    assert back(store, as_json(talk_)) == [talk_.value]
    thread = store.thread("c-1")
    other, copy = again(exported(thread, FORM), FORM)
    with other:
        assert (tree(copy), active(copy)) == (tree(thread), active(thread))


def test_the_asked_branch_holds_its_nodes_alone(store: Store) -> None:
    back(store, as_json(branched()))
    thread = store.thread("c-1")
    [value] = json.loads(exported(thread, FORM, thread.head))
    assert value["current_node"] == "a2"
    assert "a3" not in value["mapping"]
    assert value["mapping"]["h1"]["children"] == ["a2"]


def test_another_active_node_and_new_nodes_are_written(store: Store) -> None:
    back(store, as_json(branched()))
    thread = store.thread("c-1")
    thread.user("and now?")
    [value] = json.loads(exported(thread, FORM))
    new = value["mapping"][value["current_node"]]
    assert (new["parent"], new["message"]["content"]["parts"]) == ("a2", ["and now?"])
    assert value["mapping"]["a2"]["children"] == [new["id"]]


def test_a_thread_of_ones_own_becomes_a_conversation(store: Store) -> None:
    thread = talk(store)
    thread.edit(5, "list them all")
    other, copy = again(exported(thread, FORM), FORM)
    with other:
        assert copy.title == "list files"
        assert [step[0] for step in active(copy)] == ["input"]
        assert len(copy.tree.leaves()) == 2


def test_anything_a_thread_holds_can_be_written(store: Store) -> None:
    assert b"any text ``` at all" in exported(odd(store), FORM)


def is_usual(message: dict[str, Any]) -> bool:
    """Whether the words of a content lie where contents of its kind have them."""
    content = message.get("content")
    if not isinstance(content, dict):
        return True
    if content.get("content_type") == "code":
        return "parts" not in content
    has_text = isinstance(content.get("text"), str)
    return not has_text or ("parts" in content and not isinstance(content["parts"], list))


@pytest.mark.parametrize("kind", ["text", "tether_browsing_display", "code", "execution_output"])
@pytest.mark.parametrize("rest", [{}, {"parts": None}, {"text": None}, {"parts": None, "text": "said"}])
def test_words_under_result_come_back_there(kind: str, rest: dict[str, Any]) -> None:
    talk_ = ChatGPTConversation()
    talk_.node("r", None)
    content = {"content_type": kind, "result": "", **rest}
    talk_.node("n", {"id": "n", "author": {"role": "tool", "name": "browser"}, "content": content})
    with open_any(":memory:") as store:
        [value] = back(store, as_json(talk_))
        assert value["mapping"]["n"] == talk_.value["mapping"]["n"]


@given(st.lists(messages.filter(is_usual), max_size=5))
@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_whatever_a_message_holds_comes_back(found: list[Any]) -> None:
    talk_ = ChatGPTConversation()
    talk_.node("r", None)
    for number, message in enumerate(found):
        talk_.node(f"n{number}", {"id": f"n{number}", **message})
    with open_any(":memory:") as store:
        [value] = back(store, as_json(talk_))
        for id_, node in talk_.value["mapping"].items():
            assert value["mapping"][id_] == node
