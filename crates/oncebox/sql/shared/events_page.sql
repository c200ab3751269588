-- Newest first. Every filter is optional: a null leaves it out. $9 is how far back this page looks.
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
ORDER BY e.key DESC LIMIT $8
