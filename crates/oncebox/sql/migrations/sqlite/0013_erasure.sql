-- The audit log also holds erasures. Which kinds there are is the program's to say: a list here would have to be written
-- anew, table and all, with every kind.
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
