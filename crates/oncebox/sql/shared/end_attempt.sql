-- The end of an attempt that was not done. $5 is the pause before the next one, or null where there is none.
UPDATE oncebox.deliveries
SET state = $4, last_error = $6, lease_until_ms = NULL, lost = 0,
    due_at_ms = CASE WHEN CAST($5 AS bigint) IS NULL THEN due_at_ms ELSE (SELECT oncebox.steady_ms($7, $3)) + $5 END,
    finished_at_ms = CASE WHEN CAST($5 AS bigint) IS NULL THEN (SELECT oncebox.now_ms($3)) END
WHERE delivery = $1 AND token = $2 AND state = 'claimed'
