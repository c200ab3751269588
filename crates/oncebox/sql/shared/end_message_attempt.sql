-- The end of an attempt that was not taken. $5 is the pause before the next one, or null where there is none.
UPDATE oncebox.outbox
SET state = $4, status = $7, last_error = $6, lease_until_ms = NULL,
    due_at_ms = CASE WHEN CAST($5 AS bigint) IS NULL THEN due_at_ms ELSE (SELECT oncebox.steady_ms($8, $3)) + $5 END
WHERE id = $1 AND token = $2 AND state = 'claimed'
