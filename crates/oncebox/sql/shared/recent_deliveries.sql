-- Deliveries between two keys by handler and state, and how many of them ended their first attempt.
SELECT handler, state, count(*), NULL,
       CAST(sum(CASE WHEN attempt > 1 OR (attempt = 1 AND state <> 'claimed') THEN 1 ELSE 0 END) AS bigint)
FROM oncebox.deliveries WHERE delivery >= $1 AND delivery < $2
GROUP BY handler, state ORDER BY handler, state
