"""Images and documents as a format can carry them: bytes from attachments, the type that the bytes have, a place."""

from __future__ import annotations

from base64 import b64encode

import msgspec

from .pieces_v1 import Document, Image
from .target_v1 import Attachments, MissingAttachment

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_DEFAULTS = {"image": "image/png", "document": "application/pdf"}


class Media(msgspec.Struct, frozen=True):
    """One image or document: base64 text, or else a place."""

    kind: str
    """image or document."""
    media_type: str
    data: str = ""
    url: str = ""

    def left_out(self, why: str) -> str:
        """Give the words that stand where it cannot."""
        place = f" at {self.url}" if self.url else ""
        return f"[{self.kind}, {self.media_type}{place}: {why}]"


def media(element: Image | Document, attachments: Attachments) -> Media:
    """Resolve an image or a document.

    Raises:
        MissingAttachment: its bytes are gone.
    """
    kind = "image" if isinstance(element, Image) else "document"
    stated = element.media_type or _DEFAULTS[kind]
    if element.attachment is None:
        return Media(kind, stated, url=element.url or "")
    if element.attachment not in attachments:
        raise MissingAttachment(element.attachment)
    data = attachments[element.attachment]
    return Media(kind, type_of(data) or stated, b64encode(data).decode())


def type_of(data: bytes) -> str | None:
    """Give the type that the first bytes tell; a stated type that is not true is refused (A30)."""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for magic, media_type in _MAGIC if data.startswith(magic)), None)
