"""Blocks of a pi message's content: texts, pictures, and what only a provider understands."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection, Sequence

from msgspec import Raw

from ..errors import PayloadRejected, TooLarge
from ..events import Content, Foreign, Image, Text
from .anthropic_blocks import Attach, rest_text
from .pi_lines import AGENT
from .slices import Entries, Fields, clean_text, fields_of, name_of, spelled, text_of

Rest = Callable[[Entries], str | None]
"""Gives what of a line has no place in an event, with what is left of its message."""

_TEXT, _IMAGE = frozenset({"type", "text"}), frozenset({"type", "data", "mimeType"})


def without(fields: Fields, mapped: Collection[str]) -> Entries:
    """Give the entries that have no place."""
    return [entry for entry in fields.items() if entry[0] not in mapped]


def contents_of(blocks: Sequence[Raw], attach: Attach) -> tuple[tuple[Content, ...], str | None]:
    """Give blocks, and the JSON list of what of each has no place (None when that is nothing)."""
    found = [_content(block, attach) for block in blocks]
    rests = f"[{','.join(rest or '{}' for _, rest in found)}]" if any(rest for _, rest in found) else None
    return tuple(content for content, _ in found), rests


def _content(block: Raw, attach: Attach) -> tuple[Content, str | None]:
    fields = fields_of(block) or {}
    kind = name_of(fields.get("type"))
    if kind == "text" and (text := clean_text(fields.get("text"))) is not None:
        return Text(*text), rest_text(fields, _TEXT)
    encoded = text_of(fields.get("data")) if kind == "image" else None
    if encoded is not None:
        try:
            data = base64.b64decode(encoded, validate=True)
            if base64.b64encode(data).decode() == encoded:
                media_type = name_of(fields.get("mimeType"))
                return Image(media_type=media_type, attachment=attach(data), extra=rest_text(fields, _IMAGE)), None
        except (binascii.Error, ValueError, TooLarge):
            pass
    return Foreign(json=spelled(block), provider=AGENT), None


def opaque_reasoning(signature: str | None) -> str | None:
    """Give a signature that is a provider's own reasoning item, as pi keeps those of OpenAI; None for any other."""
    if signature is None or not signature.startswith("{"):
        return None
    try:
        fields = fields_of(signature.encode())
    except PayloadRejected:
        return None
    return signature if fields and name_of(fields.get("type")) == "reasoning" else None
