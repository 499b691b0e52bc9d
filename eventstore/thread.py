"""A handle on one conversation: append to it, move in its tree, read it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from . import canonical, errors, records
from .backend import Record
from .events import (
    Body,
    BranchNamed,
    Content,
    ContextSet,
    Event,
    Facts,
    HeadMoved,
    InputAdded,
    ResultPromoted,
    SegmentAdded,
    Source,
    Text,
    ThreadTitled,
    Todo,
    TodoWritten,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnState,
)
from .placement import Appended
from .records import Draft, Member

if TYPE_CHECKING:
    from .log import Log
    from .store import Store
    from .tree import Tree

USER = Source("user")
MODEL = Source("model")
TOOL = Source("tool")


class Thread:
    """One thread of a store. Handles are cheap; all of one thread share what is known of its log."""

    def __init__(self, store: Store, thread: str) -> None:
        self.store = store
        self.id = thread

    def __repr__(self) -> str:
        return f"<Thread {self.id[:12]} of {self.store.place}>"

    @property
    def _log(self) -> Log:
        return self.store.log(self.id)

    # --- where it stands ---

    @property
    def position(self) -> int:
        """The tip: the last event's position."""
        return self._log.position

    @property
    def tip(self) -> bytes:
        """The hash of the last event: it proves the whole log."""
        return self._log.hash

    @property
    def head(self) -> int:
        """The active node's position."""
        return self._log.head

    @property
    def tree(self) -> Tree:
        """The nodes' tree (read it; appends keep it current)."""
        return self._log.tree

    @property
    def tree_with_calls(self) -> Tree:
        """The nodes' tree, knowing the calls' ids too."""
        return self._log.tree_with_calls

    def refresh(self) -> None:
        """Learn what other processes appended."""
        with self.store.mutex:
            self._log.refresh()

    @property
    def title(self) -> str | None:
        """The thread's title."""
        return self.store.row(self.id).title

    # --- appending ---

    def append(
        self,
        body: Body,
        *,
        parent: int | None = None,
        key: str | None = None,
        source: Source = records.HOST,
        occurred_at: int | None = None,
        refs: tuple[tuple[str, int], ...] = (),
        output: bytes | None = None,
        expected_head: int | None = None,
        expected_position: int | None = None,
    ) -> Appended:
        """Append one event.

        Args:
            body: what it says; a node goes below `parent` (default: the head).
            parent: position of the node to go below.
            key: idempotency key, for the whole thread: the same content again answers with the first event.
            source: who states it.
            occurred_at: when, by the source's clock, microseconds UTC: a note, never an order.
            refs: (word, position) of the events it speaks of.
            output: a result's output, UTF-8.
            expected_head: refuse unless this is the head.
            expected_position: refuse unless this is the tip.

        Raises:
            Conflict: head or position are not the expected ones.
            KeyMismatch: the key is taken by other content.
            AppendError: the content was refused. Nothing was written.
            AppendUnknown: the write may or may not have landed; append again with the same key.
        """
        draft = Draft(
            body=body,
            parent=parent,
            key=key,
            source=source,
            occurred_at=occurred_at,
            refs=refs,
            output=output,
        )
        return self.append_many([draft], expected_head=expected_head, expected_position=expected_position)[0]

    def append_many(
        self,
        drafts: Sequence[Draft],
        *,
        expected_head: int | None = None,
        expected_position: int | None = None,
    ) -> list[Appended]:
        """Append a batch, all or nothing; members may refer to earlier ones by `Member`."""
        with self.store.mutex:
            return self._log.append(drafts, expected_head=expected_head, expected_position=expected_position)

    def user(self, content: str | Sequence[Content], *, steer: bool = False, **options: Any) -> Appended:
        """Append a user's input; it starts a turn unless it steers the running one."""
        options.setdefault("source", USER)
        return self.append(InputAdded(content=as_content(content), steer=steer), **options)

    def system(self, content: str | Sequence[Content], **options: Any) -> Appended:
        """Append system text inside the talk."""
        options.setdefault("source", Source("system"))
        return self.append(InputAdded(role="system", content=as_content(content)), **options)

    def text(self, text: str, *, stop: str | None = None, **options: Any) -> Appended:
        """Append prose of the agent."""
        options.setdefault("source", MODEL)
        text, halves = canonical.split_halves(text)
        return self.append(SegmentAdded(text=text, halves=halves, stop=stop), **options)

    def reasoning(self, text: str, *, signature: str | None = None, **options: Any) -> Appended:
        """Append reasoning, with the provider's seal when it has one."""
        options.setdefault("source", MODEL)
        text, halves = canonical.split_halves(text)
        return self.append(SegmentAdded(kind="reasoning", text=text, halves=halves, signature=signature), **options)

    def call(
        self, call: str, name: str, args: Mapping[str, Any] | str, *, server: str | None = None, **options: Any
    ) -> Appended:
        """Append a tool call. `args` is a mapping, or JSON text that is kept as spelled.

        Raises:
            PayloadRejected: arguments that JSON cannot hold, or text that is no JSON.
        """
        options.setdefault("source", MODEL)
        text = canonical.check_json_text(args) if isinstance(args, str) else canonical.encode(args).decode()
        return self.append(ToolCalled(call=call, name=name, input=text, server=server), **options)

    def result(
        self,
        call: str,
        output: str | Sequence[Content] | None = None,
        *,
        status: str = "ok",
        facts: Facts | None = None,
        duration_us: int | None = None,
        **options: Any,
    ) -> Appended:
        """Append the answer to the nearest call of this id above the head that has none.

        Raises:
            UnknownCall: no such call above.
            DuplicateResult: every such call has its result.
        """
        options.setdefault("source", TOOL)
        records.check_name(status, "status")
        halves: tuple[tuple[int, int], ...] = ()
        form: Literal["text", "blocks"] = "text"
        data = None
        if isinstance(output, str):
            output, halves = canonical.split_halves(output)
            data = output.encode()
        elif output is not None:
            form, data = "blocks", records.encode_blocks(output)
        body = ToolReturned(call=call, status=status, facts=facts, form=form, halves=halves, duration_us=duration_us)
        return self.append(body, output=data, **options)

    def end_turn(self, state: TurnState = "done", *, error: str | None = None, **options: Any) -> Appended:
        """Note that the turn of the head is over."""
        return self.append(TurnEnded(node=self.head, state=state, error=error), **options)

    def todo(self, todos: Sequence[Todo], **options: Any) -> Appended:
        """Append the whole task list."""
        return self.append(TodoWritten(todos=tuple(todos)), **options)

    def context(self, name: str, text: str | None, **options: Any) -> Appended:
        """Set a named piece of runtime context; None takes it away."""
        return self.append(ContextSet(name=name, text=text), **options)

    def set_title(self, title: str, **options: Any) -> Appended:
        """Give the thread a title."""
        records.check_name(title, "title")
        return self.append(ThreadTitled(title=title), **options)

    def summarise(self, first: int, last: int, text: str, **options: Any) -> Appended:
        """Store a summary over a closed range. See `convlog.eventstore.summaries.add_summary`."""
        from .summaries import add_summary

        return add_summary(self, first, last, text, **options)

    def invalidate(self, summary: int, reason: str) -> Appended:
        """Note that a summary is no longer to be used."""
        from .summaries import invalidate_summary

        return invalidate_summary(self, summary, reason)

    def promote(
        self, call: int, text: str, reason: Literal["costly", "unrepeatable", "gone", "quoted"], **options: Any
    ) -> Appended:
        """Keep a result, or a part of it, for later turns.

        Raises:
            NoSuchNode: no call stands at this position.
        """
        if self.event(call, output=False).type != ToolCalled.TYPE:
            raise errors.NoSuchNode(f"position {call} is no call", hint="name the call's node, not its result's")
        return self.append(ResultPromoted(call=call, text=text, reason=reason), **options)

    # --- the tree ---

    def select(self, node: int, *, reason: str | None = None, **options: Any) -> Appended:
        """Make a node the active one."""
        draft = Draft(body=HeadMoved(reason=reason), head=node, source=options.pop("source", USER))
        return self.append_many([draft], **options)[0]

    def edit(self, target: int, content: str | Sequence[Content], **options: Any) -> Appended:
        """Say a node again otherwise: a sibling of it, which becomes the active node."""
        return self._again(target, content, "edits", USER, options)

    def regenerate(self, target: int, content: str | Sequence[Content], **options: Any) -> Appended:
        """Take another answer in place of a node: a sibling of it, which becomes the active node."""
        return self._again(target, content, "regenerates", MODEL, options)

    def _again(
        self, target: int, content: str | Sequence[Content], word: str, source: Source, options: dict[str, Any]
    ) -> Appended:
        event = self.event(target)
        parent = self.tree.parent(target)
        if parent is None:
            raise errors.NoSuchNode("the root says nothing that could be said again", hint="edit one of its children")
        body, output = _restated(event, content)
        # Who said it stays who said it: an edited input is still a user's, an edited answer still the model's.
        source = options.pop("source", event.source if word == "edits" else source)
        refs: list[tuple[str, int | Member]] = [(word, target)]
        if isinstance(body, ToolReturned) and (call := event.ref("answers")) is not None:
            refs.append(("answers", call))
        draft = Draft(
            body=body,
            parent=parent,
            key=options.pop("key", None),
            source=source,
            occurred_at=options.pop("occurred_at", None),
            refs=tuple(refs),
            output=output,
        )
        expected = {name: options.pop(name, None) for name in ("expected_head", "expected_position")}
        moved = Draft(body=HeadMoved(), head=Member(0), source=source)
        drafts = [draft, moved] if isinstance(body, ToolReturned) else [draft]
        return self.append_many(drafts, **expected)[0]

    def name_branch(self, name: str, node: int | None = None, **options: Any) -> Appended:
        """Name the branch that ends at a node (default: the head)."""
        records.check_name(name, "branch name")
        return self.append(BranchNamed(name=name, node=self.head if node is None else node), **options)

    def drop_branch_name(self, name: str, **options: Any) -> Appended:
        """Take a branch's name away; its nodes stay."""
        self.branch(name)
        return self.append(BranchNamed(name=name, node=None), **options)

    def branch_names(self, at: int | None = None) -> dict[str, int]:
        """Give the named branches, each with the last node of its line (as of a position)."""
        names: dict[str, int] = {}
        for event in self.events(last=at, types=(BranchNamed.TYPE,)):
            body = event.body
            if isinstance(body, BranchNamed):
                if body.node is None:
                    names.pop(body.name, None)
                else:
                    names[body.name] = body.node
        return {name: self._line_end(node, at) for name, node in names.items()}

    def _line_end(self, node: int, at: int | None) -> int:
        """Follow a branch's own line from a node down: later nodes of the same branch belong to the name."""
        branch = self.tree.branch(node)
        last = next(last for number, _, last in self.tree.branches() if number == branch)
        if at is not None and last > at:
            last = max(position for position in self.tree.path(last) if position <= at)
        return last

    def branch(self, name: str) -> int:
        """Give the last node of a named branch, or of a branch given by number.

        Raises:
            NoSuchBranch: there is none.
        """
        names = self.branch_names()
        if name in names:
            return names[name]
        for number, _, last in self.tree.branches():
            if name == str(number):
                return last
        known = ", ".join(sorted(names)) or "none is named"
        raise errors.NoSuchBranch(f"thread {self.id[:12]} has no branch {name!r}", hint=f"branches: {known}")

    def fork(
        self,
        node: int | None = None,
        *,
        at: int | None = None,
        title: str | None = None,
        source_id: str | None = None,
        key: tuple[str, str] | None = None,
    ) -> Thread:
        """Make a new thread that shares this one's log up to `at` (default: the tip), active at `node`."""
        return self.store.fork(self, node=node, at=at, title=title, source_id=source_id, key=key)

    # --- reading ---

    def event(self, position: int, *, output: bool = True) -> Event:
        """Give one event.

        Raises:
            NoSuchNode: the thread has no such position.
        """
        log = self._log
        if not 0 < position <= log.position:
            self.refresh()
        for record in log.read(position, position, outputs=output):
            return log.event(record)
        raise errors.NoSuchNode(
            f"position {position} is not in thread {self.id[:12]}", hint=f"positions run from 1 to {log.position}"
        )

    def events(
        self,
        first: int = 1,
        last: int | None = None,
        *,
        types: Collection[str] | None = None,
        bodies: bool = True,
        outputs: bool = True,
    ) -> Iterator[Event]:
        """Iterate over events in log order, a closed run of positions, of some types only when given."""
        log = self._log
        for record in log.read(first, last, types=types, bodies=bodies, outputs=outputs):
            yield log.event(record, bodies=bodies)

    def path(
        self, leaf: int | None = None, *, at: int | None = None, bodies: bool = True, outputs: bool = True
    ) -> Iterator[Event]:
        """Iterate over the nodes from the root to `leaf` (default: the head, or the head as of position `at`)."""
        log = self._log
        positions = log.tree.path(self.head_at(at) if leaf is None else leaf)
        for record in log.read_positions(positions, bodies=bodies, outputs=outputs):
            yield log.event(record, bodies=bodies)

    def records(self, positions: Sequence[int], *, bodies: bool = True, outputs: bool = True) -> Iterator[Record]:
        """Iterate over stored records at some positions (ascending), for projections."""
        return self._log.read_positions(positions, bodies=bodies, outputs=outputs)

    def notes(self, types: Collection[str], *, last: int | None = None) -> Iterator[Record]:
        """Iterate over stored records of some types, for projections."""
        return self._log.read(last=last, types=types)

    def head_at(self, at: int | None) -> int:
        """Give the active node as of a position."""
        if at is None or at >= self.position:
            return self.head
        if at < 1:
            raise errors.NoSuchNode(f"position {at} is not in the thread", hint="positions start at 1")
        return next(self._log.read(at, at, bodies=False)).head


def as_content(content: str | Sequence[Content]) -> tuple[Content, ...]:
    """Give content blocks; a text alone becomes one block, half surrogates set aside."""
    if isinstance(content, str):
        text, halves = canonical.split_halves(content)
        return (Text(text, halves),)
    if not isinstance(content, Iterable):
        raise errors.PayloadRejected(f"content of type {type(content).__name__}", hint="give a text, or content blocks")
    return tuple(content)


def _restated(event: Event, content: str | Sequence[Content]) -> tuple[Body, bytes | None]:
    """Give the body that says a node again with other content, belonging to no response of a model."""
    body = event.body
    if isinstance(body, InputAdded):
        return msgspec.structs.replace(body, content=as_content(content), item=None, needs=None, extra=None), None
    if not isinstance(content, str):
        raise errors.PayloadRejected(f"a {event.type} is edited by text")
    text, halves = canonical.split_halves(content)
    if isinstance(body, SegmentAdded):
        return SegmentAdded(kind=body.kind, text=text, halves=halves), None
    if isinstance(body, ToolCalled):
        return ToolCalled(
            call=body.call, name=body.name, server=body.server, input=canonical.check_json_text(text)
        ), None
    if isinstance(body, ToolReturned):
        return ToolReturned(call=body.call, status=body.status, facts=body.facts, halves=halves), text.encode()
    raise errors.PayloadRejected(f"a {event.type} is not edited; append a new one", hint="use append with parent=...")
