"""What the lines of a Claude Code session mean that are messages: inputs, results, and blocks of a response."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from msgspec import Raw

from ..canonical import split_halves
from ..events import Content, InputAdded, RecordKept, SegmentAdded, Source, Text, ToolReturned
from ..records import NAME_LENGTH_MAX
from .anthropic_blocks import PROVIDER, Attach, contents_of, output_of, part_of, result_fields, usage_of
from .base import Compaction, Entry, Item, Response, ThreadedLine, is_name
from .claude_code_results import INTERRUPTED, outcome
from .claude_code_threads import AGENT, COPY_LABELS
from .slices import Entries, Fields, fields_of, is_true, items_of, name_of, object_text, text_of
from .times import is_plain

SYNTHETIC = "<synthetic>"
"""The model of messages that the program wrote in a model's place."""

USER, HOST, TOOL, PARENT_AGENT = Source("user"), Source("host"), Source("tool"), Source("model")

_ABSENT = b"null"
"""Stands for what a line does not have, where its event would say that it has it."""

_INPUT_MAPPED = frozenset({"content", "role"})
_RESPONSE_MAPPED = frozenset({"content", "role", "type", "id", "model"})
_NOTICE_MAPPED = frozenset({"role"})
_RESULT_MAPPED = frozenset({"type", "tool_use_id", "content", "is_error"})

_DROPPED = {
    (is_own, is_timed): frozenset(
        {"type", "uuid", "message"} | ({"sessionId"} if is_own else set()) | ({"timestamp"} if is_timed else set())
    )
    for is_own in (False, True)
    for is_timed in (False, True)
}
"""Entries of a line that its event says in another way: the session by its thread, a time by its microseconds."""


class Line(ThreadedLine, frozen=True, kw_only=True):
    """One line with what all lines have."""

    fields: Fields
    kind: str
    is_side: bool

    def verbatim(self) -> Item:
        """Keep the line as it is; one with an id is a link of the chain."""
        body = RecordKept(format=AGENT, record=self.record.data.decode(), line=self.record.line)
        return Item(body=body, stands="uuid" in self.fields)

    def rest(self, message: Fields, mapped: frozenset[str]) -> Entries:
        """Give what of the line has no place of its own."""
        is_own = not self.is_side and name_of(self.fields.get("sessionId")) == self.thread.id
        is_timed = self.occurred_at is not None and is_plain(self.fields["timestamp"])
        dropped = _DROPPED[is_own, is_timed]
        rest: Entries = [entry for entry in self.fields.items() if entry[0] not in dropped]
        if "uuid" in self.fields and name_of(self.fields["uuid"]) != self.identity.id:
            rest.append(("uuid", self.fields["uuid"]))  # keys hold a digest of it
        if not self.is_side and "sessionId" not in self.fields:
            rest.append(("sessionId", _ABSENT))
        inner: Entries = [entry for entry in message.items() if entry[0] not in mapped]
        for name, expected in (("role", self.kind), ("type", "message" if self.kind == "assistant" else None)):
            if name_of(message.get(name)) != expected and name in mapped:
                inner.append((name, message.get(name, _ABSENT)))
        if "content" in mapped and bytes(memoryview(message["content"])[:1]) == b'"':
            inner.append(("content", b'""'))  # the content was one text, not a list of blocks
        if inner:
            rest.append(("message", (object_text(inner) or "").encode()))
        return rest


# --- user lines ---


def user_line(line: Line, message: Fields, attach: Attach, keeps: Mapping[str, str]) -> Entry | None:
    """Say what a line of type user means: a person's input, the program's, results, or a summary.

    Args:
        line: the line.
        message: its message.
        attach: keeps a picture's bytes.
        keeps: the first record that a compaction left verbatim, by its boundary's id.

    Returns:
        None when the message has no content.
    """
    content = message.get("content")
    text = text_of(content)
    blocks = items_of(content) if text is None else None
    if text is None and blocks is None:
        return None
    is_summary = is_true(line.fields, "isCompactSummary")
    # A summary is one text: what else its content holds stays as it is.
    extra = line.rest(message, _NOTICE_MAPPED if is_summary and blocks and len(blocks) > 1 else _INPUT_MAPPED)
    if blocks is None:
        items = [_input(line, (Text(*split_halves(text or "")),), extra)]
    else:
        items = list(_items(line, blocks, extra, attach))
    if is_summary:
        return line.entry(items, compaction=_compaction(line, items, keeps, object_text(extra)))
    interrupted = any(isinstance(item.body, InputAdded) and _is_mark(item.body.content) for item in items)
    return line.entry(items, ends="interrupted" if interrupted else None)


def _items(line: Line, blocks: Sequence[Raw], extra: Entries, attach: Attach) -> Iterator[Item]:
    """Give results, and inputs of what stands between them, in order; what the line has over goes with the first."""
    read = [(block, result_fields(block)) for block in blocks]
    results = sum(fields is not None for _, fields in read)
    stated = line.fields.get("toolUseResult") if results == 1 else None
    for is_result, group in groupby(read, key=lambda pair: pair[1] is not None):
        if not is_result:
            content, rests = contents_of([block for block, _ in group], attach)
            more: Entries = [] if rests is None else [("blocks", rests.encode())]
            yield _input(line, content, [*extra, *more], answering=results > 0)
            extra = []
            continue
        for _, fields in group:
            if fields is not None:
                yield _result(fields, stated, extra, attach)
                extra = []
    if not blocks:
        yield _input(line, (), extra)


def _input(line: Line, content: tuple[Content, ...], extra: Entries, *, answering: bool = False) -> Item:
    by_program = is_true(line.fields, "isMeta") or is_true(line.fields, "isCompactSummary") or _is_mark(content)
    source = HOST if by_program else PARENT_AGENT if line.is_side else USER
    return Item(
        body=InputAdded(content=content, steer=by_program or answering, extra=object_text(extra)), source=source
    )


def _is_mark(content: tuple[Content, ...]) -> bool:
    """Whether an input is the program's note that the user stopped the agent."""
    return len(content) == 1 and isinstance(text := content[0], Text) and text.text.startswith(INTERRUPTED)


def _result(fields: Fields, stated: Raw | None, extra: Entries, attach: Attach) -> Item:
    output = output_of(fields.get("content"), attach)
    rest: Entries = [entry for entry in fields.items() if entry[0] not in _RESULT_MAPPED]
    if "is_error" in fields and bytes(fields["is_error"]) != b"true":
        rest.append(("is_error", fields["is_error"]))  # false, and not there, are two things to an export
    text = object_text(rest)
    if text is not None:
        extra = [*extra, ("block", text.encode())]
    found = outcome(fields.get("is_error"), output.text, stated)
    body = ToolReturned(
        call=name_of(fields["tool_use_id"]) or "",
        status=found.status,
        facts=found.facts,
        form=output.form,
        halves=output.halves,
        duration_us=found.duration_us,
        extra=object_text(extra),
    )
    return Item(body=body, source=TOOL, output=output.data)


def _compaction(line: Line, items: Sequence[Item], keeps: Mapping[str, str], extra: str | None) -> Compaction:
    texts = [
        part.original
        for item in items
        if isinstance(item.body, InputAdded)
        for part in item.body.content
        if isinstance(part, Text)
    ]
    text, halves = split_halves("\n\n".join(texts))
    kept = keeps.get(line.parent) if isinstance(line.parent, str) else None
    return Compaction(text=text, halves=halves, keeps=kept, maker=AGENT, extra=extra)


def queued_line(line: Line) -> Entry | None:
    """Say what an attachment line means that holds what the user typed while the agent was at work; None for others."""
    attachment = fields_of(line.fields.get("attachment"))
    if attachment is None or name_of(attachment.get("type")) != "queued_command":
        return None
    prompt = text_of(attachment.get("prompt"))
    if not prompt or name_of(attachment.get("commandMode")) not in {None, "prompt"}:
        return None
    extra: Entries = [entry for entry in line.fields.items() if entry[0] not in {"uuid", "attachment"}]
    rest = object_text(entry for entry in attachment.items() if entry[0] != "prompt")
    if rest is not None:
        extra.append(("attachment", rest.encode()))
    body = InputAdded(content=(Text(*split_halves(prompt)),), steer=True, extra=object_text(extra))
    by_program = is_true(attachment, "isMeta") or is_true(line.fields, "isMeta")
    return line.entry([Item(body=body, source=HOST if by_program else USER)])


# --- assistant lines ---


def assistant_line(line: Line, message: Fields) -> Entry | None:
    """Say what a line of type assistant means: some blocks of a response, or words of the program in its place.

    Returns:
        None when the message has no content.
    """
    content = message.get("content")
    text = text_of(content)
    blocks = items_of(content) if text is None else None
    if text is None and not blocks:
        return None
    model = name_of(message.get("model"))
    if model == SYNTHETIC or is_true(line.fields, "isApiErrorMessage"):
        return _notice(line, message)
    extra = line.rest(message, _mapped(line, message))
    id_ = name_of(message.get("id"))
    response = Response(
        id=id_ or line.identity.id,
        provider=PROVIDER,
        model=model,
        usage=usage_of(message.get("usage")),
        stop=name_of(message.get("stop_reason")),
        whole=not id_,
        call=line.thread.labels != COPY_LABELS,
    )
    source = Source("model", provider=PROVIDER, model=model if is_name(model) else None)
    if blocks is None:
        words, halves = split_halves(text or "")
        body = SegmentAdded(text=words, halves=halves, response=response.id, extra=object_text(extra))
        return line.entry([Item(body=body, source=source)], response=response)
    return line.entry(_parts(blocks, response.id, source, extra), response=response)


def _mapped(line: Line, message: Fields) -> frozenset[str]:
    """Name the entries of a response that its events say; an id that is the line's own is told apart from none."""
    has_id = name_of(message.get("id")) not in {None, "", line.identity.id}
    told = {"id": has_id, "model": is_name(name_of(message.get("model")))}
    return _RESPONSE_MAPPED - {name for name, is_told in told.items() if not is_told}


def _parts(blocks: Sequence[Raw], response: str, source: Source, extra: Entries) -> Iterator[Item]:
    for block in blocks:
        body, output = part_of(block, response, extra)
        yield Item(body=body, source=source, output=output)
        extra = []


def _notice(line: Line, message: Fields) -> Entry:
    """Keep what the program said in a model's place, such as that a request failed."""
    content = message["content"]
    text = text_of(content)
    if text is None:
        fields = [fields_of(block) or {} for block in items_of(content) or []]
        text = "\n".join(found for block in fields if (found := text_of(block.get("text"))))
    words, halves = split_halves(text)
    extra = object_text(line.rest(message, _NOTICE_MAPPED))
    body = SegmentAdded(kind="notice", text=words, halves=halves, extra=extra)
    failed = is_true(line.fields, "isApiErrorMessage")
    return line.entry(
        [Item(body=body, source=HOST)],
        ends="error" if failed else None,
        error=words[:NAME_LENGTH_MAX] if failed else None,
    )
