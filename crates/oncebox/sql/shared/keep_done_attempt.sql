-- The attempt that was done is told by the delivery itself, until the delivery runs again.
INSERT INTO oncebox.attempts (delivery, attempt, node, started_at_ms, ended_at_ms, outcome)
SELECT delivery, attempt, node, claimed_at_ms, finished_at_ms, 'done'
FROM oncebox.deliveries WHERE delivery = $1 AND state = 'done' AND finished_at_ms IS NOT NULL
ON CONFLICT (delivery, attempt) DO NOTHING
