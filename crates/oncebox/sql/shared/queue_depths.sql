-- Only what waits or is stopped, each by its own index: what is done is most of the table and is never read here. SQLite
-- takes a partial index only where its condition stands in the question.
SELECT handler, 'ready', count(*), min(due_at_ms) - (SELECT c.offset_ms FROM oncebox.steady_clock c)
FROM oncebox.deliveries WHERE state = 'ready' GROUP BY handler
UNION ALL
SELECT handler, 'claimed', count(*), min(lease_until_ms) - (SELECT c.offset_ms FROM oncebox.steady_clock c)
FROM oncebox.deliveries WHERE state = 'claimed' GROUP BY handler
UNION ALL
SELECT handler, 'dead', count(*), NULL FROM oncebox.deliveries
WHERE state = 'dead' AND state IN ('dead', 'held') GROUP BY handler
UNION ALL
SELECT handler, 'held', count(*), NULL FROM oncebox.deliveries
WHERE state = 'held' AND state IN ('dead', 'held') GROUP BY handler
