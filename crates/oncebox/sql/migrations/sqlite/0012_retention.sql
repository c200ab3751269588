-- What retention needs: how long things live, how far it came, what it saw of the clocks, and how many identities there are.

CREATE INDEX oncebox_ledger_by_age ON oncebox_ledger (key);
CREATE INDEX oncebox_repeats_by_age ON oncebox_repeats (key);

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

-- The audit log also holds who confirmed the time. Which kinds there are is the program's to say; SQLite changes a check
-- only with its table.
CREATE TABLE oncebox_actions_new (
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
INSERT INTO oncebox_actions_new
SELECT action, kind, filter, who, counted, acted, phase, reached, started_at_ms, finished_at_ms FROM oncebox_actions;
DROP TABLE oncebox_actions;
ALTER TABLE oncebox_actions_new RENAME TO oncebox_actions;
