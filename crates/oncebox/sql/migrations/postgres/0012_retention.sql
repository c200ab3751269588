-- What retention needs: how long things live, how far it came, what it saw of the clocks, and how many identities there are.

-- The ledger lies in the order of its keys, so a summary of its pages finds what is old: no byte more per identity.
CREATE INDEX ledger_by_age ON oncebox.ledger USING brin (key) WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX repeats_by_age ON oncebox.repeats USING brin (key) WITH (pages_per_range = 32, autosummarize = on);

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

-- The audit log also holds who confirmed the time. Which kinds there are is the program's to say.
ALTER TABLE oncebox.actions DROP CONSTRAINT IF EXISTS actions_kind_check;
