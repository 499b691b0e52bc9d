"""The texts of nodes, as cases speak of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from convlog.eventstore.events import InputAdded, SegmentAdded, Text, ToolReturned


def event_text(event: Any, *, original: bool = True) -> str:
    """Give the text or output of a node."""
    body = event.body
    match body:
        case InputAdded():
            blocks = [block for block in body.content if isinstance(block, Text)]
            return "".join(block.original if original else block.text for block in blocks)
        case SegmentAdded():
            return body.original if original else body.text
        case ToolReturned():
            return (event.output or b"").decode()
        case _:
            return ""


def has_halves(body: Any) -> bool:
    """Whether half surrogates were taken out of a node's text on its way in."""
    if isinstance(body, InputAdded):
        return any(isinstance(block, Text) and block.halves for block in body.content)
    return bool(getattr(body, "halves", ()))


def missing_in_order(expected: list[str], texts: list[str]) -> Iterator[str]:
    """Say which of the expected parts do not come, in this order, in the texts."""
    start = 0
    for text in expected:
        found = next((i for i in range(start, len(texts)) if text in texts[i]), None)
        if found is None:
            yield f"{text!r} does not come in order"
        else:
            start = found + 1
