"""What the messages of a Gemini CLI session mean, and what is new in one that is written again."""

from __future__ import annotations

from typing import Annotated

import msgspec
from blake3 import blake3
from msgspec import Raw

from ..canonical import split_halves
from ..events import Body, InputAdded, SegmentAdded, SegmentKind, Source, Text, ToolCalled, ToolReturned, Usage
from ..thread import Thread
from .base import Item, is_name
from .gemini_cli_results import has_ended, rest_of, result_item
from .gemini_parts import EMPTY, PROVIDER, Attach, Parts, content_of, parts_of, without
from .known import parse_key
from .slices import Entries, Fields, clean_text, fields_of, is_true, items_of, name_of, object_text, spelled, text_of
from .times import is_plain, microseconds

USER, HOST, TOOL, PARENT_AGENT = Source("user"), Source("host"), Source("tool"), Source("model")
NOTICES = frozenset({"info", "warning", "error"})
"""Messages that the program shows, and the model never sees."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Tokens(msgspec.Struct):
    input: Count = 0
    output: Count = 0
    cached: Count = 0
    thoughts: Count | None = 0
    tool: Count | None = 0


_decode_tokens = msgspec.json.Decoder(_Tokens).decode


class Seen(msgspec.Struct):
    """What of a message has come, so that only what is new is taken when it is written again."""

    response: str = ""
    """Id of the response that it is, when it is the model's."""
    digest: str = ""
    """Of its record as it was written last."""
    text: str = ""
    """Digest of its text."""
    is_silent: bool = True
    """Nothing of its content came yet."""
    thoughts: int = 0
    calls: dict[str, bool] = {}
    """Whether each has its result, by id."""
    is_answer: bool = False
    """It is the model's, in words, without calls, and its tokens are counted."""


def digest_of(data: bytes | Raw | None) -> str:
    """Give a short digest."""
    return blake3(data or b"").hexdigest()[:12]


def plain_text(message: Fields) -> str:
    """Give the text of a message, without thoughts."""
    parts = parts_of(message.get("content"))
    found = [text_of(part) or _shown(part) for part in parts.items] if parts is not None else []
    return "".join(text or "" for text in found)


def _shown(part: Raw) -> str | None:
    fields = fields_of(part) or {}
    return None if is_true(fields, "thought") else text_of(fields.get("text"))


def is_answer(message: Fields) -> bool:
    """Whether a message of the model is complete, and calls nothing."""
    return (
        name_of(message.get("type")) == "gemini"
        and bool(plain_text(message))
        and not items_of(message.get("toolCalls"))
        and usage_of(message) is not None
    )


def model_of(message: Fields) -> Source:
    """Give the model that a message is of."""
    model = name_of(message.get("model"))
    return Source("model", provider=PROVIDER, model=model if is_name(model) else None)


def usage_of(message: Fields) -> Usage | None:
    """Read a message's tokens: the input's include what was cached, the output's do not include the thoughts."""
    data = message.get("tokens")
    if data is None or fields_of(data) is None:
        return None
    try:
        tokens = _decode_tokens(data)
    except msgspec.DecodeError:
        return None
    thoughts = tokens.thoughts or 0
    return Usage(
        input=max(0, tokens.input - tokens.cached) + (tokens.tool or 0),
        cache_read=tokens.cached,
        output=tokens.output + thoughts,
        reasoning=thoughts,
    )


def seen_in(thread: Thread, id_: str) -> Seen:
    """Tell again what came of a message, from the thread that it came to."""
    seen = Seen(response=id_)
    texts: list[str] = []
    for event in thread.events(outputs=False):
        named = None if event.key is None else parse_key(event.key)
        if named is None or named[0] != id_:
            continue
        seen.digest = named[1]
        body = event.body
        if isinstance(body, InputAdded):
            texts = [part.original for part in body.content if isinstance(part, Text)]
        elif isinstance(body, ToolCalled):
            seen.calls = {**seen.calls, body.call: False}
        elif isinstance(body, ToolReturned):
            seen.calls = {**seen.calls, body.call: True}
        elif isinstance(body, SegmentAdded):
            seen.response = body.response or id_
            if body.kind == "text":
                texts.append(body.original)
            is_listed = body.extra is not None and '"thought":' in body.extra
            seen.thoughts += is_listed
            seen.is_silent = seen.is_silent and is_listed
    seen.text = digest_of("".join(texts).encode(errors="replace"))
    return seen


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
