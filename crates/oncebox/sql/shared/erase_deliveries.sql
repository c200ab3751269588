-- What has not run never will: its bytes are gone. An error's text may quote them. $2 and $3 bound the keys.
UPDATE oncebox.deliveries
SET last_error = CASE WHEN state IN ('done', 'superseded', 'discarded') AND last_error IS NULL THEN NULL ELSE 'erased' END,
    state = CASE WHEN state IN ('done', 'superseded', 'discarded') THEN state ELSE 'discarded' END,
    finished_at_ms = coalesce(finished_at_ms, (SELECT oncebox.now_ms($4))),
    lease_until_ms = NULL, waits_for = NULL, wait_until_ms = NULL
WHERE key = $1 AND delivery BETWEEN $2 AND $3
