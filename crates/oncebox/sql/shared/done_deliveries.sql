-- In the order of the keys, for `reconcile`.
SELECT d.key, e.event_id, e.type, d.handler, d.finished_at_ms, d.delivery
FROM oncebox.deliveries d JOIN oncebox.events e ON e.key = d.key
WHERE d.delivery > $1 AND d.state = 'done' AND e.source = $2
  AND (CAST($3 AS text) IS NULL OR d.handler = $3)
  AND (CAST($4 AS bigint) IS NULL OR e.received_at_ms >= $4)
  AND (CAST($5 AS bigint) IS NULL OR e.received_at_ms < $5)
ORDER BY d.delivery LIMIT $6
