-- What was done stays to be seen: the audit log also holds who paused and resumed a handler, and an attempt that ended
-- in done is kept when its delivery runs again. SQLite changes a check only with its table.

CREATE TABLE oncebox_actions_new (
    action         TEXT NOT NULL PRIMARY KEY,
    kind           TEXT NOT NULL CHECK (kind IN
                   ('replay', 'release', 'discard', 'forget', 'requeue', 'pause', 'resume')),
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

CREATE TABLE oncebox_attempts_new (
    delivery      BLOB NOT NULL,
    attempt       INTEGER NOT NULL,
    node          BLOB,
    started_at_ms INTEGER,
    ended_at_ms   INTEGER NOT NULL,
    outcome       TEXT NOT NULL CHECK (outcome IN ('failed', 'dead', 'superseded', 'held', 'lost', 'done')),
    status        INTEGER,
    error         TEXT,
    PRIMARY KEY (delivery, attempt)
) STRICT, WITHOUT ROWID;
INSERT INTO oncebox_attempts_new
SELECT delivery, attempt, node, started_at_ms, ended_at_ms, outcome, status, error FROM oncebox_attempts;
DROP TABLE oncebox_attempts;
ALTER TABLE oncebox_attempts_new RENAME TO oncebox_attempts;
