"""Random conversations on a thread: what people, models and tools may do, in any order that the store allows.

Every text holds a word of its own (`word7`), so that a test can say which event a prompt quotes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from convlog.eventstore.errors import AppendError, NotFound
from convlog.eventstore.events import Facts, PendingCleared, SummaryAdded, Todo, ToolCalled
from convlog.projections.conversation import Thread
from convlog.projections.errors import AwaitingApproval
from convlog.projections.prepare import Prompt

from .responses import asked, message, said, thought

Step = tuple[str, int, int]
"""A word of `DOINGS` and two numbers that the doing picks by."""

ASSEMBLERS = ("turn-memory@6", "transcript@1", "turn-memory@4", "turn-memory@1", "turn-memory@3", "pruned@1")
MODELS = ("claude-sonnet-4-6", "gpt-5.4", "gemini-3-flash-preview")
REASONS = ("costly", "unrepeatable", "gone", "quoted")

TALKING = ("user", "steer", "answer", "ask", "ask", "result", "result", "end", "prepare")
MOVING = ("edit", "select", "regenerate", "fork", "instruct", "todo", "context", "clear")
SUMMING = ("summarise", "summarise", "outline", "promote", "invalidate", "again")
DOINGS = (*TALKING, *TALKING, *MOVING, *SUMMING)

numbers = st.integers(0, 10**6)


def steps(*words: str, max_size: int = 30) -> st.SearchStrategy[list[Step]]:
    """Draw what is done; without words, anything."""
    return st.lists(st.tuples(st.sampled_from(words or DOINGS), numbers, numbers), min_size=3, max_size=max_size)


class Conversation:
    """A thread on which steps are done, and the prompts that were recorded meanwhile."""

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self.prompts: list[tuple[Thread, Prompt]] = []
        self._number = 0

    def do_all(self, found: Iterable[Step]) -> None:
        """Do some steps one after the other; what the store refuses changes nothing."""
        for word, one, other in found:
            try:
                getattr(self, f"_{word}")(one, other)
            except (AppendError, NotFound, AwaitingApproval):
                continue

    def word(self) -> str:
        """Give a word that no other text has."""
        self._number += 1
        return f"word{self._number}x"

    # --- talking ---

    def _user(self, one: int, other: int) -> None:
        self.thread.user(f"Do {self.word()}.")

    def _steer(self, one: int, other: int) -> None:
        self.thread.user(f"Rather {self.word()}.", steer=True)

    def _answer(self, one: int, other: int) -> None:
        self._record(one, [said(f"Done {self.word()}.")])

    def _ask(self, one: int, other: int) -> None:
        names = ("Read", "Bash", "Edit")
        calls = [
            asked(f"c{self.word()}", names[(one + index) % 3], file_path=f"/w/{self.word()}.py", command=self.word())
            for index in range(1 + other % 3)
        ]
        before: list[Any] = [thought(f"Hm, {self.word()}.")] if one % 4 == 0 else []
        self._record(one, [*before, said(f"Let me see {self.word()}."), *calls])

    def _record(self, one: int, content: list[Any]) -> None:
        call = self.prepare(one).call if one % 3 else None
        self.thread.record(message(*content, id_=f"msg_{self.word()}"), call=call)

    def _result(self, one: int, other: int) -> None:
        tree = self.thread.tree_with_calls
        path = self.thread.tree.path(self.thread.head)
        waiting = [node for node in path if node in tree.call_positions() and not tree.results(node)]
        if not waiting:
            return
        body = self.thread.event(waiting[one % len(waiting)]).body
        assert isinstance(body, ToolCalled)
        failed = other % 3 == 0
        facts = Facts(command=f"run {self.word()}", exit_code=1) if failed else Facts(file_changed=f"{self.word()}.py")
        self.thread.result(body.call, f"It says {self.word()}.", status="error" if failed else "ok", facts=facts)

    def _end(self, one: int, other: int) -> None:
        self.thread.end_turn(("done", "done", "incomplete", "interrupted", "error")[one % 5])

    def _prepare(self, one: int, other: int) -> None:
        self.prepare(one, capture=other % 4 == 0)

    def prepare(self, one: int, *, capture: bool = False) -> Prompt:
        """Prepare a prompt by one of the versions, and keep it."""
        assembler = ASSEMBLERS[one % len(ASSEMBLERS)]
        parameters = {"threshold": 50} if assembler == "pruned@1" else None
        prompt = self.thread.prepare(
            assembler=assembler,
            model=MODELS[one // 7 % len(MODELS)],
            parameters=parameters,
            capture=capture,
        )
        self.prompts.append((self.thread, prompt))
        return prompt

    # --- moving ---

    def _node(self, pick: int) -> int:
        nodes = [event.position for event in self.thread.events(bodies=False) if event.is_node]
        return nodes[pick % len(nodes)]

    def _edit(self, one: int, other: int) -> None:
        self.thread.edit(self._node(one), f"Otherwise {self.word()}.")

    def _regenerate(self, one: int, other: int) -> None:
        self.thread.regenerate(self._node(one), f"Again {self.word()}.")

    def _select(self, one: int, other: int) -> None:
        self.thread.select(self._node(one))

    def _fork(self, one: int, other: int) -> None:
        self.thread = self.thread.fork(self._node(one))  # type: ignore[assignment] # a store gives its own class

    def _instruct(self, one: int, other: int) -> None:
        prompt = self.thread.prepare(instructions={"stays": "Be brief.", "changes": f"Be {self.word()}."})
        self.prompts.append((self.thread, prompt))

    def _todo(self, one: int, other: int) -> None:
        self.thread.todo([Todo(f"see to {self.word()}", ("pending", "done")[one % 2])])

    def _context(self, one: int, other: int) -> None:
        self.thread.context(("date", "branch")[one % 2], None if other % 4 == 0 else f"It is {self.word()}.")

    def _clear(self, one: int, other: int) -> None:
        self.thread.append(PendingCleared(node=self._node(one)))

    # --- summing up ---

    def _range(self, one: int, other: int) -> tuple[int, int]:
        path = self.thread.tree.path(self.thread.head)[1:]
        if not path:
            return 1, 1
        first = one % len(path)
        return path[first], path[first + other % (len(path) - first)]

    def _summarise(self, one: int, other: int) -> None:
        first, last = self._range(one, other)
        self.thread.summarise(first, last, f"In short: {self.word()}.")

    def _outline(self, one: int, other: int) -> None:
        self.thread.summarise_with("outline@1", *self._range(one, other))

    def _summary(self, pick: int) -> Any:
        found = list(self.thread.events(types=(SummaryAdded.TYPE,)))
        return found[pick % len(found)] if found else None

    def _invalidate(self, one: int, other: int) -> None:
        if (summary := self._summary(one)) is not None:
            self.thread.invalidate(summary.position, "wrong")

    def _again(self, one: int, other: int) -> None:
        if (summary := self._summary(one)) is not None:
            body = summary.body
            self.thread.summarise(body.first, body.last, f"Better: {self.word()}.", replaces=summary.position)

    def _promote(self, one: int, other: int) -> None:
        calls = sorted(self.thread.tree_with_calls.call_positions())
        if calls:
            call = calls[one % len(calls)]
            self.thread.promote(call, f"Keep {self.word()}.", REASONS[other % 4])  # type: ignore[arg-type] # the words are reasons
