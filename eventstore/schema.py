"""The SQLite schema: its statements, and what a file that holds them must look like."""

from __future__ import annotations

APPLICATION_ID = 0x434C4F47
"""`CLOG`, in bytes 68-71 of the file."""

USER_VERSION = 2
"""The schema that this program writes. An older file is migrated, a newer one refused."""

# Schema 1. What is here never changes: files hold these statements word for word.
# A thread's number is never used again: other processes may remember that of a thread deleted meanwhile.
TABLES = """
CREATE TABLE threads (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    thread TEXT NOT NULL UNIQUE,
    origin TEXT,
    origin_position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    helper INTEGER NOT NULL,
    title TEXT,
    cwd TEXT,
    agent TEXT,
    source_id TEXT,
    parent_thread TEXT,
    parent_call INTEGER,
    created_at INTEGER NOT NULL,
    spoke INTEGER NOT NULL,
    touched INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    preview TEXT
) STRICT;
CREATE INDEX threads_touched ON threads (touched);
CREATE INDEX threads_spoke ON threads (spoke);
CREATE INDEX threads_title ON threads (title) WHERE title IS NOT NULL;
CREATE INDEX threads_source ON threads (source_id) WHERE source_id IS NOT NULL;
CREATE INDEX threads_origin ON threads (origin) WHERE origin IS NOT NULL;
CREATE TABLE sources (
    id INTEGER PRIMARY KEY,
    json TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL,
    position INTEGER NOT NULL,
    parent INTEGER,
    head INTEGER NOT NULL,
    type TEXT NOT NULL,
    version INTEGER NOT NULL,
    recorded_at INTEGER NOT NULL,
    occurred_at INTEGER,
    source INTEGER NOT NULL,
    key TEXT,
    refs TEXT,
    hash BLOB NOT NULL,
    commitment BLOB NOT NULL,
    salt BLOB,
    secret BLOB,
    body TEXT,
    output TEXT,
    UNIQUE (thread, position)
) STRICT;
CREATE UNIQUE INDEX events_key ON events (thread, key) WHERE key IS NOT NULL;
CREATE TABLE redactions (
    thread INTEGER NOT NULL,
    position INTEGER NOT NULL,
    redacted_by INTEGER NOT NULL,
    PRIMARY KEY (thread, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE deleted (
    thread TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
CREATE TABLE attachments (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    size INTEGER NOT NULL
) STRICT;
CREATE TABLE chunks (
    attachment INTEGER NOT NULL,
    number INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (attachment, number)
) STRICT;
CREATE TABLE uses (
    attachment INTEGER NOT NULL,
    thread INTEGER NOT NULL,
    PRIMARY KEY (attachment, thread)
) STRICT, WITHOUT ROWID;
CREATE INDEX uses_thread ON uses (thread);
CREATE TABLE cache (
    name TEXT PRIMARY KEY,
    thread INTEGER NOT NULL,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX cache_thread ON cache (thread);
"""

TRIGGERS = """
CREATE TRIGGER events_are_immutable BEFORE UPDATE ON events
WHEN NOT (
    old.id IS new.id AND old.thread IS new.thread AND old.position IS new.position AND old.parent IS new.parent
    AND old.head IS new.head AND old.type IS new.type AND old.version IS new.version
    AND old.recorded_at IS new.recorded_at AND old.occurred_at IS new.occurred_at AND old.source IS new.source
    AND old.key IS new.key AND old.refs IS new.refs AND old.hash IS new.hash AND old.commitment IS new.commitment
    AND (new.secret IS NULL OR old.secret IS new.secret)
    AND (
        (old.body IS new.body AND old.output IS new.output AND old.salt IS new.salt)
        OR (
            new.body IS NULL AND new.output IS NULL AND new.salt IS NULL
            AND EXISTS (SELECT 1 FROM redactions r WHERE r.thread = old.thread AND r.position = old.position)
        )
    )
)
BEGIN SELECT RAISE(ABORT, 'events are immutable'); END;
CREATE TRIGGER events_stay BEFORE DELETE ON events
WHEN EXISTS (SELECT 1 FROM threads t WHERE t.id = old.thread)
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER threads_stay BEFORE DELETE ON threads
WHEN NOT EXISTS (SELECT 1 FROM deleted d WHERE d.thread = old.thread)
BEGIN SELECT RAISE(ABORT, 'a thread is deleted by its note in the store thread'); END;
CREATE TRIGGER threads_keep_their_ids BEFORE UPDATE OF id, thread, origin, origin_position ON threads
BEGIN SELECT RAISE(ABORT, 'a thread keeps its id and origin'); END;
"""

VIEWS = """
CREATE VIEW v_threads AS
SELECT t.thread, t.title, t.kind, t.agent, t.cwd, t.turns, t.preview,
    (SELECT max(e.position) FROM events e WHERE e.thread = t.id) AS tip,
    strftime('%Y-%m-%dT%H:%M:%fZ', t.created_at / 1000000.0, 'unixepoch') AS created,
    t.origin, t.origin_position, t.parent_thread, t.parent_call
FROM threads t;
CREATE VIEW v_nodes AS
SELECT t.thread, e.position, e.parent, e.type,
    json_extract(s.json, '$.kind') AS source,
    CASE e.type
        WHEN 'input.added' THEN
            (SELECT group_concat(json_extract(c.value, '$.text'), char(10)) FROM json_each(e.body, '$.content') c)
        WHEN 'tool.called' THEN json_extract(e.body, '$.name') || ' ' || coalesce(json_extract(e.body, '$.input'), '{}')
        WHEN 'tool.returned' THEN e.output
        ELSE json_extract(e.body, '$.text')
    END AS text,
    e.salt IS NULL AS redacted,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.recorded_at / 1000000.0, 'unixepoch') AS recorded
FROM events e JOIN threads t ON t.id = e.thread JOIN sources s ON s.id = e.source
WHERE e.parent IS NOT NULL OR e.position = 1;
CREATE VIEW v_calls AS
SELECT t.thread, e.position, e.type,
    json_extract(e.body, '$.assembler') AS assembler, json_extract(e.body, '$.encoder') AS encoder,
    json_extract(e.body, '$.leaf') AS leaf, json_extract(e.body, '$.length') AS bytes,
    json_extract(e.body, '$.provider') AS provider, json_extract(e.body, '$.model') AS model,
    json_extract(e.body, '$.usage.input') AS input_tokens,
    json_extract(e.body, '$.usage.cache_read') AS cache_read_tokens,
    json_extract(e.body, '$.usage.output') AS output_tokens,
    json_extract(e.body, '$.stop') AS stop, json_extract(e.body, '$.error') AS error,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.recorded_at / 1000000.0, 'unixepoch') AS recorded
FROM events e JOIN threads t ON t.id = e.thread
WHERE e.type IN ('call.prepared', 'call.observed', 'call.finished');
"""
"""Since schema 2: for people with SQL, who open the file with a tool of theirs (this program's own connection trusts no
schema, and so runs no JSON function in a view). A thread's own rows; what a fork shares is under its origin."""


def views() -> list[str]:
    """Give the statements of the views, one by one."""
    return [part.strip() for part in VIEWS.split(";\n") if part.strip()]


def statements(version: int = USER_VERSION) -> list[str]:
    """Give the statements that make a schema, one by one."""
    tables = [part.strip() for part in TABLES.split(";") if part.strip()]
    triggers = [f"{part.strip()} END" for part in TRIGGERS.split("END;") if part.strip()]
    return tables + triggers + (views() if version >= 2 else [])


def expected(version: int = USER_VERSION) -> dict[tuple[str, str], str]:
    """Give (kind, name) to SQL of everything the schema holds, as `sqlite_schema` keeps it."""
    found = {}
    for sql in statements(version):
        words = sql.replace("UNIQUE INDEX", "INDEX").split()
        found[(words[1].lower(), words[2])] = sql
    return found
