"""Items of OpenAI's Responses form, as agents store them: what the user said, parts of a response, results of calls.

What of an item has no place in an event is given as entries, so that it can be put back: a content that was one text
as `""`, a list of parts as the list of what each part has over, an item without a type as `"type": null`.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from blake3 import blake3
from msgspec import Raw

from ..canonical import split_halves
from ..events import Body, InputAdded, SegmentAdded, ToolCalled, ToolReturned
from ..records import encode_blocks
from .data_urls import Attach
from .openai_content import EMPTY, PROVIDER, TEXTS, contents_of, list_of, over, texts_of
from .slices import Entries, Fields, clean_text, fields_of, items_of, name_of, object_text, spelled

__all__ = ["PROVIDER", "SEALED", "Said", "in_response", "is_part", "kind_of", "read_item"]

INPUT_ROLES = frozenset({"user", "system", "developer"})
CALLER_RUNS = frozenset({"local_shell_call", "shell_call", "apply_patch_call", "computer_call"})
"""Calls of the provider's own tools that the caller runs; other `*_call` items the server has run already."""

ASKED = ("action", "operation", "arguments", "queries", "code")
"""Where such items say what was asked."""

SEALED = frozenset({"compaction", "context_compaction", "compaction_summary"})
"""Items that stand for a history which only the provider can read."""


_MESSAGE = frozenset({"type", "role", "content"})
_REASONING = frozenset({"type", "id", "summary", "encrypted_content"})
_CALL = frozenset({"type", "id", "call_id", "name", "arguments"})
_CUSTOM_CALL = frozenset({"type", "id", "call_id", "name", "input"})
_RESULT = frozenset({"type", "call_id", "output"})


class Said(msgspec.Struct, frozen=True):
    """What an item means."""

    kind: Literal["input", "response", "result"]
    parts: tuple[tuple[Body, bytes | None], ...]
    """Events, each with its output."""
    rest: Entries
    """What of the item has no place in them."""
    role: str = ""
    """Of an input: the role that the item states."""


def kind_of(fields: Fields) -> str:
    """Name an item's kind; a message need not say that it is one."""
    kind = name_of(fields.get("type"))
    return "message" if kind is None and "type" not in fields and "role" in fields else kind or ""


def read_item(item: Raw, fields: Fields, attach: Attach) -> Said | None:
    """Say what an item means; which response a part belongs to is for the caller to say (`in_response`).

    Args:
        item: the item as it stands.
        fields: its entries.
        attach: keeps a picture's bytes.

    Returns:
        None for an item that is not known, or lacks what its kind must have.
    """
    kind = kind_of(fields)
    match kind:
        case "message":
            role = name_of(fields.get("role")) or ""
            if role in INPUT_ROLES:
                return _input(fields, role, attach)
            return _message(item, fields) if role == "assistant" else None
        case "reasoning":
            return _reasoning(fields)
        case "function_call" | "custom_tool_call":
            return _call(fields, kind)
    if kind.endswith("_call"):
        return _own_call(item, fields, kind)
    if kind.endswith("_output"):
        return _result(item, fields, kind, attach)
    if kind in SEALED:
        body = SegmentAdded(kind="opaque", opaque=spelled(item), item=_id(fields))
        return Said("response", ((body, None),), [])
    return None


def is_part(fields: Fields) -> bool:
    """Whether an item is a part of a model's response."""
    kind = kind_of(fields)
    if kind == "message":
        return name_of(fields.get("role")) == "assistant"
    return kind == "reasoning" or kind.endswith("_call") or kind in SEALED


def in_response(said: Said, response: str, needs: str | None, extra: str | None) -> list[tuple[Body, bytes | None]]:
    """Give the parts of a response as its parts.

    Args:
        said: a part's meaning.
        response: the response's id.
        needs: the provider's id of the reasoning that came before in it.
        extra: JSON text of what has no place; it goes with the first.
    """
    placed: list[tuple[Body, bytes | None]] = []
    for body, output in said.parts:
        fields = {"response": response, "extra": None if placed else extra}
        if needs is not None and getattr(body, "kind", None) != "reasoning":
            fields["needs"] = needs
        placed.append((msgspec.structs.replace(body, **fields), output))
    return placed


# --- inputs ---


def _input(fields: Fields, role: str, attach: Attach) -> Said | None:
    read = contents_of(fields.get("content"), "input_text", attach)
    if read is None:
        return None
    rest = over(fields, _MESSAGE | {"id"} if _id(fields) else _MESSAGE)
    if role == "developer":
        rest.append(("role", fields["role"]))
    body = InputAdded(role="user" if role == "user" else "system", content=read[0], item=_id(fields))
    return Said("input", ((body, None),), _with_content(rest, read[1]), role)


# --- parts of a response ---


def _message(item: Raw, fields: Fields) -> Said | None:
    id_, content = _id(fields), fields.get("content")
    rest = over(fields, _MESSAGE | {"id"} if id_ else _MESSAGE)
    text = clean_text(content) if content is not None and bytes(memoryview(content)[:1]) == b'"' else None
    if text is not None:
        body = SegmentAdded(text=text[0], halves=text[1], item=id_)
        return Said("response", ((body, None),), _with_content(rest, EMPTY))
    parts = items_of(content)
    if parts is None:
        return None
    texts: list[Body] = []
    left: list[Entries] = []
    for part in parts:
        said = fields_of(part) or {}
        kind = name_of(said.get("type")) or ""
        words = clean_text(said.get(TEXTS[kind])) if kind in TEXTS else None
        if words is None:
            whole = SegmentAdded(kind="opaque", opaque=spelled(item), item=id_)
            return Said("response", ((whole, None),), [])
        mapped = {"type", "text"} if kind == "output_text" else {TEXTS[kind]}
        left.append(over(said, frozenset(mapped)))
        item_id = None if texts else id_
        texts.append(SegmentAdded(text=words[0], halves=words[1], item=item_id))
    if not texts:
        return Said("response", ((SegmentAdded(item=id_), None),), _with_content(rest, b"[]"))
    return Said("response", tuple((body, None) for body in texts), _with_content(rest, list_of(left)))


def _reasoning(fields: Fields) -> Said:
    """Give reasoning: its summary, or where there is none its own text; encrypted content is its seal."""
    id_, sealed = _id(fields), name_of(fields.get("encrypted_content"))
    summary, content = items_of(fields.get("summary")), items_of(fields.get("content"))
    texts = texts_of(summary) or texts_of(content)
    rest = over(fields, _REASONING)
    if fields.get("id") is not None and id_ is None:
        rest.append(("id", fields["id"]))
    if "encrypted_content" in fields and not sealed:
        rest.append(("encrypted_content", fields["encrypted_content"]))
    is_plain = summary is not None and (not texts if not summary else len(summary) == 1 and _is_summary(summary[0]))
    if not is_plain:
        rest.append(("summary", fields.get("summary", b"null")))
    words, halves = split_halves("\n\n".join(texts))
    body = SegmentAdded(kind="reasoning", text=words, halves=halves, signature=sealed or None, item=id_)
    return Said("response", ((body, None),), rest)


def _is_summary(part: Raw) -> bool:
    fields = fields_of(part) or {}
    return fields.keys() == {"type", "text"} and name_of(fields["type"]) == "summary_text"


def _call(fields: Fields, kind: str) -> Said | None:
    is_custom = kind == "custom_tool_call"
    field = "input" if is_custom else "arguments"
    call, name, id_ = name_of(fields.get("call_id")) or _id(fields), name_of(fields.get("name")), _id(fields)
    if not call or not name:
        return None
    said = fields.get(field)
    text = clean_text(said) if said is not None and bytes(memoryview(said)[:1]) == b'"' else None
    rest = over(fields, (_CUSTOM_CALL if is_custom else _CALL) - (frozenset() if id_ else {"id"}))
    if not name_of(fields.get("call_id")):
        rest.append(("call_id", fields.get("call_id", b"null")))
    if text is None or text[1]:
        # No text, or one that no event can hold: as JSON, and how it stood beside it.
        rest.append((field, said if said is not None else b"null"))
    words = text[0] if text is not None else spelled(said) if said is not None else "{}"
    namespace = name_of(fields.get("namespace")) or ""
    body = ToolCalled(
        call=call,
        name=name,
        input=words,
        kind="custom" if is_custom else "function",
        server=namespace.removeprefix("mcp__").strip("_") or None if namespace.startswith("mcp__") else None,
        item=id_,
    )
    return Said("response", ((body, None),), rest)


def _own_call(item: Raw, fields: Fields, kind: str) -> Said | None:
    """Give a call of one of the provider's own tools, which goes back as it is."""
    id_ = _id(fields)
    by_caller = kind in CALLER_RUNS or name_of(fields.get("execution")) == "client"
    call = name_of(fields.get("call_id")) or id_
    asked = next((fields[name] for name in ASKED if name in fields and bytes(fields[name]) != b"null"), None)
    body = ToolCalled(
        call=call or f"{kind}:{blake3(item).hexdigest()[:12]}",
        name=name_of(fields.get("name")) or kind.removesuffix("_call"),
        input="{}" if asked is None else clean_input(asked),
        kind="function" if by_caller else "server",
        server=name_of(fields.get("server_label")),
        item=id_,
        opaque=spelled(item),
    )
    return Said("response", ((body, None),), []) if call or not by_caller else None


def clean_input(data: Raw) -> str:
    """Give what was asked as JSON text: a text's own words, anything else as it is spelled."""
    text = clean_text(data) if bytes(memoryview(data)[:1]) == b'"' else None
    return spelled(data) if text is None else text[0]


# --- results ---


def _result(item: Raw, fields: Fields, kind: str, attach: Attach) -> Said | None:
    call = name_of(fields.get("call_id"))
    if not call:
        return None
    rest = over(fields, _RESULT)
    if kind != "function_call_output":
        rest.append(("type", fields["type"]))
    output = fields.get("output")
    if output is None:
        body = ToolReturned(call=call, form="json")
        return Said("result", ((body, spelled(item).encode()),), [])
    text = clean_text(output) if bytes(memoryview(output)[:1]) == b'"' else None
    if text is not None:
        return Said("result", ((ToolReturned(call=call, halves=text[1]), text[0].encode()),), rest)
    read = contents_of(output, "input_text", attach)
    if read is not None:
        rest = _with_content(rest, read[1], "output")
        return Said("result", ((ToolReturned(call=call, form="blocks"), encode_blocks(read[0])),), rest)
    said = fields_of(output) or {}
    words = clean_text(said.get("content"))
    if words is not None:
        # An older form: the text, and whether the call succeeded.
        shape = [*over(said, frozenset({"content"})), ("content", EMPTY)]
        rest.append(("output", (object_text(shape) or "{}").encode()))
        is_failed = bytes(said.get("success", b"")) == b"false"
        body = ToolReturned(call=call, status="error" if is_failed else "ok", halves=words[1])
        return Said("result", ((body, words[0].encode()),), rest)
    return Said("result", ((ToolReturned(call=call, form="json"), spelled(output).encode()),), rest)


# --- what is over ---


def _id(fields: Fields) -> str | None:
    return name_of(fields.get("id")) or None


def _with_content(rest: Entries, content: bytes | None, name: str = "content") -> Entries:
    return rest if content is None else [*rest, (name, content)]
