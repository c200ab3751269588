-- Events by the state of their deliveries, newest first; the first column is the delivery. Bounds as in deliveries_page.
SELECT e.key, e.source, e.event_id, e.type, e.identity, e.body_sha256, e.state, e.reason, e.original, e.received_at_ms,
       1 + coalesce(a.count, 0), coalesce(a.last_at_ms, e.received_at_ms), d.delivery
FROM oncebox.deliveries d JOIN oncebox.events e ON e.key = d.key AND e.key >= $11 AND e.key <= $12
     LEFT JOIN oncebox.arrivals a ON a.key = e.key AND a.key >= $11 AND a.key <= $12
WHERE d.delivery < $1 AND d.delivery >= $10
  AND d.state = $2
  AND (CAST($3 AS text) IS NULL OR d.handler = $3)
  AND (CAST($4 AS text) IS NULL OR e.source = $4)
  AND (CAST($5 AS text) IS NULL OR e.type LIKE $5 ESCAPE '!')
  AND (CAST($6 AS bigint) IS NULL OR e.received_at_ms >= $6)
  AND (CAST($7 AS bigint) IS NULL OR e.received_at_ms < $7)
  AND (CAST($8 AS text) IS NULL OR e.event_id LIKE $8 ESCAPE '!' OR e.type LIKE $8 ESCAPE '!')
ORDER BY d.delivery DESC LIMIT $9
