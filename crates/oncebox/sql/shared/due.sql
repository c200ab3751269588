-- What an idle node asks: one read for workers and relay, by the indexes of what is ready, and no lock.
SELECT 'handler', h.handler, CASE WHEN EXISTS (
    SELECT 1 FROM oncebox.deliveries l
    WHERE l.handler = h.handler AND l.state = 'ready' AND l.lost > 0 AND l.due_at_ms <= (SELECT oncebox.now_ms($1)))
    THEN 1 ELSE 0 END
FROM oncebox.handlers h
WHERE h.paused = 0 AND EXISTS (
    SELECT 1 FROM oncebox.deliveries d
    WHERE d.handler = h.handler AND d.state = 'ready' AND d.due_at_ms <= (SELECT oncebox.now_ms($1)))
UNION ALL
SELECT 'destination', t.destination, 0 FROM oncebox.destinations t
WHERE EXISTS (
    SELECT 1 FROM oncebox.outbox m
    WHERE m.destination = t.destination AND m.state = 'ready' AND m.due_at_ms <= (SELECT oncebox.now_ms($1)))
