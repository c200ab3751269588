-- By destination: what is ready, counted up to $1, and when the oldest of it was due.
SELECT t.destination,
       (SELECT count(*) FROM (SELECT 1 FROM oncebox.outbox o
                              WHERE o.destination = t.destination AND o.state = 'ready' LIMIT $1) counted),
       (SELECT min(o.due_at_ms) - (SELECT c.offset_ms FROM oncebox.steady_clock c)
        FROM oncebox.outbox o WHERE o.destination = t.destination AND o.state = 'ready')
FROM oncebox.destinations t ORDER BY t.destination
