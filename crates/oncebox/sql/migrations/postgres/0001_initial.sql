-- The three tiers: ledger (who was here), event record (what it was), payload (its bytes).
-- Keys are uuid, not bytea: 16 bytes narrower per ledger row with its index.

-- The referee. The time is inside the key, which is a UUIDv7.
CREATE TABLE oncebox.ledger (
    identity uuid PRIMARY KEY,
    key      uuid NOT NULL
);

-- The second referee: the same bytes under another identity. Only for senders whose id is outside the body.
CREATE TABLE oncebox.repeats (
    fingerprint uuid PRIMARY KEY,
    key         uuid NOT NULL
);

CREATE TABLE oncebox.events (
    key            uuid PRIMARY KEY,
    source         text NOT NULL,
    event_id       text NOT NULL,
    type           text NOT NULL,
    identity       text NOT NULL CHECK (identity IN ('id', 'id+body', 'body', 'arrival')),
    body_sha256    bytea NOT NULL CHECK (length(body_sha256) = 32),
    state          text NOT NULL CHECK (state IN ('accepted', 'held', 'conflict')),
    reason         text,
    original       uuid,
    received_at_ms bigint NOT NULL
);

-- An event whose identity is its id alone is found through the ledger; this index serves the others.
CREATE INDEX events_by_id ON oncebox.events (event_id) WHERE identity <> 'id' OR state = 'conflict';
CREATE INDEX events_waiting ON oncebox.events (state, key) WHERE state <> 'accepted';

-- Partitioned by key, which begins with the time. Rows no partition wants go to the last one.
CREATE TABLE oncebox.payloads (
    key     uuid PRIMARY KEY,
    remote  text NOT NULL,
    headers bytea NOT NULL,
    body    bytea NOT NULL
) PARTITION BY RANGE (key);
CREATE TABLE oncebox.payloads_rest PARTITION OF oncebox.payloads DEFAULT;

-- Arrivals after the first, counted in batches beside the event.
CREATE TABLE oncebox.arrivals (
    key        uuid PRIMARY KEY,
    count      bigint NOT NULL,
    last_at_ms bigint NOT NULL,
    recent     text NOT NULL
);

-- The delivery's key is made from the event's key and the handler's name: one index keeps it unique and finds it.
CREATE TABLE oncebox.deliveries (
    delivery       uuid PRIMARY KEY,
    key            uuid NOT NULL,
    handler        text NOT NULL,
    state          text NOT NULL CHECK (state IN
                   ('ready', 'claimed', 'done', 'dead', 'superseded', 'held', 'discarded')),
    attempt        bigint NOT NULL DEFAULT 0,
    due_at_ms      bigint NOT NULL,
    token          uuid,
    lease_until_ms bigint,
    finished_at_ms bigint,
    last_error     text
);
CREATE INDEX deliveries_ready ON oncebox.deliveries (handler, due_at_ms) WHERE state = 'ready';

CREATE TABLE oncebox.outbox (
    id              uuid PRIMARY KEY,
    destination     text NOT NULL,
    idempotency_key text NOT NULL,
    state           text NOT NULL CHECK (state IN ('ready', 'claimed', 'sent', 'dead', 'discarded')),
    attempt         bigint NOT NULL DEFAULT 0,
    created_at_ms   bigint NOT NULL,
    sent_at_ms      bigint,
    last_error      text
);

CREATE VIEW oncebox.events_v1 AS
SELECT e.source, e.event_id, e.key::text AS key, e.type, encode(e.body_sha256, 'hex') AS body_sha256, e.state,
       1 + coalesce(a.count, 0) AS arrivals,
       to_timestamp(e.received_at_ms / 1000.0) AS received_at,
       to_timestamp(coalesce(a.last_at_ms, e.received_at_ms) / 1000.0) AS last_arrival_at
FROM oncebox.events e LEFT JOIN oncebox.arrivals a ON a.key = e.key;

CREATE VIEW oncebox.deliveries_v1 AS
SELECT d.key::text AS key, e.source, e.event_id, d.handler, d.state, d.attempt,
       CASE WHEN d.state = 'ready' THEN to_timestamp(d.due_at_ms / 1000.0) END AS next_attempt_at,
       to_timestamp(d.finished_at_ms / 1000.0) AS finished_at, d.last_error
FROM oncebox.deliveries d JOIN oncebox.events e ON e.key = d.key;

CREATE VIEW oncebox.outbox_v1 AS
SELECT id::text AS id, destination, idempotency_key, state, attempt, to_timestamp(created_at_ms / 1000.0) AS created_at,
       to_timestamp(sent_at_ms / 1000.0) AS sent_at, last_error
FROM oncebox.outbox;
