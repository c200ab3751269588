-- What was not sent never will be. $2 is no bytes at all.
UPDATE oncebox.outbox
SET body = $2, headers = '{}', path = '', order_key = NULL,
    last_error = CASE WHEN state IN ('sent', 'discarded') AND last_error IS NULL THEN NULL ELSE 'erased' END,
    state = CASE WHEN state IN ('sent', 'discarded') THEN state ELSE 'discarded' END, lease_until_ms = NULL
WHERE key = $1
