-- $1 and $2 bound the keys that deliveries of the event can have.
SELECT a.delivery, d.handler, a.attempt, a.node, a.started_at_ms, a.ended_at_ms, a.outcome, a.status, a.error
FROM oncebox.attempts a JOIN oncebox.deliveries d ON d.delivery = a.delivery
WHERE a.delivery BETWEEN $1 AND $2 AND d.key = $3 ORDER BY d.handler, a.attempt
