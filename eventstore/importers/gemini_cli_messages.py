"""What the messages of a Gemini CLI session mean, and what is new in one that is written again."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from ..canonical import split_halves
from ..events import Body, InputAdded, SegmentAdded, SegmentKind, Source, ToolCalled, ToolReturned
from .base import Item, is_name
from .gemini_cli_results import has_ended, rest_of, result_item
from .gemini_cli_seen import Seen, digest_of
from .gemini_parts import EMPTY, PROVIDER, Attach, Parts, content_of, parts_of, without
from .slices import Entries, Fields, clean_text, fields_of, is_true, items_of, name_of, object_text, spelled, text_of
from .times import is_plain, microseconds

USER, HOST, TOOL, PARENT_AGENT = Source("user"), Source("host"), Source("tool"), Source("model")
NOTICES = frozenset({"info", "warning", "error"})
"""Messages that the program shows, and the model never sees."""

# --- inputs and notices ---


def input_items(message: Fields, attach: Attach, speaker: Source) -> list[Item] | None:
    """Give a user's message; None when it has no content.

    Responses to calls that stand in it are results, which the calls' own records say too.
    """
    parts = parts_of(message.get("content"))
    if parts is None:
        return None
    rest = _rest(message, frozenset({"id", "type", "content", "timestamp"}))
    answers = [_answer(part) for part in parts.items]
    if parts.items and all(answers):
        results = [
            Item(body=ToolReturned(call=answer, form="json"), source=TOOL, output=bytes(part))
            for part, answer in zip(parts.items, answers, strict=True)
            if answer
        ]
        return _with_extra(results, rest, parts.template([b"{}"] * len(results)))
    read = [content_of(part, attach) for part in parts.items]
    body = InputAdded(content=tuple(content for content, _ in read))
    return _with_extra([Item(body=body, source=speaker)], rest, parts.template([template for _, template in read]))


def _answer(part: Raw) -> str | None:
    """Give the id of the call that a part responds to."""
    fields = fields_of(part) or {}
    said = fields_of(fields.get("functionResponse")) or {}
    return name_of(said.get("id")) or None


def notice_items(message: Fields) -> list[Item] | None:
    """Give what the program showed; None when it is no text."""
    parts = parts_of(message.get("content"))
    if parts is None:
        return None
    texts = [text_of(part) or text_of((fields_of(part) or {}).get("text")) for part in parts.items]
    words, halves = split_halves("".join(text or "" for text in texts))
    mapped = {"id", "content", "timestamp"} if parts.is_text else {"id", "timestamp"}
    body = SegmentAdded(kind="notice", text=words, halves=halves)
    return _with_extra([Item(body=body, source=HOST)], _rest(message, frozenset(mapped)), None)


# --- the model's messages ---


def model_items(message: Fields, attach: Attach, seen: Seen, response: str) -> list[Item]:
    """Give what of a model's message did not come before, and note it.

    Args:
        message: the message.
        attach: keeps a picture's bytes.
        seen: what came of it before.
        response: id of the response.
    """
    source = model_of(message)
    mapped = {"id", "type", "content", "timestamp"}
    said: list[Body] = []
    thoughts = [_thought(part) for part in items_of(message.get("thoughts")) or []]
    if thoughts and all(thoughts):
        mapped.add("thoughts")
        said += [body for body in thoughts[seen.thoughts :] if body is not None]
        seen.thoughts = max(seen.thoughts, len(thoughts))
    calls = [fields_of(call) or {} for call in items_of(message.get("toolCalls")) or []]
    named = bool(calls) and all(name_of(call.get("id")) and name_of(call.get("name")) for call in calls)
    if named:
        mapped.add("toolCalls")
    parts = parts_of(message.get("content"))
    template = b"null"
    if parts is not None:
        ids = frozenset(name_of(call.get("id")) or "" for call in calls) if named else frozenset[str]()
        bodies, template = _content(parts, ids)
        if seen.is_silent and bodies:
            said += bodies
            seen.is_silent = False
    if source.model is not None:
        mapped.add("model")
    items = [Item(body=msgspec.structs.replace(body, response=response), source=source) for body in said]
    for call in calls if named else []:
        items += _call(call, attach, seen, response, source)
    return _with_extra(items, _rest(message, frozenset(mapped)), None if parts and parts.is_text else template)


def model_of(message: Fields) -> Source:
    """Give the model that a message is of."""
    model = name_of(message.get("model"))
    return Source("model", provider=PROVIDER, model=model if is_name(model) else None)


def _thought(data: Raw) -> SegmentAdded | None:
    fields = fields_of(data)
    text = clean_text(fields.get("description")) if fields else None
    if fields is None or text is None:
        return None
    over = object_text(entry for entry in fields.items() if entry[0] != "description")
    extra = None if over is None else object_text([("thought", over.encode())])
    subject = text_of(fields.get("subject"))
    words, halves = (text[0], text[1]) if not subject else _under(subject, text_of(fields["description"]) or "")
    return SegmentAdded(kind="reasoning", text=words, halves=halves, extra=extra)


def _under(subject: str, text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    return split_halves(f"**{subject}**\n\n{text}" if text else f"**{subject}**")


def _content(parts: Parts, ids: frozenset[str]) -> tuple[list[Body], bytes]:
    """Give what a content says, and its template; calls that the message lists besides are not said twice."""
    bodies: list[Body] = []
    over: list[bytes] = []
    for part in parts.items:
        fields = fields_of(part) or {}
        text = clean_text(part) if bytes(memoryview(part)[:1]) == b'"' else clean_text(fields.get("text"))
        if text is not None:
            over.append(without(fields, "text", "thoughtSignature") if fields else EMPTY)
            if text[0] or fields.get("thoughtSignature") is not None:
                kind: SegmentKind = "reasoning" if is_true(fields, "thought") else "text"
                sealed = name_of(fields.get("thoughtSignature")) or None
                bodies.append(SegmentAdded(kind=kind, text=text[0], halves=text[1], signature=sealed))
            continue
        called = fields_of(fields.get("functionCall")) or {}
        if name_of(called.get("id")) in ids:
            over.append(spelled(part).encode())
            continue
        over.append(b"null")
        bodies.append(_call_in(called, fields, part) or SegmentAdded(kind="opaque", opaque=spelled(part)))
    return bodies, parts.template(over) or EMPTY


def _call_in(called: Fields, fields: Fields, part: Raw) -> ToolCalled | None:
    """Give a call that only the content holds."""
    name, args = name_of(called.get("name")), called.get("args")
    if not name:
        return None
    return ToolCalled(
        call=name_of(called.get("id")) or f"{name}:{digest_of(part)}",
        name=name,
        input=spelled(args) if args is not None and fields_of(args) is not None else "{}",
        signature=name_of(fields.get("thoughtSignature")) or None,
        opaque=spelled(part),
    )


def _call(call: Fields, attach: Attach, seen: Seen, response: str, source: Source) -> list[Item]:
    """Give a call, its result, or nothing, as far as they did not come before."""
    id_, name = name_of(call["id"]) or "", name_of(call["name"]) or ""
    ended = has_ended(call)
    items: list[Item] = []
    if id_ not in seen.calls:
        args = call.get("args")
        body = ToolCalled(
            call=id_,
            name=name,
            input=spelled(args) if args is not None and fields_of(args) is not None else "{}",
            response=response,
            extra=None if ended else _extra_of(rest_of(call)),
        )
        items.append(Item(body=body, source=source))
    if ended and not seen.calls.get(id_):
        items.append(result_item(call, attach, rest_of(call)))
    seen.calls = {**seen.calls, id_: ended or seen.calls.get(id_, False)}
    return items


def _extra_of(rest: Entries) -> str | None:
    text = object_text(rest)
    return None if text is None else object_text([("toolCall", text.encode())])


# --- what is over ---


def _rest(message: Fields, mapped: frozenset[str]) -> Entries:
    """Give what of a message has no place; a time that its microseconds give again has one."""
    time = message.get("timestamp")
    is_timed = time is not None and microseconds(text_of(time)) is not None and is_plain(time)
    return [entry for entry in message.items() if entry[0] not in mapped or (entry[0] == "timestamp" and not is_timed)]


def _with_extra(items: list[Item], rest: Entries, template: bytes | None) -> list[Item]:
    """Put what is over of a message to its first item."""
    over = object_text(rest if template is None else [*rest, ("content", template)])
    if not items or over is None:
        return items
    body = items[0].body
    assert not callable(body)
    own = fields_of((body.extra or "{}").encode()) or {}
    extra = object_text([("message", over.encode()), *own.items()])
    return [msgspec.structs.replace(items[0], body=msgspec.structs.replace(body, extra=extra)), *items[1:]]
