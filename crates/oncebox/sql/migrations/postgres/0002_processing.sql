-- What processing needs: who holds a delivery, how often it was tried, what order asks for, and what operators did.

-- The database's clock in milliseconds, for leases and due times. The argument is what SQLite, which has no clock of
-- its own to offer, is handed instead; one text then serves both databases.
CREATE FUNCTION oncebox.now_ms(handed_in bigint DEFAULT NULL) RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

-- attempts_before: the attempts that no longer count, because a replay gave a fresh budget.
-- order_key: only for handlers that run one at a time per key; the event's key is the order among them.
-- node: the process that claimed, where it was a worker of ours. token stays after the end: an unknown commit is
-- settled by looking whose token is on the row.
ALTER TABLE oncebox.deliveries
    ADD COLUMN attempts_before bigint NOT NULL DEFAULT 0,
    ADD COLUMN order_key       uuid,
    ADD COLUMN node            uuid,
    ADD COLUMN claimed_at_ms   bigint,
    ADD COLUMN waits_for       uuid,
    ADD COLUMN wait_until_ms   bigint;

CREATE INDEX deliveries_claimed ON oncebox.deliveries (lease_until_ms) WHERE state = 'claimed';
CREATE INDEX deliveries_stopped ON oncebox.deliveries (state, delivery) WHERE state IN ('dead', 'held');
CREATE INDEX deliveries_in_order ON oncebox.deliveries (handler, order_key, key)
    WHERE order_key IS NOT NULL AND state IN ('ready', 'claimed', 'dead', 'held');
-- The referee of "one at a time": two nodes that claim at the same instant cannot both commit.
CREATE UNIQUE INDEX deliveries_one_at_a_time ON oncebox.deliveries (handler, order_key)
    WHERE order_key IS NOT NULL AND state = 'claimed';
CREATE INDEX deliveries_waiting ON oncebox.deliveries (waits_for) WHERE waits_for IS NOT NULL AND state = 'ready';

-- Attempts that did not end in done; the one that did is the delivery itself. As short-lived as the payload.
CREATE TABLE oncebox.attempts (
    delivery      uuid NOT NULL,
    attempt       bigint NOT NULL,
    node          uuid,
    started_at_ms bigint,
    ended_at_ms   bigint NOT NULL,
    outcome       text NOT NULL CHECK (outcome IN ('failed', 'dead', 'superseded', 'held', 'lost')),
    status        bigint,
    error         text,
    PRIMARY KEY (delivery, attempt)
);

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

-- What every node, and every function in the database, must know about a handler.
CREATE TABLE oncebox.handlers (
    handler  text PRIMARY KEY,
    paused   bigint NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    attempts bigint NOT NULL CHECK (attempts > 0),
    base_ms  bigint NOT NULL,
    cap_ms   bigint NOT NULL,
    lease_ms bigint NOT NULL,
    on_dead  text NOT NULL CHECK (on_dead IN ('skip', 'block'))
);

-- A running process. Its name is what the session lock is on.
CREATE TABLE oncebox.nodes (
    node          uuid PRIMARY KEY,
    name          text NOT NULL,
    started_at_ms bigint NOT NULL,
    seen_at_ms    bigint NOT NULL
);

-- The audit log, and how far each action came: a killed one goes on where it stopped.
CREATE TABLE oncebox.actions (
    action         text PRIMARY KEY,
    kind           text NOT NULL CHECK (kind IN ('replay', 'release', 'discard', 'forget', 'requeue')),
    filter         text NOT NULL,
    who            text NOT NULL,
    counted        bigint,
    acted          bigint NOT NULL DEFAULT 0,
    phase          bigint NOT NULL DEFAULT 0,
    reached        uuid NOT NULL,
    started_at_ms  bigint NOT NULL,
    finished_at_ms bigint
);
