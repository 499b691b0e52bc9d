PRAGMA application_id=1129074503;
PRAGMA user_version=1;
BEGIN TRANSACTION;
CREATE TABLE attachments (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    size INTEGER NOT NULL
) STRICT;
CREATE TABLE cache (
    name TEXT PRIMARY KEY,
    thread INTEGER NOT NULL,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE chunks (
    attachment INTEGER NOT NULL,
    number INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (attachment, number)
) STRICT;
CREATE TABLE deleted (
    thread TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
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
INSERT INTO "events" VALUES(1,1,1,NULL,1,'thread.created',1,1780000000000001,NULL,1,NULL,NULL,X'A24ECA1E37691996D63777D6D1B36A02680B73CDCF0978939F8BC8623FE4DB93',X'ABD089F0E90DBB43286A7C22E3AE1B65405E98016D074DD662D611EBBC450622',X'48FC721FBBC172E0925FA27AF1671DE2',NULL,'{"title":"from before"}',NULL);
INSERT INTO "events" VALUES(2,1,2,1,2,'input.added',1,1780000000000002,NULL,2,NULL,NULL,X'5B84CA9C093CC9FCDA4E492077B5C3A44F68161C1E3FBAD28E74DD962B861CC9',X'E98B9AE514A10D6376FAC266D9AE86D578D2F5A7C467E67CB87232AAF1BE04A9',X'AB13BEDF42E84BAE0F7C62C7DD6A8ADA',NULL,'{"content":[{"type":"text","text":"first question"}]}',NULL);
INSERT INTO "events" VALUES(3,1,3,2,3,'segment.added',1,1780000000000003,NULL,3,NULL,NULL,X'53CD170ABDE253B4641F8F5726A0B729436B34B4B041CBF4295F7E9490EA55C5',X'560D1B9DDCEABED0123099F5DAEA8BF08189C85A6C02D6C81DC320840E29102B',X'E1E0E81D6EA39B0CF8B86FFD44092101',NULL,'{"text":"first answer","stop":"end_turn"}',NULL);
INSERT INTO "events" VALUES(4,1,4,NULL,3,'turn.ended',1,1780000000000004,NULL,1,NULL,NULL,X'B0FD1B5C501E600947DEE4B1420AA2A648C52ADF09AD8923D771E10372322F26',X'4BD7267A8E1AED582FC7896D636B8ED6FE2A4728AB142AFF627906B3A938F4F1',X'0C389A743E34FDA435FBD575BB889DBC',NULL,'{"node":3}',NULL);
INSERT INTO "events" VALUES(5,1,5,3,5,'input.added',1,1780000000000005,NULL,2,'in:2',NULL,X'4B78C661893BE35FC126E62102A74817926620C6BAA36AC92E09F1EB9F4C746E',X'5429D670D8A46CF9E9A20E6DA67A69D1D746707B1B3D8538CAB7DDB4A9E47AAA',X'84CB40E74F0E856BB4BB91233E3CB741',NULL,'{"content":[{"type":"text","text":"second question"}]}',NULL);
INSERT INTO "events" VALUES(6,1,6,5,6,'tool.called',1,1780000000000006,NULL,3,NULL,NULL,X'0AA45D69FE1CF5154FCDC3D6FB929D6434799B43BB852DE542912A95AAF75990',X'989B534DC72BCE1B7717A89C816F8B2DD62068A179FABBB2DD5A5B04FA3BA0F4',X'1C310B6BDADD69991CD4E5DBEF96C263',NULL,'{"call":"c1","name":"bash","input":"{\"cmd\":\"make\"}"}',NULL);
INSERT INTO "events" VALUES(7,1,7,6,7,'tool.returned',1,1780000000000007,NULL,4,NULL,'[["answers",6]]',X'45177981D3025A8FE0F6CA67E380980C80AD4F2B29F9A72A0CCBED67B7D7BBF0',X'1B94A770DA11FA7EAE97127F6C216ABF4791190634A190C0D0824E0FF1E0BD2B',X'448BD8DD9624154A690F8E84DC52D6F6',NULL,'{"call":"c1","status":"error","facts":{"exit_code":2}}','no rule to make target');
INSERT INTO "events" VALUES(8,1,8,NULL,7,'turn.ended',1,1780000000000008,NULL,1,'end:2',NULL,X'BDC710FAA4E9C91672AAACCCB6069EE959F94C13D4BDEB655C4F31547A56A142',X'AFD476F2B97D2EEFB4034DF12908AB346C3AC2FD12672D16A9A3F2162BB7C4A4',X'2EF3E0DDA5293BDA965D0ADCEDFC7D38',NULL,'{"node":7,"error":"the provider hung up","trace":"kept as it is"}',NULL);
CREATE TABLE redactions (
    thread INTEGER NOT NULL,
    position INTEGER NOT NULL,
    redacted_by INTEGER NOT NULL,
    PRIMARY KEY (thread, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE sources (
    id INTEGER PRIMARY KEY,
    json TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO "sources" VALUES(1,'{"kind":"host"}');
INSERT INTO "sources" VALUES(2,'{"kind":"user"}');
INSERT INTO "sources" VALUES(3,'{"kind":"model"}');
INSERT INTO "sources" VALUES(4,'{"kind":"tool"}');
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
INSERT INTO "threads" VALUES(1,'2d60403f5adfc04872bf277ecb485d94',NULL,0,'conversation',0,'from before',NULL,NULL,NULL,NULL,NULL,1780000000000001,5,8,2,'second question');
CREATE TABLE uses (
    attachment INTEGER NOT NULL,
    thread INTEGER NOT NULL,
    PRIMARY KEY (attachment, thread)
) STRICT, WITHOUT ROWID;
CREATE INDEX threads_touched ON threads (touched);
CREATE INDEX threads_spoke ON threads (spoke);
CREATE INDEX threads_title ON threads (title) WHERE title IS NOT NULL;
CREATE INDEX threads_source ON threads (source_id) WHERE source_id IS NOT NULL;
CREATE INDEX threads_origin ON threads (origin) WHERE origin IS NOT NULL;
CREATE UNIQUE INDEX events_key ON events (thread, key) WHERE key IS NOT NULL;
CREATE INDEX uses_thread ON uses (thread);
CREATE INDEX cache_thread ON cache (thread);
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
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('threads',1);
COMMIT;
