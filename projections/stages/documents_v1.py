"""Documents as Bedrock takes them: a format by name, and a neutral name that is unique in the request."""

from __future__ import annotations

from .media_v1 import Media

_IMAGES = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_DOCUMENTS = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}
_KEPT = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-()[]")
_CHARS_MAX = 180
"""Of the 200 that a name may have; the rest is for a number."""


def format_of(found: Media) -> str:
    """Give the format's name; "" for one that is not taken."""
    if found.kind == "image":
        return _IMAGES.get(found.media_type, "")
    text = "txt" if found.media_type.startswith("text/") else ""
    return _DOCUMENTS.get(found.media_type, text)


class DocumentNames:
    """The names of the documents of one request."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def take(self, wanted: str) -> str:
        """Give a name of letters, digits, single spaces, hyphens, parentheses and square brackets, not given before."""
        words = "".join(char if char in _KEPT else " " for char in wanted).split()
        stem = " ".join(words)[:_CHARS_MAX].strip() or "document"
        name, number = stem, self._numbers.get(stem, 1)
        while name in self._taken:
            number += 1
            name = f"{stem} ({number})"
        self._numbers[stem] = number
        self._taken.add(name)
        return name
