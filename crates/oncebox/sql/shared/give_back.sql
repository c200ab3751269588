-- A clean stop or an open circuit: back in line, and the attempt was none.
UPDATE oncebox.deliveries
SET state = 'ready', attempt = attempt - 1, lease_until_ms = NULL, due_at_ms = (SELECT oncebox.steady_ms($5, $3)) + $4
WHERE delivery = $1 AND token = $2 AND state = 'claimed'
