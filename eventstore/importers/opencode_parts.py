"""What the parts of OpenCode's messages say, as events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import groupby

import msgspec

from ..canonical import split_halves
from ..events import (
    Body,
    Content,
    Facts,
    Foreign,
    Halves,
    InputAdded,
    SegmentAdded,
    Source,
    Text,
    ToolCalled,
    ToolReturned,
    Usage,
)
from ..records import encode_blocks
from .base import Item
from .data_urls import Attach, medium
from .opencode_sources import Held, number_of
from .opencode_steps import kind_of, state_of, status_of
from .slices import (
    Entries,
    Fields,
    clean_text,
    fields_of,
    is_true,
    items_of,
    name_of,
    object_text,
    spelled,
    text_of,
    value_of,
)

USER, HOST, TOOL = Source("user"), Source("host"), Source("tool")

REJECTED = re.compile(r"The user rejected permission|The user has specified a rule which prevents")
ABORTED = "Tool execution aborted"

SEALS = ("signature", "reasoningEncryptedContent", "thoughtSignature", "redactedData")
"""Where providers' metadata holds what seals reasoning."""

_SAID = frozenset({"type", "text"})
_FILE = frozenset({"type", "mime", "filename", "url"})
_TOOL = frozenset({"type", "callID", "tool", "state"})
_CALL_STATE = frozenset({"input"})
_RESULT_STATE = frozenset({"status", "input", "output", "error"})


# --- inputs ---


def inputs_of(parts: Iterable[Held], attach: Attach) -> tuple[Item, ...]:
    """Give what a user's message puts to the model: the user's words, and apart from them what the program put in."""
    said = [part for part in parts if _is_said(part)]
    return tuple(_inputs(said, attach))


def _is_said(part: Held) -> bool:
    return kind_of(part) in {"text", "file", "subtask"} and not is_true(part.fields or {}, "ignored")


def _inputs(parts: list[Held], attach: Attach) -> Iterator[Item]:
    is_host = False
    runs: list[bool] = []
    for part in parts:
        # A file belongs to the words before it.
        is_host = is_host if kind_of(part) == "file" and runs else is_true(part.fields or {}, "synthetic")
        runs.append(is_host)
    for by_host, group in groupby(zip(runs, parts, strict=True), key=lambda pair: pair[0]):
        read = [_content(part, attach) for _, part in group]
        rests = ",".join(object_text(rest) or "{}" for _, rest in read)
        body = InputAdded(content=tuple(content for content, _ in read), steer=by_host, extra=f'{{"parts":[{rests}]}}')
        yield Item(body=body, source=HOST if by_host else USER)


def _content(part: Held, attach: Attach) -> tuple[Content, Entries]:
    """Give a part of an input, and what of it has no place."""
    fields, kind = part.fields or {}, kind_of(part)
    field = "prompt" if kind == "subtask" else "text"
    text = clean_text(fields.get(field))
    if kind != "file" and text is not None:
        mapped = {field} if kind == "subtask" else _SAID
        return Text(*text), _rest(part, frozenset(mapped))
    url = name_of(fields.get("url"))
    found = url and medium(url, attach, name_of(fields.get("mime")), name_of(fields.get("filename")))
    if found:
        return found, _rest(part, _FILE)
    return Foreign(json=part.data.decode(), provider="opencode"), _rest(part, frozenset(fields))


def _rest(part: Held, mapped: frozenset[str]) -> Entries:
    rest: Entries = [("id", msgspec.json.encode(part.id))]
    rest += [entry for entry in (part.fields or {}).items() if entry[0] not in mapped]
    return rest if part.row is None else [*rest, ("row", part.row.encode())]


# --- parts of a response ---


def part_of(part: Held, response: str, source: Source) -> tuple[Body, bytes] | None:
    """Give the event of a part, and what of the part stays the same; None for a part that says nothing."""
    fields, kind = part.fields or {}, kind_of(part)
    text = clean_text(fields.get("text"))
    extra = object_text(_rest(part, _SAID))
    if kind == "text" and text is not None:
        return SegmentAdded(text=text[0], halves=text[1], response=response, extra=extra), bytes(fields["text"])
    if kind == "reasoning" and text is not None:
        seal, item = _seal(fields, source)
        body: Body = SegmentAdded(
            kind="reasoning", text=text[0], halves=text[1], signature=seal, item=item, response=response, extra=extra
        )
        return body, bytes(fields["text"])
    call, name = name_of(fields.get("callID")), name_of(fields.get("tool"))
    if kind == "tool" and call and name:
        body = ToolCalled(
            call=call,
            name=name,
            input=spelled(state_of(part)["input"]) if "input" in state_of(part) else "{}",
            response=response,
            extra=_call_extra(part),
        )
        return body, json.dumps([call, name]).encode()
    if kind == "file":
        rest = object_text([("row", part.row.encode())]) if part.row else None
        return SegmentAdded(kind="opaque", opaque=part.data.decode(), response=response, extra=rest), part.stable
    return None


def _seal(fields: Fields, source: Source) -> tuple[str | None, str | None]:
    """Give the provider's seal on reasoning, and its id."""
    metadata = fields_of(fields.get("metadata")) or {}
    by_provider = [metadata[source.provider]] if source.provider in metadata else list(metadata.values())
    said = fields_of(by_provider[0]) if by_provider else None
    if said is None:
        return None, None
    seal = next((found for name in SEALS if (found := name_of(said.get(name)))), None)
    return seal, name_of(said.get("itemId"))


def _call_extra(part: Held) -> str | None:
    """Give what a call has over; the state of one that has ended goes with its result."""
    rest = _rest(part, _TOOL)
    state = state_of(part)
    if status_of(part) not in {"completed", "error"}:
        over = object_text(entry for entry in state.items() if entry[0] not in _CALL_STATE)
        rest.append(("state", (over or "{}").encode()))
    return object_text(rest)


def result_of(part: Held, attach: Attach) -> tuple[Item, bytes]:
    """Give the result of a tool's part, and what of it stays the same."""
    state = state_of(part)
    is_error = status_of(part) == "error"
    said = state.get("error" if is_error else "output")
    text = clean_text(said)
    words = text[0] if text else "" if said is None else spelled(said)
    rest: Entries = [entry for entry in state.items() if entry[0] not in _RESULT_STATE]
    blocks = None if is_error else _attached(state, words, attach)
    if blocks:
        rest = [entry for entry in rest if entry[0] != "attachments"]
        rest.append(("attachments", _attachment_rests(state)))
    body = ToolReturned(
        call=name_of((part.fields or {}).get("callID")) or "",
        status=_failure(words) if is_error else "ok",
        facts=None if is_error else _facts(part, state),
        form="blocks" if blocks else "text",
        halves=() if blocks or text is None else text[1],
        duration_us=_duration(state),
        extra=object_text([("state", (object_text(rest) or "{}").encode())]),
    )
    stable = b"error:" if is_error else b"ok:"
    output = encode_blocks(blocks) if blocks else words.encode()
    return Item(body=body, source=TOOL, output=output), stable + words.encode()


def _failure(words: str) -> str:
    if REJECTED.match(words):
        return "denied"
    return "cancelled" if words.startswith(ABORTED) else "error"


def _attached(state: Fields, words: str, attach: Attach) -> tuple[Content, ...]:
    """Give an output that has files as blocks; nothing when it has none, or one that could not be put back."""
    blocks: list[Content] = [Text(words)]
    for item in items_of(state.get("attachments")) or []:
        fields = fields_of(item) or {}
        url = name_of(fields.get("url"))
        found = url and medium(url, attach, name_of(fields.get("mime")), name_of(fields.get("filename")))
        if not found:
            return ()
        blocks.append(found)
    return tuple(blocks) if len(blocks) > 1 else ()


def _attachment_rests(state: Fields) -> bytes:
    items = [fields_of(item) or {} for item in items_of(state.get("attachments")) or []]
    rests = (object_text(entry for entry in fields.items() if entry[0] not in _FILE) or "{}" for fields in items)
    return f"[{','.join(rests)}]".encode()


def _duration(state: Fields) -> int | None:
    time = fields_of(state.get("time")) or {}
    start, end = number_of(time.get("start")), number_of(time.get("end"))
    return (end - start) * 1000 if 0 < start <= end else None


def _facts(part: Held, state: Fields) -> Facts | None:
    """Read what a tool stated of its work: an exit code, a file, and whether it changed."""
    metadata = fields_of(state.get("metadata")) or {}
    code = value_of(metadata.get("exit"))
    if isinstance(code, int) and not isinstance(code, bool):
        return Facts(exit_code=code)
    diff = fields_of(metadata.get("filediff")) or {}
    path = name_of(diff.get("file")) or name_of(metadata.get("filepath"))
    if path is None or name_of((part.fields or {}).get("tool")) not in {"write", "edit"}:
        return None
    is_new = bytes(metadata.get("exists", b"")) == b"false"
    changed = is_new or number_of(diff.get("additions")) + number_of(diff.get("deletions")) > 0
    return Facts(path=path, file_changed=path if changed else None)


# --- what messages say ---


def usage_of(fields: Fields) -> Usage | None:
    """Read the tokens of a step or message; reasoning stands beside the output there, and is a part of it here."""
    tokens = fields_of(fields.get("tokens"))
    if not tokens:
        return None
    cache = fields_of(tokens.get("cache")) or {}
    reasoning = number_of(tokens.get("reasoning"))
    return Usage(
        input=number_of(tokens.get("input")),
        cache_read=number_of(cache.get("read")),
        cache_write=number_of(cache.get("write")),
        output=number_of(tokens.get("output")) + reasoning,
        reasoning=reasoning,
    )


def summary_text(parts: Iterable[Held]) -> tuple[str, Halves]:
    """Give the text of a compaction's summary."""
    texts = [text_of((part.fields or {}).get("text")) for part in parts]
    return split_halves("\n\n".join(text for text in texts if text))
