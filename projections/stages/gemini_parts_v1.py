"""Gemini's own parts, as they were recorded, and the signatures on them (G2, G3, G10)."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Any

import msgspec

from .wire_v1 import is_blank, read_object

SENTINEL = "skip_thought_signature_validator"
"""G11: the documented signature of a call that this model did not make."""

SIGNATURE = "thoughtSignature"
_DATA = frozenset(
    {"text", "inlineData", "fileData", "executableCode", "codeExecutionResult", "toolCall", "toolResponse"}
)
_ASIDE = frozenset({"thought", SIGNATURE, "videoMetadata", "mediaResolution", "partMetadata"})
_SERVER_CALLS = frozenset({"executableCode", "toolCall"})


class OwnPart(msgspec.Struct, frozen=True):
    """A part that can go back, each member as spelled, and its signature taken apart."""

    value: dict[str, Any]
    signature: str | None
    is_blank: bool
    """Without its signature there would be nothing in it (G3)."""
    is_server_call: bool


def own_part(text: str) -> OwnPart | None:
    """Read a part from its JSON text; None when it is none, or one that encoders make anew (calls and responses)."""
    value = read_object(text) or {}
    data = value.keys() & _DATA
    if len(data) != 1 or value.keys() - data - _ASIDE:
        return None
    raw: dict[str, Any] = dict(msgspec.json.decode(text, type=dict[str, msgspec.Raw]))
    raw.pop(SIGNATURE, None)
    signature = value.get(SIGNATURE)
    said = value.get("text", "-")
    if not isinstance(said, str) or not isinstance(signature, str | None):
        return None
    return OwnPart(raw, signature, is_blank(said), bool(data & _SERVER_CALLS))


class Signatures:
    """The signatures of one request: each base64, and on one part only."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def take(self, signature: str | None) -> str | None:
        """Give a signature that may go out; None for one that is corrupted, or stands on an earlier part."""
        if not signature or signature == SENTINEL or signature in self._seen or not _is_base64(signature):
            return None
        self._seen.add(signature)
        return signature


def _is_base64(text: str) -> bool:
    try:
        b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
