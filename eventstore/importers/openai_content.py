"""What items of OpenAI's Responses form hold: texts and pictures, and what of them has no place in an event."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

from ..errors import PayloadRejected
from ..events import Content, Document, Foreign, Image, Text
from .data_urls import Attach, medium
from .slices import Entries, Fields, clean_text, fields_of, items_of, name_of, object_text, spelled, text_of

PROVIDER = "openai"
TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
"""Types of parts that hold a text, and where."""

EMPTY = b'""'
"""Stands for a content that was one text, not a list of parts."""


def contents_of(data: Raw | None, plain: str, attach: Attach) -> tuple[tuple[Content, ...], bytes | None] | None:
    """Give a content's parts, and what is over of them; None for what is no content.

    Args:
        data: a text, or a list of parts.
        plain: the type of a part that need not be noted.
        attach: keeps a picture's bytes.
    """
    text = clean_text(data) if data is not None and bytes(memoryview(data)[:1]) == b'"' else None
    if text is not None:
        return (Text(*text),), EMPTY
    parts = items_of(data)
    if parts is None:
        return None
    read = [_content(part, plain, attach) for part in parts]
    return tuple(content for content, _ in read), list_of([rest for _, rest in read])


def _content(part: Raw, plain: str, attach: Attach) -> tuple[Content, Entries]:
    fields = fields_of(part) or {}
    kind = name_of(fields.get("type")) or ""
    if kind in TEXTS and (text := clean_text(fields.get(TEXTS[kind]))) is not None:
        return Text(*text), over(fields, frozenset({"type", TEXTS[kind]} if kind == plain else {TEXTS[kind]}))
    if kind == "input_image" and (picture := _image(fields, attach)) is not None:
        return picture, []
    return Foreign(json=spelled(part), provider=PROVIDER), []


def _image(fields: Fields, attach: Attach) -> Image | Document | None:
    """Give a picture that lies in its address, or anywhere else; None when it cannot be put back as it was."""
    url = name_of(fields.get("image_url"))
    if not url:
        return None
    extra = object_text(over(fields, frozenset({"type", "image_url"})))
    return medium(url, attach, extra=extra) if url.startswith("data:") else Image(url=url, extra=extra)


def text_content(content: Raw | None) -> str:
    """Give all text of a content."""
    text = text_of(content) if content is not None else None
    try:
        return text if text is not None else "\n".join(texts_of(items_of(content)))
    except PayloadRejected:
        return ""


def texts_of(parts: Sequence[Raw] | None) -> list[str]:
    """Give the texts of some parts, those that are not empty."""
    found = [text_of((fields_of(part) or {}).get("text")) for part in parts or ()]
    return [text for text in found if text]


def over(fields: Fields, mapped: frozenset[str]) -> Entries:
    """Give the entries that have no place in an event; `"type": null` where a mapped type is not there."""
    rest: Entries = [entry for entry in fields.items() if entry[0] not in mapped]
    if "type" in mapped and "type" not in fields:
        rest.append(("type", b"null"))
    return rest


def list_of(over: list[Entries]) -> bytes | None:
    """Give the JSON list of what parts have over; None when no part has anything."""
    if not any(over):
        return None
    return f"[{','.join(object_text(rest) or '{}' for rest in over)}]".encode()
