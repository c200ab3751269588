-- What an idle node asks: one read for workers and relay, by the indexes of what is ready, and no lock.
SELECT 'handler', h.handler FROM oncebox.handlers h
WHERE h.paused = 0 AND EXISTS (
    SELECT 1 FROM oncebox.deliveries d
    WHERE d.handler = h.handler AND d.state = 'ready' AND d.due_at_ms <= (SELECT oncebox.sure_ms($2, $1)))
UNION ALL
SELECT 'lost', h.handler FROM oncebox.handlers h
WHERE h.paused = 0 AND EXISTS (
    SELECT 1 FROM oncebox.deliveries d
    WHERE d.handler = h.handler AND d.state = 'ready' AND d.lost > 0 AND d.due_at_ms <= (SELECT oncebox.sure_ms($2, $1)))
UNION ALL
SELECT 'ordered', h.handler FROM oncebox.handlers h
WHERE h.paused = 0 AND EXISTS (
    SELECT 1 FROM oncebox.deliveries d
    WHERE d.handler = h.handler AND d.order_key IS NOT NULL AND d.state IN ('ready', 'claimed', 'dead', 'held'))
UNION ALL
SELECT 'destination', t.destination FROM oncebox.destinations t
WHERE EXISTS (
    SELECT 1 FROM oncebox.outbox m
    WHERE m.destination = t.destination AND m.state = 'ready' AND m.due_at_ms <= (SELECT oncebox.sure_ms($2, $1)))
