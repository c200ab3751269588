-- What came since a key, oldest first: for people who watch. Every filter is optional; $6 is how far one look goes.
SELECT e.key, e.source, e.event_id, e.type, e.identity, e.body_sha256, e.state, e.reason, e.original, e.received_at_ms,
       1 + coalesce(a.count, 0), coalesce(a.last_at_ms, e.received_at_ms)
FROM oncebox.events e LEFT JOIN oncebox.arrivals a ON a.key = e.key AND a.key > $1 AND a.key <= $6
WHERE e.key > $1 AND e.key <= $6
  AND (CAST($2 AS text) IS NULL OR e.source = $2)
  AND (CAST($4 AS text) IS NULL OR e.type LIKE $4 ESCAPE '!')
  AND (CAST($3 AS text) IS NULL OR e.state = $3)
ORDER BY e.key LIMIT $5
