"""Parts of Gemini's form, as agents store them: text, pictures, documents, thoughts, calls and responses to them.

What a content was spelled like is given as a template: the same JSON with what has a place in an event taken out.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from ..errors import TooLarge
from ..events import Content, Document, Foreign, Image, Text
from .slices import Entries, Fields, clean_text, fields_of, is_true, items_of, name_of, object_text, spelled

PROVIDER = "google"

Attach = Callable[[bytes], str]
"""Keeps bytes as an attachment and gives their name."""

EMPTY = b'""'

_encode = msgspec.json.Encoder().encode


class Parts(msgspec.Struct, frozen=True):
    """A content's parts."""

    items: tuple[Raw, ...]
    is_text: bool = False
    """It was one text."""
    is_list: bool = False
    """It was a list; else one part alone."""

    def template(self, over: list[bytes]) -> bytes | None:
        """Give the template that the parts' templates make; None for one text, which needs none."""
        if self.is_text:
            return None
        return b"[" + b",".join(over) + b"]" if self.is_list else over[0]


def parts_of(content: Raw | None) -> Parts | None:
    """Give a content's parts; None for what is no content."""
    if content is None:
        return None
    first = bytes(memoryview(content)[:1])
    if first == b'"':
        return Parts((content,), is_text=True)
    if first == b"{":
        return Parts((content,))
    items = items_of(content)
    return None if items is None else Parts(tuple(items), is_list=True)


def content_of(part: Raw, attach: Attach) -> tuple[Content, bytes]:
    """Give a part, and its template."""
    text = clean_text(part) if bytes(memoryview(part)[:1]) == b'"' else None
    if text is not None:
        return Text(*text), EMPTY
    fields = fields_of(part) or {}
    text = None if is_true(fields, "thought") else clean_text(fields.get("text"))
    if text is not None:
        return Text(*text), without(fields, "text")
    found = _inline(fields, attach) or _elsewhere(fields)
    if found is not None:
        return found, without(fields, "inlineData" if "inlineData" in fields else "fileData")
    return Foreign(json=spelled(part), provider=PROVIDER), b"null"


def without(fields: Fields, *taken: str) -> bytes:
    """Give an object with some of its entries as `""`."""
    entries: Entries = [(name, EMPTY if name in taken else value) for name, value in fields.items()]
    return (object_text(entries) or "{}").encode()


def _kind(media_type: str) -> type[Image | Document]:
    return Image if media_type.startswith("image/") else Document


def _inline(fields: Fields, attach: Attach) -> Content | None:
    """Give what lies in the part; None when it could not be put back as it was."""
    said = fields_of(fields.get("inlineData"))
    text, media_type = name_of((said or {}).get("data")), name_of((said or {}).get("mimeType"))
    if said is None or text is None or not media_type or said.keys() != {"mimeType", "data"}:
        return None
    try:
        data = base64.b64decode(text, validate=True)
        if base64.b64encode(data).decode() != text:
            return None
        return _kind(media_type)(media_type=media_type, attachment=attach(data))
    except (binascii.Error, ValueError, TooLarge):
        return None


def _elsewhere(fields: Fields) -> Content | None:
    said = fields_of(fields.get("fileData"))
    url, media_type = name_of((said or {}).get("fileUri")), name_of((said or {}).get("mimeType"))
    if said is None or not url or not media_type or said.keys() != {"mimeType", "fileUri"}:
        return None
    return _kind(media_type)(media_type=media_type, url=url)


def response_text(part: Raw, call: str, name: str) -> tuple[str, tuple[str, Any]] | None:
    """Give (field, text) of a response that says one thing in words: `output`, or `error`; None for any other."""
    fields = fields_of(part)
    said = fields_of(fields.get("functionResponse")) if fields and fields.keys() == {"functionResponse"} else None
    if said is None or said.keys() != {"id", "name", "response"}:
        return None
    if name_of(said["id"]) != call or name_of(said["name"]) != name:
        return None
    answer = fields_of(said["response"])
    if answer is None or len(answer) != 1:
        return None
    ((field, value),) = answer.items()
    text = clean_text(value)
    return (field, text) if field in {"output", "error"} and text is not None else None


def encoded(value: object) -> bytes:
    """Give a value's JSON."""
    return _encode(value)
