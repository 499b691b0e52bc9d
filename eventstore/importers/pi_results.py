"""What the tools of a pi session gave back, and what they state of their work: in their words, never guessed."""

from __future__ import annotations

import re

from ..canonical import split_halves
from ..events import Facts, Source, Text, ToolReturned
from ..records import encode_blocks
from .anthropic_blocks import Attach
from .base import Item
from .pi_blocks import Rest, contents_of, without
from .slices import Fields, fields_of, items_of, name_of, text_of

TOOL = Source("tool")

_RESULT = frozenset({"role", "toolCallId", "content"})
_EXIT = re.compile(r"(?:\A|\n)Command exited with code (-?\d{1,9})\s*\Z")
_EDITED = re.compile(
    r"Successfully replaced (?:text|\d+ block\(s\)) in (.+?)\.(?: Changed \d+ characters? to .*)?\s*\Z"
)
_WRITTEN = re.compile(r"Successfully wrote \d+ bytes to (.+?)\s*\Z")
_SAYINGS = {"edit": _EDITED, "write": _WRITTEN}
"""How a tool says that it did its work, and on which file."""

_ABORTED = ("Command aborted", "Operation aborted")
"""How a tool says that the user stopped it."""


def result_item(message: Fields, rest: Rest, attach: Attach) -> Item | None:
    """Give a result; None for one that names no call, or has no content."""
    call = name_of(message.get("toolCallId"))
    blocks, text = items_of(message.get("content")), text_of(message.get("content"))
    if not call or (blocks is None and text is None):
        return None
    failed = bytes(message.get("isError", b"")) == b"true"
    over = without(message, _RESULT | {"isError"} if failed else _RESULT)
    content, rests = contents_of(blocks or [], attach)
    if rests is not None:
        over.append(("blocks", rests.encode()))
    only = content[0] if len(content) == 1 else None
    if text is not None:
        over.append(("content", b'""'))  # it was one text, not a list of blocks
        only = Text(*split_halves(text))
    said = only.text if isinstance(only, Text) else ""
    body = ToolReturned(
        call=call,
        status="ok" if not failed else "cancelled" if said.rstrip().endswith(_ABORTED) else "error",
        facts=_facts(name_of(message.get("toolName")), said, message, failed=failed),
        form="text" if isinstance(only, Text) else "blocks",
        halves=only.halves if isinstance(only, Text) else (),
        extra=rest(over),
    )
    return Item(body=body, source=TOOL, output=said.encode() if isinstance(only, Text) else encode_blocks(content))


def _facts(tool: str | None, said: str, message: Fields, *, failed: bool) -> Facts | None:
    """Read what a tool states: a shell its exit code, an edit or a write its file, an edit also what it changed."""
    if tool == "bash":
        code = _EXIT.search(said) if failed else None
        return Facts(exit_code=int(code[1])) if code else None
    saying = None if failed else _SAYINGS.get(tool or "")
    found = None if saying is None else saying.match(said)
    if found is None:
        return None
    details = fields_of(message.get("details")) or {}
    return Facts(path=found[1], file_changed=found[1] if text_of(details.get("diff")) else None)
