-- What was told to whom: a row for each condition that somebody was told about and that is not over. It outlives the node
-- that told, so that another one neither repeats it nor forgets to say that it is over.
CREATE TABLE oncebox.alerts (
    receiver   text NOT NULL,
    condition  text NOT NULL,
    since_ms   bigint NOT NULL,
    told_at_ms bigint NOT NULL,
    PRIMARY KEY (receiver, condition)
);

-- What each process counted since it began (a JSON object of numbers): whoever looks at the conditions adds them up.
CREATE TABLE oncebox.node_counts (
    node   uuid PRIMARY KEY,
    at_ms  bigint NOT NULL,
    counts text NOT NULL
);
