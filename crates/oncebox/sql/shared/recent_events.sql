-- Events between two keys by source and state, and how many arrivals they had beyond the first. For what was the case
-- at $3, an event that came again since counts as one that came once: nobody kept how often it had come by then.
SELECT e.source, e.state, count(*), coalesce(CAST(sum(a.count) AS bigint), 0)
FROM oncebox.events e
LEFT JOIN oncebox.arrivals a ON a.key = e.key AND a.key >= $1 AND a.key < $2 AND a.last_at_ms < $3
WHERE e.key >= $1 AND e.key < $2
GROUP BY e.source, e.state ORDER BY e.source, e.state
