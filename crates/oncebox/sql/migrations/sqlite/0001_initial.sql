-- The tables. What holds no data, the views over them and the trigger that sends, is in views.sql.
-- Every name of ours begins with oncebox_, so that the file may hold an application's tables too.
--
-- Until the first release this file may be edited: a database that was made from another text is refused, and a new,
-- empty one is the cure. From the first release on it is never edited again; 0002 follows it.
--
-- Times are milliseconds: `_at_ms` by the wall clock, for people and retention; leases and due times by the steady clock
-- (see steady_clock). In large tables what is long comes last: what stands behind a long value is found only by a walk
-- through all its pages.

-- == What came in: the ledger (who was here), the event (what it was), the payload (its bytes) ==

-- The referee. The time is inside the key, which is a UUIDv7.
CREATE TABLE oncebox_ledger (
    identity BLOB NOT NULL PRIMARY KEY,
    key      BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX oncebox_ledger_by_age ON oncebox_ledger (key);

-- The second referee: the same bytes under another identity. Only for senders whose id is outside the body.
CREATE TABLE oncebox_repeats (
    fingerprint BLOB NOT NULL PRIMARY KEY,
    key         BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX oncebox_repeats_by_age ON oncebox_repeats (key);

CREATE TABLE oncebox_events (
    key            BLOB NOT NULL PRIMARY KEY,
    received_at_ms INTEGER NOT NULL,
    original       BLOB,
    source         TEXT NOT NULL,
    event_id       TEXT NOT NULL,
    type           TEXT NOT NULL,
    identity       TEXT NOT NULL CHECK (identity IN ('id', 'id+body', 'body', 'arrival')),
    body_sha256    BLOB NOT NULL CHECK (length(body_sha256) = 32),
    state          TEXT NOT NULL CHECK (state IN ('accepted', 'held', 'conflict')),
    reason         TEXT
) STRICT, WITHOUT ROWID;
-- An event whose identity is its id alone is found through the ledger; this index serves the others. Among them are ids that
-- may be made of several parts: what is shown, with colons between them, does not tell the parts.
CREATE INDEX oncebox_events_by_id ON oncebox_events (event_id)
    WHERE identity <> 'id' OR state = 'conflict' OR replace(event_id, ':', '') <> event_id;
CREATE INDEX oncebox_events_waiting ON oncebox_events (state, key) WHERE state <> 'accepted';

-- Not WITHOUT ROWID: with the bytes inside the tree the table is three times bigger and slower.
-- method, path, query: of the request line, where they are not POST, nothing below the source, and nothing. Not written yet.
CREATE TABLE oncebox_payloads (
    key     BLOB NOT NULL PRIMARY KEY,
    method  TEXT,
    path    TEXT,
    query   TEXT,
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

-- Secrets that a vendor brings in a handshake. Armed by a person, taken once, kept encrypted with a key that is not here.
CREATE TABLE oncebox_arrived_secrets (
    source        TEXT NOT NULL PRIMARY KEY,
    armed         INTEGER NOT NULL CHECK (armed IN (0, 1)),
    sealed        BLOB,
    changed_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What `once` remembers: a mark of scope and id. Its own namespace, apart from the gateway's ledger; the time is for
-- retention alone and no part of the key, so that nothing is new twice while its row lives.
CREATE TABLE oncebox_remembered (
    mark  BLOB NOT NULL PRIMARY KEY,
    at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX oncebox_remembered_by_age ON oncebox_remembered (at_ms);

-- == What is to be done with it: a delivery for each event and handler ==

-- delivery: made from the event's key and the handler's name, so that one index keeps it unique and finds it.
-- attempts_before: the attempts that no longer count, because a replay gave a fresh budget.
-- lost: attempts whose worker went silent, until one ends in words. Such a delivery may be what took the worker with it,
-- so it is tried apart from the others.
-- token stays after the end: an unknown commit is settled by looking whose token is on the row.
-- order_key: only for handlers that run one at a time per key; the event's key is the order among them.
-- node: the process that claimed, where it was a worker of ours.
CREATE TABLE oncebox_deliveries (
    delivery        BLOB NOT NULL PRIMARY KEY,
    key             BLOB NOT NULL,
    attempt         INTEGER NOT NULL DEFAULT 0,
    attempts_before INTEGER NOT NULL DEFAULT 0,
    lost            INTEGER NOT NULL DEFAULT 0,
    due_at_ms       INTEGER NOT NULL,
    lease_until_ms  INTEGER,
    claimed_at_ms   INTEGER,
    finished_at_ms  INTEGER,
    wait_until_ms   INTEGER,
    token           BLOB,
    order_key       BLOB,
    node            BLOB,
    waits_for       BLOB,
    handler         TEXT NOT NULL,
    state           TEXT NOT NULL CHECK (state IN
                    ('ready', 'claimed', 'done', 'dead', 'superseded', 'held', 'discarded')),
    last_error      TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX oncebox_deliveries_ready ON oncebox_deliveries (handler, due_at_ms) WHERE state = 'ready';
CREATE INDEX oncebox_deliveries_claimed ON oncebox_deliveries (lease_until_ms) WHERE state = 'claimed';
CREATE INDEX oncebox_deliveries_stopped ON oncebox_deliveries (state, delivery) WHERE state IN ('dead', 'held');
CREATE INDEX oncebox_deliveries_in_order ON oncebox_deliveries (handler, order_key, key)
    WHERE order_key IS NOT NULL AND state IN ('ready', 'claimed', 'dead', 'held');
-- The referee of "one at a time": two nodes that claim at the same instant cannot both commit.
CREATE UNIQUE INDEX oncebox_deliveries_one_at_a_time ON oncebox_deliveries (handler, order_key)
    WHERE order_key IS NOT NULL AND state = 'claimed';
CREATE INDEX oncebox_deliveries_waiting ON oncebox_deliveries (waits_for) WHERE waits_for IS NOT NULL AND state = 'ready';
CREATE INDEX oncebox_deliveries_lost ON oncebox_deliveries (handler, due_at_ms) WHERE state = 'ready' AND lost > 0;

-- Attempts that did not end in done; the one that did is the delivery itself, and is kept here once it runs again. As
-- short-lived as the payload.
CREATE TABLE oncebox_attempts (
    delivery      BLOB NOT NULL,
    attempt       INTEGER NOT NULL,
    ended_at_ms   INTEGER NOT NULL,
    started_at_ms INTEGER,
    status        INTEGER,
    node          BLOB,
    outcome       TEXT NOT NULL CHECK (outcome IN ('failed', 'dead', 'superseded', 'held', 'lost', 'done')),
    error         TEXT,
    PRIMARY KEY (delivery, attempt)
) STRICT, WITHOUT ROWID;

-- The steps of a handler that are done, with their results: a retry of the delivery skips them.
CREATE TABLE oncebox_steps (
    delivery BLOB NOT NULL,
    step     TEXT NOT NULL,
    result   TEXT NOT NULL,
    at_ms    INTEGER NOT NULL,
    PRIMARY KEY (delivery, step)
) STRICT;

-- == What order asks for ==

-- The newest version that a handler applied for each order key.
CREATE TABLE oncebox_versions (
    handler       TEXT NOT NULL,
    order_key     BLOB NOT NULL,
    version       INTEGER NOT NULL,
    applied_at_ms INTEGER NOT NULL,
    PRIMARY KEY (handler, order_key)
) STRICT, WITHOUT ROWID;

-- A business change that was applied, whatever the id it came under.
CREATE TABLE oncebox_changes (
    mark     BLOB NOT NULL PRIMARY KEY,
    delivery BLOB NOT NULL,
    until_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What somebody waits for, and since when it is done.
CREATE TABLE oncebox_prerequisites (
    mark          BLOB NOT NULL PRIMARY KEY,
    done_at_ms    INTEGER,
    touched_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- == What goes out: messages that handlers wrote in their own transaction ==

-- idempotency_key: `{delivery}/{destination}/{step}` where a delivery wrote it (a delivery's key is made from event and
-- handler), `{destination}/{given key}` where the writer gave one, else a fresh UUID. No part holds a slash.
-- path: what is added below the destination's URL. headers: a JSON object of texts.
-- size: how many bytes the body has.
-- order_key: messages of one key go out one after the other where the destination wants that; where none is given it
-- is the delivery's own order key, else its event's key, in hex.
-- delivery_attempt, delivery_token: the delivery's claim that wrote it; the same step twice in one claim is a mistake. A claim
-- that was given back was no attempt, so the attempt alone cannot tell the next claim from it.
-- attempts_before: the attempts that no longer count, because a replay gave a fresh budget.
-- status: of the latest answer. token stays after the end: an unknown commit is settled by looking whose it is.
-- What never changes stands in oncebox_outbox_contents, one row for each message, written and removed with it: a claim and a
-- mark then write a short row anew, and not the body. Its unique key is the referee of what was sent before. It is not WITHOUT
-- ROWID, for the bytes; the row number also keeps messages of one millisecond in the order of writing.
CREATE TABLE oncebox_outbox (
    id              BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    attempt         INTEGER NOT NULL DEFAULT 0,
    attempts_before INTEGER NOT NULL DEFAULT 0,
    due_at_ms       INTEGER NOT NULL,
    created_at_ms   INTEGER NOT NULL,
    size            INTEGER NOT NULL,
    sent_at_ms      INTEGER,
    lease_until_ms  INTEGER,
    claimed_at_ms   INTEGER,
    status          INTEGER,
    token           BLOB,
    node            BLOB,
    destination     TEXT NOT NULL
                    CHECK (length(destination) BETWEEN 1 AND 64 AND destination NOT GLOB '*[^A-Za-z0-9._-]*'),
    state           TEXT NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'claimed', 'sent', 'dead', 'discarded')),
    handler         TEXT,
    order_key       TEXT CHECK (length(order_key) BETWEEN 1 AND 200),
    last_error      TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX oncebox_outbox_ready ON oncebox_outbox (destination, due_at_ms, id) WHERE state = 'ready';
CREATE INDEX oncebox_outbox_claimed ON oncebox_outbox (lease_until_ms) WHERE state = 'claimed';
CREATE INDEX oncebox_outbox_dead ON oncebox_outbox (id) WHERE state = 'dead';
CREATE INDEX oncebox_outbox_in_order ON oncebox_outbox (destination, order_key, id)
    WHERE order_key IS NOT NULL AND state IN ('ready', 'claimed');

CREATE TABLE oncebox_outbox_contents (
    id               BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    delivery_attempt INTEGER,
    key              BLOB,
    delivery         BLOB,
    delivery_token   BLOB,
    idempotency_key  TEXT NOT NULL UNIQUE,
    step             TEXT CHECK (length(step) BETWEEN 1 AND 64 AND step NOT GLOB '*[^A-Za-z0-9._-]*'),
    path             TEXT NOT NULL DEFAULT '' CHECK (length(path) <= 2048),
    method           TEXT NOT NULL DEFAULT 'POST' CHECK (method IN ('POST', 'PUT', 'PATCH', 'DELETE', 'GET')),
    headers          TEXT NOT NULL DEFAULT '{}'
                     CHECK (length(headers) <= 16384 AND json_valid(headers) AND json_type(headers) = 'object'),
    body             BLOB NOT NULL CHECK (length(body) <= 16777216)
) STRICT;
CREATE INDEX oncebox_outbox_contents_of_event ON oncebox_outbox_contents (key) WHERE key IS NOT NULL;

-- Attempts that did not end in sent; the one that did is the message itself.
CREATE TABLE oncebox_outbox_attempts (
    id            BLOB NOT NULL,
    attempt       INTEGER NOT NULL,
    ended_at_ms   INTEGER NOT NULL,
    started_at_ms INTEGER,
    status        INTEGER,
    node          BLOB,
    outcome       TEXT NOT NULL CHECK (outcome IN ('failed', 'dead', 'lost')),
    error         TEXT,
    PRIMARY KEY (id, attempt)
) STRICT, WITHOUT ROWID;

-- The first bytes of the latest answer, where it had any.
CREATE TABLE oncebox_outbox_answers (
    id    BLOB NOT NULL PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    body  BLOB NOT NULL
) STRICT;

-- == What every node must know: handlers, destinations, each other, the time ==

-- configured: whether a config describes the handler. An application that runs it beside then leaves the description alone.
CREATE TABLE oncebox_handlers (
    handler    TEXT NOT NULL PRIMARY KEY,
    paused     INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    attempts   INTEGER NOT NULL CHECK (attempts > 0),
    base_ms    INTEGER NOT NULL,
    cap_ms     INTEGER NOT NULL,
    lease_ms   INTEGER NOT NULL,
    on_dead    TEXT NOT NULL CHECK (on_dead IN ('skip', 'block')),
    configured INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE oncebox_destinations (
    destination TEXT NOT NULL PRIMARY KEY,
    attempts    INTEGER NOT NULL CHECK (attempts > 0),
    ordered     INTEGER NOT NULL CHECK (ordered IN (0, 1))
) STRICT, WITHOUT ROWID;

-- A running process. Its name is what the session lock is on.
-- began_ms, steady_ms: the steady time at which it began, and was last seen. That it went on for others is how a process
-- learns that it was paused itself.
-- begun_…: what it has begun, written before it begins it. What else it has claimed was never begun, and a loss of that uses
-- no attempt. What its workers began alone, what they began together with others in a transaction, and what its relay sends:
-- 16 bytes for each, one behind the other, the last halves of the delivery's (or message's) id and of its token. A process
-- that has none of it does not say, and all its claims count.
CREATE TABLE oncebox_nodes (
    node           BLOB NOT NULL PRIMARY KEY,
    name           TEXT NOT NULL,
    started_at_ms  INTEGER NOT NULL,
    seen_at_ms     INTEGER NOT NULL,
    began_ms       INTEGER,
    steady_ms      INTEGER,
    begun_alone    BLOB,
    begun_together BLOB,
    begun_relay    BLOB
) STRICT, WITHOUT ROWID;

-- Leases and due times stand on a clock of their own, which goes on evenly whatever the wall clock does: the wall
-- clock and an offset, which the process changes by as much as the wall clock jumped.
-- offset_ms: what to add to the wall clock. seen_ms: the latest steady time that a process wrote down; no start goes back
-- behind it. settled: how many jumps were settled, so that two processes settle one jump once.
CREATE TABLE oncebox_steady_clock (
    one       INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    offset_ms INTEGER NOT NULL,
    seen_ms   INTEGER NOT NULL,
    settled   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO oncebox_steady_clock (one, offset_ms, seen_ms, settled) VALUES (1, 0, 0, 0);

-- == What operators did, and what they were told ==

-- The audit log, and how far each action came: a killed one goes on where it stopped. Which kinds there are is the program's
-- to say.
CREATE TABLE oncebox_actions (
    action         TEXT NOT NULL PRIMARY KEY,
    kind           TEXT NOT NULL,
    filter         TEXT NOT NULL,
    who            TEXT NOT NULL,
    counted        INTEGER,
    acted          INTEGER NOT NULL DEFAULT 0,
    phase          INTEGER NOT NULL DEFAULT 0,
    reached        BLOB NOT NULL,
    started_at_ms  INTEGER NOT NULL,
    finished_at_ms INTEGER
) STRICT, WITHOUT ROWID;

-- What was told to whom: a row for each condition that somebody was told about and that is not over. It outlives the
-- process that told, so that the next one neither repeats it nor forgets to say that it is over.
-- told_value: the number that was last told; one that has doubled since is told again.
CREATE TABLE oncebox_alerts (
    receiver   TEXT NOT NULL,
    condition  TEXT NOT NULL,
    since_ms   INTEGER NOT NULL,
    told_at_ms INTEGER NOT NULL,
    told_value INTEGER,
    PRIMARY KEY (receiver, condition)
) STRICT, WITHOUT ROWID;

-- What each process counted since it began (a JSON object of numbers): whoever looks at the conditions adds them up.
CREATE TABLE oncebox_node_counts (
    node   BLOB NOT NULL PRIMARY KEY,
    at_ms  INTEGER NOT NULL,
    counts TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- == Retention: how long things live, how far it came, what it saw of the clocks, and how many identities there are ==

-- How long the rows of a source live; the empty name is for whatever has no windows of its own. A source that left the
-- config keeps its last ones: nothing goes early because a name is gone.
CREATE TABLE oncebox_windows (
    source     TEXT NOT NULL PRIMARY KEY,
    ledger_ms  INTEGER NOT NULL CHECK (ledger_ms > 0),
    payload_ms INTEGER NOT NULL CHECK (payload_ms > 0)
) STRICT, WITHOUT ROWID;

-- seen_at_ms: the newest time at which somebody looked; boot and uptime_ms: what proves how much time passed since.
-- stopped_at_ms: since when nothing is deleted, until a person confirms the time. behind_ms and behind_at_ms are for
-- databases of several nodes. counted_to: see ledger_sizes.
CREATE TABLE oncebox_retention (
    one           INTEGER NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    seen_at_ms    INTEGER,
    boot          TEXT,
    uptime_ms     INTEGER,
    stopped_at_ms INTEGER,
    stopped_why   TEXT,
    behind_ms     INTEGER NOT NULL DEFAULT 0,
    behind_at_ms  INTEGER NOT NULL DEFAULT 0,
    counted_to    BLOB NOT NULL DEFAULT x'00000000000000000000000000000000'
) STRICT;
INSERT INTO oncebox_retention (one) VALUES (1);

-- Runs that removed something or that somebody asked for. removed: a JSON object of tables and rows. kept: payloads whose
-- window is over and that stay, because a person or a handler still needs them.
CREATE TABLE oncebox_retention_runs (
    started_at_ms  INTEGER NOT NULL PRIMARY KEY,
    finished_at_ms INTEGER,
    removed        TEXT NOT NULL DEFAULT '{}',
    kept           INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- Identities of events with keys below retention.counted_to; the rest is counted when somebody asks. History: by the hour.
CREATE TABLE oncebox_ledger_sizes (
    source TEXT NOT NULL PRIMARY KEY,
    rows   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE oncebox_ledger_history (
    at_ms  INTEGER NOT NULL,
    source TEXT NOT NULL,
    rows   INTEGER NOT NULL,
    PRIMARY KEY (at_ms, source)
) STRICT, WITHOUT ROWID;
