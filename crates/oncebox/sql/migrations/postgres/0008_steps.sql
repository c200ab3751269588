-- The steps of a handler that are done, with their results: a retry of the delivery skips them.
CREATE TABLE oncebox.steps (
    delivery uuid NOT NULL,
    step     text NOT NULL,
    result   text NOT NULL,
    at_ms    bigint NOT NULL,
    PRIMARY KEY (delivery, step)
);
