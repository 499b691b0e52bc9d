"""Steps of an ATIF trajectory: what they hold, as events, and what of them has no place in one."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from ..events import (
    Content,
    Document,
    Foreign,
    Image,
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
from .lines import Record
from .slices import (
    Entries,
    Fields,
    clean_text,
    count_of,
    fields_of,
    items_of,
    name_of,
    object_text,
    spelled,
    text_of,
)
from .times import is_plain, microseconds

FORMAT = "atif"
USER, HOST, TOOL, SYSTEM = Source("user"), Source("host"), Source("tool"), Source("system")
PART_MAPPED = frozenset({"type", "text", "source"})
STEP_MAPPED = frozenset({"source", "message", "reasoning_content", "tool_calls", "observation", "model_name"})


class Trajectory(msgspec.Struct, frozen=True, kw_only=True):
    """One trajectory of a document."""

    id: str
    """Its thread's id in the source."""
    entries: Fields
    """What it says beside its steps."""
    name: str | None = None
    """Of one inside another: its own id there."""
    above: str | None = None
    """Of one inside another: that one's thread."""


class Step(Record, frozen=True):
    """A step of a trajectory, or what comes before and behind the steps."""

    kind: str = ""
    """head, step, or rest."""
    trajectory: Trajectory = Trajectory(id="", entries={})


def rest_of(step: Step, fields: Fields) -> Entries:
    """Give what of a step has no place: all but its time and number, where these are as they must be."""
    rest: Entries = []
    for name, value in fields.items():
        is_said = name in STEP_MAPPED or (name == "timestamp" and _is_time(value))
        if not is_said and not (name == "step_id" and bytes(value) == str(step.line).encode()):
            rest.append((name, value))
    observation = fields_of(fields.get("observation"))
    over = object_text(entry for entry in (observation or {}).items() if entry[0] != "results")
    if over is not None:
        rest.append(("observation", over.encode()))
    elif observation is None and "observation" in fields:
        rest.append(("observation", fields["observation"]))
    if "tool_calls" in fields and not items_of(fields["tool_calls"]):
        rest.append(("tool_calls", fields["tool_calls"]))
    return rest


def _is_time(value: Raw) -> bool:
    return microseconds(text_of(value)) is not None and is_plain(value)


def with_rest(item: Item, rest: Entries) -> Item:
    """Let what a step has over go with an event."""
    assert not callable(item.body)
    own: Entries = [] if item.body.extra is None else [("call", item.body.extra.encode())]
    return msgspec.structs.replace(item, body=msgspec.structs.replace(item.body, extra=object_text([*rest, *own])))


def contents_of(data: Raw | None) -> tuple[tuple[Content, ...], Entries]:
    """Give a message's parts; a list of them is noted, with what each has over."""
    text = clean_text(data)
    if text is not None:
        return (Text(*text),), []
    parts = items_of(data)
    if parts is None:
        return (), [] if data is None else [("message", data)]
    read = [_content(part) for part in parts]
    rests = ",".join(object_text(rest) or "{}" for _, rest in read)
    return tuple(content for content, _ in read), [("message", f"[{rests}]".encode())]


def _content(part: Raw) -> tuple[Content, Entries]:
    fields = fields_of(part) or {}
    kind, text = name_of(fields.get("type")), clean_text(fields.get("text"))
    over: Entries = [entry for entry in fields.items() if entry[0] not in PART_MAPPED]
    if kind == "text" and text is not None:
        return Text(*text), over
    source = fields_of(fields.get("source"))
    path = name_of((source or {}).get("path"))
    if source is None or not path or kind not in {"image", "audio"}:
        return Foreign(json=spelled(part), provider=FORMAT), []
    medium = Image if kind == "image" else Document
    extra = object_text(entry for entry in source.items() if entry[0] not in {"path", "media_type"})
    return medium(media_type=name_of(source.get("media_type")), url=path, extra=extra), over


# --- calls and results ---


def called(item: Raw, response: str | None, source: Source) -> Item:
    """Give a call; one without a name or id is kept as it stands."""
    fields = fields_of(item) or {}
    call, name = name_of(fields.get("tool_call_id")), name_of(fields.get("function_name"))
    if not call or not name:
        return Item(body=SegmentAdded(kind="opaque", opaque=spelled(item), response=response), source=source)
    rest: Entries = [
        entry for entry in fields.items() if entry[0] not in {"tool_call_id", "function_name", "arguments"}
    ]
    input_ = spelled(fields["arguments"]) if "arguments" in fields else "{}"
    body = ToolCalled(call=call, name=name, input=input_, response=response, extra=object_text(rest))
    return Item(body=body, source=source)


def observed(fields: Fields) -> list[Fields]:
    """Give what came back in a step."""
    observation = fields_of(fields.get("observation")) or {}
    return [fields_of(result) or {"content": result} for result in items_of(observation.get("results")) or []]


def result_of(fields: Fields) -> Item:
    """Give a call's result; one that no call asked for is an input from the agent's surroundings."""
    call = name_of(fields.get("source_call_id"))
    content, over = contents_of(fields.get("content"))
    rest: Entries = [entry for entry in fields.items() if entry[0] not in {"source_call_id", "content"}]
    rest += [("content", value) for _, value in over]
    if not call:
        if "source_call_id" in fields:
            rest.append(("source_call_id", fields["source_call_id"]))
        rest.append(("observation", b"true"))
        return Item(body=InputAdded(content=content, steer=True, extra=object_text(rest)), source=HOST)
    text = content[0] if len(content) == 1 and not over else None
    is_text = isinstance(text, Text) or not content
    body = ToolReturned(
        call=call,
        form="text" if is_text else "blocks",
        halves=text.halves if isinstance(text, Text) else (),
        extra=object_text(rest),
    )
    words = text.text.encode() if isinstance(text, Text) else None
    return Item(body=body, source=TOOL, output=words if is_text else encode_blocks(content))


def usage_of(metrics: Fields | None) -> Usage | None:
    """Read what a step cost; cached tokens are a part of the prompt's there."""
    if metrics is None or not metrics.keys() & {"prompt_tokens", "completion_tokens"}:
        return None
    more = fields_of(metrics.get("extra")) or {}
    cached = count_of(metrics.get("cached_tokens"))
    written = count_of(more.get("cache_creation_input_tokens"))
    return Usage(
        input=max(count_of(metrics.get("prompt_tokens")) - cached - written, 0),
        cache_read=cached,
        cache_write=written,
        output=count_of(metrics.get("completion_tokens")),
        reasoning=count_of(more.get("reasoning_tokens")),
    )
