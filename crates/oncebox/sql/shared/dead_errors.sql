-- What the newest $1 dead deliveries gave up with, newest first.
SELECT delivery, key, handler, substr(last_error, 1, 400), finished_at_ms FROM oncebox.deliveries
WHERE state = 'dead' AND state IN ('dead', 'held') ORDER BY delivery DESC LIMIT $1
