"""Messages of OpenAI's Chat Completions form, as requests hold them and agents store them.

What of a message has no place in an event is given as entries, so that it can be put back: a content that was a list of
parts as the list of what each part has over.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

from ..canonical import split_halves
from ..events import Body, Content, Foreign, Image, InputAdded, SegmentAdded, Text, ToolCalled, ToolReturned
from ..records import encode_blocks
from .data_urls import Attach, medium
from .openai_content import PROVIDER
from .openai_items import Said
from .slices import Entries, Fields, clean_text, fields_of, items_of, name_of, object_text, spelled

INPUT_ROLES = frozenset({"user", "system", "developer"})
REASONING = ("reasoning_content", "reasoning")
"""Where servers that speak this form put what a model thought."""

Parts = list[tuple[Body, bytes | None]]


def read_message(fields: Fields, response: str, attach: Attach) -> Said | None:
    """Say what a message means.

    Args:
        fields: its entries.
        response: id of the response that it is, if it is one.
        attach: keeps a picture's bytes.

    Returns:
        None for a message that has no role that is known, or no content.
    """
    role = name_of(fields.get("role")) or ""
    if role in INPUT_ROLES:
        read = _contents(fields.get("content"), attach)
        if read is None:
            return None
        body = InputAdded(role="user" if role == "user" else "system", content=read[0])
        rest = _over(fields, {"role", "content"}) + read[1]
        if role == "developer":
            rest.append(("role", fields["role"]))
        return Said("input", ((body, None),), rest, role)
    if role == "assistant":
        return _answer(fields, response)
    return _result(fields, role, attach) if role in {"tool", "function"} else None


def _over(fields: Fields, mapped: set[str]) -> Entries:
    return [entry for entry in fields.items() if entry[0] not in mapped]


# --- inputs and results ---


def _contents(data: Raw | None, attach: Attach) -> tuple[tuple[Content, ...], Entries] | None:
    """Give a content's parts, and what is over of them; None for what is no content."""
    text = clean_text(data)
    if text is not None:
        return (Text(*text),), []
    parts = items_of(data)
    if parts is None:
        return None
    read = [_content(part, attach) for part in parts]
    rests = ",".join(object_text(rest) or "{}" for _, rest in read)
    return tuple(content for content, _ in read), [("content", f"[{rests}]".encode())]


def _content(part: Raw, attach: Attach) -> tuple[Content, Entries]:
    fields = fields_of(part) or {}
    kind = name_of(fields.get("type"))
    text = clean_text(fields.get("text"))
    if kind == "text" and text is not None:
        return Text(*text), _over(fields, {"type", "text"})
    picture = fields_of(fields.get("image_url"))
    url = name_of((picture or {}).get("url"))
    if kind == "image_url" and picture and url:
        over = _over(fields, {"type", "image_url"})
        detail = object_text(_over(picture, {"url"}))
        found = medium(url, attach, extra=detail) if url.startswith("data:") else Image(url=url, extra=detail)
        if found is not None:
            return found, over
    return Foreign(json=spelled(part), provider=PROVIDER), []


def _result(fields: Fields, role: str, attach: Attach) -> Said | None:
    name = name_of(fields.get("name"))
    call = name_of(fields.get("tool_call_id")) if role == "tool" else name and nameless(name)
    if not call:
        return None
    rest = _over(fields, {"role", "tool_call_id", "content"})
    if role == "function":
        rest.append(("role", fields["role"]))
    content = fields.get("content")
    text = clean_text(content)
    if text is not None:
        return Said("result", ((ToolReturned(call=call, halves=text[1]), text[0].encode()),), rest)
    read = _contents(content, attach)
    if read is not None:
        body = ToolReturned(call=call, form="blocks")
        return Said("result", ((body, encode_blocks(read[0])),), rest + read[1])
    output = None if content is None else spelled(content).encode()
    return Said("result", ((ToolReturned(call=call, form="json"), output),), rest)


def nameless(name: str) -> str:
    """Give the id of a call of the older form, which has none: results go by the function's name."""
    return f"function:{name}"


# --- responses ---


def _answer(fields: Fields, response: str) -> Said:
    mapped = {"role", "tool_calls", "function_call"}
    parts: Parts = []
    rest: Entries = []
    field = next((name for name in REASONING if clean_text(fields.get(name))), None)
    thought = clean_text(fields.get(field or ""))
    if field is not None and thought is not None and thought[0]:
        mapped.add(field)
        rest += [] if field == REASONING[0] else [("reasoning_field", f'"{field}"'.encode())]
        parts.append((SegmentAdded(kind="reasoning", text=thought[0], halves=thought[1], response=response), None))
    said, over = _texts(fields.get("content"), response)
    if said or over:
        mapped.add("content")
    parts += said
    calls = items_of(fields.get("tool_calls"))
    for number, call in enumerate(calls or ()):
        parts.append((_call(call, number, response), None))
    older = fields_of(fields.get("function_call"))
    if older is not None:
        parts.append((_older_call(older, response), None))
    elif "function_call" in fields:
        mapped.discard("function_call")
    if calls is None or not calls:
        mapped.discard("tool_calls")
    rest += _over(fields, mapped) + over
    return Said("response", tuple(parts) or ((SegmentAdded(response=response), None),), rest)


def _texts(content: Raw | None, response: str) -> tuple[Parts, Entries]:
    """Give a response's words, and what is over of a list of them."""
    text = clean_text(content)
    if text is not None:
        return [(SegmentAdded(text=text[0], halves=text[1], response=response), None)] if text[0] else [], []
    items = items_of(content)
    if items is None:
        return [], []
    parts: Parts = []
    rests: list[str] = []
    for item in items:
        fields = fields_of(item) or {}
        kind = name_of(fields.get("type")) or ""
        words = clean_text(fields.get("text" if kind == "text" else "refusal" if kind == "refusal" else ""))
        if words is None:
            parts.append((SegmentAdded(kind="opaque", opaque=spelled(item), response=response), None))
            rests.append("{}")
            continue
        parts.append((SegmentAdded(text=words[0], halves=words[1], response=response), None))
        rests.append(object_text(_over(fields, {"text", "refusal"} | ({"type"} if kind == "text" else set()))) or "{}")
    return parts, [("content", f"[{','.join(rests)}]".encode())]


def _call(item: Raw, number: int, response: str) -> Body:
    """Give a call; one that says less than a call must goes back as it is."""
    fields = fields_of(item) or {}
    kind = name_of(fields.get("type")) or "function"
    asked = fields_of(fields.get(kind)) or {}
    name = name_of(asked.get("name"))
    call = name_of(fields.get("id")) or (nameless(name) if name else f"{response}/{number}")
    if not name:
        return SegmentAdded(kind="opaque", opaque=spelled(item), response=response)
    is_custom = kind == "custom"
    field = "input" if is_custom else "arguments"
    input_, over = _input(asked, field)
    rest = _over(fields, {"id", "type", kind} if name_of(fields.get("id")) else {"type", kind})
    if over:
        rest.append((kind, (object_text(over) or "").encode()))
    if "type" not in fields:
        rest.append(("type", b"null"))
    return ToolCalled(
        call=call,
        name=name,
        input=input_,
        kind="custom" if is_custom else "function",
        response=response,
        extra=object_text(rest),
    )


def _older_call(fields: Fields, response: str) -> Body:
    name = name_of(fields.get("name")) or "function"
    input_, over = _input(fields, "arguments")
    over.append(("form", b'"function_call"'))
    return ToolCalled(call=nameless(name), name=name, input=input_, response=response, extra=object_text(over))


def _input(fields: Fields, field: str) -> tuple[str, Entries]:
    """Give a call's input, and what is over: an input that is no text as it stood."""
    said = fields.get(field)
    over = _over(fields, {"name", field})
    text = clean_text(said)
    if text is None or text[1]:
        over.append((field, b"null" if said is None else said))
    if text is not None:
        return text[0] or "{}", over if text[0] else [*over, (field, b'""')]
    return "{}" if said is None else spelled(said), over


def text_of_message(content: Raw | None) -> str:
    """Give all text of a message's content."""
    text = clean_text(content)
    if text is not None:
        return text[0]
    parts: Sequence[Raw] = items_of(content) or ()
    found = [clean_text((fields_of(part) or {}).get("text")) for part in parts]
    return split_halves("\n".join(words[0] for words in found if words))[0]
