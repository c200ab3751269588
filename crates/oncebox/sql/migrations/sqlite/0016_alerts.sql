-- What was told to whom: a row for each condition that somebody was told about and that is not over. It outlives the
-- process that told, so that the next one neither repeats it nor forgets to say that it is over.
CREATE TABLE oncebox_alerts (
    receiver   TEXT NOT NULL,
    condition  TEXT NOT NULL,
    since_ms   INTEGER NOT NULL,
    told_at_ms INTEGER NOT NULL,
    PRIMARY KEY (receiver, condition)
) STRICT, WITHOUT ROWID;

-- What each process counted since it began (a JSON object of numbers): whoever looks at the conditions adds them up.
CREATE TABLE oncebox_node_counts (
    node   BLOB PRIMARY KEY,
    at_ms  INTEGER NOT NULL,
    counts TEXT NOT NULL
) STRICT, WITHOUT ROWID;
