-- What processing needs: who holds a delivery, how often it was tried, what order asks for, and what operators did.

-- attempts_before: the attempts that no longer count, because a replay gave a fresh budget.
-- order_key: only for handlers that run one at a time per key; the event's key is the order among them.
-- node: the process that claimed, where it was a worker of ours. token stays after the end: an unknown commit is
-- settled by looking whose token is on the row.
ALTER TABLE oncebox_deliveries ADD COLUMN attempts_before INTEGER NOT NULL DEFAULT 0;
ALTER TABLE oncebox_deliveries ADD COLUMN order_key BLOB;
ALTER TABLE oncebox_deliveries ADD COLUMN node BLOB;
ALTER TABLE oncebox_deliveries ADD COLUMN claimed_at_ms INTEGER;
ALTER TABLE oncebox_deliveries ADD COLUMN waits_for BLOB;
ALTER TABLE oncebox_deliveries ADD COLUMN wait_until_ms INTEGER;

CREATE INDEX oncebox_deliveries_claimed ON oncebox_deliveries (lease_until_ms) WHERE state = 'claimed';
CREATE INDEX oncebox_deliveries_stopped ON oncebox_deliveries (state, delivery) WHERE state IN ('dead', 'held');
CREATE INDEX oncebox_deliveries_in_order ON oncebox_deliveries (handler, order_key, key)
    WHERE order_key IS NOT NULL AND state IN ('ready', 'claimed', 'dead', 'held');
-- The referee of "one at a time": two nodes that claim at the same instant cannot both commit.
CREATE UNIQUE INDEX oncebox_deliveries_one_at_a_time ON oncebox_deliveries (handler, order_key)
    WHERE order_key IS NOT NULL AND state = 'claimed';
CREATE INDEX oncebox_deliveries_waiting ON oncebox_deliveries (waits_for) WHERE waits_for IS NOT NULL AND state = 'ready';

-- Attempts that did not end in done; the one that did is the delivery itself. As short-lived as the payload.
CREATE TABLE oncebox_attempts (
    delivery      BLOB NOT NULL,
    attempt       INTEGER NOT NULL,
    node          BLOB,
    started_at_ms INTEGER,
    ended_at_ms   INTEGER NOT NULL,
    outcome       TEXT NOT NULL CHECK (outcome IN ('failed', 'dead', 'superseded', 'held', 'lost')),
    status        INTEGER,
    error         TEXT,
    PRIMARY KEY (delivery, attempt)
) STRICT, WITHOUT ROWID;

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

-- What every node, and every function in the database, must know about a handler.
CREATE TABLE oncebox_handlers (
    handler  TEXT NOT NULL PRIMARY KEY,
    paused   INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    attempts INTEGER NOT NULL CHECK (attempts > 0),
    base_ms  INTEGER NOT NULL,
    cap_ms   INTEGER NOT NULL,
    lease_ms INTEGER NOT NULL,
    on_dead  TEXT NOT NULL CHECK (on_dead IN ('skip', 'block'))
) STRICT, WITHOUT ROWID;

-- A running process. Its name is what the session lock is on.
CREATE TABLE oncebox_nodes (
    node          BLOB NOT NULL PRIMARY KEY,
    name          TEXT NOT NULL,
    started_at_ms INTEGER NOT NULL,
    seen_at_ms    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The audit log, and how far each action came: a killed one goes on where it stopped.
CREATE TABLE oncebox_actions (
    action         TEXT NOT NULL PRIMARY KEY,
    kind           TEXT NOT NULL CHECK (kind IN ('replay', 'release', 'discard', 'forget', 'requeue')),
    filter         TEXT NOT NULL,
    who            TEXT NOT NULL,
    counted        INTEGER,
    acted          INTEGER NOT NULL DEFAULT 0,
    phase          INTEGER NOT NULL DEFAULT 0,
    reached        BLOB NOT NULL,
    started_at_ms  INTEGER NOT NULL,
    finished_at_ms INTEGER
) STRICT, WITHOUT ROWID;
