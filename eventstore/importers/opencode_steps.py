"""What is read of an OpenCode session, step by step, and how its messages and parts are told apart."""

from __future__ import annotations

from .lines import Record
from .opencode_sources import Held, Session, number_of
from .slices import Fields, fields_of, is_true, name_of, value_of


class Step(Record, frozen=True):
    """A record of a session."""

    kind: str = ""
    """session, title, input, part, result, summary, message, revert, or kept."""
    id: str = ""
    session: Session = Session(id="")
    after: str | None = None
    """The record that it follows; the root when there is none."""
    message: Held | None = None
    parts: tuple[Held, ...] = ()
    response: str = ""
    keeps: str | None = None
    """Of a summary: the first record that it leaves out."""
    counts: bool = True
    """Whether it is a record of the source, and no second thing that comes of one."""
    is_last: bool = False
    """The message may still be growing."""

    @property
    def created(self) -> int | None:
        """When it was made, microseconds UTC."""
        return self.message.created if self.message else self.session.created


def kind_of(part: Held) -> str:
    """Name a part's kind."""
    return name_of((part.fields or {}).get("type")) or ""


def state_of(part: Held) -> Fields:
    """Give the state of a tool's part."""
    return fields_of((part.fields or {}).get("state")) or {}


def status_of(part: Held) -> str:
    """Name how far a tool came."""
    return name_of(state_of(part).get("status")) or ""


def pruned_at(part: Held) -> int:
    """Give when a result was left out of what the model is told, in milliseconds, 0 when it was not."""
    return number_of((fields_of(state_of(part).get("time")) or {}).get("compacted"))


def is_summary(message: Held) -> bool:
    """Whether a response is the summary of a compaction."""
    return is_true(message.fields or {}, "summary")


def is_complete(message: Held) -> bool:
    """Whether nothing more of a message comes."""
    fields = message.fields or {}
    time = fields_of(fields.get("time")) or {}
    return value_of(time.get("completed")) is not None or value_of(fields.get("error")) is not None
