-- The steps of a handler that are done, with their results: a retry of the delivery skips them.
CREATE TABLE oncebox_steps (
    delivery BLOB NOT NULL,
    step     TEXT NOT NULL,
    result   TEXT NOT NULL,
    at_ms    INTEGER NOT NULL,
    PRIMARY KEY (delivery, step)
) STRICT;
