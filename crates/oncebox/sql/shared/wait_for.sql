-- Waiting uses no attempt, and the deadline is set once.
UPDATE oncebox.deliveries
SET state = 'ready', attempt = attempt - 1, lease_until_ms = NULL, waits_for = $4,
    wait_until_ms = coalesce(wait_until_ms, (SELECT oncebox.steady_ms($6, $3)) + $5),
    due_at_ms = coalesce(wait_until_ms, (SELECT oncebox.steady_ms($6, $3)) + $5)
WHERE delivery = $1 AND token = $2 AND state = 'claimed'
  AND (wait_until_ms IS NULL OR wait_until_ms > (SELECT oncebox.steady_ms($6, $3)))
