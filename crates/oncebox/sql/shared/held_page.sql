-- What waits for a person: held events, and events that have a held delivery. Newest first, filters as in events_page;
-- $10 and $11 bound the keys of deliveries. Where a condition is said twice, the second one is an index's own.
SELECT e.key, e.source, e.event_id, e.type, e.identity, e.body_sha256, e.state, e.reason, e.original, e.received_at_ms,
       1 + coalesce(a.count, 0), coalesce(a.last_at_ms, e.received_at_ms)
FROM oncebox.events e LEFT JOIN oncebox.arrivals a ON a.key = e.key AND a.key >= $9 AND a.key < $7
WHERE (CAST($1 AS text) IS NULL OR e.source = $1)
  AND (CAST($2 AS text) IS NULL OR e.type LIKE $2 ESCAPE '!')
  AND (CAST($3 AS text) IS NULL OR e.state = $3)
  AND (CAST($4 AS bigint) IS NULL OR e.received_at_ms >= $4)
  AND (CAST($5 AS bigint) IS NULL OR e.received_at_ms < $5)
  AND (CAST($6 AS text) IS NULL OR e.event_id LIKE $6 ESCAPE '!' OR e.type LIKE $6 ESCAPE '!')
  AND e.key < $7 AND e.key >= $9
  AND e.key IN (SELECT h.key FROM oncebox.events h
                WHERE h.state = 'held' AND h.state <> 'accepted' AND h.key < $7 AND h.key >= $9
                UNION SELECT d.key FROM oncebox.deliveries d
                      WHERE d.state = 'held' AND d.state IN ('dead', 'held') AND d.delivery >= $10 AND d.delivery <= $11)
ORDER BY e.key DESC LIMIT $8
