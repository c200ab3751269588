-- Only what waits or is stopped, each by its own index: what is sent is most of the table and is never read here.
SELECT destination, 'ready', count(*), min(due_at_ms) - (SELECT c.offset_ms FROM oncebox.steady_clock c)
FROM oncebox.outbox WHERE state = 'ready' GROUP BY destination
UNION ALL
SELECT destination, 'claimed', count(*), NULL FROM oncebox.outbox WHERE state = 'claimed' GROUP BY destination
UNION ALL
SELECT destination, 'dead', count(*), NULL FROM oncebox.outbox WHERE state = 'dead' GROUP BY destination
