"""Bytes that lie in their own address (`data:` URLs)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

from ..errors import TooLarge
from ..events import Document, Image

Attach = Callable[[bytes], str]
"""Keeps bytes as an attachment and gives their name."""

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,")


def medium(
    url: str, attach: Attach, media_type: str | None = None, name: str | None = None, extra: str | None = None
) -> Image | Document | None:
    """Give the picture or document at an address; None when the address holds bytes that could not be put back.

    Args:
        url: the address.
        attach: keeps the bytes of one that lies in its address.
        media_type: what the source says that it is.
        name: its file's name.
        extra: JSON text of what else the source says of it.
    """
    if not url.startswith("data:"):
        kind = Image if (media_type or "").startswith("image/") else Document
        return kind(media_type=media_type, url=url, name=name, extra=extra)
    found = _DATA_URL.match(url)
    if found is None or media_type not in {None, found[1]}:
        return None
    text = url[found.end() :]
    try:
        data = base64.b64decode(text, validate=True)
        if base64.b64encode(data).decode() != text:
            return None
        kind = Image if found[1].startswith("image/") else Document
        return kind(media_type=found[1], attachment=attach(data), name=name, extra=extra)
    except (binascii.Error, ValueError, TooLarge):
        return None
