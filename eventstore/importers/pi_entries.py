"""What the entries of a pi session mean: messages, compactions, summaries of branches left, labels and names."""

from __future__ import annotations

from msgspec import Raw

from ..canonical import split_halves
from ..events import BranchNamed
from .base import Compaction, Desk, Entry, Item, Resolve, Title, is_name
from .known import parse_key
from .pi_lines import AGENT, MESSAGE, Line
from .pi_messages import content_input, host, summary_item, told
from .slices import Entries, Fields, fields_of, items_of, name_of, object_text, text_of, value_of


def entry_of(line: Line, desk: Desk) -> Entry:
    """Say what an entry means; one that says nothing a node could hold is kept, and is a link of the chain."""
    return _meaning(line, desk) or line.entry([line.verbatim()])


def _meaning(line: Line, desk: Desk) -> Entry | None:
    match line.kind:
        case "message":
            return _message(line, desk)
        case "custom_message":
            source = host(line.fields.get("customType"))
            item = content_input(line.fields, source, lambda over: _custom_rest(line, over), desk.attach, ())
            return None if item is None else line.entry([item])
        case "branch_summary":
            item = summary_item(line.fields.get("summary"), line.rest(("summary",)))
            return None if item is None else line.entry([item])
        case "compaction":
            return _compaction(line, desk)
        case "label":
            named = label_item(line, desk, line.fields, line.rest(()))
            return None if named is None else line.entry([named])
        case "session_info":
            name = text_of(line.fields.get("name"))
            return line.entry([line.verbatim()], title=Title(text=name, by=line.kind)) if name else None
    return None


def _custom_rest(line: Line, over: Entries) -> str | None:
    """Give what is left of a message that is an entry of its own: its fields are the entry's."""
    kept = {name for name, _ in over}
    text = line.rest([name for name in line.fields if name not in kept])
    more = [(name, data) for name, data in over if name not in line.fields or name == "content"]
    entries: Entries = [] if text is None else list((fields_of(text.encode()) or {}).items())
    return object_text([*entries, *more])


def _message(line: Line, desk: Desk) -> Entry | None:
    message = fields_of(line.fields.get(MESSAGE))
    if message is None:
        desk.report.warn(line.record.line, "no_content", "a message entry without a message")
        return None
    found = told(message, line.identity.id, lambda over: line.rest((MESSAGE,), over), desk.attach)
    if found is None:
        return None
    return line.entry(found.items, response=found.response, ends=found.ends, error=found.error)


# --- compactions ---


def _compaction(line: Line, desk: Desk) -> Entry | None:
    fields = line.fields
    text = text_of(fields.get("summary"))
    item = summary_item(fields.get("summary"), line.rest(("summary",)))
    if text is None or item is None:
        desk.report.warn(line.record.line, "no_content", "a compaction without a summary")
        return None
    words, halves = split_halves(text)
    retained = items_of(fields.get("retainedTail"))
    tail = () if retained is None else tuple(_retained(retained, desk))
    keeps = None if retained is not None else _kept(line, desk)
    compaction = Compaction(
        text=words, halves=halves, keeps=keeps, tail=tail, maker=AGENT, extra=line.rest(("summary",))
    )
    return line.entry([item], compaction=compaction)


def _retained(messages: list[Raw], desk: Desk) -> list[Item]:
    """Give what a compaction says again of the end of the path."""
    read = (fields_of(message) for message in messages)
    said = (told(message, "", lambda _: None, desk.attach) for message in read if message is not None)
    return [item for found in said if found is not None for item in found.items]


def _kept(line: Line, desk: Desk) -> str | None:
    """Give the first entry that a compaction left verbatim: by its id, in form 1 by its place in the file."""
    stated = name_of(line.fields.get("firstKeptEntryId"))
    index = value_of(line.fields.get("firstKeptEntryIndex"))
    if stated is None and isinstance(index, int) and not isinstance(index, bool):
        stated = _entry_at(line, desk, index)
    if stated is not None and desk.holds(line.thread.id, stated):
        return stated
    if stated is not None or index is not None:
        desk.report.warn(line.record.line, "missing_kept", f"{stated or index}, kept by a compaction, is not here")
    return None


def _entry_at(line: Line, desk: Desk, index: int) -> str | None:
    """Give the id of the entry at a place of the file, the header at 0, as far as the thread is stored."""
    thread = desk.thread(line.thread.id)
    last, number = None, -1
    for event in () if thread is None else thread.events(bodies=False):
        named = None if event.key is None else parse_key(event.key)
        if named is None or named[0] == last:
            continue
        last, number = named[0], number + 1
        if number == index:
            return last
    return None


# --- names ---


def label_item(line: Line, desk: Desk, fields: Fields, extra: str | None) -> Item | None:
    """Give a label as the name of a branch, or as its end; None where it names nothing, or what is not here."""
    target, name = name_of(fields.get("targetId")), text_of(fields.get("label"))
    if target is None or not desk.holds(line.thread.id, target):
        return None
    if not name:
        name = _label_on(line, desk, target)
        return None if name is None else Item(body=BranchNamed(name=name, node=None, extra=extra))
    return named_branch(name, target, extra)


def named_branch(name: str, target: str, extra: str | None) -> Item | None:
    """Give the name of the branch at a record that is here."""
    if not is_name(name):
        return None

    def body(position: Resolve) -> BranchNamed:
        return BranchNamed(name=name, node=position(target), extra=extra)

    return Item(body=body)


def _label_on(line: Line, desk: Desk, target: str) -> str | None:
    """Give the name that an entry was labelled with last."""
    thread = desk.thread(line.thread.id)
    found = None
    for event in () if thread is None else thread.events(types=(BranchNamed.TYPE,)):
        if isinstance(event.body, BranchNamed) and event.body.extra is not None:
            fields = fields_of(event.body.extra.encode()) or {}
            fields = fields_of(fields.get("entry")) or fields
            if name_of(fields.get("targetId")) == target:
                found = event.body.name
    return found
