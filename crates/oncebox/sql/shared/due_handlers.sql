-- What an idle node asks: one read, by the indexes of what is ready, and no lock.
SELECT h.handler, CASE WHEN EXISTS (
    SELECT 1 FROM oncebox.deliveries l
    WHERE l.handler = h.handler AND l.state = 'ready' AND l.lost > 0 AND l.due_at_ms <= (SELECT oncebox.now_ms($1)))
    THEN 1 ELSE 0 END
FROM oncebox.handlers h
WHERE h.paused = 0 AND EXISTS (
    SELECT 1 FROM oncebox.deliveries d
    WHERE d.handler = h.handler AND d.state = 'ready' AND d.due_at_ms <= (SELECT oncebox.now_ms($1)))
