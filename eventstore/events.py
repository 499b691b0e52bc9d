"""The facts that convlog records: one frozen struct for each type of event, and the envelope around it.

A body is stored as its JSON text. Structs only read it: a field or a type that this program does not know stays in the
stored bytes and survives export and import. Foreign JSON (tool input, schemas, unmapped fields) is kept as text, since
key order and number spelling belong to the prompt and its cache.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from .canonical import join_halves

Halves = tuple[tuple[int, int], ...]
"""Half surrogates taken out of a text: (UTF-16 index, unit), see `canonical.split_halves`."""

SourceKind = Literal["user", "model", "tool", "host", "system", "import"]


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who or what stated a fact."""

    kind: SourceKind
    name: str | None = None
    provider: str | None = None
    model: str | None = None
    actor: str | None = None


Ref = tuple[Literal["answers", "edits", "regenerates", "about"], int]
"""A word and the position of the event it speaks of."""


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an event says. Subclasses name their `TYPE`, whether they are nodes, and their schema version."""

    TYPE: ClassVar[str] = ""
    NODE: ClassVar[bool] = False
    VERSION: ClassVar[int] = 1

    extra: str | None = None
    """JSON object text: fields of the source's record that have no place here."""


# --- content ---


class Text(msgspec.Struct, frozen=True, omit_defaults=True, tag="text"):
    """A run of text."""

    text: str
    halves: Halves = ()

    @property
    def original(self) -> str:
        """The text as it came in, half surrogates restored."""
        return join_halves(self.text, self.halves)


class Image(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="image"):
    """A picture: an attachment's hash, or a place outside the store."""

    media_type: str | None = None
    attachment: str | None = None
    url: str | None = None
    name: str | None = None
    width: int | None = None
    height: int | None = None
    extra: str | None = None


class Document(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="document"):
    """A document: an attachment's hash, or a place outside the store."""

    media_type: str | None = None
    attachment: str | None = None
    url: str | None = None
    name: str | None = None
    title: str | None = None
    extra: str | None = None


class Foreign(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="foreign"):
    """A content block that has no neutral form, as JSON text."""

    json: str
    provider: str | None = None


Content = Text | Image | Document | Foreign


# --- nodes ---


class ParentCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """The call, in another thread, that a sub-agent's thread works for."""

    thread: str
    call: int | None = None


class ThreadCreated(Body, frozen=True, kw_only=True):
    """Position 1, the only root."""

    TYPE = "thread.created"
    NODE = True

    title: str | None = None
    cwd: str | None = None
    labels: dict[str, str] = {}
    origin: Literal["user", "subagent", "import"] = "user"
    kind: Literal["conversation", "memory", "store"] = "conversation"
    agent: str | None = None
    source_id: str | None = None
    """The id that the source (a provider, another store) knows this thread by."""
    parent: ParentCall | None = None


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """One named part of the instructions; `origin` says who put the text before the model."""

    name: str
    text: str | None = None
    origin: str = "host"
    since: int | None = None
    """Position of the earlier `instructions.set` that holds this part unchanged; `text` is then absent."""


class InstructionsSet(Body, frozen=True, kw_only=True):
    """All standing instructions; the last on the path wins."""

    TYPE = "instructions.set"
    NODE = True

    parts: tuple[Part, ...]


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    """One tool's declaration; `input_schema` is JSON Schema text."""

    name: str
    description: str | None = None
    input_schema: str | None = None
    origin: str = "host"
    extra: str | None = None
    since: int | None = None
    """Position of the earlier `tools.set` that holds this tool unchanged; the rest is then absent."""


class ToolsSet(Body, frozen=True, kw_only=True):
    """All tools the model may call; the last on the path wins."""

    TYPE = "tools.set"
    NODE = True

    tools: tuple[Tool, ...]


class ContextSet(Body, frozen=True, kw_only=True):
    """Named, replaceable runtime context (date, git status); the last of a name wins, null takes it away."""

    TYPE = "context.set"
    NODE = True

    name: str
    text: str | None


class InputAdded(Body, frozen=True, kw_only=True):
    """What was put to the model from outside; a user's starts a turn unless it steers a running one."""

    TYPE = "input.added"
    NODE = True

    role: Literal["user", "system"] = "user"
    content: tuple[Content, ...]
    steer: bool = False
    item: str | None = None
    needs: str | None = None


class Retrieved(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One retrieved item with the place it came from and the blake3 of its text."""

    text: str
    origin: str
    hash: str


class ContextRetrieved(Body, frozen=True, kw_only=True):
    """Items fetched for this place in the talk."""

    TYPE = "context.retrieved"
    NODE = True

    items: tuple[Retrieved, ...]


SegmentKind = Literal["text", "reasoning", "diff", "subagent", "notice", "opaque"]


class SegmentAdded(Body, frozen=True, kw_only=True):
    """One ordered piece of what the agent produced, other than calls and results."""

    TYPE = "segment.added"
    NODE = True

    kind: SegmentKind = "text"
    text: str = ""
    halves: Halves = ()
    response: str | None = None
    part: int | None = None
    item: str | None = None
    """The provider's id of this part."""
    needs: str | None = None
    """The provider's id of the part that this one depends on."""
    signature: str | None = None
    """The provider's seal on reasoning, or encrypted reasoning; sent back verbatim or not at all."""
    opaque: str | None = None
    """The provider's own part as JSON text, to be sent back verbatim."""
    stop: str | None = None

    @property
    def original(self) -> str:
        """The text as it came in, half surrogates restored."""
        return join_halves(self.text, self.halves)


class ToolCalled(Body, frozen=True, kw_only=True):
    """A call that the model asks for; `input` is its JSON text, as the model spelled it."""

    TYPE = "tool.called"
    NODE = True

    call: str
    name: str
    input: str = "{}"
    server: str | None = None
    kind: Literal["function", "custom", "server"] = "function"
    response: str | None = None
    part: int | None = None
    item: str | None = None
    needs: str | None = None
    signature: str | None = None
    opaque: str | None = None


class Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a tool or importer stated of its own work; the store never infers any of it."""

    path: str | None = None
    file_changed: str | None = None
    command: str | None = None
    failed_command: str | None = None
    exit_code: int | float | None = None
    server: str | None = None
    tool: str | None = None


class ToolReturned(Body, frozen=True, kw_only=True):
    """What came back for a call. The output itself lies in the row's own column."""

    TYPE = "tool.returned"
    NODE = True

    call: str
    status: str = "ok"
    """ok, error, denied, cancelled or another short word; all but ok replay as an error."""
    facts: Facts | None = None
    form: Literal["text", "blocks", "json"] = "text"
    """What the output's bytes are: plain text, JSON of `Content` blocks, or JSON of a provider's own part."""
    halves: Halves = ()
    duration_us: int | None = None
    response: str | None = None
    """Set when the provider's server answered inside the same response."""
    part: int | None = None
    bytes: int | None = None
    """Size of an output that was not kept."""
    digest: str | None = None
    """blake3 of an output that was not kept."""


class ApprovalAsked(Body, frozen=True, kw_only=True):
    """Somebody must decide before a call runs."""

    TYPE = "approval.asked"
    NODE = True

    call: str | None = None
    text: str = ""


class ApprovalAnswered(Body, frozen=True, kw_only=True):
    """The decision, and who made it: the user, or a rule with its origin and hash."""

    TYPE = "approval.answered"
    NODE = True

    decision: Literal["once", "always", "deny"]
    by: Literal["user", "rule"] = "user"
    rule: str | None = None
    rule_origin: str | None = None
    rule_hash: str | None = None
    reason: str | None = None


class Todo(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of the task list."""

    content: str
    status: str = "pending"
    note: str | None = None


class TodoWritten(Body, frozen=True, kw_only=True):
    """The whole task list; the last on the path wins."""

    TYPE = "todo.written"
    NODE = True

    todos: tuple[Todo, ...]


# --- notes ---


class ThreadForked(Body, frozen=True, kw_only=True):
    """The first own event of a thread that shares its origin's log up to `position`."""

    TYPE = "thread.forked"

    thread: str
    position: int
    hash: str
    node: int
    title: str | None = None
    source_id: str | None = None
    """The id that the source knows this thread by."""


TurnState = Literal["done", "incomplete", "error", "interrupted"]


class TurnEnded(Body, frozen=True, kw_only=True):
    """The turn is over; `node` is its last node."""

    TYPE = "turn.ended"
    VERSION = 2

    node: int
    state: TurnState = "done"
    """Since version 2; before, a turn that ended in an error had `error`, and all others were done."""
    error: str | None = None


class HeadMoved(Body, frozen=True, kw_only=True):
    """Another node is the active one now (the envelope's head says which)."""

    TYPE = "head.moved"

    reason: str | None = None


class BranchNamed(Body, frozen=True, kw_only=True):
    """A name for the branch that ends at `node`; null takes the name away."""

    TYPE = "branch.named"

    name: str
    node: int | None


class ThreadTitled(Body, frozen=True, kw_only=True):
    """A new title."""

    TYPE = "thread.titled"

    title: str


class CallPrepared(Body, frozen=True, kw_only=True):
    """The manifest: what one prompt was made of, by which versions, and the digest of its bytes."""

    TYPE = "call.prepared"
    VERSION = 2

    assembler: str
    encoder: str
    leaf: int
    at: int
    """The position of the snapshot that was read."""
    length: int
    """Bytes of the request body."""
    blocks: int
    """Count of blocks in the request."""
    digests: str
    """The first 8 bytes of keyed hashes of the prompt's beginnings, in the slots of `prompt_digests`, base64."""
    digest: str
    """The keyed hash of the whole request, hex."""
    digest_key_hash: str
    """blake3 of the random key; the key is the event's `secret`, which goes when something it covers is redacted."""
    profile: str
    """Hash of the profile (an attachment)."""
    parameters: str = "{}"
    """JSON text: the assembler's parameters."""
    options: str = "{}"
    """JSON text: the request's options (max_tokens, tool choice, ...)."""
    inputs: tuple[tuple[str, int, str], ...] = ()
    """Every stream read: (thread, position, hash)."""
    ranges: tuple[tuple[int, int], ...] = ()
    """The path to the leaf, a closed run of positions for each branch that it goes along."""
    fingerprint: str = ""
    """Hash of the assembler's and encoder's code and data."""
    distributions: dict[str, str] = {}
    """Who shipped a version that is not our own: version to `distribution==version`."""
    runtime: str = ""
    """Python and msgspec versions."""
    capture: str | None = None
    """Attachment of the rendered bytes, kept on request for a window."""


class CallObserved(Body, frozen=True, kw_only=True):
    """A request that a host built by itself: kept, never derived."""

    TYPE = "call.observed"

    leaf: int
    digest: str
    length: int
    provider: str | None = None
    model: str | None = None
    capture: str | None = None
    provider_state: str | None = None


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens in four classes that do not overlap, and the reasoning share of the output."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0


class CallFinished(Body, frozen=True, kw_only=True):
    """What one call gave back, about its first node."""

    TYPE = "call.finished"

    response: str | None = None
    provider: str | None = None
    model: str | None = None
    usage: Usage | None = None
    stop: str | None = None
    error: str | None = None
    sent: str | None = None
    """blake3 of the bytes that the host says it sent."""
    sent_as_prepared: bool | None = None


class AttemptAbandoned(Body, frozen=True, kw_only=True):
    """A retry left this leaf behind."""

    TYPE = "attempt.abandoned"

    node: int
    reason: str | None = None


class PendingCleared(Body, frozen=True, kw_only=True):
    """Unfinished turns up to `node` are no longer replayed natively."""

    TYPE = "pending.cleared"

    node: int
    reason: str | None = None


class SummaryStarted(Body, frozen=True, kw_only=True):
    """A summary over a range is being made."""

    TYPE = "summary.started"

    first: int
    last: int
    maker: str | None = None


class SummaryAdded(Body, frozen=True, kw_only=True):
    """A derived text over the closed range `first`..`last`."""

    TYPE = "summary.added"

    first: int
    last: int
    text: str
    halves: Halves = ()
    maker: str = "host"
    """Who or what wrote it: a projection's `name@version`, a host's name, or `hand`."""
    parameters: str = "{}"
    covered: str = ""
    """blake3 over the hashes of the covered nodes."""
    nodes: int = 0
    call: int | None = None
    """The call that asked a model for it."""
    replaces: int | None = None
    """The summary that this one was made again for."""


class SummaryFailed(Body, frozen=True, kw_only=True):
    """No summary came of it; the range stays as it was."""

    TYPE = "summary.failed"

    first: int
    last: int
    reason: str


class SummaryInvalidated(Body, frozen=True, kw_only=True):
    """A summary is no longer to be used."""

    TYPE = "summary.invalidated"

    summary: int
    reason: str


class ResultPromoted(Body, frozen=True, kw_only=True):
    """A result, or a part of it, that later turns keep."""

    TYPE = "result.promoted"

    call: int
    text: str
    reason: Literal["costly", "unrepeatable", "gone", "quoted"]


class Redaction(msgspec.Struct, frozen=True, omit_defaults=True):
    """One erased event and what stands in its place; null where nothing does."""

    position: int
    body: str | None = None
    output: str | None = None


class Redacted(Body, frozen=True, kw_only=True):
    """Words, or whole bodies, were taken out; the originals are gone from the file."""

    TYPE = "redacted"

    targets: tuple[Redaction, ...]
    reason: str


class CaptureDropped(Body, frozen=True, kw_only=True):
    """A rendered prompt that was kept for a window is gone."""

    TYPE = "capture.dropped"

    call: int
    reason: str


class RecordKept(Body, frozen=True, kw_only=True):
    """A record of an imported source that says nothing a node could hold, as it stood."""

    TYPE = "record.kept"

    format: str
    record: str
    """The record's own text."""
    line: int | None = None


class ImportReported(Body, frozen=True, kw_only=True):
    """What one import run read, mapped, kept, repaired and lost."""

    TYPE = "import.reported"

    format: str
    digest: str
    """blake3 of the source file as far as it was read."""
    counts: dict[str, int] = {}
    warnings: tuple[tuple[int, str, str], ...] = ()
    """(line, code, detail)."""


class ThreadDeleted(Body, frozen=True, kw_only=True):
    """In the store's own thread: a thread was erased on purpose."""

    TYPE = "thread.deleted"

    thread: str
    reason: str | None = None
    events: int = 0
    tip: str = ""


BODIES: dict[str, type[Body]] = {
    body.TYPE: body
    for body in (
        ThreadCreated,
        InstructionsSet,
        ToolsSet,
        ContextSet,
        InputAdded,
        ContextRetrieved,
        SegmentAdded,
        ToolCalled,
        ToolReturned,
        ApprovalAsked,
        ApprovalAnswered,
        TodoWritten,
        ThreadForked,
        TurnEnded,
        HeadMoved,
        BranchNamed,
        ThreadTitled,
        CallPrepared,
        CallObserved,
        CallFinished,
        AttemptAbandoned,
        PendingCleared,
        SummaryStarted,
        SummaryAdded,
        SummaryFailed,
        SummaryInvalidated,
        ResultPromoted,
        Redacted,
        CaptureDropped,
        RecordKept,
        ImportReported,
        ThreadDeleted,
    )
}

NODE_TYPES: frozenset[str] = frozenset(type_ for type_, body in BODIES.items() if body.NODE)


class Unknown(msgspec.Struct, frozen=True):
    """The body of an event whose type, or schema version, this program does not know."""

    json: bytes


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An immutable recorded fact, as read."""

    thread: str
    position: int
    parent: int | None
    head: int
    type: str
    version: int
    recorded_at: int
    """The store's clock, microseconds UTC: a note, never an order."""
    occurred_at: int | None
    source: Source
    key: str | None
    refs: tuple[Ref, ...]
    hash: bytes
    body: Any
    """A `Body`, or what stands in its place since a redaction; `Unknown` for what a newer program wrote; None when it
    was redacted whole or not asked for."""
    output: bytes | None = None
    """A result's output; None when there is none, or it was not asked for."""
    secret: bytes | None = None
    """The key of a manifest's digests."""
    redacted_by: int | None = None
    """Position of the `redacted` event that took the original away."""

    @property
    def is_node(self) -> bool:
        """Whether the event extends the tree (every root and everything with a parent does)."""
        return self.parent is not None or self.position == 1

    def ref(self, word: str) -> int | None:
        """Give the position that this event speaks of under `word`."""
        return next((position for name, position in self.refs if name == word), None)
