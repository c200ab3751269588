-- What an idle node asks: one read, by the index of what is ready, and no lock.
SELECT h.handler FROM oncebox.handlers h
WHERE h.paused = 0 AND EXISTS (
    SELECT 1 FROM oncebox.deliveries d
    WHERE d.handler = h.handler AND d.state = 'ready' AND d.due_at_ms <= (SELECT oncebox.now_ms($1)))
