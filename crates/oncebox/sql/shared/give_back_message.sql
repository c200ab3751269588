-- A clean stop or an open circuit: back in line, and the attempt was none.
UPDATE oncebox.outbox
SET state = 'ready', attempt = attempt - 1, lease_until_ms = NULL, due_at_ms = (SELECT oncebox.steady_ms($5, $3)) + $4
WHERE id = $1 AND token = $2 AND state = 'claimed'
