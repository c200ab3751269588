-- The three tiers: ledger (who was here), event record (what it was), payload (its bytes).
-- Every name of ours begins with oncebox_, so that the file may hold an application's tables too.

-- The referee. The time is inside the key, which is a UUIDv7.
CREATE TABLE oncebox_ledger (
    identity BLOB NOT NULL PRIMARY KEY,
    key      BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- The second referee: the same bytes under another identity. Only for senders whose id is outside the body.
CREATE TABLE oncebox_repeats (
    fingerprint BLOB NOT NULL PRIMARY KEY,
    key         BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE oncebox_events (
    key            BLOB NOT NULL PRIMARY KEY,
    source         TEXT NOT NULL,
    event_id       TEXT NOT NULL,
    type           TEXT NOT NULL,
    identity       TEXT NOT NULL CHECK (identity IN ('id', 'id+body', 'body', 'arrival')),
    body_sha256    BLOB NOT NULL CHECK (length(body_sha256) = 32),
    state          TEXT NOT NULL CHECK (state IN ('accepted', 'held', 'conflict')),
    reason         TEXT,
    original       BLOB,
    received_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- An event whose identity is its id alone is found through the ledger; this index serves the others.
CREATE INDEX oncebox_events_by_id ON oncebox_events (event_id) WHERE identity <> 'id' OR state = 'conflict';
CREATE INDEX oncebox_events_waiting ON oncebox_events (state, key) WHERE state <> 'accepted';

-- Not WITHOUT ROWID: with the bytes inside the tree the table is three times bigger and slower.
CREATE TABLE oncebox_payloads (
    key     BLOB NOT NULL PRIMARY KEY,
    remote  TEXT NOT NULL,
    headers BLOB NOT NULL,
    body    BLOB NOT NULL
) STRICT;

-- Arrivals after the first, counted in batches beside the event.
CREATE TABLE oncebox_arrivals (
    key        BLOB NOT NULL PRIMARY KEY,
    count      INTEGER NOT NULL,
    last_at_ms INTEGER NOT NULL,
    recent     TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The delivery's key is made from the event's key and the handler's name: one index keeps it unique and finds it.
CREATE TABLE oncebox_deliveries (
    delivery       BLOB NOT NULL PRIMARY KEY,
    key            BLOB NOT NULL,
    handler        TEXT NOT NULL,
    state          TEXT NOT NULL CHECK (state IN
                   ('ready', 'claimed', 'done', 'dead', 'superseded', 'held', 'discarded')),
    attempt        INTEGER NOT NULL DEFAULT 0,
    due_at_ms      INTEGER NOT NULL,
    token          BLOB,
    lease_until_ms INTEGER,
    finished_at_ms INTEGER,
    last_error     TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX oncebox_deliveries_ready ON oncebox_deliveries (handler, due_at_ms) WHERE state = 'ready';

CREATE TABLE oncebox_outbox (
    id              BLOB NOT NULL PRIMARY KEY,
    destination     TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    state           TEXT NOT NULL CHECK (state IN ('ready', 'claimed', 'sent', 'dead', 'discarded')),
    attempt         INTEGER NOT NULL DEFAULT 0,
    created_at_ms   INTEGER NOT NULL,
    sent_at_ms      INTEGER,
    last_error      TEXT
) STRICT, WITHOUT ROWID;

CREATE VIEW oncebox_events_v1 AS
SELECT e.source, e.event_id,
       lower(substr(hex(e.key), 1, 8) || '-' || substr(hex(e.key), 9, 4) || '-' || substr(hex(e.key), 13, 4) || '-' ||
             substr(hex(e.key), 17, 4) || '-' || substr(hex(e.key), 21)) AS key,
       e.type, lower(hex(e.body_sha256)) AS body_sha256, e.state,
       1 + coalesce(a.count, 0) AS arrivals,
       strftime('%Y-%m-%dT%H:%M:%fZ', e.received_at_ms / 1000.0, 'unixepoch') AS received_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(a.last_at_ms, e.received_at_ms) / 1000.0, 'unixepoch') AS last_arrival_at
FROM oncebox_events e LEFT JOIN oncebox_arrivals a ON a.key = e.key;

CREATE VIEW oncebox_deliveries_v1 AS
SELECT lower(substr(hex(d.key), 1, 8) || '-' || substr(hex(d.key), 9, 4) || '-' || substr(hex(d.key), 13, 4) || '-' ||
             substr(hex(d.key), 17, 4) || '-' || substr(hex(d.key), 21)) AS key,
       e.source, e.event_id, d.handler, d.state, d.attempt,
       CASE WHEN d.state = 'ready' THEN strftime('%Y-%m-%dT%H:%M:%fZ', d.due_at_ms / 1000.0, 'unixepoch') END AS next_attempt_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', d.finished_at_ms / 1000.0, 'unixepoch') AS finished_at, d.last_error
FROM oncebox_deliveries d JOIN oncebox_events e ON e.key = d.key;

CREATE VIEW oncebox_outbox_v1 AS
SELECT lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-' || substr(hex(id), 13, 4) || '-' ||
             substr(hex(id), 17, 4) || '-' || substr(hex(id), 21)) AS id,
       destination, idempotency_key, state, attempt,
       strftime('%Y-%m-%dT%H:%M:%fZ', created_at_ms / 1000.0, 'unixepoch') AS created_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', sent_at_ms / 1000.0, 'unixepoch') AS sent_at, last_error
FROM oncebox_outbox;
