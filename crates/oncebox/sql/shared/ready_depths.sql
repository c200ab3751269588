-- By handler: what is ready, counted up to $1, and when the oldest of it was due.
SELECT known.handler,
       (SELECT count(*) FROM (SELECT 1 FROM oncebox.deliveries d
                              WHERE d.handler = known.handler AND d.state = 'ready' LIMIT $1) counted),
       (SELECT min(d.due_at_ms) - (SELECT c.offset_ms FROM oncebox.steady_clock c)
        FROM oncebox.deliveries d WHERE d.handler = known.handler AND d.state = 'ready')
FROM oncebox.handlers known ORDER BY known.handler
