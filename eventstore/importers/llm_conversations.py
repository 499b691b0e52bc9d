"""The conversations in `llm`'s log, in the order of their ids, each told message by message and call by call.

A conversation's messages are known by their hashes in either store, so that one which began in the classic tables and
went on in the message store is one line, and a call that was written to both is one call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from .databases import Database, Row, row_text
from .llm_messages import ClassicStore, Message, MessageStore
from .llm_steps import Call, Step, call_of
from .report import ImportReport

CLASSIC = frozenset({"conversations", "responses"})
STORE = frozenset({"messages", "parts", "threads", "turns"})

_NAMES = {
    "conversations": "id",
    "threads": "id",
    "responses": "coalesce(conversation_id, id)",
    "turns": "thread_id",
}
"""The column that names a conversation, by table."""

_TOOLS = {
    "tool_responses": ("response_id", "SELECT tools.*, NULL AS instance_id"),
    "turn_tools": ("turn_id", "SELECT tools.*, used.*"),
}


class Conversations:
    """The conversations of a database."""

    def __init__(self, database: Database, report: ImportReport) -> None:
        self._database = database
        self._report = report
        self._store = MessageStore(database, report)
        self._classic = ClassicStore(database, report)
        origins = database.select("threads", "forked_from IS NOT NULL")
        self._origins: dict[str, set[str]] = {str(row["forked_from"]): set() for row in origins}
        """Messages of the threads that others were forked from."""
        self._origin: set[str] = set()
        """Messages of the thread that the one at hand was forked from."""
        self._told: set[str] = set()
        """Messages of the thread at hand."""
        self._last: str | None = None
        self._tools: dict[str, str] = {}
        """Which tools were offered at a message."""
        self._base = Step(0, b"", None)

    def steps(self) -> Iterator[Step]:
        """Give their messages and calls."""
        for id_ in self._ids():
            yield from self._conversation(id_)
        for root, turns, leaves in self._unthreaded():
            self._begin(root, None, None)
            yield from self._in_store(turns, leaves)
            yield self._end([])

    def _ids(self) -> list[str]:
        """Name the conversations of both stores by their ids, which tell when they began."""
        found: set[str] = set()
        for table, column in _NAMES.items():
            if table in self._database.tables:
                rows = self._database.rows(f"SELECT DISTINCT {column} AS id FROM {table} WHERE {column} IS NOT NULL")
                found.update(str(row["id"]) for row in rows)
        return sorted(found)

    def _conversation(self, id_: str) -> Iterator[Step]:
        rows = [row for table in ("conversations", "threads") for row in self._database.select(table, "id = ?", id_)]
        origin = next((row["forked_from"] for row in rows if row.get("forked_from")), None)
        self._begin(id_, next((row["name"] for row in rows if row["name"]), None), origin)
        tip: str | None = None
        for row in self._database.select("responses", "coalesce(conversation_id, id) = ?", id_, order="id"):
            if any(self._database.select("turns", "id = ?", row["id"])):
                yield self._step("kept", f"response:{row['id']}", row_text(row))
                continue
            messages = self._classic.messages(row, tip)
            yield from self._call(row, messages, f"response:{row['id']}", self._about_response(row))
            tip = messages[-1].hash if messages else tip
        turns = self._database.select("turns", "thread_id = ?", id_, order="id")
        tips = [str(row["tip_message_hash"]) for row in rows if row.get("tip_message_hash")]
        yield from self._in_store(turns, tips)
        if tips and tips[-1] in self._told | self._origin and tips[-1] != self._last:
            yield self._step("select", tips[-1], "", counts=False)
        yield self._end(rows)
        if id_ in self._origins:
            self._origins[id_] = self._told

    def _begin(self, thread: str, title: str | None, origin: str | None) -> None:
        self._told, self._last, self._tools = set(), None, {}
        self._origin = self._origins.get(str(origin), set()) if origin else set()
        self._base = Step(0, b"", None, thread=thread, title=title)
        self._forked_from = origin

    def _step(self, kind: str, id_: str, data: str, *, counts: bool = True) -> Step:
        self._report.records += counts
        return msgspec.structs.replace(
            self._base, line=self._report.records, data=data.encode(), kind=kind, id=id_, counts=counts
        )

    def _end(self, rows: list[Row]) -> Step:
        step = self._step(
            "end",
            f"conversation:{self._base.thread}",
            f"[{','.join(row_text(row) for row in rows)}]",
            counts=bool(rows),
        )
        return msgspec.structs.replace(step, is_last=self._base.thread not in self._origins)

    # --- the message store ---

    def _in_store(self, turns: Iterable[Row], tips: Iterable[str]) -> Iterator[Step]:
        """Tell what turns added, and messages that lead to a tip without one."""
        for turn in turns:
            asked = self._chain(turn["parent_message_hash"])
            told = self._chain(turn["tip_message_hash"], until=turn["parent_message_hash"], above=asked)
            yield from self._call(turn, told, f"turn:{turn['id']}", self._about_turn(turn), turn["parent_message_hash"])
        for tip in tips:
            for message in self._chain(tip):
                yield self._message(message, None, None)

    def _chain(self, tip: str | None, until: str | None = None, above: Iterable[Message] = ()) -> list[Message]:
        """Read the messages that lead to one and are not told yet, oldest first, below those given."""
        found: list[str] = []
        passed = {until, *(message.hash for message in above)}
        while tip is not None and tip not in self._told and tip not in passed:
            if tip in self._origin:
                if self._base.continues is None and not self._told:
                    self._base = msgspec.structs.replace(self._base, continues=(str(self._forked_from), tip))
                break
            is_here, parent = self._store.parent(tip)
            if not is_here and not found:
                self._report.warn(0, "missing_message", f"{tip} is not in the source")
            if not is_here:
                break
            passed.add(tip)
            found.append(tip)
            tip = parent
        return [*above, *(self._store.message(hash_) for hash_ in reversed(found))]

    def _message(self, message: Message, call: Call | None, tools: tuple[Row, ...] | None) -> Step:
        self._told.add(message.hash)
        self._last = message.hash
        step = self._step("message", message.hash, "")
        return msgspec.structs.replace(step, message=message, call=call, tools=tools)

    def _call(
        self, row: Row, messages: list[Message], id_: str, about: str, parent: str | None = None
    ) -> Iterator[Step]:
        """Tell a call's messages, its own answer last, and then what is said of the call."""
        call = call_of(row)
        asked = {message.hash for message in messages} if parent is None else self._asked(messages, parent)
        table = "turn_tools" if id_.startswith("turn") else "tool_responses"
        tools = self._changed(table, call.id, messages)
        has_answer = False
        for message in messages:
            is_answer = message.role == "assistant" and (parent is None or message.hash not in asked)
            has_answer = has_answer or is_answer
            yield self._message(message, call if is_answer else None, tools)
            tools = None
        step = self._step("call", id_, about)
        yield msgspec.structs.replace(step, call=call if has_answer else None)

    def _asked(self, messages: list[Message], parent: str) -> set[str]:
        """Name the messages that were put to the model: those down to the turn's parent."""
        hashes = [message.hash for message in messages]
        return set(hashes[: hashes.index(parent) + 1]) if parent in hashes else set()

    def _changed(self, table: str, call: str, messages: list[Message]) -> tuple[Row, ...] | None:
        """Give a call's tools, when they are others than those of the call before it."""
        rows = self._tool_rows(table, call)
        offered = row_text({str(row["id"]): None for row in rows})
        before = self._tools.get(messages[0].parent or "", "{}") if messages else offered
        self._tools |= dict.fromkeys((message.hash for message in messages), offered)
        return rows if offered != before else None

    def _tool_rows(self, table: str, call: str) -> tuple[Row, ...]:
        if table not in self._database.tables:
            return ()
        column, sql = _TOOLS[table]
        sql += f" FROM {table} AS used JOIN tools ON tools.id = used.tool_id WHERE used.{column} = ? ORDER BY tools.id"
        return tuple(self._database.rows(sql, call))

    def _unthreaded(self) -> Iterator[tuple[str, list[Row], list[str]]]:
        """Give turns that belong to no thread, and messages that no turn and no thread leads to, by their roots."""
        found: dict[str, tuple[list[Row], list[str]]] = {}
        for turn in self._database.select("turns", "thread_id IS NULL", order="id"):
            root = self._root(turn["tip_message_hash"] or turn["parent_message_hash"])
            found.setdefault(root, ([], []))[0].append(turn)
        leaves = (
            "hash NOT IN (SELECT parent_hash FROM messages WHERE parent_hash IS NOT NULL) "
            "AND hash NOT IN (SELECT tip_message_hash FROM turns WHERE tip_message_hash IS NOT NULL) "
            "AND hash NOT IN (SELECT tip_message_hash FROM threads WHERE tip_message_hash IS NOT NULL)"
        )
        rows = self._database.select("messages", leaves, order="rowid") if self._database.tables >= STORE else iter(())
        for row in rows:
            found.setdefault(self._root(row["hash"]), ([], []))[1].append(str(row["hash"]))
        for root, (turns, tips) in found.items():
            yield root, turns, tips

    def _root(self, hash_: str | None) -> str:
        passed: list[str] = []
        while hash_ is not None and hash_ not in passed:
            passed.append(hash_)
            is_here, above = self._store.parent(hash_)
            hash_ = above if is_here else None
        return passed[-1] if passed else "no-messages"

    # --- what is kept of a call ---

    def _about_response(self, row: Row) -> str:
        """Give a row of `responses` without the texts that its messages hold, and with what other tables add to it."""
        id_ = str(row["id"])
        used = {kind: self._classic.fragments(kind, id_) for kind in ("prompt", "system")}
        held = {"response", "reasoning"} | {kind for kind, fragments in used.items() if not fragments}
        if row.get("system") and str(row["system"]).strip() != row["system"]:
            held.discard("system")
        said = {name: value for name, value in row.items() if name not in held}
        added = [("fragments", self._fragments("prompt_fragments", "response_id", id_))]
        added += [("system_fragments", self._fragments("system_fragments", "response_id", id_))]
        for table in ("tool_calls", "tool_results"):
            rows = self._database.select(table, "response_id = ?", id_, order="id")
            texts = {"arguments", "output", "exception"}
            added.append((table, [{k: v for k, v in call.items() if k not in texts} for call in rows]))
        return self._about(said, [*added, ("tools", list(self._tool_rows("tool_responses", id_)))])

    def _about_turn(self, row: Row) -> str:
        """Give a row of `turns` with what other tables add to it."""
        id_ = str(row["id"])
        instances = list(self._database.select("tool_instantiations", "turn_id = ?", id_))
        added = [("fragments", self._fragments("turn_fragments", "turn_id", id_)), ("tool_instantiations", instances)]
        return self._about(row, [*added, ("tools", list(self._tool_rows("turn_tools", id_)))])

    def _about(self, row: Row, added: list[tuple[str, list[Row]]]) -> str:
        if row.get("schema_id"):
            added.append(("schemas", list(self._database.select("schemas", "id = ?", row["schema_id"]))))
        instances = sorted({found["instance_id"] for _, rows in added for found in rows if found.get("instance_id")})
        rows = [row for id_ in instances for row in self._database.select("tool_instances", "id = ?", id_)]
        added.append(("tool_instances", rows))
        lists = "".join(f',"{name}":[{",".join(map(row_text, rows))}]' for name, rows in added if rows)
        return row_text(row)[:-1] + lists + "}"

    def _fragments(self, table: str, column: str, id_: str) -> list[Row]:
        if table not in self._database.tables:
            return []
        sql = (
            f"SELECT used.*, f.hash, f.source, f.datetime_utc FROM {table} AS used "
            f'JOIN fragments AS f ON f.id = used.fragment_id WHERE used.{column} = ? ORDER BY used."order"'
        )
        return list(self._database.rows(sql, id_))
