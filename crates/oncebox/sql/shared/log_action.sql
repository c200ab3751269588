-- A line for what is done at once, in the transaction that does it.
INSERT INTO oncebox.actions (action, kind, filter, who, counted, acted, reached, started_at_ms, finished_at_ms)
VALUES ($1, $2, $3, $4, 1, $5, $6, (SELECT oncebox.now_ms($7)), (SELECT oncebox.now_ms($7)))
