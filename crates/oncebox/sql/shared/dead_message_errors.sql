-- What the newest $1 dead messages gave up with, newest first.
SELECT m.id, k.key, m.destination, substr(m.last_error, 1, 400), m.created_at_ms
FROM oncebox.outbox m JOIN oncebox.outbox_contents k ON k.id = m.id
WHERE m.state = 'dead' ORDER BY m.id DESC LIMIT $1
