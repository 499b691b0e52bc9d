"""How a Gemini CLI tool call ended: its status, its output, and what was stated of it."""

from __future__ import annotations

import re

from ..events import Content, Facts, Source, Text, ToolReturned
from ..records import encode_blocks
from .base import Item
from .gemini_parts import Attach, content_of, encoded, response_text
from .slices import Entries, Fields, fields_of, is_true, items_of, name_of, object_text, text_of

STATUSES = {"success": "ok", "error": "error", "cancelled": "cancelled"}
"""The statuses in which a call has ended."""

TOOL = Source("tool")
SHELL, WRITERS = "run_shell_command", frozenset({"write_file", "replace"})

_MAPPED = frozenset({"id", "name", "args", "result"})
_COMMAND = re.compile(r"Command: (.*)\n")
_EXIT_CODE = re.compile(r"^Exit Code: (-?\d{1,9})$", re.MULTILINE)
_WRITTEN = re.compile(
    r"Successfully (?:created and wrote to new file|overwrote file|modified file): (.+?)(?: \(\d+ replacements?\))?\.?"
    r"(?: User modified .*)?\Z|Created new file: (.+) with provided content\."
)


def has_ended(call: Fields) -> bool:
    """Whether a call has its result."""
    result = call.get("result")
    return name_of(call.get("status")) in STATUSES or (result is not None and bytes(result) != b"null")


def rest_of(call: Fields) -> Entries:
    """Give what of a call has no place in its events."""
    over: Entries = [entry for entry in call.items() if entry[0] not in _MAPPED]
    if "args" in call and fields_of(call["args"]) is None:
        over.append(("args", call["args"]))
    return over


def result_item(call: Fields, attach: Attach, extra: Entries) -> Item:
    """Give a call's result.

    Args:
        call: the call's record, which has ended.
        attach: keeps a picture's bytes.
        extra: what of the call has no place.
    """
    id_, name = name_of(call["id"]) or "", name_of(call["name"]) or ""
    status = STATUSES.get(name_of(call.get("status")) or "", "ok")
    result = call.get("result")
    parts = items_of(result) or []
    said = response_text(parts[0], id_, name) if parts else None
    if said is None:
        if result is not None and bytes(result) == b"null":
            extra, result = [*extra, ("result", b"null")], None
        body = ToolReturned(call=id_, status=status, form="json", extra=_calls(extra))
        return Item(body=body, source=TOOL, output=None if result is None else bytes(result))
    field, (text, halves) = said
    facts = _facts(name, text, call) if status == "ok" else None
    if field == "error":
        extra = [*extra, ("result", b'"error"')]
    if len(parts) == 1:
        body = ToolReturned(call=id_, status=status, facts=facts, halves=halves, extra=_calls(extra))
        return Item(body=body, source=TOOL, output=text.encode())
    more = [content_of(part, attach) for part in parts[1:]]
    blocks: tuple[Content, ...] = (Text(text, halves), *(content for content, _ in more))
    shape = b"[" + b",".join([encoded(field), *(template for _, template in more)]) + b"]"
    extra = [*(entry for entry in extra if entry[0] != "result"), ("result", shape)]
    body = ToolReturned(call=id_, status=status, facts=facts, form="blocks", extra=_calls(extra))
    return Item(body=body, source=TOOL, output=encode_blocks(blocks))


def _calls(extra: Entries) -> str | None:
    text = object_text(extra)
    return None if text is None else object_text([("toolCall", text.encode())])


def _facts(name: str, text: str, call: Fields) -> Facts | None:
    """Give what the program itself says of its work in and beside the output."""
    if name == SHELL:
        codes, command = _EXIT_CODE.findall(text), _COMMAND.match(text)
        code = int(codes[-1]) if codes else None
        said = command[1] if command else None
        if code is None and said is None:
            return None
        return Facts(command=said, exit_code=code, failed_command=said if code else None)
    if name not in WRITERS:
        return None
    shown = fields_of(call.get("resultDisplay")) or {}
    if "fileDiff" in shown:
        path = name_of(shown.get("filePath")) or name_of(shown.get("fileName"))
        changed = is_true(shown, "isNewFile") or bytes(shown.get("originalContent", b"null")) != bytes(
            shown.get("newContent", b"null")
        )
        return Facts(path=path, file_changed=path if changed or text_of(shown["fileDiff"]) else None) if path else None
    written = _WRITTEN.match(text)
    path = (written[1] or written[2]) if written else None
    return Facts(path=path, file_changed=path) if path else None
