-- The tables, and the views over them. The functions are in the folder functions.
--
-- Until the first release this file may be edited: a database that was made from another text is refused, and a new,
-- empty one is the cure. From the first release on it is never edited again; 0002 follows it.
--
-- Keys are uuid, not bytea: 16 bytes narrower per ledger row with its index. Times are milliseconds: `_at_ms` by the wall
-- clock, for people and retention; leases and due times by the steady clock (see steady_clock).
-- Words of events and deliveries (identity, state) have no CHECK: each is evaluated for every row of every batch, a tenth of what
-- an insert costs. They are enums in the program, and only the program and the functions here write them.
-- In large tables what has a fixed width comes first, what may be null after it, and what is long last: so a row has no gaps,
-- and its first columns are found without a walk through it.

-- == What came in: the ledger (who was here), the event (what it was), the payload (its bytes) ==

-- The referee. The time is inside the key, which is a UUIDv7.
CREATE TABLE oncebox.ledger (
    identity uuid PRIMARY KEY,
    key      uuid NOT NULL
);
-- The ledger lies in the order of its keys, so a summary of its pages finds what is old: no byte more per identity.
CREATE INDEX ledger_by_age ON oncebox.ledger USING brin (key) WITH (pages_per_range = 32, autosummarize = on);

-- The second referee: the same bytes under another identity. Only for senders whose id is outside the body.
CREATE TABLE oncebox.repeats (
    fingerprint uuid PRIMARY KEY,
    key         uuid NOT NULL
);
CREATE INDEX repeats_by_age ON oncebox.repeats USING brin (key) WITH (pages_per_range = 32, autosummarize = on);

CREATE TABLE oncebox.events (
    key            uuid PRIMARY KEY,
    received_at_ms bigint NOT NULL,
    original       uuid,
    source         text NOT NULL,
    event_id       text NOT NULL,
    type           text NOT NULL,
    identity       text NOT NULL,
    body_sha256    bytea NOT NULL,
    state          text NOT NULL,
    reason         text
);
-- An event whose identity is its id alone is found through the ledger; this index serves the others. Among them are ids that
-- may be made of several parts: what is shown, with colons between them, does not tell the parts.
CREATE INDEX events_by_id ON oncebox.events (event_id)
    WHERE identity <> 'id' OR state = 'conflict' OR replace(event_id, ':', '') <> event_id;
CREATE INDEX events_waiting ON oncebox.events (state, key) WHERE state <> 'accepted';

-- Partitioned by key, which begins with the time. Rows no partition wants go to the last one.
-- method, path, query: of the request line, where they are not POST, nothing below the source, and nothing. Not written yet.
CREATE TABLE oncebox.payloads (
    key     uuid PRIMARY KEY,
    method  text,
    path    text,
    query   text,
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

-- Secrets that a vendor brings in a handshake. Armed by a person, taken once, kept encrypted with a key that is not here.
CREATE TABLE oncebox.arrived_secrets (
    source        text NOT NULL PRIMARY KEY,
    armed         bigint NOT NULL CHECK (armed IN (0, 1)),
    sealed        bytea,
    changed_at_ms bigint NOT NULL
);

-- What `once` remembers: a mark of scope and id. Its own namespace, apart from the gateway's ledger; the time is for
-- retention alone and no part of the key, so that nothing is new twice while its row lives.
CREATE TABLE oncebox.remembered (
    mark  uuid PRIMARY KEY,
    at_ms bigint NOT NULL
);
CREATE INDEX remembered_by_age ON oncebox.remembered (at_ms);

-- == What is to be done with it: a delivery for each event and handler ==

-- delivery: made from the event's key and the handler's name, so that one index keeps it unique and finds it.
-- attempts_before: the attempts that no longer count, because a replay gave a fresh budget.
-- lost: attempts whose worker went silent, until one ends in words. Such a delivery may be what took the worker with it,
-- so it is tried apart from the others.
-- token stays after the end: an unknown commit is settled by looking whose token is on the row.
-- order_key: only for handlers that run one at a time per key; the event's key is the order among them.
-- node: the process that claimed, where it was a worker of ours.
CREATE TABLE oncebox.deliveries (
    delivery        uuid PRIMARY KEY,
    key             uuid NOT NULL,
    attempt         bigint NOT NULL DEFAULT 0,
    attempts_before bigint NOT NULL DEFAULT 0,
    lost            bigint NOT NULL DEFAULT 0,
    due_at_ms       bigint NOT NULL,
    lease_until_ms  bigint,
    claimed_at_ms   bigint,
    finished_at_ms  bigint,
    wait_until_ms   bigint,
    token           uuid,
    order_key       uuid,
    node            uuid,
    waits_for       uuid,
    handler         text NOT NULL,
    state           text NOT NULL,
    last_error      text
);
CREATE INDEX deliveries_ready ON oncebox.deliveries (handler, due_at_ms) WHERE state = 'ready';
CREATE INDEX deliveries_claimed ON oncebox.deliveries (lease_until_ms) WHERE state = 'claimed';
CREATE INDEX deliveries_stopped ON oncebox.deliveries (state, delivery) WHERE state IN ('dead', 'held');
CREATE INDEX deliveries_in_order ON oncebox.deliveries (handler, order_key, key)
    WHERE order_key IS NOT NULL AND state IN ('ready', 'claimed', 'dead', 'held');
-- The referee of "one at a time": two nodes that claim at the same instant cannot both commit.
CREATE UNIQUE INDEX deliveries_one_at_a_time ON oncebox.deliveries (handler, order_key)
    WHERE order_key IS NOT NULL AND state = 'claimed';
CREATE INDEX deliveries_waiting ON oncebox.deliveries (waits_for) WHERE waits_for IS NOT NULL AND state = 'ready';
CREATE INDEX deliveries_lost ON oncebox.deliveries (handler, due_at_ms) WHERE state = 'ready' AND lost > 0;

-- Attempts that did not end in done; the one that did is the delivery itself, and is kept here once it runs again. As
-- short-lived as the payload.
CREATE TABLE oncebox.attempts (
    delivery      uuid NOT NULL,
    attempt       bigint NOT NULL,
    ended_at_ms   bigint NOT NULL,
    started_at_ms bigint,
    status        bigint,
    node          uuid,
    outcome       text NOT NULL CHECK (outcome IN ('failed', 'dead', 'superseded', 'held', 'lost', 'done')),
    error         text,
    PRIMARY KEY (delivery, attempt)
);

-- The steps of a handler that are done, with their results: a retry of the delivery skips them.
CREATE TABLE oncebox.steps (
    delivery uuid NOT NULL,
    step     text NOT NULL,
    result   text NOT NULL,
    at_ms    bigint NOT NULL,
    PRIMARY KEY (delivery, step)
);

-- == What order asks for ==

-- The newest version that a handler applied for each order key.
CREATE TABLE oncebox.versions (
    handler       text NOT NULL,
    order_key     uuid NOT NULL,
    version       bigint NOT NULL,
    applied_at_ms bigint NOT NULL,
    PRIMARY KEY (handler, order_key)
);

-- A business change that was applied, whatever the id it came under.
CREATE TABLE oncebox.changes (
    mark     uuid PRIMARY KEY,
    delivery uuid NOT NULL,
    until_ms bigint NOT NULL
);

-- What somebody waits for, and since when it is done.
CREATE TABLE oncebox.prerequisites (
    mark          uuid PRIMARY KEY,
    done_at_ms    bigint,
    touched_at_ms bigint NOT NULL
);

-- == What goes out: messages that handlers wrote in their own transaction ==

-- idempotency_key: `{delivery}/{destination}/{step}` where a delivery wrote it (a delivery's key is made from event and
-- handler), `{destination}/{given key}` where the writer gave one, else the message's own id. No part holds a slash.
-- path: what is added below the destination's URL. headers: a JSON object of texts.
-- size: how many bytes the body has, so that a claim knows before it reads one.
-- order_key: messages of one key go out one after the other where the destination wants that; where none is given it
-- is the delivery's own order key, else its event's key, in hex.
-- delivery_attempt, delivery_token: the delivery's claim that wrote it; the same step twice in one claim is a mistake. A claim
-- that was given back was no attempt, so the attempt alone cannot tell the next claim from it.
-- attempts_before: the attempts that no longer count, because a replay gave a fresh budget.
-- status: of the latest answer. token stays after the end: an unknown commit is settled by looking whose it is.
-- What never changes stands in outbox_contents, one row for each message, written and removed with it: a claim and a mark then
-- write a short row anew, and not the body and its indexes. Its unique key is the referee of what was sent before.
-- Checks of what never changes stand with the types: those of a table would run at every change of a message, three times on
-- its way.
CREATE DOMAIN oncebox.message_name AS text CHECK (length(VALUE) BETWEEN 1 AND 64 AND translate(VALUE,
    'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-', '') = '');
CREATE DOMAIN oncebox.message_order_key AS text CHECK (length(VALUE) BETWEEN 1 AND 200);
CREATE DOMAIN oncebox.message_path AS text CHECK (length(VALUE) <= 2048);
CREATE DOMAIN oncebox.message_method AS text CHECK (VALUE IN ('POST', 'PUT', 'PATCH', 'DELETE', 'GET'));
CREATE DOMAIN oncebox.message_headers AS text CHECK (length(VALUE) <= 16384 AND jsonb_typeof(VALUE::jsonb) = 'object');
CREATE DOMAIN oncebox.message_body AS bytea CHECK (octet_length(VALUE) <= 16777216);
CREATE TABLE oncebox.outbox (
    id              uuid PRIMARY KEY,
    attempt         bigint NOT NULL DEFAULT 0,
    attempts_before bigint NOT NULL DEFAULT 0,
    due_at_ms       bigint NOT NULL,
    created_at_ms   bigint NOT NULL,
    size            bigint NOT NULL,
    sent_at_ms      bigint,
    lease_until_ms  bigint,
    claimed_at_ms   bigint,
    status          bigint,
    token           uuid,
    node            uuid,
    destination     oncebox.message_name NOT NULL,
    state           text NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'claimed', 'sent', 'dead', 'discarded')),
    handler         text,
    order_key       oncebox.message_order_key,
    last_error      text
);
CREATE INDEX outbox_ready ON oncebox.outbox (destination, due_at_ms, id) WHERE state = 'ready';
CREATE INDEX outbox_claimed ON oncebox.outbox (lease_until_ms) WHERE state = 'claimed';
CREATE INDEX outbox_dead ON oncebox.outbox (id) WHERE state = 'dead';
CREATE INDEX outbox_in_order ON oncebox.outbox (destination, order_key, id)
    WHERE order_key IS NOT NULL AND state IN ('ready', 'claimed');

CREATE TABLE oncebox.outbox_contents (
    id               uuid PRIMARY KEY,
    delivery_attempt bigint,
    key              uuid,
    delivery         uuid,
    delivery_token   uuid,
    idempotency_key  text NOT NULL UNIQUE,
    step             oncebox.message_name,
    path             oncebox.message_path NOT NULL DEFAULT '',
    method           oncebox.message_method NOT NULL DEFAULT 'POST',
    headers          oncebox.message_headers NOT NULL DEFAULT '{}',
    body             oncebox.message_body NOT NULL
);
CREATE INDEX outbox_contents_of_event ON oncebox.outbox_contents (key) WHERE key IS NOT NULL;

-- Attempts that did not end in sent; the one that did is the message itself.
CREATE TABLE oncebox.outbox_attempts (
    id            uuid NOT NULL,
    attempt       bigint NOT NULL,
    ended_at_ms   bigint NOT NULL,
    started_at_ms bigint,
    status        bigint,
    node          uuid,
    outcome       text NOT NULL CHECK (outcome IN ('failed', 'dead', 'lost')),
    error         text,
    PRIMARY KEY (id, attempt)
);

-- The first bytes of the latest answer, where it had any.
CREATE TABLE oncebox.outbox_answers (
    id    uuid PRIMARY KEY,
    at_ms bigint NOT NULL,
    body  bytea NOT NULL
);

-- == What every node must know: handlers, destinations, each other, the time ==

-- configured: whether a config describes the handler. An application that runs it beside then leaves the description alone.
CREATE TABLE oncebox.handlers (
    handler    text PRIMARY KEY,
    paused     bigint NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    attempts   bigint NOT NULL CHECK (attempts > 0),
    base_ms    bigint NOT NULL,
    cap_ms     bigint NOT NULL,
    lease_ms   bigint NOT NULL,
    on_dead    text NOT NULL CHECK (on_dead IN ('skip', 'block')),
    configured bigint NOT NULL DEFAULT 0
);

CREATE TABLE oncebox.destinations (
    destination text PRIMARY KEY,
    attempts    bigint NOT NULL CHECK (attempts > 0),
    ordered     bigint NOT NULL CHECK (ordered IN (0, 1))
);

-- A running process. Its name is what the session lock is on.
-- began_ms, steady_ms: the steady time at which it began, and was last seen. That it went on for others is how a process
-- learns that it was paused itself.
-- begun_…: what it has begun, written before it begins it. What else it has claimed was never begun, and a loss of that uses
-- no attempt. What its workers began alone, what they began together with others in a transaction, and what its relay sends:
-- 16 bytes for each, one behind the other, the last halves of the delivery's (or message's) id and of its token. A process
-- that has none of it does not say, and all its claims count.
CREATE TABLE oncebox.nodes (
    node           uuid PRIMARY KEY,
    name           text NOT NULL,
    started_at_ms  bigint NOT NULL,
    seen_at_ms     bigint NOT NULL,
    began_ms       bigint,
    steady_ms      bigint,
    begun_alone    bytea,
    begun_together bytea,
    begun_relay    bytea
);
-- Chance does not compress.
ALTER TABLE oncebox.nodes ALTER COLUMN begun_alone SET STORAGE EXTERNAL, ALTER COLUMN begun_together SET STORAGE EXTERNAL,
    ALTER COLUMN begun_relay SET STORAGE EXTERNAL;

-- Leases and due times stand on a clock of their own, which goes on evenly whatever the wall clock does: the database's
-- clock and an offset, which whoever runs a node changes by as much as the database's clock jumped.
-- offset_ms: what to add to the database's clock. seen_ms: the latest steady time that a node wrote down; no start goes
-- back behind it. settled: how many jumps were settled, so that two nodes settle one jump once.
CREATE TABLE oncebox.steady_clock (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    offset_ms bigint NOT NULL,
    seen_ms   bigint NOT NULL,
    settled   bigint NOT NULL
);
INSERT INTO oncebox.steady_clock (offset_ms, seen_ms, settled) VALUES (0, 0, 0);
-- The functions run with the caller's own rights, and there is nothing to hide in it.
GRANT SELECT ON oncebox.steady_clock TO PUBLIC;

-- == What operators did, and what they were told ==

-- The audit log, and how far each action came: a killed one goes on where it stopped. Which kinds there are is the program's
-- to say.
CREATE TABLE oncebox.actions (
    action         text PRIMARY KEY,
    kind           text NOT NULL,
    filter         text NOT NULL,
    who            text NOT NULL,
    counted        bigint,
    acted          bigint NOT NULL DEFAULT 0,
    phase          bigint NOT NULL DEFAULT 0,
    reached        uuid NOT NULL,
    started_at_ms  bigint NOT NULL,
    finished_at_ms bigint
);

-- What was told to whom: a row for each condition that somebody was told about and that is not over. It outlives the node
-- that told, so that another one neither repeats it nor forgets to say that it is over.
-- told_value: the number that was last told; one that has doubled since is told again.
CREATE TABLE oncebox.alerts (
    receiver   text NOT NULL,
    condition  text NOT NULL,
    since_ms   bigint NOT NULL,
    told_at_ms bigint NOT NULL,
    told_value bigint,
    PRIMARY KEY (receiver, condition)
);

-- What each process counted since it began (a JSON object of numbers): whoever looks at the conditions adds them up.
CREATE TABLE oncebox.node_counts (
    node   uuid PRIMARY KEY,
    at_ms  bigint NOT NULL,
    counts text NOT NULL
);

-- == Retention: how long things live, how far it came, what it saw of the clocks, and how many identities there are ==

-- How long the rows of a source live; the empty name is for whatever has no windows of its own. A source that left the
-- config keeps its last ones: nothing goes early because a name is gone.
CREATE TABLE oncebox.windows (
    source     text PRIMARY KEY,
    ledger_ms  bigint NOT NULL CHECK (ledger_ms > 0),
    payload_ms bigint NOT NULL CHECK (payload_ms > 0)
);

-- seen_at_ms: the newest time at which somebody looked; boot and uptime_ms: what proves how much time passed since.
-- stopped_at_ms: since when nothing is deleted, until a person confirms the time. behind_ms: how far a node's clock was
-- found behind the database's, and behind_at_ms when: its keys look older than they are. counted_to: see ledger_sizes.
CREATE TABLE oncebox.retention (
    one           bigint PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    seen_at_ms    bigint,
    boot          text,
    uptime_ms     bigint,
    stopped_at_ms bigint,
    stopped_why   text,
    behind_ms     bigint NOT NULL DEFAULT 0,
    behind_at_ms  bigint NOT NULL DEFAULT 0,
    counted_to    uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000'
);
INSERT INTO oncebox.retention (one) VALUES (1);

-- Runs that removed something or that somebody asked for. removed: a JSON object of tables and rows. kept: payloads whose
-- window is over and that stay, because a person or a handler still needs them.
CREATE TABLE oncebox.retention_runs (
    started_at_ms  bigint PRIMARY KEY,
    finished_at_ms bigint,
    removed        text NOT NULL DEFAULT '{}',
    kept           bigint NOT NULL DEFAULT 0
);

-- Identities of events with keys below retention.counted_to; the rest is counted when somebody asks. History: by the hour.
CREATE TABLE oncebox.ledger_sizes (
    source text PRIMARY KEY,
    rows   bigint NOT NULL
);
CREATE TABLE oncebox.ledger_history (
    at_ms  bigint NOT NULL,
    source text NOT NULL,
    rows   bigint NOT NULL,
    PRIMARY KEY (at_ms, source)
);

-- == What people and their tools read. Stable: columns are added at the end and none is taken away ==

CREATE VIEW oncebox.events_v1 AS
SELECT e.source, e.event_id, e.key::text AS key, e.type, encode(e.body_sha256, 'hex') AS body_sha256, e.state,
       1 + coalesce(a.count, 0) AS arrivals,
       to_timestamp(e.received_at_ms / 1000.0) AS received_at,
       to_timestamp(coalesce(a.last_at_ms, e.received_at_ms) / 1000.0) AS last_arrival_at
FROM oncebox.events e LEFT JOIN oncebox.arrivals a ON a.key = e.key;

CREATE VIEW oncebox.deliveries_v1 AS
SELECT d.key::text AS key, e.source, e.event_id, d.handler, d.state, d.attempt,
       CASE WHEN d.state = 'ready'
            THEN to_timestamp((d.due_at_ms - (SELECT c.offset_ms FROM oncebox.steady_clock c)) / 1000.0)
       END AS next_attempt_at,
       to_timestamp(d.finished_at_ms / 1000.0) AS finished_at, d.last_error
FROM oncebox.deliveries d JOIN oncebox.events e ON e.key = d.key;

CREATE VIEW oncebox.outbox_v1 AS
SELECT o.id::text AS id, o.destination, c.idempotency_key, o.state, o.attempt,
       to_timestamp(o.created_at_ms / 1000.0) AS created_at, to_timestamp(o.sent_at_ms / 1000.0) AS sent_at, o.last_error
FROM oncebox.outbox o JOIN oncebox.outbox_contents c ON c.id = o.id;
