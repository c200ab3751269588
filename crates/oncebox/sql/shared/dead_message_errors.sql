-- What the newest $1 dead messages gave up with, newest first.
SELECT id, key, destination, substr(last_error, 1, 400), created_at_ms FROM oncebox.outbox
WHERE state = 'dead' ORDER BY id DESC LIMIT $1
