"""Taking words out of stored content: in text, in JSON text inside text, in bodies and outputs. Pure.

JSON text from outside keeps its spelling: only the strings (and numbers) that held the words are written anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

import msgspec
import msgspec.inspect

from .backend import Record
from .canonical import attachment_hash, join_halves, parse_json, split_halves
from .errors import BrokenRecord, PayloadRejected
from .events import (
    BODIES,
    ContextSet,
    Document,
    Foreign,
    Image,
    InputAdded,
    InstructionsSet,
    Redaction,
    SegmentAdded,
    SummaryAdded,
    Text,
    ThreadCreated,
    ThreadForked,
    ThreadTitled,
    ToolCalled,
    ToolReturned,
    ToolsSet,
)

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s\[\]{}:,"]+', re.DOTALL)
"""A string, number or word of JSON text."""

_HEX_DIGEST = re.compile(r"[0-9a-f]{16}|[0-9a-f]{32}|[0-9a-f]{64}")

_DIGEST_FIELDS = frozenset(
    {
        *("attachment", "capture", "covered", "digest", "digest_key_hash", "digests", "fingerprint", "hash", "inputs"),
        *("profile", "sent", "thread", "tip"),
    }
)
"""Fields that hold ids and hashes of the store's own."""

_encode = msgspec.json.Encoder().encode


class Mask:
    """Words and what stands in their place."""

    def __init__(self, match: str, replacement: str) -> None:
        self.match = match
        self.replacement = replacement

    def text(self, text: str) -> str:
        """Give a text without the words; where it is JSON text, its strings are searched as what they say."""
        if self.match not in text and "\\" not in text:
            return text
        masked = self._json(text) if _is_json(text) else text
        return self._plain(masked)

    def _plain(self, text: str) -> str:
        while self.match in text:  # what is left may join to the words again
            text = text.replace(self.match, self.replacement)
        return text

    def _json(self, text: str) -> str:
        masked = _TOKEN.sub(self._token, text)
        if self.match in masked and not _is_json(masked := self._plain(masked)):
            return _spell(self.replacement)  # the words went across its structure
        return masked

    def _token(self, found: re.Match[str]) -> str:
        token = found[0]
        if token[0] != '"':
            is_word = token in {"true", "false", "null"}
            return token if is_word or self.match not in token else _spell(self._plain(token))
        value = json.loads(token, strict=False)
        masked = self.text(value)
        return token if masked == value else _spell(masked)

    def value(self, value: Any, key: str = "") -> Any:
        """Give a value of one of our own structures without the words; `key` is the field that it stands in."""
        if isinstance(value, str):
            is_ours = value in LITERALS.get(key, ()) or (
                key in _DIGEST_FIELDS and _HEX_DIGEST.fullmatch(value) is not None
            )
            return value if is_ours else self.text(value)
        if isinstance(value, list):
            return [self.value(item, key) for item in value]
        if not isinstance(value, dict):
            return value
        masked = {name if name in FIELDS else self.text(name): self.value(item, name) for name, item in value.items()}
        if isinstance(text := value.get("text"), str):
            self._settle(value, masked, text)
        return masked

    def _settle(self, value: dict[str, Any], masked: dict[str, Any], text: str) -> None:
        """Make right what goes with a text: the places of its half surrogates, and its hash."""
        if value.get("halves"):
            masked["text"], masked["halves"] = self.halved(text, value["halves"])
        if masked["text"] != text and "hash" in value:
            masked["hash"] = attachment_hash(masked["text"].encode())

    def halved(self, text: str, halves: Collection[Any]) -> tuple[str, Any]:
        """Mask a text whose half surrogates are kept beside it."""
        original = join_halves(text, tuple((index, unit) for index, unit in halves))
        masked = self.text(original)
        return (text, halves) if masked == original else split_halves(masked)


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in {"{", "[", '"'}:
        return False
    try:
        parse_json(text)
    except PayloadRejected:
        return False
    return True


def _spell(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair is spelled as an escape
        return json.dumps(text)
    return json.dumps(text, ensure_ascii=False)


# --- what an event says, with words taken out ---


def masked(record: Record, mask: Mask, gone: Collection[str] = ()) -> Redaction | None:
    """Give what stands in a record's place without the words; None when it does not hold them.

    Args:
        record: with its content.
        mask: the words.
        gone: names of attachments that hold them; the blocks that show these go too.
    """
    if record.body is None:
        return None
    body, output = _content(record)
    new_body = _without_blocks(mask.value(body), gone, mask.replacement)
    new_output = output
    if output is not None:
        form = body.get("form", "text")
        if form == "blocks":
            blocks = _parsed(output)
            new_blocks = _without_blocks(mask.value(blocks), gone, mask.replacement)
            new_output = output if new_blocks == blocks else _encode(new_blocks).decode()
        else:
            new_output, halves = mask.halved(output, body.get("halves", ()))
            if new_output != output:
                new_body["halves"] = halves
    if new_body == body and new_output == output:
        return None
    return Redaction(record.position, _encode(_unsealed(record.type, new_body)).decode(), new_output)


def _content(record: Record) -> tuple[dict[str, Any], str | None]:
    """Give body and output of a record that has a body.

    Raises:
        BrokenRecord: they cannot be read.
    """
    body = _parsed(record.body or b"")
    if not isinstance(body, dict):
        raise BrokenRecord(f"the body at {record.position} is no object", hint="run `convlog verify`")
    try:
        return body, None if record.output is None else record.output.decode()
    except UnicodeDecodeError as error:
        raise BrokenRecord(f"the output at {record.position} cannot be read: {error}") from None


def _parsed(text: bytes | str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenRecord(f"stored JSON cannot be read: {error}", hint="run `convlog verify`") from None


def _without_blocks(value: Any, gone: Collection[str], replacement: str) -> Any:
    """Put a text in the place of blocks that show an attachment which goes."""
    if not gone:
        return value
    if isinstance(value, list):
        return [_without_blocks(item, gone, replacement) for item in value]
    if isinstance(value, dict):
        if value.get("attachment") in gone:
            return {"type": "text", "text": replacement}
        return {name: _without_blocks(item, gone, replacement) for name, item in value.items()}
    return value


def _unsealed(type_: str, body: dict[str, Any]) -> dict[str, Any]:
    """Drop what vouched for, or held in another form, the content that was there."""
    if type_ in {SegmentAdded.TYPE, ToolCalled.TYPE}:
        body.pop("signature", None)
        if body.get("kind") != "opaque":
            body.pop("opaque", None)
    elif type_ == ToolReturned.TYPE:
        body.pop("digest", None)
    return body


def without(record: Record, *fields: str) -> Redaction | None:
    """Give what stands in a record's place without some of its body's fields; None when it has none of them."""
    if record.body is None:
        return None
    body, output = _content(record)
    present = [field for field in fields if body.get(field)]
    if not present:
        return None
    for field in present:
        del body[field]
        if field in _required(record.type):
            body[field] = ""
    return Redaction(record.position, _encode(body).decode(), output)


def _required(type_: str) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(BODIES[type_]) if field.required}


# --- whole contents ---

_KEPT: dict[str, tuple[str, ...]] = {
    ThreadCreated.TYPE: ("origin", "kind", "agent", "source_id", "parent"),
    InstructionsSet.TYPE: ("parts",),
    ToolsSet.TYPE: ("tools",),
    ContextSet.TYPE: ("name",),
    InputAdded.TYPE: ("role", "steer"),
    SegmentAdded.TYPE: ("kind", "response", "part", "stop"),
    ToolCalled.TYPE: ("call", "name", "server", "kind", "response", "part"),
    ToolReturned.TYPE: ("call", "status", "duration_us", "response", "part"),
    ThreadForked.TYPE: ("thread", "position", "hash", "node"),
    ThreadTitled.TYPE: (),
    SummaryAdded.TYPE: ("first", "last", "maker", "covered", "nodes", "call", "replaces"),
}
"""What an event keeps that is erased whole: its place among the others, and nothing that it said."""

_PART_KEPT = ("name", "origin", "since")


def erased(record: Record, replacement: str) -> Redaction:
    """Give what stands in the place of a record whose content goes whole."""
    kept = _KEPT.get(record.type)
    if kept is None or record.body is None:
        return Redaction(record.position)
    old, _ = _content(record)
    body = {name: old[name] for name in kept if name in old}
    match record.type:
        case InputAdded.TYPE:
            body["content"] = [{"type": "text", "text": replacement}]
        case SegmentAdded.TYPE | ContextSet.TYPE | SummaryAdded.TYPE:
            body["text"] = replacement
        case ThreadTitled.TYPE:
            body["title"] = replacement
        case InstructionsSet.TYPE | ToolsSet.TYPE:
            field = kept[0]
            body[field] = [{name: part[name] for name in _PART_KEPT if name in part} for part in old[field]]
            if record.type == InstructionsSet.TYPE:
                body[field] = [part if "since" in part else {**part, "text": replacement} for part in body[field]]
    output = None if record.output is None else replacement
    return Redaction(record.position, _encode(body).decode(), output)


# --- what our own structures hold ---


def _structs(found: msgspec.inspect.Type) -> Iterator[msgspec.inspect.StructType]:
    """Iterate over the structures within a type."""
    if isinstance(found, msgspec.inspect.StructType):
        yield found
        for field in found.fields:
            yield from _structs(field.type)
    elif isinstance(found, msgspec.inspect.UnionType):
        for part in found.types:
            yield from _structs(part)
    elif isinstance(found, msgspec.inspect.VarTupleType):
        yield from _structs(found.item_type)


def _literals_of(found: msgspec.inspect.Type) -> Iterator[str]:
    if isinstance(found, msgspec.inspect.LiteralType):
        yield from (value for value in found.values if isinstance(value, str))
    elif isinstance(found, msgspec.inspect.UnionType):
        for part in found.types:
            yield from _literals_of(part)


def _survey() -> tuple[frozenset[str], dict[str, frozenset[str]]]:
    fields: set[str] = set()
    literals: dict[str, set[str]] = {}
    roots = [*BODIES.values(), Text, Image, Document, Foreign]
    for root in roots:
        for struct in _structs(msgspec.inspect.type_info(root)):
            if struct.tag_field is not None:
                fields.add(struct.tag_field)
                literals.setdefault(struct.tag_field, set()).add(str(struct.tag))
            for field in struct.fields:
                fields.add(field.encode_name)
                literals.setdefault(field.encode_name, set()).update(_literals_of(field.type))
    return frozenset(fields), {name: frozenset(values) for name, values in literals.items() if values}


FIELDS, LITERALS = _survey()
"""The names of all fields, and the words that a field of a name can hold by its type."""
