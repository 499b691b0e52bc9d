"""Messages of `llm`: what they hold, the hash that names one, and how both of its stores are read as messages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import msgspec

from ..errors import PayloadRejected
from .databases import Database, Row
from .report import ImportReport
from .slices import Fields, fields_of, is_too_deep, spelled

HASH_PREFIX = "b2:"
DIGEST_BYTES = 16

Wire = dict[str, Any]
"""A part as `llm` writes it on the wire, attachments by id and type."""


class Attachment(msgspec.Struct, frozen=True):
    """A file that went with a message."""

    id: str
    type: str | None = None
    path: str | None = None
    url: str | None = None
    content: bytes | None = None

    @property
    def wire(self) -> Wire:
        """What the hash of a message says of it."""
        id_ = hashlib.sha256(self.content).hexdigest() if self.content else self.id
        return {"id": id_, "type": self.type}


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a message."""

    wire: Wire
    arguments: str | None = None
    """JSON text of a call's arguments, as it was spelled."""
    attachments: tuple[Attachment, ...] = ()
    borrowed: tuple[tuple[str | None, int], ...] = ()
    """Of a text that borrows: (hash of the fragment, or None for words of its own, length in characters)."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message, below another."""

    hash: str
    parent: str | None
    role: str
    parts: tuple[Part, ...] = ()
    metadata: Wire | None = None
    is_sound: bool = True
    """Whether its hash is that of what it holds."""


def message_hash(role: str, parts: Iterable[Wire], metadata: Wire | None, parent: str | None) -> str:
    """Name a message by its content and its parent, as `llm` 0.36 does."""
    said: Wire = {"role": role, "parts": list(parts)}
    if metadata:
        said["provider_metadata"] = metadata
    text = json.dumps({"parent": parent, "message": said}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=DIGEST_BYTES)
    return HASH_PREFIX + digest.hexdigest()


def value_of_text(text: str | None) -> Any:
    """Decode a JSON column; None for what is none."""
    try:
        return None if text is None or is_too_deep(text.encode()) else json.loads(text)
    except ValueError:
        return None


class MessageStore:
    """The content-addressed tree."""

    def __init__(self, database: Database, report: ImportReport) -> None:
        self._database = database
        self._report = report

    def parent(self, hash_: str) -> tuple[bool, str | None]:
        """Whether a message is there, and its parent's hash."""
        row = self._database.row("SELECT parent_hash FROM messages WHERE hash = ?", hash_)
        return (False, None) if row is None else (True, row["parent_hash"])

    def message(self, hash_: str) -> Message:
        """Read a message, its fragments and attachments put in; what its hash disagrees with is reported."""
        row = self._database.row("SELECT * FROM messages WHERE hash = ?", hash_) or {}
        rows = self._database.select("parts", "message_hash = ?", hash_, order="position")
        parts = tuple(self._part(part) for part in rows)
        metadata = value_of_text(row.get("provider_metadata"))
        role, parent = str(row.get("role")), row.get("parent_hash")
        found = message_hash(role, (part.wire for part in parts), metadata, parent)
        if found != hash_:
            self._report.warn(0, "hash_mismatch", f"{hash_} names a message whose content gives {found}")
        return Message(hash=hash_, parent=parent, role=role, parts=parts, metadata=metadata, is_sound=found == hash_)

    def _part(self, row: Row) -> Part:
        payload = value_of_text(row.get("payload"))
        wire: Wire = {**payload} if isinstance(payload, dict) else {}
        wire["type"] = row["type"]
        if row.get("text") is not None:
            wire["text"] = row["text"]
        fields = _fields(row.get("payload"))
        borrowed: tuple[tuple[str | None, int], ...] = ()
        if isinstance(references := wire.pop("text_ref", None), list):
            pieces = [self._piece(reference) for reference in references]
            wire["text"] = "".join(text for _, text in pieces)
            borrowed = tuple((hash_, len(text)) for hash_, text in pieces)
        attachments = self._attachments(wire)
        arguments = spelled(fields["arguments"]) if "arguments" in fields else None
        return Part(wire=wire, arguments=arguments, attachments=attachments, borrowed=borrowed)

    def _piece(self, reference: Any) -> tuple[str | None, str]:
        """Give a piece of a text: a fragment's hash and content, or words of its own."""
        if isinstance(reference, dict) and "literal" in reference:
            return None, str(reference["literal"])
        id_ = reference.get("fragment") if isinstance(reference, dict) else None
        row = self._database.row("SELECT hash, content FROM fragments WHERE id = ?", id_)
        if row is None:
            self._report.warn(0, "missing_fragment", f"fragment {id_} is not in the source")
            return None, ""
        return str(row["hash"]), str(row["content"])

    def _attachments(self, wire: Wire) -> tuple[Attachment, ...]:
        """Read a part's attachments, and let it say of them what its hash says."""
        named = [wire["attachment"]] if wire.get("attachment") else wire.get("attachments") or []
        ids = [one["id"] for one in named if isinstance(one, dict) and "id" in one]
        found = tuple(attachment_of(self._database, self._report, str(id_)) for id_ in ids)
        if "attachment" in wire and found:
            wire["attachment"] = found[0].wire
        elif found:
            wire["attachments"] = [attachment.wire for attachment in found]
        return found


def _fields(payload: str | None) -> Fields:
    try:
        return fields_of((payload or "").encode()) or {}
    except PayloadRejected:
        return {}


def attachment_of(database: Database, report: ImportReport, id_: str) -> Attachment:
    """Read an attachment; one that is not there is reported, and known by its id alone."""
    row = database.row("SELECT id, type, path, url, content FROM attachments WHERE id = ?", id_)
    if row is None:
        report.warn(0, "missing_attachment", f"attachment {id_} is not in the source")
        return Attachment(id_)
    return Attachment(str(row["id"]), row["type"], row["path"], row["url"], row["content"])


# --- the classic tables ---


class ClassicStore:
    """Responses in rows of their own, as they were logged before 0.36."""

    def __init__(self, database: Database, report: ImportReport) -> None:
        self._database = database
        self._report = report

    def messages(self, row: Row, tip: str | None) -> list[Message]:
        """Give the messages of one response, below `tip`, named as `llm` names them when it goes on from them."""
        response = str(row["id"])
        found: list[tuple[str, list[Part], list[Part]]] = []
        system = self._system(row, response)
        if system:
            found.append(("system", [_text(system)], []))
        results = [self._result(result) for result in self._rows("tool_results", response)]
        if results:
            found.append(("tool", results, [_bare(part) for part in results]))
        user = self._user(row, response)
        if user:
            found.append(("user", user, [part for part in user if part.wire["type"] == "text"]))
        answer, bare = self._answer(row, response)
        if answer:
            found.append(("assistant", answer, bare))
        messages = []
        for role, parts, named in found:
            hash_ = message_hash(role, (part.wire for part in named or parts), None, tip)
            messages.append(Message(hash=hash_, parent=tip, role=role, parts=tuple(parts)))
            tip = hash_
        return messages

    def _rows(self, table: str, response: str, order: str = "id") -> Iterable[Row]:
        return self._database.select(table, "response_id = ?", response, order=order)

    def _fragments(self, kind: str, response: str) -> list[str]:
        return [content for _, content in self.fragments(kind, response)]

    def fragments(self, kind: str, response: str) -> list[tuple[str, str]]:
        """Give (hash, content) of the fragments that a prompt, or its system text, was made of."""
        table = f"{kind}_fragments"
        if table not in self._database.tables:
            return []
        sql = (
            f"SELECT f.hash, f.content FROM {table} AS used JOIN fragments AS f ON f.id = used.fragment_id "
            'WHERE used.response_id = ? ORDER BY used."order"'
        )
        return [(str(row["hash"]), str(row["content"])) for row in self._database.rows(sql, response)]

    def _system(self, row: Row, response: str) -> str:
        texts = (*self._fragments("system", response), row.get("system") or "")
        return "\n\n".join(text.strip() for text in texts if text.strip())

    def _user(self, row: Row, response: str) -> list[Part]:
        used = self.fragments("prompt", response)
        prompt = str(row.get("prompt") or "")
        pieces: list[tuple[str | None, str]] = [*used, (None, prompt)] if prompt else [*used]
        text = "\n".join(piece for _, piece in pieces)
        parts = []
        if text:
            borrowed = tuple((hash_, len(piece)) for hash_, piece in pieces) if used else ()
            parts.append(Part(wire={"type": "text", "text": text}, borrowed=borrowed))
        for link in self._rows("prompt_attachments", response, '"order"'):
            attachment = attachment_of(self._database, self._report, str(link["attachment_id"]))
            wire = {"type": "attachment", "attachment": attachment.wire}
            parts.append(Part(wire=wire, attachments=(attachment,)))
        return parts

    def _answer(self, row: Row, response: str) -> tuple[list[Part], list[Part]]:
        """Give a response's parts, and those by which `llm` knows it later: it forgets what was thought."""
        text, thought = row.get("response"), row.get("reasoning")
        bare = [_text(str(text))] if text else []
        for call in self._rows("tool_calls", response, "tool_call_id"):
            arguments = value_of_text(call["arguments"])
            wire: Wire = {"type": "tool_call", "name": call["name"], "arguments": arguments or {}}
            if call["tool_call_id"] is not None:
                wire["tool_call_id"] = call["tool_call_id"]
            bare.append(Part(wire=wire, arguments=call["arguments"]))
        thoughts = [Part(wire={"type": "reasoning", "text": str(thought)})] if thought else []
        return thoughts + bare, bare

    def _result(self, row: Row) -> Part:
        wire: Wire = {"type": "tool_result", "name": row["name"], "output": row["output"]}
        if row["tool_call_id"] is not None:
            wire["tool_call_id"] = row["tool_call_id"]
        if row.get("exception"):
            wire["exception"] = row["exception"]
        links = self._database.select("tool_results_attachments", "tool_result_id = ?", row["id"], order='"order"')
        attachments = tuple(attachment_of(self._database, self._report, str(link["attachment_id"])) for link in links)
        return Part(wire=wire, attachments=attachments)


def _text(text: str) -> Part:
    return Part(wire={"type": "text", "text": text})


def _bare(part: Part) -> Part:
    """Give a result as `llm` knows it later: it forgets how it failed."""
    return Part(wire={name: value for name, value in part.wire.items() if name != "exception"})
