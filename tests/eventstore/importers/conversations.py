"""ChatGPT and Claude.ai conversations made for tests, and ZIP archives of them."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

SECONDS = 1_767_348_000.25
ISO = "2026-01-02T10:00:00.250000Z"
MICROSECONDS = 1_767_348_000_250_000


class ChatGPTConversation:
    """Writes one conversation; each node hangs below the one before unless told otherwise."""

    def __init__(self, id_: str = "c-1", **fields: Any) -> None:
        self.fields = {"title": "T", "create_time": SECONDS, "update_time": SECONDS} | fields
        self.id = id_
        self.mapping: dict[str, Any] = {}
        self.current: str | None = None

    def node(self, id_: str, message: Any, **fields: Any) -> str:
        """Add a node; `parent` names another parent, None the root."""
        parent = fields.pop("parent", self.current)
        self.mapping[id_] = {"id": id_, "parent": parent, "children": [], "message": message} | fields
        if parent in self.mapping:
            self.mapping[parent]["children"].append(id_)
        self.current = id_
        return id_

    def say(self, role: str, id_: str, content: Any, **fields: Any) -> str:
        """Add a message; content is its text, or the object."""
        said = {"content_type": "text", "parts": [content]} if isinstance(content, str) else content
        outer = {name: fields.pop(name) for name in ("parent", "children") if name in fields}
        author = {"role": role, "name": fields.pop("name", None), "metadata": {}}
        message = {"id": id_, "author": author, "create_time": SECONDS, "content": said, "metadata": {}}
        message |= {"status": "finished_successfully", "end_turn": None, "weight": 1.0, "recipient": "all"} | fields
        return self.node(id_, message, **outer)

    @property
    def value(self) -> dict[str, Any]:
        """The conversation."""
        return self.fields | {"mapping": self.mapping, "current_node": self.current, "conversation_id": self.id}


def chatgpt_talk(id_: str = "c-1") -> ChatGPTConversation:
    """Give a talk with a hidden system message, a call with its result, and an answer."""
    talk = ChatGPTConversation(id_)
    talk.node("r", None)
    talk.say("system", "s", "", weight=0.0, metadata={"is_visually_hidden_from_conversation": True})
    talk.say("user", "u1", f"What is new in {id_}?")
    talk.say("assistant", "k1", {"content_type": "code", "language": "unknown", "text": '{"q":1}'}, recipient="web.run")
    talk.say("tool", "t1", {"content_type": "execution_output", "text": "news"}, name="web.run")
    talk.say("assistant", "a1", "Much.", end_turn=True, metadata={"model_slug": "gpt-x"})
    return talk


def claude_message(uuid: str, sender: str, *blocks: Any, parent: Any = ..., **fields: Any) -> dict[str, Any]:
    """Give a message of a Claude.ai conversation; a string among the blocks stands for a text block."""
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    flat = "\n\n".join(block["text"] for block in content if block.get("type") == "text")
    message = {"uuid": uuid, "text": flat, "content": content, "sender": sender, "created_at": ISO, "updated_at": ISO}
    message |= {"attachments": [], "files": []}
    return message | ({} if parent is ... else {"parent_message_uuid": parent}) | fields


def claude_conversation(*messages: Any, uuid: str = "c-1", **fields: Any) -> dict[str, Any]:
    """Give a Claude.ai conversation."""
    about = {"uuid": uuid, "name": "T", "summary": "", "created_at": ISO, "updated_at": ISO, "account": {"uuid": "me"}}
    return about | {"chat_messages": list(messages)} | fields


def as_json(*conversations: Any) -> bytes:
    """Give an export's list."""
    values = [value.value if isinstance(value, ChatGPTConversation) else value for value in conversations]
    return json.dumps(values, ensure_ascii=False).encode()


def zipped(**files: bytes) -> bytes:
    """Give a ZIP of files; `__` in a name stands for `/`, and each is a `.json`."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(f"{name.replace('__', '/').replace('_', '-')}.json", data)
    return target.getvalue()
