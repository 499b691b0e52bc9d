"""The public handles: a store whose threads derive prompts, record what came back, and replay."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

from convlog.eventstore import store as eventstore
from convlog.eventstore.events import CallPrepared
from convlog.eventstore.thread import Thread as EventThread

from .defaults import DEFAULT_ASSEMBLER, DEFAULT_MODEL

if TYPE_CHECKING:
    from pathlib import Path

    from convlog.eventstore.placement import Appended

    from .calls import CallInfo
    from .compare import PrefixReport
    from .live import LiveThreads
    from .prepare import Prompt
    from .record import Recorded
    from .replay import Replayed
    from .stages.target_v1 import Options
    from .standing import Instructions, Tools


class Thread(EventThread):
    """One conversation: append to it, move in its tree, read it, derive its prompts and prove them."""

    store: Store

    def prepare(
        self,
        *,
        assembler: str = DEFAULT_ASSEMBLER,
        encoder: str | None = None,
        model: str = DEFAULT_MODEL,
        profile: str | Path | bytes | None = None,
        options: Options | dict[str, Any] | None = None,
        parameters: dict[str, Any] | None = None,
        instructions: Instructions | None = None,
        tools: Tools | None = None,
        leaf: int | None = None,
        record: bool = True,
        capture: bool = False,
        despite_approval: bool = False,
    ) -> Prompt:
        """Derive the prompt at the head, and record its manifest. See `convlog.projections.prepare.prepare`."""
        from .prepare import prepare

        return prepare(
            self,
            assembler=assembler,
            encoder=encoder,
            model=model,
            profile=profile,
            options=options,
            parameters=parameters,
            instructions=instructions,
            tools=tools,
            leaf=leaf,
            record=record,
            capture=capture,
            despite_approval=despite_approval,
        )

    def record(
        self,
        response: Any,
        *,
        call: int | None = None,
        format: str | None = None,  # noqa: A002 - the word of the readers
        sent: bytes | None = None,
        end: bool = True,
        error: str | None = None,
    ) -> Recorded:
        """Record what a call gave back. See `convlog.projections.record.record`."""
        from .record import record

        return record(self, response, call=call, format=format, sent=sent, end=end, error=error)

    def observe(
        self,
        request: bytes,
        *,
        provider: str | None = None,
        model: str | None = None,
        provider_state: str | None = None,
        capture: bool = False,
        leaf: int | None = None,
        key: str | None = None,
    ) -> Appended:
        """Record a request that the host built by itself. See `convlog.projections.observe.observe`."""
        from .observe import observe

        return observe(
            self,
            request,
            provider=provider,
            model=model,
            provider_state=provider_state,
            capture=capture,
            leaf=leaf,
            key=key,
        )

    def drop_captures(self, *, before: int | None = None, reason: str = "window") -> list[Appended]:
        """Erase rendered prompts that were kept. See `convlog.eventstore.captures.drop_captures`."""
        from convlog.eventstore.captures import drop_captures

        return drop_captures(self, before=before, reason=reason)

    def summarise_with(
        self,
        maker: str,
        first: int,
        last: int,
        *,
        on: int | None = None,
        parameters: dict[str, Any] | None = None,
        replaces: int | None = None,
        key: str | None = None,
    ) -> Appended:
        """Let a frozen summariser say a closed range, and store that. See `convlog.projections.summarise.summarise`."""
        from .summarise import summarise

        return summarise(self, maker, first, last, on=on, parameters=parameters, replaces=replaces, key=key)

    def calls(self) -> list[CallInfo]:
        """Give the thread's calls, numbered from 1."""
        from .calls import calls

        return calls(self)

    def replay(
        self,
        *,
        numbers: Collection[int] | None = None,
        assembler: str | None = None,
        encoder: str | None = None,
        until: int | None = None,
        on: int | None = None,
        newest: int | None = None,
        kept: LiveThreads | None = None,
    ) -> Iterator[Replayed]:
        """Derive every call's prompt again, with a verdict. See `convlog.projections.replay.replay`."""
        from .replay import replay

        return replay(
            self,
            numbers=numbers,
            assembler=assembler,
            encoder=encoder,
            until=until,
            on=on,
            newest=newest,
            kept=kept,
        )

    def prefix_report(self) -> Iterator[PrefixReport]:
        """Report how much of each call's prompt the one before had: what a provider's cache still serves (C06)."""
        from .compare import prefix_report

        return prefix_report((each.call, each.prompt) for each in self.replay() if each.prompt is not None)

    def last_manifest(self) -> CallPrepared | None:
        """Give the newest manifest of the log."""
        for position in reversed(self.store.log(self.id).positions_of((CallPrepared.TYPE,))):
            body = self.event(position, output=False).body
            if isinstance(body, CallPrepared):
                return body
        return None

    def hash_at(self, position: int) -> bytes:
        """Give the hash of the event at a position."""
        return self.tip if position == self.position else self.event(position, output=False).hash


class Store(eventstore.Store):
    """A store whose threads derive prompts."""

    thread_class = Thread

    @cached_property
    def live(self) -> LiveThreads:
        """The newest prompts of threads in use, ready to be gone on from."""
        from .live import LiveThreads

        return LiveThreads(pages=True, lasting=True)

    @cached_property
    def proofs(self) -> LiveThreads:
        """The newest prompts that were derived from the events alone, to compare with what was sent."""
        from .live import LiveThreads

        return LiveThreads(lasting=True, checks=True)

    def create_thread(self, **fields: Any) -> Thread:
        """Make a thread. See `convlog.eventstore.store.Store.create_thread`."""
        return cast("Thread", super().create_thread(**fields))

    def thread(self, text: str) -> Thread:
        """Give the thread of this id, unique prefix, title or source id."""
        return cast("Thread", super().thread(text))

    def latest(self) -> Thread:
        """Give the thread whose user spoke last."""
        return cast("Thread", super().latest())


def open(  # noqa: A001 - convlog.open, as other stores' front doors are named
    path: str | os.PathLike[str],
    *,
    mode: Literal["rw", "r"] = "rw",
    create: bool = True,
    durability: Literal["full", "turn", "process"] = "full",
    timeout_s: float = 60.0,
    **settings: Any,
) -> Store:
    """Open the store in a file, making it where there is none (`:memory:` keeps everything in memory).

    Args:
        path: the file.
        mode: `rw`, or `r` to read only.
        create: whether to make a store where there is none.
        durability: `full`: what is acknowledged survives power loss; `turn`: from each turn's end on; `process`: only a
            crash of the process is survived.
        timeout_s: seconds to wait for another process.
        settings: `clock`, `entropy`, `record_outputs` ("all", or "facts" to keep no tool outputs).

    Raises:
        OpeningError: the path is no place for a store, the file is no store, newer, altered or missing.
        StoreLocked: another process held it for over `timeout_s` seconds.
    """
    opened = eventstore.open_store(
        path,
        mode=mode,
        create=create,
        durability=durability,
        timeout_s=timeout_s,
        store_class=Store,
        **settings,
    )
    return cast("Store", opened)
